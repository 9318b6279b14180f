"""Attributes checked at the door: finite float32 numbers, CSR or dense, one row a node; or a matrix for each type."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.graph.node_types import TypedAttributes
from glace.ids import NodeIds
from glace.sparse import check_sparse, narrowed


def checked_attributes(attributes: Any, ids: NodeIds) -> Any:
    """The attributes as read-only float32 CSR or dense array of one finite row per node."""
    if attributes is None:
        return None
    if isinstance(attributes, TypedAttributes):
        return read_only(_checked_types(attributes))
    matrix = checked_matrix(attributes, ids)
    if matrix.shape[0] != len(ids):
        raise InputError(f"{matrix.shape[0]:,} rows of attributes for {len(ids):,} nodes; give one row a node")
    return read_only(matrix)


def _checked_types(attributes: TypedAttributes) -> TypedAttributes:
    parts = []
    for part in attributes.parts:
        try:
            matrix = None if part.matrix is None else checked_matrix(part.matrix)
        except InputError as problem:
            raise InputError(f"type {part.name!r}: {problem}") from problem
        parts.append(replace(part, matrix=matrix))
    return attributes.changed(parts)


def checked_matrix(attributes: Any, ids: NodeIds | None = None, first: int = 0) -> Any:
    """Any matrix of numbers as float32 CSR or dense; a value that is not finite raises, naming its row.

    Of more rows than these, `first` come before.
    """
    matrix = _as_float32(attributes)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"attributes must be a table of rows and columns, but have the shape {matrix.shape}")
    values = matrix.data if sp.issparse(matrix) else matrix
    if not np.isfinite(values).all():
        row = _first_bad_row(matrix)
        name = f"row {first + row + 1}"
        if ids is not None and first + row < len(ids):
            name = f"node {ids[first + row]!r} ({name})"
        raise InputError(f"attributes must be finite numbers, but {name} has {_bad_value(matrix, row)}")
    return matrix


def _as_float32(attributes: Any) -> Any:
    if np.iscomplexobj(attributes):
        raise InputError("attributes must be real numbers, but are complex; give their parts as columns")
    if sp.issparse(attributes):
        check_sparse(attributes, "attributes")
    try:
        with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite and is named below
            if sp.issparse(attributes):
                matrix = sp.csr_array(attributes, dtype=np.float32, copy=True)
                matrix.prune()  # what is stored beyond the last row is no entry
                matrix.sum_duplicates()
                matrix.eliminate_zeros()  # else a row of stored zeros would not count as empty
                return narrowed(matrix)
            # By rows, as all that follows goes: a frame gives columns, and products would copy them in every step.
            dense = np.array(attributes, dtype=np.float32, order="C")
            dense += 0  # makes -0 to 0: equal attributes must have equal bytes, and so one fingerprint
            return dense
    except (TypeError, ValueError) as problem:
        raise InputError(f"attributes must be numbers: {problem}") from problem


def _first_bad_row(matrix: Any) -> int:
    if sp.issparse(matrix):
        entry = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        return int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
    return int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])


def _bad_value(matrix: Any, row: int) -> float:
    values = matrix.data[slice(*matrix.indptr[row : row + 2])] if sp.issparse(matrix) else matrix[row]
    return float(values[~np.isfinite(values)][0])


def row_sizes(matrix: Any) -> npt.NDArray[np.integer]:
    """(n,) how many numbers of each row are not 0."""
    if isinstance(matrix, TypedAttributes):
        return matrix.row_sizes()
    return np.asarray(np.diff(matrix.indptr) if sp.issparse(matrix) else np.count_nonzero(matrix, axis=1))


def storage_of(matrix: Any) -> str:
    """In a word: none, sparse or dense; of several types, all that and their sizes."""
    if matrix is None:
        return "none"
    if isinstance(matrix, TypedAttributes):
        return json.dumps([[part.name, part.count, storage_of(part.matrix)] for part in matrix.parts])
    return "sparse" if sp.issparse(matrix) else "dense"


def arrays_of(matrix: Any) -> tuple[Any, ...]:
    """All arrays that the attributes, or edges, are made of."""
    if matrix is None:
        return ()
    if isinstance(matrix, TypedAttributes):
        return (matrix.kinds, *(array for part in matrix.parts for array in arrays_of(part.matrix)))
    return (matrix.indptr, matrix.indices, matrix.data) if sp.issparse(matrix) else (matrix,)


def read_only(matrix: Any) -> Any:
    """The same matrix, which nobody can change any more."""
    for array in arrays_of(matrix):
        array.flags.writeable = False
    return matrix
