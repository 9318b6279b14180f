"""The networks VGAE and GraphSAGE: they find planted edges, from edges and attributes or from attributes alone."""

from typing import ClassVar

import numpy as np
import pytest
import torch

import glace
from glace.experiments.baselines.graph_networks import (
    VGAE,
    GraphSAGE,
    Sage,
    View,
    hop,
    non_edges,
    propagation,
    seeded,
    torch_geometric_nn,
    upper_pairs,
)
from glace.rng import Streams
from tests.experiments.baselines.graph_network_contract import GraphNetworkContract, planted


class TestVGAE(GraphNetworkContract):
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


# GraphSAGE: walks, samples of neighbours, and what is learned from them.


class TestGraphSAGE(GraphNetworkContract):
    method = GraphSAGE
    options: ClassVar = {
        "dim": 16,
        "hidden": 32,
        "max_steps": 60,
        "batch_size": 64,
        "negative_pool_size": 64,
        "learning_rate": 0.01,
    }

    def test_points_have_length_one(self, trained):
        np.testing.assert_allclose(np.linalg.norm(trained.mean, axis=1), 1, rtol=1e-5)


def sage(**options) -> tuple[Sage, View]:
    view = View.of(planted())
    with seeded(Streams(0)):
        network = Sage(view, GraphSAGE(dim=8, hidden=8, **options), Streams(0))
    assert isinstance(network, Sage)
    return network, view


def test_a_hop_has_all_edges_or_at_most_so_many():
    adjacency, nodes = planted().adjacency, np.array([3, 50, 7])
    every, some = hop(adjacency, nodes), hop(adjacency, nodes, 4, np.random.default_rng(0))
    for each in (every, some):
        np.testing.assert_array_equal(each.sources[each.own], nodes)
        from_node, to_node = each.sources[each.edges[0]], nodes[each.edges[1]]
        assert planted().has_edges(np.column_stack([to_node, from_node])).all()
    degrees = np.diff(adjacency.indptr)[nodes]
    np.testing.assert_array_equal(np.bincount(every.edges[1]), degrees)
    np.testing.assert_array_equal(np.bincount(some.edges[1]), np.minimum(degrees, 4))


def test_points_in_blocks_are_those_of_the_plain_layers(monkeypatch):
    monkeypatch.setattr("glace.experiments.baselines.graph_networks.BLOCK", 64)
    network, view = sage()
    edges = torch.from_numpy(np.stack(view.adjacency.nonzero()).astype(np.int64))
    with torch.no_grad():
        x = network.input(view.attributes, np.arange(view.size))
        hidden = torch.relu(network.layers[0](x, edges))
        wanted = torch.nn.functional.normalize(network.layers[1](hidden, edges), dim=1)
    torch.testing.assert_close(network.points(view), wanted)


def test_samples_that_hold_all_neighbours_give_the_same_points():
    network, view = sage(first_hop_samples=1000, second_hop_samples=1000)
    nodes = np.array([1, 5, 80])
    sampled = network._sampled(view, nodes, np.random.default_rng(0))
    torch.testing.assert_close(sampled.detach(), network.points(view)[nodes])


def test_walks_of_one_edge_end_at_neighbours_and_longer_ones_elsewhere_too():
    network, view = sage(walk_length=1, batch_size=500)
    starts, ends = network._pairs(view.adjacency, 0)
    assert planted().has_edges(np.column_stack([starts, ends])).all()
    network, view = sage(walk_length=3, batch_size=500)
    starts, ends = network._pairs(view.adjacency, 0)
    assert 0.2 < planted().has_edges(np.column_stack([starts, ends])).mean() < 0.8


def test_walks_follow_heavy_edges():
    graph = planted()
    pairs = graph.edges()
    heavy = pairs[:, 0] % 2 == 0
    view = View.of(graph.with_edges(pairs, np.where(heavy, 1e4, 1.0)))
    with seeded(Streams(0)):
        network = Sage(view, GraphSAGE(walk_length=1, batch_size=2000), Streams(0))
    assert isinstance(network, Sage)
    starts, ends = network._pairs(view.adjacency, 0)
    assert (np.minimum(starts, ends) % 2 == 0).mean() > 0.8
