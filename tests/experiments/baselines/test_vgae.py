"""The graph auto-encoder: it reconstructs planted edges, from edges and attributes or from attributes alone."""

from typing import ClassVar

import numpy as np
import pytest
import torch

import glace
from glace.experiments.baselines.graph_networks import (
    VGAE,
    non_edges,
    propagation,
    seeded,
    torch_geometric_nn,
    upper_pairs,
)
from glace.rng import Streams
from tests.experiments.baselines.graph_network_contract import GraphNetworkContract, planted


class TestContract(GraphNetworkContract):
    method = VGAE
    options: ClassVar = {"dim": 16, "hidden": 32, "max_steps": 100}


def test_a_convolution_along_the_propagation_is_that_of_torch_geometric():
    graph = planted()
    adjacency = graph.with_edges(graph.edges(), 1.0 + np.arange(graph.num_edges) % 3).adjacency
    pairs = torch.from_numpy(np.stack(adjacency.nonzero()).astype(np.int64))
    x = torch.from_numpy(np.random.default_rng(0).random((adjacency.shape[0], 4), dtype=np.float32))
    library = torch_geometric_nn("the test")
    with seeded(Streams(0)):
        layer, plain = library.GCNConv(4, 3), library.GCNConv(4, 3, normalize=False)
    plain.load_state_dict(layer.state_dict())
    wanted = layer(x, pairs, torch.from_numpy(adjacency.data.copy()))
    torch.testing.assert_close(plain(x, propagation(adjacency)), wanted)


def test_drawn_pairs_are_no_edges():
    adjacency = planted().adjacency
    edges = upper_pairs(adjacency)
    assert 2 * len(edges) == adjacency.nnz
    drawn = non_edges(adjacency, 5000, np.random.default_rng(0))
    assert 4000 < len(drawn) < 5000
    assert not planted().has_edges(drawn).any()
    assert (drawn[:, 0] != drawn[:, 1]).all()


def test_a_step_that_blows_up_says_so():
    with pytest.raises(glace.errors.TrainingDiverged, match="smaller learning rate"):
        VGAE(learning_rate=1e30, max_steps=10, dim=4, hidden=4).embed(planted(), Streams(0))
