"""Files of any layout, encoding and compression become the graph that the plain file gives."""

import bz2
import gzip

import numpy as np
import pyarrow as pa
import pytest

from glace.errors import InputError
from glace.features.layout import TableLayout
from glace.io.convert import convert_tables
from glace.io.read import read_graph, read_rows, read_tables

RATINGS = "userId,movieId,rating,timestamp\nu1,m1,5,9\nu1,m2,3,9\nu2,m2,1,9\n"
MAPPED = TableLayout(source_column="userId", target_column="movieId", weight_column="rating")
SNAP = """# Directed graph: web.txt
# Nodes: 3 Edges: 3
# FromNodeId ToNodeId
0 1
0   2
2\t1
"""


def test_columns_of_edges_are_mapped_by_name(put):
    graph = read_tables(put("r.csv", RATINGS), layout=MAPPED)
    assert list(graph.ids) == ["m1", "m2", "u1", "u2"]
    assert graph.edges_and_weights()[1].tolist() == [5, 3, 1]
    assert graph.cleaning_report.notes == (
        "r.csv: edges from 'userId', to 'movieId', weighted by 'rating'; not used: 'timestamp'",
    )


def test_columns_of_edges_are_mapped_by_number_without_a_header(put):
    rows = RATINGS.split("\n", 1)[1]
    numbers = TableLayout(source_column="1", target_column="2", weight_column="3", header=False)
    mapped = read_tables(put("r.csv", rows), layout=numbers)
    assert mapped.fingerprint() == read_tables(put("r.csv", RATINGS), layout=MAPPED).fingerprint()


def test_without_a_weight_column_other_columns_are_no_weights(put):
    layout = TableLayout(source_column="userId", target_column="movieId")
    assert read_tables(put("r.csv", RATINGS), layout=layout).edges_and_weights()[1].tolist() == [1, 1, 1]


def test_columns_of_nodes_are_mapped(put):
    nodes = put("n.csv", "section,name,size\nnet,a,1\nnet,b,2\nlibs,c,4\n")
    layout = TableLayout(id_column="name", label_column="section")
    graph = read_tables(put("e.csv", "source,target\na,b\nb,c\n"), nodes, layout=layout)
    assert list(graph.ids) == ["a", "b", "c"]
    assert graph.labels is not None
    assert graph.labels.names == ("libs", "net")
    assert np.asarray(graph.attributes).tolist() == [[1], [2], [4]]


def test_a_table_of_packages_is_read_as_it_is(put):
    """Its header has neither `id` nor `text`."""
    nodes = put("p.csv", "name,description,section\na,red fish,net\nb,blue fish,net\nc,red pond,libs\n")
    layout = TableLayout(text_column="description", label_column="section")
    graph = read_tables(put("e.csv", "source,target\na,b\nb,c\n"), texts=nodes, layout=layout)
    assert graph.pipeline is not None
    assert graph.pipeline.names() == ("text:fish", "text:red")
    assert graph.labels is not None
    assert graph.labels.names == ("libs", "net")
    rows = read_rows(nodes, "texts", layout=layout)
    assert (list(rows.ids), rows.values) == (["a", "b", "c"], ["red fish", "blue fish", "red pond"])


def test_columns_are_mapped_by_type(put):
    layout = TableLayout(
        source_column="userId",
        target_column={"user:movie": "movieId"},
        weight_column={"user:movie": "rating"},
        id_column={"movie": "key"},
    )
    movies = put("m.csv", "year,key\n1979,m1\n1995,m2\n")
    graph = read_tables({"user:movie": put("r.csv", RATINGS)}, {"movie": movies}, layout=layout)
    assert list(graph.ids) == ["m1", "m2", "u1", "u2"]
    with pytest.raises(InputError, match="id_column names the type 'film', but there are user:movie, movie"):
        read_tables(
            {"user:movie": put("r.csv", RATINGS)}, {"movie": movies}, layout=TableLayout(id_column={"film": "key"})
        )


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"source_column": "usrId", "target_column": "movieId"}, "source_column is 'usrId', .*did you mean 'userId'"),
        ({"source_column": "zzz", "target_column": "movieId"}, "r.csv has no such column; its columns are 'userId', "),
        ({"source_column": "userId"}, "target_column is needed too: name the columns of both ends"),
        ({"target_column": "userId"}, "source_column is needed too"),
        ({"weight_column": "stars"}, "weight_column is 'stars', but r.csv has no such column"),
        ({}, "r.csv: 4 columns .*--target-column. 'movieId', and of the weight, if any .source_column='userId'"),
    ],
)
def test_columns_that_are_not_there(put, layout, message):
    with pytest.raises(InputError, match=message):
        read_tables(put("r.csv", RATINGS), layout=TableLayout(**layout))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"separator": "::"}, "separator must be one character, or comma, tab, semicolon, pipe, space, not '::'"),
        ({"separator": "x"}, "separator must be one character"),
        ({"encoding": "klingon"}, "encoding must be the name of an encoding, such as latin-1, not 'klingon'"),
    ],
)
def test_layouts_that_make_no_sense(layout, message):
    with pytest.raises(InputError, match=message):
        TableLayout(**layout)


@pytest.mark.parametrize("name", ["web.txt", "web.txt.gz", "web.txt.zst", "web.edgelist", "web.edges.gz", "web.csv"])
def test_lists_of_snap_are_read_as_they_are(put, tmp_path, name):
    zip_with = {"gz": gzip.compress, "zst": lambda content: pa.compress(content, "zstd", asbytes=True)}
    path = put(name, zip_with.get(name.rpartition(".")[2], bytes)(SNAP.encode()))
    graph = read_graph(path, directed=True)
    assert (list(graph.ids), graph.num_edges) == ([0, 1, 2], 3)
    notes = graph.cleaning_report.notes
    assert f"{name}: lines that start with # are comments" in notes
    assert f"{name}: no header; the columns are source, target" in notes
    assert convert_tables(path, tmp_path / "web.graph", directed=True).fingerprint() == graph.fingerprint()
    assert read_graph(tmp_path / "web.graph").cleaning_report.notes == notes


def test_lines_of_lists_are_counted_with_their_comments(put):
    with pytest.raises(InputError, match="web.txt, row 6: expected 2 columns, got 3"):
        read_graph(put("web.txt", SNAP.replace("2\t1", "1 1").replace("0   2", "# again\n0  2 1")))


def test_a_header_of_nodes_may_start_with_a_number_sign(put):
    graph = read_tables(put("e.csv", "source,target\na,b\n"), put("n.csv", "#id,x\na,1\nb,2\n"))
    assert list(graph.ids) == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings_that_files_show_are_recognised(put, encoding):
    text = "source,target\nMüller,Łódź\n" + "Łódź,b\nb,c\n" * 20
    graph = read_graph(put("e.csv", text.encode(encoding)))
    assert list(graph.ids) == ["Müller", "b", "c", "Łódź"]
    notes = graph.cleaning_report.notes
    assert not notes if encoding == "utf-8-sig" else notes == (f"e.csv: read as {encoding.upper()}",)


def test_latin_1_is_named_and_read_on_request(put):
    path = put("e.csv", "source,target\na,b\nb,Müller\n".encode("latin-1"))
    message = "e.csv, row 3, column 'target': the text is not UTF-8 but perhaps Latin-1, .* .encoding='latin-1'"
    with pytest.raises(InputError, match=message):
        read_graph(path)
    assert "Müller" in read_tables(path, layout=TableLayout(encoding="latin-1")).ids
    with pytest.raises(InputError, match="e.csv cannot be read: UTF-16 stream does not start with BOM"):
        read_tables(put("e.csv", b"source,target\na,b\n1"), layout=TableLayout(encoding="utf-16"))


def test_a_separator_can_be_given(put):
    layout = TableLayout(separator="semicolon")
    graph = read_tables(put("e.csv", "source;target\na,x;b\n"), layout=layout)
    assert list(graph.ids) == ["a,x", "b"]
    assert graph.cleaning_report.notes == ()


def test_compressed_files_that_are_damaged(put):
    with pytest.raises(InputError, match="e.csv.zst cannot be read"):
        read_graph(put("e.csv.zst", bz2.compress(b"source,target\na,b\n")))


def test_a_headerless_list_keeps_its_row_in_a_stream_too(put, tmp_path):
    path = put("e.csv", "ann,bob\nbob,eve\neve,ann\n")
    graph = convert_tables(path, tmp_path / "e.graph")
    assert graph.num_edges == 3
    assert graph.cleaning_report.notes == ("e.csv: no header; its first row names a node",)


def test_kinds_of_columns_are_guessed_and_said(put):
    nodes = "id,age,town,about,mail,born,genres\n" + "".join(
        f"n{row},{row},{('Bern', 'Genf')[row % 2]},likes {('red', 'blue')[row % 2]} fish,m{row}@x,2020-01-0{row + 1},"
        f"{('a|film', 'war|film')[row % 2]}\n"
        for row in range(6)
    )
    graph = read_tables(put("e.csv", "source,target\nn0,n1\nn2,n3\n"), put("n.csv", nodes))
    assert graph.cleaning_report.notes == (
        "n.csv, kinds of columns guessed: age number, town category (2 values), about category (2 values), "
        "mail drop (names that no two rows share), born drop (dates), genres text (2.0 words per row); "
        "columns= (--column NAME=KIND) sets them",
    )
    given = read_tables(
        put("e.csv", "source,target\nn0,n1\nn2,n3\n"), put("n.csv", nodes), columns={"about": "text", "mail": "drop"}
    )
    assert given.pipeline is not None
    kinds = {column.name: column.kind for column in given.pipeline.columns}
    assert kinds == {"age": "number", "town": "category", "about": "text", "genres": "text"}
    assert given.pipeline.dropped == ("mail", "born")


def test_numbers_alone_are_not_guessed(put):
    graph = read_tables(put("e.csv", "source,target\na,b\n"), put("n.csv", "id,x\na,1\nb,2\n"))
    assert (graph.cleaning_report.notes, graph.pipeline) == ((), None)


@pytest.mark.parametrize(
    ("header", "rows", "shared"),
    [
        ("userId,movieId", ["1,1", "1,2", "2,2"], "2 ids occur in both 'userId' and 'movieId'"),
        ("source,target", [f"{row % 20},{row % 40}" for row in range(40)], "20 ids occur"),
    ],
)
def test_ids_of_two_kinds_of_things_that_merge_are_noticed(put, header, rows, shared):
    graph = read_tables(put("r.csv", "\n".join([header, *rows])))
    note = next(note for note in graph.cleaning_report.notes if shared in note)
    words = "user:movie" if "user" in header else "user:item"
    assert f"keep them apart with --edges {words}=FILE" in note
    apart = read_tables({words: put("r.csv", "\n".join([header, *rows]))})
    assert "user:1" in apart.ids


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("userId,movieId", ["u1,m1", "u2,m2"]),
        ("person_1,person_2", ["1,2", "2,3"]),
        ("from,to", ["1,2", "2,3"]),
        ("source,target", [f"{row},{row + 1}" for row in range(40)]),
    ],
)
def test_ids_of_one_kind_are_not_noticed(put, header, rows):
    graph = read_tables(put("r.csv", "\n".join([header, *rows])))
    assert not any("apart" in note for note in graph.cleaning_report.notes)


def test_a_stream_says_how_to_keep_ids_apart(put, tmp_path):
    graph = convert_tables(put("r.csv", "userId,movieId\n1,1\n1,2\n"), tmp_path / "r.graph")
    assert any("--edges user:movie=FILE" in note for note in graph.cleaning_report.notes)
