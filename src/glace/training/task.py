"""One fit on one graph: what is trained on, what it is judged by, and the trials that settle open options."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from glace.config.config import Config, ModelConfig
from glace.config.encoders import Identity
from glace.errors import InputError
from glace.fitted.history import Listener, Progress
from glace.gaussian.embedding import PlattScaling
from glace.graph.graph import Graph
from glace.graph.node_types import NodeType
from glace.graph.split import HeldOut, hold_out
from glace.model.input_layers import InputShape
from glace.model.inputs import NodeInputs
from glace.model.network import Network
from glace.model.node_types import kinds_of
from glace.queries.calibration import Calibration, cross_validated_calibration, fit_platt_scaling
from glace.sampling.edges import EdgeSampler
from glace.training.loop import Trainer, total_steps
from glace.training.selection import (
    GIVEN_UP,
    MOST_TRIAL_STEPS,
    TRIAL_SECONDS,
    TRIAL_SHARE,
    Selection,
    TrialResult,
    choose,
    first_choice,
    rivals,
)
from glace.training.validation import MOST_PAIRS, Validation


@dataclass(frozen=True)
class TrainingTask:
    """The edges to train on, and held-out pairs to judge by."""

    graph: Graph
    settings: Config
    measure: str
    sampler: EdgeSampler
    held_out: HeldOut | None
    validation: Validation | None
    """Those of the held-out pairs that are looked at."""
    compiled: bool = True
    """Whether the CPU's kernels are used, where that is the device."""
    modules: dict[str, nn.Module] = field(default_factory=dict)
    """Encoders of the user's own, by type of node, "" for all that are not named."""

    @classmethod
    def of(
        cls,
        graph: Graph,
        settings: Config,
        measure: str,
        held_out: HeldOut | None,
        modules: dict[str, nn.Module] | None = None,
    ) -> "TrainingTask":
        """TrialResult by the held-out pairs if given, else by a share of the graph's edges, which are taken out."""
        share, streams = settings.training.validation_fraction, settings.streams
        if held_out is None and share > 0:
            graph, held_out = hold_out(graph, share, streams.numpy("validation"), MOST_PAIRS // 2)
        sampler, sample = EdgeSampler(graph, settings.sampling, streams), streams.numpy("validation sample")
        validation = None if held_out is None else Validation.of(held_out, sample)
        return cls(graph, settings, measure, sampler, held_out, validation, modules=modules or {})

    def choose(self, listener: Listener | None) -> tuple[Selection, TrialResult | None]:
        """Settle the open options, and the trial that won; without held-out edges, as most graphs have them."""
        has_attributes = self.graph.has_attributes
        if self.validation is None:
            return Selection(first_choice(self.settings.model, has_attributes)), None
        trials = 1 + len(rivals(self.settings.model, has_attributes))
        parts = iter(range(trials))

        def judge(settings: Config, best: TrialResult | None) -> TrialResult:
            return self._trial(settings, best, part_of(listener, next(parts), trials))

        return choose(self.settings, has_attributes, judge)

    def _trial(self, settings: Config, best: TrialResult | None, listener: Listener | None) -> TrialResult:
        assert self.validation is not None
        seconds = settings.training.max_seconds
        steps = min(total_steps(settings.training, self.sampler) * TRIAL_SHARE, MOST_TRIAL_STEPS)
        short = {
            "max_seconds": None if seconds is None else seconds * TRIAL_SECONDS,
            "max_steps": max(round(steps), 1),
            "max_epochs": None,
        }
        trainer = self.trainer(settings.replace(**short))
        validation_points: dict[int, npt.NDArray[np.float64]] = {}

        def is_hopeless(near: npt.NDArray[np.float64]) -> bool:
            step = trainer.history.step
            validation_points[step] = near
            return best is not None and trainer.done() >= GIVEN_UP and best.is_far_ahead_of(near, step)

        trainer.run(listener, is_hopeless=is_hopeless)
        near = self.validation.near(trainer.network, trainer.inputs)
        return TrialResult(trainer.network.weights(), near, self.validation.truth, validation_points)

    def odds(self, trainer: Trainer) -> tuple[PlattScaling, Calibration | None]:
        """The probability of an edge after this run, and what it is worth, as held-out edges tell.

        Without any, it is as training left it.
        """
        as_trained = PlattScaling(trainer.network.offset())
        if self.validation is None:
            return as_trained, None
        far, truth = -self.validation.near(trainer.network, trainer.inputs), self.validation.truth
        return fit_platt_scaling(far, truth) or as_trained, cross_validated_calibration(far, truth)

    def trainer(self, settings: Config) -> Trainer:
        """A run from the start, with settings that leave nothing open."""
        network = self.network(settings)
        inputs = inputs_of(network, self.graph)
        return Trainer(network, inputs, self.sampler, self.validation, settings.training)

    def network(self, settings: Config) -> Network:
        """One that has seen nothing of the graph but the scale of its attributes."""
        device = checked_device(settings.run.device)
        compiled = self.compiled and device == "cpu"
        kinds = kinds_of(shapes_of(self.graph), settings.model, self.modules)
        network = Network(kinds, settings.model, self.measure, settings.streams, device, compiled)
        matrices = self.graph.by_type().features()
        network.standardize(matrices)
        network.check_modules(matrices)
        return network


def shapes_of(graph: Graph) -> dict[str, InputShape]:
    """What the nodes of each type look like; "" where they are of one."""
    return {part.name: shape_of(part) for part in graph.by_type().types}


def shape_of(part: NodeType) -> InputShape:
    """What nodes with these attributes look like."""
    return InputShape(part.width or part.count, part.sparse, by_node=part.width is None)


def inputs_of(network: Network, graph: Graph) -> NodeInputs:
    """What the network is given of the graph's nodes; neighbours are so whichever way an edge points."""
    adjacency = graph.neighborhoods() if network.neighbors else graph.adjacency
    types = graph.by_type()
    return network.inputs(types.features(), adjacency, types.type_codes, types.rows)


def with_identities(graph: Graph, config: ModelConfig) -> Graph:
    """Return the graph without the attributes of node types whose encoder is `Identity`."""
    encoders = config.encoders()
    return graph.with_types(
        [
            each.without_attributes() if isinstance(encoders.get(each.name, encoders[""]), Identity) else each
            for each in graph.by_type().types
        ]
    )


def checked_device(name: str) -> str:
    """The name of a device that torch can use here."""
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not here[name]:
        found = ", ".join(each for each, is_here in here.items() if is_here)
        raise InputError(f"torch sees no device {name!r} on this machine; there is {found}")
    return name


def part_of(listener: Listener | None, part: int, parts: int) -> Listener | None:
    """A listener for one of several trials, that hears of all of them as of one."""
    if listener is None:
        return None
    tell: Callable[[Progress], None] = listener
    return lambda progress: tell(replace(progress, done=(part + progress.done) / parts, stage="trials"))
