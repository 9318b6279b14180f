"""A training run: draw a batch, take a step, validate from time to time, keep the best weights, write checkpoints.

The branches of a network share no weights: threads train them side by side, and prepare the next batches. Threads wait
for each other once in several steps, asleep, so that a busy machine does no harm.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glace.config.config import TrainingConfig
from glace.errors import InputError, TrainingDiverged
from glace.fitted.state import History, Listener, Progress, ValidationPoint
from glace.gaussian.dissimilarity import roles
from glace.graph.split import HeldOut
from glace.kernels.compile import threads
from glace.metrics import link_scores
from glace.model.inputs import InputMask, InputRows, NodeIndex, NodeInputs
from glace.model.network import ENCODE_ROWS, Branch, EdgeBatch, Network, Penalty, branch_loss
from glace.sampling.edges import Batch, EdgeSampler
from glace.storage import container
from glace.storage.container import Arrays
from glace.training.distributed import BranchRanks, Ranks, differences
from glace.training.optimizer import Optimizer

DEFAULT_STEPS, DEFAULT_EPOCHS = (300, 3000), 20
"""Length of a run if no limit is given: this many epochs, but at least and at most so many steps. A small graph is
overfitted long before 3,000 steps, which harms the embedding of new nodes. Test AUC with other lengths: Cora-ML 98.54
with 400 steps, 98.41 with 600 and 98.50 with 900; DBLP 99.19 with 1,500 (8 epochs) and 99.26 with 2,000 (11 epochs);
Pubmed, three splits of Table 2, 99.29 with 18 epochs and 99.32 with 20; Citeseer likewise 98.89 and 98.94; Debian 99.61
with 3,000 steps (not three epochs) and 99.64 with 3,500."""
STEPS_APART = 8
"""Steps that branches take before they wait for each other. After each step, a core would be idle for a quarter of the
time, because four branches and the next batch cannot be divided equally."""
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

    def scores(self, network: Network, inputs: NodeInputs) -> Scores:
        """Return the score (P,), minus the dissimilarity, of each pair; FloatingPointError if one is not finite."""
        return checked_scores(np.sum(self.scores_by_branch(network, inputs, network.each_branch()), axis=0))

    def scores_by_branch(self, network: Network, inputs: NodeInputs, branches: Sequence[Branch]) -> list[Scores]:
        """Return what each of some branches adds to the scores (P,): dissimilarities are sums over dimensions."""
        if not branches:
            return []
        mask = InputMask(0, 0.0, 0.0, np.empty((0, 2), np.int64), MAX_VALIDATION_NEIGHBORS)
        own, context = network.embed(inputs, self.nodes, mask, branches)
        widths = [branch.dims.stop - branch.dims.start for branch in branches]
        found = []
        for end, width in zip(np.cumsum(widths).tolist(), widths, strict=True):
            starts = np.arange(len(network.proximities)) * sum(widths) + end - width
            dims = (starts[:, None] + np.arange(width)).ravel()
            ends = roles(network.measure, own[:, dims], None if context is None else context[:, dims])
            with np.errstate(over="ignore", invalid="ignore"):
                pairs = network.measure.direct(ends.source[self.pairs[:, 0]], ends.target[self.pairs[:, 1]])
            found.append(-ends.scale * np.asarray(pairs, np.float64))
        return found


def checked_scores(scores: Scores) -> Scores:
    """Return the scores; FloatingPointError if one is not finite."""
    if not np.isfinite(scores).all():
        raise FloatingPointError
    return scores


KIND, VERSION = "glace-checkpoint", 2
MOST_OF_THE_TIME = 0.1
"""Fraction of the time that checkpoints may take: those of a large model are written less often."""


@dataclass(frozen=True)
class State:
    """A run between two steps. The sampler has no state: a batch depends on the number of its step only."""

    history: History
    weights: Arrays
    optimizer: Arrays
    best_weights: Arrays | None

    def groups(self) -> list[Arrays]:
        """Return all arrays, by name in each group."""
        return [self.weights, self.optimizer, self.best_weights or {}]


def as_arrays(tensors: dict[str, Tensor]) -> Arrays:
    """Return tensors as arrays, of the same memory if they are on the CPU."""
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


@dataclass
class Checkpoints:
    """Writes the state of a run to `path`, at most every `seconds`.

    `identity` holds what the bits depend on besides the state: data, configuration, threads, versions.
    """

    path: Path
    identity: dict[str, Any]
    seconds: float = 10.0
    ranks: Ranks = field(default_factory=Ranks)
    """All ranks have the state; the first one writes and reads it."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Plain values of the caller, returned when the run is resumed."""
    last: float = field(default_factory=time.monotonic)
    """When the state was last written."""
    taken: float = 0.0
    """How long that took, in seconds."""

    def offer(self, state: Callable[[], State]) -> None:
        """Write the state if it is time to."""
        began = time.monotonic()
        wait = self.seconds and max(self.seconds, self.taken * (1 / MOST_OF_THE_TIME - 1))
        if not self.ranks.from_first(began - self.last >= wait):
            return
        found = state()
        if self.ranks.is_first:
            self.save(found)
        self.last = time.monotonic()
        self.taken = self.last - began

    def save(self, state: State) -> None:
        """Write a state, completely or not at all."""
        groups = zip(("weights", "optimizer", "best"), state.groups(), strict=True)
        arrays = {f"{group}|{name}": array for group, named in groups for name, array in named.items()}
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
        if found := differences(written, self.identity, "was {} and is {}"):
            raise InputError(
                f"cannot resume from {self.path}, which belongs to another run: {found}. Use the same data, options "
                "and versions, or delete the file to start from the beginning"
            )


class Trainer:
    """One training run on one graph. It trains the network in place and ends with the best weights in it.

    With several `ranks`, each of them trains some branches, or draws some of the batches. A step of the history is a
    batch, whichever rank draws it, so that the same limits mean the same number of edges on any number of ranks.
    """

    def __init__(
        self,
        network: Network,
        inputs: NodeInputs,
        sampler: EdgeSampler,
        validation: Validation | None,
        config: TrainingConfig,
        ranks: Ranks | None = None,
    ) -> None:
        self.network, self.inputs, self.sampler = network, inputs, sampler
        self.validation, self.config = validation, config
        self.penalty_of: Callable[[NodeIndex], Penalty] | None = None
        """Returns the penalty of the given anchors, which is added to the loss."""
        self.branches = {
            f"branches.{number}.": (branch, Optimizer(branch, rmsprop=True))
            for number, branch in enumerate(network.each_branch())
        }
        self.ranks = ranks or Ranks()
        self.team = self.ranks.team(len(self.branches))
        self.trained = [
            TrainedBranch(number, *part, shared)
            for number, (part, shared) in enumerate(zip(self.branches.values(), self.team.branches, strict=True))
            if shared.trained_here
        ]
        self.history = History()
        self.losses: dict[int, float] = {}
        """Loss of the last step by the number of the branch."""
        self.best_weights: Arrays | None = None
        self.total_steps = total_steps(config, sampler)
        self._coming: dict[int, Future[PreparedBatch]] = {}
        """Batches that are being prepared, by number."""
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
        for each in self.trained:
            each.ranks.prepare(each.optimizer)
        with self._threads():
            while not self._is_over():
                self._steps(self._until_meeting())
                validates = self.history.step % self.config.validate_every < self.team.size
                meets = validates or self.team.meets(self._updates()) or self._is_over()
                if meets:
                    self._meet(clock)
                if validates or self._is_over():
                    scores = self._validate()
                    self._tell_time(clock)
                    if scores is not None:
                        yield scores
                if listener:
                    listener(self._progress(clock))
                if checkpoints and meets:
                    checkpoints.offer(self.state)

    def _meet(self, clock: "_Clock") -> None:
        """Bring all ranks to the same weights, loss and time."""
        for each in self.trained:
            each.ranks.average_weights(each.branch, each.optimizer)
        owned = {each.number: np.array([self.losses[each.number]]) for each in self.trained if each.ranks.owned_here}
        self.history.loss = self.team.sum_over_branches(owned).item()
        self._tell_time(clock)

    def _tell_time(self, clock: "_Clock") -> None:
        """Count the time of the first rank: when a run ends must not depend on the rank."""
        clock.tick()
        self.history.seconds = self.ranks.from_first(self.history.seconds)

    def finish(self) -> History:
        """Put the best weights into the network, on all ranks, check them, and return the history."""
        points = self.history.validation_points
        if not points or points[-1].step < self.history.step:
            self._validate()
        weights = self.network.weights() if self.best_weights is None else self.best_weights
        self._share([weights])
        self.network.set_weights(weights)
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

    def _until_meeting(self) -> int:
        """Return how many steps branches take before they wait for each other."""
        if self._pool is None or len(self.trained) == 1:
            return 1
        step, every, size = self.history.step, self.config.validate_every, self.team.size
        left = min(every - step % every, self.total_steps - step)
        return min(STEPS_APART, math.ceil(left / size), self.team.until_meeting(self._updates()))

    def _steps(self, count: int) -> None:
        """Take steps, each branch on its own."""
        size, first = self.team.size, self.history.step + self.team.place
        batches = [self._batch(first + later * size) for later in range(count)]
        train = partial(self._train, batches, [self._learning_rate(later * size) for later in range(count)])
        with self._mode(first):
            # One branch alone is trained by this thread, whose kernels divide their rows among all threads.
            each = (self._pool.map if self._pool and len(self.trained) > 1 else map)(train, self.trained)
            # After the branches, so that these short tasks fill the time in which a thread has no branch left.
            self._prepare_ahead(first + count * size, count)
            self.losses = dict(zip((part.number for part in self.trained), each, strict=True))
        self.history.loss = value = sum(self.losses.values())
        if not math.isfinite(value):
            raise self._diverged(f"the loss is {value}")
        self.history.step += count * size

    def _batch(self, number: int) -> "Callable[[], PreparedBatch]":
        """Return a function that returns the batch of this number as soon as it is prepared."""
        if self._pool is None:
            ready = self._prepare(number)
            return lambda: ready
        coming = self._coming.pop(number, None) or self._pool.submit(self._prepare, number)
        return coming.result

    def _prepare_ahead(self, first: int, count: int) -> None:
        """Let threads prepare the batches of the next steps."""
        numbers = range(first, first + count * self.team.size, self.team.size)
        if self._pool:
            self._coming = {
                number: self._pool.submit(self._prepare, number) for number in numbers if number < self.total_steps
            }

    def _updates(self) -> int:
        """Return how often the weights have been updated."""
        return self.history.step // self.team.size

    def _train(
        self, batches: "Sequence[Callable[[], PreparedBatch]]", rates: Sequence[float], part: "TrainedBranch"
    ) -> float:
        """Take steps with one branch, and return the loss of the last one, or the first that is not finite."""
        value = math.nan
        for later, (batch, rate) in enumerate(zip(batches, rates, strict=True)):
            value = self._train_step(batch(), self._updates() + later + 1, rate, part)
            if not math.isfinite(value):
                break
        return value

    def _train_step(self, ready: "PreparedBatch", number: int, rate: float, part: "TrainedBranch") -> float:
        """Take a step with one branch, and return its loss."""
        penalty = None if self.penalty_of is None else self.penalty_of(ready.nodes[ready.batch.anchors])
        loss = branch_loss(self.network, part.branch, ready.rows, ready.batch, penalty)
        value = part.ranks.mean(loss.item())
        if math.isfinite(value):
            part.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            part.ranks.average_gradients(part.optimizer)
            part.optimizer.step(number, rate)
        return value

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Train branches and prepare batches in threads, if there are several."""
        count = min(threads(), 1 + len(self.trained))
        # A branch whose layers are large products leaves the cores to torch's own threads.
        if count == 1 or (len(self.trained) == 1 and torch.get_num_threads() > 1):
            yield
            return
        try:
            with ThreadPoolExecutor(count) as self._pool:
                yield
        finally:  # a caller may stop iterating
            self._pool, self._coming = None, {}

    @contextmanager
    def _mode(self, number: int) -> Iterator[None]:
        """Seed torch for dropout with this batch, and restore its global generator afterwards."""
        if not self.network.has_modes:
            yield
            return
        self.network.train()
        devices = [self.network.device] if self.network.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int(self.sampler.streams.numpy("modules", number).integers(2**62)))
            yield

    def _prepare(self, number: int) -> "PreparedBatch":
        """Draw batch `number` of the run, and do everything for its step that does not depend on the weights."""
        sampled = self.sampler.batch(number)
        nodes, batch = sampled.distinct()
        rows = self.inputs.rows(nodes, input_mask(self.network, self.sampler, sampled, number, self.total_steps))
        parts = batch.anchors, batch.targets, batch.negatives, batch.allowed
        return PreparedBatch(number, nodes, EdgeBatch(*parts, self.sampler.config.n_negatives), rows)

    def _validate(self) -> Scores | None:
        """Score the validation pairs, if there are any, and keep the weights if they are the best so far."""
        if self.validation is None:
            return None
        try:
            scores = checked_scores(self._scores(self.validation))
        except FloatingPointError as problem:
            raise self._diverged("the Gaussians are not finite") from problem
        point = ValidationPoint(self.history.step, self.history.loss, *link_scores(scores, self.validation.truth))
        if self.history.add(point):
            self._keep_weights()
        return scores

    def _keep_weights(self) -> None:
        if self.best_weights is None:
            self.best_weights = _copied(self.network.weights())
            return
        # Into the same memory: new pages would take longer than the copy.
        for name, value in self.network.weights().items():
            np.copyto(self.best_weights[name], value)

    def _scores(self, validation: Validation) -> Scores:
        """Return the scores of the validation pairs; every rank computes the part of some branches."""
        owned = [each for each in self.trained if each.ranks.owned_here]
        parts = validation.scores_by_branch(self.network, self.inputs, [each.branch for each in owned])
        return self.team.sum_over_branches({each.number: part for each, part in zip(owned, parts, strict=True)})

    def _is_over(self) -> bool:
        return self.done() >= 1 or self.history.since_best >= self.config.patience

    def done(self, later: int = 0) -> float:
        """Return the completed fraction of the run, 0 to 1, by whichever limit is closer, now or some steps later."""
        limit = self.config.max_seconds
        by_time = 0.0 if limit is None else self.history.seconds / limit
        return min(max((self.history.step + later) / self.total_steps, by_time), 1.0)

    def _learning_rate(self, later: int = 0) -> float:
        """Return the learning rate now, or so many steps of the history later."""
        if self.config.lr_schedule == "constant":
            return self.config.learning_rate
        return self.config.learning_rate * 0.5 * (1 + math.cos(math.pi * self.done(later)))

    def _progress(self, clock: "_Clock") -> Progress:
        points = self.history.validation_points
        assert self.history.loss is not None, "a step comes first"
        return Progress(
            step=self.history.step,
            steps=self.total_steps,
            done=1.0 if self._is_over() else self.done(),
            loss=self.history.loss,
            learning_rate=self._learning_rate(),
            edges_per_second=clock.steps_per_second() * self.sampler.config.batch_size,
            validation_auc=points[-1].auc if points else None,
        )

    def state(self) -> State:
        """Return everything that the rest of the run depends on, of all ranks."""
        state = State(self.history, self.network.weights(), as_arrays(self._moments()), self.best_weights)
        self._share(state.groups())
        return state

    def set_state(self, state: State | None) -> None:
        """Continue from a state that `state` returned; only the first rank needs it, the others receive it."""
        facts = None if state is None else (asdict(state.history), state.best_weights is not None)
        history, has_best = self.ranks.from_first(facts)
        if state is None:
            weights, best = (_copied(self.network.weights()) for _ in range(2))
            moments = as_arrays(self._moments())
            state = State(History.from_json(history), weights, moments, best if has_best else None)
        self._share(state.groups(), source=0)
        self.history, self.best_weights = state.history, state.best_weights and _copied(state.best_weights)
        self.network.set_weights(state.weights)
        for name, moment in self._moments().items():
            moment.copy_(torch.from_numpy(np.array(state.optimizer[name])))

    def _share(self, groups: list[Arrays], source: int | None = None) -> None:
        """Give all ranks the arrays of each branch, in place, from its owner or from one rank for all."""
        for prefix, shared in zip(self.branches, self.team.branches, strict=True):
            owner = shared.owner if source is None else source
            for arrays in groups:
                names = sorted(name for name in arrays if name.startswith(prefix))
                self.ranks.broadcast((torch.from_numpy(arrays[name]) for name in names), owner)

    def _moments(self) -> dict[str, Tensor]:
        """Return the moments of all optimizers by name."""
        return {
            prefix + name: moment
            for prefix, (_, optimizer) in self.branches.items()
            for name, moment in optimizer.moments().items()
        }


def _copied(arrays: Arrays) -> Arrays:
    return {name: array.copy() for name, array in arrays.items()}


class TrainedBranch(NamedTuple):
    """A branch that this rank trains, with its optimizer and the ranks that train it."""

    number: int
    branch: Branch
    optimizer: Optimizer
    ranks: BranchRanks


class PreparedBatch(NamedTuple):
    """Batch `number` of a run, with the input rows of its distinct `nodes`; it holds positions in `nodes`."""

    number: int
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
        return (self.history.step - self.first_step) / max(time.perf_counter() - self.start, 1e-9)


def total_steps(config: TrainingConfig, sampler: EdgeSampler) -> float:
    """Return the smaller of the limits in steps and epochs; if there is no limit at all, the default.

    An epoch draws as many edges as the graph has; an undirected edge counts in both directions.
    """
    if config.max_steps is None and config.max_epochs is None and config.max_seconds is None:
        return float(np.clip(math.ceil(DEFAULT_EPOCHS * sampler.steps_per_epoch), *DEFAULT_STEPS))
    in_epochs = math.inf if config.max_epochs is None else math.ceil(config.max_epochs * sampler.steps_per_epoch)
    return min(math.inf if config.max_steps is None else config.max_steps, in_epochs)
