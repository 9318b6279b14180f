"""What a run has seen so far: the part of its state that is numbers, not weights."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Progress:
    """What a caller is told after each step; `done` is the share of the run behind, 0 to 1."""

    step: int
    done: float
    loss: float
    learning_rate: float
    edges_per_second: float
    validation_auc: float | None
    stage: str = "training"


Listener = Callable[[Progress], None]
"""Called after each step; it must not change anything."""


@dataclass(frozen=True)
class ValidationPoint:
    """One look at the held-out edges, after `step` steps; before the first there is no loss."""

    step: int
    loss: float | None
    auc: float
    ap: float


@dataclass
class History:
    """Looks at the held-out edges, the best of them, and the time spent."""

    step: int = 0
    """Steps taken."""
    seconds: float = 0.0
    """Time spent in training, over all resumed parts."""
    loss: float | None = None
    """Loss of the last step."""
    validation_points: list[ValidationPoint] = field(default_factory=list)
    since_best: int = 0
    """Looks since the best one."""

    @property
    def best(self) -> ValidationPoint | None:
        """The look with the highest AUC, the earliest of equals."""
        return max(self.validation_points, key=lambda look: (look.auc, -look.step), default=None)

    def add(self, look: ValidationPoint) -> bool:
        """Note a look; whether it is the best so far."""
        self.validation_points.append(look)
        self.since_best = 0 if self.best is look else self.since_best + 1
        return self.since_best == 0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        validation_points = [[look.step, look.loss, look.auc, look.ap] for look in self.validation_points]
        facts = {"step": self.step, "seconds": self.seconds, "loss": self.loss}
        return {**facts, "validation_points": validation_points, "since_best": self.since_best}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "History":
        """Back from `to_json`."""
        validation_points = [
            ValidationPoint(int(step), loss, auc, ap) for step, loss, auc, ap in values["validation_points"]
        ]
        times = int(values["step"]), float(values["seconds"])
        return cls(*times, values["loss"], validation_points, int(values["since_best"]))
