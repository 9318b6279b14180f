"""SDNE: the published loss, the estimate from sampled columns, planted answers."""

from typing import Any

import numpy as np
import pytest
import torch

import glace
from glace.experiments.baselines.sdne import SDNE, AutoEncoder, adjacency_rows
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.graph.split import hold_out
from glace.rng import Streams


def test_rows_are_symmetric_and_at_most_one():
    directed = glace.from_arrays([[0, 1], [1, 2]], weights=[2.0, 8.0], directed=True)
    np.testing.assert_allclose(
        adjacency_rows(directed).toarray(), [[0.0, 0.25, 0.0], [0.25, 0.0, 1.0], [0.0, 1.0, 0.0]]
    )


def by_hand(network, rows, nodes, beta):
    """Reconstruct whole rows and sum all errors, in float64."""
    x = rows.toarray().astype(float)
    with torch.no_grad():
        points = network(rows, nodes).mean
        found = network.reconstructed(points, np.arange(x.shape[1])).numpy().astype(float)
    weight = np.where(x[nodes] > 0, beta**2, 1.0)
    return (weight * (found - x[nodes]) ** 2).sum(axis=1).mean()


def test_all_columns_give_the_error_of_the_paper(graph):
    network = AutoEncoder(graph, SDNE(dim=4, hidden=8, beta=3), Streams(0))
    nodes = np.array([3, 50, 149])
    with torch.no_grad():
        found = network._error(network(network.rows, nodes).mean, nodes, np.arange(150)).item()
    assert found == pytest.approx(by_hand(network, network.rows, nodes, 3), rel=1e-4)


def test_sampled_columns_give_the_same_on_average(graph):
    network = AutoEncoder(graph, SDNE(dim=4, hidden=8, beta=3), Streams(0))
    network.bias.data.fill_(0.0)  # absent columns must count visibly
    nodes, rng = np.arange(0, 150, 10), np.random.default_rng(0)
    with torch.no_grad():
        points = network(network.rows, nodes).mean
        found = [network._error(points, nodes, rng.integers(150, size=30)).item() for _ in range(400)]
    error = float(np.std(found)) / 20
    assert np.mean(found) == pytest.approx(by_hand(network, network.rows, nodes, 3), abs=4 * error)


def test_neighbours_are_drawn_together_by_alpha(graph):
    def losses(alpha):
        network = AutoEncoder(graph, SDNE(dim=4, hidden=8, alpha=alpha, batch_size=64), Streams(0))
        with torch.no_grad():
            return network.loss(0).item(), network, network.sampler.batch(0)

    (without, network, batch), (with_distances, _, _) = losses(0), losses(2)
    with torch.no_grad():
        points = network(network.rows, np.arange(150)).mean.numpy()
    distances = ((points[batch.anchors] - points[batch.targets]) ** 2).sum(axis=1)
    degree = graph.adjacency.nnz / 150
    assert with_distances - without == pytest.approx(2 * degree * distances.mean(), rel=1e-3)


def test_held_out_edges_are_found_without_attributes(graph):
    train, held_out = hold_out(graph.without_attributes(), 0.1, np.random.default_rng(0))
    options: dict[str, Any] = {"dim": 16, "hidden": 32, "learning_rate": 1e-2, "max_steps": 150}
    found = SDNE(**options).embed(train, Streams(0))
    before = SDNE(**options | {"max_steps": 1, "learning_rate": 1e-9}).embed(train, Streams(0))
    assert link_prediction(found, held_out).auc > max(0.7, link_prediction(before, held_out).auc + 0.05)


def test_points_are_those_of_all_edges(graph):
    """Held-out edges decide when to stop, but are part of the rows that are encoded at the end."""
    options = SDNE(dim=4, hidden=8, max_steps=2)
    embedding = options.embed(graph, Streams(0))
    rest, _ = options.hold_out(graph, None, Streams(0))
    lost = np.flatnonzero(np.diff(rest.adjacency.indptr) != np.diff(graph.adjacency.indptr))
    assert len(lost) > 0
    again = options.embed(rest, Streams(0), validation=options.hold_out(graph, None, Streams(0))[1])
    assert (embedding.mean[lost] != again.mean[lost]).any(axis=1).all()
    others = np.setdiff1d(np.arange(150), lost)
    np.testing.assert_allclose(embedding.mean[others], again.mean[others], atol=1e-6)
