import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import glace
from glace.errors import FormatError
from glace.features.pipeline import FeaturePipeline
from glace.features.text import TextVocabulary
from glace.graph.codec import decode, decode_types, encode, encode_types
from glace.graph.graph import Graph, NodeType, build
from glace.ids import NodeIds

EDGES = [[0, 1], [1, 2], [2, 3], [3, 4]]


def typed(directed: bool = False) -> Graph:
    attributes = {"a": np.ones((3, 2), np.float32), "b": sp.csr_array(np.eye(2, 40))}
    return glace.from_arrays(
        EDGES,
        attributes,
        ids=list("vwxyz"),
        labels=["p", None, "q", "p", "q"],
        node_types=list("aabab"),
        directed=directed,
    )


def of_texts() -> Graph:
    vocabulary = TextVocabulary.learn(["red fish", "blue fish", "red bird", "fish", "bird"])
    rows = vocabulary.attributes(["red fish", "blue fish", "red bird", "fish", "bird"])
    words = NodeType("", 5, rows, pipeline=FeaturePipeline.of_texts(vocabulary))
    return build(np.array(EDGES), np.ones(4), NodeIds([3, 1, 4, 5, 9]), [words], directed=True)


GRAPHS = {
    "types": typed(),
    "directed types": typed(directed=True),
    "texts": of_texts(),
    "numbered, without attributes": glace.from_arrays(EDGES),
    "names": glace.from_arrays(EDGES, np.ones((5, 2))).with_attributes(np.ones((5, 2), np.float32), ("x", "y")),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_comes_back_whole(name):
    graph = GRAPHS[name]
    metadata, arrays = encode(graph, neighbors=True)
    again = decode(json.loads(json.dumps(metadata)), arrays)
    assert again.fingerprint() == graph.fingerprint()
    assert (again.ids, again.directed) == (graph.ids, graph.directed)
    for mine, theirs in ((again.labels, graph.labels), (again.node_types, graph.node_types)):
        assert (None if mine is None else list(mine)) == (None if theirs is None else list(theirs))
    for part, wanted in zip(again.by_type().types, graph.by_type().types, strict=True):
        assert (part.name, part.feature_names) == (wanted.name, wanted.feature_names)
        assert (part.pipeline is None) == (wanted.pipeline is None)
        if part.pipeline is not None and wanted.pipeline is not None:
            assert part.pipeline.same_as(wanted.pipeline)
    mapped = decode(metadata, arrays, mapped=True)
    assert mapped.mapped is not None
    np.testing.assert_array_equal(mapped.neighborhoods().toarray(), graph.neighborhoods().toarray())


def test_edges_and_categories_alone():
    graph = typed().without_attributes()
    metadata, arrays = encode(graph, ids=False)
    assert not any(name.startswith(("types", "ids")) for name in arrays)
    again = decode(metadata, arrays, ids=graph.ids)
    assert again.fingerprint() == graph.fingerprint()
    assert again.node_types is not None
    assert list(again.node_types) == list("aabab")


def test_the_schema_alone():
    types = typed().by_type().types
    again = decode_types(*encode_types(types, rows=False), rows=False)
    assert [(each.name, each.count, each.width, each.sparse) for each in again] == [
        ("a", 3, 2, False),
        ("b", 2, 40, True),
    ]
    assert [each.attributes.shape[0] for each in again if each.attributes is not None] == [0, 0]


def changed(name: str, value: Any, graph: Graph | None = None, **metadata: Any) -> tuple[dict[str, object], Any]:
    stated, arrays = encode(graph or typed())
    if name:
        arrays = {key: each for key, each in arrays.items() if key != name} | ({} if value is None else {name: value})
    return stated | metadata, arrays


@pytest.mark.parametrize(
    ("name", "value", "metadata", "message"),
    [
        ("", None, {"nodes": 0}, "at least 1 node"),
        ("", None, {"directed": 1}, "true or false for directed"),
        ("", None, {"types": 3}, "must be a list"),
        ("", None, {"types": [7]}, "node type 0 must be an object"),
        ("", None, {"types": [{"name": "a", "count": -1}]}, "needs a name and a count"),
        ("", None, {"types": [{"name": "a", "count": 5, "width": 0, "sparse": True}]}, "a width of at least 1"),
        ("", None, {"types": [{"name": "a", "count": 4, "width": None}]}, r"states \[4\] nodes .* are \[5\]"),
        ("", None, {"types": [{"name": n, "count": c, "width": None} for n, c in [("a", 2), ("b", 3)]]}, r"\[3, 2\]"),
        ("adjacency/indptr", None, {}, "no array adjacency/indptr"),
        ("adjacency/indptr", np.array([0, 1, 9, 5, 7, 8], "<i4"), {}, "must ascend from 0 to 8"),
        ("adjacency/indptr", np.array([0, 1, 3, 5, 7, 7], "<i4"), {}, "must ascend from 0 to 8"),
        ("adjacency/indices", np.array([1, 0, 2, 1, 3, 2, 5, 3], "<i4"), {}, "must be from 0 to 4"),
        ("adjacency/indices", np.array([1, 0, 2, 3, 1, 2, 4, 3], "<i4"), {}, "must ascend in each row"),
        ("adjacency/indices", np.zeros(8, "<i8"), {}, "expected int32"),
        ("adjacency/data", np.full(8, np.nan, "<f4"), {}, "finite and above 0"),
        ("adjacency/data", np.zeros(7, "<f4"), {}, r"expected float32 of \(8,\)"),
        ("labels/codes", np.array([0, 1, 2, 0, 0], "<i4"), {}, "must be from -1"),
        ("labels/codes", np.array([0, 1], "<i4"), {}, r"expected int32 of \(5,\)"),
        ("ids/offsets", np.arange(3), {}, "2 ids for 5 nodes"),
        ("types/0/attributes", np.ones((3, 3), "<f4"), {}, r"expected float32 of \(3, 2\)"),
        ("types/1/attributes/indices", np.array([0, 40], "<i4"), {}, "must be from 0 to 39"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(name, value, metadata, message):
    with pytest.raises(FormatError, match=message):
        decode(*changed(name, value, **metadata))


def test_as_many_names_as_attributes():
    stated, arrays = encode(GRAPHS["names"])
    other = encode(glace.from_arrays(EDGES).with_attributes(np.ones((5, 1), np.float32), ("x",)))[1]
    names = {name: array for name, array in other.items() if "feature_names" in name}
    with pytest.raises(FormatError, match="1 names for 2 attributes"):
        decode(stated, arrays | names)
