"""A training run: draw a batch, take a step, validate from time to time, keep the best weights, write checkpoints.

Dense weights change by Adam; rows of a sparse input layer only in the steps whose batch touches them: by lazy Adam,
or by a row-wise RMSprop, which divides the gradient of a row by the running size of that row's gradients. It keeps one
number per row where Adam keeps two per weight, and a step moves a third of the bytes.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from glace.config.config import Config, TrainingConfig
from glace.errors import InputError, TrainingDiverged
from glace.fitted.state import History, Listener, Progress, ValidationPoint, graph_inputs, input_shape
from glace.gaussian.dissimilarity import roles
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, hold_out
from glace.kernels import sparse_layer
from glace.kernels.sparse_layer import SMALL
from glace.metrics import link_scores
from glace.model.inputs import InputMask, NodeIndex, NodeInputs
from glace.model.layers import SparseInput, TorchSparseInput, sparse_inputs
from glace.model.network import ENCODE_ROWS, Network, Penalty, batch_loss, cores, input_types
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


class Optimizer:
    """Takes the steps of a network: Adam for dense weights, a `RowOptimizer` for each sparse input layer."""

    def __init__(self, network: nn.Module, rmsprop: bool = False) -> None:
        self.layers = dict(sparse_inputs(network))
        self.rows = {name: row_optimizer(layer, rmsprop) for name, layer in self.layers.items()}
        by_rows = {id(layer.weight) for layer in self.layers.values()}
        self.dense = {
            name: weight
            for name, weight in network.named_parameters()
            if weight.requires_grad and id(weight) not in by_rows
        }
        self.weights = list(network.parameters())
        self.adam = torch.optim.Adam(self.dense.values(), betas=BETAS, fused=True)

    def zero_grad(self) -> None:
        """Discard the gradients of the last step."""
        for weight in self.weights:
            weight.grad = None

    def step(self, number: int, learning_rate: float) -> None:
        """Take step `number`, counted from 1, along the gradients of the last backward pass."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate
        self.adam.step()
        for name, rows in self.rows.items():
            if self.layers[name].was_used():
                rows.step(number, learning_rate)

    def state(self) -> Arrays:
        """Return the moments of all weights by name; the caller keeps the number of steps."""
        found = {}
        for name, weight in self.dense.items():
            for key, value in self.adam.state[weight].items():
                found[f"{name}/{key}"] = value.cpu().numpy()
        for name, rows in self.rows.items():
            found |= {f"{name}/{key}": value.cpu().numpy() for key, value in rows.moments.items()}
        return found

    def set_state(self, state: Arrays) -> None:
        """Restore the result of `state`."""
        parts: dict[str, Arrays] = {}
        for name, value in state.items():
            owner, _, key = name.rpartition("/")
            parts.setdefault(owner, {})[key] = np.array(value)
        for name, weight in self.dense.items():
            # Adam's step count, a scalar, stays on the CPU.
            for key, value in parts.get(name, {}).items():
                self.adam.state[weight][key] = torch.from_numpy(value).to(weight.device if value.ndim else "cpu")
        for name, rows in self.rows.items():
            for key, value in parts[name].items():
                rows.moments[key].copy_(torch.from_numpy(value))


DEFAULT_STEPS = 3000
DEFAULT_EPOCHS = 30
"""Limits that hold if none is given; the smaller one counts. A small graph is overfitted long before 3,000 steps, which
harms the embedding of new nodes."""
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
        self.optimizer = Optimizer(network, rmsprop=True)
        self.history = History()
        self.best_weights: Arrays | None = None
        self.total_steps = total_steps(config, sampler)
        # If a core is idle, it prepares the next batch during a step; otherwise that would slow the step down.
        self._worker = ThreadPoolExecutor(1) if cores() > torch.get_num_threads() else None
        self._next_batch: PreparedBatch | None = None

    def start_from(self, weights: Arrays, seconds: float) -> None:
        """Start from the weights of a trial that took `seconds`; they stay the best until the run finds better ones."""
        self.network.set_weights(weights)
        self.history.seconds = seconds
        self._validate()

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
        step = self.history.step
        ready = self._next_batch if self._next_batch and self._next_batch.step == step else self._prepare(step)
        coming = self._worker.submit(self._prepare, step + 1) if self._worker else None
        with self._mode(step):
            loss = batch_loss(
                self.network,
                ready.rows,
                ready.batch.anchors,
                ready.batch.targets,
                ready.batch.negatives,
                ready.batch.allowed,
                self.sampler.config.n_negatives,
                None if self.penalty_of is None else self.penalty_of(ready.nodes[ready.batch.anchors]),
            )
        self.history.loss = value = loss.item()
        if not math.isfinite(value):
            raise self._diverged(f"the loss is {value}")
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.history.step + 1, self._learning_rate())
        self.history.step += 1
        # Awaited within the step: validation must not use the inputs at the same time.
        self._next_batch = coming.result() if coming else None

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
        rows = self.inputs.rows(nodes, input_mask(self.network, self.sampler, sampled, step))
        return PreparedBatch(step, nodes, batch, rows)

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
        return State(self.history, self.network.weights(), self.optimizer.state(), self.best_weights)

    def set_state(self, state: State) -> None:
        """Continue from a state that `state` returned."""
        self.history, self.best_weights = state.history, state.best_weights
        self.network.set_weights(state.weights)
        self.optimizer.set_state(state.optimizer)


class PreparedBatch(NamedTuple):
    """A batch with the input rows of its distinct `nodes`; the batch holds positions in `nodes`."""

    step: int
    nodes: npt.NDArray[np.int64]
    batch: Batch
    rows: Any


def input_mask(network: Network, sampler: EdgeSampler, batch: Batch, step: int) -> InputMask:
    """Return the dropout of this step; the ends of its positive edges are hidden from each other."""
    config, generator = network.config, sampler.streams.numpy("input mask", step)
    pairs = np.column_stack([batch.anchors, batch.targets])
    return InputMask(int(generator.integers(2**62)), float(config.dropout), config.neighbor_dropout, pairs)


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
    """Return the smaller of the limits in steps and epochs; the defaults if there is no limit.

    An epoch draws as many edges as the graph has; an undirected edge counts in both directions.
    """
    steps, epochs = config.max_steps, config.max_epochs
    if steps is None and epochs is None and config.max_seconds is None:
        steps, epochs = DEFAULT_STEPS, DEFAULT_EPOCHS
    steps_per_epoch = sampler.positives.count / sampler.config.batch_size
    in_epochs = math.inf if epochs is None else math.ceil(epochs * steps_per_epoch)
    return min(math.inf if steps is None else steps, in_epochs)


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

    def trainer(self, config: Config) -> Trainer:
        """Return a run from initial weights, with a configuration that leaves no option `auto`."""
        network = self.network(config)
        inputs = graph_inputs(network, self.graph)
        return Trainer(network, inputs, self.sampler, self.validation, config.training)

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
