"""Graphs of networkx and PyTorch Geometric to a Graph; neither library is imported."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.graph.arrays import from_arrays
from glace.graph.graph import Graph
from glace.ids import NodeId

_log = logging.getLogger("glace")

Array = npt.NDArray[Any]
Attributes: TypeAlias = Array | sp.sparray


class NetworkXGraph(Protocol):
    """A `networkx.Graph`, or one of its subclasses."""

    nodes: Mapping[NodeId, Mapping[str, object]]
    edges: Callable[..., Iterable[tuple[NodeId, NodeId, object]]]
    is_directed: Callable[[], bool]


class PyGData(Protocol):
    """A `torch_geometric.data.Data`, or the store of a relation type of a `HeteroData`."""

    edge_index: object


class PyGHeteroData(Protocol):
    """A `torch_geometric.data.HeteroData`."""

    node_types: list[str]
    edge_types: list[tuple[str, str, str]]

    def __getitem__(self, name: str | tuple[str, str, str], /) -> PyGData:
        """Return the store of a node type or of a relation type."""


AnyGraph: TypeAlias = Graph | NetworkXGraph | PyGData | PyGHeteroData
"""What can be trained on as it is."""


def as_graph(given: AnyGraph) -> Graph:
    """Return a graph as it is, and a networkx graph or PyTorch Geometric data as a graph, with their edges and weights.

    Attributes of the nodes of a networkx graph are not used, because one of them may be what is to be predicted; a log
    line says so.
    """
    if isinstance(given, Graph):
        return given
    if _is_networkx(given):
        names = sorted({str(name) for values in given.nodes.values() for name in values})
        if names:
            _log.warning(
                "trained on edges alone: node attributes are used only if you name them, as in "
                "glace.from_networkx(graph, attributes=%r); the nodes have %s",
                names[:1],
                ", ".join(names),
            )
        return from_networkx(given)
    if _is_pyg(given):
        return from_pyg(given)
    raise InputError(
        f"a Graph is needed, not {type(given).__name__}; make one with glace.from_arrays, glace.from_tables, "
        "glace.read_tables or glace.datasets.load, or give a networkx graph or PyTorch Geometric data"
    )


def _is_networkx(given: object) -> TypeGuard[NetworkXGraph]:
    return all(hasattr(given, name) for name in ("nodes", "edges", "is_directed"))


def _is_pyg(given: object) -> TypeGuard[PyGData | PyGHeteroData]:
    is_hetero = hasattr(given, "edge_types") and hasattr(given, "node_types")
    return is_hetero or getattr(given, "edge_index", None) is not None


def is_foreign(given: object) -> TypeGuard[NetworkXGraph | PyGData | PyGHeteroData]:
    """Return whether it is a graph of networkx or PyTorch Geometric."""
    return not isinstance(given, Graph) and (_is_networkx(given) or _is_pyg(given))


def from_networkx(
    graph: NetworkXGraph,
    *,
    attributes: str | Sequence[str] | None = None,
    weight: str | None = "weight",
    label: str | None = None,
) -> Graph:
    """Make a graph from a networkx graph.

    Parameters
    ----------
    graph : networkx.Graph
        Directed if its class is. Node ids must be all strings or all integers. The weights of parallel edges of a
        multigraph are added.
    attributes : str or sequence of str, optional
        Name of the node attribute that holds the node's vector, or names of node attributes that each hold a number;
        None for a graph without attributes.
    weight : str or None, default "weight"
        Name of the edge attribute that holds the weight; an edge without it has weight 1.
    label : str, optional
        Name of the node attribute that holds the node's class.

    Returns
    -------
    Graph
        The nodes in the order of `graph.nodes`.

    Raises
    ------
    InputError
        If ids, vectors or weights do not fit; the message names the node or the edge.

    Examples
    --------
    >>> import glace, networkx
    >>> glace.from_networkx(networkx.karate_club_graph(), label="club")
    Graph(34 nodes, 78 undirected edges, no attributes, 2 labels)
    """
    if not _is_networkx(graph):
        raise InputError(f"expected a networkx graph, not {type(graph).__name__}")
    nodes: list[NodeId] = list(graph.nodes)
    _check_ids(nodes)
    pairs, weights = _networkx_edges(graph, nodes, weight)
    vectors = _vectors(graph, nodes, attributes) if isinstance(attributes, str) else None
    made = from_arrays(
        pairs,
        vectors,
        weights=weights,
        ids=nodes,
        labels=None if label is None else [graph.nodes[node].get(label) for node in nodes],
        directed=graph.is_directed(),
    )
    if isinstance(attributes, str) or not attributes:
        return made
    return made.with_attributes(_numbers(graph, nodes, attributes), tuple(attributes))


def from_pyg(data: PyGData | PyGHeteroData, *, directed: bool = False) -> Graph:
    """Make a graph from PyTorch Geometric data.

    Parameters
    ----------
    data : torch_geometric.data.Data or HeteroData
        A `Data` or a `HeteroData`. `x`, dense or sparse, gives the attributes, which are stored and scaled by their
        values, as those of `from_arrays`; `y` the classes (a negative one means no label), `edge_weight` or an
        `edge_attr` of one column the weights. Each node type of a `HeteroData` keeps its own attributes; its nodes get
        the ids TYPE:ROW and, if several types have `y`, the labels TYPE:CLASS. Its relation types are merged: the
        weights of edges that join the same two nodes are added.
    directed : bool, default False
        Whether edges have a direction. If not, an edge listed in both directions is one edge.

    Returns
    -------
    Graph
        The nodes in the order of the data, type after type.

    Raises
    ------
    InputError
        If `data` is neither, or its tensors do not fit together.

    Examples
    --------
    >>> import glace, torch
    >>> from types import SimpleNamespace as Data  # or torch_geometric.data.Data
    >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), x=torch.eye(3), num_nodes=3)
    >>> glace.from_pyg(data)
    Graph(3 nodes, 2 undirected edges, 3 dense attributes)
    """
    if hasattr(data, "edge_types") and hasattr(data, "node_types"):
        return _from_hetero(cast(PyGHeteroData, data), directed)
    if getattr(data, "edge_index", None) is None:
        raise InputError(
            f"expected a torch_geometric Data with an edge_index, or a HeteroData, not {type(data).__name__}"
        )
    count = getattr(data, "num_nodes", None)
    return from_arrays(
        _pyg_pairs(data, "edge_index"),
        _pyg_attributes(getattr(data, "x", None)),
        weights=_pyg_weights(data),
        ids=None if count is None else np.arange(int(count)),
        labels=_pyg_labels(getattr(data, "y", None)),
        directed=directed,
    )


def _from_hetero(data: PyGHeteroData, directed: bool) -> Graph:
    attributes = {name: _pyg_attributes(getattr(data[name], "x", None)) for name in data.node_types}
    counts = [_pyg_count(data[name], attributes[name], name) for name in data.node_types]
    first = dict(zip(data.node_types, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
    pairs, weights = [np.empty((0, 2), np.int64)], [np.empty(0)]
    for relation in data.edge_types:
        here = _pyg_pairs(data[relation], f"edge_index of {relation}")
        for side, end in enumerate((relation[0], relation[2])):
            _check_rows(here[:, side], counts[data.node_types.index(end)], f"edge_index of {relation}", end)
        own = _pyg_weights(data[relation])
        pairs.append(here + np.array([first[relation[0]], first[relation[2]]]))
        weights.append(np.ones(len(here)) if own is None else own)
    described = {name: matrix for name, matrix in attributes.items() if matrix is not None}
    return from_arrays(
        np.concatenate(pairs),
        described or None,
        weights=np.concatenate(weights),
        ids=[f"{name}:{row}" for name, count in zip(data.node_types, counts, strict=True) for row in range(count)],
        labels=_hetero_labels(data, counts),
        node_types=np.repeat(np.array(data.node_types, dtype=np.str_), counts),
        directed=directed,
    )


def _pyg_count(store: Any, attributes: Attributes | None, name: str) -> int:
    if attributes is not None:
        return int(attributes.shape[0])
    count = store.get("num_nodes")  # as an attribute, PyG would guess it
    if count is None:
        raise InputError(f"node type {name!r} has neither x nor num_nodes; set data[{name!r}].num_nodes")
    return int(count)


def _check_rows(nodes: Array, count: int, what: str, node_type: str) -> None:
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= count):
        raise InputError(f"{what} has node {int(nodes.max())}, but there are {count:,} nodes of type {node_type!r}")


def _hetero_labels(data: PyGHeteroData, counts: list[int]) -> list[str | None] | None:
    by_type = {name: _pyg_labels(getattr(data[name], "y", None)) for name in data.node_types}
    labelled = [name for name, classes in by_type.items() if classes is not None]
    if not labelled:
        return None
    found: list[str | None] = []
    for name, count in zip(data.node_types, counts, strict=True):
        classes = by_type[name] or [None] * count
        if len(classes) != count:
            raise InputError(f"y of node type {name!r} has {len(classes):,} classes for {count:,} nodes")
        prefix = f"{name}:" if len(labelled) > 1 else ""
        found += [None if each is None else f"{prefix}{each}" for each in classes]
    return found


def _check_ids(nodes: list[NodeId]) -> None:
    alike = (all(isinstance(node, kind) and not isinstance(node, bool) for node in nodes) for kind in (str, int))
    if not any(alike):
        kinds = sorted({type(node).__name__ for node in nodes})
        raise InputError(
            f"node ids must be all str or all int, but are {', '.join(kinds)}; rename them with "
            "networkx.relabel_nodes(graph, str)"
        )


def _networkx_edges(graph: NetworkXGraph, nodes: list[NodeId], weight: str | None) -> tuple[Array, Array]:
    number = {node: place for place, node in enumerate(nodes)}
    listed = list(graph.edges(data=weight, default=1)) if weight else [(*edge[:2], 1) for edge in graph.edges()]
    pairs = np.array([(number[source], number[target]) for source, target, _ in listed], dtype=np.int64).reshape(-1, 2)
    if not graph.is_directed():
        pairs.sort(axis=1)  # so that the weights of parallel edges are added
    return pairs, np.array([_weight(*edge) for edge in listed], dtype=np.float64)


def _weight(source: NodeId, target: NodeId, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # what is not a number raises
    except (TypeError, ValueError) as problem:
        raise InputError(f"edge {source!r} to {target!r} has the weight {value!r}; expected a number") from problem


def _numbers(graph: NetworkXGraph, nodes: Iterable[NodeId], names: Sequence[str]) -> Array:
    """Return (n, columns) the numbers of these node attributes."""
    return np.array([[_number(graph.nodes[node].get(name), name, node) for name in names] for node in nodes])


def _number(value: object, name: str, node: NodeId) -> float:
    if value is None:
        raise InputError(f"node {node!r} has no {name!r}; give every node a number, or leave {name!r} out")
    try:
        return float(value)  # type: ignore[arg-type]  # what is not a number raises
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"{name!r} of node {node!r} is {value!r}, not a number; for texts and categories use glace.from_tables"
        ) from problem


def _vectors(graph: NetworkXGraph, nodes: Iterable[NodeId], name: str) -> Array:
    rows: list[Array] = []
    for node in nodes:
        value = graph.nodes[node].get(name)
        if value is None:
            raise InputError(f"node {node!r} has no {name!r}; give every node its vector, or leave out attributes")
        rows.append(_numpy(value, f"{name!r} of node {node!r}"))
        shape, wanted = rows[-1].shape, rows[0].shape
        if len(shape) != 1 or shape != wanted:
            raise InputError(
                f"{name!r} of node {node!r} has the shape {shape}; expected vectors of one length, {wanted}"
            )
    return np.stack(rows)


def _numpy(value: object, what: str) -> Array:
    """Return a tensor, on whatever device, or anything numpy accepts, as an array."""
    try:
        return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{what} cannot be read as an array: {problem}") from problem


def _pyg_pairs(store: PyGData, what: str) -> Array:
    pairs = _numpy(store.edge_index, what)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(f"{what} must have the shape (2, E), but has {pairs.shape}")
    return pairs.T


def _pyg_attributes(features: Any) -> Attributes | None:
    if features is None or sp.issparse(features):
        return features
    if hasattr(features, "to_scipy"):  # SparseTensor of torch_sparse
        return features.to_scipy()
    if not (getattr(features, "is_sparse", False) or getattr(features, "is_sparse_csr", False)):
        return _numpy(features, "x")
    entries = features.detach().cpu().to_sparse_coo().coalesce()
    return sp.coo_array((entries.values().numpy(), tuple(entries.indices().numpy())), shape=tuple(entries.shape))


def _pyg_weights(store: PyGData) -> Array | None:
    name = next((name for name in ("edge_weight", "edge_attr") if getattr(store, name, None) is not None), None)
    if name is None:
        return None
    values = _only_column(_numpy(getattr(store, name), name))
    if values.ndim != 1:
        raise InputError(
            f"{name} has the shape {values.shape}, but an edge has one weight; set edge_weight, or remove {name}"
        )
    return values


def _only_column(values: Array) -> Array:
    """Return the column of a matrix that has only one, and any other array as it is."""
    return np.asarray(values[:, 0]) if values.ndim == 2 and values.shape[1] == 1 else values


def _pyg_labels(classes: object) -> list[int | None] | None:
    if classes is None:
        return None
    codes = _only_column(_numpy(classes, "y"))
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise InputError(f"y must be one integer class a node, but is {codes.dtype} of shape {codes.shape}; remove it")
    return [code if code >= 0 else None for code in codes.tolist()]
