"""Rounds of walks: one from every node that has an edge to leave by, the same for the same seed and round."""

import numpy as np
import pytest

import glace
from glace.errors import InputError
from glace.experiments.baselines import node2vec as walks
from glace.experiments.baselines.node2vec import WalkSampler
from glace.rng import Streams


def sampler(graph, seed=0, length=10, **bias):
    return WalkSampler(graph, Streams(seed), length=length, **bias)


def round_of(graph, number=0, **options):
    return np.concatenate(list(sampler(graph, **options).round(number)))


def steps(drawn):
    pairs = np.column_stack([drawn[:, :-1].ravel(), drawn[:, 1:].ravel()])
    return pairs[pairs[:, 1] >= 0]


def test_every_node_with_an_edge_starts_one_walk_in_random_order(planted):
    drawn = round_of(planted)
    joined = np.flatnonzero(np.diff(planted.adjacency.indptr))
    np.testing.assert_array_equal(np.sort(drawn[:, 0]), joined)
    assert (drawn[:, 0] != joined).any()
    assert (drawn >= 0).all(), "an undirected walk can always go on"
    assert planted.has_edges(steps(drawn)).all()


def test_directed_walks_follow_the_direction_and_end():
    graph = glace.from_arrays(np.array([[0, 1], [1, 2]]), ids=range(4), directed=True)
    drawn = round_of(graph, length=4)
    np.testing.assert_array_equal(drawn[np.argsort(drawn[:, 0])], [[0, 1, 2, -1], [1, 2, -1, -1]])


def test_isolated_nodes_are_in_no_walk():
    drawn = round_of(glace.from_arrays(np.array([[0, 2]]), ids=range(5)))
    assert set(drawn.ravel()) == {0, 2}


def test_return_and_in_out_bias_the_walks(planted):
    def returns(p):
        drawn = round_of(planted, p=p)
        return (drawn[:, 2:] == drawn[:, :-2]).mean()

    def triangles(q):
        drawn = round_of(planted, p=100.0, q=q)
        return planted.has_edges(np.column_stack([drawn[:, :-2].ravel(), drawn[:, 2:].ravel()])).mean()

    assert returns(0.1) > 2 * returns(1.0) > 2 * returns(10.0)
    assert triangles(10.0) > 1.5 * triangles(0.1)


def test_a_round_depends_on_seed_and_number_only(planted):
    used = sampler(planted)
    list(used.round(0))
    np.testing.assert_array_equal(np.concatenate(list(used.round(7))), round_of(planted, 7))
    assert (round_of(planted, 7) != round_of(planted, 8)).any()
    assert (round_of(planted, 7) != round_of(planted, 7, seed=1)).any()


def test_blocks_are_small(planted, monkeypatch):
    monkeypatch.setattr(walks, "BLOCK", 64)
    sizes = [len(block) for block in sampler(planted).round(0)]
    assert max(sizes) == 64
    assert sum(sizes) == len(sampler(planted).starts)


def test_a_graph_without_edges_is_refused():
    with pytest.raises(InputError, match="no edges; random walks need edges"):
        sampler(glace.from_arrays(np.empty((0, 2), int), ids=range(3)))
