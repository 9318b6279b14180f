"""Certainty: what the features of a node are, and what is learned from held-out pairs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import glace
from glace.errors import FormatError, InputError
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding, PlattScaling
from glace.graph.split import HeldOut, sample_non_edges
from glace.ids import NodeIds
from glace.queries import certainty
from glace.queries.certainty import (
    ATTRIBUTES,
    DISTANCE,
    EDGES,
    NEW,
    OWN_LOSS,
    RANDOM_LOSS,
    STEPS,
    TYPICAL,
    Center,
    CertaintyModel,
    ErrorModel,
    NodeFeatures,
    ends_of,
    fit_certainty,
    quantiles_of,
    share_below,
    typical_certainty,
)


def small_graph(count=60, random_state=0):
    rng = np.random.default_rng(random_state)
    edges = rng.integers(count, size=(3 * count, 2))
    attributes = (rng.random((count, 12)) < rng.random((count, 1))).astype(np.float32)
    return glace.from_arrays(edges[edges[:, 0] != edges[:, 1]], attributes)


def embedding_of(graph, measure="symmetric_kl", random_state=1):
    rng, count = np.random.default_rng(random_state), graph.num_nodes
    mean = rng.normal(size=(count, 3)).astype(np.float32)
    variance = None if measure == "dot" else np.exp(rng.normal(size=(count, 3))).astype(np.float32)
    return Embedding(graph.ids, mean, variance, measure, PlattScaling(1.5, 0.7))


def features_of(graph, measure="symmetric_kl"):
    embedding = embedding_of(graph, measure)
    return NodeFeatures(embedding, graph, Center.of(embedding.gaussian))


@pytest.mark.parametrize("measure", ["symmetric_kl", "kl", "wasserstein2", "dot"])
def test_the_features_of_a_node_are_their_formulas(measure, monkeypatch):
    monkeypatch.setattr(certainty, "OWN_EDGES", 1000)
    graph = small_graph()
    features = features_of(graph, measure)
    embedding, around = features.embedding, graph.neighborhoods()
    nodes = np.array([7, 3, 30])
    found = features.of(nodes)

    def loss(first, second):
        ways = [[first, second], [second, first]]
        return min(np.logaddexp(0, -0.7 * (1.5 - embedding.dissimilarities_at(np.array(ways)))).tolist())

    own = [[loss(node, other) for other in around[[node]].indices] for node in range(graph.num_nodes)]
    usual = np.mean(np.concatenate(own))
    for node, row in zip(nodes.tolist(), found, strict=True):
        assert row[EDGES] == pytest.approx(np.log1p(len(own[node])))
        assert row[ATTRIBUTES] == pytest.approx(np.log1p(np.count_nonzero(graph.attributes[node])))
        assert row[OWN_LOSS] == pytest.approx(np.log((sum(own[node]) + 3 * usual) / (len(own[node]) + 3) + 1e-3))
        pairs = np.column_stack([np.full(graph.num_nodes, node), np.arange(graph.num_nodes)])
        random = np.logaddexp(0, 0.7 * (1.5 - embedding.dissimilarities_at(pairs))).mean()
        assert row[RANDOM_LOSS] == pytest.approx(np.log(random + 1e-3), rel=1e-4)
        width = 1 if embedding.variance is None else embedding.variance.mean(axis=0)
        gap = embedding.mean[node] - embedding.mean.mean(axis=0)
        assert row[DISTANCE] == pytest.approx(np.log((gap**2 / width).sum()), rel=1e-4)


def test_the_losses_of_a_busy_node_are_those_of_some_of_its_edges(monkeypatch):
    monkeypatch.setattr(certainty, "OWN_EDGES", 2)
    graph = glace.from_arrays(np.array([[0, each] for each in range(1, 10)]))
    sums, counts = features_of(graph)._losses(np.array([0, 3]))
    assert counts.tolist() == [2, 1]
    assert (sums > 0).all()


def training_pairs(graph, generator):
    edges = graph.edges()
    return HeldOut(edges, sample_non_edges(graph, len(edges), generator))


def planted(count=400, hard=200, edges=2000, random_state=0):
    """Pairs of nodes from `hard` on are right by chance; those of the others nearly always. Hard nodes have few edges.

    Every node lies far from the nodes of the other group, so a pair of the two is told apart.
    """
    rng = np.random.default_rng(random_state)
    group = np.arange(count) % 4
    mean = 6 * np.eye(4)[group] + rng.normal(size=(count, 4)) * np.where(np.arange(count) < hard, 0.2, 4)[:, None]
    drawn = rng.integers(count, size=(20 * edges, 2))
    same = (group[drawn[:, 0]] == group[drawn[:, 1]]) & (drawn[:, 0] != drawn[:, 1])
    easy = (drawn < hard).all(axis=1)
    kept = drawn[same & (easy | (rng.random(len(drawn)) < 0.2))][:edges]
    graph = glace.from_arrays(kept)
    nodes = graph.ids.to_numpy()
    embedding = Embedding(graph.ids, mean[nodes].astype(np.float32), None, "dot", PlattScaling(-20.0, 0.3))
    return graph, embedding, nodes


def fitted(graph, embedding, held_out, as_new=None):
    features = NodeFeatures(embedding, graph, Center.of(embedding.gaussian))
    models = fit_certainty(features, graph, held_out, as_new, np.random.default_rng(0))
    return features, CertaintyModel(features.center, *models, np.linspace(0, 1, STEPS + 1))


def test_expected_errors_are_those_of_held_out_pairs():
    graph, embedding, nodes = planted()
    held_out = training_pairs(graph, np.random.default_rng(3))
    features, model = fitted(graph, embedding, held_out)
    errors = model.expected_errors(features)
    pairs = np.concatenate([held_out.edges, held_out.non_edges])
    wrong = (features.logits(pairs) > 0) != held_out.truth()
    hard = nodes[pairs] >= 200
    found = {kind: wrong[hard.all(axis=1) == kind].mean() for kind in (False, True)}
    assert found[True] > 2 * found[False]
    assert errors[nodes >= 200].mean() > 1.5 * errors[nodes < 200].mean()
    assert errors.mean() == pytest.approx(wrong.mean(), abs=0.05)


def test_weights_keep_their_signs_and_are_typical_where_little_is_known():
    graph, embedding, _ = planted()
    whole = training_pairs(graph, np.random.default_rng(3))
    _, learned = fitted(graph, embedding, whole)
    few = HeldOut(whole.edges[:3], whole.non_edges[:3])
    _, guessed = fitted(graph, embedding, few)
    for model in (learned, guessed):
        assert (model.known.weights * np.sign(TYPICAL) >= 0).all()
    direction = guessed.known.weights / np.linalg.norm(guessed.known.weights)
    assert direction @ TYPICAL / np.linalg.norm(TYPICAL) > 0.98


def test_without_held_out_pairs_everything_is_typical():
    graph = small_graph()
    features = features_of(graph)
    known, new = typical_certainty(features)
    values = features.of(np.arange(graph.num_nodes))
    expected = expit(np.clip((values - values.mean(axis=0)) / values.std(axis=0), -2, 2) @ TYPICAL + np.log(6 / 94))
    np.testing.assert_allclose(known.probabilities(values), expected)
    assert (new.probabilities(values[:, NEW]) >= expected).all()


def test_a_node_without_edges_is_less_certain_than_with_them():
    graph, embedding, _ = planted()
    held_out = training_pairs(graph, np.random.default_rng(3))
    features, model = fitted(graph, embedding, held_out)
    values = features.of(np.arange(graph.num_nodes))
    alone = values.copy()
    alone[:, EDGES] = 0
    assert (model.of_features(alone) > model.of_features(values)).all()
    new = model.expected_errors_of_new(embedding.gaussian, np.ones(graph.num_nodes, np.int64))
    np.testing.assert_allclose(new, model.of_features(alone), rtol=1e-5)


def test_errors_of_new_nodes_are_raised_to_what_is_found():
    graph, embedding, _ = planted(hard=400)
    held_out = training_pairs(graph, np.random.default_rng(3))
    _, known_alone = fitted(graph, embedding, held_out)

    # The Gaussians of new nodes are those of other groups: edges are missed, and nothing else is found.
    ends = ends_of(held_out)
    wrong = replace(embedding.take(ends), mean=-embedding.mean[ends])
    _, model = fitted(graph, embedding, held_out, wrong)
    assert model.new.intercept > known_alone.new.intercept + 0.01
    np.testing.assert_array_equal(model.known.weights, known_alone.known.weights)


def test_the_error_is_a_logistic_function_of_clipped_features():
    model = ErrorModel(np.array([1.0, 0.0]), np.array([2.0, 1.0]), np.array([0.5, -1.0]), np.array(-1.0))
    found = model.probabilities(np.array([[3.0, 0.5], [100.0, -100.0]]))
    np.testing.assert_allclose(found, expit([0.5 - 0.5 - 1, 0.5 * 2 + 2 - 1]))


def test_certainty_is_the_share_of_nodes_with_a_larger_error():
    errors = np.random.default_rng(0).random(500).astype(np.float32)
    blank = ErrorModel(np.zeros(5), np.ones(5), np.zeros(5), np.array(0.0))
    model = CertaintyModel(Center(np.zeros(2), np.ones(2)), blank, blank, quantiles_of(errors))
    found = model.certainty(errors)
    np.testing.assert_allclose(found, (errors[:, None] < errors).mean(axis=1), atol=2 / 500)
    assert model.certainty(np.array([0.0, 1.0])).tolist() == [1, 0]


def test_doubts_are_in_words():
    graph = glace.from_arrays(
        np.array([[0, each] for each in range(1, 9)]), (np.arange(10)[:, None] < np.arange(1, 10)).astype(np.float32)
    )
    features = features_of(graph)
    values = features.of(np.arange(10))
    center, scale = values.mean(axis=0), np.array([0.1, 0.1, 1e9, 1e9, 1e9])
    known = ErrorModel(center, scale, TYPICAL, np.array(-2.0))
    model = CertaintyModel(features.center, known, known, np.zeros(STEPS + 1))
    assert model.doubts(features, np.array([0, 8, 9])) == ["", "1 attribute", "no edges; no attributes"]
    scale[[OWN_LOSS, RANDOM_LOSS, DISTANCE]] = 1e-9
    found = "; ".join(model.doubts(features, np.arange(9)))
    for words in ("its own edges are hard to predict", "it is near many nodes", "little sets it apart"):
        assert words in found


def test_blocks_give_the_same_errors(monkeypatch):
    graph, embedding, _ = planted()
    features, model = fitted(graph, embedding, training_pairs(graph, np.random.default_rng(3)))
    whole = model.expected_errors(features)
    monkeypatch.setattr(certainty, "ROWS", 7)
    np.testing.assert_allclose(model.expected_errors(features), whole, rtol=1e-6)


def test_a_model_from_a_file_must_fit():
    graph, embedding, _ = planted()
    _, model = fitted(graph, embedding, training_pairs(graph, np.random.default_rng(3)))
    whole = model.to_arrays()
    again = CertaintyModel.from_arrays(whole, 4)
    np.testing.assert_array_equal(again.known.weights, model.known.weights)
    assert again.new.weights.shape == (len(NEW),)
    with pytest.raises(FormatError, match="do not fit the embedding"):
        CertaintyModel.from_arrays(whole, 5)
    with pytest.raises(FormatError, match="must be finite, with widths above 0"):
        CertaintyModel.from_arrays({**whole, "center.width": np.zeros(4)}, 4)
    with pytest.raises(FormatError, match="must be finite"):
        CertaintyModel.from_arrays({**whole, "quantiles": np.full(STEPS + 1, np.nan)}, 4)


def test_equals_have_the_share_of_what_is_below_all_of_them():
    quantiles = np.array([0.0, 0, 0, 1, 2])
    np.testing.assert_allclose(share_below(np.array([0.0, 1, 2, 3]), quantiles), [0, 0.75, 1, 1])


@pytest.mark.parametrize("measure", ["kl", "symmetric_kl", "wasserstein2"])
@pytest.mark.parametrize("context", [False, True])
def test_what_comes_from_unequal_spread(measure, context):
    rng = np.random.default_rng(0)
    gaussians = [Gaussian(rng.normal(size=(9, 3)), np.exp(rng.normal(size=(9, 3)))) for _ in range(2)]
    own, other = gaussians[0], gaussians[1] if context else None
    embedding = Embedding(NodeIds.numbered(9), own.mean, own.variance, measure, context=other)
    pairs = np.array([[0, 1], [3, 2], [5, 5]])
    spread, whole = embedding.variance_terms_at(pairs), embedding.dissimilarities_at(pairs)
    assert (spread <= whole + 1e-12).all()
    still = Gaussian(np.ones((9, 3)), own.variance)
    beside = None if other is None else Gaussian(np.ones((9, 3)), other.variance)
    moved = Embedding(NodeIds.numbered(9), still.mean, still.variance, measure, context=beside)
    np.testing.assert_allclose(spread, moved.dissimilarities_at(pairs), rtol=1e-9, atol=1e-12)


def test_points_have_no_spread():
    embedding = Embedding(NodeIds.numbered(3), np.ones((3, 2), np.float32), None, "dot")
    assert embedding.variance_terms_at(np.array([[0, 1]])).tolist() == [0]


@pytest.mark.parametrize("name", ["expected_error", "certainty"])
@pytest.mark.parametrize("ranks", [[0.5, 1.5, 0], [0.5, -0.1, 0], [0.5, np.nan, 0]])
def test_errors_and_certainties_are_shares(name, ranks):
    values: Any = {name: np.array(ranks, np.float32)}
    with pytest.raises(InputError, match=f"{name} must be from 0 to 1"):
        Embedding(NodeIds.numbered(3), np.ones((3, 2), np.float32), None, "dot", **values)


def test_certainties_are_one_for_each_node():
    with pytest.raises(InputError, match=r"certainty must be 3 numbers, not of the shape \(2,\)"):
        Embedding(NodeIds.numbered(3), np.ones((3, 2), np.float32), None, "dot", certainty=np.ones(2, np.float32))
