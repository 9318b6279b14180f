"""Arrays in blocks, so that temporary results stay small."""

import math
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

BLOCK = 1 << 20
"""Numbers per block: a few megabytes, so many that the overhead of numpy does not matter."""


def blocks(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Return slices of `size` positions that cover 0 to count - 1."""
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


def row_blocks(matrix: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Return views of the rows of an array, about `BLOCK` numbers each."""
    a_row = max(math.prod(matrix.shape[1:]), 1)
    return (matrix[rows] for rows in blocks(len(matrix), max(BLOCK // a_row, 1)))
