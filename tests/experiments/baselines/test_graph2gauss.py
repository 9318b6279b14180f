"""Graph2Gauss: the published loss, planted answers, unseen nodes, direction, the same bits every time."""

import numpy as np
import pytest

import glace
from glace.errors import InputError, TrainingDiverged
from glace.experiments.baselines import graph2gauss
from glace.experiments.baselines.graph2gauss import Graph2Gauss, HopSampler, RowEncoder, batch_loss
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.graph.split import hold_out
from glace.metrics import LinkScores, link_scores
from glace.model.network import using_threads
from glace.rng import Streams


@pytest.fixture(autouse=True)
def one_thread():
    """Steps this small take longer with more."""
    with using_threads(1):
        yield


def small(**options):
    return Graph2Gauss(**{"dim": 8, "hidden": 32, "batch_size": 128, "max_steps": 100, "validate_every": 25} | options)


def kl(first, second):
    """KL(second || first) of (mean, variance), written out."""
    (m, v), (n, w) = first, second
    return 0.5 * (w / v + (n - m) ** 2 / v - 1 - np.log(w / v)).sum()


@pytest.mark.parametrize("scaled", [False, True])
def test_the_loss_is_that_of_the_paper(planted, scaled):
    encoder = RowEncoder(planted.features(), 16, 4, np.random.default_rng(0))
    triplets = HopSampler(planted, 2, 30, Streams(0)).batch(0).triplets()
    gaussian = encoder.embed(planted.features(), np.arange(planted.num_nodes))
    assert gaussian.variance is not None
    at = list(zip(gaussian.mean.astype(float), gaussian.variance.astype(float), strict=True))
    terms = [
        kl(at[anchor], at[near]) ** 2 + np.exp(-kl(at[anchor], at[far]))
        for anchor, near, far, _ in zip(*triplets, strict=True)
    ]
    wanted = np.average(terms, weights=triplets.weight if scaled else None)
    loss = batch_loss(encoder, planted.features(), triplets, scaled)
    assert loss.item() == pytest.approx(wanted, rel=1e-4)


def test_steps_lower_the_loss(planted):
    attributes = planted.features()
    encoder = RowEncoder(attributes, 16, 4, np.random.default_rng(0))
    sampler = HopSampler(planted, 2, 128, Streams(0))
    others = HopSampler(planted, 2, 500, Streams(1)).batch(0).triplets()
    before = batch_loss(encoder, attributes, others, False).item()
    small(max_steps=30).train(
        encoder, lambda step: batch_loss(encoder, attributes, sampler.batch(step).triplets(), False), None
    )
    assert batch_loss(encoder, attributes, others, False).item() < 0.8 * before


@pytest.mark.parametrize("options", [{}, {"hops": 1}, {"scaled": True}, {"validation_fraction": 0}])
def test_held_out_edges_of_a_planted_graph_are_found(planted, options):
    train, held_out = hold_out(planted, 0.1, np.random.default_rng(0))
    untrained = small(max_steps=1, learning_rate=1e-12, **options).embed(train, Streams(0))
    trained = small(**options).embed(train, Streams(0))
    assert trained.dissimilarity == "symmetric_kl"
    assert link_prediction(trained, held_out).auc > max(0.8, link_prediction(untrained, held_out).auc + 0.1)


def test_the_same_seed_gives_the_same_bits(planted):
    first, again, other = (small(max_steps=20).embed(planted, Streams(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.mean, again.mean)
    np.testing.assert_array_equal(first.variance, again.variance)
    assert (first.mean != other.mean).any()


def test_unseen_nodes_follow_with_the_gaussians_of_their_attributes(planted):
    alone = small(max_steps=20).embed(planted, Streams(0))
    rows = planted.attributes[[5, 9]]
    embedding = small(max_steps=20).embed(planted, Streams(0), unseen=3 * rows)
    assert len(embedding) == planted.num_nodes + 2
    np.testing.assert_array_equal(embedding.mean[:-2], alone.mean)
    # The rows are scaled to unit length, so three times as long they are still the same nodes.
    np.testing.assert_allclose(embedding.mean[-2:], alone.mean[[5, 9]], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(embedding.variance[-2:], alone.variance[[5, 9]], rtol=1e-4)


def test_dense_attributes_are_scaled_by_the_training_nodes(planted):
    """Columns of very unequal size and place: the community, and one that says nothing and is far larger."""
    community = np.eye(10, dtype=np.float32)[planted.labels.codes]
    noise = 1000 * np.random.default_rng(0).standard_normal((400, 1), dtype=np.float32)
    dense = planted.with_attributes(np.hstack([0.01 * community + 7, noise]))
    train, held_out = hold_out(dense, 0.1, np.random.default_rng(0))
    embedding = small().embed(train, Streams(0), unseen=dense.attributes[:3])
    np.testing.assert_allclose(embedding.mean[-3:], embedding.mean[:3], rtol=1e-3, atol=1e-4)
    assert link_prediction(embedding.take(np.arange(400)), held_out).auc > 0.85


def test_the_direction_of_edges_is_learned():
    """Edges lead from each group to the next only: back it is far, and the reverse of an edge must look worse."""
    rng = np.random.default_rng(0)
    group = np.arange(200) // 40
    source = np.repeat(np.arange(160), 4)
    target = 40 * (group[source] + 1) + rng.integers(40, size=len(source))
    pairs = np.unique(np.column_stack([source, target]), axis=0)
    graph = glace.from_arrays(pairs, attributes=np.eye(5, dtype=np.float32)[group], directed=True)
    embedding = small(validation_fraction=0, learning_rate=1e-2, max_steps=200).embed(graph, Streams(0))
    assert embedding.dissimilarity == "kl"
    both = np.concatenate([pairs, pairs[:, ::-1]])
    truth = np.repeat([True, False], len(pairs))
    assert link_scores(-embedding.dissimilarities_at(both), truth).auc > 0.75


def test_the_best_weights_are_kept_and_training_stops_in_time(planted, monkeypatch):
    seen: list[float] = []
    weights = []

    def scores(encoder, attributes, measure, held_out):
        seen.append([0.6, 0.9, 0.8, 0.7][len(seen)])
        weights.append(encoder.embed(attributes, np.arange(400)).mean)
        return LinkScores(seen[-1], 0.5)

    monkeypatch.setattr(graph2gauss, "validation_scores", scores)
    embedding = small(max_steps=50, validate_every=5, patience=2).embed(planted, Streams(0))
    assert len(seen) == 4
    np.testing.assert_array_equal(embedding.mean, weights[1])


def test_no_node_is_encoded_that_the_batch_has_not(planted, encoded_rows):
    triplets = HopSampler(planted, 2, 10, Streams(0)).batch(0).triplets()
    encoder = RowEncoder(planted.features(), 16, 4, np.random.default_rng(0))
    batch_loss(encoder, planted.features(), triplets, False)
    assert encoded_rows == [len(np.unique(np.concatenate(triplets[:3])))]


def test_a_graph_without_attributes_is_learned_by_identity(planted):
    bare = planted.without_attributes()
    assert small(max_steps=5).embed(bare, Streams(0)).mean.shape == (400, 8)
    with pytest.raises(InputError, match="the graph has no attributes"):
        small().embed(bare, Streams(0), unseen=np.ones((1, 400)))


def test_unseen_nodes_need_the_same_columns(planted):
    with pytest.raises(InputError, match=r"the 120 attributes of the graph, but have the shape \(2, 3\)"):
        small().embed(planted, Streams(0), unseen=np.ones((2, 3)))


def test_a_loss_that_is_not_finite_raises(planted):
    with pytest.raises(TrainingDiverged, match="learning rate 1e"):
        small(learning_rate=1e30).embed(planted, Streams(0))
