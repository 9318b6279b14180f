"""Graphs from arrays: an edge list of node numbers, or a sparse adjacency."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories, CategoryColumn
from glace.errors import InputError
from glace.graph.graph import Graph, NodeType, build
from glace.ids import IdColumn, NodeIds
from glace.sparse import check_sparse

Attributes: TypeAlias = npt.NDArray[Any] | Sequence[Sequence[float]] | sp.sparray
"""An (n, D) matrix of numbers."""

# Node numbers this far beyond the number of edges are ids; 10^12 as a node number would need terabytes.
LARGEST_WITHOUT_IDS = 1_000_000
NUMBERS_PER_EDGE = 1_000


def from_arrays(
    edges: npt.ArrayLike | sp.sparray,
    attributes: Attributes | Mapping[str, Attributes] | None = None,
    *,
    weights: npt.ArrayLike | None = None,
    ids: IdColumn | None = None,
    labels: CategoryColumn | None = None,
    node_types: CategoryColumn | None = None,
    directed: bool = False,
) -> Graph:
    """Make a graph from arrays: row k of the attributes, the k-th id, label and type belong to node k.

    Parameters
    ----------
    edges : array of int, shape (E, 2), or scipy sparse array
        Node numbers of source and target, from 0; or a square scipy sparse adjacency whose data are the weights.
        The weights of repeated edges are added and self-loops are dropped; `Graph.cleaning_report` counts both.
    attributes : array or scipy sparse array, shape (n, D), or dict of these, optional
        One row per node; or a dict of one such matrix per node type, whose rows belong to the nodes
        of the type in their order. Types that are not in the dict have no attributes. The values decide how they are
        stored and scaled: a dense and a sparse container of the same values give the same graph.
    weights : array of float, shape (E,), optional
        Weights above 0; 1 by default.
    ids : sequence of str or int, optional
        One string or integer per node; 0 to n - 1 by default.
    labels : sequence of str or int, optional
        One class per node; None, NaN or "" for none.
    node_types : sequence of str, optional
        One node type per node.
    directed : bool, default False
        Whether edges have a direction. If not, an edge listed in both directions is one edge of the larger weight.

    Returns
    -------
    Graph
        The checked graph.

    Raises
    ------
    InputError
        If the arrays do not fit together; the message names the row.

    Examples
    --------
    >>> import glace, numpy as np
    >>> glace.from_arrays([[0, 1], [1, 2]], np.eye(3), ids=["a", "b", "c"])
    Graph(3 nodes, 2 undirected edges, 3 dense attributes)
    """
    pairs, values, size = _edges(edges, weights)
    categories = _categories(node_types)
    if isinstance(attributes, Mapping):
        types = _by_type(attributes, categories)
    else:
        types = [] if attributes is None else [NodeType("", _rows(attributes), attributes)]
    count = sum(each.count for each in types) if types else size
    names = NodeIds(ids) if ids is not None else NodeIds.numbered(_count(pairs) if count is None else count)
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


def _by_type(matrices: Mapping[str, Attributes], types: Categories | None) -> list[NodeType]:
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


def edges_of(adjacency: sp.sparray) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return (E, 2) node numbers and (E,) weights of a sparse matrix; a stored zero is no edge."""
    coo = sp.coo_array(adjacency)
    kept = coo.data != 0
    return np.column_stack([coo.row, coo.col])[kept], coo.data[kept]


def _edges(
    edges: npt.ArrayLike | sp.sparray, weights: npt.ArrayLike | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int | None]:
    """Return pairs, weights and, for an adjacency matrix, the number of nodes."""
    if not sp.issparse(edges):
        pairs = _checked_pairs(edges)
        return pairs, _checked_weights(weights, len(pairs)), None
    adjacency: sp.sparray = edges
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"an adjacency must be square, but has the shape {adjacency.shape}")
    if weights is not None:
        raise InputError("the data of a sparse adjacency are the weights; leave out weights=, or give an edge list")
    check_sparse(adjacency, "an adjacency")
    pairs, data = edges_of(adjacency)
    return pairs, _checked_weights(data, len(pairs)), int(adjacency.shape[0])


def _checked_pairs(edges: npt.ArrayLike) -> npt.NDArray[Any]:
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
        # Show a row with a fraction, which explains the error, if there is one.
        row = int(np.argmax((pairs != np.floor(pairs)).any(axis=1))) if pairs.dtype.kind == "f" else 0
        raise InputError(
            f"edges must be integer node numbers, but are {pairs.dtype} (row {row + 1}: {pairs[row].tolist()}); "
            "convert them, or give tables with ids to from_tables"
        )
    return pairs


def _checked_weights(weights: npt.ArrayLike | None, count: int) -> npt.NDArray[Any]:
    if weights is None:
        return np.ones(count, dtype=np.float32)
    values = np.asarray(weights)
    if values.shape != (count,):
        raise InputError(f"weights have the shape {values.shape} for {count:,} edges; give one number an edge")
    if values.dtype.kind not in "biuf":
        raise InputError(f"weights must be numbers, but are {values.dtype}")
    # Keeps the precision: `build` names weights that a 32-bit float cannot hold.
    return values.astype(np.float64) if values.dtype.kind != "f" else values


def _count(pairs: npt.NDArray[Any]) -> int:
    """Return the number of nodes of an edge list: one more than the largest node number."""
    largest = int(pairs.max(initial=-1))
    if largest > LARGEST_WITHOUT_IDS + NUMBERS_PER_EDGE * len(pairs):
        row = int(np.flatnonzero((pairs == largest).any(axis=1))[0])
        raise InputError(
            f"row {row + 1} of the edges has node number {largest:,}, far beyond the {len(pairs):,} edges; "
            "if these are ids, use from_tables, else give ids="
        )
    return largest + 1


def _rows(attributes: Attributes) -> int:
    try:
        shape = np.shape(attributes)  # of a sparse matrix, too
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


def _categories(values: CategoryColumn | Categories | None) -> Categories | None:
    if values is None or isinstance(values, Categories):
        return values
    return Categories.of(values)
