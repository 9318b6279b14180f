"""Short walks beside powers of dense matrices; candidates beside a sort of all nodes."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from glace.kernels.compile import kernel_threads
from glace.kernels.walks import (
    COLUMNS,
    DECAY,
    FOUR,
    PATHS,
    THREE,
    TWO,
    pair_walks,
    row_products,
    sparse_products,
    walk_candidates,
    walk_values,
)

NODES = 10
PAIRS = np.array([(a, b) for a in range(NODES) for b in range(NODES) if a != b])


def graph(random_state=0, nodes=NODES, density=0.35):
    """A symmetric adjacency, whose last node has no edges."""
    drawn = np.triu(np.random.default_rng(random_state).random((nodes, nodes)) < density, 1)
    drawn[:, -1] = False
    return sp.csr_array((drawn | drawn.T).astype(np.float32))


def brute(adjacency):
    """(n, n, 5) Adamic-Adar, symmetric walks of 2, 3 and 4 steps, and weighted paths of three edges."""
    edges = adjacency.toarray().astype(float)
    degrees = edges.sum(axis=1)
    root = 1 / np.sqrt(np.maximum(degrees, 1))
    step = root[:, None] * edges * root
    common = edges @ np.diag(1 / np.log(1 + np.maximum(degrees, 1))) @ edges
    paths = edges @ np.diag(root) @ edges @ np.diag(root) @ edges
    return np.stack([common, step @ step, step @ step @ step, step @ step @ step @ step, paths], axis=-1)


def without(adjacency, first, second):
    edges = adjacency.toarray()
    edges[first, second] = edges[second, first] = 0
    return sp.csr_array(edges)


def of_pairs(adjacency, pairs, smallest=0.0):
    values, (starts, ends) = np.full((len(pairs), COLUMNS), np.nan), np.ascontiguousarray(pairs.T)
    pair_walks(adjacency.indptr, adjacency.indices, starts, ends, np.full(3, smallest), values)
    return values


def of_targets(adjacency, sources, targets, smallest=0.0):
    values = np.zeros((*targets.shape, COLUMNS))
    walk_values(adjacency.indptr, adjacency.indices, sources, targets, np.full(3, smallest), values)
    return values


def candidates(adjacency, sources, k, types=None, allowed=None, smallest=0.0):
    nodes = adjacency.shape[0]
    types = np.zeros(nodes, np.int64) if types is None else types
    allowed = np.ones((1, 1), np.bool_) if allowed is None else allowed
    found = np.full((len(sources), 3 * k), -7)
    cutoffs = np.full(3, smallest)
    values = np.zeros((*found.shape, COLUMNS))
    walk_candidates(adjacency.indptr, adjacency.indices, sources, types, allowed, k, cutoffs, found, values)
    np.testing.assert_array_equal(values, of_targets(adjacency, sources, found, smallest))
    return found


@pytest.mark.parametrize("random_state", range(3))
def test_walks_to_targets_are_powers_of_the_normalized_adjacency(random_state):
    adjacency = graph(random_state)
    sources = np.arange(NODES)
    targets = np.tile(sources, (NODES, 1))
    np.testing.assert_allclose(of_targets(adjacency, sources, targets), brute(adjacency), atol=1e-12)


def test_targets_of_minus_one_are_skipped():
    adjacency, targets = graph(), np.array([[3, -1], [-1, 2]])
    found = of_targets(adjacency, np.array([0, 1]), targets)
    assert not found[[0, 1], [1, 0]].any()
    np.testing.assert_allclose(found[[0, 1], [0, 1]], brute(adjacency)[[0, 1], [3, 2]])


@pytest.mark.parametrize("random_state", range(3))
def test_pairs_have_the_walks_of_the_graph_without_their_edge(random_state):
    adjacency = graph(random_state)
    expected = [brute(without(adjacency, a, b))[a, b] for a, b in PAIRS.tolist()]
    np.testing.assert_allclose(of_pairs(adjacency, PAIRS), expected, atol=1e-12)
    joined = adjacency.toarray()[tuple(PAIRS.T)] > 0
    seen = brute(adjacency)[tuple(PAIRS[joined].T)]
    assert (seen[:, THREE] > of_pairs(adjacency, PAIRS[joined])[:, THREE]).all(), "else the test shows nothing"


def test_a_step_that_brings_too_little_is_not_taken():
    # 0 - 1 - {2, 3, 4, 5} and 0 - 6 - 7 - 8: from 0, node 1 passes on 1 / 2 / 5, node 6 passes on 1 / 2 / 2.
    edges = [(0, 1), (1, 2), (1, 3), (1, 4), (1, 5), (0, 6), (6, 7), (7, 8)]
    rows, columns = np.array([*edges, *(edge[::-1] for edge in edges)]).T
    adjacency = sp.csr_array((np.ones(len(rows)), (rows, columns)))
    sources, targets = np.array([0]), np.arange(9)[None]
    exact, cut = (of_targets(adjacency, sources, targets, smallest)[0] for smallest in (0.0, 0.12))
    assert exact[2, TWO] > 0
    assert not cut[2:6].any()
    np.testing.assert_array_equal(cut[7, :THREE], exact[7, :THREE])
    np.testing.assert_allclose(cut[8, THREE], exact[8, THREE])
    limit = 0.1  # exactly what the neighbours of node 1 receive
    np.testing.assert_array_equal(of_targets(adjacency, sources, targets, limit)[0][2, TWO], exact[2, TWO])
    others = PAIRS[:, 1].reshape(NODES, NODES - 1)
    cut = of_targets(graph(2), np.arange(NODES), others, 0.02)
    assert (cut <= np.take_along_axis(brute(graph(2)), others[..., None], axis=1) + 1e-12).all()


def test_a_walk_from_a_hub_goes_as_far_as_one_to_it():
    # The hub 0 has forty neighbours. One path of three edges leads to node 41: 0 - 1 - 2 - 41.
    edges = [(0, each) for each in range(1, 41)] + [(1, 2), (2, 41), (41, 42), (41, 43)]
    rows, columns = np.array([*edges, *(edge[::-1] for edge in edges)]).T
    adjacency = sp.csr_array((np.ones(len(rows)), (rows, columns)))
    there, back = (of_pairs(adjacency, np.array([pair]), 0.01)[0] for pair in ((0, 41), (41, 0)))
    np.testing.assert_allclose(there[[THREE, PATHS]], brute(adjacency)[0, 41][[THREE, PATHS]])
    np.testing.assert_allclose(back[[THREE, PATHS]], there[[THREE, PATHS]])


def best_by_sort(adjacency, source, k, allowed):
    """The first k reached nodes by Adamic-Adar, by PageRank and by three steps, without those tied with the next."""
    edges = adjacency.toarray().astype(float)
    degrees = np.maximum(edges.sum(axis=1), 1)
    symmetric = brute(adjacency)
    landing = symmetric[source] * np.sqrt(degrees / degrees[source])[:, None]
    free = (edges[source] == 0) & (np.arange(len(edges)) != source) & allowed
    orders = [
        (symmetric[source, :, 0], landing[:, TWO] > 0),
        (landing[:, TWO] + DECAY * landing[:, THREE] + DECAY**2 * landing[:, FOUR], landing[:, FOUR] > 0),
        (landing[:, THREE], landing[:, THREE] > 0),
    ]
    found = set()
    for order, reached in orders:
        nodes = np.flatnonzero(free & reached)
        next_best = -np.sort(-order[nodes])[k] if len(nodes) > k else -np.inf
        found |= set(nodes[order[nodes] > next_best + 1e-12].tolist())
    return found


@pytest.mark.parametrize("k", [1, 3, 40])
def test_candidates_are_the_first_of_each_order(k):
    adjacency = graph(5, 40, 0.15)
    sources = np.arange(40)
    found = candidates(adjacency, sources, k)
    assert (found >= -1).all()
    sizes = []
    for source in sources.tolist():
        own = found[source][found[source] >= 0]
        assert len(np.unique(own)) == len(own)
        assert not adjacency.toarray()[source, own].any(), "known edges are no candidates"
        assert source not in own
        expected = best_by_sort(adjacency, source, k, np.ones(40, np.bool_))
        assert expected <= set(own.tolist())
        assert k < 40 or expected == set(own.tolist())
        sizes.append(len(own))
    assert max(sizes) > k if k < 40 else max(sizes) > 20, "the three orders differ"
    assert sizes[-1] == 0, "no walk leaves the last node"


def test_candidates_have_a_type_that_an_edge_may_lead_to():
    adjacency, types = graph(5, 40, 0.15), np.arange(40) % 3
    allowed = np.zeros((3, 3), np.bool_)
    allowed[0, 1] = allowed[1, 2] = True
    found = candidates(adjacency, np.arange(40), 40, types, allowed)
    for source in range(40):
        own = set(found[source][found[source] >= 0].tolist())
        assert own == best_by_sort(adjacency, source, 40, allowed[types[source]][types])
        assert {types[node] for node in own} <= {types[source] + 1}
    assert (found[types == 0] >= 0).any()
    assert not (found[types == 2] >= 0).any()


def test_three_steps_have_all_places_of_a_bipartite_graph():
    drawn = np.random.default_rng(0).random((20, 60)) < 0.15
    adjacency = sp.csr_array(sp.block_array([[None, sp.csr_array(drawn)], [sp.csr_array(drawn.T), None]]))
    types, allowed = np.repeat([0, 1], [20, 60]), ~np.eye(2, dtype=np.bool_)
    found = candidates(adjacency, np.arange(20), 5, types, allowed)
    assert (found >= 20).all(), "15 places, not 5"
    order = brute(adjacency)[0, :, THREE] * np.sqrt(np.maximum(adjacency.sum(axis=1), 1))
    free = np.flatnonzero((types == 1) & (adjacency.toarray()[0] == 0))
    assert order[found[0]].min() >= np.sort(order[free])[-15] - 1e-12


@pytest.mark.parametrize("width", [1, 15, 16, 37])
def test_products_of_rows(width):
    generator = np.random.default_rng(0)
    left, right = (generator.normal(size=(20, width)).astype(np.float32) for _ in range(2))
    sources, targets = np.array([3, 0, 19]), np.array([[1, -1, 2], [19, 0, 0], [-1, -1, 4]])
    products = np.full((3, 3), 9, np.float32)
    row_products(left, right, sources, targets, products)
    expected = np.where(targets < 0, 9, (left @ right.T)[sources[:, None], targets])
    np.testing.assert_allclose(products, expected, rtol=1e-5, atol=1e-5)


def test_threads_change_no_bit():
    adjacency = graph(3, 80, 0.1)
    pairs = np.random.default_rng(0).integers(0, 80, (200, 2))
    sources, targets = np.arange(80), np.random.default_rng(1).integers(-1, 80, (80, 5))
    rows = np.random.default_rng(2).normal(size=(80, 33)).astype(np.float32)

    def answers():
        products = np.zeros(targets.shape, np.float32)
        row_products(rows, rows, sources, targets, products)
        return [
            of_pairs(adjacency, pairs, 1e-3),
            of_targets(adjacency, sources, targets, 1e-3),
            candidates(adjacency, sources, 4, smallest=1e-3),
            products,
        ]

    serial = answers()
    with kernel_threads(2):
        parallel = answers()
    for one, other in zip(serial, parallel, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sparse_products_beside_the_dense_ones():
    drawn = np.random.default_rng(3)
    dense = np.where(drawn.random((12, 30)) < 0.3, drawn.normal(size=(12, 30)), 0).astype(np.float32)
    dense[4] = 0
    matrix, sources = sp.csr_array(dense), np.array([3, 0, 4])
    targets = np.array([[0, 1, -1, 3], [11, -1, 4, 0], [1, 2, 3, 4]])
    products = np.full(targets.shape, 7.0)
    sparse_products(matrix.indptr, matrix.indices, matrix.data, sources, targets, products)
    expected = np.einsum("sd,skd->sk", dense[sources].astype(float), dense[targets].astype(float))
    np.testing.assert_allclose(products, np.where(targets < 0, 7, expected), rtol=1e-5, atol=1e-6)


INTERPRETED = """
import sys
import numpy as np
import scipy.sparse as sp
from glace.kernels import walks

rng = np.random.default_rng(0)
dense = np.triu(rng.random((40, 40)) < 0.1, 1)
graph = sp.csr_array(dense | dense.T, dtype=np.float32)
nodes, targets = np.arange(40), rng.integers(-1, 40, (40, 7))
cutoffs, words = np.array([1e-5, 1e-5, 1e-3]), sp.csr_array(np.round(rng.random((40, 9)), 1), dtype=np.float32)
left = rng.random((40, 21)).astype(np.float32)
types, allowed = np.zeros(40, np.int64), np.ones((1, 1), np.bool_)


def all_of_them():
    pairs, found, candidates = np.empty((40, 5)), np.zeros((40, 7, 5)), np.empty((40, 12), np.int64)
    walked, products, shared = np.zeros((40, 12, 5)), np.zeros((40, 7), np.float32), np.zeros((40, 7))
    walks.pair_walks(graph.indptr, graph.indices, nodes, nodes[::-1].copy(), cutoffs, pairs)
    walks.walk_values(graph.indptr, graph.indices, nodes, targets, cutoffs, found)
    walks.walk_candidates(graph.indptr, graph.indices, nodes, types, allowed, 4, cutoffs, candidates, walked)
    walks.row_products(left, left, nodes, targets, products)
    walks.sparse_products(words.indptr, words.indices, words.data, nodes, targets, shared)
    return pairs, found, candidates, walked, products, shared


slow = all_of_them()
assert "numba" not in sys.modules, "small tasks are interpreted"
import numba

for one, other in zip(slow, all_of_them(), strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-12)
assert isinstance(walks._walk, numba.core.dispatcher.Dispatcher), "the others are compiled"
"""


def test_small_tasks_are_interpreted_with_the_same_result():
    subprocess.run([sys.executable, "-c", INTERPRETED], check=True)
