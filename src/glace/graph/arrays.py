"""Arrays to a Graph: an edge list of node numbers, or a sparse adjacency."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.graph.graph import Graph, build
from glace.graph.node_types import NodeType
from glace.ids import NodeIds
from glace.sparse import check_sparse

# Node numbers this far beyond the number of edges are ids of another kind; taking 10^12 for a node
# number would ask for terabytes.
LARGEST_WITHOUT_IDS = 1_000_000
NUMBERS_PER_EDGE = 1_000


def from_arrays(
    edges: Any,
    attributes: Any = None,
    *,
    weights: Any = None,
    ids: Any = None,
    labels: Any = None,
    node_types: Any = None,
    directed: bool = False,
) -> Graph:
    """A graph from node numbers: the k-th id, attribute row, label and type belong to node k.

    `edges` is (E, 2) integers, (source, target) in each row, with (E,) `weights` above 0 (1 if not
    given), or a square scipy sparse adjacency whose data are the weights. `attributes` is (n, D), dense
    or sparse; or, where types have attributes of their own, a dict of such matrices by type, whose k-th row belongs to
    the k-th node of the type. Without `ids` the nodes are called 0 to n - 1.
    """
    pairs, values, size = _edges(edges, weights)
    categories = _categories(node_types)
    types = _by_type(attributes, categories) if isinstance(attributes, Mapping) else None
    names = NodeIds(ids) if ids is not None else NodeIds.numbered(_count(pairs, size, types, attributes))
    if types is None and attributes is not None:
        _rows(attributes)
        types = [NodeType("", len(names), attributes)]
    if size is not None and size != len(names):
        raise InputError(f"the adjacency is for {size:,} nodes, but there are {len(names):,}; give one row a node")
    _check_range(pairs, len(names))
    return build(
        pairs.astype(np.int64, copy=False),
        values,
        names,
        types,
        directed=directed,
        labels=_categories(labels),
        node_types=categories,
    )


def _by_type(matrices: Mapping[str, Any], types: Categories | None) -> list[NodeType]:
    """Return the attributes of each type; a type that is not named has none."""
    if types is None or (types.codes < 0).any():
        raise InputError("attributes by type need node_types, one for each node")
    unknown = [name for name in matrices if name not in types.names]
    if unknown:
        raise InputError(f"attributes of type {unknown[0]!r}; the types are {', '.join(types.names)}")
    found = []
    for code, name in enumerate(types.names):
        count = int((types.codes == code).sum())
        matrix = matrices.get(name)
        if matrix is not None and _rows(matrix) != count:
            raise InputError(f"{_rows(matrix):,} rows of attributes for {count:,} nodes of type {name!r}")
        found.append(NodeType(name, count, matrix if matrix is None or sp.issparse(matrix) else np.asarray(matrix)))
    return found


def edges_of(adjacency: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(E, 2) node numbers and (E,) weights of a sparse matrix; a stored zero is no edge."""
    coo = sp.coo_array(adjacency)
    kept = coo.data != 0
    return np.column_stack([coo.row, coo.col])[kept], coo.data[kept]


def _edges(edges: Any, weights: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int | None]:
    """Pairs, weights, and the number of nodes where the edges themselves say it."""
    if not sp.issparse(edges):
        pairs = _checked_pairs(edges)
        return pairs, _checked_weights(weights, len(pairs)), None
    if edges.ndim != 2 or edges.shape[0] != edges.shape[1]:
        raise InputError(f"an adjacency must be square, but has the shape {edges.shape}")
    if weights is not None:
        raise InputError("the data of a sparse adjacency are the weights; leave out weights=, or give an edge list")
    check_sparse(edges, "an adjacency")
    pairs, data = edges_of(edges)
    return pairs, _checked_weights(data, len(pairs)), int(edges.shape[0])


def _checked_pairs(edges: Any) -> npt.NDArray[Any]:
    try:
        pairs = np.asarray(edges)
    except ValueError as problem:
        raise InputError(f"edges must be rows of two node numbers: {problem}") from problem
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        hint = "; transpose it" if pairs.ndim == 2 and pairs.shape[0] == 2 else ""
        raise InputError(f"edges must have the shape (E, 2), but have {pairs.shape}{hint}")
    if pairs.dtype.kind not in "iu":
        row = _first_not_whole(pairs)
        raise InputError(
            f"edges must be integer node numbers, but are {pairs.dtype} "
            f"(row {row + 1}: {pairs[row].tolist()}); "
            "convert them, or give tables with ids to from_tables"
        )
    return pairs


def _first_not_whole(pairs: npt.NDArray[Any]) -> int:
    """The row that shows best why edges are refused: one with a fraction, else the first."""
    if pairs.dtype.kind != "f":
        return 0
    return int(np.argmax((pairs != np.floor(pairs)).any(axis=1)))


def _checked_weights(weights: Any, count: int) -> npt.NDArray[Any]:
    if weights is None:
        return np.ones(count, dtype=np.float32)
    values = np.asarray(weights)
    if values.shape != (count,):
        raise InputError(f"weights have the shape {values.shape} for {count:,} edges; give one number an edge")
    if values.dtype.kind not in "biuf":
        raise InputError(f"weights must be numbers, but are {values.dtype}")
    # Left at their own precision: build validation_points for what a 32-bit float cannot hold and names it.
    return values.astype(np.float64) if values.dtype.kind != "f" else values


def _count(pairs: npt.NDArray[Any], size: int | None, types: list[NodeType] | None, attributes: Any) -> int:
    if types is not None:
        return sum(each.count for each in types)
    if attributes is not None:
        return _rows(attributes)
    if size is not None:
        return size
    largest = int(pairs.max(initial=-1))
    if largest > LARGEST_WITHOUT_IDS + NUMBERS_PER_EDGE * len(pairs):
        row = int(np.flatnonzero((pairs == largest).any(axis=1))[0])
        raise InputError(
            f"row {row + 1} of the edges has node number {largest:,}, far beyond the {len(pairs):,} edges; "
            "if these are ids, use from_tables, else give ids="
        )
    return largest + 1


def _rows(attributes: Any) -> int:
    try:
        shape = attributes.shape if sp.issparse(attributes) else np.shape(attributes)
    except ValueError as problem:
        raise InputError(f"attributes must have rows of one length: {problem}") from problem
    if len(shape) != 2:
        raise InputError(f"attributes must be a table of rows and columns, but have the shape {shape}")
    return int(shape[0])


def _check_range(pairs: npt.NDArray[Any], count: int) -> None:
    bad = ((pairs < 0) | (pairs >= count)).any(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"row {row + 1} of the edges is {pairs[row].tolist()}, but node numbers go from 0 to "
            f"{count - 1:,}; {int(bad.sum()):,} such rows in all"
        )


def _categories(values: Any) -> Categories | None:
    if values is None or isinstance(values, Categories):
        return values
    return Categories.of(values)
