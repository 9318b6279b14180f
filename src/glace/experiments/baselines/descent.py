"""Training with early stopping, as the baselines that learn by gradients have it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor, nn

from glace.errors import TrainingDiverged
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, hold_out
from glace.options import Configuration, option
from glace.rng import Streams
from glace.training.optimizer import Optimizer


@dataclass(frozen=True)
class Descent(Configuration):
    """How long to train, and when to look at held-out edges; a method adds options of its own."""

    learning_rate: float = option(1e-2, "Adam's step size.", above=0)
    max_steps: int = option(1000, "Most steps.", at_least=1)
    max_seconds: float | None = option(
        None,
        "Stop after this time; the only limit that makes results depend on the clock.",
        above=0,
        kind=float,
        optional=True,
    )
    validation_fraction: float = option(
        0.05,
        "Share of edges held out for early stopping; 0 trains on all, to the last step.",
        at_least=0,
        below=1,
    )
    validate_every: int = option(50, "Steps between two looks at the held-out edges.", at_least=1)
    patience: int = option(10, "Stop after so many looks without a better AUC.", at_least=1)

    def hold_out(self, graph: Graph, validation: HeldOut | None, streams: Streams) -> tuple[Graph, HeldOut | None]:
        """The edges to train on, and those to look at: the given ones, or a share of the graph's, or none."""
        if validation is None and self.validation_fraction > 0:
            return hold_out(graph, self.validation_fraction, streams.numpy("validation"))
        return graph, validation

    def train(self, network: nn.Module, loss: Callable[[int], Tensor], look: Callable[[], float] | None) -> "Course":
        """Take steps until a limit is reached or the validation_points say so; the best weights stay in the network.

        `loss` is asked for the loss of a step by its number from 0, `look` for the AUC of held-out edges, which is
        NaN if the network has lost its way.
        """
        course, start = Course(), time.perf_counter()
        optimizer = Optimizer(network)
        best: dict[str, Tensor] | None = None
        while not self._is_over(course):
            self._step(loss(course.step), optimizer, course.step)
            course.step, course.seconds = course.step + 1, time.perf_counter() - start
            is_due = course.step % self.validate_every == 0 or self._is_over(course)
            if look is not None and is_due:
                course.validation_points.append(look())
                if math.isnan(course.validation_points[-1]):
                    raise self._diverged("what it gives is not finite", course.step)
                if course.since_best == 0:
                    best = {name: value.clone() for name, value in network.state_dict().items()}
        if best is not None:
            network.load_state_dict(best)
        return course

    def _is_over(self, course: "Course") -> bool:
        late = self.max_seconds is not None and course.seconds >= self.max_seconds
        return late or course.step >= self.max_steps or course.since_best >= self.patience

    def _step(self, loss: Tensor, optimizer: Optimizer, step: int) -> None:
        if not math.isfinite(loss.item()):
            raise self._diverged(f"the loss is {loss.item()}", step + 1)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step(step + 1, self.learning_rate)

    def _diverged(self, what: str, step: int) -> TrainingDiverged:
        return TrainingDiverged(
            f"{what} at step {step} with learning rate {self.learning_rate:.2g}; "
            "try a smaller learning rate, or attributes of a smaller scale"
        )


@dataclass
class Course:
    """How far training is, and the validation AUC of every look so far."""

    step: int = 0
    seconds: float = 0.0
    validation_points: list[float] = field(default_factory=list)

    @property
    def since_best(self) -> int:
        """Looks since the best one, the earliest of equals."""
        return len(self.validation_points) - 1 - int(np.argmax(self.validation_points)) if self.validation_points else 0
