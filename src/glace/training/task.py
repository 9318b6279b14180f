"""A training task: the graph without its validation edges, the sampler, and the validation pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from glace.config.config import Config
from glace.errors import InputError
from glace.fitted.network import graph_inputs, input_shape
from glace.gaussian.dissimilarity import roles
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, hold_out
from glace.model.inputs import InputMask, NodeInputs
from glace.model.network import Network, input_types
from glace.sampling.edges import EdgeSampler
from glace.training.drift import DriftPenalty
from glace.training.loop import Trainer

MAX_VALIDATION_PAIRS = 6_000
"""Validation pairs that are scored. With this many, an AUC of 0.99 has a standard error of 0.001."""
MAX_VALIDATION_NEIGHBORS = 20
"""Neighbours that are averaged for a node of a validation pair: more of a hub's thousands would not change its mean."""


@dataclass(frozen=True)
class Validation:
    """Validation pairs: `pairs` (P, 2) holds positions in `nodes`, the distinct nodes; `truth` (P,) marks the edges."""

    nodes: npt.NDArray[np.int64]
    pairs: npt.NDArray[np.int64]
    truth: npt.NDArray[np.bool_]

    @classmethod
    def sample(cls, held_out: HeldOut, generator: np.random.Generator) -> "Validation":
        """Draw at most `MAX_VALIDATION_PAIRS` of the held-out pairs uniformly, half of them edges."""
        limit = MAX_VALIDATION_PAIRS // 2
        kept = HeldOut(*(generator.permutation(pairs)[:limit] for pairs in (held_out.edges, held_out.non_edges)))
        nodes, pairs = np.unique(kept.pairs(), return_inverse=True)
        return cls(nodes, pairs.reshape(-1, 2), kept.truth())

    def scores(self, network: Network, inputs: NodeInputs) -> npt.NDArray[np.float64]:
        """Return the score (P,), minus the dissimilarity, of each pair; FloatingPointError if one is not finite."""
        mask = InputMask(0, 0.0, 0.0, np.empty((0, 2), np.int64), MAX_VALIDATION_NEIGHBORS)
        ends = roles(network.measure, *network.embed(inputs, self.nodes, mask))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = -network.measure.direct(ends.source[self.pairs[:, 0]], ends.target[self.pairs[:, 1]])
        if not np.isfinite(scores).all():
            raise FloatingPointError
        return np.asarray(scores)


@dataclass(frozen=True)
class TrainingTask:
    """What a training run and its trials share. All of it is fixed before the first step."""

    graph: Graph
    """The graph to train on, without the validation edges."""
    config: Config
    dissimilarity: str
    sampler: EdgeSampler
    held_out: HeldOut | None
    """All held-out pairs; None if nothing is held out."""
    validation: Validation | None
    """The held-out pairs that are scored during training."""
    compiled: bool = True
    """Whether the compiled kernels are used if the device is the CPU."""
    modules: Mapping[str, nn.Module] = field(default_factory=dict)
    """Custom encoders by node type; "" stands for all types that are not named."""

    def trainer(self, config: Config, drift_penalty: DriftPenalty | None = None) -> Trainer:
        """Return a run from initial weights, with a configuration that leaves no option `auto`."""
        network = self.network(config)
        inputs = graph_inputs(network, self.graph)
        return Trainer(network, inputs, self.sampler, self.validation, config.training, drift_penalty)

    def network(self, config: Config) -> Network:
        """Return an untrained network; it knows the scale of the attributes."""
        device = checked_device(config.run.device)
        compiled = self.compiled and device == "cpu"
        types = self.graph.by_type()
        shapes = {node_type.name: input_shape(node_type) for node_type in types.types}
        made = input_types(shapes, config.model, self.modules)
        network = Network(made, config.model, self.dissimilarity, config.streams, device, compiled)
        matrices = types.features()
        network.standardize(matrices)
        network.check_modules(matrices)
        return network


def training_task(
    graph: Graph,
    config: Config,
    dissimilarity: str,
    validation: HeldOut | None = None,
    modules: Mapping[str, nn.Module] | None = None,
) -> TrainingTask:
    """Hold out validation edges, unless validation pairs are given, and prepare the sampler."""
    fraction, streams = config.training.validation_fraction, config.streams
    if validation is None and fraction > 0:
        # No more than are ever scored: the rest is better used for training.
        graph, validation = hold_out(graph, fraction, streams.numpy("validation"), MAX_VALIDATION_PAIRS // 2)
    scored = None if validation is None else Validation.sample(validation, streams.numpy("validation sample"))
    sampler = EdgeSampler(graph, config.sampling, streams)
    return TrainingTask(graph, config, dissimilarity, sampler, validation, scored, modules=modules or {})


def checked_device(name: str) -> str:
    """Return the name of the device if torch can use it here."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available[name]:
        found = ", ".join(each for each, is_available in available.items() if is_available)
        raise InputError(f"torch finds no device {name!r} on this machine; available: {found}")
    return name
