"""Weighted sums of attribute rows and sampled neighbours, against plain numpy; random choices are hashes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from glace.kernels.inputs import combined_rows, sample_neighbors, uniform


def arrays(matrix):
    return matrix.indptr, matrix.indices, matrix.data


def left_out(*rows):
    """The nodes each row leaves out, as the kernel takes them."""
    start = np.cumsum([0, *map(len, rows)])
    return start, np.array([node for row in rows for node in row], dtype=np.int64)


@pytest.fixture(scope="module")
def adjacency():
    """Weighted and symmetric; node 0 is a hub, the last two nodes have no edges."""
    rng = np.random.default_rng(0)
    weights = np.triu(rng.random((20, 20)) * (rng.random((20, 20)) < 0.3), 1)
    weights[0, 1:] = rng.random(19) + 0.1
    weights[:, 18:] = 0
    return sp.csr_array((weights + weights.T).astype(np.float32))


@pytest.fixture(scope="module")
def attributes():
    """Sparse rows, the fourth empty."""
    x = sp.random_array((20, 12), density=0.3, rng=np.random.default_rng(1), format="csr", dtype=np.float32)
    return sp.csr_array(x.multiply((np.arange(20) != 3)[:, None])).astype(np.float32)


def shares(graph, nodes, hidden=None, most=0, dropped=0.0, seed=0):
    """What the kernel gives as a dense matrix, a row for each node."""
    nodes = np.asarray(nodes)
    hidden = hidden or left_out(*([] for _ in nodes))
    start, found, share = sample_neighbors(arrays(graph), nodes, hidden, most, dropped, seed)
    assert (start[0], start[-1]) == (0, len(found))
    table = np.zeros((len(nodes), graph.shape[0]))
    np.add.at(table, (np.repeat(np.arange(len(nodes)), np.diff(start)), found), share)
    return table


def normalized(rows):
    total = rows.sum(axis=1, keepdims=True)
    return rows / np.where(total == 0, 1, total)


def test_shares_are_the_weights_of_the_edges(adjacency):
    nodes = np.array([5, 0, 19, 5])
    wanted = normalized(adjacency.toarray()[nodes])
    np.testing.assert_allclose(shares(adjacency, nodes), wanted, rtol=1e-5)
    assert (wanted[2] == 0).all(), "a node without edges has no neighbours"


def test_the_left_out_have_no_share(adjacency):
    nodes, whole = np.array([0, 5, 19]), adjacency.toarray()
    hidden = left_out([2, 7, 11], np.flatnonzero(whole[5]), [4])
    weights = whole[nodes]
    weights[0, [2, 7, 11]] = 0
    weights[1] = 0
    np.testing.assert_allclose(shares(adjacency, nodes, hidden), normalized(weights), rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_at_most_so_many_neighbours(adjacency, seed):
    nodes, whole = np.arange(20), adjacency.toarray()
    found = shares(adjacency, nodes, most=4, seed=seed)
    degrees = (whole > 0).sum(axis=1)
    np.testing.assert_array_equal((found > 0).sum(axis=1), np.minimum(degrees, 4))
    np.testing.assert_allclose(found, normalized(whole * (found > 0)), rtol=1e-5)


def test_the_left_out_do_not_count_among_so_many(adjacency):
    """Of 17 neighbours with 13 left out there are 4 to be found, wherever the search begins."""
    hidden = left_out(range(1, 14))
    for seed in range(20):
        found = shares(adjacency, [0], hidden, most=4, seed=seed)
        assert np.flatnonzero(found[0]).tolist() == [14, 15, 16, 17]


def test_every_neighbour_has_its_turn(adjacency):
    counts = sum(shares(adjacency, [0], most=4, seed=seed)[0] > 0 for seed in range(2000)) / 2000
    np.testing.assert_allclose(counts[1:18], 4 / 17, atol=0.06)


def test_all_neighbours_of_a_share_of_the_rows_are_dropped(adjacency):
    nodes = np.zeros(4000, np.int64)
    found = shares(adjacency, nodes, dropped=0.3)
    gone = (found == 0).all(axis=1)
    assert gone.mean() == pytest.approx(0.3, abs=0.03)
    whole = np.repeat(normalized(adjacency[[0]].toarray()), (~gone).sum(), axis=0)
    np.testing.assert_allclose(found[~gone], whole, rtol=1e-5)


def combined(attributes, combination, unit=False, dropout=0.0, seed=0):
    slots = np.full(12, -1)
    start, column, value = combined_rows(arrays(attributes), combination, 0, unit, dropout, seed, slots)
    assert (slots == -1).all()
    return sp.csr_array((value, column, start), shape=(len(start) - 1, 12))


def single(*nodes):
    """Each row is one attribute row."""
    return np.arange(len(nodes) + 1), np.array(nodes), np.ones(len(nodes), np.float32)


@pytest.mark.parametrize("unit", [False, True])
def test_rows_are_weighted_sums_of_attribute_rows(adjacency, attributes, unit):
    nodes = np.array([0, 3, 5, 19])
    x = attributes.toarray()
    if unit:
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)
    own = combined(attributes, single(*nodes), unit).toarray()
    np.testing.assert_allclose(own, x[nodes], rtol=1e-5, atol=1e-7)
    assert (own[1] == 0).all(), "an empty row stays empty"
    sampled = sample_neighbors(arrays(adjacency), nodes, left_out([], [], [], []), 0, 0.0, 0)
    means = combined(attributes, sampled, unit).toarray()
    np.testing.assert_allclose(means, normalized(adjacency.toarray()[nodes]) @ x, rtol=1e-5, atol=1e-7)
    assert (means[3] == 0).all(), "a node without neighbours has no mean"


def test_dropout_hides_entries_and_keeps_the_expectation(adjacency, attributes):
    sampled = sample_neighbors(arrays(adjacency), np.array([0, 5]), left_out([], []), 0, 0.0, 0)
    for combination in (single(0, 5), sampled):
        whole = combined(attributes, combination, unit=True)
        drawn = [combined(attributes, combination, True, 0.4, seed) for seed in range(3000)]
        mean = sum(each.toarray() for each in drawn) / 3000
        np.testing.assert_allclose(mean, whole.toarray(), atol=0.05)
    entries = [combined(attributes, single(0, 5), dropout=0.4, seed=seed).nnz for seed in range(3000)]
    assert np.mean(entries) / combined(attributes, single(0, 5)).nnz == pytest.approx(0.6, abs=0.02)
    kept = combined(attributes, single(5), dropout=0.4).toarray()[0]
    own = attributes.toarray()[5]
    np.testing.assert_allclose(kept[kept != 0], own[kept != 0] / 0.6, rtol=1e-5)


def test_what_is_hidden_follows_from_seed_and_row_alone(attributes):
    first, again, other = (
        combined(attributes, single(0, 5, 7), dropout=0.5, seed=seed).toarray() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    fewer = combined(attributes, single(0, 5), dropout=0.5, seed=1).toarray()
    np.testing.assert_array_equal(fewer, first[:2])
    twice = combined(attributes, single(*[5] * 50), dropout=0.5, seed=1).toarray()
    assert len(np.unique(twice, axis=0)) > 1, "a node twice in a batch has different entries hidden"


@given(st.integers(0, 2**62), st.integers(0, 2**40), st.integers(0, 2**40))
def test_the_hash_lies_between_0_and_1_and_is_a_function(seed, row, entry):
    value = uniform(seed, row, entry)
    assert 0 <= value < 1
    assert uniform(seed, row, entry) == value


def test_the_hash_looks_random_along_each_argument():
    for varied in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        values = np.array([uniform(*(7 + step * k for step in varied)) for k in range(4000)])
        np.testing.assert_allclose(np.histogram(values, 8, (0, 1))[0] / 4000, 1 / 8, atol=0.025)
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.05
