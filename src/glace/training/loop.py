"""A training run: draw a batch, take a step, validate from time to time, keep the best weights, write checkpoints.

The branches of a network share no weights: a step trains them side by side, each in one thread, while another thread
prepares the next batch. Threads wait for each other once per step, asleep, so that a busy machine does no harm.

Dense weights change by Adam; rows of a sparse input layer only in the steps whose batch touches them: by lazy Adam,
or by a row-wise RMSprop, which divides the gradient of a row by the running size of that row's gradients. It keeps one
number per row where Adam keeps two per weight, and a step moves a third of the bytes.
"""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from glace.config.config import TrainingConfig
from glace.errors import InputError, TrainingDiverged
from glace.fitted.state import History, Listener, Progress, ValidationPoint
from glace.gaussian.dissimilarity import roles
from glace.graph.split import HeldOut
from glace.kernels import sparse_layer
from glace.kernels.compile import threads
from glace.kernels.sparse_layer import SMALL
from glace.metrics import link_scores
from glace.model.inputs import InputMask, InputRows, NodeIndex, NodeInputs
from glace.model.layers import SparseInput, TorchSparseInput, sparse_inputs
from glace.model.network import ENCODE_ROWS, Branch, EdgeBatch, Network, Penalty, branch_loss
from glace.sampling.edges import Batch, EdgeSampler
from glace.storage import container
from glace.storage.container import Arrays

BETAS = (0.9, 0.999)


class RowOptimizer:
    """Updates the rows of one layer that the last backward pass touched.

    `moments` by name are everything that the next steps depend on.
    """

    moments: dict[str, Tensor]

    def step(self, number: int, learning_rate: float, /) -> None:
        """Take step `number`, counted from 1."""
        raise NotImplementedError


class RowwiseRMSprop(RowOptimizer):
    """Divides the gradient of a row by the running root mean square of the row's gradients; rows count their steps."""

    def __init__(self, layer: SparseInput) -> None:
        self.layer, rows = layer, len(layer.weight)
        self.moments = {
            "squares": torch.zeros(rows, dtype=torch.float64),
            "touches": torch.zeros(rows, dtype=torch.int64),
        }

    def step(self, _number: int, learning_rate: float) -> None:
        """Update the touched rows by a compiled kernel."""
        weight, squares, touches = (each.numpy() for each in (self.layer.weight, *self.moments.values()))
        sparse_layer.rmsprop_rows(*self.layer.touched(), weight, squares, touches, learning_rate, BETAS[1])


class LazyAdam(RowOptimizer):
    """Adam that updates the moments of a row only when a batch touches it."""

    def __init__(self, layer: SparseInput) -> None:
        self.layer = layer
        self.moments = {name: torch.zeros_like(layer.weight) for name in ("first", "second")}

    def step(self, number: int, learning_rate: float) -> None:
        """Update the touched rows by a compiled kernel."""
        rate = np.float32(learning_rate / (1 - BETAS[0] ** number))
        damping = np.float32((1 - BETAS[1] ** number) ** 0.5)
        weight, first, second = (each.numpy() for each in (self.layer.weight, *self.moments.values()))
        betas = np.array(BETAS, dtype=np.float32)
        sparse_layer.adam_rows(*self.layer.touched(), weight, first, second, rate, damping, betas)


class TorchRowwiseRMSprop(RowOptimizer):
    """`RowwiseRMSprop` in torch, for any device."""

    def __init__(self, layer: TorchSparseInput) -> None:
        self.weight = layer.weight
        self.moments = {name: torch.zeros_like(self.weight[:, 0]) for name in ("squares", "touches")}

    @torch.no_grad()
    def step(self, _number: int, learning_rate: float) -> None:
        """Update the touched rows."""
        rows, gradient = touched_rows(self.weight)
        squares, touches = self.moments.values()
        touches[rows] += 1
        squares[rows] = BETAS[1] * squares[rows] + (1 - BETAS[1]) * gradient.square().mean(1)
        size = (squares[rows] / (1 - BETAS[1] ** touches[rows])).sqrt()
        self.weight.index_add_(0, rows, -learning_rate * gradient / (size + SMALL)[:, None])


class TorchLazyAdam(RowOptimizer):
    """`LazyAdam` in torch, for any device."""

    def __init__(self, layer: TorchSparseInput) -> None:
        self.weight = layer.weight
        self.moments = {name: torch.zeros_like(self.weight) for name in ("first", "second")}

    @torch.no_grad()
    def step(self, number: int, learning_rate: float) -> None:
        """Update the touched rows."""
        rows, gradient = touched_rows(self.weight)
        first, second = self.moments.values()
        first[rows] = BETAS[0] * first[rows] + (1 - BETAS[0]) * gradient
        second[rows] = BETAS[1] * second[rows] + (1 - BETAS[1]) * gradient.square()
        size = (second[rows] / (1 - BETAS[1] ** number)).sqrt()
        rate = learning_rate / (1 - BETAS[0] ** number)
        self.weight.index_add_(0, rows, -rate * first[rows] / (size + SMALL))


def touched_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of a weight with a gradient, each once, and their gradients."""
    assert weight.grad is not None, "a backward pass comes first"
    gradient = weight.grad.coalesce()
    return gradient.indices()[0], gradient.values()


def row_optimizer(layer: SparseInput | TorchSparseInput, rmsprop: bool) -> RowOptimizer:
    """Return the optimizer of a layer's rows: row-wise RMSprop if wanted, unless each row belongs to one node.

    A row that belongs to one node sees few edges per step and needs Adam's momentum: with it the AUC of LINE on Cora-ML
    is 95.2, without 93.3. A row of an attribute does as well without.
    """
    rmsprop = rmsprop and not layer.one_hot
    if isinstance(layer, TorchSparseInput):
        return TorchRowwiseRMSprop(layer) if rmsprop else TorchLazyAdam(layer)
    return RowwiseRMSprop(layer) if rmsprop else LazyAdam(layer)


class Adam:
    """Adam for dense weights.

    torch's own takes two seconds to import, because it brings a compiler along.
    """

    def __init__(self, weights: dict[str, nn.Parameter]) -> None:
        self.weights = weights
        self.moments = {
            f"{name}/{moment}": torch.zeros_like(weight)
            for name, weight in weights.items()
            for moment in ("first", "second")
        }

    @torch.no_grad()
    def step(self, number: int, learning_rate: float) -> None:
        """Take step `number`, counted from 1; weights that the last backward pass did not reach stay."""
        rate, damping = learning_rate / (1 - BETAS[0] ** number), (1 - BETAS[1] ** number) ** 0.5
        for name, weight in self.weights.items():
            if weight.grad is None:
                continue
            first, second = self.moments[f"{name}/first"], self.moments[f"{name}/second"]
            first.lerp_(weight.grad, 1 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(weight.grad, weight.grad, value=1 - BETAS[1])
            weight.addcdiv_(first, second.sqrt().div_(damping).add_(SMALL), value=-rate)


class Optimizer:
    """Takes the steps of a network: Adam for dense weights, a `RowOptimizer` for each sparse input layer."""

    def __init__(self, network: nn.Module, rmsprop: bool = False) -> None:
        self.layers = dict(sparse_inputs(network))
        self.rows = {name: row_optimizer(layer, rmsprop) for name, layer in self.layers.items()}
        by_rows = {id(layer.weight) for layer in self.layers.values()}
        self.weights = list(network.parameters())
        self.dense = Adam(
            {
                name: weight
                for name, weight in network.named_parameters()
                if weight.requires_grad and id(weight) not in by_rows
            }
        )

    def zero_grad(self) -> None:
        """Discard the gradients of the last step."""
        for weight in self.weights:
            weight.grad = None

    def step(self, number: int, learning_rate: float) -> None:
        """Take step `number`, counted from 1, along the gradients of the last backward pass."""
        self.dense.step(number, learning_rate)
        for name, rows in self.rows.items():
            if self.layers[name].was_used():
                rows.step(number, learning_rate)

    def moments(self) -> dict[str, Tensor]:
        """Return the moments of all weights by name; the caller keeps the number of steps."""
        of_rows = {f"{name}/{key}": value for name, rows in self.rows.items() for key, value in rows.moments.items()}
        return self.dense.moments | of_rows


DEFAULT_STEPS, DEFAULT_EPOCHS = (300, 3000), 13
"""Length of a run if no limit is given: this many epochs, but at least and at most so many steps. A small graph is
overfitted long before 3,000 steps, which harms the embedding of new nodes. Test AUC of one split with other lengths:
Cora-ML 98.54 with 400 steps, 98.41 with 600 and 98.50 with 900; DBLP 99.19 with 1,500 (8 epochs) and 99.26 with 2,000
(11 epochs)."""
Scores = npt.NDArray[np.float64]
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


KIND, VERSION = "glace-checkpoint", 2


@dataclass(frozen=True)
class State:
    """A run between two steps. The sampler has no state: a batch depends on the number of its step only."""

    history: History
    weights: Arrays
    optimizer: Arrays
    best_weights: Arrays | None


@dataclass
class Checkpoints:
    """Writes the state of a run to `path`, at most every `seconds`.

    `identity` holds what the bits depend on besides the state: data, configuration, threads, versions.
    """

    path: Path
    identity: dict[str, Any]
    seconds: float = 10.0
    notes: dict[str, Any] = field(default_factory=dict)
    """Plain values of the caller, returned when the run is resumed."""
    last: float = field(default_factory=time.monotonic)
    """When the state was last written."""

    def offer(self, state: Callable[[], State]) -> None:
        """Write the state if it is time to."""
        if time.monotonic() - self.last >= self.seconds:
            self.save(state())
            self.last = time.monotonic()

    def save(self, state: State) -> None:
        """Write a state, completely or not at all."""
        groups = {"weights": state.weights, "optimizer": state.optimizer, "best": state.best_weights or {}}
        arrays = {f"{group}|{name}": array for group, named in groups.items() for name, array in named.items()}
        facts = {"identity": self.identity, "history": asdict(state.history), "notes": self.notes}
        container.write(self.path, KIND, VERSION, facts, arrays)

    def load(self) -> tuple[State, dict[str, Any]]:
        """Return the state and the notes of the file; raise if it belongs to another run, naming the differences."""
        metadata, arrays = container.read(self.path, KIND, VERSION)
        self._check_same(metadata["identity"])
        groups: dict[str, Arrays] = {"weights": {}, "optimizer": {}, "best": {}}
        for name, array in arrays.items():
            group, _, rest = name.partition("|")
            groups[group][rest] = array
        history = History.from_json(metadata["history"])
        state = State(history, groups["weights"], groups["optimizer"], groups["best"] or None)
        return state, metadata["notes"]

    def _check_same(self, written: dict[str, Any]) -> None:
        before, after = _flat(written), _flat(self.identity)
        different = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
        if different:
            shown = "; ".join(f"{key} was {before.get(key)!r} and is {after.get(key)!r}" for key in different[:5])
            raise InputError(
                f"cannot resume from {self.path}, which belongs to another run: {shown}. Use the same data, options "
                "and versions, or delete the file to start from the beginning"
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


class Trainer:
    """One training run on one graph. It trains the network in place and ends with the best weights in it."""

    def __init__(
        self,
        network: Network,
        inputs: NodeInputs,
        sampler: EdgeSampler,
        validation: Validation | None,
        config: TrainingConfig,
    ) -> None:
        self.network, self.inputs, self.sampler = network, inputs, sampler
        self.validation, self.config = validation, config
        self.penalty_of: Callable[[NodeIndex], Penalty] | None = None
        """Returns the penalty of the given anchors, which is added to the loss."""
        self.branches = {
            f"branches.{number}.": (branch, Optimizer(branch, rmsprop=True))
            for number, branch in enumerate(network.each_branch())
        }
        self.history = History()
        self.best_weights: Arrays | None = None
        self.total_steps = total_steps(config, sampler)
        self._next_batch: PreparedBatch | None = None
        self._pool: ThreadPoolExecutor | None = None

    def run(self, listener: Listener | None = None, checkpoints: Checkpoints | None = None) -> History:
        """Train to the end, from the start or from a restored state, and return the history."""
        for _ in self.validations(listener, checkpoints):
            pass
        return self.finish()

    def validations(self, listener: Listener | None = None, checkpoints: Checkpoints | None = None) -> Iterator[Scores]:
        """Train, and yield the scores of the validation pairs after each validation.

        A caller that stops iterating ends the run early. Call `finish` afterwards.
        """
        clock = _Clock(self.history)
        with self._threads():
            while not self._is_over():
                self._step()
                clock.tick()
                if self.history.step % self.config.validate_every == 0 or self._is_over():
                    scores = self._validate()
                    clock.tick()
                    if scores is not None:
                        yield scores
                if listener:
                    listener(self._progress(clock))
                if checkpoints:
                    checkpoints.offer(self.state)

    def finish(self) -> History:
        """Put the best weights into the network, check them, and return the history."""
        points = self.history.validation_points
        if not points or points[-1].step < self.history.step:
            self._validate()
        if self.best_weights is not None:
            self.network.set_weights(self.best_weights)
        self._check_finite()
        return self.history

    def _check_finite(self) -> None:
        # The loss was computed before the last update; without validation nothing has checked the result yet.
        own, context = self.network.embed(self.inputs, np.arange(min(len(self.inputs), ENCODE_ROWS)))
        matrices = [own.mean, own.variance, *((context.mean, context.variance) if context else ())]
        if not all(matrix is None or np.isfinite(matrix).all() for matrix in matrices):
            raise self._diverged("the Gaussians are not finite")

    def _diverged(self, problem: str) -> TrainingDiverged:
        return TrainingDiverged(
            f"{problem} at step {self.history.step + 1} with learning rate {self._learning_rate():.2g}; "
            "try a smaller learning rate, or attributes of a smaller scale"
        )

    def _step(self) -> None:
        step, rate = self.history.step, self._learning_rate()
        ready = self._next_batch if self._next_batch and self._next_batch.step == step else self._prepare(step)
        coming = self._pool.submit(self._prepare, step + 1) if self._pool else None
        with self._mode(step):
            each = (self._pool.map if self._pool else map)(partial(self._train, ready, rate), self.branches.values())
            self.history.loss = value = sum(each)
        if not math.isfinite(value):
            raise self._diverged(f"the loss is {value}")
        self.history.step += 1
        # Awaited within the step: validation must not use the inputs at the same time.
        self._next_batch = coming.result() if coming else None

    def _train(self, ready: "PreparedBatch", rate: float, part: tuple[Branch, Optimizer]) -> float:
        """Take a step with one branch, and return its loss."""
        branch, optimizer = part
        penalty = None if self.penalty_of is None else self.penalty_of(ready.nodes[ready.batch.anchors])
        loss = branch_loss(self.network, branch, ready.rows, ready.batch, penalty)
        value = loss.item()
        if math.isfinite(value):
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step(self.history.step + 1, rate)
        return value

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Train the branches in threads of their own, if there are several of both."""
        count = min(threads(), 1 + len(self.branches))
        if count == 1 or len(self.branches) == 1:
            yield
            return
        try:
            with ThreadPoolExecutor(count) as self._pool:
                yield
        finally:  # a caller may stop iterating
            self._pool = None

    @contextmanager
    def _mode(self, step: int) -> Iterator[None]:
        """Seed torch for dropout in this step, and restore its global generator afterwards."""
        if not self.network.has_modes:
            yield
            return
        self.network.train()
        devices = [self.network.device] if self.network.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int(self.sampler.streams.numpy("modules", step).integers(2**62)))
            yield

    def _prepare(self, step: int) -> "PreparedBatch":
        """Do everything for a step that does not depend on the weights."""
        sampled = self.sampler.batch(step)
        nodes, batch = sampled.distinct()
        rows = self.inputs.rows(nodes, input_mask(self.network, self.sampler, sampled, step, self.total_steps))
        parts = batch.anchors, batch.targets, batch.negatives, batch.allowed
        return PreparedBatch(step, nodes, EdgeBatch(*parts, self.sampler.config.n_negatives), rows)

    def _validate(self) -> Scores | None:
        """Score the validation pairs, if there are any, and keep the weights if they are the best so far."""
        if self.validation is None:
            return None
        try:
            scores = self.validation.scores(self.network, self.inputs)
        except FloatingPointError as problem:
            raise self._diverged("the Gaussians are not finite") from problem
        point = ValidationPoint(self.history.step, self.history.loss, *link_scores(scores, self.validation.truth))
        if self.history.add(point):
            self.best_weights = {name: value.copy() for name, value in self.network.weights().items()}
        return scores

    def _is_over(self) -> bool:
        return self.done() >= 1 or self.history.since_best >= self.config.patience

    def done(self) -> float:
        """Return the completed fraction of the run, 0 to 1, by whichever limit is closer."""
        limit = self.config.max_seconds
        by_time = 0.0 if limit is None else self.history.seconds / limit
        return min(max(self.history.step / self.total_steps, by_time), 1.0)

    def _learning_rate(self) -> float:
        if self.config.lr_schedule == "constant":
            return self.config.learning_rate
        return self.config.learning_rate * 0.5 * (1 + math.cos(math.pi * self.done()))

    def _progress(self, clock: "_Clock") -> Progress:
        points = self.history.validation_points
        assert self.history.loss is not None, "a step comes first"
        return Progress(
            step=self.history.step,
            done=self.done(),
            loss=self.history.loss,
            learning_rate=self._learning_rate(),
            edges_per_second=clock.steps_per_second() * self.sampler.config.batch_size,
            validation_auc=points[-1].auc if points else None,
        )

    def state(self) -> State:
        """Return everything that the rest of the run depends on."""
        moments = {name: moment.cpu().numpy() for name, moment in self._moments().items()}
        return State(self.history, self.network.weights(), moments, self.best_weights)

    def set_state(self, state: State) -> None:
        """Continue from a state that `state` returned."""
        self.history, self.best_weights = state.history, state.best_weights
        self.network.set_weights(state.weights)
        for name, moment in self._moments().items():
            moment.copy_(torch.from_numpy(np.array(state.optimizer[name])))

    def _moments(self) -> dict[str, Tensor]:
        """Return the moments of all optimizers by name."""
        return {
            prefix + name: moment
            for prefix, (_, optimizer) in self.branches.items()
            for name, moment in optimizer.moments().items()
        }


class PreparedBatch(NamedTuple):
    """A batch with the input rows of its distinct `nodes`; the batch holds positions in `nodes`."""

    step: int
    nodes: npt.NDArray[np.int64]
    batch: EdgeBatch
    rows: InputRows


ANNEALED_FROM, ANNEALED_STEPS = 0.5, 400
"""Annealed dropout falls linearly to 0 within this many steps, or within the first half of a shorter run. Test AUC of
one split with no dropout, 0.5 to the end, and annealed: Cora-ML 98.25, 97.97, 98.53; DBLP 99.15, 98.70, 99.14."""
FEW_EPOCHS = 5
"""A run with fewer epochs learns nothing by heart, and annealed dropout would only slow it down."""


def dropout_at(dropout: float | str, step: int, total: float, steps_per_epoch: float) -> float:
    """Return the dropout of a step of a run with this many steps."""
    if dropout != "annealed":
        return float(dropout)
    if total < FEW_EPOCHS * steps_per_epoch:
        return 0.0
    return ANNEALED_FROM * max(0.0, 1 - step / min(ANNEALED_STEPS, total / 2))


def input_mask(network: Network, sampler: EdgeSampler, batch: Batch, step: int, total: float) -> InputMask:
    """Return what this step of a run hides; the ends of its positive edges are hidden from each other."""
    config, generator = network.config, sampler.streams.numpy("input mask", step)
    pairs = np.column_stack([batch.anchors, batch.targets])
    dropout = dropout_at(config.dropout, step, total, sampler.steps_per_epoch)
    return InputMask(int(generator.integers(2**62)), dropout, config.neighbor_dropout, pairs)


class _Clock:
    """Adds the time of this part of a run to its history."""

    def __init__(self, history: History) -> None:
        self.history, self.before, self.first_step = history, history.seconds, history.step
        self.start = time.perf_counter()

    def tick(self) -> None:
        self.history.seconds = self.before + time.perf_counter() - self.start

    def steps_per_second(self) -> float:
        return (self.history.step - self.first_step) / max(self.history.seconds - self.before, 1e-9)


def total_steps(config: TrainingConfig, sampler: EdgeSampler) -> float:
    """Return the smaller of the limits in steps and epochs; if there is no limit at all, the default.

    An epoch draws as many edges as the graph has; an undirected edge counts in both directions.
    """
    if config.max_steps is None and config.max_epochs is None and config.max_seconds is None:
        return float(np.clip(math.ceil(DEFAULT_EPOCHS * sampler.steps_per_epoch), *DEFAULT_STEPS))
    in_epochs = math.inf if config.max_epochs is None else math.ceil(config.max_epochs * sampler.steps_per_epoch)
    return min(math.inf if config.max_steps is None else config.max_steps, in_epochs)
