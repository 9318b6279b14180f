"""Edges held out of a mapped graph: by the rule of graphs in memory, in blocks, with nothing left behind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glace
from glace import blocks, sparse
from glace.errors import InputError
from glace.graph import thinning
from glace.graph.split import hold_out
from glace.io.folder import read_folder, write_folder
from glace.storage import mapped as disk
from tests.graph.test_split import check_held_out, ring


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    def make(graph):
        path = tmp_path_factory.mktemp("mapped") / "g.graph"
        write_folder(graph, path)
        return read_folder(path)

    return make


@given(st.integers(0, 1000), st.booleans(), st.floats(0.05, 0.3))
def test_splits_are_what_they_say(mapped, seed, directed, share):
    graph = mapped(
        glace.datasets.planted(
            60, communities=3, degree=8, attributes=20, words=5, random_state=seed, directed=directed
        )
    )
    check_held_out(graph, share, *hold_out(graph, share, np.random.default_rng(seed)))


@pytest.mark.parametrize("directed", [False, True])
def test_what_is_left_is_what_with_edges_would_give(mapped, directed):
    graph = mapped(ring(40, directed=directed))
    rest, _ = hold_out(graph, 0.2, np.random.default_rng(0))
    same = graph.with_edges(*rest.edges_and_weights())
    for left, right in (
        (rest.adjacency, same.adjacency),
        (rest.neighborhoods(), same.neighborhoods()),
    ):
        np.testing.assert_array_equal(left.indptr, right.indptr)
        np.testing.assert_array_equal(left.indices, right.indices)
        np.testing.assert_array_equal(left.data, right.data)
        assert disk.is_mapped(left.data)
        assert not left.data.flags.writeable
        assert left.indices.dtype == right.indices.dtype
    assert rest.mapped is not None
    assert rest.fingerprint() == same.fingerprint() != graph.fingerprint()


def test_blocks_do_not_matter(mapped, monkeypatch):
    graph = mapped(ring(40, directed=True))
    whole = hold_out(graph, 0.2, np.random.default_rng(0))
    monkeypatch.setattr(thinning, "ENTRIES", 5)
    monkeypatch.setattr(thinning, "blocks", lambda count: blocks.blocks(count, 7))
    pieces = hold_out(graph, 0.2, np.random.default_rng(0))
    assert pieces[0].fingerprint() == whole[0].fingerprint()
    assert pieces[1].fingerprint() == whole[1].fingerprint()


def test_no_more_are_taken_than_wanted(mapped):
    for graph in (ring(40), mapped(ring(40))):
        rest, held_out = hold_out(graph, 0.5, np.random.default_rng(0), most=4)
        assert len(held_out.edges) == len(held_out.non_edges) == 4
        assert rest.num_edges == graph.num_edges - 4
        assert len(hold_out(graph, 0.1, np.random.default_rng(0), most=1000)[1].edges) == 8


def test_every_edge_that_can_go_goes_as_often_as_in_memory(mapped):
    """A triangle with a tail: the tail's last edge never can, and each of the others as often as by permutation."""
    graph = glace.from_arrays(np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [1, 3]]))
    folder = mapped(graph)
    counts = np.zeros((2, 5, 5))
    for place, each in enumerate((graph, folder)):
        for seed in range(400):
            ((a, b),) = hold_out(each, 0.1, np.random.default_rng(seed))[1].edges
            counts[place, a, b] += 1
    assert counts[:, 3, 4].sum() == 0
    np.testing.assert_allclose(counts[0], counts[1], atol=45)


def test_a_tree_of_single_edges_has_none_to_spare(mapped):
    pairs = mapped(glace.from_arrays(np.array([[0, 1], [2, 3], [4, 5]])))
    with pytest.raises(InputError, match=r"cannot hold out 50% of 3 edges \(2\): .* 0 can go and at least 1 must"):
        hold_out(pairs, 0.5, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"cannot hold out 5% of 3 edges \(0\).*validation_fraction=0"):
        hold_out(pairs, 0.05, np.random.default_rng(0))


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
