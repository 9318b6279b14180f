"""Converted in a stream, tables give array by array what reading them whole and writing the graph gives."""

import os
import signal
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glace.errors import InputError
from glace.features.layout import TableLayout
from glace.io import edge_database, table_file, text_file
from glace.io.convert import convert_tables
from glace.io.folder import read_folder, write_folder
from glace.io.read import read_tables


@pytest.fixture(autouse=True, scope="module")
def small_pieces():
    """Many pieces and many buckets, of a few rows each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_database, "BATCH_ROWS", 3)
        patch.setattr(table_file, "PIECE_NUMBERS", 12)
        patch.setattr(table_file, "SVMLIGHT_BYTES", 20)
        patch.setattr(text_file, "PIECE_BYTES", 400)
        yield


def contents(folder: Any) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def assert_same(folder: Any, edges: Any, attributes: Any = None, **options: Any) -> Any:
    """Both ways give the same files, byte by byte."""
    convert_tables(edges, folder / "stream.graph", attributes, **options)
    graph = read_tables(edges, attributes, **options)
    write_folder(graph, folder / "whole.graph")
    assert contents(folder / "stream.graph") == contents(folder / "whole.graph")
    return read_folder(folder / "stream.graph")


def error_of(function: Any, *arguments: Any, **options: Any) -> str | None:
    try:
        function(*arguments, **options)
    except InputError as problem:
        return str(problem)
    return None


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "é", "f\ng", "07"])
NUMBERS = st.integers(-3, 9)
VALUES = st.sampled_from([0.0, 0.0, 0.0, -0.0, 1.0, -2.5, 3.25])


@st.composite
def tables(draw: Any) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    keys = draw(st.sampled_from([NAMES, NUMBERS]))
    edges = draw(st.lists(st.tuples(keys, keys, st.sampled_from([0.1, 0.5, 1.0, 2.0, 1e-3])), max_size=25))
    ids = draw(st.lists(keys, unique=True, max_size=9))
    width = draw(st.sampled_from([0, 1, 3, 40]))
    columns = {f"x{k}": [draw(VALUES) for _ in ids] for k in range(width)}
    links = {"source": [e[0] for e in edges], "target": [e[1] for e in edges], "weight": [e[2] for e in edges]}
    labels = {"label": [draw(st.sampled_from(["p", "q", None])) for _ in ids]} if draw(st.booleans()) else {}
    return links, {"id": ids, **columns, **labels}


def typed(table: dict[str, list[Any]]) -> pa.Table:
    kinds = {"source": None, "target": None, "id": None, "label": pa.string()}
    arrays = {name: pa.array(values, kinds.get(name, pa.float64())) for name, values in table.items()}
    arrays = {name: array.cast(pa.int64()) if pa.types.is_null(array.type) else array for name, array in arrays.items()}
    return pa.table(arrays)


def put(table: dict[str, list[Any]], path: Any) -> Any:
    if path.suffix == ".parquet":
        pq.write_table(typed(table), path, row_group_size=4)
    else:
        pa.csv.write_csv(typed(table), path)
    return path


@settings(max_examples=30)
@given(tables(), st.booleans(), st.sampled_from(["none", "empty"]), st.sampled_from([".csv", ".parquet"]))
def test_a_stream_gives_what_reading_whole_gives(tmp_path_factory, both, directed, nodes, ending):
    folder = tmp_path_factory.mktemp("convert")
    links, rows = both
    edges = put(links, folder / f"e{ending}")
    attributes = put(rows, folder / f"n{ending}") if nodes != "none" else None
    options = {"directed": directed, "nodes_without_attributes": "empty" if attributes else "error"}
    expected = error_of(read_tables, edges, attributes, **options)
    if expected is None:
        assert_same(folder, edges, attributes, **options)
    else:
        assert error_of(convert_tables, edges, folder / "g.graph", attributes, **options) == expected


@settings(max_examples=12)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), VALUES), max_size=5), min_size=1, max_size=12), st.booleans())
def test_sparse_rows_too(tmp_path_factory, rows, as_svmlight):
    folder = tmp_path_factory.mktemp("convert")
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    edges = put({"source": [0, 1, len(rows)], "target": [len(rows) - 1, 0, 0]}, folder / "e.csv")
    if as_svmlight:
        lines = [f"{len(row)} " + " ".join(f"{k}:{v}" for k, v in sorted(dict(row).items())) for row in rows]
        (folder / "n.svm").write_text("\n".join(lines) + "\n")
        attributes = folder / "n.svm"
    else:
        lists = {"columns": [[k for k, _ in row] for row in rows], "values": [[v for _, v in row] for row in rows]}
        table = pa.table({"id": order, "columns": pa.array(lists["columns"], pa.list_(pa.int64()))})
        table = table.append_column("values", pa.array(lists["values"], pa.list_(pa.float64())))
        attributes = folder / "n.parquet"
        pq.write_table(table, attributes)
    expected = error_of(read_tables, edges, attributes, nodes_without_attributes="empty")
    if expected is None:
        graph = assert_same(folder, edges, attributes, nodes_without_attributes="empty")
        assert graph.cleaning_report.nodes_only_in_edges >= 1
    else:
        assert (
            error_of(convert_tables, edges, folder / "g.graph", attributes, nodes_without_attributes="empty")
            == expected
        )


def test_many_of_one_edge_add_up_to_the_same_bits(tmp_path):
    rng = np.random.default_rng(0)
    links = {
        "source": rng.integers(0, 3, 400).tolist(),
        "target": rng.integers(0, 40, 400).tolist(),
        "weight": rng.random(400).tolist(),
    }
    for directed in (False, True):
        graph = assert_same(tmp_path, put(links, tmp_path / "e.csv"), directed=directed)
        assert graph.cleaning_report.duplicate_edges > 200


def csv_graph(folder: Any, order: Any) -> tuple[Any, Any]:
    """Random edges, many of them repeated, and nodes whose rows are in this order."""
    rng = np.random.default_rng(5)
    ends = rng.integers(0, 30, (2, 600))
    links = {"source": [f"n{k:02}" for k in ends[0]], "target": [f"n{k:02}" for k in ends[1]]}
    edges = put(links | {"weight": rng.random(600).tolist()}, folder / "e.csv")
    rows = rng.random((30, 3))
    columns = {f"x{k}": rows[order, k].tolist() for k in range(3)}
    return edges, put({"id": [f"n{k:02}" for k in order], **columns}, folder / "n.csv")


@pytest.mark.parametrize("directed", [False, True])
def test_a_csv_in_memory_and_its_folder_are_the_same_graph(tmp_path, directed):
    edges, nodes = csv_graph(tmp_path, np.arange(30))
    graph = read_tables(edges, nodes, directed=directed)
    folder = convert_tables(edges, tmp_path / "g.graph", nodes, directed=directed)
    assert graph.fingerprint() == folder.fingerprint() == replace(folder, mapped=None).fingerprint()
    assert list(graph.ids) == list(folder.ids)
    for one, other in ((graph.adjacency, folder.adjacency), (graph.neighborhoods(), folder.neighborhoods())):
        for part in ("indptr", "indices", "data"):
            left, right = getattr(one, part), getattr(other, part)
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes()
    assert graph.attributes is not None
    assert folder.attributes is not None
    assert graph.attributes.tobytes() == folder.attributes.tobytes()
    assert graph.cleaning_report == folder.cleaning_report


def test_in_another_order_of_rows_the_graph_in_order_of_ids_is_the_same(tmp_path):
    edges, nodes = csv_graph(tmp_path, np.random.default_rng(1).permutation(30))
    graph = read_tables(edges, nodes)
    folder = convert_tables(edges, tmp_path / "g.graph", nodes)
    assert graph.fingerprint() != folder.fingerprint()
    assert graph.in_id_order()[0].fingerprint() == folder.fingerprint()


def test_compressed_text_without_a_header_and_other_columns(tmp_path):
    import gzip

    (tmp_path / "e.tsv.gz").write_bytes(gzip.compress(b"b\ta\t2\na\tc\t1\n" * 30))
    (tmp_path / "n.csv").write_text("b,1,true\na,0,false\nc,2,true\n")
    graph = assert_same(tmp_path, tmp_path / "e.tsv.gz", tmp_path / "n.csv", layout=TableLayout(header=False))
    assert graph.feature_names is None
    (tmp_path / "o.csv").write_text("note,source,target\n" + "1,a,b\nx,b,c\n" * 40)
    assert assert_same(tmp_path, tmp_path / "o.csv").num_edges == 2


def test_the_progress_of_every_stage_is_told(tmp_path):
    told: list[tuple[str, float]] = []
    links = {"source": list(range(200)), "target": list(range(1, 201))}
    put({"id": list(range(201)), "x": [1.0] * 201}, tmp_path / "n.csv")
    edges = put(links, tmp_path / "e.csv")
    convert_tables(edges, tmp_path / "g.graph", tmp_path / "n.csv", progress=lambda *each: told.append(each))
    assert list(dict.fromkeys(stage for stage, _ in told)) == ["ids", "rows", "edges", "merging", "attributes"]
    for stage in ("ids", "edges", "attributes"):
        shares = [share for each, share in told if each == stage]
        assert len(shares) > 1
        assert shares == sorted(shares)
        assert shares[-1] == 1


def test_an_error_leaves_nothing_behind(tmp_path):
    (tmp_path / "e.csv").write_text("source,target,weight\na,b,0\n")
    with pytest.raises(InputError):
        convert_tables(tmp_path / "e.csv", tmp_path / "g.graph")
    assert [each.name for each in tmp_path.iterdir()] == ["e.csv"]


EDGE_ROWS = [f"n{k % 7},n{k % 5},1" for k in range(100)]
NODE_ROWS = [f"n{k},{k}" for k in range(100)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge": "n1,,1"}, "e.csv, row 82: no value in column 'target'; fill it in"),
        ({"edge": "n1,n2,-1"}, r"e.csv, row 82: weights must be finite and above 0, but this is -1.0; 1 such in all"),
        ({"edge": "n1,n2,x"}, "e.csv, row 82, column 'weight': expected a number, but found 'x'"),
        ({"edge": "n1,n2"}, "e.csv, row 82: expected 3 columns, got 2"),
        ({"edge": "n1,q,1"}, "e.csv, row 82: node 'q' has no row in n.csv; 1 such node in all"),
        ({"edge": 'n1,"n2'}, "e.csv.*row|e.csv cannot be read"),
        ({"node": "n1,1"}, "n.csv, row 82: id 'n1' is also in row 3; give a node one row"),
        ({"node": ",1"}, "n.csv, row 82: no value in column 'id'; fill it in"),
        ({"node": "m,x"}, "n.csv, row 82, column 'x': expected a number, but found 'x'"),
        ({"node": "m,"}, "n.csv, row 82: no value in column 'x'; fill it in"),
        ({"node": "m,1e60"}, "n.csv, row 82: column 'x' is 1e[+]60, not a finite 32-bit number"),
        ({"header": "n1,n2,w"}, "e.csv, row 1, column 'weight': expected a number, but found 'w'"),
        ({"header": "source,target"}, "expected 2 columns, got 3"),
    ],
)
def test_messages_name_the_row_of_the_whole_file(tmp_path, change, message):
    edges, nodes = list(EDGE_ROWS), list(NODE_ROWS)
    if "edge" in change:
        edges[80] = change["edge"]
    if "node" in change:
        nodes[80] = change["node"]
    (tmp_path / "e.csv").write_text("\n".join([change.get("header", "source,target,weight"), *edges]) + "\n")
    (tmp_path / "n.csv").write_text("\n".join(["id,x", *nodes]) + "\n")
    with pytest.raises(InputError, match=message):
        convert_tables(tmp_path / "e.csv", tmp_path / "g.graph", tmp_path / "n.csv")


def test_other_errors_are_those_of_reading_whole(tmp_path):
    put({"source": [1], "target": [2]}, tmp_path / "e.parquet")
    put({"id": ["a"], "x": [1.0]}, tmp_path / "n.parquet")
    (tmp_path / "n.svm").write_text("1 x:y\n")
    (tmp_path / "inf.svm").write_text("1 1:1\n" * 9 + "1 1:inf\n")
    (tmp_path / "big.csv").write_text("source,target,weight\n" + "a,b,3e38\n" * 9)
    (tmp_path / "not.parquet").write_text("x")
    cases = [
        ("e.parquet", "n.parquet", r"names nodes by integers \(such as 1\), n.parquet by text \(such as 'a'\)"),
        ("e.parquet", "n.svm", "n.svm cannot be read as svmlight"),
        ("e.parquet", "inf.svm", "inf.svm, row 10: "),
        ("big.csv", None, "the weights of a repeated edge add up to more than a 32-bit float holds"),
        ("not.parquet", None, "not.parquet cannot be read as Parquet"),
        ("none.csv", None, "no file .*none.csv; expected a file of edges"),
        ("e.doc", None, "unknown file format"),
    ]
    for edges, attributes, message in cases:
        with pytest.raises(InputError, match=message):
            convert_tables(tmp_path / edges, tmp_path / "g.graph", attributes and tmp_path / attributes)
    with pytest.raises(InputError, match="nodes_without_attributes must be one of error, empty, not 'x'"):
        convert_tables(tmp_path / "e.parquet", tmp_path / "g.graph", nodes_without_attributes="x")


def test_what_was_found_is_counted(tmp_path):
    (tmp_path / "e.csv").write_text("source,target,weight\na,b,1\na,b,2\nb,a,9\nc,c,1\nz,a,1\n")
    (tmp_path / "n.csv").write_text("id,x\nd,1\nb,0\na,1\nc,1\n")
    graph = assert_same(tmp_path, tmp_path / "e.csv", tmp_path / "n.csv", nodes_without_attributes="empty")
    found = graph.cleaning_report
    assert replace(found, isolated_nodes=0) == replace(
        found.__class__(), duplicate_edges=1, unequal_directions=1, self_loops=1, empty_attribute_rows=2,
        nodes_only_in_edges=1, nodes_only_in_attributes=1,
    )  # fmt: skip
    assert list(graph.ids) == ["a", "b", "c", "d", "z"]
    assert graph.adjacency[0, 1] == 9


@pytest.mark.parametrize("directed", [False, True])
def test_folders_of_parquet_files_are_one_table(tmp_path, directed):
    rng = np.random.default_rng(0)
    names = [f"n{number}" for number in range(20)]
    links = {"source": rng.choice(names, 90).tolist(), "target": rng.choice(names, 90).tolist()}
    rows = {"id": names, "x": rng.random(20).tolist()}
    for table, name in ((links, "e"), (rows, "n")):
        (tmp_path / name).mkdir()
        whole = typed(table) if name == "n" else pa.table(table)
        pq.write_table(whole, tmp_path / f"{name}.parquet")
        for number, at in enumerate(range(0, len(whole), 13)):
            pq.write_table(whole[at : at + 13], tmp_path / name / f"part-{number}.parquet")
        pq.write_table(whole[:0], tmp_path / name / "part-9.parquet")
        (tmp_path / name / "_SUCCESS").touch()
    graph = assert_same(tmp_path, tmp_path / "e", tmp_path / "n", directed=directed)
    one = read_tables(tmp_path / "e.parquet", tmp_path / "n.parquet", directed=directed)
    assert graph.fingerprint() == one.in_id_order()[0].fingerprint()
    pq.write_table(pa.table({"source": [1], "target": [2]}), tmp_path / "e" / "part-x.parquet")
    with pytest.raises(InputError, match="part-x.parquet: ids are int64, but in other files large_string; make them"):
        convert_tables(tmp_path / "e", tmp_path / "g.graph")
    with pytest.raises(InputError, match="the files of .*e have different columns"):
        read_tables(tmp_path / "e")
    bad = pa.table({"source": ["a", None], "target": ["b", "c"]})
    pq.write_table(bad, tmp_path / "e" / "part-x.parquet")
    with pytest.raises(InputError, match=r"part-x.parquet, row 2: no value in column 'source'"):
        convert_tables(tmp_path / "e", tmp_path / "g.graph")


def test_the_files_of_a_folder_have_the_same_columns(tmp_path):
    plain, weighted = {"source": ["a"], "target": ["b"]}, {"source": ["a"], "target": ["c"], "weight": [2.0]}
    rows, more, other = {"id": ["a"], "x": [1.0]}, {"id": ["b"], "x": [1.0], "y": [2.0]}, {"node": ["b"], "x": [2.0]}
    for folder, tables in (("e", (weighted, plain)), ("n", (rows, more)), ("m", (rows, other))):
        (tmp_path / folder).mkdir()
        for number, table in enumerate(tables):
            pq.write_table(pa.table(table), tmp_path / folder / f"part-{number}.parquet")
    pq.write_table(pa.table(plain), tmp_path / "edges.parquet")
    for edges, attributes in (("e", None), ("edges.parquet", "n"), ("edges.parquet", "m")):
        paths = tmp_path / edges, attributes and tmp_path / attributes
        for read in (lambda: read_tables(*paths), lambda: convert_tables(paths[0], tmp_path / "g", paths[1])):  # noqa: B023
            with pytest.raises(InputError, match=r"have different columns: .* in part-0.parquet, .* in part-1.parquet"):
                read()
    assert not (tmp_path / "g").exists()


def test_an_interrupt_is_no_problem_of_the_database(tmp_path):
    """DuckDB turns an interrupt into errors of its own: of the batches that it asks for, and of a query."""

    def columns() -> Any:
        yield pa.array(["a"])
        raise KeyboardInterrupt

    with edge_database.edge_database(tmp_path / "first") as database, pytest.raises(KeyboardInterrupt):
        database.add_names(columns(), pa.string())
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), edge_database.edge_database(tmp_path / "second") as database:
        database.connection.execute("SELECT count(*) FROM range(1000000000000) AS n WHERE hash(n.range) % 7 = 3")
    assert list(tmp_path.iterdir()) == []


def test_ids_from_0_to_n_are_node_numbers(tmp_path, monkeypatch):
    """They are not looked up, whether each has an edge or only a self-loop; a gap makes others of them."""

    def lookup(*_: object) -> str:
        raise AssertionError("looked up")

    monkeypatch.setattr(edge_database.EdgeDatabase, "_create_keys", lookup)
    for name, links in (("dense", [3, 0, 2, 1]), ("loop", [3, 0, 2, 2]), ("text", ["1", "0", "2", "3"])):
        edges = put({"source": links, "target": [1, 1, 2, 3]}, tmp_path / f"{name}.csv")
        graph = assert_same(tmp_path, edges)
        assert graph.num_nodes == 4
        assert graph.ids._array is None, "such ids take no memory"
    put({"id": [3, 1, 0, 2], "x": [1.0, 2.0, 3.0, 4.0]}, tmp_path / "n.csv")
    put({"source": [3], "target": [1]}, tmp_path / "one.csv")
    assert assert_same(tmp_path, tmp_path / "one.csv", tmp_path / "n.csv").num_nodes == 4
    for links in ([5, 0, 2, 1], [1, 2, 3, 4], [-1, 0, 2, 1]):
        with pytest.raises(AssertionError, match="looked up"):
            convert_tables(put({"source": links, "target": [1, 1, 2, 3]}, tmp_path / "e.csv"), tmp_path / "g.graph")


def test_ids_with_the_same_hash_are_told_apart(tmp_path, monkeypatch):
    differ, asked = edge_database.EdgeDatabase._keys_differ, []

    def collided(self):
        asked.append(differ(self))
        return len(asked) > 1

    monkeypatch.setattr(edge_database.EdgeDatabase, "_keys_differ", collided)
    assert_same(tmp_path, put({"source": ["a", "b"], "target": ["b", "c"]}, tmp_path / "e.csv"))
    assert asked == [True, True]


def test_equal_keys_are_found(tmp_path):
    for keys, expected in (([1, 2, 3, 4], True), ([4, 1, 4, 3], False), ([1, 2, 3, 3], False)):
        with edge_database.edge_database(tmp_path / "edges") as database:
            database._create(
                "keys AS SELECT key FROM given", pa.schema({"key": pa.int64()}), [pa.record_batch({"key": keys})]
            )
            assert database._keys_differ() == expected
        assert not (tmp_path / "edges").exists()


@pytest.mark.parametrize("directed", [False, True])
def test_many_ids_are_collected_part_by_part(tmp_path, monkeypatch, directed):
    monkeypatch.setattr(edge_database, "DISTINCT_AT_ONCE", 4)
    edges, nodes = csv_graph(tmp_path, np.arange(30))
    assert_same(tmp_path, edges, nodes, directed=directed)
    assert_same(tmp_path, put({"source": list(range(40)), "target": [0] * 40}, tmp_path / "n.parquet"))


@pytest.mark.parametrize("packed", [1, 1 << 31])
def test_keys_of_one_and_of_two_numbers(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(edge_database, "PACKED", packed)
    edges, nodes = csv_graph(tmp_path, np.arange(30))
    assert_same(tmp_path, edges, nodes)
