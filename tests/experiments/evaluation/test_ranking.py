"""Full ranking against brute force over all pairs, and each ranker against its formula on a small graph."""

import dataclasses
import itertools

import networkx as nx
import numpy as np
import pytest

import glace
from glace.experiments.evaluation import rankers, ranking
from glace.experiments.evaluation.rankers import BELOW, HEURISTICS, by_embedding, by_link_model
from glace.experiments.evaluation.ranking import BestScores, Ranker, full_ranking, hidden_tenth
from glace.graph.split import without_edges
from glace.queries.pair_features import PairFeatures
from glace.rng import Streams
from tests.conftest import small


@pytest.fixture(scope="module")
def graph():
    return glace.datasets.planted(120, communities=3, degree=12, attributes=60, words=10)


@pytest.fixture(scope="module")
def fitted():
    graph = glace.datasets.planted(400, communities=4, degree=12, attributes=80, words=10)
    return glace.train(graph, small(max_steps=60))


def ranker_of(scores):
    return Ranker(lambda sources: scores[sources].copy())


def by_hand(scores, train, hidden):
    """MRR, Hits@10 and recall@10 by sorting, one hidden end after the other; scores have no ties."""
    joined = train.adjacency.toarray() > 0
    ranks = {}
    ends = [tuple(pair) for pair in hidden.tolist()]
    for source, target in ends if train.directed else ends + [(b, a) for a, b in ends]:
        others = [node for node in range(train.num_nodes) if node != source and not joined[source, node]]
        ranks[source, target] = 1 + sorted(others, key=lambda node: -scores[source, node]).index(target)
    values = np.array(list(ranks.values()))
    by_node = [
        np.mean([rank <= 10 for (source, _), rank in ranks.items() if source == node])
        for node in {source for source, _ in ranks}
    ]
    # Filtered: without the other hidden ends of the same node that are ranked higher.
    filtered = np.array(
        [
            rank - sum(other < rank for (node, _), other in ranks.items() if node == source)
            for (source, _), rank in ranks.items()
        ]
    )
    return (1 / values).mean(), (values <= 10).mean(), np.mean(by_node), (1 / filtered).mean(), (filtered <= 10).mean()


def precision_by_hand(scores, train, hidden, k):
    joined, right = train.adjacency.toarray() > 0, {tuple(pair) for pair in hidden.tolist()}
    pairs = (itertools.permutations if train.directed else itertools.combinations)(range(train.num_nodes), 2)
    free = [pair for pair in pairs if not joined[pair]]
    return np.mean([pair in right for pair in sorted(free, key=lambda pair: -scores[pair])[:k]])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("entries", [1, 1000, 1 << 20])
def test_ranking_is_that_of_brute_force(monkeypatch, directed, entries):
    graph = glace.datasets.planted(60, communities=3, degree=8, attributes=60, words=10, directed=directed)
    train, hidden = hidden_tenth(graph, Streams(0))
    scores = np.random.default_rng(0).normal(size=(60, 60))
    scores[tuple(hidden.edges.T)] += 1  # so that some are found
    if not directed:
        scores = np.triu(scores) + np.triu(scores, 1).T
    monkeypatch.setattr(ranking, "ENTRIES", entries)
    found = full_ranking(ranker_of(scores), train, hidden.edges)
    assert (*found[:3], *found[5:]) == pytest.approx(by_hand(scores, train, hidden.edges))
    assert found.filtered_mrr > found.mrr
    assert found.precision_at_100 == pytest.approx(precision_by_hand(scores, train, hidden.edges, 100))
    assert 0.05 < found.mrr < 0.9


def test_the_right_order_is_perfect_and_training_edges_do_not_compete(graph):
    train, hidden = hidden_tenth(graph, Streams(0))
    truth = graph.adjacency.toarray().astype(float)
    found = full_ranking(ranker_of(truth + 10 * train.adjacency.toarray()), train, hidden.edges)
    assert found.hits_at_10 == found.recall_at_10 == 1
    assert found.precision_at_100 == pytest.approx(min(len(hidden.edges), 100) / 100)
    assert found.precision_at_1000 == pytest.approx(len(hidden.edges) / 1000)
    single = hidden.edges[:1]
    assert full_ranking(ranker_of(truth), without_edges(graph, single), single).mrr == 1


def test_ties_count_half(graph):
    train, hidden = hidden_tenth(graph, Streams(0))
    found = full_ranking(ranker_of(np.zeros((120, 120))), train, hidden.edges)
    free = 119 - np.diff(train.adjacency.indptr)
    expected = np.mean([2 / (free[node] + 1) for node in hidden.edges.ravel()])
    assert found.mrr == pytest.approx(expected)
    assert found.hits_at_10 == 0
    pairs = free.sum() / 2
    assert found[3:5] == pytest.approx([len(hidden.edges) / pairs] * 2)


def test_nan_is_last(graph):
    train, hidden = hidden_tenth(graph, Streams(0))
    scores = np.zeros((120, 120))
    scores[tuple(hidden.edges.T)] = scores[tuple(hidden.edges.T[::-1])] = np.nan
    assert full_ranking(ranker_of(scores), train, hidden.edges).mrr < 0.02


def test_pairs_of_types_that_no_edge_connects_do_not_compete():
    generator = np.random.default_rng(0)
    edges = np.unique(np.column_stack([generator.integers(0, 20, 150), generator.integers(20, 50, 150)]), axis=0)
    graph = glace.from_arrays(edges, node_types=["user"] * 20 + ["item"] * 30)
    train, hidden = hidden_tenth(graph, Streams(0))
    scores = np.zeros((50, 50))
    scores[:20, :20] = scores[20:, 20:] = 5
    scores[tuple(hidden.edges.T)] = scores[tuple(hidden.edges.T[::-1])] = 1
    assert full_ranking(ranker_of(scores), train, hidden.edges).hits_at_10 == 1


@pytest.mark.parametrize("k", [3, 10, 40])
def test_best_scores_are_those_of_sorting(k):
    generator = np.random.default_rng(k)
    for _ in range(20):
        scores, right = generator.integers(0, 12, 60).astype(float), generator.random(60) < 0.3
        best = BestScores(40)
        for part in np.array_split(scores, 7):
            best.add(part)
        # Over many random orders of equal scores, the mean is the expected precision.
        orders = [np.lexsort((generator.random(60), -scores))[:k] for _ in range(2000)]
        assert best.precision(scores[right], k) == pytest.approx(np.mean([right[each] for each in orders]), abs=0.03)


def test_proposals_make_the_global_list(graph):
    train, hidden = hidden_tenth(graph, Streams(0))
    wrong = np.array([[0, 0]] * 50)
    ranker = dataclasses.replace(
        ranker_of(np.zeros((120, 120))), proposals=lambda _: np.concatenate([hidden.edges[:50, ::-1], wrong])
    )
    found = full_ranking(ranker, train, hidden.edges)
    assert (found.precision_at_100, found.precision_at_1000) == (0.5, 0.05)


def three_paths(graph, u, v):
    degree = dict(graph.degree)
    return sum((degree[a] * degree[b]) ** -0.5 for a in graph[u] for b in graph[v] if b in graph[a])


def item_knn(graph, u, v):
    def cosine(a, b):
        return len(set(graph[a]) & set(graph[b])) / np.sqrt(len(graph[a]) * len(graph[b]))

    return sum(cosine(each, v) for each in graph[u])


FORMULAS = {
    "adamic-adar": lambda g, u, v: next(iter(nx.adamic_adar_index(g, [(u, v)])))[2],
    "resource-allocation": lambda g, u, v: next(iter(nx.resource_allocation_index(g, [(u, v)])))[2],
    "3-paths": three_paths,
    "degree": lambda g, u, v: g.degree[u] * g.degree[v],
    "item-knn": item_knn,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_heuristics_are_their_formulas(graph, monkeypatch, name):
    monkeypatch.setattr(rankers, "NEAREST", 200)  # all nodes
    plain = nx.from_scipy_sparse_array(graph.adjacency)
    scores = HEURISTICS[name](graph).scores(np.array([5, 80]))
    for row, source in enumerate([5, 80]):
        for target in set(range(120)) - {source} - set(plain[source]):
            assert scores[row, target] == pytest.approx(FORMULAS[name](plain, source, target))


def test_item_knn_uses_the_nearest_nodes_only(graph, monkeypatch):
    edges = graph.adjacency.toarray() > 0
    shared = edges.astype(float) @ edges
    cosine = shared / np.sqrt(np.outer(edges.sum(axis=1), edges.sum(axis=1)))
    np.fill_diagonal(cosine, 0)
    limit = -np.sort(-cosine, axis=1)[:, 2]
    expected = edges[[5, 80]] @ np.where(cosine >= limit[:, None], cosine, 0).T
    monkeypatch.setattr(rankers, "NEAREST", 3)
    monkeypatch.setattr(rankers, "ENTRIES", 1000)
    np.testing.assert_allclose(HEURISTICS["item-knn"](graph).scores(np.array([5, 80])), expected, atol=1e-12)


def test_pagerank_is_symmetric_and_nearly_that_of_networkx(graph):
    plain = nx.from_scipy_sparse_array(graph.adjacency, edge_attribute="weight")
    scores = HEURISTICS["pagerank"](graph).scores(np.arange(120))
    np.testing.assert_allclose(scores, scores.T, atol=1e-10)
    whole = nx.pagerank(plain, alpha=0.8, personalization={7: 1})
    degree = np.array([plain.degree[node] for node in range(120)])
    others = [node for node in range(120) if node != 7 and node not in plain[7]]
    expected = np.array([whole[node] for node in others]) * degree[7]
    assert np.corrcoef(scores[7, others], expected)[0, 1] > 0.95
    assert scores[7, others].sum() == pytest.approx(expected.sum(), rel=0.4), "all but the walks of more than 6 steps"


def test_embeddings_are_ranked_by_dissimilarity(fitted):
    sources = np.array([3, 50])
    scores = by_embedding(fitted.embedding).scores(sources)
    pairs = np.array(list(itertools.product(sources, range(400))))
    np.testing.assert_allclose(-scores.ravel(), fitted.embedding.dissimilarities_at(pairs), rtol=1e-6, atol=1e-6)


def test_candidates_of_the_link_model_come_before_all_others(fitted):
    assert fitted.link_model is not None
    ranker = by_link_model(fitted)
    scores = ranker.scores(np.arange(10))
    model = fitted.link_model
    features = PairFeatures(fitted.embedding, fitted.graph)
    targets, of_targets = features.candidates(np.arange(10))
    for row in range(10):
        own = targets[row][targets[row] >= 0]
        others = np.setdiff1d(np.arange(400), own)
        assert scores[row, own].min() > BELOW / 2 > scores[row, others].max()
    expected = model.scores(of_targets)
    np.testing.assert_allclose(scores[0, targets[0][targets[0] >= 0]], expected[0][targets[0] >= 0])
    found = fitted.links(k=5)
    assert ranker.proposals is not None
    assert [tuple(fitted.embedding.ids[each] for each in pair) for pair in ranker.proposals(5).tolist()] == list(
        zip(found.source.tolist(), found.target.tolist(), strict=True)
    )
    without = dataclasses.replace(fitted, link_model=None)
    plain = by_embedding(fitted.embedding).scores(np.arange(3))
    np.testing.assert_array_equal(by_link_model(without).scores(np.arange(3)), plain)
