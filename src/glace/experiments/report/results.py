"""Runs read from records: validated, the latest of each kept, grouped and averaged over seeds."""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from glace.errors import InputError
from glace.experiments.record_file import COMPRESSED, RECORDS, Line, RecordFile, key_of
from glace.experiments.report.names import datasets_in_order, in_order
from glace.experiments.report.schema import TASKS, Run, is_number, run_of

Key = TypeVar("Key")


@dataclass(frozen=True)
class Results:
    """The runs of a folder, and notices on how they were read."""

    runs: tuple[Run, ...]
    notices: tuple[str, ...] = ()

    def of(self, task: str) -> list[Run]:
        """Return the runs of one task."""
        return [run for run in self.runs if run.task == task]


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
    runs = [(key_of(line.record), _run(line)) for line in lines if _is_evaluation(line.record)]
    if not runs:
        raise InputError(f"{file.path} holds no evaluation; run `glace reproduce` first")
    latest = dict(runs)
    counts = {
        "{} records of other kinds or tasks are not shown.": len(lines) - len(runs),
        "{} earlier runs were replaced by later runs of the same thing.": len(runs) - len(latest),
        f"The last line of {RECORDS} is unfinished and was ignored.": int(file.has_partial_line),
    }
    notices = [text.format(count) for text, count in counts.items() if count]
    return Results(tuple(latest.values()), (*notices, *_mixtures(latest.values())))


def grouped(runs: Iterable[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    """Return the runs by a key in order of appearance; each group is sorted by seed."""
    groups: dict[Key, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        groups.setdefault(key(run), []).append(run)
    return groups


def by_dataset(runs: Iterable[Run]) -> list[tuple[str, list[Run]]]:
    """Return the datasets in the paper's order, each with its runs."""
    groups = grouped(runs, lambda run: run.dataset)
    return [(dataset, groups[dataset]) for dataset in datasets_in_order(groups)]


def by_method(runs: Iterable[Run]) -> list[tuple[str, list[Run]]]:
    """Return the methods in the paper's order, each with its runs."""
    groups = grouped(runs, lambda run: run.method)
    return [(method, groups[method]) for method in in_order(groups)]


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


def _is_evaluation(record: Mapping[str, object]) -> bool:
    return record.get("kind") == "evaluation" and record.get("task") in TASKS


def _run(line: Line) -> Run:
    try:
        return run_of(line.record["task"], line.record.get("status"), line.text)
    except ValueError as problem:
        raise line.error(str(problem)) from problem


def _mixtures(runs: Iterable[Run]) -> list[str]:
    """Return a notice for each average over runs with different options, or on different graphs of one name."""
    notices = []
    for (task, dataset, method), group in grouped(runs, lambda run: (run.task, run.dataset, run.method)).items():
        different = _different_options(group)
        if different:
            notices.append(f"{method} on {dataset}, {task}: the runs differ in {', '.join(different)}.")
    for dataset, group in grouped(runs, lambda run: run.dataset).items():
        # A run that was stopped early may have no fingerprint of its data.
        known = {json.dumps(run.provenance["data"], sort_keys=True) for run in group if run.provenance.get("data")}
        if len(known) > 1:
            notices.append(f"{dataset}: the runs are on different data; see the fingerprints.")
    return notices


def _different_options(runs: Sequence[Run]) -> list[str]:
    options = [run.options or {} for run in runs if run.done]
    # Options selected by trials may differ: runs that left them to the trials are alike.
    selected = {name for run in runs if run.choice for name in run.choice.options}
    names = sorted({name for each in options for name in each} - {"seed", "random_state"} - selected)
    # A record that is older than an option, or than its name, says nothing about it.
    return [name for name in names if len({json.dumps(each[name]) for each in options if name in each}) > 1]
