"""What parts are built of: modules from rows of attributes to `hidden` numbers.

Each is called with a matrix and the numbers of the wanted rows of it, as input layers are.
"""

import copy
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.config.encoders import MLP, CustomEncoder, EncoderSpec, Identity, Image
from glace.errors import InputError
from glace.model.heads import Linear
from glace.model.input_layers import InputShape, NodeIndex, input_layer, xavier_uniform

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "linear": nn.Identity,
}
KERNEL = 3


def tower(
    part: EncoderSpec,
    shape: InputShape,
    hidden: int,
    generator: np.random.Generator,
    compiled: bool = True,
    own: nn.Module | None = None,
) -> nn.Module:
    """The module of a part, for attributes of this shape; of the user's `own` module a copy is trained."""
    if isinstance(part, CustomEncoder):
        assert own is not None
        return CustomEncoderModule(copy.deepcopy(own), hidden)
    if isinstance(part, Image):
        return ImageEncoder(part, hidden, generator)
    if isinstance(part, Identity) or not part.layers:
        return input_layer(shape, hidden, generator, compiled)
    return MLPEncoder(part, shape, hidden, generator, compiled)


def draws_or_has_modes(part: EncoderSpec) -> bool:
    """Whether what the module gives in training is another thing than what it gives afterwards."""
    return isinstance(part, CustomEncoder) or (
        isinstance(part, MLP) and bool(part.dropout or part.normalization == "batch")
    )


class MLPEncoder(nn.Module):
    """The input layer and others after it, each with what stands between two of them."""

    def __init__(
        self, part: MLP, shape: InputShape, hidden: int, generator: np.random.Generator, compiled: bool
    ) -> None:
        super().__init__()
        widths = [*part.layers, hidden]
        self.first = input_layer(shape, widths[0], generator, compiled)
        rest: list[nn.Module] = []
        for width, out in itertools.pairwise(widths):
            rest += [*_between(part, width), Linear(width, out, generator)]
        self.rest = nn.Sequential(*rest)

    def forward(self, attributes: Any, rows: NodeIndex) -> Tensor:
        """(R, hidden) for the wanted rows of the attributes."""
        with _one_as_afterwards(self.rest, len(rows)):
            found: Tensor = self.rest(self.first(attributes, rows))
        return found


def _between(part: MLP, width: int) -> list[nn.Module]:
    normalizations: dict[str, list[nn.Module]] = {
        "none": [],
        "layer": [nn.LayerNorm(width)],
        "batch": [nn.BatchNorm1d(width)],
    }
    dropout = [nn.Dropout(part.dropout)] if part.dropout else []
    return [*normalizations[part.normalization], ACTIVATIONS[part.activation](), *dropout]


@contextmanager
def _one_as_afterwards(module: nn.Module, rows: int) -> Iterator[None]:
    """Have a single row of a batch go as after training: of one, batch normalization can tell no deviation."""
    modes = [(each, each.training) for each in module.modules()] if rows == 1 else []
    if modes:
        module.eval()
    yield
    for each, training in modes:
        each.training = training


class ImageEncoder(nn.Module):
    """Convolutions, each with a ReLU and a halving of the image while there is something to halve."""

    def __init__(self, part: Image, hidden: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.shape = part.shape
        channels, height, width = part.shape
        steps: list[nn.Module] = []
        for filters in part.filters:
            steps += [_convolution(channels, filters, generator), nn.ReLU()]
            channels = filters
            if min(height, width) > 1:
                steps.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
        self.steps = nn.Sequential(*steps, nn.Flatten())
        self.last = Linear(channels * height * width, hidden, generator)

    def forward(self, attributes: Any, rows: NodeIndex) -> Tensor:
        """(R, hidden) for the images in the wanted rows of the attributes."""
        pixels = dense_rows(attributes, rows).to(self.last.bias.device)
        found: Tensor = self.last(self.steps(pixels.reshape(-1, *self.shape)))
        return found


def _convolution(channels: int, filters: int, generator: np.random.Generator) -> nn.Conv2d:
    # Without torch's own draws, which would take from its global generator.
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
    """A user's module, which gets a batch as a dense tensor (R, D) and gives (R, hidden)."""

    where: Tensor

    def __init__(self, module: nn.Module, hidden: int) -> None:
        super().__init__()
        self.module, self.hidden = module, hidden
        self.register_buffer("where", torch.empty(0), persistent=False)

    def forward(self, attributes: Any, rows: NodeIndex) -> Tensor:
        """What the module gives for the wanted rows of the attributes."""
        with _one_as_afterwards(self.module, len(rows)):
            found: Any = self.module(dense_rows(attributes, rows).to(self.where.device))
        check_answer(found, len(rows), self.hidden, f"the encoder was given {len(rows):,} rows")
        answer: Tensor = found
        return answer


def dense_rows(attributes: Any, rows: NodeIndex) -> Tensor:
    """(R, D) the wanted rows as a dense tensor."""
    wanted = attributes[rows]
    dense: npt.NDArray[np.float32] = wanted.toarray() if sp.issparse(wanted) else np.ascontiguousarray(wanted)
    return torch.from_numpy(dense)


def check_own(module: nn.Module, attributes: Any, hidden: int, whose: str) -> None:
    """Try a user's module on some rows of attributes; one clear error if it cannot be trained with."""
    rows = np.arange(min(attributes.shape[0], 4))
    given = f"{whose} was given {len(rows)} rows of {attributes.shape[1]:,} attributes"
    for name, value in module.state_dict().items():
        if value.dtype == torch.bfloat16:
            raise InputError(f"{whose} has {name} in bfloat16, which files cannot hold; make it float32")
    try:
        with torch.no_grad():
            found: Any = copy.deepcopy(module).eval()(dense_rows(attributes, rows))
    except Exception as problem:  # whatever a user's code may raise
        wanted = _wanted(len(rows), hidden)
        raise InputError(f"{given} and raised {type(problem).__name__}: {problem}; {wanted}") from problem
    check_answer(found, len(rows), hidden, given)
    if not torch.isfinite(found).all():
        wanted = _wanted(len(rows), hidden)
        raise InputError(f"{given} and gave numbers that are not finite (NaN or infinite); {wanted}")


def check_answer(found: Any, rows: int, hidden: int, given: str) -> None:
    """Raise unless a user's module gave what is wanted of it."""
    if not isinstance(found, Tensor):
        raise InputError(f"{given} and gave {type(found).__name__}; {_wanted(rows, hidden)}")
    if found.shape != (rows, hidden) or found.dtype != torch.float32:
        raise InputError(f"{given} and gave {found.dtype} of shape {tuple(found.shape)}; {_wanted(rows, hidden)}")


def _wanted(rows: int, hidden: int) -> str:
    return f"wanted a float32 tensor of shape ({rows}, {hidden}): hidden={hidden} finite numbers a row"
