"""Training by several processes: who trains what, and what they tell each other.

The processes are called ranks, as in torch.distributed. Its environment variables, which torchrun, Slurm scripts and
Ray Train set, say how many ranks there are. Without them there is one rank, and nothing here exchanges anything.

The graph is not divided: every rank maps the same files. What is divided is the work of a step. `members`: ranks train
different branches of the network, and exchange validation scores only. `weights`: the ranks of a branch draw different
batches, and average their weights from time to time. `gradients`: they average the gradients of every step.
"""

import json
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor, nn

from glace.config.config import RunConfig
from glace.errors import DistributedError, InputError
from glace.model.layers import SparseInput, SparseRowGradient, TorchSparseInput
from glace.storage.container import Arrays
from glace.training.optimizer import Optimizer, RowOptimizer, touched_rows

Item = TypeVar("Item")
Result = TypeVar("Result")
FAILED, BUSY, DONE = -1, 0, 1
"""What ranks tell each other about a block of work, in the order that their minimum needs."""
SIGN_OF_LIFE = 1.0
"""Seconds between two signs of life in a block of work; less if the time-out is short."""
GRACE = 1.0
"""Seconds by which torch may exceed a time-out."""
MAY_DIFFER = ("options.n_jobs", "threads")
"""What need not be the same on all ranks."""


@dataclass(frozen=True)
class Ranks:
    """All ranks, and the number of this one; by default there is only this one.

    Every method must be called by all ranks, in the same order.
    """

    number: int = 0
    count: int = 1
    sync: str = "auto"
    sync_every: int = 50
    timeout: float = 60.0
    group: dist.ProcessGroup | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which shows progress and writes files."""
        return self.number == 0

    def from_first(self, value: Any) -> Any:
        """Return the value that rank 0 passes, which must be plain JSON."""
        if self.count == 1:
            return value
        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        size = torch.tensor([len(text)])
        self.broadcast([size], 0)
        content = text if self.is_first else torch.empty(int(size), dtype=torch.uint8)
        self.broadcast([content], 0)
        return json.loads(content.numpy().tobytes())

    def broadcast(self, tensors: Iterable[Tensor], source: int) -> None:
        """Overwrite tensors with those of one rank."""
        if self.count == 1:
            return
        with self.errors():
            for tensor in tensors:
                dist.broadcast(tensor, source, self.group)

    def gather(self, arrays: Arrays) -> list[Arrays]:
        """Return the arrays that each rank passes."""
        if self.count == 1:
            return [arrays]
        from safetensors.numpy import load, save

        own = np.frombuffer(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}), np.uint8)
        with self.errors():
            sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
            dist.all_gather(sizes, torch.tensor([len(own)]), self.group)
            padded = torch.zeros(int(max(sizes)), dtype=torch.uint8)
            padded[: len(own)] = torch.from_numpy(own.copy())
            contents = [torch.empty_like(padded) for _ in range(self.count)]
            dist.all_gather(contents, padded, self.group)
        return [load(content[: int(size)].numpy().tobytes()) for content, size in zip(contents, sizes, strict=True)]

    def map(self, function: Callable[[Item], Arrays], items: Iterable[Item]) -> Iterator[Arrays]:
        """Like `map`: every rank gets all results, in order, and computes its share of them."""
        return map(function, items) if self.count == 1 else self._shared_map(function, items)

    def _shared_map(self, function: Callable[[Item], Arrays], items: Iterable[Item]) -> Iterator[Arrays]:
        left = iter(items)
        while part := list(islice(left, self.count)):
            yield from self.gather(function(part[self.number]) if self.number < len(part) else {})[: len(part)]

    def check_same(self, identity: Mapping[str, Any] | None) -> None:
        """Raise, on all ranks, unless all have the same data, options and versions as rank 0."""
        if self.count == 1:
            return
        own = {key: value for key, value in flat(identity or {}).items() if key not in MAY_DIFFER}
        texts = self.gather({"identity": np.frombuffer(json.dumps(own).encode(), np.uint8)})
        first, *others = (json.loads(each["identity"].tobytes()) for each in texts)
        for number, other in enumerate(others, 1):
            if found := differences(first, other, f"is {{}} on rank 0 and {{}} on rank {number}"):
                raise InputError(f"the ranks must train the same run: {found}; start all of them alike")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Do work that may take some ranks longer than the time-out, and wait for all ranks at its end.

        Meanwhile a thread of every rank tells the others that the rank is alive. If the work fails on a rank, all
        ranks raise.
        """
        if self.count == 1:
            yield
            return
        state, changed = [BUSY], threading.Event()
        with ThreadPoolExecutor(1) as pool:
            outcome = pool.submit(self._signs_of_life, state, changed)
            try:
                yield
                state[0] = DONE
            except BaseException:
                state[0] = FAILED
                raise
            finally:
                changed.set()
        if outcome.result() == FAILED:
            raise DistributedError(f"{self}: another rank failed; see its own message")

    def _signs_of_life(self, state: list[int], changed: threading.Event) -> int:
        while True:
            told = torch.tensor([state[0]])
            with self.errors():
                dist.all_reduce(told, dist.ReduceOp.MIN, self.group)
            if told.item() != BUSY:
                return int(told)
            changed.wait(min(SIGN_OF_LIFE, self.timeout / 4))

    def team(self, branches: int) -> "Team":
        """Return which ranks train which branches."""
        sync = self.resolved_sync(branches)
        trained_by = ranks_of_branches(branches, self.count, sync)
        groups: list[dist.ProcessGroup | None] = [None] * branches
        if len(trained_by[0]) > 1:
            # Every branch has a group of its own, so that the threads of a rank can exchange at the same time.
            with self.errors():
                groups = [_within(self.timeout, partial(_group, self.timeout, list(each))) for each in trained_by]
        groups_of_ranks = len({*trained_by})
        return Team(
            self,
            tuple(
                BranchRanks(self, ranks, ranks[branch // groups_of_ranks % len(ranks)], sync, group)
                for branch, (ranks, group) in enumerate(zip(trained_by, groups, strict=True))
            ),
        )

    def resolved_sync(self, branches: int) -> str:
        """Return what the ranks exchange; raise if there are more ranks than branches to give them."""
        if self.sync == "members" and self.count > branches:
            raise InputError(
                f"must be 'weights' or 'gradients' for {self.count} ranks: 'members' gives each rank encoders of its "
                f"own, and the model has {branches} that can be trained apart",
                option="sync",
            )
        if self.sync == "auto":
            return "members" if self.count <= branches else "weights"
        return self.sync

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise the errors of torch.distributed as one clear line."""
        try:
            yield
        except RuntimeError as problem:
            raise self._explained(str(problem)) from problem

    def _explained(self, problem: str) -> DistributedError:
        """Return the reason of a failed exchange in words."""
        if re.search("timed? ?out", problem, re.IGNORECASE):
            message = (
                f"{self}: another rank did not answer within {self.timeout:g} s: it is stopped, lost or slower; see "
                "its own message, and allow more time if it needs that"
            )
            return DistributedError(message, hint=("rank_timeout", math.ceil(2 * self.timeout)))
        text = _first_line(problem)
        if re.search("connection|pipe|peer|socket", problem, re.IGNORECASE):
            text = f"lost the connection to another rank, which has ended; see its own message ({text})"
        return DistributedError(f"{self}: {text}")

    def __str__(self) -> str:
        return f"rank {self.number} of {self.count}"


def ranks_of_branches(branches: int, count: int, sync: str) -> list[tuple[int, ...]]:
    """Return the ranks that train each branch, equally many for each.

    With `weights` and `gradients`, all ranks train all branches, unless there are more ranks than branches: then the
    ranks form groups, each with its own branches, because the ranks of a smaller group exchange less.
    """
    if sync == "members":
        return [(branch % count,) for branch in range(branches)]
    groups = math.gcd(branches, count) if count > branches else 1
    return [tuple(range(branch % groups, count, groups)) for branch in range(branches)]


@dataclass(frozen=True)
class BranchRanks:
    """The ranks that train one branch; the `owner` tells all others about its state and scores."""

    all: Ranks
    ranks: tuple[int, ...]
    owner: int
    sync: str = "members"
    group: dist.ProcessGroup | None = None

    @property
    def trained_here(self) -> bool:
        """Whether this rank trains the branch."""
        return self.all.number in self.ranks

    @property
    def owned_here(self) -> bool:
        """Whether this rank owns the branch."""
        return self.all.number == self.owner

    def prepare(self, optimizer: Optimizer) -> None:
        """Let the optimizer count what `average_weights` needs."""
        if self._averages("weights"):
            for name, rows in optimizer.rows.items():
                rows.recent = torch.zeros(len(optimizer.layers[name].weight), dtype=torch.int32)

    def mean(self, loss: float) -> float:
        """Return the mean loss of all ranks, if they exchange something in every step."""
        if not self._averages("gradients"):
            return loss
        return float(self._mean([torch.tensor(loss, dtype=torch.float64)])[0])

    def average_gradients(self, optimizer: Optimizer) -> None:
        """Replace the gradients of the last backward pass by their mean over all ranks."""
        if not self._averages("gradients"):
            return
        weights = list(optimizer.dense.weights.values())
        reached = torch.tensor([float(weight.grad is not None) for weight in weights])
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in weights]
        *means, reached = self._mean([*gradients, reached])
        for weight, gradient, is_reached in zip(weights, means, reached.tolist(), strict=True):
            weight.grad = gradient if is_reached else None
        for layer in optimizer.layers.values():
            self._average_row_gradients(layer)

    def _average_row_gradients(self, layer: SparseInput | TorchSparseInput) -> None:
        rows, values = _row_gradient(layer)
        # On the CPU in any case: NCCL has no sums of sparse tensors.
        gradient = torch.sparse_coo_tensor(rows[None], values, layer.weight.shape, check_invariants=False).coalesce()
        with self.all.errors():
            dist.all_reduce(gradient, group=self.group)
        gradient = gradient.coalesce() / len(self.ranks)
        if isinstance(layer, SparseInput):
            layer.pending = SparseRowGradient.of(gradient.indices()[0].numpy(), gradient.values().numpy())
        else:
            layer.weight.grad = gradient.to(layer.weight.device)

    def average_weights(self, branch: nn.Module, optimizer: Optimizer) -> None:
        """Replace the weights and moments of a branch by their means over all ranks, if it is time for that.

        Moments are averaged too: a checkpoint then holds one state per branch, and not one per rank. A row of a sparse
        layer is averaged by how often each rank has changed it since the last time. With a plain mean, a change that
        only one of two ranks made would lose half of its length.
        """
        buffers = [each for each in branch.buffers() if each.is_floating_point()]
        if self._averages("gradients"):
            self._average(buffers)  # the weights are the same already
        if self._averages("weights"):
            weights = [weight.data for weight in optimizer.dense.weights.values()]
            self._average([*weights, *optimizer.dense.moments.values(), *buffers])
            for name, rows in optimizer.rows.items():
                self._average_rows(optimizer.layers[name].weight.data, rows)

    def _average(self, tensors: list[Tensor]) -> None:
        for tensor, mean in zip(tensors, self._mean(tensors), strict=True):
            tensor.copy_(mean)

    def _average_rows(self, weight: Tensor, optimizer: RowOptimizer) -> None:
        assert optimizer.recent is not None, "`prepare` comes first"
        changes = optimizer.recent.clone()
        self._sum(changes)
        rows = changes.nonzero()[:, 0]
        for tensor in (weight, *optimizer.moments.values()):
            part = tensor[rows]
            shape = (-1, *[1] * (part.ndim - 1))
            part *= optimizer.recent[rows].to(part.dtype).view(shape)
            self._sum(part)
            part /= changes[rows].view(shape)
            tensor[rows] = part
        optimizer.recent.zero_()

    def _averages(self, what: str) -> bool:
        return self.sync == what and len(self.ranks) > 1

    def _mean(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the means of tensors over all ranks, exchanged as one."""
        if not tensors:
            return []
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        self._sum(flat)
        parts = torch.split(flat / len(self.ranks), [tensor.numel() for tensor in tensors])
        return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]

    def _sum(self, tensor: Tensor) -> None:
        with self.all.errors():
            dist.all_reduce(tensor, group=self.group)


def _row_gradient(layer: SparseInput | TorchSparseInput) -> tuple[Tensor, Tensor]:
    """Return the rows of a layer that the last backward pass touched, none if it did not reach it, and gradients."""
    if not layer.was_used():
        return torch.empty(0, dtype=torch.int64), torch.empty(0, layer.weight.shape[1])
    if isinstance(layer, TorchSparseInput):
        rows, gradient = touched_rows(layer.weight)
        return rows.cpu(), gradient.cpu()
    touched = layer.touched()
    return torch.from_numpy(touched.rows), torch.from_numpy(touched.gradient())


@dataclass(frozen=True)
class Team:
    """The ranks of each branch of a network."""

    all: Ranks
    branches: tuple[BranchRanks, ...]

    @property
    def size(self) -> int:
        """How many ranks train a branch: the batches that are drawn in a step."""
        return len(self.branches[0].ranks)

    @property
    def place(self) -> int:
        """The number of this rank among those that train the same branches."""
        return next(each.ranks.index(self.all.number) for each in self.branches if each.trained_here)

    def meets(self, steps: int) -> bool:
        """Whether the ranks meet after so many steps; a single rank always does."""
        return self.all.count == 1 or steps % self.all.sync_every == 0

    def until_meeting(self, steps: int) -> int:
        """Return how many steps are left until the ranks meet; a single rank need not."""
        return sys.maxsize if self.all.count == 1 else self.all.sync_every - steps % self.all.sync_every

    def sum_over_branches(self, found: Mapping[int, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        """Return the sum of the arrays of all branches; every rank passes those of the branches that it owns.

        The sum has the same bits however the branches are distributed.
        """
        gathered = self.all.gather({str(branch): array for branch, array in found.items()})
        together = {name: array for arrays in gathered for name, array in arrays.items()}
        return np.asarray(np.sum([together[str(branch)] for branch in range(len(self.branches))], axis=0))


@contextmanager
def joined(run: RunConfig) -> Iterator[Ranks]:
    """Join the other ranks, if the environment names some, and leave them at the end.

    A process group that exists already, such as that of Ray Train, is used and left as it is.
    """
    if dist.is_available() and dist.is_initialized():
        yield _ranks(run, own=False)
        return
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        yield Ranks()
        return
    _join(run)
    try:
        yield _ranks(run, own=True)
    finally:
        dist.destroy_process_group()


def restarted() -> bool:
    """Whether torchrun has started this process again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _join(run: RunConfig) -> None:
    number, count = os.environ["RANK"], os.environ["WORLD_SIZE"]
    backend = "gloo"
    if run.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "cpu:gloo,cuda:nccl"
    limit = timedelta(seconds=run.rank_timeout)
    try:
        _within(run.rank_timeout, partial(_make_group, backend, limit))
    except (RuntimeError, ValueError) as problem:
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        reason = _why_not_joined(str(problem), place, run.rank_timeout)
        raise DistributedError(f"rank {number} of {count}: {reason}") from problem


def _make_group(backend: str, limit: timedelta) -> None:
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or os.environ.get("GROUP_WORLD_SIZE") != "1":
        dist.init_process_group(backend, timeout=limit)
        return
    # torchrun on one machine keeps its store when it starts the ranks again. Without a prefix of their own, they would
    # find the addresses of the ranks before them.
    number, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    agent = dist.TCPStore(*address, count, is_master=False, timeout=limit)  # type: ignore[attr-defined]
    store = dist.PrefixStore(f"attempt {attempt}", agent)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=number, world_size=count, timeout=limit)


def _ranks(run: RunConfig, own: bool) -> Ranks:
    group = dist.group.WORLD
    if not own:
        with Ranks(dist.get_rank(), dist.get_world_size(), timeout=run.rank_timeout).errors():
            group = _within(run.rank_timeout, partial(_group, run.rank_timeout, None, "gloo"))
    return Ranks(dist.get_rank(), dist.get_world_size(), run.sync, run.sync_every, run.rank_timeout, group)


def _group(timeout: float, ranks: list[int] | None, backend: str | None = None) -> dist.ProcessGroup:
    made: dist.ProcessGroup = dist.new_group(ranks, timedelta(seconds=timeout), backend)
    return made


def _within(timeout: float, function: Callable[[], Result]) -> Result:
    """Return the result of a function that may wait for ever; RuntimeError if that takes longer than the time-out.

    torch itself waits without limit for what listens at a port and says nothing. It is left to a thread that dies with
    the process.
    """
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as problem:
            outcome.set_exception(problem)

    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result(timeout + GRACE)
    except FutureTimeout as problem:
        raise RuntimeError("timed out: no answer") from problem


def _why_not_joined(problem: str, place: str, timeout: float) -> str:
    text = _first_line(problem)
    if "EADDRINUSE" in problem or "in use" in problem:
        return f"the port of {place} is in use; choose another"
    if "Unable to find address" in problem or "nable to find interface" in problem:
        interface = os.environ.get("GLOO_SOCKET_IFNAME")
        return f"this machine has no network interface {interface!r}; set GLOO_SOCKET_IFNAME to one of `ip address`"
    if "Ping failed" in problem:
        return f"what answers at {place} is not a rank of this run ({text}); choose another port"
    if re.search("time|connect|route|resolve|refused", problem, re.IGNORECASE):
        return (
            f"cannot reach {place}, or not all ranks came there within {timeout:g} s ({text}); check the "
            "address, the network (GLOO_SOCKET_IFNAME names the interface) and the other ranks"
        )
    return text


def _first_line(problem: str) -> str:
    """Return the first sentence of an error, without the place in the C++ source that it starts with."""
    line = problem.strip().partition("\n")[0].partition(". ")[0]
    return re.sub(r"^(\[[^]]*\]\s*)+", "", line).rstrip(".")


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values with dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def differences(one: Mapping[str, Any], other: Mapping[str, Any], words: str) -> str:
    """Name up to five keys whose values differ; `words` has places for the two values."""
    before, after = flat(one), flat(other)
    keys = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    return "; ".join(f"{key} {words.format(repr(before.get(key)), repr(after.get(key)))}" for key in keys[:5])
