"""Rings around anchors, against scipy's shortest paths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from glace.experiments.baselines import graph2gauss as hops

NODES = 12
FAR = np.iinfo(np.int64).max


def random_graph(seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((NODES, NODES)) < rng.uniform(0.02, 0.4)
    np.fill_diagonal(dense, False)
    return rng, csr_array(dense.astype(np.float32))


def rings(adjacency, anchors, rng, depth, reach):
    """The kernel's answer, and its scratch after it."""
    seen, ball = np.zeros(NODES, bool), np.empty(NODES, np.int64)
    nodes = np.empty((len(anchors), depth + 1), np.int64)
    sizes = np.empty(nodes.shape)
    # Every node is a candidate: one that is farther is found if there is one.
    candidates = rng.permuted(np.tile(np.arange(NODES), (len(anchors), 1)), axis=1)
    uniform = rng.random((len(anchors), 2 * depth))
    graph = adjacency.indptr, adjacency.indices
    hops.sample_hops(*graph, anchors, uniform, candidates, reach, seen, ball, nodes, sizes)
    return nodes, sizes, seen


def true_ring(adjacency, depth):
    """(n, n) ring of every pair, 0 to `depth` for 1 to depth + 1 and more hops; -1 on the diagonal."""
    steps = shortest_path(adjacency, unweighted=True)
    return np.minimum(steps - 1, depth).astype(int)


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_rings_and_their_sizes_are_those_of_shortest_paths(seed, depth):
    rng, adjacency = random_graph(seed)
    anchors = np.arange(NODES)
    nodes, sizes, seen = rings(adjacency, anchors, rng, depth, reach=1000)
    ring = true_ring(adjacency, depth)
    wanted = np.array([[(row == k).sum() for k in range(depth + 1)] for row in ring])
    np.testing.assert_array_equal(sizes, wanted)
    np.testing.assert_array_equal(nodes >= 0, wanted > 0)
    anchor, column = np.nonzero(nodes >= 0)
    np.testing.assert_array_equal(ring[anchor, nodes[anchor, column]], column)
    assert not seen.any(), "scratch is left as it came"


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_short_reach_draws_no_nearer_node_than_it_says(seed, reach):
    rng, adjacency = random_graph(seed)
    anchors = np.repeat(np.arange(NODES), 4)
    nodes, sizes, seen = rings(adjacency, anchors, rng, 2, reach)
    ring = true_ring(adjacency, 2)[anchors]
    np.testing.assert_array_equal(sizes[:, 0], (ring == 0).sum(1), "the first ring is always whole")
    found = np.where(nodes < 0, FAR, np.take_along_axis(ring, nodes.clip(0), axis=1))
    assert (found[:, 0] == np.where(nodes[:, 0] < 0, FAR, 0)).all()
    assert (found[:, 1] == np.where(nodes[:, 1] < 0, FAR, 1)).all()
    assert (found[:, 2] >= 1).all(), "what was not followed may pass for farther, a neighbour never"
    assert not seen.any()
