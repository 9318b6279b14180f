import gzip
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glace.errors import GlaceError, InputError
from glace.features.layout import TableLayout
from glace.graph.graph import Graph
from glace.ids import NodeIds
from glace.io import text_file
from glace.io.npz import write_npz
from glace.io.read import read_graph, read_numbers, read_pairs, read_rows, read_tables

EDGES = "source,target,weight\na,b,1\nb,c,2\n"
NODES = "id,x,y,label\na,1,0.5,p\nb,2,1e3,q\nc,3,0,\n"


def test_csv_files_make_a_graph(put):
    graph = read_tables(put("edges.csv", EDGES), put("nodes.csv", NODES))
    assert list(graph.ids) == ["a", "b", "c"]
    assert np.asarray(graph.attributes).tolist() == [[1, 0.5], [2, 1000], [3, 0]]
    assert graph.edges_and_weights()[1].tolist() == [1, 2]
    assert graph.labels is not None
    assert graph.labels.codes.tolist() == [0, 1, -1]


@pytest.mark.parametrize("name", ["edges.tsv", "edges.txt", "EDGES.TSV", "edges.tsv.gz", "edges.csv.gz", "e.CSV.GZ"])
def test_endings_say_separator_and_compression(put, name):
    text = EDGES if "csv" in name.lower() else EDGES.replace(",", "\t")
    content = gzip.compress(text.encode()) if name.lower().endswith("gz") else text
    assert read_graph(put(name, content)).num_edges == 2


def test_parquet_keeps_its_types(tmp_path, put):
    pq.write_table(pa.table({"source": [1, 2], "target": [2, 3]}), tmp_path / "edges.parquet")
    assert list(read_graph(tmp_path / "edges.parquet").ids) == [1, 2, 3]
    graph = read_tables(tmp_path / "edges.parquet", put("nodes.csv", "id,x\n1,0\n2,0\n3,1\n"))
    assert list(graph.ids) == [1, 2, 3]
    pq.write_table(pa.table({"source": ["1"], "target": ["2"]}), tmp_path / "text.parquet")
    assert list(read_tables(tmp_path / "text.parquet", put("nodes.csv", "id,x\n1,0\n2,0\n")).ids) == ["1", "2"]


def test_ids_are_integers_only_if_all_of_them_are_written_so(put):
    assert list(read_graph(put("e.csv", "source,target\n10,-9\n0,2\n")).ids) == [-9, 0, 2, 10]
    assert list(read_graph(put("e.csv", "source,target\n10,007\n")).ids) == ["007", "10"]
    assert list(read_graph(put("e.csv", "source,target\n1,99999999999999999999\n")).ids) == [
        "1",
        "99999999999999999999",
    ]
    graph = read_tables(put("e.csv", "source,target\n1,2\n"), put("n.csv", "id,x\n1,0\n2,0\nx,0\n"))
    assert list(graph.ids) == ["1", "2", "x"]
    assert list(read_graph(put("e.csv", "source,target\nNA,nan\n")).ids) == ["NA", "nan"]


def test_files_without_a_header(put):
    graph = read_tables(
        put("e.csv", "1,2,5\n2,3,1\n"), put("n.csv", "1,0.5,7\n2,0,7\n3,0,7\n"), layout=TableLayout(header=False)
    )
    assert list(graph.ids) == [1, 2, 3]
    assert np.asarray(graph.attributes).tolist() == [[0.5, 7], [0, 7], [0, 7]]
    assert graph.edges_and_weights()[1].tolist() == [5, 1]
    texts = put("t.tsv", 'source\tred "fish"\ntarget\t"fish\n\npond"\n')
    graph = read_tables(put("e.csv", "source,target\n"), texts=texts, layout=TableLayout(header=False))
    assert graph.pipeline is not None
    assert graph.pipeline.names() == ("text:fish",)


def test_texts_with_a_header(put):
    texts = put("t.csv", 'id,text,label\na,"one, fish",x\nb,"two ""fish""\nswim",y\nc,,\n')
    graph = read_tables(put("e.csv", EDGES), texts=texts)
    assert sp.csr_array(graph.attributes).toarray().tolist() == [[1], [1], [0]]
    assert graph.labels is not None
    assert graph.labels.names == ("x", "y")


def test_svmlight_rows_are_numbered_and_led_by_their_label(put):
    attributes = put("nodes.svm", "1 1:0.5 3:2\n-1 2:1\n0.5 1:1\n")
    graph = read_tables(put("e.csv", "source,target\n0,1\n1,2\n"), attributes)
    assert sp.csr_array(graph.attributes).toarray().tolist() == [[0, 0.5, 0, 2], [0, 0, 1, 0], [0, 1, 0, 0]], (
        "columns count from 0, and no file is guessed to count from 1"
    )
    assert graph.labels is not None
    assert [graph.labels[node] for node in range(3)] == ["1", "-1", "0.5"]


def test_a_byte_order_mark_and_other_line_ends_are_no_matter(put):
    for text in (EDGES, EDGES.replace("\n", "\r\n"), EDGES.replace("\n", "\r"), "\n\n" + EDGES.replace("\n", "\n\n")):
        assert read_graph(put("e.csv", b"\xef\xbb\xbf" + text.encode())).num_edges == 2


def test_nodes_called_source_and_target_are_not_taken_for_data(put):
    nodes = put("n.csv", "id,x\nsource,1\ntarget,2\n")
    assert read_tables(put("e.csv", "source,target\nsource,target\n"), nodes).num_edges == 1


def test_read_graph_reads_npz(put, tmp_path):
    graph = read_graph(put("e.csv", EDGES))
    write_npz(graph, tmp_path / "g.npz")
    assert read_graph(tmp_path / "g.npz").fingerprint() == graph.fingerprint()


NODE_FILE = "id,x\na,1\nb,2\nc,3\n"


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("x,x\na,b\n", "two columns are called 'x'; rename one, or read the file without a header .*header=False"),
        ("source,target\na,b\n\na,b,c\n", "e.csv, row 4: expected 2 columns, got 3: a,b,c"),
        ('source,target\n"a\n",b\na,b,c\n', "e.csv, row 4: expected 2 columns, got 3"),
        (
            "source,target,weight\na,b,1\n\n\nb,c,heavy\n",
            "e.csv, row 5, column 'weight': expected a number, but found 'heavy'",
        ),
        ("source,target,weight\na,b,1\n\nb,c,\n", "e.csv, row 4: no value in column 'weight'"),
        ("source,target,weight\na,b,1\n\nb,c,-1\n", "e.csv, row 4: weights must be finite and above 0, but this is -1"),
        ("source,target\na,b\n\n,b\n", "e.csv, row 4: no value in column 'source'; fill it in"),
        ('source,target\n"a",b\n\na,q\n', "e.csv, row 4: node 'q' has no row in n.csv; 1 such node in all"),
        ("source,target\n1,2\n3,4\n", r"e.csv, row 2: node '1' has no row in n.csv; 4 such"),
        (
            b"source,target\na,b\n\nb,\xff\n",
            "e.csv, row 4, column 'target': the text is not UTF-8 but perhaps Latin-1, .*encoding='latin-1'",
        ),
        (b"source,t\xffrget\na,b\n", "e.csv, row 1: the text is not UTF-8"),
        ("source\na\n", "e.csv: edges need two columns.*another character separates .*separator='tab'"),
        ("\n\n", "e.csv cannot be read: .*[Ee]mpty"),
        ('source,target\na,b\n\na,"b\nb,c\n', "e.csv, row 4: a quote is opened but never closed"),
    ],
)
def test_edge_files_that_do_not_fit_are_refused_with_their_line(put, edges, message):
    with pytest.raises(InputError, match=message):
        read_tables(put("e.csv", edges), put("n.csv", NODE_FILE))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("id,x\na,1\n\nb,2\na,3\n", "n.csv, row 5: id 'a' is also in row 2"),
        ("id,x\na,1\n\nb,oops\nc,3\n", r"column 'x' holds string \('oops' in row 4\)"),
        ("id,x\na,1\n\nb,\nc,3\n", "n.csv, row 4: no value in column 'x'"),
        ("id,x\na,1\n\nb,1e60\nc,3\n", "n.csv, row 4: column 'x' is 1e"),
        (b"id,x\na,1\n\nb,\xff\nc,3\n", "n.csv, row 4, column 'x': the text is not UTF-8"),
        ("id,x,x\na,1,2\n", "two columns are called 'x'; .*header=False"),
        ("a,b\n1\n", "n.csv, row 2: expected 2 columns, got 1"),
    ],
)
def test_node_files_that_do_not_fit_are_refused_with_their_line(put, nodes, message):
    with pytest.raises(InputError, match=message):
        read_tables(put("e.csv", EDGES), put("n.csv", nodes))


def test_rows_are_counted_without_a_header_too(put):
    with pytest.raises(InputError, match=r"e.csv, row 3: expected 2 columns, got 3"):
        read_tables(put("e.csv", "a,b\n\na,b,c\n"), layout=TableLayout(header=False))
    with pytest.raises(InputError, match=r"e.csv, row 3: weights must be"):
        read_tables(put("e.csv", "a,b,1\n\na,b,0\n"), layout=TableLayout(header=False))
    with pytest.raises(
        InputError, match="4 columns without a header; name those of edges by their numbers .*source_column=1"
    ):
        read_tables(put("e.csv", "a,b,1,2\n"), layout=TableLayout(header=False))


def test_rows_are_right_beyond_one_block(put, monkeypatch):
    monkeypatch.setattr(text_file, "BLOCK_BYTES", 1000)
    rows = [f"n{row},n{row + 1},1" for row in range(5000)]
    for bad, message in (
        ("n,n,x", "row 4001, column 'weight': expected a number"),
        ("n,n,1,1", "row 4001: expected 3 columns"),
    ):
        text = "\n".join(["source,target,weight", *rows[:3999], bad, *rows[3999:]])
        with pytest.raises(InputError, match=message):
            read_graph(put("e.csv", text))


def test_files_of_the_same_name_have_their_own_headers(tmp_path):
    for folder, text in (
        ("edges", "ann,bob\nbob,eve\neve,ann\n"),
        ("texts", "id,text\nann,red fish\nbob,red pond\neve,blue fish\n"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.csv").write_text(text)
    graph = read_tables(tmp_path / "edges" / "data.csv", texts=tmp_path / "texts" / "data.csv")
    assert list(graph.ids) == ["ann", "bob", "eve"]
    assert graph.num_edges == 3
    assert "data.csv: no header; its first row names a node" in graph.cleaning_report.notes


@pytest.mark.parametrize("text", ["ann,bob,0.5\nbob,eve,1\n", "ann,bob\nbob,eve\neve,ann\n"])
def test_a_headerless_list_of_names_is_not_robbed_of_its_first_row(put, text):
    graph = read_graph(put("e.csv", text))
    assert list(graph.ids) == ["ann", "bob", "eve"]
    assert graph.cleaning_report.notes == ("e.csv: no header; its first row names a node",)


@pytest.mark.parametrize(
    "header",
    [
        "name,x,y",
        "id,100,200",
        "id,0.5,1.5",
        ",0,1",
        "node,0,1,2",
        "node,1,2,3",
        "name,x,2",
        "name,label,x",
        "x,label,y",
    ],
)
def test_ordinary_headers_of_attributes_are_taken(put, header):
    row = ",".join(["7", *["0.25"] * header.count(",")])
    rows = read_rows(put("n.csv", f"{header}\n{row}\n"), "attributes")
    assert (list(rows.ids), np.unique(rows.values).tolist()) == ([7], [0.25])


@pytest.mark.parametrize("first", ["a,0.5", "a,1", "a,0,1", "a,1,2", "a,3,4,5", "7,0,1,2"])
def test_a_first_row_of_attributes_is_not_lost(put, first):
    key, *values = first.split(",")
    rows = read_rows(put("n.csv", f"{first}\n9{first}\n"), "attributes")
    assert [str(node) for node in rows.ids] == [key, f"9{key}"]
    assert np.asarray(rows.values).tolist() == [[float(value) for value in values]] * 2


def test_names_that_count_up_may_be_data(put):
    """As pandas calls the columns of an array."""
    path = put("n.csv", "0,1,2\n5,6,7\n")
    with pytest.raises(
        InputError, match=r"n.csv: the first row \(0, 1, 2\) may hold column names or data; .*header=True"
    ):
        read_rows(path, "attributes")
    assert list(read_rows(path, "attributes", layout=TableLayout(header=True)).ids) == [5]
    assert list(read_rows(path, "attributes", layout=TableLayout(header=False)).ids) == [0, 5]


def test_a_first_row_of_texts_is_not_lost(put):
    path = put("t.csv", "a,red fish\nb,blue fish\nc,old pond\n")
    with pytest.raises(
        InputError, match=r"t.csv: the first row \(a, red fish\) may hold column names or data; .*--id-col"
    ):
        read_rows(path, "texts")
    graph = read_tables(put("e.csv", EDGES), texts=path)
    assert list(graph.ids) == ["a", "b", "c"]
    assert graph.cleaning_report.notes == ("t.csv: no header; its first row names a node",)
    assert len(read_rows(path, "texts", layout=TableLayout(header=False)).ids) == 3
    for header in ("id,abstract", "name,text", "name,abstract", "Package,Description,id", "userId,title"):
        row = "b,blue fish" + ",x" * (header.count(",") - 1)
        if header.count(",") == 1:
            assert read_rows(put("t.csv", f"{header}\n{row}\n"), "texts").values == ["blue fish"]
    for header in ("id,abstract", "name,text"):
        assert read_rows(put("t.csv", f"{header}\nb,blue fish\n"), "texts").values == ["blue fish"]


def test_a_node_of_the_edges_is_no_name_of_a_column(put):
    for nodes in ("a,x\nb,1\nc,1\n", "a\nb\nc\n", "a,label\nb,p\nc,q\n"):
        with suppress(InputError):  # the third row has a text where the headerless file has numbers
            graph = read_tables(put("e.csv", EDGES), put("n.csv", nodes))
            assert list(graph.ids) == ["a", "b", "c"]
            assert "n.csv: no header; its first row names a node" in graph.cleaning_report.notes
    for edges in ("a,zoe\na,b\n", "zoe,a\na,b\n"):
        with pytest.raises(InputError, match="e.csv, row 1: node 'zoe' has no row in n.csv"):
            read_tables(put("e.csv", edges), put("n.csv", NODE_FILE))


def test_pairs_are_positions_in_the_model(put):
    path = put("p.csv", "source,target\n10,-9\n0,10\n")
    assert read_pairs(path, NodeIds([0, -9, 10])).tolist() == [[2, 1], [0, 2]]
    assert read_pairs(path, NodeIds(["0", "-9", "10"])).tolist() == [[2, 1], [0, 2]]
    assert read_pairs(put("p.csv", "from,to\na,b\n"), NodeIds(["b", "a"])).tolist() == [[1, 0]]
    assert read_pairs(put("p.csv", "a,b\n"), NodeIds(["b", "a"]), layout=TableLayout(header=False)).tolist() == [[1, 0]]


@pytest.mark.parametrize("ids", [NodeIds(["a", "b"]), NodeIds([1, 2])])
def test_a_first_pair_is_not_lost(put, ids):
    for first in (f"{ids[0]},{ids[1]}", f"{ids[0]},zoe", f"zoe,{ids[1]}", "zoe,bob,0.5"):
        with (
            pytest.raises(InputError, match="p.csv, row 1: no node 'zoe' in the model")
            if "zoe" in first
            else nullcontext()
        ):
            assert read_pairs(put("p.csv", f"{first}\n{first}\n"), ids).tolist() == [[0, 1], [0, 1]]


def test_pairs_of_nodes_the_model_does_not_have(put, tmp_path):
    with pytest.raises(InputError, match=r"p.csv, row 3: no node 'q' in the model"):
        read_pairs(put("p.csv", "source,target\na,b\na,q\n"), NodeIds(["a", "b"]))
    for stranger in ("3", "q", "01", "9" * 19):
        with pytest.raises(InputError, match=rf"p.csv, row 3: no node '{stranger}' in the model"):
            read_pairs(put("p.csv", f"source,target\n1,2\n1,{stranger}\n"), NodeIds([1, 2]))
    pq.write_table(pa.table({"source": [1], "target": [2]}), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"p.parquet: ids are large_string, but these are int64"):
        read_pairs(tmp_path / "p.parquet", NodeIds(["1", "2"]))


def test_names_of_attributes_come_from_the_header(put, tmp_path):
    edges = put("e.csv", EDGES)
    assert read_tables(edges, put("n.csv", NODES)).feature_names == ("x", "y")
    headless = put("h.csv", "a,1,2\nb,1,2\nc,1,2\n"), put("he.csv", "a,b\n")
    assert read_tables(headless[1], headless[0], layout=TableLayout(header=False)).feature_names is None
    graph = read_tables(edges, put("n.csv", NODES))
    write_npz(graph, tmp_path / "g.npz")
    assert read_graph(tmp_path / "g.npz").feature_names == ("x", "y")


def values_of(*given: Any, **options: Any) -> Any:
    """The values of the rows that are read, dense or sparse."""
    return read_rows(*given, **options).values


def test_rows_come_in_the_order_of_the_names(put, tmp_path):
    path = put("n.csv", "y,label,id,x\n1,p,a,2\n3,q,b,4\n")
    rows = read_rows(path, "attributes", names=("x", "y"))
    assert list(rows.ids) == ["a", "b"]
    assert np.asarray(rows.values).tolist() == [[2, 1], [4, 3]]
    assert values_of(path, "attributes").tolist() == [[1, 2], [3, 4]]
    pq.write_table(pa.table({"id": ["a"], "y": [1], "x": [2]}), tmp_path / "n.parquet")
    assert values_of(tmp_path / "n.parquet", "attributes", names=("x", "y")).tolist() == [[2, 1]]
    bare = put("b.csv", "a,5,6\n")
    assert values_of(bare, "attributes", layout=TableLayout(header=False), names=("x", "y")).tolist() == [[5, 6]]
    svm = values_of(put("n.svm", "1 0:5 1:6\n"), "attributes", width=2, names=("x", "y"))
    assert svm.toarray().tolist() == [[5, 6]]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("id,x,z", "n.csv: no column 'y'; the model needs its 2 attributes by name"),
        ("x,y", "n.csv: no column 'x' but the ids; the model needs its 2 attributes by name"),
        ("id,x,z,y", "n.csv: column 'z' is not among the model's 2 attributes; remove it"),
    ],
)
def test_columns_that_are_not_those_of_the_model(put, header, message):
    row = ",".join(["7"] * (header.count(",") + 1))
    with pytest.raises(InputError, match=message):
        read_rows(put("n.csv", f"{header}\n{row}\n"), "attributes", names=("x", "y"))


def test_new_nodes_need_attributes(put):
    with pytest.raises(InputError, match="n.csv: no attribute columns; an id and numbers are needed"):
        read_rows(put("n.csv", "id,label\na,p\n"), "attributes")


def test_rows_of_parquet_count_from_one(tmp_path, put):
    pq.write_table(pa.table({"source": ["a", None], "target": ["b", "c"]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match=r"e.parquet, row 2: no value in column 'source'; fill it in"):
        read_graph(tmp_path / "e.parquet")
    with pytest.raises(InputError, match=r"bad.parquet cannot be read as Parquet"):
        read_graph(put("bad.parquet", "PAR1 but no more"))


def test_files_of_another_kind(put, tmp_path):
    with pytest.raises(InputError, match=r"unknown file format; .*\.npz, \.csv, \.tsv, .*\.parquet"):
        read_graph(put("graph.xlsx", "x"))
    with pytest.raises(InputError, match=r"end in one of .*\.libsvm"):
        read_tables(put("e.csv", EDGES), put("n.json", "{}"))
    with pytest.raises(InputError, match=r"no file .*e2.csv; expected a file of edges"):
        read_graph(tmp_path / "e2.csv")
    with pytest.raises(InputError, match=r"e.csv.gz cannot be read"):
        read_graph(put("e.csv.gz", EDGES))
    with pytest.raises(InputError, match=r"e.csv.gz cannot be read"):
        read_graph(put("e.csv.gz", gzip.compress(np.random.default_rng(0).bytes(10_000))[:-100]))
    with pytest.raises(InputError, match=r"n.svm cannot be read as svmlight"):
        read_tables(put("e.csv", EDGES), put("n.svm", "1 a:b\n"))
    with pytest.raises(InputError, match="attributes or texts, not both"):
        read_tables("e.csv", "n.csv", texts="t.csv")


junk = st.lists(st.sampled_from(["a", "b", "1", "2", "0.5", "x y", '"', ",", "\n", "\r", "\t", "é", "\0", "NA"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.one_of(junk.map(lambda parts: "".join(parts).encode()), st.binary()), junk, st.booleans())
def test_junk_is_a_graph_or_an_error_of_ours(put, content, nodes, header):
    edges = put("e.csv", content)
    for attributes in (None, put("n.csv", "id,x\n" + "".join(nodes))):
        try:
            graph = read_tables(edges, attributes, layout=TableLayout(header=header), nodes_without_attributes="empty")
        except GlaceError:
            continue
        assert isinstance(graph, Graph)


@pytest.mark.parametrize(("name", "separator"), [("n.csv", ";"), ("n.csv", "\t"), ("n.tsv", ","), ("n.csv", "|")])
def test_another_separator_is_found_and_named(put, name, separator):
    nodes = put(name, f"id{separator}x\na{separator}1\nb{separator}2\n")
    graph = read_tables(put("e.csv", "source,target\na,b\n"), nodes)
    assert np.asarray(graph.attributes).tolist() == [[1], [2]]
    word = "tabs" if separator == "\t" else repr(separator)
    assert graph.cleaning_report.notes == (f"{name}: columns are separated by {word}",)


def test_numbers_of_a_node_table_in_the_order_of_the_nodes(put):
    path = put("n.csv", "name,age,town,height\nb,30,Bern,1.5\na,,Genf,2.5\nz,1,Bern,3\n")
    found = read_numbers(path, NodeIds(["a", "b", "c"]))
    assert list(found) == ["age", "height"], "a town is no number"
    np.testing.assert_array_equal(found["age"], [np.nan, 30, np.nan])
    np.testing.assert_array_equal(found["height"], [2.5, 1.5, np.nan])
    numbered = put("m.csv", "x,key\n0.5,7\n1.5,8\n")
    assert read_numbers(numbered, NodeIds([8, 7]), layout=TableLayout(id_column="key"))["x"].tolist() == [1.5, 0.5]
    with pytest.raises(InputError, match=r"m.csv: no row has the id of a node of the model, such as 'a'"):
        read_numbers(numbered, NodeIds(["a"]), layout=TableLayout(id_column="key"))
