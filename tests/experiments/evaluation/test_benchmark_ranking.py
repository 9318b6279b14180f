"""Benchmark ranking: the split, Hits@K and MRR against naive references, and hard negatives against brute force."""

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import glace
from glace.errors import InputError
from glace.experiments.evaluation import benchmark_ranking as module
from glace.experiments.evaluation.benchmark_ranking import (
    BenchmarkRanking,
    benchmark_ranking,
    benchmark_split,
    hard_negatives,
    hits_at,
    mean_reciprocal_rank,
    scores_by_embedding,
    scores_by_ranker,
)
from glace.experiments.evaluation.rankers import HEURISTICS
from glace.experiments.evaluation.ranking import Ranker
from glace.experiments.splits import Split
from glace.graph.split import HeldOut
from glace.ids import NodeIds
from glace.rng import Streams


@pytest.fixture(scope="module")
def graph():
    return glace.datasets.planted(120, communities=3, degree=6, attributes=60, words=10)


def pairs_of(*pairs):
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


# The split


@pytest.mark.parametrize(("share", "counts"), [(0.1, (0.05, 0.1)), (0.2, (0.1, 0.2))])
@pytest.mark.parametrize("directed", [False, True])
def test_the_split_is_a_partition_of_the_pairs(share, counts, directed):
    graph = glace.datasets.planted(150, communities=3, degree=8, attributes=60, words=10, directed=directed)
    split = benchmark_split(graph, np.random.default_rng(0), share)
    parts = [
        {tuple(sorted(pair)) for pair in edges.tolist()}
        for edges in (split.train.edges(), split.validation.edges, split.test.edges)
    ]
    whole = {tuple(sorted(pair)) for pair in graph.edges().tolist()}
    assert set.union(*parts) == whole
    assert sum(map(len, parts)) == len(whole), "no pair is in two parts, in whatever direction"
    assert [len(part) for part in parts[1:]] == [round(each * len(whole)) for each in counts]
    for held_out in (split.validation, split.test):
        assert len(held_out.non_edges) == len(held_out.edges)
        assert not graph.has_edges(held_out.non_edges).any()
    assert not (sp.csr_array(split.train.features()) != sp.csr_array(graph.features())).nnz


def test_nodes_may_lose_all_their_edges():
    """A star: in a split that keeps an edge of every node nothing could be asked."""
    star = glace.from_arrays([[0, leaf] for leaf in range(1, 101)])
    split = benchmark_split(star, np.random.default_rng(0))
    assert len(split.test.edges) == 10
    assert (np.diff(split.train.adjacency.indptr) == 0).sum() == 15


def test_too_few_edges_are_refused():
    with pytest.raises(InputError, match="hiding 10% of 4 edges, and half as many .* leaves no edge .*; hide another"):
        benchmark_split(glace.from_arrays([[0, 1], [1, 2], [2, 3], [3, 4]]), np.random.default_rng(0))
    with pytest.raises(InputError, match="the share of edges to hide must be above 0 and below 1, not 1"):
        benchmark_split(glace.from_arrays([[0, 1]]), np.random.default_rng(0), 1.0)


# The measures


def naive_hits(k, positive, negative):
    """A positive is a hit if less than k negatives are as high or higher."""
    return np.mean([sum(other >= own for other in negative) < k for own in positive])


@pytest.mark.parametrize("k", [1, 3, 20, 60])
def test_hits_are_counted_and_equal_scores_are_none(k):
    rng = np.random.default_rng(k)
    for _ in range(20):
        positive, negative = rng.integers(0, 12, 50).astype(float), rng.integers(0, 10, 60).astype(float)
        assert hits_at(k, positive, negative) == pytest.approx(naive_hits(k, positive, negative))


def test_hits_by_hand():
    negative = np.array([5.0, 4, 4, 3, 1])
    assert hits_at(1, np.array([6.0, 5, 4]), negative) == pytest.approx(1 / 3)
    assert hits_at(3, np.array([6.0, 4.5, 4]), negative) == pytest.approx(2 / 3)
    assert hits_at(6, np.array([6.0]), negative) is None, "there are only five"
    assert hits_at(2, np.zeros(7), np.zeros(9)) == 0, "a constant score hits nothing"


def test_reciprocal_ranks_by_hand():
    positive = np.array([3.0, 1, 2])
    negative = np.array([[1.0, 2, 0, 0], [5, 4, 3, 2], [2, 2, 9, 0]])
    assert mean_reciprocal_rank(positive, negative) == pytest.approx((1 + 1 / 5 + 1 / 3) / 3)
    assert mean_reciprocal_rank(np.zeros(4), np.zeros((4, 500))) == pytest.approx(1 / 251), "ties count half"


def test_the_truth_is_perfect_noise_is_not_and_nan_is_last(graph):
    split = benchmark_split(graph, np.random.default_rng(0), 0.4)
    negatives = hard_negatives(graph, split, Streams(0), 20)
    truth = graph.adjacency.toarray()
    # A hard negative can be another test edge; scored as a non-edge, the edge itself is first.
    single = HeldOut(split.test.edges, split.test.non_edges)
    free = negatives[~truth[negatives[..., 0], negatives[..., 1]].astype(bool).any(axis=1)]
    kept = single.edges[~truth[negatives[..., 0], negatives[..., 1]].astype(bool).any(axis=1)]
    perfect = benchmark_ranking(
        lambda pairs: truth[pairs[:, 0], pairs[:, 1]], HeldOut(kept, split.test.non_edges[: len(kept)]), free
    )
    assert len(kept) > 10
    assert perfect == BenchmarkRanking(1.0, 1.0, 1.0, 1.0 if len(kept) >= 50 else None, None, 1.0)
    nan = benchmark_ranking(lambda pairs: np.full(len(pairs), np.nan), split.test, negatives)
    assert (nan.auc, nan.hits_at_20) == (0.5, 0.0)
    assert nan.mrr == pytest.approx(1 / 21)


# Hard negatives


def by_hand(graph, split, source, replaced):
    """The best rank of every candidate by the three scores: its first and last possible one, if equal scores differ.

    Nodes with the score 0 share the rank after the last.
    """
    plain = nx.from_scipy_sparse_array(split.train.adjacency)
    known = {node for pair in split.validation.edges.tolist() if source in pair for node in pair}
    candidates = [node for node in range(graph.num_nodes) if node not in {source, *plain[source], *known}]
    x = graph.attributes.toarray().astype(float)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    allocation = {v: value for _, v, value in nx.resource_allocation_index(plain, [(source, v) for v in candidates])}
    walks = HEURISTICS["pagerank"](split.train).scores(np.array([source]))[0]
    first, last = (dict.fromkeys(candidates, np.inf) for _ in range(2))
    for score in (allocation, {v: walks[v] for v in candidates}, {v: unit[source] @ unit[v] for v in candidates}):
        positive = np.array([each for each in score.values() if each > 0])
        for node in candidates:
            own = score[node]
            zero = len(positive) + 1
            first[node] = min(first[node], (positive > own + 1e-9).sum() + 1 if own > 0 else zero)
            last[node] = min(last[node], (positive > own - 1e-9).sum() if own > 0 else zero)
    del first[replaced], last[replaced]
    return first, last


def test_hard_negatives_are_those_of_brute_force(graph, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 3000)  # several blocks
    split, count = benchmark_split(graph, np.random.default_rng(1)), 12
    found = hard_negatives(graph, split, Streams(0), count)
    assert found.shape == (len(split.test.edges), 2 * count, 2)
    for (a, b), pairs in zip(split.test.edges.tolist(), found, strict=True):
        assert (pairs[:count, 0] == a).all()
        assert (pairs[count:, 1] == b).all()
        for source, replaced, nodes in ((a, b, set(pairs[:count, 1])), (b, a, set(pairs[count:, 0]))):
            first, last = by_hand(graph, split, source, replaced)
            assert len(nodes) == count
            assert max(first[node] for node in nodes) <= sorted(last.values())[count - 1]
            least = sorted(first.values())[count]
            assert {node for node, rank in last.items() if rank < least} <= nodes


def test_hard_negatives_of_a_small_graph():
    """0 shares a neighbour with 3 and 4 only; of these, 3 by a node of lower degree; 5 has the same attributes."""
    #    1 - 3      2 - 4, 2 - 6, 2 - 7; test edge 0 - 8
    train = pairs_of((0, 1), (0, 2), (1, 3), (2, 4), (2, 6), (2, 7), (8, 9))
    attributes = np.eye(10)
    attributes[5] = attributes[0]
    graph = glace.from_arrays(np.concatenate([train, pairs_of((0, 8), (0, 6))]), attributes=attributes)
    whole = Split(
        graph.with_edges(train, np.ones(len(train), np.float32)),
        HeldOut(pairs_of((0, 6)), pairs_of((3, 4))),
        HeldOut(pairs_of((0, 8)), pairs_of((5, 9))),
    )
    found = hard_negatives(graph, whole, Streams(0), 2)
    others = found[0, :2, 1].tolist()
    assert set(others) == {3, 5}, "first by walks and first by attributes"
    four = set(hard_negatives(graph, whole, Streams(0), 4)[0, :4, 1].tolist())
    assert {3, 5} <= four
    assert not four & {0, 1, 2, 6, 8}, "itself, neighbours of training and validation, and the other end"


def test_a_seed_decides_the_negatives_and_nothing_else(graph):
    split = benchmark_split(graph, np.random.default_rng(1))
    first, again, other = (hard_negatives(graph, split, Streams(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_negatives_keep_the_type_of_the_node_they_replace():
    rng = np.random.default_rng(0)
    edges = np.unique(np.column_stack([rng.integers(0, 20, 150), rng.integers(20, 50, 150)]), axis=0)
    graph = glace.from_arrays(edges, node_types=["user"] * 20 + ["item"] * 30)
    split = benchmark_split(graph, rng)
    found = hard_negatives(graph, split, Streams(0), 10)
    assert ((found < 20).sum(axis=2) == 1).all()


def test_few_candidates_are_repeated_and_none_are_refused():
    path = glace.from_arrays([[node, node + 1] for node in range(12)])
    split = benchmark_split(path, np.random.default_rng(0), 0.2)
    found = hard_negatives(path, split, Streams(0), 100)
    for (a, _), pairs in zip(split.test.edges.tolist(), found, strict=True):
        assert 8 <= len(set(pairs[:100, 1].tolist())) <= 11
        assert a not in pairs[:100, 1]
    clique = glace.from_arrays(list(itertools.combinations(range(5), 2)))
    one = Split(
        clique.with_edges(clique.edges()[2:], np.ones(8, np.float32)),
        HeldOut(clique.edges()[:1], pairs_of((0, 1))),
        HeldOut(clique.edges()[1:2], pairs_of((0, 1))),
    )
    with pytest.raises(InputError, match="joined to all others, so it has no hard negatives; hide less"):
        hard_negatives(clique, one, Streams(0), 3)


# Scores of pairs


def test_scores_by_a_ranker_are_those_of_its_rows(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(40, 40))
    scores += scores.T
    pairs = np.random.default_rng(1).integers(40, size=(500, 2))
    monkeypatch.setattr(module, "ENTRIES", 200)
    found = scores_by_ranker(Ranker(lambda sources: scores[sources].copy()), 40)(pairs)
    np.testing.assert_array_equal(found, scores[pairs[:, 0], pairs[:, 1]])


@pytest.mark.parametrize("gaussian", [False, True])
def test_scores_by_an_embedding_are_minus_its_dissimilarities(gaussian):
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(30, 5)).astype(np.float32), rng.random((30, 5)).astype(np.float32) + 0.5
    ids = NodeIds([str(node) for node in range(30)])
    embedding = glace.Embedding(ids, mean, variance if gaussian else None, "kl" if gaussian else "dot")
    pairs = rng.integers(30, size=(200, 2))
    wanted = -embedding.dissimilarities_at(pairs)
    np.testing.assert_allclose(scores_by_embedding(embedding)(pairs), wanted, rtol=1e-12, atol=1e-12)
