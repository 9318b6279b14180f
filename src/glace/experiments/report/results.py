"""Runs read from records: validated, the latest of each kept, grouped and averaged over seeds."""

import json
import reprlib
import statistics
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard, TypeVar

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

from glace.errors import InputError
from glace.experiments.record_file import COMPRESSED, RECORDS, Line, RecordFile, key_of
from glace.experiments.report.paper import CONVERGING, datasets_in_order, methods_in_order, row_of_link_model

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
UnitInterval = Annotated[float, Field(ge=0, le=1)]
Trials = Annotated[dict[float, Annotated[list[UnitInterval], Field(min_length=1)]], Field(min_length=1)]
"""F1 scores by share of labels."""
Pairs = Annotated[list[tuple[float, float]], Field(min_length=1)]
Columns = Annotated[dict[str, list[float]], AfterValidator(_equal_lengths)]
LeftOut = Annotated[Columns, _with("left_out", "auc")] | None
Facts = dict[str, float | None] | None
"""Numbers by name; a correlation with a constant is null."""


class Trial(BaseModel):
    """A short training with some options, and its validation AUC."""

    auc: UnitInterval


class Selected(BaseModel):
    """The options that trials decided, and the trials."""

    options: JsonObject
    trials: list[Trial] = []


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
    hidden_share: UnitInterval | None = None
    directed: bool = False
    """Whether edges have a direction."""
    options: JsonObject | None = None
    choice: Selected | None = None
    protocol: str | None = None
    """How induction drew its non-edges."""
    provenance: Annotated[dict[str, Any], BeforeValidator(lambda given: given or {})] = {}

    @property
    def done(self) -> bool:
        """Whether the run finished, so that its scores are there."""
        return self.status == "done"

    @property
    def is_alone(self) -> bool:
        """Whether no other run of the grid ran at the same time, so that its seconds can be compared."""
        return self.provenance.get("parallel_runs") == 1

    @property
    def excuse(self) -> str:
        """Why the run did not finish, in one line."""
        reason = textwrap.shorten(self.reason or "", 200, placeholder="…")
        return STATUSES[self.status] + (f": {reason}" if reason else "")

    def get(self, name: str) -> Any:
        """Return a field of the record, or None."""
        return getattr(self, name, None)


class LinkPrediction(Run):
    """A finished run of link prediction; learned methods have a curve of [seconds, validation AUC]."""

    auc: UnitInterval
    ap: UnitInterval
    curve: Pairs | None = None


class Induction(Run):
    """A finished run of induction."""

    auc: UnitInterval
    ap: UnitInterval
    hidden_share: UnitInterval


class NodeClassification(Run):
    """A finished run of node classification."""

    micro_f1_trials: Trials
    macro_f1_trials: Trials


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


class BenchmarkRanking(Run):
    """A finished run of benchmark ranking; Hits@K is null if there are too few non-edges."""

    auc: UnitInterval
    mrr: UnitInterval
    hits_at_20: UnitInterval | None
    hits_at_50: UnitInterval | None
    hits_at_100: UnitInterval | None


LINKS = "link-prediction"
_FINISHED: dict[str, type[Run]] = {
    LINKS: LinkPrediction,
    "node-classification": NodeClassification,
    "induction": Induction,
    "visualization": Visualization,
    "uncertainty": Uncertainty,
    "benchmark-ranking": BenchmarkRanking,
}
TASKS = tuple(_FINISHED)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value of a record is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


Key = TypeVar("Key")


@dataclass(frozen=True)
class Results:
    """The runs of a folder, and notices on how they were read."""

    runs: tuple[Run, ...]
    notices: tuple[str, ...] = ()

    def of(self, task: str) -> list[Run]:
        """Return the runs of one task, without link prediction on directed graphs."""
        return [run for run in self.runs if run.task == task and not (run.directed and task == LINKS)]

    def converging(self) -> list[Run]:
        """Return the runs of link prediction whose curves of training are drawn."""
        drawn = [run for run in self.of(LINKS) if run.method in CONVERGING and run.split == "random"]
        return [run for run in drawn if run.get("curve") or not run.done]

    def directed(self) -> list[Run]:
        """Return the runs of link prediction on directed graphs."""
        return [run for run in self.runs if run.task == LINKS and run.directed]


@dataclass(frozen=True)
class Score:
    """Mean and sample standard deviation (None for a single value) of `count` values."""

    mean: float
    deviation: float | None
    count: int


def read_results(folder: str | Path) -> Results:
    """Return the runs in a folder's records; a later run replaces an earlier run of the same thing."""
    file = RecordFile(folder)
    lines = file.read()
    if not lines and not file.has_partial_line:
        raise InputError(f"{folder} has no {RECORDS} or {COMPRESSED}; run `glace reproduce` to write records there")
    shown = [line for line in lines if line.record.get("kind") == "evaluation" and line.record.get("task") in TASKS]
    runs = [(key_of(line.record), _run(line)) for line in shown]
    if not runs:
        raise InputError(f"{file.path} holds no evaluation; run `glace reproduce` first")
    latest = dict(runs)
    counts = {
        "{} records of other kinds or tasks are not shown.": len(lines) - len(runs),
        "{} earlier runs were replaced by later runs of the same thing.": len(runs) - len(latest),
        f"The last line of {RECORDS} is unfinished and was ignored.": int(file.has_partial_line),
    }
    notices = [text.format(count) for text, count in counts.items() if count]
    return Results(tuple(latest.values()), (*notices, *_mixtures(tuple(latest.values()))))


def grouped(runs: Iterable[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    """Return the runs by a key in order of appearance; each group is sorted by seed."""
    groups: dict[Key, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        groups.setdefault(key(run), []).append(run)
    return groups


def by_dataset(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Return the runs of each dataset, in the paper's order."""
    groups = grouped(runs, lambda run: run.dataset)
    return {dataset: groups[dataset] for dataset in datasets_in_order(groups)}


def by_method(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Return the runs of each method, in the paper's order."""
    groups = grouped(runs, lambda run: run.method)
    return {method: groups[method] for method in methods_in_order(groups)}


LINK_MODEL = "_link_model"
"""Ending of the fields of a record that are scores by the link model instead of the embedding."""


def with_link_models(runs: Iterable[Run]) -> list[Run]:
    """Return the runs, and for those with a link model another one that has its scores and the name of its row."""
    rows = [(run, row_of_link_model(run.method)) for run in runs]
    return [run for run, _ in rows] + [_by_link_model(run, row) for run, row in rows if row and _has_link_model(run)]


def _has_link_model(run: Run) -> bool:
    return any(name.endswith(LINK_MODEL) for name in run.model_extra or {})


def _by_link_model(run: Run, row: str) -> Run:
    extra = run.model_extra or {}
    scores = {name.removesuffix(LINK_MODEL): value for name, value in extra.items() if name.endswith(LINK_MODEL)}
    # Other ways of judging the embedding, such as by cosine, are none of the link model.
    others = [name for name in extra if name.startswith(tuple(f"{each}_" for each in scores))]
    return run.model_copy(update={"method": row} | dict.fromkeys(others) | scores)


def score(values: Sequence[float]) -> Score | None:
    """Return mean and deviation of some values; None if there are none."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Score(statistics.fmean(values), deviation, len(values))


def mean_score(runs: Iterable[Run], name: str) -> Score | None:
    """Return the score of a field over the finished runs that have it as a number."""
    found = [run.get(name) for run in runs if run.done]
    return score([float(value) for value in found if is_number(value)])


def _run(line: Line) -> Run:
    task = line.record["task"]
    model = _FINISHED[task] if line.record.get("status") == "done" else Run
    try:
        return model.model_validate_json(line.text)
    except ValidationError as problem:
        first = problem.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or task
        raise line.error(f"{task}, {field!r}: {first['msg']}, not {reprlib.repr(first['input'])}") from problem


def _mixtures(runs: Sequence[Run]) -> list[str]:
    """Return a notice for each average over runs with different options, or on different graphs of one name."""
    notices = []
    for (task, dataset, method, _), group in grouped(
        runs, lambda run: (run.task, run.dataset, run.method, run.directed)
    ).items():
        different = _different_options(group)
        if different:
            notices.append(f"{method} on {dataset}, {task}: the runs differ in {', '.join(different)}.")
    for (dataset, _), group in grouped(runs, lambda run: (run.dataset, run.directed)).items():
        # A run that was stopped early may have no fingerprint of its data.
        known = {json.dumps(run.provenance["data"], sort_keys=True) for run in group if run.provenance.get("data")}
        if len(known) > 1:
            notices.append(f"{dataset}: the runs are on different data; see the fingerprints.")
    return notices + _unequal_seeds(runs) + _mixed_code(runs)


def _unequal_seeds(runs: Sequence[Run]) -> list[str]:
    """Return a notice if methods that are compared have different numbers of seeds: some splits are harder."""
    done = [run for run in runs if run.done]
    compared = grouped(
        done, lambda run: (run.task, run.dataset, run.directed, run.split, run.hidden_share, run.protocol)
    )
    unequal = {}
    for (task, dataset, directed, *_), group in compared.items():
        counts = sorted({len(some) for some in by_method(group).values()})
        if len(counts) > 1:
            unequal[f"{task} on {'directed ' * directed}{dataset}"] = " or ".join(map(str, counts))
    if not unequal:
        return []
    listed = ", ".join(f"{name} ({counts})" for name, counts in unequal.items())
    return [f"Methods have different numbers of seeds, so their means are over different splits: {listed}."]


def _mixed_code(runs: Sequence[Run]) -> list[str]:
    """Return a notice for each part of the code that changed between the runs, and for runs that do not tell."""
    states = [run.provenance.get("code") or {} for run in runs]
    known: dict[str, set[str]] = {}
    for state in states:
        for part, digest in state.items():
            known.setdefault(str(part), set()).add(str(digest))
    notices = [
        f"The runs were made by {len(found)} states of the code of {part}; numbers may differ for that reason."
        for part, found in known.items()
        if len(found) > 1
    ]
    silent = sum(not state for state in states)
    return notices + ([f"{silent} runs do not say which state of the code made them."] if silent else [])


def _different_options(runs: Sequence[Run]) -> list[str]:
    options = [run.options or {} for run in runs if run.done]
    # Options selected by trials may differ: runs that left them to the trials are alike.
    selected = {name for run in runs if run.choice for name in run.choice.options}
    names = sorted({name for each in options for name in each} - {"seed", "random_state"} - selected)
    # A record that is older than an option, or than its name, says nothing about it.
    return [name for name in names if len({json.dumps(each[name]) for each in options if name in each}) > 1]
