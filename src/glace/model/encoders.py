"""Input layers: rows of attributes to `hidden` numbers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.kernels import sparse_layer

NodeNumbers = npt.NDArray[np.int64]


class InputShape(NamedTuple):
    """What attributes look like to a network: D columns, sparse or dense."""

    width: int
    sparse: bool


class SparseInput(nn.Module):
    """W x + b for sparse x through compiled kernels; W is trained by rows, outside autograd.

    `weight` is (D, hidden). The backward pass does not make a gradient of that size: it leaves in
    `pending` what is needed to compute the gradient of the touched rows only.
    """

    def __init__(self, width: int, hidden: int, normalize: bool, generator: np.random.Generator) -> None:
        super().__init__()
        self.normalize = normalize
        self.weight = nn.Parameter(xavier_uniform(width, hidden, generator), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.pending: tuple[sp.csr_array, NodeNumbers, npt.NDArray[np.float32], Tensor] | None = None
        self._slots = np.full(width, -1, dtype=np.int64)

    def forward(self, attributes: sp.csr_array, rows: NodeNumbers) -> Tensor:
        """(R, hidden) for the wanted rows of the attributes."""
        product: Tensor = _SparseProduct.apply(self.bias, self, attributes, rows)  # type: ignore[no-untyped-call]
        return product

    def touched_gradient(self) -> tuple[NodeNumbers, npt.NDArray[np.float32]]:
        """Numbers of the rows of `weight` that the last backward pass touched, and their gradient."""
        assert self.pending is not None, "a backward pass comes first"
        attributes, rows, scales, upstream = self.pending
        touched, start, batch_row, value = sparse_layer.by_column(
            attributes.indptr, attributes.indices, attributes.data, rows, scales, self._slots
        )
        gradient = np.empty((len(touched), upstream.shape[1]), dtype=np.float32)
        sparse_layer.touched_gradient(start, batch_row, value, upstream.numpy(), gradient)
        self.pending = None
        return touched, gradient

    def scales(self, attributes: sp.csr_array, rows: NodeNumbers) -> npt.NDArray[np.float32]:
        """What each wanted row is multiplied by."""
        if not self.normalize:
            return np.ones(len(rows), dtype=np.float32)
        norms: npt.NDArray[np.float32] = sparse_layer.inverse_norms(attributes.indptr, attributes.data, rows)
        return norms


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, bias: Tensor, layer: SparseInput, attributes: sp.csr_array, rows: NodeNumbers
    ) -> Tensor:
        scales = layer.scales(attributes, rows)
        # torch aligns its memory for the matrix products that follow; numpy does not, and bits could differ.
        out = torch.empty(len(rows), len(bias))
        sparse_layer.product(
            attributes.indptr,
            attributes.indices,
            attributes.data,
            rows,
            scales,
            layer.weight.detach().numpy(),
            bias.detach().numpy(),
            out.numpy(),
        )
        ctx.layer, ctx.inputs = layer, (attributes, rows, scales)
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        gradient = upstream[0].contiguous()
        # One use a step: a second would need its gradient added to the first, which nothing here does.
        assert ctx.layer.pending is None, "touched_gradient comes between two backward passes"
        ctx.layer.pending = (*ctx.inputs, gradient)
        return gradient.sum(0), None, None, None


class DenseInput(nn.Module):
    """W x + b for dense x; the columns' mean and scale are taken from the training nodes and kept."""

    shift: Tensor
    scale: Tensor

    def __init__(self, width: int, hidden: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(xavier_uniform(width, hidden, generator))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def standardize(self, attributes: npt.NDArray[np.float32]) -> None:
        """Take each column's mean and deviation from these rows; a constant column is left unscaled."""
        deviation = attributes.std(axis=0, dtype=np.float64)
        deviation[deviation == 0] = 1
        self.shift.copy_(torch.from_numpy(attributes.mean(axis=0, dtype=np.float64)))
        self.scale.copy_(torch.from_numpy(1 / deviation))

    def forward(self, attributes: npt.NDArray[np.float32], rows: NodeNumbers) -> Tensor:
        """(R, hidden) for the wanted rows of the attributes."""
        x = torch.from_numpy(np.ascontiguousarray(attributes[rows]))
        return (x - self.shift) * self.scale @ self.weight + self.bias


def input_layer(
    shape: InputShape, hidden: int, normalize: bool, generator: np.random.Generator
) -> SparseInput | DenseInput:
    """The layer that fits attributes of this shape."""
    if shape.sparse:
        return SparseInput(shape.width, hidden, normalize, generator)
    return DenseInput(shape.width, hidden, generator)


def sparse_inputs(network: nn.Module) -> Iterator[tuple[str, SparseInput]]:
    """Every sparse input layer of a network, with its name."""
    for name, module in network.named_modules():
        if isinstance(module, SparseInput):
            yield name, module


def xavier_uniform(fan_in: int, fan_out: int, generator: np.random.Generator) -> Tensor:
    """(fan_in, fan_out) weights within +- sqrt(6 / (fan_in + fan_out))."""
    bound = (6 / (fan_in + fan_out)) ** 0.5
    values = generator.random((fan_in, fan_out), dtype=np.float32)
    return torch.from_numpy((values * 2 - 1) * np.float32(bound)).clone()
