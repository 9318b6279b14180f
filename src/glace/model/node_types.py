"""Types of nodes, each with the shape of its attributes and the part that encodes them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import nn

from glace.config.config import ModelConfig
from glace.config.encoders import MLP, CustomEncoder, EncoderSpec, Identity, Image
from glace.errors import InputError
from glace.model.input_layers import InputShape


@dataclass(frozen=True, eq=False)
class Kind:
    """A type of nodes: its name, what they look like, and the part that encodes them, which may be a user's module."""

    name: str
    shape: InputShape
    part: EncoderSpec = field(default_factory=MLP)
    module: nn.Module | None = None

    def whose(self) -> str:
        """The encoder, in messages."""
        return "the encoder" if self.name == "" else f"the encoder of type {self.name!r}"


def is_plain(kinds: Sequence[Kind]) -> bool:
    """Whether nodes are of one kind and their neighbours' attributes go through the same input layer as their own."""
    return len(kinds) == 1 and isinstance(kinds[0].part, MLP | Identity)


def joined(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """The kinds, and for a plain one the columns of its neighbours beside its own."""
    if not is_plain(kinds):
        return tuple(kinds)
    return (replace(kinds[0], shape=kinds[0].shape._replace(neighbors=True)),)


# The weights that have a row, or a number, for each column of the attributes of a type, whose number may be named.
_BY_COLUMN = re.compile(r"scales\.(\d+)\.\w+|encoders\.\w+\.input\.(?:(?:own|around)\.(\d+)\.)?(?:first\.)?weight")


def kind_of_columns(name: str) -> int | None:
    """Which kind has the columns that the rows of a weight are for; None where they are for none."""
    found = _BY_COLUMN.fullmatch(name)
    return None if found is None else int(found[1] or found[2] or 0)


def empty_of(shape: InputShape, rows: int = 0) -> Any:
    """(rows, D) attributes of nodes that have none of them."""
    size = (rows, shape.width)
    return sp.csr_array(size, dtype=np.float32) if shape.sparse else np.zeros(size, np.float32)


def kinds_of(
    shapes: dict[str, InputShape], config: ModelConfig, modules: dict[str, nn.Module] | None = None
) -> list[Kind]:
    """The types of nodes with these shapes, by name, each with its part of the configuration; "" is the only one."""
    parts, found = config.encoders(), []
    unknown = [name for name in parts if name and name not in shapes]
    if unknown:
        known = ", ".join(repr(name) for name in shapes if name)
        there = f"the graph's types are {known}" if known else "no type of the graph has attributes of its own"
        raise InputError(f"an encoder is given for type {unknown[0]!r}; {there}")
    for name, shape in shapes.items():
        part = parts.get(name, Identity() if shape.by_node else parts[""])
        if shape.by_node and part == MLP():
            part = Identity()
        # Pixels, or what a user's module reads, would not be found again among hashed columns.
        wide = hashed(shape, config) if isinstance(part, MLP | Identity) else shape
        kind = Kind(name, wide, part, _module(name, part, modules or {}))
        if shape.by_node and part != Identity():
            raise InputError(f"{kind.whose()} has nothing to encode: nodes have no attributes; leave it out")
        if isinstance(part, Image):
            part.check_width(shape.width, kind.whose())
        found.append(kind)
    if config.n_hashed_features is not None and not any(shape.sparse for shape in shapes.values()):
        raise InputError("n_hashed_features is for sparse attributes, but these are dense; leave it out")
    return found


def _module(name: str, part: EncoderSpec, modules: dict[str, nn.Module]) -> nn.Module | None:
    if not isinstance(part, CustomEncoder):
        return None
    found = modules.get(name, modules.get(""))
    if found is None:
        raise InputError(
            f"the encoder is a module of your own ({part.name}), whose code is not in the file: load the model in "
            f"Python, with {part.name}(...) as the encoder of glace.load, made as before"
        )
    return found


def hashed(shape: InputShape, config: ModelConfig) -> InputShape:
    """The shape with sparse columns hashed, if that is wanted."""
    return shape._replace(hashed=config.n_hashed_features or 0) if shape.sparse else shape
