"""Edges held out for validation, of a graph in memory and of the same graph on disk."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glace
from glace import blocks, sparse
from glace.errors import InputError
from glace.graph import split
from glace.graph.split import HeldOut, distinct_pairs, hidden_non_edges, hold_out, sample_non_edges, without_edges
from glace.io.folder import read_folder, write_folder
from tests.conftest import is_mapped


def as_set(pairs):
    return {tuple(sorted(pair)) for pair in pairs.tolist()}


def check_held_out(graph, share, rest, held_out):
    """What is held out, and what is left, of a graph in memory or on disk."""
    before, after = as_set(graph.edges()), as_set(rest.edges())
    assert as_set(held_out.edges) | after == before
    assert not as_set(held_out.edges) & after, "no held-out edge can be read off, not even its reverse"
    assert len(before) - len(after) == round(share * len(before))
    assert len(held_out.non_edges) == len(held_out.edges) == len(held_out.truth()) / 2
    assert not graph.has_edges(held_out.non_edges).any()
    assert (held_out.non_edges[:, 0] != held_out.non_edges[:, 1]).all()
    assert len(np.unique(held_out.non_edges, axis=0)) == len(held_out.non_edges)
    assert graph.has_edges(held_out.edges).all()
    assert len(held_out.edges) + rest.num_edges == graph.num_edges
    joined = np.unique(graph.edges())
    np.testing.assert_array_equal(np.unique(rest.edges()), joined, "every node keeps an edge")


@given(st.integers(0, 1000), st.booleans(), st.floats(0.05, 0.3))
def test_splits_are_what_they_say(seed, directed, share):
    graph = glace.datasets.planted(
        60, communities=3, degree=8, attributes=20, words=5, random_state=seed, directed=directed
    )
    check_held_out(graph, share, *hold_out(graph, share, np.random.default_rng(seed)))


def test_weights_stay_with_their_edges():
    rng = np.random.default_rng(0)
    pairs = np.array([(a, b) for a in range(20) for b in range(a + 1, 20) if (a + b) % 3])
    graph = glace.from_arrays(pairs, weights=pairs[:, 0] * 100.0 + pairs[:, 1] + 1)
    rest, _ = hold_out(graph, 0.2, rng)
    edges, weights = rest.edges_and_weights()
    np.testing.assert_array_equal(weights, edges[:, 0] * 100 + edges[:, 1] + 1)


def test_a_tree_of_single_edges_has_none_to_spare():
    pairs = glace.from_arrays(np.array([[0, 1], [2, 3], [4, 5]]))
    with pytest.raises(InputError, match=r"cannot hold out 50% of 3 edges \(2\): .* 0 can go and at least 1 must"):
        hold_out(pairs, 0.5, np.random.default_rng(0))


def test_too_few_edges_for_a_share_are_refused():
    path = glace.from_arrays(np.array([[0, 1], [1, 2], [2, 3]]))
    with pytest.raises(InputError, match=r"cannot hold out 5% of 3 edges \(0\).*validation_fraction=0"):
        hold_out(path, 0.05, np.random.default_rng(0))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=40))
def test_repeated_pairs_go_and_the_first_of_each_stays(pairs):
    given_pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    assert [tuple(pair) for pair in distinct_pairs(given_pairs, 6).tolist()] == list(dict.fromkeys(pairs))


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_is_between_0_and_1(share):
    path = glace.from_arrays(np.array([[0, 1], [1, 2]]))
    with pytest.raises(InputError, match="the share to hold out must be above 0 and below 1"):
        hold_out(path, share, np.random.default_rng(0))


def test_more_non_edges_than_there_are_cannot_be_drawn():
    path = glace.from_arrays(np.array([[0, 1], [1, 2]]))
    assert as_set(sample_non_edges(path, 1, np.random.default_rng(0))) == {(0, 2)}
    with pytest.raises(InputError, match="only 1 pairs that are not edges, but 2 are needed"):
        sample_non_edges(path, 2, np.random.default_rng(0))


def ring(count, **options):
    """A directed or undirected ring with chords, attributes that name the node, and uneven weights."""
    pairs = np.array([(node, (node + step) % count) for node in range(count) for step in (1, 3)])
    options = {"attributes": np.eye(count, 3 * count), "weights": np.arange(1.0, len(pairs) + 1)} | options
    return glace.from_arrays(pairs, **options)


def test_some_edges_go_and_non_edges_in_proportion():
    pairs = np.arange(16).reshape(8, 2)
    without = HeldOut(pairs[:4], pairs).without(np.array([False, True, True, False]))
    np.testing.assert_array_equal(without.edges, pairs[[0, 3]])
    np.testing.assert_array_equal(without.non_edges, pairs[::2])


@pytest.mark.parametrize("directed", [False, True])
def test_non_edges_of_hidden_nodes_are_drawn_evenly(directed):
    graph = glace.from_arrays(np.array([[0, 3], [2, 0]]), directed=directed, attributes=np.eye(5))
    possible = [
        (a, b) for a in range(5) for b in range(5)
        if (a != b if directed else a < b) and max(a, b) >= 3 and not graph.has_edges(np.array([[a, b]]))[0]
    ]  # fmt: skip
    drawn = [
        tuple(pair)
        for seed in range(800)
        for pair in hidden_non_edges(graph, 3, 2, np.random.default_rng(seed)).tolist()
    ]
    share = np.array([drawn.count(pair) for pair in possible]) / len(drawn)
    assert set(drawn) == set(possible)
    assert abs(share * len(possible) - 1).max() < 0.3


def test_every_non_edge_of_hidden_nodes_can_be_asked_for():
    graph = glace.from_arrays(np.array([[0, 1], [1, 2]]), attributes=np.eye(4))
    drawn = hidden_non_edges(graph, 2, 4, np.random.default_rng(0))
    assert as_set(drawn) == {(0, 2), (0, 3), (1, 3), (2, 3)}
    message = "only 4 pairs that are not edges and have a hidden node, but 5 are needed"
    with pytest.raises(InputError, match=message):
        hidden_non_edges(graph, 2, 5, np.random.default_rng(0))


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    def make(graph):
        path = tmp_path_factory.mktemp("mapped") / "g.graph"
        write_folder(graph, path)
        return read_folder(path)

    return make


@pytest.mark.parametrize("types", [None, ["a", "b"] * 20])
@pytest.mark.parametrize("directed", [False, True])
def test_memory_and_disk_hold_out_the_same(mapped, directed, types):
    graph = ring(40, directed=directed, node_types=types)
    mine, theirs = (hold_out(each, 0.2, np.random.default_rng(3)) for each in (graph, mapped(graph)))
    assert mine[1].fingerprint() == theirs[1].fingerprint()
    assert mine[0].fingerprint() == theirs[0].fingerprint()
    assert (mine[0].neighborhoods() != theirs[0].neighborhoods()).nnz == 0
    fewer = [without_edges(each, mine[1].edges[:3]) for each in (graph, mapped(graph))]
    assert fewer[0].fingerprint() == fewer[1].fingerprint() != graph.fingerprint()
    assert not fewer[0].has_edges(mine[1].edges[:3]).any()


def test_each_removable_edge_is_held_out_equally_often(hubs):
    """Every node keeps a random edge; the others are drawn evenly, not those between hubs first."""
    found = expected = 0
    for seed in range(1500):
        ((a, b),) = hold_out(hubs, 1 / 30, np.random.default_rng(seed))[1].edges
        found += max(a, b) < 4
        generator = np.random.default_rng([seed, 1])
        order = generator.permutation(hubs.edges())
        firsts = {next(place for place, pair in enumerate(order) if node in pair) for node in range(16)}
        left = [pair for place, pair in enumerate(order) if place not in firsts]
        expected += max(left[generator.integers(len(left))]) < 4
    assert expected / 1500 == pytest.approx(0.30, abs=0.03), "an edge between hubs would come first in 54 of 100 draws"
    assert found / 1500 == pytest.approx(0.30, abs=0.03)


def test_an_only_edge_stays():
    graph = glace.from_arrays(np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [1, 3]]))
    held_out = [hold_out(graph, 0.1, np.random.default_rng(seed))[1].edges[0].tolist() for seed in range(100)]
    assert [3, 4] not in held_out
    assert len({tuple(pair) for pair in held_out}) == 5


@pytest.mark.parametrize("directed", [False, True])
def test_what_is_left_is_what_with_edges_would_give(mapped, directed):
    graph = mapped(ring(40, directed=directed))
    rest, _ = hold_out(graph, 0.2, np.random.default_rng(0))
    same = graph.with_edges(*rest.edges_and_weights())
    for left, right in ((rest.adjacency, same.adjacency), (rest.neighborhoods(), same.neighborhoods())):
        np.testing.assert_array_equal(left.indptr, right.indptr)
        np.testing.assert_array_equal(left.indices, right.indices)
        np.testing.assert_array_equal(left.data, right.data)
        assert is_mapped(left.data)
        assert not left.data.flags.writeable
        assert left.indices.dtype == right.indices.dtype
    assert rest.mapped is not None
    assert rest.fingerprint() == same.fingerprint() != graph.fingerprint()


def test_blocks_do_not_matter(mapped, monkeypatch):
    graph = mapped(ring(40, directed=True))
    whole = hold_out(graph, 0.2, np.random.default_rng(0))
    monkeypatch.setattr(split, "ENTRIES", 5)
    monkeypatch.setattr(split, "blocks", lambda count: blocks.blocks(count, 7))
    pieces = hold_out(graph, 0.2, np.random.default_rng(0))
    assert pieces[0].fingerprint() == whole[0].fingerprint()
    assert pieces[1].fingerprint() == whole[1].fingerprint()


def test_no_more_are_taken_than_wanted(mapped):
    for graph in (ring(40), mapped(ring(40))):
        rest, held_out = hold_out(graph, 0.5, np.random.default_rng(0), max_edges=4)
        assert len(held_out.edges) == len(held_out.non_edges) == 4
        assert rest.num_edges == graph.num_edges - 4
        assert len(hold_out(graph, 0.1, np.random.default_rng(0), max_edges=1000)[1].edges) == 8


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(1, 8))
def test_entry_blocks_cover_the_rows_and_are_small(sizes, size):
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    data = np.ones(indptr[-1], np.float32)
    matrix = sparse.assembled((len(sizes), 9), indptr, np.zeros(indptr[-1], np.int32), data)
    covered = []
    for rows in sparse.entry_blocks(matrix, size):
        covered += list(range(len(sizes)))[rows]
        assert sum(sizes[rows]) <= size or rows.stop - rows.start == 1
    assert covered == list(range(len(sizes)))
