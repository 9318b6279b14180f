"""Sparse matrices from elsewhere: checked, since scipy does not, and with one width of index."""

import copy
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import BLOCK
from glace.errors import InputError

Matrix: TypeAlias = sp.csr_array | npt.NDArray[np.float32]
"""Node attributes: (n, D) float32, sparse or dense."""


def matrix_arrays(matrix: Matrix | None) -> tuple[npt.NDArray[Any], ...]:
    """Return the arrays that a matrix consists of."""
    if matrix is None:
        return ()
    return (matrix,) if isinstance(matrix, np.ndarray) else (matrix.indptr, matrix.indices, matrix.data)


def read_only(matrix: sp.csr_array) -> sp.csr_array:
    """Return the same matrix with its arrays write-protected."""
    for array in matrix_arrays(matrix):
        array.flags.writeable = False
    return matrix


def nonzeros_per_row(matrix: Matrix, rows: slice | npt.NDArray[np.integer] = slice(None)) -> npt.NDArray[np.integer]:
    """Return the number of entries that are not 0 in each of these rows; a sparse matrix must store no zeros."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.count_nonzero(matrix[rows], axis=1))
    return np.asarray(matrix.indptr[1:][rows] - matrix.indptr[:-1][rows])


def check_sparse(matrix: Any, what: str) -> None:
    """Raise unless every entry lies inside the matrix; `matrix` itself is not changed.

    scipy believes the indices it is given, and compiled code would read and write wherever they point.
    """
    try:
        if matrix.format == "coo":
            sp.coo_array((matrix.data, matrix.coords), shape=matrix.shape)  # looks at its coordinates
            return
        rows = copy.copy(matrix) if matrix.format in ("csr", "csc", "bsr") else matrix.tocsr()
        rows.check_format(full_check=True)  # may replace arrays of what it checks, so that is a copy
        if (np.diff(rows.indptr) < 0).any():  # which scipy does not look for if the last of them is 0
            raise ValueError("indptr must be a non-decreasing sequence")
    except ValueError as problem:
        raise InputError(f"{what} must be a valid sparse matrix: {problem}; build it anew") from problem


def bad_weights(weights: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """(E,) where a weight cannot be used: 1e-60 is above 0 but not once it is a 32-bit float."""
    with np.errstate(over="ignore", under="ignore"):
        stored = weights.astype(np.float32)
    return np.asarray(~(np.isfinite(stored) & (stored > 0)))


def assembled(shape: tuple[int, int], indptr: Any, indices: Any, data: Any) -> sp.csr_array:
    """A CSR matrix of sorted arrays known to be right; scipy's constructor would read them through."""
    matrix = sp.csr_array(shape, dtype=data.dtype)
    matrix.indptr, matrix.indices, matrix.data = indptr, indices, data
    matrix.has_canonical_format = True
    return matrix


def index_width_of(columns: int, entries: int) -> type[np.signedinteger[Any]]:
    """int32 where it can count the columns and the entries, else int64."""
    return np.int32 if max(columns, entries) < 2**31 else np.int64


def index_width(matrix: sp.csr_array) -> type[np.signedinteger[Any]]:
    """`index_width_of` a matrix."""
    return index_width_of(matrix.shape[1], int(matrix.nnz))


def narrowed(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix, changed in place, with `index_width` for its indices.

    scipy's own choice depends on how a matrix came about. One choice is half the memory, and kernels are
    compiled once.
    """
    width = index_width(matrix)
    matrix.indices = matrix.indices.astype(width, copy=False)
    matrix.indptr = matrix.indptr.astype(width, copy=False)
    return matrix


def entry_blocks(matrix: sp.csr_array, size: int = BLOCK) -> Iterator[slice]:
    """Ranges of rows that cover the matrix, each of at most `size` rows and entries, or of one row."""
    indptr, rows, first = matrix.indptr, matrix.shape[0], 0
    while first < rows:
        # Compared as what they are: of another type, numpy would copy all of indptr.
        most = np.minimum(int(indptr[first]) + size, np.iinfo(indptr.dtype).max).astype(indptr.dtype)
        end = int(np.searchsorted(indptr, most, side="right")) - 1
        end = min(max(end, first + 1), first + size, rows)
        yield slice(first, end)
        first = end


def row_of(matrix: sp.csr_array, row: int) -> npt.NDArray[np.int64]:
    """The columns of one row's entries."""
    return np.asarray(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]], dtype=np.int64)


def places_of(matrix: sp.csr_array, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """(P,) where among the entries of a sorted matrix each (row, column) of (P, 2) is; -1 if it is not there."""
    sources, targets = pairs[:, 0], pairs[:, 1]
    low, end = matrix.indptr[sources].astype(np.int64), matrix.indptr[sources + 1].astype(np.int64)
    high = end
    # Binary search in all rows at once; when an interval is empty it stays as it is.
    for _ in range(int((end - low).max(initial=0)).bit_length()):
        middle = (low + high) // 2
        below = low < high
        below[below] = matrix.indices[middle[below]] < targets[below]
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    found = low < end
    found[found] = matrix.indices[low[found]] == targets[found]
    return np.where(found, low, -1)
