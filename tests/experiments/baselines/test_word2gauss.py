"""word2gauss: the published loss against numpy, contexts of walks, bounds, planted answers, direction."""

import itertools
from typing import Any

import numpy as np
import pytest

import glace
from glace.experiments.baselines.encoders import identity
from glace.experiments.baselines.word2gauss import (
    GaussianTable,
    SkipGrams,
    Word2Gauss,
    batch_loss,
    contexts,
    skip_grams,
)
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.graph.split import hold_out
from glace.rng import Streams


def kl(first, second):
    """KL(first || second) of (mean, variance), written out."""
    (m, v), (n, w) = first, second
    return 0.5 * (v / w + (m - n) ** 2 / w - 1 - np.log(v / w)).sum()


def test_the_loss_is_that_of_the_paper():
    network = GaussianTable(20, Word2Gauss(dim=3), Streams(0))
    gaussian = network.embed(identity(20), np.arange(20))
    assert gaussian.variance is not None
    at = list(zip(gaussian.mean.astype(float), gaussian.variance.astype(float), strict=True))
    rng = np.random.default_rng(0)
    batch = SkipGrams(*(rng.integers(20, size=40) for _ in range(3)))
    terms = [max(0, 0.5 + kl(at[c], at[w]) - kl(at[o], at[w])) for w, c, o in zip(*batch, strict=True)]
    assert 0 in terms
    assert batch_loss(network, identity(20), batch, 0.5).item() == pytest.approx(np.mean(terms), rel=1e-4)


def test_contexts_are_near_in_the_walk():
    walks = np.array([[0, 1, 2, 3, 4], [5, 6, -1, -1, -1], [7, 8, 7, 8, 7]], dtype=np.int32)
    pairs = {tuple(pair) for _ in range(50) for pair in contexts(walks, 2, np.random.default_rng(_)).tolist()}
    whole = {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (5, 6), (7, 8), (8, 7)}
    assert pairs == whole, "within two steps, not beyond the end, and no node with itself"


def test_batches_are_full_and_the_same_again(graph):
    options = Word2Gauss(batch_size=100, length=10)
    first, again = (list(itertools.islice(skip_grams(graph, options, Streams(3)), 30)) for _ in range(2))
    assert all(
        np.array_equal(a, b) for one, two in zip(first, again, strict=True) for a, b in zip(one, two, strict=True)
    )
    assert [len(batch.nodes) for batch in first[:5]] == [100] * 5
    assert not np.array_equal(first[0].nodes, first[-1].nodes)
    degrees = np.diff(graph.adjacency.indptr)
    drawn = np.concatenate([batch.others for batch in first])
    assert np.corrcoef(np.bincount(drawn, minlength=150), degrees**0.75)[0, 1] > 0.4


def test_bounds_hold_whatever_is_learned(graph):
    options = Word2Gauss(dim=4, learning_rate=0.5, max_steps=30, longest_mean=2, least_variance=0.5, largest_variance=3)
    embedding = options.embed(graph, Streams(0))
    assert np.linalg.norm(embedding.mean, axis=1).max() <= 2.0001
    assert embedding.variance is not None
    assert 0.4999 <= embedding.variance.min() < embedding.variance.max() <= 3.0001


def test_held_out_edges_are_found_without_attributes(graph):
    train, held_out = hold_out(graph.without_attributes(), 0.1, np.random.default_rng(0))
    options: dict[str, Any] = {"dim": 8, "learning_rate": 5e-2, "max_steps": 100, "batch_size": 256}
    found = Word2Gauss(**options).embed(train, Streams(0))
    before = Word2Gauss(**options | {"max_steps": 1, "learning_rate": 1e-9}).embed(train, Streams(0))
    assert found.dissimilarity == "symmetric_kl"
    assert link_prediction(found, held_out).auc > max(0.7, link_prediction(before, held_out).auc + 0.1)


def test_walks_and_energy_follow_the_direction_of_edges():
    chain = glace.from_arrays([[node, node + 1] for node in range(30)], directed=True)
    batches = itertools.islice(skip_grams(chain, Word2Gauss(window=3, batch_size=50), Streams(0)), 5)
    assert {int(each) for batch in batches for each in batch.contexts - batch.nodes} == {1, 2, 3}
    assert Word2Gauss(dim=2, max_steps=2, validation_fraction=0).embed(chain, Streams(0)).dissimilarity == "kl"
