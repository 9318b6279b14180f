"""Gradient descent with early stopping for the baselines, which have losses and samplers of their own."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from glace.errors import TrainingDiverged
from glace.fitted.state import History, ValidationPoint
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, hold_out
from glace.metrics import LinkScores
from glace.options import Configuration, option
from glace.rng import Streams
from glace.training.optimizer import Optimizer

MAX_VALIDATION_EDGES = 3000
"""As in GLACE: enough for an AUC to within 0.3 points on any graph."""


@dataclass(frozen=True)
class Descent(Configuration):
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
