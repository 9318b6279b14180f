"""Scaling of attributes: sparse rows to unit length, dense columns to mean 0 and variance 1."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from glace.blocks import row_blocks
from glace.model.input_layers import InputShape

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """How attributes are scaled: sparse rows to unit length, dense columns by a shift and a factor."""

    unit: bool
    shift: npt.NDArray[np.float32] | None = None
    factor: npt.NDArray[np.float32] | None = None

    def of_dense(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return scaled dense rows."""
        return rows if self.shift is None or self.factor is None else (rows - self.shift) * self.factor


def column_moments(matrix: npt.NDArray[np.floating]) -> tuple[Numbers, Numbers]:
    """Return the mean (D,) and standard deviation (D,) of columns, computed in float64 and in blocks of rows."""
    count, zero = len(matrix), np.zeros(matrix.shape[1])
    mean = sum((block.sum(axis=0, dtype=np.float64) for block in row_blocks(matrix)), zero) / count
    squares = sum((((block - mean) ** 2).sum(axis=0) for block in row_blocks(matrix)), zero)
    return np.asarray(mean), np.sqrt(squares / count)


class StandardScaling(nn.Module):
    """Shift and factor of dense attributes, (D,) each; both are empty for sparse attributes."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.sparse, width = shape.sparse, 0 if shape.sparse else shape.width
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def learn(self, matrix: npt.NDArray[np.float32], shared: bool) -> None:
        """Learn the scale from the training nodes, per column or `shared` by all; a constant is only shifted."""
        mean, deviation = column_moments(matrix)
        if shared:
            overall = np.full_like(mean, mean.mean())
            deviation = np.sqrt((deviation**2 + (mean - overall) ** 2).mean() * np.ones_like(mean))
            mean = overall
        deviation[deviation == 0] = 1
        self.shift.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(1 / deviation))

    def scaling(self, unit: bool) -> Scaling:
        """Return the scaling as arrays; `unit` says whether sparse rows are scaled to unit length."""
        return Scaling(unit) if self.sparse else Scaling(False, self.shift.cpu().numpy(), self.scale.cpu().numpy())
