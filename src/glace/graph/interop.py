"""Graphs of other libraries to a Graph; their objects bring what is needed, nothing is imported."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.graph.arrays import from_arrays
from glace.graph.graph import Graph


def from_networkx(
    graph: Any, *, attributes: str | None = None, weight: str | None = "weight", label: str | None = None
) -> Graph:
    """A graph from networkx, directed if its class is; parallel edges of a multigraph add up.

    `attributes` names the node attribute that holds a node's vector, `label` the one that holds its
    class, `weight` the edge attribute that holds its weight (1 where an edge has none).
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise InputError(f"wanted a networkx graph, not {type(graph).__name__}")
    nodes = list(graph.nodes)
    _check_ids(nodes)
    pairs, weights = _networkx_edges(graph, nodes, weight)
    return from_arrays(
        pairs,
        None if attributes is None else _vectors(graph, nodes, attributes),
        weights=weights,
        ids=nodes,
        labels=None if label is None else [graph.nodes[node].get(label) for node in nodes],
        directed=graph.is_directed(),
    )


def from_pyg(data: Any, *, directed: bool = False) -> Graph:
    """A graph from a torch_geometric `Data`: edge_index, x, y, edge_weight or a single edge_attr.

    `x` is dense or sparse; a negative `y` is no label. Edges that stand in `edge_index` in both
    directions are one edge unless `directed`.
    """
    if getattr(data, "edge_index", None) is None:
        raise InputError(f"wanted a torch_geometric Data with an edge_index, not {type(data).__name__}")
    pairs = _numpy(data.edge_index, "edge_index")
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(f"edge_index must have the shape (2, E), but has {pairs.shape}")
    count = getattr(data, "num_nodes", None)
    return from_arrays(
        pairs.T,
        _pyg_attributes(getattr(data, "x", None)),
        weights=_pyg_weights(data),
        ids=None if count is None else np.arange(int(count)),
        labels=_pyg_labels(getattr(data, "y", None)),
        directed=directed,
    )


def _check_ids(nodes: list[Any]) -> None:
    for kind in (str, int):
        if all(isinstance(node, kind) and not isinstance(node, bool) for node in nodes):
            return
    kinds = ", ".join(sorted({type(node).__name__ for node in nodes}))
    raise InputError(
        f"node ids must be all str or all int, but are {kinds}; rename them with networkx.relabel_nodes(graph, str)"
    )


def _networkx_edges(graph: Any, nodes: list[Any], weight: str | None) -> tuple[Any, Any]:
    number = {node: place for place, node in enumerate(nodes)}
    listed = list(graph.edges(data=weight, default=1)) if weight else [(*edge[:2], 1) for edge in graph.edges()]
    pairs = np.array([(number[source], number[target]) for source, target, _ in listed], dtype=np.int64).reshape(-1, 2)
    if not graph.is_directed():
        pairs.sort(axis=1)  # parallel edges must be written alike to add up
    return pairs, np.array([_weight(each) for each in listed], dtype=np.float64)


def _weight(edge: tuple[Any, Any, Any]) -> float:
    source, target, value = edge
    try:
        return float(value)
    except (TypeError, ValueError) as problem:
        raise InputError(f"edge {source!r} to {target!r} has the weight {value!r}; wanted a number") from problem


def _vectors(graph: Any, nodes: list[Any], name: str) -> npt.NDArray[Any]:
    for node in nodes:
        if graph.nodes[node].get(name) is None:
            raise InputError(f"node {node!r} has no {name!r}; give every node its vector, or leave out attributes")
    rows = [_numpy(graph.nodes[node][name], f"{name!r} of node {node!r}") for node in nodes]
    for node, row in zip(nodes, rows, strict=True):
        if row.ndim != 1 or row.shape != rows[0].shape:
            raise InputError(
                f"{name!r} of node {node!r} has the shape {row.shape}; wanted vectors of one length, "
                f"{rows[0].shape} as for node {nodes[0]!r}"
            )
    return np.stack(rows)


def _numpy(value: Any, what: str) -> npt.NDArray[Any]:
    """A tensor, wherever it lives, or anything numpy takes, as an array."""
    try:
        return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{what} cannot be read as an array: {problem}") from problem


def _pyg_attributes(features: Any) -> Any:
    if features is None or sp.issparse(features):
        return features
    if hasattr(features, "to_scipy"):  # SparseTensor of torch_sparse
        return features.to_scipy()
    if not (getattr(features, "is_sparse", False) or getattr(features, "is_sparse_csr", False)):
        return _numpy(features, "x")
    entries = features.detach().cpu().to_sparse_coo().coalesce()
    return sp.coo_array((entries.values().numpy(), tuple(entries.indices().numpy())), shape=tuple(entries.shape))


def _pyg_weights(data: Any) -> npt.NDArray[Any] | None:
    if getattr(data, "edge_weight", None) is not None:
        return _numpy(data.edge_weight, "edge_weight")
    if getattr(data, "edge_attr", None) is None:
        return None
    values = _numpy(data.edge_attr, "edge_attr")
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise InputError(
            f"edge_attr has the shape {values.shape}, but an edge has one weight; set edge_weight, or remove edge_attr"
        )
    return values


def _pyg_labels(classes: Any) -> list[int | None] | None:
    if classes is None:
        return None
    codes = _numpy(classes, "y")
    if codes.ndim == 2 and codes.shape[1] == 1:
        codes = codes[:, 0]
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise InputError(f"y must be one integer class a node, but is {codes.dtype} of shape {codes.shape}; remove it")
    return [code if code >= 0 else None for code in codes.tolist()]
