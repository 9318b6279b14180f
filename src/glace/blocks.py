"""Arrays worked through in blocks, so that temporary results stay small."""

import math
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

BLOCK = 1 << 20
"""Numbers worked on at a time: a few megabytes, large enough that numpy's own overhead does not count."""


def blocks(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Slices of `size` places that cover 0 to count - 1."""
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


def row_blocks(matrix: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """The rows of an array in order, about `BLOCK` numbers at a time; views, no copies."""
    a_row = max(math.prod(matrix.shape[1:]), 1)
    return (matrix[rows] for rows in blocks(len(matrix), max(BLOCK // a_row, 1)))
