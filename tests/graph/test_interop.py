import warnings
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glace.errors import InputError
from glace.graph.interop import from_networkx, from_pyg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library uses what torch deprecates
    from torch_geometric.data import HeteroData


def test_networkx_gives_ids_weights_vectors_and_labels():
    graph = nx.DiGraph()
    graph.add_node("b", vector=[1.0, 2.0], kind="x")
    graph.add_node("a", vector=torch.tensor([3.0, 4.0]))
    graph.add_edge("a", "b", weight=2.5)
    made = from_networkx(graph, attributes="vector", label="kind")
    assert (list(made.ids), made.directed) == (["b", "a"], True)
    assert made.edges().tolist() == [[1, 0]]
    assert made.adjacency.data.tolist() == [2.5]
    assert np.asarray(made.attributes).tolist() == [[1, 2], [3, 4]]
    assert made.labels is not None
    assert [made.labels[0], made.labels[1]] == ["x", None]


def test_parallel_edges_add_up_and_a_missing_weight_is_one():
    graph = nx.MultiGraph()
    graph.add_edge(2, 1, weight=2.0)
    graph.add_edge(1, 2)
    made = from_networkx(graph)
    assert made.edges_and_weights()[1].tolist() == [3.0]
    assert from_networkx(graph, weight=None).edges_and_weights()[1].tolist() == [2.0]
    assert from_networkx(nx.empty_graph(3)).num_nodes == 3


def _graph_with(first, second, **edge):
    graph = nx.Graph()
    graph.add_nodes_from([(0, {"vector": first}), (1, {"vector": second})])
    graph.add_edge(0, 1, **edge)
    return graph


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        ([1, 2], {}, "expected a networkx graph, not list"),
        (nx.Graph([("a", 1)]), {}, r"are int, str; rename them with networkx.relabel_nodes"),
        (nx.Graph([((0, 0), (0, 1))]), {}, "are tuple"),
        (nx.Graph([(True, False)]), {}, "are bool"),
        (_graph_with([1], [1], weight="heavy"), {}, "edge 0 to 1 has the weight 'heavy'"),
        (_graph_with([1], [1], weight=-1), {}, "above 0, but edge 1"),
        (_graph_with([1], None), {"attributes": "vector"}, "node 1 has no 'vector'"),
        (_graph_with([1], [1, 2]), {"attributes": "vector"}, r"of node 1 has the shape \(2,\)"),
        (_graph_with([[1], [1, 2]], [1]), {"attributes": "vector"}, "of node 0 cannot be read as an array"),
    ],
)
def test_networkx_graphs_that_do_not_fit(graph, options, message):
    with pytest.raises(InputError, match=message):
        from_networkx(graph, **options)


def pyg(**parts):
    """What torch_geometric.data.Data looks like from outside."""
    known = {"edge_index": torch.tensor([[0, 1, 1], [1, 0, 2]]), "num_nodes": 3}
    return SimpleNamespace(**{**dict.fromkeys(("x", "y", "edge_weight", "edge_attr")), **known, **parts})


def test_pyg_edges_in_both_directions_are_one():
    graph = from_pyg(pyg(x=torch.eye(3, requires_grad=True), y=torch.tensor([[1], [0], [-1]])))
    assert graph.edges().tolist() == [[0, 1], [1, 2]]
    assert np.asarray(graph.attributes).tolist() == np.eye(3).tolist()
    assert graph.labels is not None
    assert graph.labels.codes.tolist() == [1, 0, -1]
    assert from_pyg(pyg(), directed=True).num_edges == 3


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: sp.eye_array(3),
        lambda: SimpleNamespace(to_scipy=lambda: sp.eye_array(3)),
    ],
    ids=["coo", "csr", "scipy", "torch_sparse"],
)
def test_pyg_sparse_features_are_those_of_a_dense_tensor(make):
    graph = from_pyg(pyg(x=make()))
    np.testing.assert_array_equal(graph.attributes, np.eye(3))
    assert graph.fingerprint() == from_pyg(pyg(x=torch.eye(3))).fingerprint()


def test_pyg_weights():
    for parts in ({"edge_weight": torch.tensor([2, 2, 3])}, {"edge_attr": torch.tensor([2.0, 2, 3])}):
        assert from_pyg(pyg(**parts)).edges_and_weights()[1].tolist() == [2, 3]
    assert from_pyg(pyg(edge_attr=torch.tensor([[2.0], [2], [3]]))).edges_and_weights()[1].tolist() == [2, 3]


def test_pyg_node_count_may_be_absent_or_beyond_the_edges():
    assert from_pyg(SimpleNamespace(edge_index=torch.tensor([[0], [4]]))).num_nodes == 5
    assert from_pyg(pyg(num_nodes=7)).num_nodes == 7


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (SimpleNamespace(), "with an edge_index, or a HeteroData, not SimpleNamespace"),
        (pyg(edge_index=torch.zeros(3, 2, dtype=torch.long)), r"shape \(2, E\), but has \(3, 2\)"),
        (pyg(edge_attr=torch.ones(3, 2)), r"edge_attr has the shape \(3, 2\)"),
        (pyg(y=torch.ones(3, 2)), r"y must be one integer class a node, but is float32 of shape \(3, 2\)"),
        (pyg(x=torch.ones(3, 1, dtype=torch.bfloat16)), "x cannot be read as an array"),
        (pyg(x=torch.ones(4, 1)), "4 rows of attributes for 3 nodes"),
        (pyg(num_nodes=2), "row 3 of the edges"),
    ],
)
def test_pyg_data_that_do_not_fit(data, message):
    with pytest.raises(InputError, match=message):
        from_pyg(data)


def hetero():
    data = HeteroData()
    data["paper"].x = torch.eye(3)
    data["author"].x = torch.eye(2, 4).to_sparse()
    data["venue"].num_nodes = 2
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 0, 1], [0, 1, 2]])
    data["author", "reviews", "paper"].edge_index = torch.tensor([[0], [1]])
    data["author", "reviews", "paper"].edge_weight = torch.tensor([3.0])
    data["paper", "in", "venue"].edge_index = torch.tensor([[0, 2], [1, 0]])
    data["paper"].y = torch.tensor([1, 0, -1])
    return data


def changed(name, key, value):
    data = hetero()
    data[name][key] = value
    return data


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_hetero_data_keep_the_attributes_of_each_type_and_add_up_relations():
    graph = from_pyg(hetero(), directed=True)
    assert list(graph.ids) == ["paper:0", "paper:1", "paper:2", "author:0", "author:1", "venue:0", "venue:1"]
    assert graph.node_types is not None
    assert list(graph.node_types) == ["paper"] * 3 + ["author"] * 2 + ["venue"] * 2
    author, paper, venue = graph.by_type().types
    assert (author.name, author.width, author.sparse) == ("author", 4, False)
    assert (paper.name, paper.width, paper.sparse) == ("paper", 3, False)
    assert (venue.name, venue.width) == ("venue", None)
    np.testing.assert_array_equal(paper.attributes, np.eye(3))
    assert graph.labels is not None
    assert list(graph.labels) == ["1", "0", None, None, None, None, None]
    edges, weights = graph.edges_and_weights()
    assert edges.tolist() == [[0, 6], [2, 5], [3, 0], [3, 1], [4, 2]]
    assert weights.tolist() == [1, 1, 1, 4, 1], "an author who writes and reviews a paper has one edge to it"
    assert from_pyg(hetero()).num_edges == 5


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_labels_of_several_types_are_named_by_type():
    graph = from_pyg(changed("author", "y", torch.tensor([1, 1])))
    assert graph.labels is not None
    assert list(graph.labels)[:5] == ["paper:1", "paper:0", None, "author:1", "author:1"]


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("reader", "age", torch.ones(2)), r"'reader' has neither x nor num_nodes; set data\['reader'\].num_nodes"),
        (("author", "y", torch.tensor([1])), "y of node type 'author' has 1 classes for 2 nodes"),
        ((("author", "writes", "paper"), "edge_index", torch.tensor([[0], [3]])), "node 3, but there are 3 nodes"),
        ((("author", "writes", "paper"), "edge_index", torch.tensor([0, 3])), r"shape \(2, E\), but has \(2,\)"),
    ],
)
def test_hetero_data_that_do_not_fit(change, message):
    with pytest.raises(InputError, match=message):
        from_pyg(changed(*change))


def test_several_numbers_of_the_nodes_are_columns():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    for node, age in zip("abc", (30, 41, 25), strict=True):
        graph.nodes[node].update(age=age, income=1000.5 * age, town="Bern")
    made = from_networkx(graph, attributes=["age", "income"])
    assert isinstance(made.attributes, np.ndarray)
    assert made.attributes.tolist() == [[30, 30015], [41, 41020.5], [25, 25012.5]]
    assert made.feature_names == ("age", "income")
    with pytest.raises(InputError, match="'town' of node 'a' is 'Bern', not a number; for texts and categories use"):
        from_networkx(graph, attributes=["age", "town"])
    del graph.nodes["c"]["age"]
    with pytest.raises(InputError, match="node 'c' has no 'age'"):
        from_networkx(graph, attributes=["age"])
