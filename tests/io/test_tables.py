import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from glace.errors import InputError
from glace.io.merged_ids import merged_ids_note
from glace.io.tables import from_tables

EDGES = {"source": ["a", "b", "a"], "target": ["b", "c", "c"]}
NODES = {"id": ["c", "a", "b"], "x": [1, 2, 3], "y": [True, False, True]}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_any_arrow_frame_makes_the_same_graph(frame):
    graph = from_tables(frame(EDGES | {"weight": [1, 2, 3]}), frame(NODES | {"label": ["p", None, "q"]}))
    assert list(graph.ids) == ["c", "a", "b"]
    assert np.asarray(graph.attributes).tolist() == [[1, 1], [2, 0], [3, 1]]
    assert graph.adjacency.toarray().tolist() == [[0, 3, 2], [3, 0, 1], [2, 1, 0]]
    assert graph.labels is not None
    assert [graph.labels[node] for node in range(3)] == ["p", None, "q"]
    assert graph.node_types is None


def test_attributes_keep_the_names_of_their_columns():
    nodes = pa.table({"id": list("ab"), "y": [1, 2], "label": ["p", "q"], "x": [3, 4]})
    links = pa.table({"source": ["a", "a"], "target": ["b", "z"]})
    assert from_tables(links, nodes, nodes_without_attributes="empty").feature_names == ("y", "x")
    assert from_tables(links).feature_names is None
    assert from_tables(links, nodes.select(["id", "label"]), nodes_without_attributes="empty").feature_names is None
    texts = pa.table({"id": list("abz"), "text": ["red fish", "red bird", "fish"]})
    assert from_tables(links, texts=texts).feature_names is None


def test_categorical_ids_are_ids():
    edges = pd.DataFrame(EDGES).astype("category")
    assert list(from_tables(edges).ids) == ["a", "b", "c"]
    nodes = pl.DataFrame(
        NODES | {"label": ["p", "q", "p"]}, schema_overrides=dict.fromkeys(("id", "label"), pl.Categorical)
    )
    graph = from_tables(pl.DataFrame(EDGES).cast(pl.Categorical), nodes)
    assert list(graph.ids) == ["c", "a", "b"]
    assert graph.labels is not None
    assert graph.labels.names == ("p", "q")


def test_without_names_the_first_columns_are_the_edges_and_the_third_the_weight():
    graph = from_tables(pa.table({"from": [1, 2], "to": [2, 3], "times": [0.5, 2.0]}), directed=True)
    assert graph.edges_and_weights()[1].tolist() == [0.5, 2.0]
    assert list(graph.ids) == [1, 2, 3]


def test_named_columns_are_found_among_others():
    graph = from_tables(pa.table({"when": ["x"], "target": ["b"], "source": ["a"]}), directed=True)
    assert graph.edges().tolist() == [[0, 1]]


def test_without_a_node_table_the_nodes_are_sorted():
    graph = from_tables(pa.table({"source": [10, 9], "target": [9, 2]}))
    assert list(graph.ids) == [2, 9, 10]
    assert graph.attributes is None
    assert graph.cleaning_report.nodes_only_in_attributes == 0


def test_the_index_of_pandas_is_an_id_only_if_it_has_a_name():
    edges = pd.DataFrame(EDGES).iloc[[2, 0]]
    assert from_tables(edges).edges_and_weights()[1].tolist() == [1, 1]
    nodes = pd.DataFrame(NODES).rename(columns={"id": "node"}).set_index("node")
    assert list(from_tables(edges, nodes).ids) == ["c", "a", "b"]


def test_a_node_table_of_ids_and_classes_gives_no_attributes():
    nodes = pa.table({"id": ["a", "b", "c"], "label": [1, 1, 2], "type": ["p", "q", "q"]})
    graph = from_tables(pa.table(EDGES), nodes)
    assert graph.attributes is None
    assert graph.labels is not None
    assert graph.labels.names == ("1", "2")
    assert graph.node_types is not None
    assert graph.node_types.codes.tolist() == [0, 1, 1]


def test_wide_tables_of_zeros_become_sparse_and_others_stay_dense():
    wide = {f"w{place}": [int(place == node) for node in range(3)] for place in range(33)}
    edges = pa.table(EDGES)
    sparse = from_tables(edges, pa.table({"id": ["a", "b", "c"]} | wide))
    assert sp.issparse(sparse.attributes)
    np.testing.assert_array_equal(sp.csr_array(sparse.attributes).toarray(), np.eye(3, 33))
    wide.popitem()
    assert not sp.issparse(from_tables(edges, pa.table({"id": ["a", "b", "c"]} | wide)).attributes)


@pytest.mark.parametrize("width", [1, 40])
def test_missing_nodes_come_after_the_table_without_attributes(width):
    columns = {f"w{place}": [1.0 if place == 0 else 0.0] for place in range(width)}
    nodes = pa.table({"id": ["b"], "label": ["x"], "type": ["t"]} | columns)
    graph = from_tables(pa.table({"source": ["z", "b"], "target": ["b", "a"]}), nodes, nodes_without_attributes="empty")
    assert list(graph.ids) == ["b", "a", "z"]
    assert sp.csr_array(graph.attributes).sum(axis=1).tolist() == [1, 0, 0]
    assert (graph.cleaning_report.nodes_only_in_edges, graph.cleaning_report.empty_attribute_rows) == (2, 2)
    assert graph.labels is not None
    assert graph.labels.codes.tolist() == [0, -1, -1]
    assert graph.node_types is not None
    assert graph.node_types.codes.tolist() == [0, -1, -1]


def test_missing_nodes_of_a_table_without_rows_or_attributes():
    nodes = pa.table({"id": pa.array([], pa.int64())})
    graph = from_tables(pa.table(EDGES), nodes, nodes_without_attributes="empty")
    assert list(graph.ids) == ["a", "b", "c"]
    assert graph.attributes is None


def test_nodes_that_no_edge_names_are_kept_and_counted():
    graph = from_tables(pa.table(EDGES), pa.table({"id": list("abcde"), "x": range(5)}))
    assert graph.num_nodes == 5
    assert graph.cleaning_report.nodes_only_in_attributes == 2
    empty = pa.table({"source": pa.array([], pa.string()), "target": pa.array([], pa.int64())})
    assert from_tables(empty, pa.table({"id": [1], "x": [2]})).num_edges == 0


def test_texts_become_attributes_with_their_vocabulary():
    texts = pa.table({"id": ["a", "b", "c"], "abstract": ["red fish", "blue fish", None], "label": ["1", "2", "2"]})
    graph = from_tables(pa.table(EDGES), texts=texts)
    assert graph.pipeline is not None
    assert graph.pipeline.names() == ("text:fish",)
    assert sp.csr_array(graph.attributes).toarray().tolist() == [[1], [1], [0]]
    assert graph.cleaning_report.empty_attribute_rows == 1
    named = texts.rename_columns(["id", "text", "other"])
    assert from_tables(pa.table(EDGES), texts=named).num_attributes == 1


def edges(**columns):
    return pa.table(EDGES | columns)


def nodes(**columns):
    return pa.table(NODES | columns)


@pytest.mark.parametrize(
    ("links", "described", "message"),
    [
        ("edges.csv", None, r"edges must be a table .*not str.*read_tables reads files"),
        (pa.table({"source": ["a"]}), None, "edges need two columns, source and target, but there is 'source'"),
        (pa.table({n: ["a"] for n in "wxyz"}), None, "4 columns .* name the columns of both ends, .*source_column"),
        (pa.table([["a"], ["b"], ["c"]], names=["x", "y", "x"]), None, "two columns are called 'x'"),
        (pa.table({"x": ["a"], "y": ["b"], "kind": ["c"]}), None, "column 'kind' is the weight, but holds string"),
        (pa.table({"source": ["a"], "target": [1]}), None, "'source' holds text and 'target' integers"),
        (edges(source=["a", None, "b"]), None, "edges, row 2: no value in column 'source'; fill it in"),
        (edges(source=[1.5, 2.0, 3.0]), None, "edges, column 'source': ids must be strings or integers"),
        (edges(weight=[1.0, None, 1.0]), None, "edges, row 2: no value in column 'weight'"),
        (edges(weight=pa.nulls(3)), None, "edges, row 1: no value in column 'weight'"),
        (edges(weight=[1.0, 1.0, -2.0]), None, "edges, row 3: weights must be finite and above 0, but this is -2.0; 1"),
        (edges(weight=[1.0, 1e-60, float("nan")]), None, "edges, row 2: .*1e-60; 2 such in all"),
        (pa.table({"source": pa.array([], pa.string()), "target": []}), None, "at least one node"),
        (edges(), pa.table({}), "attributes: no columns"),
        (edges(), nodes(id=["c", "a", "c"]), "attributes, row 3: id 'c' is also in row 1"),
        (edges(), nodes(id=["c", None, "a"]), "attributes, row 2: no value in column 'id'; fill it in"),
        (edges(), nodes(x=[1, None, 2]), "attributes, row 2: no value in column 'x'"),
        (edges(), nodes(x=[1.0, 2.0, float("inf")]), "attributes, row 3: column 'x' is inf"),
        (edges(), nodes(x=[1.0, 1e60, 2.0]), r"attributes, row 2: column 'x' is 1e\+60, not a finite 32-bit"),
        (
            edges(),
            nodes(x=["1", "z", "2"]),
            r"column 'x' holds string \('z' in row 2\); correct it, .*columns={'x': 'category'}",
        ),
        (edges(), nodes(x=["1", "2", None]), "column 'x' holds string; correct it"),
        (edges(), nodes(x=[b"1", b"2", b"3"]), "column 'x' holds binary; correct it"),
        (
            edges(),
            nodes(id=["a", "b", "q"]),
            r"edges, row 2: node 'c' has no row in attributes; 1 such.*nodes_without_attributes=",
        ),
        (
            edges(),
            nodes(id=[1, 2, 3]),
            r"edges names nodes by text \(such as 'a'\), attributes by integers \(such as 1\)",
        ),
    ],
)
def test_tables_that_do_not_fit_are_refused_with_their_row(links, described, message):
    with pytest.raises(InputError, match=message):
        from_tables(links, described)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (pa.table({"id": ["a"]}), "texts: an id and a text column are needed, but there are 'id'"),
        (pa.table({"id": ["a"], "x": ["a"], "y": ["b"]}), "name the text .*text_column='x'"),
        (pa.table({"id": ["a"], "text": [1]}), "column 'text' holds int64, not text"),
        (pa.table({"id": ["a", "b"], "text": ["one", "two"]}), "texts: no word occurs in at least 2 of 2"),
    ],
)
def test_texts_that_do_not_fit(texts, message):
    with pytest.raises(InputError, match=message):
        from_tables(edges(), texts=texts)


def test_options_that_do_not_fit():
    with pytest.raises(InputError, match="attributes or texts, not both"):
        from_tables(edges(), nodes(), texts=nodes())
    with pytest.raises(InputError, match="nodes_without_attributes must be one of error, empty, not 'drop'"):
        from_tables(edges(), nodes(), nodes_without_attributes="drop")


names = st.one_of(
    st.lists(st.text(max_size=5), min_size=2, max_size=8, unique=True),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=8, unique=True),
)


@given(names, st.data())
def test_the_order_of_rows_does_not_matter(ids, data):
    ends = st.sampled_from(ids)
    rows = data.draw(st.lists(st.tuples(ends, ends, st.integers(1, 9)), min_size=1))
    described = [(node, float(place)) for place, node in enumerate(ids)]
    graphs = []
    for links, known in ((rows, described), (data.draw(st.permutations(rows)), data.draw(st.permutations(described)))):
        table = pa.table(
            [pa.array(column) for column in zip(*links, strict=True)], names=["source", "target", "weight"]
        )
        made = from_tables(table, pa.table([pa.array(c) for c in zip(*known, strict=True)], names=["id", "x"]))
        graphs.append(made)
    first, second = (made.take(np.argsort(made.ids.to_numpy(), kind="stable")) for made in graphs)
    assert first.fingerprint() == second.fingerprint()
    assert graphs[0].cleaning_report == graphs[1].cleaning_report


def test_mostly_zero_columns_are_sparse_and_an_income_beside_them_is_a_measurement():
    ones = {f"city {n}": (np.arange(80) % 60 == n).astype(float) for n in range(60)}
    edges = pa.table({"source": [0], "target": [1]})
    table = pa.table({"id": np.arange(80), **ones})
    (only,) = from_tables(edges, table).by_type().types
    assert (only.storage, only.scaling) == ("sparse", "unit")
    rich = table.append_column("income", pa.array(np.linspace(1e4, 1e6, 80)))
    (only,) = from_tables(edges, rich).by_type().types
    assert (only.storage, only.scaling) == ("sparse", "mixed"), "scaled as a whole, the ones would vanish"


SPARSE = {
    "id": [5, 6, 7],
    "columns": [[2, 0, 2], [], [4]],
    "values": [[1.0, 0.5, 2.0], [], [0.0]],
    "label": ["a", None, "b"],
}


def test_rows_may_be_sparse_lists_of_columns_and_values():
    for kind in (pa.list_(pa.int32()), pa.large_list(pa.int64())):
        table = pa.table(SPARSE).set_column(1, "columns", pa.array(SPARSE["columns"], kind))
        graph = from_tables({"source": [5], "target": [6]}, table)
        assert np.asarray(graph.attributes).tolist() == [[0.5, 0, 3, 0, 0], [0] * 5, [0] * 5]
        assert graph.cleaning_report.empty_attribute_rows == 2
        assert graph.feature_names is None
        assert list(graph.labels or ()) == ["a", None, "b"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": [[1.0], [], [0.0]]}, "attributes, row 1: expected as many columns as values"),
        ({"columns": [[2, 0, 2], [], [-1]]}, "attributes, row 3: expected columns from 0 on and finite values"),
        ({"columns": [[2, 0, 2], [], [2**31]]}, "attributes, row 3: expected columns from 0 on"),
        ({"values": [[1.0, 2.0, 3.0], [], [float("nan")]]}, "attributes, row 3: expected .* finite values"),
        ({"values": [[1.0, 1e60, 3.0], [], [1.0]]}, "attributes, row 1: expected .* finite values"),
        ({"columns": [[2, 0, 2], None, [1]]}, "attributes, row 2: no value in column 'columns'; fill it in"),
        ({"values": [[1.0, None, 2.0], [], [0.0]]}, "a list in column 'values' has a missing value; fill it in"),
        ({"columns": [["x", "y", "z"], [], ["w"]]}, "are lists of string and double; expected integers and numbers"),
        ({"columns": [[], [], []], "values": [[], [], []]}, "expected integers and numbers"),
    ],
)
def test_sparse_rows_that_do_not_fit_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        from_tables({"source": [5], "target": [6]}, pa.table(SPARSE | changes))


@pytest.mark.parametrize(
    ("names", "source", "target", "is_noted"),
    [
        (("userId", "movieId"), [1, 2, 3], [3, 4, 5], True),
        (("user", "movie"), [1, 2, 3], [4, 5, 6], False),  # no id in common
        (("package", "library"), ["a", "b", "c"], ["b", "c", "d"], False),  # names that are in both
        (("person", "town"), ["Paris", "Ann", "Bob"], ["Paris", "Rome", "Bern"], True),
        (("package", "depends"), ["a", "b", "c"], ["c", "d", "e"], False),
        (("citing", "cited"), [1, 2, 3], [3, 4, 5], False),
        (("from_user", "to_user"), [1, 2], [2, 3], False),
    ],
)
def test_two_kinds_of_things_with_the_same_ids_are_noted(names, source, target, is_noted):
    note = merged_ids_note("edges.csv", names, pa.array(source), pa.array(target))
    assert (note is not None) == is_noted
