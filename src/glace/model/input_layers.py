"""Input layers: from rows of attributes, sparse or dense, to hidden numbers."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from glace.kernels import sparse_layer
from glace.kernels.compile import CSR, IntArray
from glace.sparse import Matrix

NodeIndex = npt.NDArray[np.int64]


class InputShape(NamedTuple):
    """The attributes of a node type as a network sees them.

    `width` is the number D of attributes; sparse ones are hashed into `hashed` columns if that is not 0. `one_hot`
    nodes have no attributes: each has a column of its own.
    """

    width: int
    sparse: bool
    hashed: int = 0
    one_hot: bool = False

    @property
    def columns(self) -> int:
        """Numbers in an input row."""
        return self.hashed or self.width


class InputLayer(nn.Module):
    """x W + b for rows x of attributes, with W (columns, hidden); subclasses differ in how they multiply.

    `fan_in` is the number of inputs that a hidden number is summed over, if there are other layers beside this one.
    """

    def __init__(
        self,
        shape: InputShape,
        hidden: int,
        generator: np.random.Generator,
        fan_in: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(xavier_uniform(shape.columns, hidden, generator, fan_in))
        self.bias = nn.Parameter(torch.zeros(hidden)) if bias else None
        self.one_hot = shape.one_hot

    def forward(self, attributes: Matrix, rows: NodeIndex, base: Tensor | None = None) -> Tensor:
        """Return (R, hidden) for the wanted rows of the attributes.

        With `base` (R, hidden), the product is added to it instead of the bias, possibly in place.
        """
        raise NotImplementedError

    def _addend(self, base: Tensor | None) -> Tensor:
        addend = self.bias if base is None else base
        assert addend is not None, "a layer without bias adds to something"
        return addend


class DenseInput(InputLayer):
    """Input layer for dense attributes."""

    def forward(self, attributes: Matrix, rows: NodeIndex, base: Tensor | None = None) -> Tensor:
        """Return (R, hidden); see `InputLayer.forward`."""
        return torch.addmm(self._addend(base), dense_rows(attributes, rows).to(self.weight.device), self.weight)


class TorchSparseInput(InputLayer):
    """Input layer for sparse attributes by torch alone, on any device; the gradient of W is a sparse tensor."""

    def forward(self, attributes: Matrix, rows: NodeIndex, base: Tensor | None = None) -> Tensor:
        """Return (R, hidden); see `InputLayer.forward`."""
        wanted: sp.csr_array = attributes[rows]
        columns, starts, values = (
            torch.from_numpy(array).to(self.weight.device)
            for array in (wanted.indices.astype(np.int64), wanted.indptr[:-1].astype(np.int64), wanted.data)
        )
        sums = functional.embedding_bag(
            columns, self.weight, starts, mode="sum", sparse=True, per_sample_weights=values
        )
        return sums + self._addend(base)

    def was_used(self) -> bool:
        """Whether the last backward pass reached this layer: a batch may have no node of its type."""
        return self.weight.grad is not None


class SparseInput(InputLayer):
    """Input layer for sparse attributes through compiled kernels; W is trained row by row, outside autograd.

    The backward pass makes no gradient of the size of W. It only remembers what the gradient of the touched rows is
    computed from.
    """

    def __init__(
        self,
        shape: InputShape,
        hidden: int,
        generator: np.random.Generator,
        fan_in: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__(shape, hidden, generator, fan_in, bias)
        self.weight.requires_grad_(False)
        self.pending: tuple[CSR, NodeIndex, Tensor] | None = None
        self._slots = np.full(shape.columns, -1, dtype=np.int64)

    def forward(self, attributes: Matrix, rows: NodeIndex, base: Tensor | None = None) -> Tensor:
        """Return (R, hidden); `base` is changed in place."""
        matrix: sp.csr_array = attributes
        arrays = matrix.indptr, matrix.indices, matrix.data
        product: Tensor = _SparseProduct.apply(self._addend(base), self, arrays, rows)  # type: ignore[no-untyped-call]
        return product

    def was_used(self) -> bool:
        """Whether the last backward pass reached this layer: a batch may have no node of its type."""
        return self.pending is not None

    def touched(self) -> "SparseRowGradient":
        """Return the gradient of the rows of `weight` that the last backward pass touched, and forget it."""
        assert self.pending is not None, "a backward pass comes first"
        arrays, rows, upstream = self.pending
        self.pending = None
        return SparseRowGradient(*sparse_layer.by_column(arrays, rows, self._slots), upstream.numpy())


class SparseRowGradient(NamedTuple):
    """The gradient of some rows of a weight: row rows[c] has the gradient sum of value * upstream[batch_row].

    The sum is over the entries start[c] to start[c + 1].
    """

    rows: IntArray
    start: IntArray
    batch_row: IntArray
    value: npt.NDArray[np.floating]
    upstream: npt.NDArray[np.float32]

    def gradient(self) -> npt.NDArray[np.float32]:
        """Return the (C, hidden) gradient; training never materializes it, its kernels compute it row by row."""
        shape = (len(self.rows), len(self.upstream))
        entries = sp.csr_array((self.value, self.batch_row, self.start), shape=shape)
        return np.asarray(entries @ self.upstream)


class _Context(FunctionCtx):
    """What the forward pass of a product keeps for the backward pass."""

    layer: SparseInput
    arrays: CSR
    rows: NodeIndex
    has_bias: bool


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, addend: Tensor, layer: SparseInput, arrays: CSR, rows: NodeIndex) -> Tensor:
        ctx.layer, ctx.arrays, ctx.rows, ctx.has_bias = layer, arrays, rows, addend.ndim == 1
        if ctx.has_bias:
            # torch aligns memory for the matrix products that follow; numpy does not, and bits could differ.
            out, bias = torch.empty(len(rows), len(addend)), addend.detach().numpy()
        else:
            out, bias = addend, np.empty(0, np.float32)
            ctx.mark_dirty(out)
        sparse_layer.product(arrays, rows, layer.weight.detach().numpy(), bias, out.detach().numpy())
        return out

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = upstream[0].contiguous()
        # A second use in one step would have to be added to the first, which nothing here does.
        assert ctx.layer.pending is None, "`touched` comes between two backward passes"
        ctx.layer.pending = ctx.arrays, ctx.rows, gradient
        return gradient.sum(0) if ctx.has_bias else gradient, None, None, None


def input_layer(
    shape: InputShape,
    hidden: int,
    generator: np.random.Generator,
    compiled: bool = True,
    fan_in: int | None = None,
    bias: bool = True,
) -> InputLayer:
    """Return the layer for attributes of this shape, by compiled kernels for the CPU or by torch alone."""
    sparse = SparseInput if compiled else TorchSparseInput
    return (sparse if shape.sparse else DenseInput)(shape, hidden, generator, fan_in, bias)


def sparse_inputs(network: nn.Module) -> Iterator[tuple[str, SparseInput | TorchSparseInput]]:
    """Iterate over the sparse input layers of a network, with their names."""
    for name, module in network.named_modules():
        if isinstance(module, SparseInput | TorchSparseInput):
            yield name, module


def dense_rows(attributes: Matrix, rows: NodeIndex) -> Tensor:
    """Return the wanted rows as a dense (R, D) tensor."""
    wanted: sp.csr_array = attributes[rows]
    return torch.from_numpy(np.ascontiguousarray(wanted.toarray() if sp.issparse(wanted) else wanted))


def xavier_uniform(width: int, hidden: int, generator: np.random.Generator, fan_in: int | None = None) -> Tensor:
    """Return (width, hidden) weights, uniform within +- sqrt(6 / (fan_in + hidden)); fan_in is `width` by default."""
    bound = (6 / ((width if fan_in is None else fan_in) + hidden)) ** 0.5
    values = generator.random((width, hidden), dtype=np.float32)
    return torch.from_numpy((values * 2 - 1) * np.float32(bound)).clone()
