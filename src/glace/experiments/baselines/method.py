"""The interface of the baselines, what they share, and raw attributes as the simplest of them."""

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from torch import Tensor, nn

from glace.errors import InputError, TooLarge, TrainingDiverged
from glace.experiments.sparse_points import SparsePoints
from glace.fitted.state import History, ValidationPoint
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, hold_out
from glace.ids import NodeIds
from glace.metrics import LinkScores
from glace.options import Configuration, option
from glace.rng import Streams
from glace.sparse import Matrix, checked_matrix, narrowed
from glace.training.optimizer import Optimizer
from glace.values import UNIT


def with_unseen(ids: NodeIds, count: int) -> NodeIds:
    """Return the ids of a graph, followed by ids for unseen nodes up to `count` in all."""
    if count == len(ids):
        return ids
    return NodeIds([*map(str, ids.to_numpy()), *(f"unseen {number}" for number in range(count - len(ids)))])


def refuse_unseen(method: str, unseen: object) -> None:
    """Raise if there are unseen nodes, for a method that knows nodes by their edges only."""
    if unseen is not None:
        raise InputError(
            f"{method} cannot embed nodes outside of the training graph, because it uses only edges; "
            "choose an inductive method, such as glace or graph2gauss"
        )


def all_attributes(graph: Graph, unseen: Matrix | None) -> Matrix:
    """Return the attributes of the graph's nodes and of unseen nodes, which must have the same columns."""
    known = graph.features()
    if unseen is None:
        return known
    if not graph.has_attributes:
        raise InputError(
            "the graph has no attributes, so nothing is known about unseen nodes; give the graph attributes, "
            "or embed only its own nodes"
        )
    if unseen.ndim != 2 or unseen.shape[1] != graph.num_attributes:
        raise InputError(
            f"unseen nodes need the {graph.num_attributes:,} attributes of the graph, but have the shape {unseen.shape}"
        )
    rows = checked_matrix(unseen)
    if sp.issparse(known):
        return narrowed(sp.vstack([known, sp.csr_array(rows)], format="csr"))
    return np.concatenate([known, rows.toarray() if isinstance(rows, sp.csr_array) else rows])


def scaled_attributes(graph: Graph, unseen: Matrix | None) -> Matrix:
    """Return `all_attributes` scaled by their values: unit rows, or columns standardised over the graph's nodes."""
    from sklearn.preprocessing import StandardScaler, normalize

    rows = all_attributes(graph, unseen)
    if sp.issparse(rows):
        return narrowed(sp.csr_array(normalize(rows.astype(np.float32))))
    if graph.of_one_type().by_type().types[0].scaling == UNIT:
        return np.asarray(normalize(rows))
    scaler = StandardScaler().fit(rows[: graph.num_nodes].astype(np.float64))
    return np.asarray(scaler.transform(rows), dtype=np.float32)


@dataclass(frozen=True)
class Baseline(Configuration):
    """A way to embed a graph; its fields are its options."""

    name: ClassVar[str]
    inductive: ClassVar[bool] = True
    """Whether the method can embed nodes outside of the training graph, from their attributes alone."""
    gaussian: ClassVar[bool] = False
    """Whether nodes have a variance."""

    def check_installed(self) -> None:
        """Import the libraries of an extra that the method needs; InputError if one is missing.

        Called before the time of a run is measured, because these libraries take seconds to import.
        """

    @abstractmethod
    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return the embedding of the graph's nodes, followed by nodes with the attributes `unseen`.

        Early stopping uses the pairs of `validation`, which are not in the graph, or edges that the method holds out.
        """

    def budget(self, graph: Graph) -> dict[str, object]:  # noqa: ARG002 - most have none
        """Return the options as used where the size of the graph changes them, for the record; usually nothing."""
        return {}


@dataclass(frozen=True)
class RawAttributes(Baseline):
    """The unchanged attributes of a node, as a point; sparse ones stay sparse wherever a task can judge them so."""

    most_gigabytes: float = option(4.0, "Most memory for the points of a task that needs them dense.", above=0)

    name: ClassVar[str] = "attributes"

    def embed(
        self,
        graph: Graph,
        streams: Streams,  # noqa: ARG002 - nothing is random
        unseen: Matrix | None = None,
        validation: HeldOut | None = None,  # noqa: ARG002 - nothing is trained
    ) -> Embedding:
        """Return the rows of the graph's attributes, then the unseen ones."""
        rows = all_attributes(graph, unseen)
        gigabytes = 4e-9 * rows.shape[0] * rows.shape[1]
        if gigabytes > self.most_gigabytes:
            raise TooLarge(
                f"raw attributes of {rows.shape[0]:,} nodes are {gigabytes:.1f} GB as points, more than "
                f"most_gigabytes={self.most_gigabytes:g}; allow more, or choose another method"
            )
        mean = rows.toarray() if isinstance(rows, sp.csr_array) else np.array(rows)
        return Embedding(with_unseen(graph.ids, len(mean)), mean, None, "dot")

    def points(self, graph: Graph, streams: Streams, unseen: Matrix | None = None) -> Embedding | SparsePoints:
        """Return the same as `embed`; sparse attributes as they are, of any size."""
        rows = all_attributes(graph, unseen)
        if isinstance(rows, sp.csr_array):
            return SparsePoints(with_unseen(graph.ids, rows.shape[0]), rows)
        return self.embed(graph, streams, unseen)


MAX_VALIDATION_EDGES = 3000
"""As in GLACE: enough for an AUC to within 0.3 points on any graph."""


@dataclass(frozen=True)
class Descent(Baseline):
    """How long to train, and how often to validate; a method adds its own options."""

    learning_rate: float = option(1e-2, "Step size of Adam.", above=0)
    max_steps: int = option(1000, "Maximum number of steps.", at_least=1)
    max_seconds: float | None = option(
        None,
        "Stop after this time; the only limit that makes results depend on the clock.",
        above=0,
        kind=float,
        optional=True,
    )
    validation_fraction: float = option(
        0.05, "Fraction of edges held out for early stopping; 0 trains on all, to the last step.", at_least=0, below=1
    )
    validate_every: int = option(50, "Steps between two validations.", at_least=1)
    patience: int = option(10, "Stop after this many validations without a better AUC.", at_least=1)

    def hold_out(self, graph: Graph, validation: HeldOut | None, streams: Streams) -> tuple[Graph, HeldOut | None]:
        """Return the graph to train on, and the validation pairs: the given ones, or held-out edges, or none."""
        if validation is not None:
            return graph, validation
        if self.validation_fraction == 0:
            return graph, None
        return hold_out(graph, self.validation_fraction, streams.numpy("validation"), MAX_VALIDATION_EDGES)

    def train(
        self, network: nn.Module, loss: Callable[[int], Tensor], validate: Callable[[], LinkScores] | None
    ) -> History:
        """Train until a limit or early stopping, and leave the best weights in the network.

        `loss` takes the number of a step, from 0. `validate` returns scores that are NaN if the network diverged.
        """
        history, start = History(), time.perf_counter()
        optimizer = Optimizer(network)
        best: dict[str, Tensor] | None = None
        while not self._is_over(history):
            self._step(loss(history.step), optimizer, history)
            history.seconds = time.perf_counter() - start
            is_due = history.step % self.validate_every == 0 or self._is_over(history)
            if validate is not None and is_due:
                scores = validate()
                if math.isnan(scores.auc):
                    raise self._diverged("the embedding is not finite", history.step)
                if history.add(ValidationPoint(history.step, history.loss, *scores)):
                    best = {name: value.clone() for name, value in network.state_dict().items()}
        if best is not None:
            network.load_state_dict(best)
        return history

    def _is_over(self, history: History) -> bool:
        is_late = self.max_seconds is not None and history.seconds >= self.max_seconds
        return is_late or history.step >= self.max_steps or history.since_best >= self.patience

    def _step(self, loss: Tensor, optimizer: Optimizer, history: History) -> None:
        history.step, history.loss = history.step + 1, loss.item()
        if not math.isfinite(history.loss):
            raise self._diverged(f"the loss is {history.loss}", history.step)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step(history.step, self.learning_rate)

    def _diverged(self, problem: str, step: int) -> TrainingDiverged:
        return TrainingDiverged(
            f"{problem} at step {step} with learning rate {self.learning_rate:.2g}; "
            "try a smaller learning rate, or attributes of a smaller scale"
        )
