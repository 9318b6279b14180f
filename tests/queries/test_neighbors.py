"""Neighbours as a table, beside the embedding's own arrays."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from glace.errors import InputError
from glace.gaussian.embedding import Embedding, PlattScaling
from glace.graph.arrays import from_arrays
from glace.ids import NodeIds
from glace.queries.neighbors import neighbors
from glace.queries.pair_scores import pair_scores_at


@pytest.fixture
def embedding():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(6, 3)), np.exp(rng.normal(size=(6, 3)))
    certainty = np.linspace(0, 1, 6, dtype=np.float32)
    ids = NodeIds(list("abcdef"))
    scaling = PlattScaling(2.0, 0.5)
    return Embedding(ids, mean.astype(np.float32), variance.astype(np.float32), "kl", scaling, certainty=certainty)


@pytest.fixture
def graph():
    labels, types = ["x", "y", "x", None, "x", "y"], ["s", "t", "s", "t", "s", "t"]
    edges = [[0, 1], [0, 2], [3, 0]]
    return from_arrays(edges, np.ones((6, 1)), ids=list("abcdef"), labels=labels, node_types=types, directed=True)


def test_columns_are_those_of_the_embedding_and_of_the_graph(embedding, graph):
    found = neighbors(embedding, graph, "a", 5)
    positions, dissimilarities = embedding.nearest_to(embedding.take(np.array([0])), 5, exclude=[[0]])
    assert found.position.tolist() == positions[0].tolist()
    assert found.id.tolist() == ["abcdef"[position] for position in positions[0]]
    np.testing.assert_array_equal(found.dissimilarity, dissimilarities[0])
    pairs = np.column_stack([np.zeros(5, np.int64), positions[0]])
    assert found.variance_term is not None
    np.testing.assert_allclose(found.variance_term, embedding.variance_terms_at(pairs))
    np.testing.assert_array_equal(found.certainty, embedding.certainty[positions[0]])
    rows = {row["id"]: row for row in found.rows()}
    assert {node for node, row in rows.items() if row["known"]} == {"b", "c"}, "an edge to the query is not one from it"
    assert (rows["d"]["label"], rows["d"]["type"], rows["c"]["label"]) == (None, "t", "x")
    assert set(found.query) == {"a"}
    assert {"position", "probability"}.isdisjoint(found.columns())


def test_filters(embedding, graph):
    assert set(neighbors(embedding, graph, "a", exclude_known=True).id) == {"d", "e", "f"}
    assert set(neighbors(embedding, graph, "a", label="x").id) == {"c", "e"}
    assert set(neighbors(embedding, graph, "a", node_type="t", exclude_known=True).id) == {"d", "f"}


def test_several_queries_and_new_nodes(embedding, graph):
    each = [neighbors(embedding, graph, node, 2).rows() for node in "ca"]
    assert neighbors(embedding, graph, ["c", "a"], 2).rows() == [*each[0], *each[1]]
    new = neighbors(embedding, graph, embedding[["c", "a"]], 1)
    assert new.rows() == [
        {**row, "dissimilarity": pytest.approx(0, abs=1e-6), "variance_term": pytest.approx(0, abs=1e-6)}
        for row in new.rows()
    ]
    assert new.id.tolist() == new.query.tolist() == ["c", "a"], "a new node is most similar to its twin"
    assert new.known is None
    assert len(neighbors(embedding, graph, embedding[["c", "a"]], 9)) == 12


def test_the_variance_term_of_new_nodes(embedding):
    new = Embedding(NodeIds(["n"]), embedding.mean[:1] + 1, embedding.variance[:1] * 2, "kl")
    found = neighbors(embedding, None, new, 6)
    assert new.variance is not None
    both = Embedding(
        NodeIds([*"abcdef", "n"]),
        np.vstack([embedding.mean, new.mean]),
        np.vstack([embedding.variance, new.variance]),
        "kl",
    )
    pairs = np.column_stack([np.full(6, 6), found.position])
    assert found.variance_term is not None
    np.testing.assert_allclose(found.variance_term, both.variance_terms_at(pairs), rtol=1e-6)
    np.testing.assert_allclose(found.dissimilarity, both.dissimilarities_at(pairs), rtol=1e-6)


def test_variance_terms_are_of_the_trained_measure_only(embedding):
    other = neighbors(embedding, None, "a", dissimilarity="wasserstein2")
    assert list(other.columns()) == ["query", "id", "dissimilarity", "certainty"]
    assert neighbors(embedding, None, "a", dissimilarity="kl").variance_term is not None


def test_questions_that_need_a_graph(embedding, graph):
    for option in ({"exclude_known": True}, {"label": "x"}, {"node_type": "s"}):
        with pytest.raises(InputError, match=f"{next(iter(option))} needs the edges, labels and types of the graph"):
            neighbors(embedding, None, "a", **option)
    with pytest.raises(InputError, match="exclude_known does not apply to new nodes"):
        neighbors(embedding, graph, embedding, exclude_known=True)
    with pytest.raises(InputError, match="no node 'z'"):
        neighbors(embedding, graph, "z")


def test_pair_scores(embedding):
    pairs = np.array([[0, 1], [1, 0], [2, 2]])
    found = pair_scores_at(embedding, pairs)
    assert list(zip(found.source, found.target, strict=True)) == [("a", "b"), ("b", "a"), ("c", "c")]
    np.testing.assert_array_equal(found.dissimilarity, embedding.dissimilarities_at(pairs))
    np.testing.assert_array_equal(found.variance_term, embedding.variance_terms_at(pairs))
    assert found.probability is None, "how probable an edge is depends on the density of the graph"
    assert found.known is None
    assert found.certainty is not None
    np.testing.assert_allclose(found.certainty, [0.1, 0.1, 0.4])
    assert found.dissimilarity[0] != found.dissimilarity[1]
    frame = found.to_pandas()
    assert list(frame.columns) == list(found.columns())
    assert repr(found).startswith("PairScores(3 rows: source, target")


def test_a_table_is_iterated_shown_and_given_to_other_libraries(embedding, graph):
    found = neighbors(embedding, graph, ["a", "b"], 2)
    assert list(found) == found.rows()
    assert next(iter(found))["query"] == "a"
    pd.testing.assert_frame_equal(pd.DataFrame(found), found.to_pandas(), check_dtype=False)
    assert pl.DataFrame(found)["id"].to_list() == found["id"].tolist()
    assert pa.table(found).equals(found.to_arrow())
    with pytest.raises(KeyError, match="no column 'ids'; there are query, id"):
        found["ids"]
    shown = replace(found, id=np.array(["<b>", "b", "c", "d"], dtype=object))._repr_html_()
    assert "<th>dissimilarity</th>" in shown
    assert "<td>&lt;b&gt;</td>" in shown
    assert shown.count("<tr>") == 5
    many = neighbors(embedding, graph, list("abcdef"), 5)
    assert many._repr_html_().count("<tr>") == 21
    assert "10 more rows" in many._repr_html_()
