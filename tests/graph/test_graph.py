from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from glace.categories import Categories
from glace.errors import InputError
from glace.graph.arrays import from_arrays
from glace.graph.graph import CleaningReport, Graph, NodeType, build
from glace.ids import NodeIds
from glace.sparse import checked_matrix

PAIRS = np.array([[0, 1], [1, 2], [2, 1], [0, 1], [3, 3]])
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def make(
    pairs=PAIRS, weights=WEIGHTS, attributes=None, ids="abcde", directed=False, feature_names=None, **more
) -> Graph:
    return build(
        np.asarray(pairs).reshape(-1, 2),
        np.asarray(weights),
        NodeIds(list(ids)),
        [NodeType("", len(ids), attributes, feature_names)],
        directed=directed,
        **more,
    )


def test_undirected_edges_stand_in_both_directions_and_count_once():
    graph = make()
    pairs, weights = graph.edges_and_weights()
    assert pairs.tolist() == [[0, 1], [1, 2]]
    assert weights.tolist() == [5.0, 3.0]  # repeated: added; both directions: the larger
    assert (graph.num_nodes, graph.num_edges) == (5, 2)
    assert graph.cleaning_report == CleaningReport(
        duplicate_edges=1, unequal_directions=1, self_loops=1, isolated_nodes=2
    )
    np.testing.assert_array_equal(graph.adjacency.toarray(), graph.adjacency.toarray().T)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 2))))
def test_what_is_counted_of_edges_is_what_a_dictionary_counts(rows):
    sums: dict[tuple[int, int], int] = {}
    for source, target, weight in rows:
        if source != target:
            sums[source, target] = sums.get((source, target), 0) + weight
    unequal = sum(pair < pair[::-1] and sums.get(pair[::-1], each) != each for pair, each in sums.items())
    pairs, weights = [row[:2] for row in rows], [float(row[2]) for row in rows]
    graph = make(np.array(pairs, dtype=np.int64), weights)
    assert graph.cleaning_report.duplicate_edges == sum(a != b for a, b in pairs) - len(sums)
    assert graph.cleaning_report.unequal_directions == unequal
    assert make(np.array(pairs, dtype=np.int64), weights, directed=True).cleaning_report.unequal_directions == 0


@given(st.integers(1, 30), st.integers(0, 300), st.booleans(), st.integers(0, 99))
def test_has_edges_is_what_the_dense_matrix_says(size, count, directed, seed):
    pairs = np.random.default_rng(seed).integers(size, size=(count, 2))
    graph = make(pairs, np.ones(count), ids=range(size), directed=directed)
    asked = np.array([(a, b) for a in range(size) for b in range(size)])
    np.testing.assert_array_equal(graph.has_edges(asked), graph.adjacency.toarray().ravel() > 0)
    assert graph.has_edges(asked[:0]).shape == (0,)


def test_directed_edges_keep_their_direction():
    graph = make(directed=True)
    assert graph.edges().tolist() == [[0, 1], [1, 2], [2, 1]]
    assert graph.has_edges(np.array([[0, 1], [1, 0], [2, 1], [4, 4]])).tolist() == [True, False, True, False]
    assert graph.cleaning_report.isolated_nodes == 2


def test_a_graph_without_edges_answers_too():
    graph = make([], [])
    assert graph.edges().shape == (0, 2)
    assert graph.has_edges(np.array([[0, 1]])).tolist() == [False]


def test_dense_attributes_lie_by_rows():
    """Those of a frame come by columns; a product with them would copy all in every step."""
    graph = make(attributes=np.asfortranarray(np.arange(10).reshape(5, 2)))
    assert isinstance(graph.attributes, np.ndarray)
    assert graph.attributes.flags.c_contiguous


def test_attributes_become_read_only_float32():
    given = np.arange(10).reshape(5, 2)
    graph = make(attributes=given)
    assert isinstance(graph.attributes, np.ndarray)
    assert (graph.attributes.dtype, graph.num_attributes, graph.attribute_text) == (np.float32, 2, "2 dense attributes")
    assert graph.features() is graph.attributes
    with pytest.raises(ValueError, match="read-only"):
        graph.attributes[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        graph.adjacency.data[0] = 1


def test_a_row_of_stored_zeros_is_an_empty_one():
    sparse = sp.csr_array((np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2, 2, 2, 2])), shape=(5, 3))
    assert make(attributes=sparse).cleaning_report.empty_attribute_rows == 4
    assert make(attributes=sparse.toarray()).cleaning_report.empty_attribute_rows == 4


def test_minus_zero_is_zero():
    assert make(attributes=[[-0.0]] * 5).fingerprint() == make(attributes=[[0.0]] * 5).fingerprint()


def test_without_attributes_the_features_are_the_identity():
    graph = make()
    assert (graph.attribute_text, graph.num_attributes) == ("no attributes", 5)
    np.testing.assert_array_equal(sp.csr_array(graph.features()).toarray(), np.eye(5))


def test_take_keeps_the_edges_among_the_taken():
    labels = Categories.of(["x", "y", None, "", "x"])
    graph = make(attributes=np.eye(5), labels=labels, node_types=labels).take(np.array([2, 1, 4]))
    assert list(graph.ids) == ["c", "b", "e"]
    assert graph.edges().tolist() == [[0, 1]]
    assert graph.labels is not None
    assert [graph.labels[node] for node in range(3)] == [None, "y", "x"]
    assert np.argmax(graph.features(), axis=1).tolist() == [2, 1, 4]
    assert make().take(np.array([0])).attributes is None


def test_findings_are_of_the_graph_that_was_made_not_of_those_made_from_it():
    graph = make(attributes=np.eye(5), feature_names=tuple("vwxyz"))
    for other in (graph.with_edges(graph.edges(), np.ones(2)), graph.take(np.array([0, 1]))):
        assert other.cleaning_report == CleaningReport()
        assert other.feature_names == tuple("vwxyz")


def test_indices_have_one_width_however_the_graph_came_about():
    wide = sp.csr_array(np.eye(5, 40))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    graph = make(attributes=wide)
    assert (wide.indices.dtype, wide.indptr.dtype) == (np.int64, np.int64), "what is given is left alone"
    for each in (graph, make(), make(directed=True), graph.with_edges(PAIRS[:2], WEIGHTS[:2])):
        for other in (each, each.take(np.array([2, 1]))):
            for matrix in (other.adjacency, other.features()):
                assert (matrix.indices.dtype, matrix.indptr.dtype) == (np.int32, np.int32)  # type: ignore[union-attr]
    again = graph.with_attributes(wide.astype(np.float32))
    assert again.fingerprint() == graph.fingerprint(), "the width is no fact of the graph"


def test_with_edges_replaces_them():
    graph = make().with_edges(np.array([[3, 4]]), np.array([2.5]))
    assert graph.edges().tolist() == [[3, 4]]
    assert list(graph.ids) == list("abcde")


def test_the_fingerprint_sees_what_training_sees():
    graph = make(attributes=np.eye(5))
    assert graph.fingerprint() == make(attributes=np.eye(5)).fingerprint()
    others = [
        make(attributes=np.eye(5) * 2),
        make(attributes=np.eye(5), directed=True),
        make(attributes=np.eye(5), ids="abcdf"),
        make(attributes=np.eye(5), weights=WEIGHTS * 2),
        make(),
    ]
    assert len({graph.fingerprint(), *(other.fingerprint() for other in others)}) == 6
    assert graph.fingerprint() == replace(graph, labels=Categories.of("vwxyz")).fingerprint()


def test_the_fingerprint_tells_ids_apart_and_not_slices_from_copies():
    def named(*ids):
        return make([], [], ids=ids).fingerprint()

    assert len({named("1", "2"), named(1, 2), named("1\n", "2"), named("1", "\n2"), named("12", "")}) == 5
    for ids in (["x", "a", "bc", "", "y"], [9, 1, 2, 3, 9]):
        sliced = NodeIds(pa.array(ids, pa.large_string() if ids[0] == "x" else pa.int64())[1:4])
        graph = build(np.empty((0, 2), dtype=np.int64), np.ones(0), sliced, directed=False)
        assert graph.fingerprint() == named(*ids[1:4])
    assert make(attributes=np.eye(5)).fingerprint() == make(attributes=sp.eye_array(5)).fingerprint()


def test_words():
    assert repr(make()) == "Graph(5 nodes, 2 undirected edges, no attributes)"
    types = Categories.of(list("aabbb"))
    labelled = make(labels=Categories.of(["x", "y", "x", "", "x"]), node_types=types)
    assert repr(labelled) == "Graph(5 nodes, 2 undirected edges, no attributes, 2 node types, 2 labels)"
    shown = labelled._repr_html_()
    assert "<li>2 undirected edges</li>" in shown
    assert "<li>self-loops, dropped: 1</li>" in shown
    assert repr(make(directed=True, attributes=np.eye(5, 40))).endswith("3 directed edges, 40 sparse attributes)")
    assert make().cleaning_report.lines() == [
        "repeated edges, weights added: 1",
        "edges listed both ways with unequal weights, larger kept: 1",
        "self-loops, dropped: 1",
        "nodes without an edge, kept: 2",
    ]


def test_categories_know_three_ways_to_say_none():
    assert Categories.of(["b", None, float("nan"), "", 3]).codes.tolist() == [1, -1, -1, -1, 0]


@pytest.mark.parametrize(
    ("values", "codes", "names"),
    [
        (["b", pd.NA, "a"], [1, -1, 0], ("a", "b")),
        (pd.Series([2, None, 1], dtype="Int64"), [1, -1, 0], ("1", "2")),
        (pd.Series(["b", None, "a"], dtype="category"), [1, -1, 0], ("a", "b")),
        (np.array([1.5, np.nan, 1.0]), [1, -1, 0], ("1.0", "1.5")),
        (np.array(["b", "", "a"]), [1, -1, 0], ("a", "b")),
        (np.array([True, False]), [1, 0], ("False", "True")),
        ([1, 2.5, "1"], [0, 1, 0], ("1", "2.5")),
        ([2**70, None], [0, -1], (str(2**70),)),
        (["\ud800"], [0], ("\ud800",)),
        (pa.array([float("nan"), None, 2.0]), [-1, -1, 0], ("2.0",)),
        (pa.chunked_array([["b", None], ["a", "b"]]), [1, -1, 0, 1], ("a", "b")),
        (pa.chunked_array([["b"], ["a"]]).dictionary_encode(), [1, 0], ("a", "b")),
        (pa.array([[1], None, [0, 1]]), [1, -1, 0], ("[0, 1]", "[1]")),
        ([], [], ()),
        ([None, None], [-1, -1], ()),
    ],
)
def test_categories_of_any_column(values, codes, names):
    found = Categories.of(values)
    assert (found.codes.tolist(), found.names) == (codes, names)
    assert found.codes.dtype == np.int32


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf, 1e-60, 1e60])
def test_weights_that_a_32_bit_float_cannot_hold_above_zero(weight):
    with pytest.raises(InputError, match=r"finite and above 0, but edge 2 \('b' to 'c'\).*1 such in all"):
        make(weights=[1, weight, 1, 1, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pairs": [[0, 1], [0, 1]], "weights": [3e38, 3e38]}, "add up to more than a 32-bit float holds"),
        ({"labels": Categories.of("ab")}, "2 labels for 5 nodes"),
        ({"node_types": Categories.of("ab")}, "2 node types for 5 nodes"),
        ({"attributes": np.ones((4, 2))}, "4 rows of attributes for 5 nodes"),
        ({"attributes": np.ones(5)}, "table of rows and columns"),
        ({"attributes": np.ones((5, 0))}, "table of rows and columns"),
        ({"attributes": [["x"]] * 5}, "attributes must be numbers"),
        ({"attributes": np.ones((5, 1)) * 1j}, "attributes must be real numbers"),
        ({"attributes": np.array([[1], [1], [np.nan], [1], [1]])}, r"node 'c' \(row 3\) has nan"),
        ({"attributes": sp.csr_array(np.array([[0], [1e300], [0], [0], [0]]))}, r"node 'b' \(row 2\) has inf"),
        ({"pairs": [], "weights": [], "ids": ""}, "at least one node"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_parts_that_do_not_fit_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        make(**change)


def test_a_matrix_without_ids_names_its_row():
    with pytest.raises(InputError, match="but row 2 has nan"):
        checked_matrix([[1.0], [np.nan]])


def bent(make, **arrays):
    """A sparse matrix of 5 by 5 whose arrays were changed behind scipy's back."""
    matrix = make(np.eye(5))
    for name, values in arrays.items():
        setattr(matrix, name, np.array(values))
    return matrix


@pytest.mark.parametrize(
    "matrix",
    [
        bent(sp.csr_array, indices=[0, 1, 2, 3, 10**6]),
        bent(sp.csr_array, indices=[0, 1, 2, 3, -1]),
        bent(sp.csc_array, indices=[0, 1, 2, 3, 10**6]),
        bent(sp.csr_matrix, indptr=[0, 9, 2, 3, 4, 5]),
        bent(sp.csr_array, indptr=[0, 9, 0, 0, 0, 0]),
        bent(sp.csr_array, indptr=[0, 1, 2, 3, 4, 9]),
        bent(sp.bsr_array, indices=[0, 1, 2, 3, 10**6]),
        bent(sp.coo_array, coords=[[0, 1, 2, 3, 4], [0, 1, 2, 3, 10**6]]),
    ],
    ids=lambda matrix: matrix.format,
)
def test_a_sparse_matrix_that_points_outside_of_itself_is_refused(matrix):
    with pytest.raises(InputError, match="attributes must be a valid sparse matrix: .*; build it again"):
        make(attributes=matrix)
    with pytest.raises(InputError, match="attributes must be a valid sparse matrix"):
        checked_matrix(matrix)
    with pytest.raises(InputError, match="an adjacency must be a valid sparse matrix"):
        from_arrays(matrix)


def test_what_is_stored_behind_the_last_row_is_no_entry():
    matrix = bent(sp.csr_array, indptr=[0, 1, 2, 2, 2, 2])
    assert make(attributes=matrix).cleaning_report.empty_attribute_rows == 3
    assert make(attributes=matrix).fingerprint() == make(attributes=sp.csr_array(matrix.toarray())).fingerprint()


def test_categories_can_be_listed():
    assert list(Categories.of(["x", None, "y"])) == ["x", None, "y"]


TYPED = Categories(np.array([0, 1, 1, -1, 0], np.int32), ("meaning", "word"))


def test_which_types_edges_join():
    graph = make(np.array([[1, 0], [3, 1], [2, 1]]), np.ones(3), directed=True, node_types=TYPED)
    ordered = [[False, False, False], [True, True, False], [False, True, False]]
    joined = graph.joined_types(symmetric=False)
    assert joined is not None
    assert joined.tolist() == ordered
    np.testing.assert_array_equal(graph.joined_types(symmetric=True), joined | joined.T)
    assert make().joined_types(symmetric=True) is None


def test_nodes_of_a_type_or_label():
    graph = make(labels=TYPED, node_types=TYPED)
    assert graph.has_type("word").tolist() == graph.has_label("word").tolist() == [False, True, True, False, False]
    other = Categories.of(["x", "y", "x", "y", "x"])
    both = make(labels=other, node_types=TYPED).among("x", "word")
    assert both is not None
    assert both.tolist() == [False, False, True, False, False]
    assert graph.among(None, None) is None
    assert TYPED.array().to_pylist() == ["meaning", "word", "word", None, "meaning"]
    for ask, match in (
        (lambda: graph.has_type("verb"), "no type 'verb'; there are meaning, word"),
        (lambda: graph.has_label("verb"), "no label 'verb'; there are meaning, word"),
        (lambda: make().has_type("word"), "no type 'word'; the graph has none"),
    ):
        with pytest.raises(InputError, match=match):
            ask()


def test_labels_are_read_by_number_slice_and_mask():
    labels = Categories.of(["x", None, "y", "x"])
    assert labels[0] == "x"
    assert labels[1] is None
    assert labels[:3] == ["x", None, "y"]
    assert labels[np.array([True, False, False, True])] == ["x", "x"]
