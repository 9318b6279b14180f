"""The link model of a fit: it must not see its own validation edges, and it is part of the model."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import glace
from glace.fitted.state import embed_all, graph_inputs
from glace.gaussian.dissimilarity import Gaussian
from glace.graph.split import hold_out
from glace.queries.link_model import draw_sample, popularity_model, ranking_scores
from glace.queries.pair_features import PairFeatures
from glace.training import train
from tests.conftest import small
from tests.training.test_resume import Interrupted, interrupt_at

NODES = 140


@pytest.fixture(scope="module")
def split():
    """Edges at random, so that nothing tells of a hidden edge, and test edges."""
    edges = np.argwhere(np.triu(np.random.default_rng(3).random((NODES, NODES)) < 7 / NODES, 1))
    attributes = np.random.default_rng(2).random((NODES, 4), np.float32)
    return hold_out(glace.from_arrays(edges, attributes), 0.2, np.random.default_rng(1))


def validation_and_test(split):
    """The mean reciprocal ranks of the validation edges, as the fit says, and of the test edges."""
    rest, held_out = split
    fitted = glace.train(rest, small(dim=64, max_steps=5, validation_fraction=0.2))
    model = fitted.link_model
    assert model is not None
    assert model.validation is not None
    sample = draw_sample(PairFeatures(fitted.embedding, rest), held_out.edges, np.random.default_rng(0))
    return model.validation.mrr, ranking_scores(model.scores(sample.features), sample).mrr


@pytest.fixture
def telling_gaussians(monkeypatch):
    """An encoder that tells of every edge that it sees: a node lies at the difference of its own random vector and
    those of its neighbours. Neighbours are far apart, so that the Gaussians alone do not rank their edges first.
    """

    def planted(network, inputs, allocate, each=map):
        if not hasattr(inputs, "graph"):
            return embed_all(network, inputs, allocate, each)
        own = np.random.default_rng(5).normal(size=(NODES, 64))
        mean = (own - inputs.graph.adjacency @ own).astype(np.float32) / 10
        return Gaussian(mean, np.ones_like(mean)), None

    monkeypatch.setattr(train, "embed_all", planted)
    show(monkeypatch, lambda graph: graph)


def show(monkeypatch, shown):
    """Let that encoder see the edges of `shown(graph)` where it is given a graph."""

    def inputs(network, graph):
        found: Any = graph_inputs(network, graph)
        found.graph = shown(graph)
        return found

    monkeypatch.setattr(train, "graph_inputs", inputs)


def test_validation_edges_do_not_leak_into_the_link_model(split, telling_gaussians):
    validation, test = validation_and_test(split)
    assert validation < 0.1
    # Both are by chance: for eight random states 0.04 to 0.08 and 0.02 to 0.05.
    assert validation < 3 * test


def test_leaking_gaussians_would_be_seen(split, telling_gaussians, monkeypatch):
    """The mistake: Gaussians made with the validation edges put back, as those of the model are."""
    show(monkeypatch, lambda _: split[0])
    validation, test = validation_and_test(split)
    assert validation > 3 * test


def test_leaking_walks_would_be_seen(split, telling_gaussians, monkeypatch):
    """The mistake: candidates of the graph without the validation edges, but walks of the graph with them."""

    class WalksOfAllEdges(PairFeatures):
        def of_candidates(self, sources, targets, walked=None):
            return PairFeatures(self.embedding, split[0]).of_candidates(sources, targets)

    monkeypatch.setattr(train, "PairFeatures", WalksOfAllEdges)
    validation, test = validation_and_test(split)
    assert validation > 5 * test


@pytest.fixture(scope="module")
def graph():
    return glace.datasets.planted(200, communities=5, degree=8, attributes=60, words=8, random_state=1)


@pytest.fixture(scope="module")
def fitted(graph):
    return glace.train(graph, small(max_steps=40, neighbor_features="mean"))


def bits(model):
    return model.to_json(), {name: array.tobytes() for name, array in model.to_arrays().items()}


def test_it_is_fitted_to_the_validation_edges(fitted, graph):
    model = fitted.link_model
    assert model.validation is not None
    assert model.reference_edges == len(fitted.validation.edges)
    assert fitted.missing_edge_fraction == pytest.approx(len(fitted.validation.edges) / graph.num_edges)
    assert model.validation.mrr > model.gaussian_validation.mrr


def test_the_order_of_the_nodes_changes_nothing(fitted, graph):
    order = np.random.default_rng(0).permutation(200)
    again = glace.train(graph.take(order), small(max_steps=40, neighbor_features="mean"))
    assert bits(again.link_model) == bits(fitted.link_model)
    first = graph.ids[0]
    assert again.links(first, 5).target.tolist() == fitted.links(first, 5).target.tolist()


def test_threads_change_no_bit(fitted, graph):
    again = glace.train(graph, small(max_steps=40, neighbor_features="mean", n_jobs=2))
    assert bits(again.link_model) == bits(fitted.link_model)


def test_a_resumed_run_has_the_same_link_model(fitted, graph, tmp_path):
    saved = {"checkpoint": tmp_path / "run", "checkpoint_seconds": 0}
    options = small(max_steps=40, neighbor_features="mean")
    with pytest.raises(Interrupted):
        glace.train(graph, options, listener=interrupt_at(11), **saved)
    resumed = glace.train(graph, options, resume=True, **saved)
    assert bits(resumed.link_model) == bits(fitted.link_model)


def test_without_validation_edges_it_is_the_logit_and_popularity(graph):
    plain = glace.train(graph, small(max_steps=5, validation_fraction=0))
    assert plain.graph is not None
    assert plain.link_model is not None
    assert plain.link_model.validation is None
    expected = popularity_model(PairFeatures(plain.embedding, plain.graph))
    assert bits(plain.link_model) == bits(expected)
    assert plain.missing_edge_fraction == 0.05
    assert len(plain.links(k=5)) == 5


def test_glace_as_published_has_none(graph):
    published = glace.train(graph, {"max_steps": 3, "dim": 4, "hidden": 8}, method="glace-published")
    assert published.link_model is None
    assert published.links(k=9).rows() == published.links(k=9, by="gaussian").rows()
    assert (np.diff(published.links(k=9).dissimilarity) >= 0).all()


@pytest.mark.parametrize("method", ["lace", "line"])
def test_points_have_one_too(graph, method):
    points = glace.train(graph, {"max_steps": 20, "dim": 4}, method=method)
    found = points.links(k=9)
    assert points.link_model is not None
    assert (np.diff(found.probability) <= 0).all()


def test_an_update_fits_it_again(fitted, graph, monkeypatch):
    edges = graph.edges()
    more = np.array([[a, b] for a in range(0, 40, 2) for b in (a + 1,) if not graph.has_edges(np.array([[a, b]]))[0]])
    grown = graph.with_edges(np.concatenate([edges, more]), np.ones(len(edges) + len(more)))
    again = replace(fitted.link_model, reference_edges=7, candidate_recall=None)
    learned_from = []

    def fit(features, held_out, generator):
        learned_from.append((features.graph.num_edges, len(held_out)))
        return again

    monkeypatch.setattr(train, "fit_link_model", fit)
    updated = glace.update(fitted, grown, max_steps=2)
    assert updated.link_model is again
    assert updated.validation is not None
    held_out = len(updated.validation.edges)
    assert learned_from == [(grown.num_edges - held_out, held_out)]


def test_an_update_without_validation_edges_keeps_it(graph):
    plain = glace.train(graph, small(max_steps=5, validation_fraction=0))
    updated = glace.update(plain, graph, max_steps=2)
    assert updated.link_model is plain.link_model
