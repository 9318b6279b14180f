"""Links of a graph with types of nodes: of words and meanings, both ways and one way."""

import numpy as np
import pytest

import glace
from glace.errors import InputError
from tests.conftest import small

WORDS, MEANINGS = 24, 12
TYPES = ["word"] * WORDS + ["meaning"] * MEANINGS + ["rest", None]


def of_words(directed):
    """Words with their meanings, two topics; one more word that no type is known of, and a type without edges."""
    rng = np.random.default_rng(0)
    drawn = [(word, WORDS + 2 * rng.integers(MEANINGS // 2) + word % 2) for word in range(WORDS) for _ in range(3)]
    topics = np.arange(len(TYPES)) % 2
    attributes = np.eye(2, dtype=np.float32)[topics] + 0.1 * rng.random((len(TYPES), 2), dtype=np.float32)
    ids = [f"{kind}{number}" for number, kind in enumerate(TYPES)]
    edges = [*drawn, (WORDS + MEANINGS + 1, WORDS)]
    return glace.from_arrays(edges, attributes, ids=ids, node_types=TYPES, directed=directed)


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def model(request):
    return glace.GLACE(**small(dim=4, hidden=8, max_steps=30)).fit(of_words(request.param)).model_


def every_link(model):
    """All pairs of types that an edge joins and that are no edges, as ids."""
    graph, symmetric = model.graph, model.embedding.measure.symmetric
    kinds, known = TYPES, graph.known_edges(symmetric).toarray() > 0
    joined = {(kinds[a], kinds[b]) for a, b in np.argwhere(known)}
    count = len(kinds)
    return {
        (graph.ids[a], graph.ids[b])
        for a in range(count)
        for b in range(a + 1 if symmetric else 0, count)
        if a != b and not known[a, b] and (kinds[a], kinds[b]) in joined
    }


def test_only_types_that_edges_join_are_proposed(model):
    found = model.links(k=10_000, by="gaussian")
    assert set(zip(found.source, found.target, strict=True)) == every_link(model)
    assert len(found.source) == len(every_link(model))
    pairs = set(zip(found.source_type, found.target_type, strict=True))
    # Where the measure has no direction, the node that comes first in the graph is the source.
    assert pairs == {("word", "meaning"), (None, "meaning") if model.directed else ("meaning", None)}
    assert (np.diff(found.dissimilarity) >= 0).all()


def test_of_a_node_and_of_a_type(model):
    found = model.links("word3", k=100)
    assert set(found.source) == {"word3"}
    assert set(found.target_type) == {"meaning"}
    assert model.links("word3", k=100, node_type="meaning").target.tolist() == found.target.tolist()
    whole = model.links(k=10_000, node_type="word")
    assert {"word"} <= set(whole.source_type) | set(whole.target_type)
    assert None not in {*whole.source_type, *whole.target_type}
    backwards = model.links("meaning30", k=100)
    assert set(backwards.target_type) == (set() if model.directed else {"word", None})
    assert model.links(f"rest{WORDS + MEANINGS}").source.tolist() == [], "no edge tells what it may be joined to"


def test_an_index_for_each_type(model):
    pytest.importorskip("faiss", reason="approximate search needs faiss: pip install '.[search]'")
    exact, near = model.links(k=40, by="gaussian"), model.links(k=40, by="gaussian", approximate=True)
    assert near.rows() == exact.rows()


def test_neighbors_of_a_type(model):
    found = model.embedding.neighbors("word3", 100, among=model.graph.has_type("meaning"))
    assert len(found.id) == MEANINGS
    assert all(each.startswith("meaning") for each in found.id)


def test_what_makes_no_sense(model, fitted):
    for ask, match in (
        (lambda: model.links(node_type="verb"), "no type 'verb'; there are meaning, rest, word"),
        (lambda: model.links("word3", node_type="word"), "no edge leads from type 'word' to type 'word'"),
        (lambda: model.links("None37", node_type="rest"), "no edge leads from nodes without a type to type 'rest'"),
        (lambda: model.links(node_type="rest"), "no node of type 'rest' has an edge"),
        (lambda: fitted.model_.links(node_type="word"), "no type 'word'; the graph has none"),
    ):
        with pytest.raises(InputError, match=match):
            ask()
    assert fitted.model_.links(k=2).source_type is None
