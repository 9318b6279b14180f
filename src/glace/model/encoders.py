"""Encoder modules: from rows of attributes to hidden numbers, built from encoder specifications.

Each is called with a matrix and the indices of the wanted rows, as input layers are.
"""

import copy
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from glace.config.encoders import MLP, CustomEncoder, EncoderSpec, Image
from glace.errors import InputError
from glace.model.heads import Linear
from glace.model.input_layers import InputShape, NodeIndex, dense_rows, input_layer, xavier_uniform
from glace.model.input_types import InputType
from glace.model.inputs import InputRows
from glace.sparse import Matrix

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
        present = np.unique(type_codes)
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
    return input_layer(shape, hidden, generator, compiled, fan_in=shape.columns * (2 if neighbors else 1))


def has_training_mode(spec: EncoderSpec) -> bool:
    """Whether outputs differ between train and eval mode."""
    return isinstance(spec, CustomEncoder) or (
        isinstance(spec, MLP) and bool(spec.dropout or spec.normalization == "batch")
    )


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
