"""The training loop: draw a batch, take a step, now and then look at held-out edges."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from glace.config.config import TrainingConfig
from glace.errors import TrainingDiverged
from glace.fitted.history import History, Listener, Progress, ValidationPoint
from glace.metrics import link_scores
from glace.model.inputs import InputMask, NodeInputs
from glace.model.loss import batch_loss
from glace.model.network import ENCODE_ROWS, Network
from glace.sampling.edges import Batch, EdgeSampler
from glace.training.checkpoint import Checkpoints, State
from glace.training.drift import DriftPenalty
from glace.training.optimizer import Optimizer
from glace.training.threads import cores
from glace.training.validation import Validation

DEFAULT_STEPS = 3000
DEFAULT_EPOCHS = 30
"""Where no limit is given, the nearer of the two: a small graph is learned by heart long before 3,000 steps, and what
it learns then is of no use for nodes it has not seen."""


class Trainer:
    """One run over one graph; `run` trains the network in place and leaves the best weights in it."""

    def __init__(
        self,
        network: Network,
        inputs: NodeInputs,
        sampler: EdgeSampler,
        validation: Validation | None,
        config: TrainingConfig,
        stay: DriftPenalty | None = None,
    ) -> None:
        self.network, self.inputs, self.sampler, self.stay = network, inputs, sampler, stay
        self.validation, self.config = validation, config
        self.optimizer = Optimizer(network, scaled=True)
        self.history = History()
        self.best_weights: dict[str, npt.NDArray[Any]] | None = None
        self.total_steps = total_steps(config, sampler)
        # Where a core is idle the next batch is prepared while this one computes; where none is, that would take as
        # much from the computing.
        self._ahead = ThreadPoolExecutor(1) if cores() > torch.get_num_threads() else None
        self._ready: Prepared | None = None

    def start_from(self, weights: dict[str, npt.NDArray[Any]], seconds: float) -> None:
        """Begin with weights that took so long already; they stay the best unless the run finds better ones."""
        self.network.set_weights(weights)
        self.history.seconds = seconds
        self._look()

    def run(
        self,
        listener: Listener | None = None,
        checkpoints: Checkpoints | None = None,
        is_hopeless: Callable[[npt.NDArray[np.float64]], bool] | None = None,
    ) -> History:
        """Train to the end, from the start or from where a checkpoint left off.

        `is_hopeless` is told after each look how near the held-out pairs are, and may end the run.
        """
        clock = _Clock(self.history)
        while not self._is_over():
            self._step()
            clock.tick()
            if self.history.step % self.config.validate_every == 0 or self._is_over():
                near = self._look()
                clock.tick()
                if is_hopeless and near is not None and is_hopeless(near):
                    break
            if listener:
                listener(self._progress(clock))
            if checkpoints:
                checkpoints.offer(self.state)
        if not self.history.validation_points or self.history.validation_points[-1].step < self.history.step:
            self._look()
        if self.best_weights is not None:
            self.network.set_weights(self.best_weights)
        self._check_finite()
        return self.history

    def _check_finite(self) -> None:
        # The loss is that before the last update, which nothing has looked at if there is no validation.
        own, context = self.network.embed(self.inputs, np.arange(min(len(self.inputs), ENCODE_ROWS)))
        parts = [own.mean, own.variance, *((context.mean, context.variance) if context else ())]
        if not all(part is None or np.isfinite(part).all() for part in parts):
            raise self._diverged("the Gaussians are not finite")

    def _diverged(self, what: str) -> TrainingDiverged:
        return TrainingDiverged(
            f"{what} at step {self.history.step + 1} with learning rate {self._learning_rate():.2g}; "
            "try a smaller learning rate, or attributes of a smaller scale"
        )

    def _step(self) -> None:
        step = self.history.step
        now = self._ready if self._ready and self._ready.step == step else self._prepare(step)
        coming = self._ahead.submit(self._prepare, step + 1) if self._ahead else None
        with self._mode(step):
            loss = batch_loss(
                self.network,
                now.rows,
                now.places.anchors,
                now.places.targets,
                now.places.negatives,
                now.places.allowed,
                self.sampler.config.n_negatives,
                None if self.stay is None else self.stay.of(now.nodes[now.places.anchors]),
            )
        self.history.loss = value = loss.item()
        if not math.isfinite(value):
            raise self._diverged(f"the loss is {value}")
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.history.step + 1, self._learning_rate())
        self.history.step += 1
        # Awaited within the step: nothing else may use the inputs meanwhile.
        self._ready = coming.result() if coming else None

    @contextmanager
    def _mode(self, step: int) -> Iterator[None]:
        """Modules that draw numbers draw those of this step, and leave torch's own generator as it was."""
        if not self.network.has_modes:
            yield
            return
        self.network.train()
        devices = [self.network.device] if self.network.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int(self.sampler.streams.numpy("modules", step).integers(2**62)))
            yield

    def _prepare(self, step: int) -> "Prepared":
        """All that can be done for a step before the last one is over."""
        batch = self.sampler.batch(step)
        nodes, places = batch.distinct()
        rows = self.inputs.rows(nodes, input_mask(self.network, self.sampler, batch, step))
        return Prepared(step, nodes, places, rows)

    def _look(self) -> npt.NDArray[np.float64] | None:
        """How near the held-out pairs are, if there are any; weights that are the best so far are kept."""
        if self.validation is None:
            return None
        try:
            near = self.validation.near(self.network, self.inputs)
        except FloatingPointError as problem:
            raise self._diverged("the Gaussians are not finite") from problem
        look = ValidationPoint(self.history.step, self.history.loss, *link_scores(near, self.validation.truth))
        if self.history.add(look):
            self.best_weights = {name: value.copy() for name, value in self.network.weights().items()}
        return near

    def _is_over(self) -> bool:
        return self.done() >= 1 or self.history.since_best >= self.config.patience

    def done(self) -> float:
        """Share of the run that is behind, 0 to 1, by whichever limit is nearer."""
        limit = self.config.max_seconds
        by_time = 0.0 if limit is None else self.history.seconds / limit
        return min(max(self.history.step / self.total_steps, by_time), 1.0)

    def _learning_rate(self) -> float:
        if self.config.lr_schedule == "constant":
            return self.config.learning_rate
        return self.config.learning_rate * 0.5 * (1 + math.cos(math.pi * self.done()))

    def _progress(self, clock: "_Clock") -> Progress:
        validation_points = self.history.validation_points
        assert self.history.loss is not None, "a step comes first"
        return Progress(
            step=self.history.step,
            done=self.done(),
            loss=self.history.loss,
            learning_rate=self._learning_rate(),
            edges_per_second=clock.steps_per_second() * self.sampler.config.batch_size,
            validation_auc=validation_points[-1].auc if validation_points else None,
        )

    def state(self) -> State:
        """All that the rest of the run depends on."""
        return State(self.history, self.network.weights(), self.optimizer.state(), self.best_weights)

    def set_state(self, state: State) -> None:
        """Go on from a state that `state` gave."""
        self.history, self.best_weights = state.history, state.best_weights
        self.network.set_weights(state.weights)
        self.optimizer.set_state(state.optimizer)


class Prepared(NamedTuple):
    """What a step works on: the input rows of its distinct nodes, and the batch in places among these."""

    step: int
    nodes: npt.NDArray[np.int64]
    places: Batch
    rows: Any


def input_mask(network: Network, sampler: EdgeSampler, batch: Batch, step: int) -> InputMask:
    """What this step hides."""
    config, generator = network.config, sampler.streams.numpy("veil", step)
    pairs = np.column_stack([batch.anchors, batch.targets])
    return InputMask(int(generator.integers(2**62)), float(config.dropout), config.neighbor_dropout, pairs)


class _Clock:
    """Adds the time of this part of the run to the history's."""

    def __init__(self, history: History) -> None:
        self.history, self.before, self.first_step = history, history.seconds, history.step
        self.start = time.perf_counter()

    def tick(self) -> None:
        self.history.seconds = self.before + time.perf_counter() - self.start

    def steps_per_second(self) -> float:
        return (self.history.step - self.first_step) / max(self.history.seconds - self.before, 1e-9)


def total_steps(config: TrainingConfig, sampler: EdgeSampler) -> float:
    """The smaller of the limits in steps and in epochs; without any limit, the default ones.

    An epoch is as many drawn edges as the graph has, an undirected one counted in both directions.
    """
    steps, epochs = config.max_steps, config.max_epochs
    if steps is None and epochs is None and config.max_seconds is None:
        steps, epochs = DEFAULT_STEPS, DEFAULT_EPOCHS
    an_epoch = sampler.positives.count / sampler.config.batch_size
    return min(math.inf if steps is None else steps, math.inf if epochs is None else math.ceil(epochs * an_epoch))
