"""Node types as a network sees them: the shape of their attributes and the encoder for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from torch import nn

from glace.config.config import ModelConfig
from glace.config.encoders import MLP, CustomEncoder, EncoderSpec, Identity, Image
from glace.errors import InputError
from glace.model.input_layers import InputShape
from glace.sparse import Matrix


@dataclass(frozen=True, eq=False)
class InputType:
    """A node type: its name, the shape of its attributes, and its encoder, with the user's module if it is custom."""

    name: str
    shape: InputShape
    encoder: EncoderSpec = field(default_factory=MLP)
    module: nn.Module | None = None

    def title(self) -> str:
        """Return what error messages call the encoder."""
        return "the encoder" if self.name == "" else f"the encoder of type {self.name!r}"

    def empty(self, rows: int = 0) -> Matrix:
        """Return attributes (rows, D) that are all 0."""
        size = (rows, self.shape.width)
        return sp.csr_array(size, dtype=np.float32) if self.shape.sparse else np.zeros(size, np.float32)


def input_types(
    shapes: Mapping[str, InputShape], config: ModelConfig, modules: Mapping[str, nn.Module] | None = None
) -> list[InputType]:
    """Return the node types with these shapes, by name, each with its encoder; the only type of a graph is ""."""
    encoders = config.encoders()
    unknown = [name for name in encoders if name and name not in shapes]
    if unknown:
        known = ", ".join(repr(name) for name in shapes if name)
        present = f"the graph's types are {known}" if known else "no type of the graph has attributes of its own"
        raise InputError(f"there is an encoder for type {unknown[0]!r}, but {present}")
    if config.n_hashed_features is not None and not any(shape.sparse for shape in shapes.values()):
        raise InputError("n_hashed_features is for sparse attributes, but these are dense; leave it out")
    return [_input_type(name, shape, config, encoders, modules or {}) for name, shape in shapes.items()]


def _input_type(
    name: str,
    shape: InputShape,
    config: ModelConfig,
    encoders: Mapping[str, EncoderSpec],
    modules: Mapping[str, nn.Module],
) -> InputType:
    encoder = encoders.get(name, Identity() if shape.one_hot else encoders[""])
    if shape.one_hot and encoder == MLP():
        encoder = Identity()
    # Hashing would scramble the pixels of an image, or whatever a user's module reads.
    if shape.sparse and isinstance(encoder, MLP | Identity):
        shape = shape._replace(hashed=config.n_hashed_features or 0)
    module = _module(name, encoder, modules) if isinstance(encoder, CustomEncoder) else None
    found = InputType(name, shape, encoder, module)
    if shape.one_hot and encoder != Identity():
        raise InputError(f"{found.title()} has nothing to encode, because the nodes have no attributes; leave it out")
    if isinstance(encoder, Image):
        encoder.check_width(shape.width, found.title())
    return found


def _module(name: str, encoder: CustomEncoder, modules: Mapping[str, nn.Module]) -> nn.Module:
    found = modules.get(name, modules.get(""))
    if found is None:
        raise InputError(
            f"the encoder is your own module, {encoder.name}, whose code is not in the file; load the model in Python "
            f"and pass the module as it was for the fit: glace.load(path, encoder={encoder.name}(...))"
        )
    return found


def column_weights(types: Sequence[InputType], config: ModelConfig) -> dict[str, int]:
    """Return the names of the weights with one row per attribute column, each with the index of its node type."""
    found = {f"scales.{code}.{name}": code for code in range(len(types)) for name in ("shift", "scale")}
    for role in roles(config):
        for code, each in enumerate(types):
            layer = f"encoders.{role}.input.own.{code}"
            if isinstance(each.encoder, MLP | Identity):
                deep = isinstance(each.encoder, MLP) and each.encoder.layers
                found[f"{layer}.first.weight" if deep else f"{layer}.weight"] = code
            if config.neighbor_features == "mean":
                found[f"encoders.{role}.input.neighbors.{code}.weight"] = code
    return found


def proximities(config: ModelConfig) -> tuple[str, ...]:
    """Return the proximities that a network learns: `first`, `second`, or both."""
    return ("first", "second") if config.proximity == "both" else (config.proximity,)


def roles(config: ModelConfig) -> tuple[str, ...]:
    """Return the roles with an encoder of their own: one per proximity, and the `context` of the second-order one."""
    learned = proximities(config)
    return (*learned, "context") if "second" in learned else learned
