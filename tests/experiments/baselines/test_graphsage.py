"""GraphSAGE: walks, samples of neighbours, and what is learned from them."""

from typing import ClassVar

import numpy as np
import torch

from glace.experiments.baselines.graph_networks import GraphSAGE, Sage, View, hop, seeded
from glace.rng import Streams
from tests.experiments.baselines.graph_network_contract import GraphNetworkContract, planted


class TestContract(GraphNetworkContract):
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
