"""A graph folder gives back the graph, is mapped and not read, and is refused if anything in it is amiss."""

import json
import shutil
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import glace
from glace.errors import FormatError, InputError
from glace.graph.arrays import from_arrays
from glace.io.folder import read_folder, write_folder
from glace.io.read import read_graph
from glace.io.tables import from_tables
from tests.conftest import is_mapped

EDGES = pd.DataFrame({"source": list("dacb"), "target": list("abbd"), "weight": [1, 2, 3, 4.5]})
NODES = pd.DataFrame({"id": list("dabc"), "x": [1.0, 0, 2, 3], "label": ["p", None, "q", "p"], "type": list("uvuv")})
TEXTS = pd.DataFrame({"id": list("abcd"), "text": ["red fox", "red dog", "blue fox", ""]})

TYPE = {"name": "", "count": 4, "width": 1, "sparse": False, "scaling": "standard"}
GRAPHS = {
    "planted": glace.datasets.planted(60, communities=3, degree=4, attributes=12, words=4),
    "directed": glace.datasets.planted(60, communities=3, degree=4, attributes=12, words=4, directed=True),
    "dense, strings, labels, types": from_tables(EDGES, NODES),
    "texts": from_tables(EDGES, texts=TEXTS),
    "only edges": from_tables(EDGES),
    "integer ids": from_arrays([[0, 1], [1, 2]], ids=[7, -3, 12]),
    "no edges": from_arrays(np.empty((0, 2), int), np.eye(3)),
    "no entries": from_arrays([[0, 1]], sp.csr_array((3, 5))),
    "one node": from_arrays([[0, 0]]),
    "types with attributes of their own": from_tables(
        {("v", "u"): EDGES[["target", "source"]].rename(columns={"target": "source", "source": "target"})},
        {"u": NODES[["id", "x", "label"]]},
        texts={"v": TEXTS},
    ),
    "types of which one has no attributes": from_tables({("v", "u"): EDGES}, {"u": NODES[["id", "x"]]}, directed=True),
    "one named type": from_tables(EDGES, {"u": NODES[["id", "x"]]}),
}


def arrays_of(graph: Any) -> list[Any]:
    types = graph.by_type().types
    matrices = [graph.adjacency, graph.neighborhoods(), *(each.attributes for each in types)]
    parts = [(each.indptr, each.indices, each.data) if sp.issparse(each) else (each,) for each in matrices]
    return [np.asarray(array) for part in parts for array in part if array is not None]


def assert_same(one: Any, other: Any) -> None:
    for left, right in zip(arrays_of(one), arrays_of(other), strict=True):
        np.testing.assert_array_equal(left, right)
    assert one.ids == other.ids
    assert (one.directed, one.cleaning_report) == (other.directed, other.cleaning_report)
    for left, right in zip(one.by_type().types, other.by_type().types, strict=True):
        assert (left.name, left.count, left.feature_names) == (right.name, right.count, right.feature_names)
        assert (left.pipeline is None) == (right.pipeline is None)
        assert left.pipeline is None or left.pipeline.same_as(right.pipeline)
    for left, right in ((one.labels, other.labels), (one.node_types, other.node_types)):
        assert (left is None) == (right is None)
        assert left is None or list(left) == list(right)


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


@pytest.fixture
def written(tmp_path):
    """A small graph in a folder."""
    write_folder(GRAPHS["dense, strings, labels, types"], tmp_path / "g.graph")
    return tmp_path / "g.graph"


def test_a_folder_gives_the_graph_back_in_the_order_of_ids(graph, tmp_path):
    write_folder(graph, tmp_path / "g.graph")
    again = read_folder(tmp_path / "g.graph")
    ordered = replace(graph.in_id_order()[0], cleaning_report=graph.cleaning_report)
    assert_same(again, ordered)
    assert again.ids.ascend()


def test_the_fingerprint_is_that_of_the_graph_in_memory_and_is_not_worked_out_again(graph, tmp_path):
    write_folder(graph, tmp_path / "g.graph")
    again = read_folder(tmp_path / "g.graph")
    ordered = graph.in_id_order()[0]
    assert again.fingerprint() == ordered.fingerprint() == replace(again, mapped=None).fingerprint()
    facts = json.loads((tmp_path / "g.graph" / "graph.json").read_text())
    facts["fingerprint"] = "as stated"
    (tmp_path / "g.graph" / "graph.json").write_text(json.dumps(facts))
    assert read_folder(tmp_path / "g.graph").fingerprint() == "as stated"


def test_arrays_are_mapped_read_only_and_of_the_types_kernels_know(tmp_path):
    graph = GRAPHS["directed"]
    write_folder(graph, tmp_path / "g.graph")
    again = read_folder(tmp_path / "g.graph")
    for left, right in zip(arrays_of(again), arrays_of(graph), strict=True):
        assert is_mapped(left)
        assert not left.flags.writeable
        assert type(left) is np.ndarray
        assert left.dtype == right.dtype
    assert numba.typeof(again.adjacency.indices) == numba.typeof(graph.adjacency.indices)


def test_a_graph_made_from_a_mapped_one_is_not_mistaken_for_it(tmp_path):
    graph = GRAPHS["directed"]
    write_folder(graph, tmp_path / "g.graph")
    again = read_folder(tmp_path / "g.graph")
    edges, weights = graph.edges_and_weights()
    fewer = again.with_edges(edges[1:], weights[1:])
    assert fewer.mapped is None
    assert fewer.fingerprint() == graph.with_edges(edges[1:], weights[1:]).fingerprint()
    assert again.take(np.arange(10)).fingerprint() == graph.take(np.arange(10)).fingerprint()
    assert again.without_attributes().fingerprint() == graph.without_attributes().fingerprint()
    assert again.without_attributes().mapped is not None


def test_a_mapped_graph_can_be_written_elsewhere(tmp_path, written):
    write_folder(read_folder(written), tmp_path / "h.graph")
    assert_same(read_folder(tmp_path / "h.graph"), read_folder(written))


def test_writing_again_replaces_the_graph_and_leaves_nothing_else(tmp_path, written):
    write_folder(GRAPHS["only edges"], written)
    assert_same(read_folder(written), GRAPHS["only edges"])
    assert not (written / "types.0.attributes.npy").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["g.graph"]


def test_no_other_folder_or_file_is_ever_replaced(tmp_path):
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday" / "photo.jpg").write_text("x")
    (tmp_path / "file.graph").write_text("x")
    for name in ("holiday", "file.graph"):
        with pytest.raises(
            InputError, match=rf"cannot write .*{name}: it exists and is not a folder with a graph.json"
        ):
            write_folder(GRAPHS["planted"], tmp_path / name)
    with pytest.raises(InputError, match="the folder .*nowhere does not exist; make it first"):
        write_folder(GRAPHS["planted"], tmp_path / "nowhere" / "g.graph")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file.graph", "holiday"]


def test_a_failed_write_leaves_the_old_folder(tmp_path, written, monkeypatch):
    before = {path.name: path.read_bytes() for path in written.iterdir()}
    monkeypatch.setattr("glace.io.folder.FolderWriter.finish", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_folder(GRAPHS["only edges"], written)
    assert {path.name: path.read_bytes() for path in written.iterdir()} == before
    assert [each.name for each in tmp_path.iterdir()] == ["g.graph"]


def test_read_graph_takes_a_folder(tmp_path, written):
    assert_same(read_graph(written), read_folder(written))
    shutil.copytree(written, tmp_path / "no-ending")
    assert_same(read_graph(tmp_path / "no-ending"), read_folder(written))
    with pytest.raises(InputError, match="the edges of .* have no direction; convert it again as a directed graph"):
        read_graph(written, directed=True)
    write_folder(GRAPHS["directed"], tmp_path / "d.graph")
    assert read_graph(tmp_path / "d.graph").directed


def test_a_folder_that_is_none_is_named(tmp_path, written):
    with pytest.raises(InputError, match="no folder .*x.graph; give a graph folder that `glace convert` wrote"):
        read_graph(tmp_path / "x.graph")
    with pytest.raises(InputError, match="is not a graph folder: it has no graph.json"):
        read_graph(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"graph.json cannot be read"),
        ("[]", "graph.json does not describe a graph"),
        ('{"format": "other"}', "graph.json does not describe a graph"),
        (
            '{"format": "glace-graph", "version": 1}',
            "has format version 1, but this glace reads version 2; use the version",
        ),
        ('{"format": "glace-graph", "version": 2}', "graph.json has no valid cleaning_report; convert the graph again"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(written, content, message):
    (written / "graph.json").write_text(content)
    with pytest.raises(FormatError, match=message):
        read_folder(written)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 0}, "needs at least 1 node"),
        ({"nodes": 5}, r"adjacency/indptr is int32 of shape \(5,\)"),
        ({"types": [TYPE | {"sparse": True}]}, "no array types/0/attributes/indptr"),
        ({"types": [TYPE | {"scaling": "huge"}]}, "a scaling, one of unit, standard, mixed, none, not 'huge'"),
        ({"types": [TYPE | {"width": 2}]}, r"types/0/attributes is float32 of shape \(4, 1\)"),
        ({"types": [TYPE | {"count": 3}]}, r"types/0/attributes is float32 of shape \(4, 1\)"),
        ({"types": "u"}, "the node types must be a list"),
        ({"cleaning_report": {"ghosts": 1}}, "graph.json has a cleaning_report that this glace does not know"),
        ({"directed": True}, "no array neighbors/indptr"),
        ({"directed": 1}, "directed"),
    ],
)
def test_a_description_that_contradicts_the_files_is_refused(written, changes, message):
    facts = json.loads((written / "graph.json").read_text())
    (written / "graph.json").write_text(json.dumps(facts | changes))
    with pytest.raises(FormatError, match=message):
        read_folder(written)


def replaced(path: Any, array: Any) -> None:
    facts = json.loads((path.parent / "graph.json").read_text())
    facts["arrays"][path.stem.replace(".", "/")] = [array.dtype.str, *array.shape]
    (path.parent / "graph.json").write_text(json.dumps(facts))
    np.save(path, array, allow_pickle=False)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "adjacency.indptr",
            np.array([0, 9, 9, 9, 9], "<i4"),
            "adjacency/indptr must ascend from 0 to 8, the number of entries",
        ),
        (
            "adjacency.indptr",
            np.array([1, 9, 9, 9, 8], "<i4"),
            "adjacency/indptr must ascend from 0 to 8, the number of entries",
        ),
        ("adjacency.indices", np.zeros(8, "<i8"), r"adjacency/indices is int64 of shape \(8,\)"),
        ("adjacency.data", np.zeros(7, "<f4"), r"adjacency/data is float32 of shape \(7,\)"),
        ("ids.offsets", np.array([0, 1, 2, 3, 9]), "ids does not hold valid strings"),
        ("ids.bytes", np.frombuffer(b"abdc", "u1"), "the ids do not ascend"),
        ("ids.bytes", np.frombuffer(b"abcc", "u1"), "id 'c' occurs more than once"),
        ("labels.codes", np.zeros(3, "<i4"), r"labels/codes is int32 of shape \(3,\)"),
        (
            "types.0.attributes",
            np.asfortranarray(np.zeros((4, 2), "<f4")),
            r"types/0/attributes is float32 of shape \(4, 2\)",
        ),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(written, name, array, message):
    replaced(written / f"{name}.npy", array)
    with pytest.raises(FormatError, match=message):
        read_folder(written)


def test_files_that_are_missing_cut_too_long_or_something_else_are_refused(written):
    path = written / "adjacency.data.npy"
    content = path.read_bytes()
    cases = [
        (content[:-1], "is not a complete .npy file"),
        (content + b"x", "has .* bytes, but its header declares"),
        (b"", "is not a complete .npy file"),
        (content[:30], "is not a complete .npy file"),
        (b"text", "is not a complete .npy file"),
    ]
    for damaged, message in cases:
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=message):
            read_folder(written)
    np.save(path, np.zeros(3, "<f4"))
    with pytest.raises(FormatError, match=r"adjacency/data is <f4 of shape \(3,\), but graph.json states \['<f4', 8\]"):
        read_folder(written)
    np.save(path, np.array([{}] * 8), allow_pickle=True)
    with pytest.raises(FormatError, match="is not a complete .npy file"):
        read_folder(written)
    with path.open("wb") as opened:
        np.savez(opened, x=np.zeros(8))
    with pytest.raises(FormatError, match="is not an .npy file but an archive"):
        read_folder(written)
    path.unlink()
    with pytest.raises(FormatError, match="no file .*adjacency.data.npy"):
        read_folder(written)


def test_verified_a_folder_is_read_once(graph, tmp_path):
    write_folder(graph, tmp_path / "g.graph")
    assert_same(read_folder(tmp_path / "g.graph", verify=True), read_folder(tmp_path / "g.graph"))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("adjacency.indices", np.array([1, 3, 0, 2, 3, 1, 0, 9], "<i4"), "adjacency/indices must be"),
        ("adjacency.indices", np.array([1, 3, 0, 2, 3, 1, 0, -1], "<i4"), "adjacency/indices must be"),
        ("adjacency.indptr", np.array([0, 9, 2, 6, 8], "<i4"), "adjacency/indptr must ascend"),
    ],
)
def test_indices_that_lead_outside_are_found(written, name, array, message):
    replaced(written / f"{name}.npy", array)
    with pytest.raises(FormatError, match=message):
        read_folder(written)


@pytest.mark.parametrize(
    ("name", "array"), [("adjacency.data", np.ones(8, "<f4")), ("types.0.attributes", np.ones((4, 1), "<f4"))]
)
def test_content_that_is_not_as_written_is_found_when_verified(written, name, array):
    replaced(written / f"{name}.npy", array)
    read_folder(written)
    with pytest.raises(FormatError, match=r"does not have the fingerprint that graph\.json states"):
        read_folder(written, verify=True)


def test_strings_that_overlap_are_found(tmp_path):
    graph = glace.from_arrays([[0, 1], [1, 2]], ids=["ab", "cd", "ef"])
    write_folder(graph, tmp_path / "g.graph")
    replaced(tmp_path / "g.graph" / "ids.offsets.npy", np.array([0, 5, 3, 6], "<i8"))
    with pytest.raises(FormatError, match="ids does not hold valid strings"):
        read_folder(tmp_path / "g.graph")
