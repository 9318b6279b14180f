"""Checks of attributes: finite float32 numbers, CSR or dense, one row per node."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from glace.errors import InputError
from glace.graph.node_types import NodeType
from glace.ids import NodeIds
from glace.sparse import Matrix, check_sparse, narrowed, read_only


def checked_type(node_type: NodeType, ids: NodeIds | None) -> NodeType:
    """Return the type with its attributes as read-only, finite float32; `ids` name a bad row's node."""
    if node_type.attributes is None:
        return node_type
    try:
        matrix = checked_matrix(node_type.attributes, ids)
    except InputError as problem:
        raise InputError(f"type {node_type.name!r}: {problem}" if node_type.name else str(problem)) from problem
    if matrix.shape[0] != node_type.count:
        raise InputError(f"{matrix.shape[0]:,} rows of attributes for {node_type.count:,} nodes; give one row a node")
    assert node_type.feature_names is None or len(node_type.feature_names) == matrix.shape[1]
    return replace(node_type, attributes=read_only(matrix))


def checked_matrix(attributes: object, ids: NodeIds | None = None, first: int = 0) -> Matrix:
    """Return a matrix of numbers as float32, CSR or dense; InputError for a value that is not finite.

    The message names the node of the row if `ids` are given; `first` rows precede these.
    """
    matrix = _as_float32(attributes)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"attributes must be a table of rows and columns, but have the shape {matrix.shape}")
    values = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if not np.isfinite(values).all():
        row = _first_bad_row(matrix)
        name = f"row {first + row + 1}"
        if ids is not None and first + row < len(ids):
            name = f"node {ids[first + row]!r} ({name})"
        raise InputError(f"attributes must be finite numbers, but {name} has {_bad_value(matrix, row)}")
    return matrix


def _as_float32(attributes: Any) -> Matrix:
    if np.iscomplexobj(attributes):
        raise InputError("attributes must be real numbers, but are complex; give their parts as columns")
    if sp.issparse(attributes):
        check_sparse(attributes, "attributes")
    try:
        with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite and is refused later
            if sp.issparse(attributes):
                matrix = sp.csr_array(attributes, dtype=np.float32, copy=True)
                matrix.prune()  # drops what is stored beyond the last row
                matrix.sum_duplicates()
                matrix.eliminate_zeros()  # so that a row of stored zeros counts as empty
                return narrowed(matrix)
            # In row order: data frames have column order, which every product would copy.
            dense = np.array(attributes, dtype=np.float32, order="C")
            dense += 0  # turns -0 into 0, so that equal attributes have equal bytes and one fingerprint
            return dense
    except (TypeError, ValueError) as problem:
        raise InputError(f"attributes must be numbers: {problem}") from problem


def _first_bad_row(matrix: Matrix) -> int:
    if isinstance(matrix, np.ndarray):
        return int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
    entry = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
    return int(np.searchsorted(matrix.indptr, entry, side="right")) - 1


def _bad_value(matrix: Matrix, row: int) -> float:
    values = matrix[row] if isinstance(matrix, np.ndarray) else matrix.data[slice(*matrix.indptr[row : row + 2])]
    return float(values[~np.isfinite(values)][0])
