"""Holding out edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glace
from glace.errors import InputError
from glace.graph.split import _distinct, hold_out, sample_non_edges


def as_set(pairs):
    return {tuple(sorted(pair)) for pair in pairs.tolist()}


@given(st.integers(0, 1000), st.booleans(), st.floats(0.05, 0.3))
def test_splits_are_what_they_say(seed, directed, share):
    graph = glace.datasets.planted(
        60, communities=3, degree=8, attributes=20, words=5, seed=seed, directed=directed
    )
    rest, held_out = hold_out(graph, share, np.random.default_rng(seed))
    before, after = as_set(graph.edges()), as_set(rest.edges())
    assert as_set(held_out.edges) | after == before
    assert not as_set(held_out.edges) & after, "no held-out edge can be read off, not even its reverse"
    assert len(before) - len(after) == round(share * len(before))
    assert len(held_out.non_edges) == len(held_out.edges) == len(held_out.truth()) / 2
    assert not graph.has_edges(held_out.non_edges).any()
    assert (held_out.non_edges[:, 0] != held_out.non_edges[:, 1]).all()
    assert len(np.unique(held_out.non_edges, axis=0)) == len(held_out.non_edges)
    joined = np.unique(graph.edges())
    np.testing.assert_array_equal(np.unique(rest.edges()), joined, "every node keeps an edge")


def test_weights_stay_with_their_edges():
    rng = np.random.default_rng(0)
    pairs = np.array([(a, b) for a in range(20) for b in range(a + 1, 20) if (a + b) % 3])
    graph = glace.from_arrays(pairs, weights=pairs[:, 0] * 100.0 + pairs[:, 1] + 1)
    rest, _ = hold_out(graph, 0.2, rng)
    edges, weights = rest.edges_and_weights()
    np.testing.assert_array_equal(weights, edges[:, 0] * 100 + edges[:, 1] + 1)


def test_a_tree_of_single_edges_has_none_to_spare():
    pairs = glace.from_arrays(np.array([[0, 1], [2, 3], [4, 5]]))
    with pytest.raises(
        InputError, match=r"cannot hold out 50% of 3 edges \(2\): .* 0 can go and at least 1 must"
    ):
        hold_out(pairs, 0.5, np.random.default_rng(0))


def test_too_few_edges_for_a_share_are_refused():
    path = glace.from_arrays(np.array([[0, 1], [1, 2], [2, 3]]))
    with pytest.raises(InputError, match=r"cannot hold out 5% of 3 edges \(0\).*validation_share=0"):
        hold_out(path, 0.05, np.random.default_rng(0))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=40))
def test_repeated_pairs_go_and_the_first_of_each_stays(pairs):
    given_pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    assert [tuple(pair) for pair in _distinct(given_pairs, 6).tolist()] == list(dict.fromkeys(pairs))


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_is_between_0_and_1(share):
    path = glace.from_arrays(np.array([[0, 1], [1, 2]]))
    with pytest.raises(InputError, match="the share to hold out must be above 0 and below 1"):
        hold_out(path, share, np.random.default_rng(0))


def test_more_non_edges_than_there_are_cannot_be_drawn():
    path = glace.from_arrays(np.array([[0, 1], [1, 2]]))
    assert as_set(sample_non_edges(path, 1, np.random.default_rng(0))) == {(0, 2)}
    with pytest.raises(InputError, match="only 1 pairs that are no edge, but 2 are wanted"):
        sample_non_edges(path, 2, np.random.default_rng(0))
