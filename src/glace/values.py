"""What the values of an attribute matrix are; its storage and its scaling follow from them, not from its container."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import row_blocks
from glace.sparse import Matrix, entry_blocks, narrowed, nonzeros_per_row

SPARSE_BELOW = 0.25
"""Density below which a matrix is stored as CSR: its entries take 8 bytes, dense ones 4, so it is at most half the
size, and a step is faster. Two thirds of zeros still cost less as dense blocks."""
SPARSE_COLUMNS = 32
"""A table of at most so many columns stays dense: it is small, and dense products are faster."""
MEASURED_FROM = 0.5
"""A column that is not zero in more than this share of the rows is a measurement, unless it is an indicator."""
SCALE_RATIO = 20.0
"""Words of a text are counted by numbers of one magnitude; a measurement beside them has another."""

UNIT, STANDARD, MIXED, NONE = "unit", "standard", "mixed", "none"
SCALINGS = {
    UNIT: "rows scaled to unit length",
    STANDARD: "columns standardised",
    MIXED: "measured columns standardised, the others scaled to rows of unit length",
    NONE: "not scaled",
}
"""How attributes can be scaled, with the words for users."""


class ValueSummary:
    """Statistics of the columns of a matrix, collected in blocks of rows.

    They are counts and extremes, so neither the order of the rows nor the container of the values matters.
    """

    def __init__(self, columns: int) -> None:
        self.rows, self.filled = 0, 0
        """Number of rows, and of those that are not all zero."""
        self.nonzeros = np.zeros(columns, np.int64)
        self.low = np.full(columns, np.inf, np.float32)
        """(D,) the least of the values of each column that are not 0; inf if there is none."""
        self.high = np.full(columns, -np.inf, np.float32)

    @classmethod
    def of(cls, matrix: Matrix) -> "ValueSummary":
        """Summarise a whole matrix, which may be mapped from a file."""
        found = cls(matrix.shape[1])
        if isinstance(matrix, np.ndarray):
            for block in row_blocks(matrix):
                found.add(block)
            return found
        found.rows, found.filled = matrix.shape[0], _filled(matrix)
        for rows in entry_blocks(matrix):
            entries = slice(int(matrix.indptr[rows.start]), int(matrix.indptr[rows.stop]))
            found._add_entries(matrix.indices[entries], matrix.data[entries])
        return found

    def add(self, rows: Matrix) -> None:
        """Add some rows; sparse ones may have fewer or more columns than those before."""
        self.rows += rows.shape[0]
        self.filled += _filled(rows)
        if isinstance(rows, np.ndarray):
            there = rows != 0
            self.nonzeros += there.sum(axis=0)
            self.low = np.minimum(self.low, rows.min(axis=0, where=there, initial=np.inf))
            self.high = np.maximum(self.high, rows.max(axis=0, where=there, initial=-np.inf))
            return
        self._widen(rows.shape[1])
        self._add_entries(rows.indices, rows.data)

    def _add_entries(self, columns: npt.NDArray[Any], values: npt.NDArray[np.float32]) -> None:
        self.nonzeros += np.bincount(columns, minlength=len(self.nonzeros))
        np.minimum.at(self.low, columns, values)
        np.maximum.at(self.high, columns, values)

    def _widen(self, columns: int) -> None:
        more = max(columns - len(self.nonzeros), 0)
        self.nonzeros = np.pad(self.nonzeros, (0, more))
        self.low, self.high = (
            np.pad(each, (0, more), constant_values=empty) for each, empty in ((self.low, np.inf), (self.high, -np.inf))
        )

    def is_sparse(self) -> bool:
        """Return whether the matrix is stored as CSR: it is wide and mostly zero."""
        columns = len(self.nonzeros)
        return columns > SPARSE_COLUMNS and int(self.nonzeros.sum()) < SPARSE_BELOW * self.rows * columns

    def measured(self) -> npt.NDArray[np.bool_]:
        """Return (D,) which columns are measurements: mostly not zero, and no indicators (one value beside 0).

        A constant is a measurement, too. Rows without any value do not count: nothing was measured there.
        """
        indicators = (self.low == self.high) & (self.nonzeros < self.filled)
        return np.asarray((self.nonzeros > MEASURED_FROM * self.filled) & ~indicators)

    def scaling(self) -> str:
        """Return how the values are scaled: one of `SCALINGS`.

        Counts, indicators and TF-IDF are mostly zero: to standardise a rare word would blow it up, so their rows are
        scaled to unit length. Measurements are standardised by column. If a table has both, each column is treated as
        what it is, unless all have one sign and one magnitude: those are words of which some are frequent, or outputs
        of a ReLU, and what most of them are decides.
        """
        measured, present = self.measured(), self.nonzeros > 0
        # If most columns are empty, the others are words of a few texts.
        whole = UNIT if self.is_sparse() else STANDARD
        if not measured.any():
            return UNIT
        if (measured == present).all():
            return whole
        sizes = np.maximum(np.abs(self.low), np.abs(self.high))
        usual = float(np.median(sizes[present & ~measured]))
        if (self.low[measured] < 0).any() or float(sizes[measured].max()) > SCALE_RATIO * usual:
            return MIXED
        return whole if measured.sum() > present.sum() / 2 else UNIT


def _filled(rows: Matrix) -> int:
    return int(np.count_nonzero(nonzeros_per_row(rows)))


def are_counted(scaling: str, sparse: bool) -> bool:
    """Return whether it matters which attributes a node has, as with words; otherwise they are measurements."""
    return scaling == UNIT or (scaling == NONE and sparse)


def in_storage(matrix: Matrix, sparse: bool) -> Matrix:
    """Return the same values as CSR with sorted entries and without zeros, or as a dense array."""
    if isinstance(matrix, np.ndarray):
        return narrowed(sp.csr_array(matrix)) if sparse else matrix
    return matrix if sparse else np.asarray(matrix.toarray(), dtype=np.float32)
