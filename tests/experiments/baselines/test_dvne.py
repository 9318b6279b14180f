"""DVNE: the published loss against numpy, planted answers."""

from typing import Any

import numpy as np
import pytest
import torch

import glace
from glace.experiments.baselines.dvne import DVNE, WassersteinAutoEncoder, triplet_losses
from glace.experiments.baselines.encoders import neighbor_rows
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.gaussian.dissimilarity import Gaussian
from glace.graph.split import hold_out
from glace.rng import Streams


def test_rows_are_transition_probabilities():
    graph = glace.from_arrays([[0, 1], [1, 2]], weights=[1.0, 3.0], ids=list("abcd"), directed=True)
    rows = neighbor_rows(graph).toarray()
    wanted = [[0.0, 1.0, 0.0, 0.0], [0.25, 0.0, 0.75, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    np.testing.assert_allclose(rows, wanted)


def test_the_loss_of_triplets_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    numbers = [(rng.normal(size=(5, 3)), rng.random((5, 3)) + 0.1) for _ in range(3)]

    def distance(first, second):
        return np.sqrt(((first[0] - second[0]) ** 2 + (np.sqrt(first[1]) - np.sqrt(second[1])) ** 2).sum(axis=1))

    allowed = np.array([True, True, False, True, True])
    wanted = distance(numbers[0], numbers[1]) ** 2 + allowed * np.exp(-distance(numbers[0], numbers[2]))
    first, second, third = (Gaussian(*map(torch.from_numpy, each)) for each in numbers)
    np.testing.assert_allclose(triplet_losses(first, second, third, torch.from_numpy(allowed)), wanted)


def test_equal_gaussians_have_a_gradient():
    mean, variance = torch.zeros(1, 2, requires_grad=True), torch.ones(1, 2)
    same = Gaussian(mean, variance)
    triplet_losses(same, same, same, torch.tensor([True])).sum().backward()
    assert mean.grad is not None
    assert torch.isfinite(mean.grad).all()


def test_the_error_counts_edges_only(graph):
    network = WassersteinAutoEncoder(graph, DVNE(dim=4, hidden=8), Streams(0))
    nodes = np.array([0, 7, 100])
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32))
    with torch.no_grad():
        gaussians = network(network.rows, nodes)
        found = network.error(gaussians, nodes, noise).item()
        drawn = gaussians.mean + gaussians.variance.sqrt() * noise
        weights = network.output(network.identity, np.arange(150))
        q = torch.sigmoid(torch.relu(network.decoder(drawn)) @ weights.T).numpy()
    p = network.rows[nodes].toarray()
    assert found == pytest.approx(((p * (p - q)) ** 2).sum(axis=1).mean(), rel=1e-4)


def test_held_out_edges_are_found_without_attributes(graph):
    train, held_out = hold_out(graph.without_attributes(), 0.1, np.random.default_rng(0))
    options: dict[str, Any] = {"dim": 8, "hidden": 32, "learning_rate": 1e-2, "max_steps": 150}
    found = DVNE(**options).embed(train, Streams(0))
    before = DVNE(**options | {"max_steps": 1, "learning_rate": 1e-9}).embed(train, Streams(0))
    assert found.dissimilarity == "wasserstein2"
    assert link_prediction(found, held_out).auc > max(0.7, link_prediction(before, held_out).auc + 0.05)
