import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from glace.categories import Categories
from glace.errors import InputError
from glace.graph.arrays import from_arrays


def test_an_edge_list_numbers_its_nodes():
    graph = from_arrays([[0, 1], [1, 3]])
    assert list(graph.ids) == [0, 1, 2, 3]
    assert graph.edges().tolist() == [[0, 1], [1, 3]]
    assert graph.attributes is None


def test_all_parts_arrive():
    graph = from_arrays(
        np.array([[0, 1]], dtype=np.uint8),
        sp.eye_array(3),
        weights=[2],
        ids=["a", "b", "c"],
        labels=[1, 2, None],
        node_types=Categories.of(["p", "p", "q"]),
        directed=True,
    )
    assert list(graph.ids) == ["a", "b", "c"]
    assert graph.adjacency.data.tolist() == [2.0]
    assert graph.labels is not None
    assert graph.labels.names == ("1", "2")
    assert graph.node_types is not None
    assert graph.node_types[2] == "q"
    assert graph.directed


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_array])
def test_any_sparse_adjacency_is_its_edges_and_weights(make):
    dense = np.array([[0, 2, 0], [0, 0, 3], [0, 0, 1]])
    graph = from_arrays(make(dense), directed=True)
    assert graph.edges_and_weights()[1].tolist() == [2, 3]
    assert graph.cleaning_report.self_loops == 1
    assert from_arrays(make(dense > 1)).edges_and_weights()[1].tolist() == [1, 1]


def test_a_stored_zero_is_no_edge():
    stored = sp.coo_array((np.array([1.0, 0.0]), (np.array([0, 1]), np.array([1, 2]))), shape=(3, 3))
    assert from_arrays(stored).edges().tolist() == [[0, 1]]


def test_the_node_count_comes_from_ids_attributes_adjacency_or_the_largest_number():
    assert from_arrays([[0, 1]], ids=list("abc")).num_nodes == 3
    assert from_arrays([[0, 1]], np.ones((4, 1))).num_nodes == 4
    assert from_arrays(sp.csr_array((5, 5))).num_nodes == 5
    assert from_arrays([], np.ones((2, 1))).num_nodes == 2


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        ([[0, 1], [0, 3]], {"ids": list("abc")}, r"row 2 of the edges is \[0, 3\].*from 0 to 2; 1 such"),
        ([[0, 1], [-1, 0]], {}, r"row 2 of the edges is \[-1, 0\]"),
        ([[0, 10**12]], {}, "row 1 of the edges has node number 1,000,000,000,000"),
        (np.array([[0, 2**63]], dtype=np.uint64), {"ids": ["a"]}, "row 1 of the edges"),
        ([[0.0, 1.0], [1.5, 2.0]], {}, r"are float64 \(row 2: \[1.5, 2.0\]\)"),
        ([["a", "b"]], {}, r"row 1: \['a', 'b'\]"),
        ([[0, 1, 2]], {}, r"shape \(E, 2\), but have \(1, 3\)"),
        ([[0, 1, 2], [1, 2, 0]], {}, "transpose it"),
        ([[0, 1], [2]], {}, "rows of two node numbers"),
        ([[0, 1]], {"weights": [1, 2]}, r"weights have the shape \(2,\) for 1 edges"),
        ([[0, 1]], {"weights": ["x"]}, "weights must be numbers"),
        ([[0, 1]], {"weights": [0]}, "above 0, but edge 1"),
        ([[0, 1]], {"attributes": [1, 2]}, r"rows and columns, but have the shape \(2,\)"),
        ([[0, 1]], {"attributes": [[1], [2, 3]]}, "rows of one length"),
        (sp.csr_array((2, 3)), {}, r"must be square, but has the shape \(2, 3\)"),
        (sp.csr_array((2, 2)), {"weights": [1]}, "leave out weights="),
        (sp.csr_array((2, 2)), {"ids": list("abc")}, "for 2 nodes, but there are 3"),
        (sp.csr_array(np.array([[0, 1j], [0, 0]])), {}, "weights must be numbers"),
        ([], {}, "at least one node"),
        ([[0, 1]], {"labels": ["x"]}, "1 labels for 2 nodes"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_row(edges, options, message):
    with pytest.raises(InputError, match=message):
        from_arrays(edges, **options)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1), st.booleans())
def test_an_edge_list_and_its_dense_sum_agree(edges, directed):
    expected = np.zeros((7, 7))
    for source, target in edges:
        expected[source, target] += source != target
    if not directed:
        expected = np.maximum(expected, expected.T)
    graph = from_arrays(edges, ids=range(7), directed=directed)
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    again = from_arrays(sp.csr_array(expected), directed=directed)
    assert again.fingerprint() == graph.fingerprint()
