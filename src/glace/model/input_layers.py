"""Input layers: rows of attributes to `hidden` numbers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from glace.kernels import sparse_layer

NodeIndex = npt.NDArray[np.int64]


class InputShape(NamedTuple):
    """What nodes look like to a network: D attributes, sparse or dense, and beside them their neighbours' mean.

    Sparse ones may be `hashed` into so many columns; 0 if they are not. `by_node`: nodes have no attributes, and
    each is known by a column of its own.
    """

    width: int
    sparse: bool
    neighbors: bool = False
    hashed: int = 0
    by_node: bool = False

    @property
    def part(self) -> int:
        """Columns of a node's own attributes, and again of its neighbours'."""
        return self.hashed or self.width

    @property
    def columns(self) -> int:
        """Numbers in a row of input."""
        return self.part * (2 if self.neighbors else 1)


class TorchSparseInput(nn.Module):
    """W x + b for sparse x by torch alone, on any device; the gradient of W is a sparse tensor of the touched rows."""

    def __init__(self, width: int, hidden: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(xavier_uniform(width, hidden, generator))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.by_node = False

    def forward(self, attributes: sp.csr_array, rows: NodeIndex) -> Tensor:
        """(R, hidden) for the wanted rows of the attributes."""
        wanted = attributes[rows]
        columns, starts = (part.astype(np.int64) for part in (wanted.indices, wanted.indptr[:-1]))
        columns, starts, values = (
            torch.from_numpy(part).to(self.weight.device) for part in (columns, starts, wanted.data)
        )
        bags = functional.embedding_bag(
            columns, self.weight, starts, mode="sum", sparse=True, per_sample_weights=values
        )
        return bags + self.bias

    def was_used(self) -> bool:
        """Whether any row went through it since the last step: a batch may have no node of its type."""
        return self.weight.grad is not None


class SparseInput(nn.Module):
    """W x + b for sparse x through compiled kernels; W is trained by rows, outside autograd.

    `weight` is (D, hidden). The backward pass does not make a gradient of that size: it leaves in
    `pending` what is needed to compute the gradient of the touched rows only.
    """

    def __init__(self, width: int, hidden: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(xavier_uniform(width, hidden, generator), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.by_node = False
        self.pending: tuple[sp.csr_array, NodeIndex, Tensor] | None = None
        self._slots = np.full(width, -1, dtype=np.int64)

    def forward(self, attributes: sp.csr_array, rows: NodeIndex) -> Tensor:
        """(R, hidden) for the wanted rows of the attributes."""
        product: Tensor = _SparseProduct.apply(self.bias, self, attributes, rows)  # type: ignore[no-untyped-call]
        return product

    def was_used(self) -> bool:
        """Whether any row went through it since the last step: a batch may have no node of its type."""
        return self.pending is not None

    def touched(self) -> "SparseRowGradient":
        """The rows of `weight` that the last backward pass touched, and what their gradient is made of."""
        assert self.pending is not None, "a backward pass comes first"
        attributes, rows, upstream = self.pending
        self.pending = None
        numbers, start, batch_row, value = sparse_layer.by_column(
            attributes.indptr, attributes.indices, attributes.data, rows, self._slots
        )
        return SparseRowGradient(numbers, start, batch_row, value, upstream.numpy())


class SparseRowGradient(NamedTuple):
    """Rows `numbers` (C,) of a weight; row c has the gradient sum of value * upstream[batch_row].

    The sum is over the entries start[c] to start[c + 1].
    """

    numbers: NodeIndex
    start: NodeIndex
    batch_row: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]
    upstream: npt.NDArray[np.float32]

    def gradient(self) -> npt.NDArray[np.float32]:
        """(C, hidden): written out, as training never needs it; kernels make it row by row."""
        shape = (len(self.numbers), len(self.upstream))
        entries = sp.csr_array((self.value, self.batch_row, self.start), shape=shape)
        return np.asarray(entries @ self.upstream)


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bias: Tensor, layer: SparseInput, attributes: sp.csr_array, rows: NodeIndex) -> Tensor:
        # torch aligns its memory for the matrix products that follow; numpy does not, and bits could differ.
        out = torch.empty(len(rows), len(bias))
        sparse_layer.product(
            attributes.indptr,
            attributes.indices,
            attributes.data,
            rows,
            layer.weight.detach().numpy(),
            bias.detach().numpy(),
            out.numpy(),
        )
        ctx.layer, ctx.inputs = layer, (attributes, rows)
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        gradient = upstream[0].contiguous()
        # One use a step: a second would need its gradient added to the first, which nothing here does.
        assert ctx.layer.pending is None, "`touched` comes between two backward passes"
        ctx.layer.pending = (*ctx.inputs, gradient)
        return gradient.sum(0), None, None, None


class DenseInput(nn.Module):
    """W x + b for dense x."""

    def __init__(self, width: int, hidden: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(xavier_uniform(width, hidden, generator))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, attributes: npt.NDArray[np.float32], rows: NodeIndex) -> Tensor:
        """(R, hidden) for the wanted rows of the attributes."""
        wanted = torch.from_numpy(np.ascontiguousarray(attributes[rows])).to(self.weight.device)
        return wanted @ self.weight + self.bias


InputLayer = SparseInput | TorchSparseInput | DenseInput


def input_layer(shape: InputShape, hidden: int, generator: np.random.Generator, compiled: bool = True) -> InputLayer:
    """The layer that fits attributes of this shape, by `compiled` kernels for the CPU or by torch alone."""
    if not shape.sparse:
        return DenseInput(shape.columns, hidden, generator)
    kind = SparseInput if compiled else TorchSparseInput
    layer = kind(shape.columns, hidden, generator)
    layer.by_node = shape.by_node
    return layer


def sparse_inputs(network: nn.Module) -> Iterator[tuple[str, SparseInput | TorchSparseInput]]:
    """Every sparse input layer of a network, with its name."""
    for name, module in network.named_modules():
        if isinstance(module, SparseInput | TorchSparseInput):
            yield name, module


def xavier_uniform(fan_in: int, fan_out: int, generator: np.random.Generator) -> Tensor:
    """(fan_in, fan_out) weights within +- sqrt(6 / (fan_in + fan_out))."""
    bound = (6 / (fan_in + fan_out)) ** 0.5
    values = generator.random((fan_in, fan_out), dtype=np.float32)
    return torch.from_numpy((values * 2 - 1) * np.float32(bound)).clone()
