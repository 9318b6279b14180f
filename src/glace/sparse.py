"""Matrices: checks that scipy does not make, one width of indices, sums of repeated entries, and lookups."""

import copy
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import BLOCK
from glace.errors import InputError
from glace.ids import NodeIds

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


def check_sparse(matrix: sp.sparray, what: str) -> None:
    """Raise InputError unless every entry lies inside the matrix.

    scipy does not check indices, and compiled code would read and write wherever they point.
    """
    try:
        if matrix.format == "coo":
            sp.coo_array((matrix.data, matrix.coords), shape=matrix.shape)  # checks the coordinates
            return
        rows = copy.copy(matrix) if matrix.format in ("csr", "csc", "bsr") else matrix.tocsr()
        rows.check_format(full_check=True)  # may replace arrays of the matrix, so it gets a copy
        if (np.diff(rows.indptr) < 0).any():  # scipy does not check this if the last one is 0
            raise ValueError("indptr must be a non-decreasing sequence")
    except ValueError as problem:
        raise InputError(f"{what} must be a valid sparse matrix: {problem}; build it again") from problem


def bad_weights(weights: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Return (E,) True for weights that are not finite and above 0 as 32-bit floats, such as 1e-60."""
    with np.errstate(over="ignore", under="ignore"):
        stored = weights.astype(np.float32)
    return np.asarray(~(np.isfinite(stored) & (stored > 0)))


def assembled(shape: tuple[int, int], indptr: Any, indices: Any, data: Any) -> sp.csr_array:
    """Return a CSR matrix of valid sorted arrays without reading them, as scipy's constructor would."""
    matrix = sp.csr_array(shape, dtype=data.dtype)
    matrix.indptr, matrix.indices, matrix.data = indptr, indices, data
    matrix.has_canonical_format = True
    return matrix


def index_width_of(columns: int, entries: int) -> type[np.signedinteger[Any]]:
    """Return int32 if it can count the columns and the entries, else int64."""
    return np.int32 if max(columns, entries) < 2**31 else np.int64


def index_width(matrix: sp.csr_array) -> type[np.signedinteger[Any]]:
    """Return `index_width_of` a matrix."""
    return index_width_of(matrix.shape[1], int(matrix.nnz))


def narrowed(matrix: sp.csr_array) -> sp.csr_array:
    """Convert the indices of a matrix to `index_width` in place, and return it.

    scipy's choice depends on how a matrix was made. One choice halves the memory and compiles kernels once.
    """
    width = index_width(matrix)
    matrix.indices = matrix.indices.astype(width, copy=False)
    matrix.indptr = matrix.indptr.astype(width, copy=False)
    return matrix


def entry_blocks(matrix: sp.csr_array, size: int = BLOCK) -> Iterator[slice]:
    """Yield ranges of rows that cover the matrix, each with at most `size` rows and entries, or one row."""
    indptr, rows, first = matrix.indptr, matrix.shape[0], 0
    while first < rows:
        # In indptr's own type: numpy would copy an array of another type to search in it.
        most = np.minimum(int(indptr[first]) + size, np.iinfo(indptr.dtype).max).astype(indptr.dtype)
        end = int(np.searchsorted(indptr, most, side="right")) - 1
        end = min(max(end, first + 1), first + size, rows)
        yield slice(first, end)
        first = end


def row_of(matrix: sp.csr_array, row: int) -> npt.NDArray[np.int64]:
    """Return the columns of the entries of one row."""
    return np.asarray(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]], dtype=np.int64)


def places_of(matrix: sp.csr_array, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return (P,) the position of each (row, column) among the entries of a sorted matrix, -1 if it has none."""
    sources, targets = pairs[:, 0], pairs[:, 1]
    low, end = matrix.indptr[sources].astype(np.int64), matrix.indptr[sources + 1].astype(np.int64)
    high = end
    # Binary search in all rows at once; an empty interval stays as it is.
    for _ in range(int((end - low).max(initial=0)).bit_length()):
        middle = (low + high) // 2
        below = low < high
        below[below] = matrix.indices[middle[below]] < targets[below]
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    found = low < end
    found[found] = matrix.indices[low[found]] == targets[found]
    return np.where(found, low, -1)


def summed_matrix(
    weights: npt.NDArray[np.floating],
    positions: tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]],
    shape: tuple[int, int],
) -> sp.csr_array:
    """Return the float32 CSR matrix of weights at (rows, columns); weights at the same position are summed.

    scipy sums them in an order that depends on the node numbers. In float64 the sums of float32 weights are exact
    unless their sizes differ by a factor of 10^8, so a graph has the same weights in every order of its nodes.
    """
    matrix = sp.csr_array((weights.astype(np.float32).astype(np.float64), positions), shape=shape)
    matrix.sum_duplicates()
    with np.errstate(over="ignore"):  # `check_sums` names infinite weights
        return matrix.astype(np.float32)


def larger_of(matrix: sp.csr_array, reverse: sp.csr_array) -> tuple[sp.csr_array, int]:
    """Return the elementwise maximum, and the number of places where both have an entry and these are unequal."""
    larger = sp.csr_array(matrix.maximum(reverse))
    # matrix != reverse also counts entries that only one of the two has.
    alone = 2 * int(larger.nnz) - int(matrix.nnz) - int(reverse.nnz)
    if alone == larger.nnz:
        return larger, 0
    return larger, int((matrix != reverse).nnz) - alone


def check_sums(weights: npt.NDArray[np.float32]) -> None:
    """Raise InputError unless the summed weights of repeated edges are finite."""
    if not np.isfinite(weights).all():
        raise InputError("the weights of a repeated edge add up to more than a 32-bit float holds; scale them")


def checked_matrix(attributes: object, ids: NodeIds | None = None) -> Matrix:
    """Return a matrix of numbers as float32, CSR or dense; InputError for a value that is not finite.

    The message names the node of the row if `ids` are given.
    """
    matrix = _as_float32(attributes)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"attributes must be a table of rows and columns, but have the shape {matrix.shape}")
    values = matrix.reshape(-1) if isinstance(matrix, np.ndarray) else matrix.data
    if not np.isfinite(values).all():
        entry = int(np.argmin(np.isfinite(values)))
        if isinstance(matrix, np.ndarray):
            row = entry // matrix.shape[1]
        else:
            row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        name = f"row {row + 1}" if ids is None or row >= len(ids) else f"node {ids[row]!r} (row {row + 1})"
        raise InputError(f"attributes must be finite numbers, but {name} has {values[entry]}")
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
