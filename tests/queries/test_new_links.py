"""Links of new nodes: beside a look at all pairs, and of nodes that nothing is known about."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import glace
from glace.errors import InputError
from glace.queries import new_links
from glace.queries.new_links import links_of_new_nodes
from tests.conftest import small

WORDS = {"animal": "cat dog fur tail paw", "music": "piano violin note bow string"}


@pytest.fixture(scope="module")
def model():
    """Forty texts about two topics; node 0 has an edge to every animal, node 1 to every second text of music."""
    rng, topics = np.random.default_rng(0), list(WORDS.values())
    texts = [" ".join(rng.choice(topics[number % 2].split(), 4)) for number in range(40)]
    pairs = {(a, (a + 2 * step) % 40) for a in range(40) for step in (1, 3)}
    pairs |= {(0, other) for other in range(2, 40, 2)} | {(1, other) for other in range(3, 40, 4)}
    edges = pd.DataFrame(sorted(pairs), columns=["source", "target"])
    graph = glace.from_tables(edges, texts=pd.DataFrame({"id": range(40), "text": texts}))
    return glace.train(graph, small(max_steps=200, validation_fraction=0.0))


def by_hand(model, new):
    """(Q, n) logit plus half of the logarithm of the degrees, without their mean."""
    count, graph = len(model.embedding), model.graph
    pairs = np.array([[query, node] for query in range(len(new)) for node in range(count)])
    scaling = model.embedding.platt_scaling
    logit = scaling.slope * (scaling.offset - model.embedding.dissimilarities_at(pairs, new).reshape(-1, count))
    degrees = np.log(1 + np.diff(graph.neighborhoods().indptr))
    return np.clip(logit, -30, 30) + 0.5 * (degrees - degrees.mean())


def test_the_logit_and_the_popularity_rank(model, monkeypatch):
    new = model.transform(["cat dog fur tail", "violin bow string note", "dog paw paw cat"], ids=["a", "b", "c"])
    scores = by_hand(model, new)
    for largest in (1 << 24, 40):  # in one part, and one node at a time
        monkeypatch.setattr(new_links, "SCORES", largest)
        found = model.links(new, 5)
        assert found.source.tolist() == [node for node in "abc" for _ in range(5)]
        assert found.target.reshape(3, 5).tolist() == np.argsort(-scores, axis=1, kind="stable")[:, :5].tolist()
        best = -np.sort(-scores, axis=1)[:, :5].ravel()
        density = model.graph.num_edges / (40 * 39 / 2)
        np.testing.assert_allclose(found.probability, expit(best + np.log(density)), rtol=1e-6)
    assert found.novel is not None
    assert not found.novel.any()
    alone = model.links(new, 5, by="gaussian")
    near, _ = model.embedding.nearest_to(new, 5)
    assert alone.target.tolist() == near.ravel().tolist()


def test_nothing_is_claimed_where_nothing_is_known(model):
    new = model.transform(["cat dog fur tail", "gizmo flux", ""], ids=["like", "unlike", "empty"])
    assert new.novel is not None
    assert new.novel.tolist() == [False, True, True]
    found = model.links(new, 3)
    density = model.graph.num_edges / (40 * 39 / 2)
    np.testing.assert_allclose(found.probability[3:], density)
    assert (found.probability[:3] > density).all()
    degrees = np.diff(model.graph.neighborhoods().indptr)
    popular = np.argsort(-degrees, kind="stable")[:3].tolist()
    assert found.target.tolist()[3:] == popular * 2
    assert found.novel.tolist() == [False] * 3 + [True] * 6
    assert model.neighbors(new, 2).novel.tolist() == [False, False, True, True, True, True]
    assert model.neighbors(0, 2).novel is None


def test_popular_targets_of_a_directed_graph_are_those_that_edges_lead_to():
    edges = [[node, 5] for node in range(5)] + [[6, node] for node in range(5)]
    graph = glace.from_arrays(edges, np.eye(7, dtype=np.float32), directed=True)
    model = glace.train(graph, small(max_steps=3, validation_fraction=0.0))
    new = replace(model.transform(np.eye(7)[:1]), novel=np.array([True]))
    assert model.links(new, 1).target.tolist() == [5]
    np.testing.assert_allclose(model.links(new, 1).probability, 10 / 42)


def test_types_and_refusals(model):
    new = model.transform(["cat dog"])
    with pytest.raises(InputError, match="why does not apply to new nodes, which have no edges; leave it out"):
        model.links(new, why=True)
    with pytest.raises(InputError, match="missing_edge_fraction does not apply to new nodes"):
        model.links(new, missing_edge_fraction=0.1)
    with pytest.raises(InputError, match="the model keeps no edges, as its graph is too large"):
        replace(model, graph=None).links(new)
    with pytest.raises(InputError, match="come from different models"):
        model.links(glace.Embedding(new.ids, new.mean[:, :2], new.variance[:, :2], "symmetric_kl"))
    with pytest.raises(InputError, match="k must be a whole number of at least 1, not 0"):
        model.links(new, 0)
    types = glace.from_arrays(model.graph.adjacency, node_types=["x", "y"] * 20)
    typed = replace(model, graph=types)
    assert set(typed.links(new, 9, node_type="y").target_type) == {"y"}
    with pytest.raises(InputError, match="node_type must be given for new nodes: the type of the other ends, x, y"):
        typed.links(new)


def test_fewer_targets_than_answers(model):
    new = model.transform(["cat dog"])
    among = np.arange(40) < 3
    assert sorted(links_of_new_nodes(model.embedding, model.graph, new, 9, among).target.tolist()) == [0, 1, 2]
