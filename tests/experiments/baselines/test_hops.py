"""Batches of rings: even draws, right sizes, the same for the same step; triplets that hold."""

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

import glace
from glace.errors import InputError
from glace.experiments.baselines.graph2gauss import HopBatch, HopSampler
from glace.rng import Streams


def sampler(graph, hops=2, batch_size=300, seed=0, **options):
    return HopSampler(graph, hops, batch_size, Streams(seed), **options)


def two_stars():
    """Hub 0 with leaves 1 to 4, hub 5 with leaves 6 to 9, joined by their hubs; node 10 is alone."""
    edges = [(0, leaf) for leaf in range(1, 5)] + [(5, leaf) for leaf in range(6, 10)] + [(0, 5)]
    return glace.from_arrays(np.array(edges), ids=range(11))


def test_each_ring_is_drawn_from_evenly():
    drawn = sampler(two_stars()).around(np.full(20_000, 1), np.random.default_rng(0)).nodes
    for column, ring in enumerate([[0], [2, 3, 4, 5], [6, 7, 8, 9, 10]]):
        found = drawn[drawn[:, column] >= 0, column]  # now and then no redraw finds a farther node
        share = np.bincount(found, minlength=11) / len(found)
        np.testing.assert_allclose(share[ring], 1 / len(ring), atol=0.02)


def test_what_is_followed_in_part_is_drawn_from_evenly_and_counted_in_full():
    """From the leaf 1 the hub's edges lead to 4 new nodes; any 3 of the 5 are followed."""
    batch = sampler(two_stars(), reach=3).around(np.full(20_000, 1), np.random.default_rng(0))
    share = np.bincount(batch.nodes[:, 1], minlength=11) / len(batch.nodes)
    np.testing.assert_allclose(share[[2, 3, 4, 5]], 1 / 4, atol=0.06)
    assert share[[2, 3, 4, 5]].sum() == pytest.approx(1)
    assert batch.sizes[:, 1].mean() == pytest.approx(4, rel=0.02)


def test_anchors_are_drawn_evenly_among_nodes_with_edges():
    anchors = sampler(two_stars(), batch_size=20_000).batch(0).anchors
    np.testing.assert_allclose(np.bincount(anchors, minlength=11) / 20_000, [0.1] * 10 + [0], atol=0.01)


@pytest.mark.parametrize("directed", [False, True])
def test_the_nearer_of_a_triplet_has_fewer_hops(directed):
    graph = glace.datasets.planted(120, communities=4, degree=4, attributes=20, words=4, directed=directed)
    steps = shortest_path(graph.adjacency, unweighted=True)
    anchor, closer, further, weight = sampler(graph, hops=3).batch(0).triplets()
    assert (steps[anchor, closer] < steps[anchor, further]).all()
    ring = np.minimum(steps, 4)  # all farther nodes are one ring
    sizes = [(ring[anchor] == ring[anchor, other][:, None]).sum(1) for other in (closer, further)]
    np.testing.assert_array_equal(weight, sizes[0] * sizes[1])


def test_triplets_pair_every_two_rings_that_are_there():
    nodes = np.array([[4, 5, 6], [7, -1, 8], [9, -1, -1]])
    sizes = np.array([[2.0, 3.0, 10.0], [1.0, 0.0, 5.0], [2.0, 0.0, 0.0]])
    triplets = HopBatch(np.array([0, 1, 2]), nodes, sizes).triplets()
    rows = sorted(zip(*(part.tolist() for part in triplets), strict=True))
    assert rows == [(0, 4, 5, 6.0), (0, 4, 6, 20.0), (0, 5, 6, 30.0), (1, 7, 8, 5.0)]


def test_a_batch_depends_on_seed_and_step_only(planted):
    first, again = sampler(planted).batch(7), sampler(planted).batch(7)
    np.testing.assert_array_equal(first.nodes, again.nodes)
    assert (first.nodes != sampler(planted).batch(8).nodes).any()
    assert (first.nodes != sampler(planted, seed=1).batch(7).nodes).any()


def test_graphs_that_rank_nothing_are_refused():
    with pytest.raises(InputError, match="complete graph"):
        sampler(glace.from_arrays(np.array([[0, 1], [0, 2], [1, 2]])))
