"""How dense attributes are scaled: by mean and deviation of their columns."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from glace.blocks import row_blocks
from glace.model.input_layers import InputShape
from glace.model.inputs import Scaling


def column_moments(matrix: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(D,) mean and (D,) standard deviation, in float64 and in blocks: the matrix may be larger than memory."""
    count, zero = len(matrix), np.zeros(matrix.shape[1])
    mean = sum((block.sum(axis=0, dtype=np.float64) for block in row_blocks(matrix)), zero) / count
    squares = sum((((block - mean) ** 2).sum(axis=0) for block in row_blocks(matrix)), zero)
    return np.asarray(mean), np.sqrt(squares / count)


class StandardScaling(nn.Module):
    """Shift and factor of dense attributes, (D,) each; of sparse ones, nothing."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.sparse, width = shape.sparse, 0 if shape.sparse else shape.width
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def learn(self, matrix: Any, alike: bool) -> None:
        """From the training nodes; a constant column is left unscaled. Columns that are `alike` have one scale."""
        mean, deviation = column_moments(matrix)
        if alike:
            every = np.full_like(mean, mean.mean())
            deviation = np.sqrt((deviation**2 + (mean - every) ** 2).mean() * np.ones_like(mean))
            mean = every
        deviation[deviation == 0] = 1
        self.shift.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(1 / deviation))

    def scaling(self, unit: bool) -> Scaling:
        """As inputs take it; `unit` says whether sparse rows are scaled to unit length."""
        if self.sparse:
            return Scaling(unit)
        return Scaling(False, self.shift.cpu().numpy(), self.scale.cpu().numpy())
