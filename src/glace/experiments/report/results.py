"""Runs read from records: checked, the latest of each kept, gathered and averaged over seeds."""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from glace.errors import InputError
from glace.experiments.report.checks import STATUSES, TASKS, fault_of, is_number
from glace.storage.files import existing

FILE = "records.jsonl"
Key = TypeVar("Key")


@dataclass(frozen=True)
class Run:
    """One run of one method on one dataset; `values` holds what the task measured."""

    task: str
    dataset: str
    method: str
    seed: int
    status: str
    values: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether it came to its end, so that its values are there."""
        return self.status == "done"

    @property
    def identity(self) -> tuple[Any, ...]:
        """What a later run must share to take this one's place."""
        return self.task, self.dataset, self.method, self.seed, self.values.get("hidden_share"), self.split

    @property
    def split(self) -> str:
        """ "random", or the name of the file that says which edges are held out."""
        return str(self.values.get("split") or "random")

    @property
    def excuse(self) -> str:
        """Why it is not done, in a line."""
        reason = " ".join(str(self.values.get("reason") or "").split())
        short = reason if len(reason) <= 200 else reason[:199] + "…"
        return STATUSES[self.status] + (f": {short}" if short else "")


@dataclass(frozen=True)
class Results:
    """The runs of a folder, and what a reader should know about how they were read."""

    runs: tuple[Run, ...]
    notices: tuple[str, ...] = ()

    def of(self, task: str) -> list[Run]:
        """The runs of one task."""
        return [run for run in self.runs if run.task == task]


@dataclass(frozen=True)
class Score:
    """Mean and standard deviation (of the sample; None for one value) of so many values."""

    mean: float
    deviation: float | None
    count: int


def read_results(folder: str | Path) -> Results:
    """The runs of `folder`/records.jsonl; of two runs of the same thing the later line counts."""
    path = existing(Path(folder) / FILE, "records, which `glace evaluate` and `glace reproduce` write")
    contents, notices = _objects(path)
    evaluations = [(line, content) for line, content in contents if content.get("kind") == "evaluation"]
    runs = [_run(path, line, content) for line, content in evaluations if content.get("task") in TASKS]
    if not runs:
        raise InputError(f"{path} holds no evaluation; run `glace evaluate` or `glace reproduce` first")
    latest = {run.identity: run for run in runs}
    left_out = len(contents) - len(runs)
    if left_out:
        notices.append(f"{left_out} records of other kinds or tasks are not shown.")
    replaced = len(runs) - len(latest)
    if replaced:
        notices.append(f"{replaced} earlier runs were replaced by later runs of the same thing.")
    return Results(tuple(latest.values()), (*notices, *_mixtures(latest.values())))


def grouped(runs: Iterable[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    """The runs by a key, in order of appearance, those of a group by seed."""
    groups: dict[Key, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        groups.setdefault(key(run), []).append(run)
    return groups


def score(values: Sequence[float]) -> Score | None:
    """Of some values; None of none."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Score(statistics.fmean(values), deviation, len(values))


def measured(runs: Iterable[Run], name: str) -> Score | None:
    """A value over the runs that are done and have it as a number."""
    found = [run.values.get(name) for run in runs if run.done]
    return score([float(value) for value in found if is_number(value)])


def _objects(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], list[str]]:
    """The JSON objects of the lines with the lines' numbers, and a notice if the last line is half one."""
    lines = path.read_bytes().split(b"\n")
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append((number, _object(line)))
        except ValueError as problem:
            # A line without its end is what a killed run leaves; anything else was damaged by someone.
            if number == len(lines):
                return found, [f"The last line of {path.name} is half written and was ignored."]
            message = f"{path}, line {number}: {problem}; mend or delete that line"
            raise InputError(message) from problem
    return found, []


def _object(line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as problem:
        raise ValueError("not UTF-8") from problem
    except json.JSONDecodeError as problem:
        raise ValueError(f"not JSON ({problem.msg}, column {problem.colno})") from problem
    if not isinstance(content, dict):
        raise ValueError(f"wanted a JSON object, found {type(content).__name__}")  # noqa: TRY004
    return content


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number; records have null there")


def _run(path: Path, line: int, content: dict[str, Any]) -> Run:
    fault = fault_of(content)
    if fault:
        raise InputError(f"{path}, line {line}: {fault}; mend or delete that line")
    return Run(
        content["task"],
        content["dataset"],
        content["method"],
        content["seed"],
        content["status"],
        content,
        content.get("provenance") or {},
    )


def _mixtures(runs: Iterable[Run]) -> list[str]:
    """Where an average is over runs that are not alike: other options, or another graph of the same name."""
    notices = []
    for (task, dataset, method), group in grouped(runs, lambda run: (run.task, run.dataset, run.method)).items():
        different = _different_options(group)
        if different:
            notices.append(f"{method} on {dataset}, {task}: the runs differ in {', '.join(different)}.")
    for dataset, group in grouped(runs, lambda run: run.dataset).items():
        # A run that was stopped may not have come to know its data.
        known = {json.dumps(run.provenance["data"], sort_keys=True) for run in group if run.provenance.get("data")}
        if len(known) > 1:
            notices.append(f"{dataset}: the runs are on different data; see the fingerprints.")
    return notices


def _different_options(runs: Sequence[Run]) -> list[str]:
    options = [run.values.get("options") or {} for run in runs if run.done]
    # What trials decide may well differ: runs that left it to them are alike.
    decided = {name for run in runs for name in (run.values.get("choice") or {"options": ()})["options"]}
    names = sorted({name for each in options for name in each} - {"seed"} - decided)
    # A record of before an option was there says nothing of it.
    return [name for name in names if len({json.dumps(each[name]) for each in options if name in each}) > 1]
