"""The authors' program: its batches, its loss and its initial weights against what it says."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.distributions import Independent, Normal, kl_divergence
from torch.nn import functional

import glace
from glace.experiments.baselines.as_coded import GLACEAsCoded, PairSampler, PlainEncoder, batch_loss
from glace.rng import Streams


@pytest.fixture(scope="module")
def graph():
    return glace.datasets.planted(60, communities=3, degree=8, attributes=30, words=6)


def test_the_options_are_those_of_the_program():
    made = GLACEAsCoded()
    assert (made.dim, made.hidden, made.batch_size, made.n_negatives) == (64, 512, 128, 5)
    assert (made.learning_rate, made.negative_power, made.max_steps, made.validate_every) == (1e-3, 0.75, 100_000, 50)


@pytest.mark.parametrize("directed", [False, True])
def test_batches_are_edges_turned_at_random_with_nodes_that_are_not_joined(directed):
    graph = glace.datasets.planted(60, communities=3, degree=8, attributes=30, words=6, directed=directed)
    sampler = PairSampler(graph, GLACEAsCoded(batch_size=2000), Streams(0))
    source, targets = sampler.batch(0)
    assert targets.shape == (2000, 6)
    around = graph.neighborhoods() != 0
    assert around[source, targets[:, 0]].all()
    assert 0.4 < (source < targets[:, 0]).mean() < 0.6
    for column in targets[:, 1:].T:
        assert not around[source, column].any()
    assert (source[:, None] == targets[:, 1:]).any(), "the program does not reject the node itself"
    again = PairSampler(graph, GLACEAsCoded(batch_size=2000), Streams(0)).batch(0)
    np.testing.assert_array_equal(targets, again[1])


def test_negatives_are_drawn_by_degree_to_the_three_quarters():
    """A hub of degree 16 beside pairs: 8 times as often as a node of degree 1."""
    edges = [(0, other) for other in range(1, 17)] + [(17 + 2 * pair, 18 + 2 * pair) for pair in range(20)]
    graph = glace.from_arrays(edges, np.eye(57))
    source, targets = PairSampler(graph, GLACEAsCoded(batch_size=20_000), Streams(0)).batch(0)
    free = source >= 17
    counts = np.bincount(targets[free, 1:].ravel(), minlength=57)
    assert counts[0] / counts[1:17].mean() == pytest.approx(8, rel=0.1)


def test_weighted_edges_are_drawn_by_weight():
    graph = glace.from_arrays([(0, 1), (2, 3)], np.eye(4), weights=[3.0, 1.0])
    source, _ = PairSampler(graph, GLACEAsCoded(batch_size=8000), Streams(0)).batch(0)
    assert (source < 2).mean() == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("dense", [False, True])
def test_the_loss_is_the_mean_over_all_pairs(graph, dense):
    attributes = graph.features() if dense else sp.csr_array(graph.features())
    encoder = PlainEncoder(30, 16, 4, np.random.default_rng(0))
    source, targets = PairSampler(graph, GLACEAsCoded(batch_size=9), Streams(0)).batch(0)
    x = torch.from_numpy(graph.features().copy())
    u = torch.relu(x @ encoder.weight + encoder.bias)
    mean = u @ encoder.mean_weight + encoder.mean_bias
    variance = functional.elu(u @ encoder.variance_weight + encoder.variance_bias) + 1 + 1e-14
    losses = []
    for i, row in zip(source, targets, strict=True):
        for place, j in enumerate(row):
            a, b = (Independent(Normal(mean[node], variance[node].sqrt()), 1) for node in (i, j))
            energy = -(kl_divergence(a, b) + kl_divergence(b, a)) / 2
            losses.append(-functional.logsigmoid(energy if place == 0 else -energy))
    expected = torch.stack(losses).mean()
    found = batch_loss(encoder, attributes, source, targets)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    gradients = [torch.autograd.grad(each, list(encoder.parameters())) for each in (found, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_weights_and_biases_start_xavier_uniform():
    encoder = PlainEncoder(300, 512, 64, np.random.default_rng(0))
    bounds = {"weight": 6 / 812, "bias": 3 / 512, "mean_weight": 6 / 576, "mean_bias": 3 / 64, "variance_bias": 3 / 64}
    for name, squared in bounds.items():
        values = getattr(encoder, name).detach()
        assert values.abs().max() <= squared**0.5
        assert values.abs().max() > 0.9 * squared**0.5
        assert abs(values.mean()) < 0.3 * squared**0.5


def test_attributes_are_used_as_they_are(graph):
    """Longer rows are other rows, where the package would scale them."""
    options = {"dim": 4, "hidden": 8, "max_steps": 1}
    plain, longer = (
        GLACEAsCoded(**options).embed(graph.with_attributes(graph.features() * factor), Streams(0)) for factor in (1, 3)
    )
    assert not np.allclose(plain.mean, longer.mean)
