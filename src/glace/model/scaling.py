"""Mean and deviation of the columns of a dense matrix that may be larger than memory."""

from typing import Any

import numpy as np
import numpy.typing as npt

from glace.disk import row_blocks


def column_moments(matrix: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(D,) mean and (D,) standard deviation, in float64 and in blocks; numpy's own would copy the matrix."""
    count, zero = len(matrix), np.zeros(matrix.shape[1])
    mean = sum((block.sum(axis=0, dtype=np.float64) for block in row_blocks(matrix)), zero) / count
    squares = sum((((block - mean) ** 2).sum(axis=0) for block in row_blocks(matrix)), zero)
    return np.asarray(mean), np.sqrt(squares / count)
