"""What training hands over: progress and history, the selected options, and the trained network.

Nothing here imports torch before a network is needed, so that questions about known nodes do without it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from glace.blocks import blocks
from glace.config.config import Config, CustomEncoder
from glace.errors import FormatError, InputError
from glace.gaussian.dissimilarity import Gaussian
from glace.graph.graph import Graph, NodeType
from glace.queries.certainty import Allocator
from glace.sparse import Matrix
from glace.storage.container import Arrays

if TYPE_CHECKING:
    from torch import nn

    from glace.model.inputs import InputShape, InputType, NodeInputs
    from glace.model.network import Network

    EncoderModules = nn.Module | Mapping[str, nn.Module]


OptionValue = float | int | str | bool | None
EachBlock = Callable[[Callable[[slice], Arrays], Iterable[slice]], Iterable[Arrays]]
"""Calls a function for each block of rows and returns all results in order, as `map` does."""


@dataclass(frozen=True)
class Progress:
    """The state of a run after a step; `done` is the completed fraction of the whole work, 0 to 1.

    A step is counted within its stage, of `steps`, which is infinite if only the time is limited.
    """

    step: int
    steps: float
    done: float
    loss: float
    learning_rate: float
    edges_per_second: float
    validation_auc: float | None
    stage: str = "training"


Listener = Callable[[Progress], None]
"""Called after every few steps. It must not change anything."""


def part_of(listener: Listener | None, begin: float, end: float, stage: str) -> Listener | None:
    """Return a listener for a stage of the work, which takes it from the fraction `begin` to `end`."""
    if listener is None:
        return None
    report = listener
    return lambda progress: report(replace(progress, done=begin + (end - begin) * progress.done, stage=stage))


@dataclass(frozen=True)
class ValidationPoint:
    """Validation results after `step` steps; `loss` is None before the first step."""

    step: int
    loss: float | None
    auc: float
    ap: float


@dataclass
class History:
    """Validation results and training time of a run."""

    step: int = 0
    """Steps taken."""
    seconds: float = 0.0
    """Training time, summed over interrupted and resumed parts."""
    loss: float | None = None
    """Loss of the last step."""
    validation_points: list[ValidationPoint] = field(default_factory=list)
    since_best: int = 0
    """Validations since the best one."""

    @property
    def best(self) -> ValidationPoint | None:
        """The validation with the highest AUC; the earliest of equals."""
        return max(self.validation_points, key=lambda point: (point.auc, -point.step), default=None)

    def add(self, point: ValidationPoint) -> bool:
        """Append a validation result and return whether it is the best so far."""
        self.validation_points.append(point)
        self.since_best = 0 if self.best is point else self.since_best + 1
        return self.since_best == 0

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "History":
        """Rebuild from the result of `asdict`."""
        points = [ValidationPoint(**point) for point in values["validation_points"]]
        return cls(**{**values, "validation_points": points})


@dataclass(frozen=True)
class Trial:
    """A short training run: the option it changed, the new value, its validation AUC, and whether it was kept."""

    option: str
    value: OptionValue
    auc: float
    kept: bool


@dataclass(frozen=True)
class Selection:
    """The values selected for options that were `auto`, and the trials behind them."""

    options: dict[str, OptionValue]
    trials: tuple[Trial, ...] = ()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Selection":
        """Rebuild from the result of `asdict`."""
        return cls(dict(values["options"]), tuple(Trial(**trial) for trial in values["trials"]))


@dataclass(frozen=True, eq=False)
class NetworkState:
    """Everything needed to build a trained network: its weights by name, and what determines its shape.

    `encoder` is the user's torch module, or a mapping from node type to module, if the model was trained with one:
    a file holds the weights of such a module but not its code.
    """

    weights: Arrays
    config: Config
    dissimilarity: str
    node_types: tuple[NodeType, ...]
    encoder: "EncoderModules | None" = None
    source: str = "the model"
    """Where the weights come from, for error messages."""

    @cached_property
    def network(self) -> "Network":
        """The network, built on first use."""
        from glace.model.network import Network, input_types

        modules = _required_modules(self.config, self.encoder)
        shapes = {node_type.name: input_shape(node_type) for node_type in self.node_types}
        types = input_types(shapes, self.config.model, modules)
        self._check_sizes(types)
        network = Network(types, self.config.model, self.dissimilarity, self.config.streams)
        try:
            network.set_weights(self.weights)
        except RuntimeError as problem:
            if modules:
                message = f"the weights in {self.source} do not fit the given encoder; create it as it was for training"
                raise InputError(message) from problem
            raise FormatError(f"{self.source} is not a usable model file: its weights do not fit") from problem
        network.check_modules([each.empty(rows=1) for each in network.types])
        return network

    def _check_sizes(self, types: "Sequence[InputType]") -> None:
        """Raise unless weights have the stated sizes, before anything of the stated size is allocated."""
        from glace.model.layers import scaled_columns
        from glace.model.network import column_weights

        for name, code in column_weights(types, self.config.model).items():
            if name not in self.weights:
                raise FormatError(f"{self.source} is not a usable model file: weights of a node type are missing")
            shape, found = types[code].shape, self.weights[name].shape
            rows = scaled_columns(shape) if name.startswith("scales.") else shape.columns
            if found[:1] != (rows,):
                raise FormatError(
                    f"{self.source} is not a usable model file: the weights {name} have the shape {found}, "
                    "not the stated one"
                )

    @classmethod
    def of(cls, network: "Network", config: Config, node_types: tuple[NodeType, ...]) -> "NetworkState":
        """Wrap a trained network."""
        modules = {each.name: each.module for each in network.types if each.module is not None}
        state = cls(network.weights(), config, network.measure.name, node_types, modules or None)
        vars(state)["network"] = network
        return state


def _required_modules(config: Config, encoder: "EncoderModules | None") -> "dict[str, nn.Module]":
    """Return the user's modules by node type; raise unless they are those that the model was trained with."""
    required = {name: part for name, part in config.model.encoders().items() if isinstance(part, CustomEncoder)}
    given = dict(encoder) if isinstance(encoder, Mapping) else {} if encoder is None else {"": encoder}
    for name, part in required.items():
        module = given.get(name, given.get(""))
        if module is None:
            shown = f"{part.name}(...)" if name == "" else f"{{{name!r}: {part.name}(...)}}"
            raise InputError(
                f"the model was trained with a custom encoder, {part.name}, whose code is not in the file; pass the "
                f"module again in Python, created as it was for training: glace.load(path, encoder={shown})"
            )
        if type(module).__name__ != part.name:
            raise InputError(f"the model was trained with an encoder of class {part.name}, not {type(module).__name__}")
    if not required and given:
        raise InputError("the model was trained without a custom encoder; leave encoder= out")
    return given


def input_shape(node_type: NodeType) -> "InputShape":
    """Return the shape of the encoder's input for nodes of a type."""
    from glace.model.inputs import InputShape

    width, one_hot = node_type.width or node_type.count, node_type.width is None
    return InputShape(width, node_type.sparse, one_hot=one_hot, scaling=node_type.scaling)


def graph_inputs(network: "Network", graph: Graph) -> "NodeInputs":
    """Return the network's inputs for all nodes of a graph; neighbours are taken in both edge directions."""
    adjacency = graph.neighborhoods() if network.neighbors else graph.adjacency
    types = graph.by_type()
    return network.inputs(types.features(), adjacency, types.locate)


def embed_all(
    network: "Network", inputs: "NodeInputs", allocate: Allocator, each: "EachBlock" = map
) -> tuple[Gaussian, Gaussian | None]:
    """Return the Gaussians of all nodes and, for second-order proximity, their contexts.

    The results are written block by block into arrays that `allocate` creates. A block has as many rows as
    `Network.embed` encodes at a time, so the bits do not depend on the number of blocks. `each` computes all blocks,
    in order, like `map`.
    """
    from glace.model.network import ENCODE_ROWS

    parts, results = list(blocks(len(inputs), ENCODE_ROWS)), Arrays()
    for rows, matrices in zip(parts, each(partial(_embedded, network, inputs), parts), strict=True):
        if not results:
            results = {
                name: allocate((len(inputs), matrix.shape[1]), matrix.dtype) for name, matrix in matrices.items()
            }
        for name, matrix in matrices.items():
            results[name][rows] = matrix
    own = Gaussian(results["mean"], results.get("variance"))
    has_context = "context_mean" in results
    return own, Gaussian(results["context_mean"], results.get("context_variance")) if has_context else None


def _embedded(network: "Network", inputs: "NodeInputs", rows: slice) -> Arrays:
    """Return the Gaussians of some nodes as arrays by name."""
    own, context = network.embed(inputs, np.arange(rows.start, rows.stop))
    found = {"mean": own.mean, "variance": own.variance}
    if context is not None:
        found |= {"context_mean": context.mean, "context_variance": context.variance}
    return {name: array for name, array in found.items() if array is not None}


def standardized(network: "Network", code: int, attributes: Matrix) -> Matrix:
    """Return measurements of a node type as the encoder standardizes them; attributes that are counted as they are."""
    return attributes if network.types[code].shape.counted else network.scaled(code, attributes)
