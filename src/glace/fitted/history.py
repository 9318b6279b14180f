"""What training reports: progress while it runs, validation results, and the trials that selected options."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

OptionValue = float | int | str | bool | None


@dataclass(frozen=True)
class Progress:
    """The state of a run after a step; `done` is the completed fraction of the run, 0 to 1."""

    step: int
    done: float
    loss: float
    learning_rate: float
    edges_per_second: float
    validation_auc: float | None
    stage: str = "training"


Listener = Callable[[Progress], None]
"""Called after each step. It must not change anything."""


@dataclass(frozen=True)
class ValidationPoint:
    """Validation results after `step` steps; `loss` is None before the first step."""

    step: int
    loss: float | None
    auc: float
    ap: float


@dataclass
class History:
    """Validation results and training time of a run."""

    step: int = 0
    """Steps taken."""
    seconds: float = 0.0
    """Training time, summed over interrupted and resumed parts."""
    loss: float | None = None
    """Loss of the last step."""
    validation_points: list[ValidationPoint] = field(default_factory=list)
    since_best: int = 0
    """Validations since the best one."""

    @property
    def best(self) -> ValidationPoint | None:
        """The validation with the highest AUC; the earliest of equals."""
        return max(self.validation_points, key=lambda point: (point.auc, -point.step), default=None)

    def add(self, point: ValidationPoint) -> bool:
        """Append a validation result and return whether it is the best so far."""
        self.validation_points.append(point)
        self.since_best = 0 if self.best is point else self.since_best + 1
        return self.since_best == 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "History":
        """Rebuild from the result of `to_json`."""
        points = [ValidationPoint(**point) for point in values["validation_points"]]
        return cls(**{**values, "validation_points": points})


@dataclass(frozen=True)
class Trial:
    """A short training run: the option it changed, the new value, its validation AUC, and whether it was kept."""

    option: str
    value: OptionValue
    auc: float
    kept: bool


@dataclass(frozen=True)
class Selection:
    """The values selected for options that were `auto`, and the trials behind them."""

    options: dict[str, OptionValue]
    trials: tuple[Trial, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Selection":
        """Rebuild from the result of `to_json`."""
        return cls(dict(values["options"]), tuple(Trial(**trial) for trial in values["trials"]))
