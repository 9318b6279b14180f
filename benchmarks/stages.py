"""A step of training taken one stage at a time, each under the clock."""

import time
from dataclasses import dataclass, field
from typing import Any

from glace.config.config import METHODS
from glace.estimators import GLACE
from glace.graph.graph import Graph
from glace.model.inputs import NodeInputs
from glace.model.layers import SparseInput, SparseRowGradient, sparse_inputs
from glace.model.network import Branch, EdgeBatch, Network, branch_loss
from glace.sampling.edges import EdgeSampler
from glace.training.loop import Trainer, input_mask
from glace.training.optimizer import Optimizer
from glace.training.train import initial_options, training_task

STAGES = ("draw", "input rows", "sparse forward", "dense forward", "dense backward", "optimizer")


def trainer_of(graph: Graph, model: GLACE) -> Trainer:
    """The run that `model.fit(graph)` would make, without trials and held-out edges."""
    settings = model.config().replace(validation_fraction=0.0)
    settings = settings.replace(**initial_options(settings.model, graph.has_attributes))
    measure = settings.model.resolved_dissimilarity(graph.directed, METHODS[model.method].gaussian)
    return training_task(graph, settings, measure, None).trainer(settings)


def take_steps(trainer: Trainer, count: int) -> None:
    """Train for some steps as a fit does, with all threads that are set."""
    with trainer._threads():
        for _ in range(count):
            trainer._steps(1)


class Stopwatch:
    """One stage runs at any time; a switch to another adds the time since the last switch to the one that ran."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._stage, self._since = "", 0.0

    def switch(self, stage: str) -> None:
        """End the stage that runs and begin another; the empty name is none."""
        now = time.perf_counter()
        if self._stage:
            self.seconds[self._stage] += now - self._since
        self._stage, self._since = stage, now


@dataclass(frozen=True)
class Sizes:
    """What a step works on: R distinct nodes, Z non-zeros in their rows, C distinct columns among these."""

    rows: int
    non_zeros: int
    columns: int


@dataclass
class Step:
    """One step: what it took, what it worked on, and its loss."""

    seconds: dict[str, float]
    sizes: Sizes
    loss: float


@dataclass
class StagedSteps:
    """The steps of `glace.training.loop.Trainer`, to the same bits; a test compares the two."""

    network: Network
    inputs: NodeInputs
    sampler: EdgeSampler
    branches: list[tuple[Branch, Optimizer]]
    learning_rate: float
    total_steps: float
    watch: Stopwatch = field(default_factory=Stopwatch)
    touched: float = 0.0

    def __post_init__(self) -> None:
        self.layers = [layer for _, layer in sparse_inputs(self.network) if isinstance(layer, SparseInput)]
        assert self.layers, "stages are those of compiled kernels"

    def step(self, number: int) -> Step:
        """Take the step of this number, from 0."""
        self.watch, self.touched = Stopwatch(), 0.0
        hooks = [hook for layer in self.layers for hook in self._watched(layer)]
        self.watch.switch("draw")
        batch = self.sampler.batch(number)
        nodes, places = batch.distinct()
        self.watch.switch("input rows")
        rows = self.inputs.rows(nodes, input_mask(self.network, self.sampler, batch, number, self.total_steps))
        parts = places.anchors, places.targets, places.negatives, batch.allowed
        edges, value = EdgeBatch(*parts, self.sampler.config.n_negatives), 0.0
        for branch, optimizer in self.branches:
            self.watch.switch("dense forward")
            loss = branch_loss(self.network, branch, rows, edges)
            value += loss.item()
            self.watch.switch("dense backward")
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.watch.switch("optimizer")
            optimizer.step(number + 1, self.learning_rate)
        self.watch.switch("")
        for hook in hooks:
            hook.remove()
        matrices: list[Any] = [*rows.own, *rows.neighbors]
        non_zeros = sum(int(each.nnz) for each in matrices)
        return Step(self.watch.seconds, Sizes(len(nodes), non_zeros, round(self.touched)), value)

    def _watched(self, layer: SparseInput) -> list[Any]:
        """Let the clock know when a sparse layer, which others call, is at work."""
        found = SparseInput.touched

        def touched() -> SparseRowGradient:
            entries = found(layer)
            self.touched += len(entries.rows) / len(self.branches)
            return entries

        vars(layer)["touched"] = touched
        return [
            layer.register_forward_pre_hook(lambda *_: self.watch.switch("sparse forward")),
            layer.register_forward_hook(lambda *_: self.watch.switch("dense forward")),
        ]


def staged(trainer: Trainer) -> StagedSteps:
    """The steps of this run."""
    parts, rate = list(trainer.branches.values()), trainer.config.learning_rate
    return StagedSteps(trainer.network, trainer.inputs, trainer.sampler, parts, rate, trainer.total_steps)
