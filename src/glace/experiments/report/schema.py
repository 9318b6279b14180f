"""Runs as their records describe them: the fields that each task needs to be drawn, validated."""

from typing import Annotated, Any, Literal, TypeGuard

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

STATUSES = {
    "done": "done",
    "timeout": "stopped at its time limit",
    "memory": "stopped at its memory limit",
    "unsupported": "not supported by the method",
    "failed": "failed",
}
JsonObject = dict[str, JsonValue]


def _equal_lengths(columns: dict[str, list[float]]) -> dict[str, list[float]]:
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("columns should have equal length")
    return columns


def _with(*names: str) -> AfterValidator:
    def check(columns: dict[str, list[float]]) -> dict[str, list[float]]:
        if missing := set(names) - set(columns):
            raise ValueError(f"columns should include {', '.join(sorted(missing))}")
        return columns

    return AfterValidator(check)


Name = Annotated[str, Field(min_length=1)]
Score = Annotated[float, Field(ge=0, le=1)]
Trials = Annotated[dict[float, Annotated[list[Score], Field(min_length=1)]], Field(min_length=1)]
"""F1 scores by share of labels."""
Pairs = Annotated[list[tuple[float, float]], Field(min_length=1)]
Columns = Annotated[dict[str, list[float]], AfterValidator(_equal_lengths)]
LeftOut = Annotated[Columns, _with("left_out", "auc")] | None
Facts = dict[str, float | None] | None
"""Numbers by name; a correlation with a constant is null."""


class Selected(BaseModel):
    """The options that trials decided."""

    options: JsonObject


class Run(BaseModel):
    """One run of one method on one dataset: the fields of every record; `get` reads those that are not declared."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, frozen=True)

    task: Name
    dataset: Name
    method: Name
    seed: int
    status: Literal["done", "timeout", "memory", "unsupported", "failed"]
    reason: str | None = None
    split: Annotated[Name, BeforeValidator(lambda given: given or "random")] = "random"
    """ "random", or the name of the file with the held-out edges."""
    hidden_share: Score | None = None
    options: JsonObject | None = None
    choice: Selected | None = None
    provenance: Annotated[dict[str, Any], BeforeValidator(lambda given: given or {})] = {}

    @property
    def done(self) -> bool:
        """Whether the run finished, so that its scores are there."""
        return self.status == "done"

    @property
    def excuse(self) -> str:
        """Why the run did not finish, in one line."""
        reason = " ".join((self.reason or "").split())
        short = reason if len(reason) <= 200 else reason[:199] + "…"
        return STATUSES[self.status] + (f": {short}" if short else "")

    def get(self, name: str) -> Any:
        """Return a field of the record, or None."""
        return getattr(self, name, None)


class LinkPrediction(Run):
    """A finished run of link prediction, or of induction."""

    auc: Score
    ap: Score


class Induction(LinkPrediction):
    """A finished run of induction."""

    hidden_share: Score


class NodeClassification(Run):
    """A finished run of node classification."""

    micro_f1_trials: Trials
    macro_f1_trials: Trials


class Convergence(Run):
    """A finished run of convergence; the curve is a list of [seconds, AUC]."""

    curve: Pairs
    seconds: float


class Visualization(Run):
    """A finished run of visualization: positions in the plane and a class for each."""

    points: Pairs
    classes: list[Annotated[int, Field(ge=0)]]

    @model_validator(mode="after")
    def _a_class_for_each_point(self) -> "Visualization":
        if len(self.points) != len(self.classes):
            raise ValueError(f"there should be a class for each point, not {len(self.classes)} for {len(self.points)}")
        return self


class Uncertainty(Run):
    """A finished run of the uncertainty task."""

    by_spread: Annotated[Columns, _with("tenth", "auc")] | None
    without_most_uncertain: LeftOut
    auc_without_dimensions: Annotated[Columns, _with("dropped")] | None
    spread_correlation: Facts
    droppable_share: Facts
    without_least_certain: LeftOut = None
    without_least_certain_answers: LeftOut = None
    error_of_halves: Facts = None


_FINISHED: dict[str, type[Run]] = {
    "link-prediction": LinkPrediction,
    "node-classification": NodeClassification,
    "induction": Induction,
    "convergence": Convergence,
    "visualization": Visualization,
    "uncertainty": Uncertainty,
}
TASKS = tuple(_FINISHED)


def run_of(task: str, status: object, line: str) -> Run:
    """Return the run that a line of JSON describes; ValueError with the first problem if it cannot be drawn."""
    model = _FINISHED[task] if status == "done" else Run
    try:
        return model.model_validate_json(line)
    except ValidationError as problem:
        first = problem.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or task
        raise ValueError(f"{task}, {field!r}: {first['msg']}, not {_shortened(first['input'])}") from problem


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value of a record is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
