"""Layers of a network: scaling, sparse and dense input layers, the encoders of node types, and heads."""

import copy
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from glace.blocks import BLOCK, blocks
from glace.config.config import MLP, CustomEncoder, EncoderSpec, Identity, Image
from glace.errors import InputError
from glace.gaussian.dissimilarity import Gaussian
from glace.kernels import sparse_layer
from glace.kernels.compile import IntArray
from glace.model.inputs import InputRows, InputShape, InputType, NodeIndex, Scaling, SparseRows, csr_arrays
from glace.sparse import Matrix
from glace.values import MIXED, STANDARD, UNIT, ValueSummary, in_storage

Numbers = npt.NDArray[np.float64]


def column_moments(matrix: Matrix) -> tuple[Numbers, Numbers]:
    """Return the mean (D,) and standard deviation (D,) of columns, computed in float64 and in blocks of rows."""
    count, zero = matrix.shape[0], np.zeros(matrix.shape[1])
    mean = sum((block.sum(axis=0, dtype=np.float64) for block in _dense_blocks(matrix)), zero) / count
    squares = sum((((block - mean) ** 2).sum(axis=0) for block in _dense_blocks(matrix)), zero)
    return np.asarray(mean), np.sqrt(squares / count)


def _dense_blocks(matrix: Matrix) -> Iterator[npt.NDArray[np.float32]]:
    size = max(BLOCK // max(matrix.shape[1], 1), 1)
    return (in_storage(matrix[rows], sparse=False) for rows in blocks(matrix.shape[0], size))


class AttributeScaling(nn.Module):
    """Shift and factor of measured columns, (D,) each; both are empty if no column is scaled on its own."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.kind, width = shape.scaling, scaled_columns(shape)
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def learn(self, matrix: Matrix, shared: bool) -> None:
        """Learn the scale from the training nodes, per column or `shared` by all; a constant is only shifted."""
        if self.kind not in BY_COLUMN:
            return
        mean, deviation = column_moments(matrix)
        if shared:
            overall = np.full_like(mean, mean.mean())
            deviation = np.sqrt((deviation**2 + (mean - overall) ** 2).mean() * np.ones_like(mean))
            mean = overall
        deviation[deviation == 0] = 1
        factor = 1 / deviation
        if self.kind == MIXED:
            # As long as the other columns are together, whose rows have unit length.
            measured = ValueSummary.of(matrix).measured()
            factor = np.where(measured, factor / np.sqrt(max(int(measured.sum()), 1)), 0)
            mean = np.where(measured, mean, 0)
        self.shift.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(factor))

    def scaling(self) -> Scaling:
        """Return the scaling as arrays."""
        unit = self.kind in (UNIT, MIXED)
        return Scaling(unit, self.shift.cpu().numpy(), self.scale.cpu().numpy())


BY_COLUMN = (STANDARD, MIXED)
"""Scalings that treat columns one by one."""


def scaled_columns(shape: InputShape) -> int:
    """Return the length of the shift and the factor of attributes of this shape."""
    return shape.width if shape.scaling in BY_COLUMN else 0


class InputLayer(nn.Module):
    """x W + b for rows x of attributes, with W (columns, hidden); subclasses differ in how they multiply.

    `fan_in` is the number of inputs that a hidden number is summed over, if there are other layers beside this one.
    """

    trained_by_autograd = True

    def __init__(
        self,
        shape: InputShape,
        hidden: int,
        generator: np.random.Generator,
        fan_in: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        weight = xavier_uniform(shape.columns, hidden, generator, fan_in)
        self.weight = nn.Parameter(weight, requires_grad=self.trained_by_autograd)
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
        return product(self._addend(base), dense_rows(attributes, rows).to(self.weight.device), self.weight)


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

    trained_by_autograd = False
    pending: "tuple[sp.csr_array, NodeIndex, Tensor] | SparseRowGradient | None" = None

    @cached_property
    def _slots(self) -> NodeIndex:
        return np.full(len(self.weight), -1, dtype=np.int64)

    def forward(self, attributes: Matrix, rows: NodeIndex, base: Tensor | None = None) -> Tensor:
        """Return (R, hidden); `base` is changed in place."""
        addend = self._addend(base)
        product: Tensor = _SparseProduct.apply(addend, self, attributes, rows)  # type: ignore[no-untyped-call]
        return product

    def was_used(self) -> bool:
        """Whether the last backward pass reached this layer: a batch may have no node of its type."""
        return self.pending is not None

    def touched(self) -> "SparseRowGradient":
        """Return the gradient of the rows of `weight` that the last backward pass touched, and forget it."""
        assert self.pending is not None, "a backward pass comes first"
        pending, self.pending = self.pending, None
        if isinstance(pending, SparseRowGradient):
            return pending
        matrix, rows, upstream = pending
        whole = matrix.transposed if isinstance(matrix, SparseRows) and len(rows) == matrix.shape[0] else None
        entries = whole or sparse_layer.by_column(csr_arrays(matrix), rows, self._slots)
        return SparseRowGradient(*entries, upstream.numpy())


class SparseRowGradient(NamedTuple):
    """The gradient of some rows of a weight: row rows[c] has the gradient sum of value * upstream[batch_row].

    The sum is over the entries start[c] to start[c + 1].
    """

    rows: IntArray
    start: IntArray
    batch_row: IntArray
    value: npt.NDArray[np.floating]
    upstream: npt.NDArray[np.float32]

    @classmethod
    def of(cls, rows: IntArray, gradient: npt.NDArray[np.float32]) -> "SparseRowGradient":
        """Wrap the (C, hidden) gradient of some rows."""
        start = np.arange(len(rows) + 1)
        return cls(rows, start, start[:-1].astype(np.int32), np.ones(len(rows), np.float32), gradient)

    def gradient(self) -> npt.NDArray[np.float32]:
        """Return the (C, hidden) gradient; training never materializes it, its kernels compute it row by row."""
        shape = (len(self.rows), len(self.upstream))
        entries = sp.csr_array((self.value, self.batch_row, self.start), shape=shape)
        return np.asarray(entries @ self.upstream)


class _Context(FunctionCtx):
    """What the forward pass of a product keeps for the backward pass."""

    layer: SparseInput
    matrix: sp.csr_array
    rows: NodeIndex
    has_bias: bool


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, addend: Tensor, layer: SparseInput, matrix: sp.csr_array, rows: NodeIndex) -> Tensor:
        ctx.layer, ctx.matrix, ctx.rows, ctx.has_bias = layer, matrix, rows, addend.ndim == 1
        if ctx.has_bias:
            # torch aligns memory for the matrix products that follow; numpy does not, and bits could differ.
            out, bias = torch.empty(len(rows), len(addend)), addend.detach().numpy()
        else:
            out, bias = addend, np.empty(0, np.float32)
            ctx.mark_dirty(out)
        sparse_layer.product(csr_arrays(matrix), rows, layer.weight.detach().numpy(), bias, out.detach().numpy())
        return out

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = upstream[0].contiguous()
        # A second use in one step would have to be added to the first, which nothing here does.
        assert ctx.layer.pending is None, "`touched` comes between two backward passes"
        ctx.layer.pending = ctx.matrix, ctx.rows, gradient
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
    # torch aligns memory for the matrix products that follow; numpy does not, and bits could differ.
    wanted = torch.empty(len(rows), attributes.shape[1])
    if isinstance(attributes, np.ndarray):
        np.take(attributes, rows, axis=0, out=wanted.numpy(), mode="clip")  # the default mode copies once more
    else:
        attributes[rows].toarray(out=wanted.numpy())
    return wanted


def product(addend: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Return addend + x W.

    Where nodes are embedded, a row must have the same bits in every place of `x`. MKL does not give that if W has less
    than 12 columns, so W is then padded with zeros.
    """
    columns = weight.shape[1]
    if torch.is_grad_enabled() or columns >= NARROW:
        return torch.addmm(addend, x, weight)
    padding = (0, NARROW - columns)
    return torch.addmm(functional.pad(addend, padding), x, functional.pad(weight, padding))[:, :columns]


def xavier_uniform(width: int, hidden: int, generator: np.random.Generator, fan_in: int | None = None) -> Tensor:
    """Return (width, hidden) weights, uniform within +- sqrt(6 / (fan_in + hidden)); fan_in is `width` by default."""
    bound = (6 / ((width if fan_in is None else fan_in) + hidden)) ** 0.5
    values = generator.random((width, hidden), dtype=np.float32)
    return torch.from_numpy((values * 2 - 1) * np.float32(bound)).clone()


LENGTH = 0.35
"""Limit of the length of a hidden vector, per square root of its width. 0.125 to 0.5 are as good; with 1, AUC is lower
by .1 for known nodes and by 1.5 for new ones (Cora-ML, half of the nodes new)."""
SHORT = 0.3
"""Length from which vectors are near the limit; shorter ones stay shorter, as those of nodes whose attributes are
hardly known. With 0.001, new nodes are placed nearly as well, but of those with attributes at random only 82 % are
noticed (novelty) instead of 94. With 3, half of the gain for new nodes is lost: Cora-ML's AUC, half of the nodes new,
is 90.8 with free length, 92.2 with 0.3 and 91.5 with 3."""


class _LengthContext(FunctionCtx):
    bounded: Tensor
    factor: Tensor
    limit: float


class _BoundedLength(torch.autograd.Function):
    """y = x limit / sqrt(|x|^2 + SHORT^2), whose gradient is factor (g - y <y, g> / limit^2)."""

    @staticmethod
    def forward(ctx: _LengthContext, x: Tensor, limit: float) -> Tensor:
        square = torch.linalg.vector_norm(x, dim=1, keepdim=True).square_().add_(SHORT**2)
        # Weights that diverge must be seen: divided by infinity, they would be 0.
        square.masked_fill_(square == torch.inf, torch.nan)
        ctx.factor, ctx.limit = limit * square.rsqrt(), limit
        ctx.bounded = x * ctx.factor
        return ctx.bounded

    @staticmethod
    def backward(ctx: _LengthContext, *upstream: Tensor) -> tuple[Tensor, None]:
        along = torch.linalg.vecdot(ctx.bounded, upstream[0])[:, None] / ctx.limit**2
        return torch.addcmul(upstream[0], ctx.bounded, along, value=-1).mul_(ctx.factor), None


def of_bounded_length(x: Tensor) -> Tensor:
    """Return the rows of (R, width) with nearly the same length, apart from short ones."""
    bounded: Tensor = _BoundedLength.apply(x, LENGTH * x.shape[1] ** 0.5)  # type: ignore[no-untyped-call]
    return bounded


NARROW = 16
"""Columns of a matrix below which a row's product depends on its address."""
VARIANCE_FLOOR = 1e-2
"""Added to every variance. ELU + 1 comes arbitrarily close to 0, and between close and very narrow Gaussians the
dot-product form of KL loses its digits in float32; see docs/concepts.md."""


class Linear(nn.Module):
    """x W + b with W (width, out), initialized Xavier-uniform from the given generator."""

    def __init__(self, width: int, out: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(xavier_uniform(width, out, generator))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x: Tensor) -> Tensor:
        """Return (R, out)."""
        return product(self.bias, x, self.weight)


class GaussianHead(nn.Module):
    """mean = W_mu u + b_mu; variance = ELU(W_sigma u + b_sigma) + 1 + floor (Eq. 2 and 3 of the paper).

    W_mu and W_sigma are the halves of one matrix, so that both are one product.
    """

    def __init__(self, hidden: int, dim: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.dim, halves = dim, [xavier_uniform(hidden, dim, generator) for _ in range(2)]
        self.weight, self.bias = nn.Parameter(torch.cat(halves, 1)), nn.Parameter(torch.zeros(2 * dim))

    def raw(self, u: Tensor) -> Tensor:
        """Return (R, 2 dim): the means, and what variances are computed from."""
        return product(self.bias, u, self.weight)

    def gaussian(self, raw: Tensor) -> Gaussian:
        """Return the Gaussians of raw outputs."""
        return Gaussian(raw[..., : self.dim], (functional.elu(raw[..., self.dim :]) + 1) + VARIANCE_FLOOR)


class PointHead(nn.Module):
    """One point per node, as in the paper's LACE."""

    def __init__(self, hidden: int, dim: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.mean = Linear(hidden, dim, generator)

    def raw(self, u: Tensor) -> Tensor:
        """Return (R, dim)."""
        points: Tensor = self.mean(u)
        return points

    def gaussian(self, raw: Tensor) -> Gaussian:
        """Return the points."""
        return Gaussian(raw, None)


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "linear": nn.Identity,
}
KERNEL = 3


class HiddenLayer(nn.Module):
    """The hidden numbers of nodes: a type's encoder of their own attributes, plus a linear layer per neighbour type.

    A node's own encoder depends on its type; the layers of the neighbours are shared by all nodes.
    """

    def __init__(
        self, types: list[InputType], hidden: int, generator: np.random.Generator, compiled: bool, neighbors: bool
    ) -> None:
        super().__init__()
        self.own = nn.ModuleList(encoder_module(each, hidden, generator, compiled, neighbors) for each in types)
        self.neighbors = nn.ModuleList(
            input_layer(each.shape, hidden, generator, compiled, fan_in=2 * each.shape.columns, bias=False)
            for each in types
            if neighbors
        )

    def forward(self, inputs: InputRows, rows: NodeIndex) -> Tensor:
        """Return (R, hidden) for the wanted input rows."""
        hidden = self._own(inputs, rows)
        for layer, means in zip(self.neighbors, inputs.neighbors, strict=True):
            hidden = layer(means, rows, hidden)
        return hidden

    def _own(self, inputs: InputRows, rows: NodeIndex) -> Tensor:
        type_codes, places = inputs.type_codes[rows], inputs.rows[rows]
        present = np.unique(type_codes) if len(self.own) > 1 else np.zeros(1, np.int64)
        if len(present) == 1:
            only: Tensor = self.own[int(present[0])](inputs.own[int(present[0])], places)
            return only
        encoded = [self.own[int(code)](inputs.own[int(code)], places[type_codes == code]) for code in present]
        order = np.argsort(np.argsort(type_codes, kind="stable"))
        together = torch.cat(encoded)
        return together.index_select(0, torch.from_numpy(order).to(together.device))


def encoder_module(
    node_type: InputType, hidden: int, generator: np.random.Generator, compiled: bool = True, neighbors: bool = False
) -> nn.Module:
    """Return the encoder of a node type; a user's module is copied, and the copy is trained.

    `neighbors` says whether the hidden numbers also sum over as many columns of neighbours.
    """
    spec, shape = node_type.encoder, node_type.shape
    if isinstance(spec, CustomEncoder):
        assert node_type.module is not None
        return CustomEncoderModule(copy.deepcopy(node_type.module), hidden)
    if isinstance(spec, Image):
        return ImageEncoder(spec, hidden, generator)
    if isinstance(spec, MLP) and spec.layers:
        return MLPEncoder(spec, shape, hidden, generator, compiled)
    assert isinstance(spec, MLP | Identity), f"no module for {spec}"
    return input_layer(shape, hidden, generator, compiled, fan_in=shape.columns * (2 if neighbors else 1))


def has_training_mode(spec: EncoderSpec) -> bool:
    """Whether outputs differ between train and eval mode."""
    return isinstance(spec, CustomEncoder) or (
        isinstance(spec, MLP) and bool(spec.dropout or spec.normalization == "batch")
    )


def column_weight(spec: EncoderSpec) -> str | None:
    """Return the name of the encoder's weight with one row per attribute column, or None if it has no such weight.

    Only with such a weight can columns be hashed, averaged over neighbours and added by an update.
    """
    if isinstance(spec, MLP):
        return "first.weight" if spec.layers else "weight"
    return "weight" if isinstance(spec, Identity) else None


class MLPEncoder(nn.Module):
    """An input layer, and linear layers after it with normalization, activation and dropout in between."""

    def __init__(
        self, spec: MLP, shape: InputShape, hidden: int, generator: np.random.Generator, compiled: bool
    ) -> None:
        super().__init__()
        widths = [*spec.layers, hidden]
        self.first = input_layer(shape, widths[0], generator, compiled)
        rest: list[nn.Module] = []
        for width, out in itertools.pairwise(widths):
            rest += [*_between(spec, width), Linear(width, out, generator)]
        self.rest = nn.Sequential(*rest)

    def forward(self, attributes: Matrix, rows: NodeIndex) -> Tensor:
        """Return (R, hidden) for the wanted rows of the attributes."""
        with _single_row_in_eval_mode(self.rest, len(rows)):
            hidden: Tensor = self.rest(self.first(attributes, rows))
        return hidden


def _between(spec: MLP, width: int) -> list[nn.Module]:
    normalizations: dict[str, list[nn.Module]] = {
        "none": [],
        "layer": [nn.LayerNorm(width)],
        "batch": [nn.BatchNorm1d(width)],
    }
    dropout = [nn.Dropout(spec.dropout)] if spec.dropout else []
    return [*normalizations[spec.normalization], ACTIVATIONS[spec.activation](), *dropout]


@contextmanager
def _single_row_in_eval_mode(module: nn.Module, rows: int) -> Iterator[None]:
    """Put a module into eval mode for a batch of one row, which has no deviation for batch normalization."""
    modes = [(each, each.training) for each in module.modules()] if rows == 1 else []
    if modes:
        module.eval()
    yield
    for each, training in modes:
        each.training = training


class ImageEncoder(nn.Module):
    """Convolutions, each with a ReLU and a max-pooling while the image can be halved, and a linear layer."""

    def __init__(self, spec: Image, hidden: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.shape = spec.shape
        channels, height, width = spec.shape
        steps: list[nn.Module] = []
        for filters in spec.filters:
            steps += [_convolution(channels, filters, generator), nn.ReLU()]
            channels = filters
            if min(height, width) > 1:
                steps.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
        self.steps = nn.Sequential(*steps, nn.Flatten())
        self.last = Linear(channels * height * width, hidden, generator)

    def forward(self, attributes: Matrix, rows: NodeIndex) -> Tensor:
        """Return (R, hidden) for the images in the wanted rows of the attributes."""
        pixels = dense_rows(attributes, rows).to(self.last.bias.device)
        hidden: Tensor = self.last(self.steps(pixels.reshape(-1, *self.shape)))
        return hidden


def _convolution(channels: int, filters: int, generator: np.random.Generator) -> nn.Conv2d:
    # torch's own initialization would draw from its global generator.
    made: nn.Conv2d = nn.utils.skip_init(  # type: ignore[no-untyped-call]
        nn.Conv2d, channels, filters, KERNEL, padding=KERNEL // 2
    )
    weight = xavier_uniform(channels * KERNEL**2, filters, generator).T.reshape(made.weight.shape)
    with torch.no_grad():
        made.weight.copy_(weight)
        assert made.bias is not None
        made.bias.zero_()
    return made


class CustomEncoderModule(nn.Module):
    """A user's module, which maps a dense batch (R, D) to (R, hidden), and a bias.

    The bias makes the output a tensor that autograd does not need again, so that the products of neighbours can be
    added in place, and gives these products a gradient even if the user's module is frozen.
    """

    def __init__(self, module: nn.Module, hidden: int) -> None:
        super().__init__()
        self.module, self.bias = module, nn.Parameter(torch.zeros(hidden))

    def forward(self, attributes: Matrix, rows: NodeIndex) -> Tensor:
        """Return (R, hidden) for the wanted rows of the attributes."""
        with _single_row_in_eval_mode(self.module, len(rows)):
            output = self.module(dense_rows(attributes, rows).to(self.bias.device))
        given = f"the encoder was given {len(rows):,} rows"
        return checked_output(output, len(rows), len(self.bias), given) + self.bias


def check_module(module: nn.Module, attributes: Matrix, hidden: int, title: str) -> None:
    """Try a user's module on some rows of attributes, and raise one clear error if it cannot be trained."""
    rows = np.arange(min(attributes.shape[0], 4))
    given = f"{title} was given {len(rows)} rows of {attributes.shape[1]:,} attributes"
    for name, value in module.state_dict().items():
        if value.dtype == torch.bfloat16:
            raise InputError(f"{title} has {name} in bfloat16, which model files cannot hold; make it float32")
    try:
        with torch.no_grad():
            output = copy.deepcopy(module).eval()(dense_rows(attributes, rows))
    except Exception as problem:  # a user's code may raise anything
        wanted = _wanted(len(rows), hidden)
        raise InputError(f"{given} and raised {type(problem).__name__}: {problem}; {wanted}") from problem
    if not torch.isfinite(checked_output(output, len(rows), hidden, given)).all():
        wanted = _wanted(len(rows), hidden)
        raise InputError(f"{given} and returned numbers that are not finite (NaN or infinite); {wanted}")


def checked_output(output: object, rows: int, hidden: int, given: str) -> Tensor:
    """Return the output of a user's module, or raise `InputError` if it has the wrong type or shape."""
    if not isinstance(output, Tensor):
        raise InputError(f"{given} and returned {type(output).__name__}; {_wanted(rows, hidden)}")
    if output.shape != (rows, hidden) or output.dtype != torch.float32:
        shape = tuple(output.shape)
        raise InputError(f"{given} and returned {output.dtype} of shape {shape}; {_wanted(rows, hidden)}")
    return output


def _wanted(rows: int, hidden: int) -> str:
    return f"expected a float32 tensor of shape ({rows}, {hidden}): hidden={hidden} finite numbers per row"
