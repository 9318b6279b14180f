"""The tables and figures of the paper as a grid of runs, each a process of its own with one record; resumable."""

import json
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from glace.errors import InputError
from glace.experiments.record_file import JsonObject, RecordFile, key_of
from glace.experiments.tasks import METHODS, SPLITTING, Evaluation, unsupported
from glace.records import Record, command_line, provenance

CITATIONS = ("cora-ml", "citeseer", "dblp", "pubmed")
LARGER = ("wordnet", "debian")
PLAIN = tuple(name for name in METHODS if not name.endswith(("-first", "-second")))


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: its task, and the default datasets, methods, seeds and hidden shares."""

    task: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    hidden_shares: tuple[float | None, ...] = (None,)


EXPERIMENTS = {
    "table-2": Experiment("link-prediction", (*CITATIONS, *LARGER), METHODS, 3),
    "table-3": Experiment(
        "induction",
        CITATIONS,
        ("attributes", "graphsage", "graph2gauss", "lace", "glace-published", "glace"),
        3,
        (0.1, 0.5),
    ),
    "figure-1": Experiment("node-classification", CITATIONS, PLAIN, 1),
    "figure-2": Experiment("convergence", (*CITATIONS, *LARGER), ("line", "lace", "glace-published", "glace"), 1),
    "figure-3": Experiment(
        "visualization",
        CITATIONS,
        tuple(name for name in PLAIN if name != "deepwalk"),  # its picture is that of node2vec
        1,
    ),
    "uncertainty": Experiment("uncertainty", CITATIONS, ("graph2gauss", "glace-published", "glace"), 1),
}


@dataclass(frozen=True)
class Run:
    """One evaluation of one dataset."""

    dataset: str
    evaluation: Evaluation

    def record(self) -> dict[str, object]:
        """Return the fields of a record that identify the run."""
        wanted = self.evaluation
        return {
            "task": wanted.task,
            "dataset": self.dataset,
            "method": wanted.method,
            "seed": wanted.seed,
            "split": wanted.split.name if wanted.split else "random",
            "hidden_share": wanted.hidden_share,
        }

    def key(self) -> tuple[object, ...]:
        """Return what identifies the run, as `key_of` its record does."""
        return key_of(self.record())

    def text(self) -> str:
        """Describe the run in one line."""
        share = self.evaluation.hidden_share
        hidden = "" if share is None else f", {share:.0%} hidden"
        return f"{self.evaluation.task} {self.dataset} {self.evaluation.method}{hidden}, seed {self.evaluation.seed}"


def runs(
    names: Sequence[str],
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    split: Path | None = None,
) -> list[Run]:
    """Return the runs of these experiments without repetition; arguments replace the defaults of each experiment."""
    _check(names, methods, seeds)
    found: dict[tuple[object, ...], Run] = {}
    # Seeds are the outer loop: an interrupted grid then has some runs of every kind.
    for seed in range(seeds or max(EXPERIMENTS[name].seeds for name in names)):
        for name in names:
            experiment = EXPERIMENTS[name]
            if seeds is None and seed >= experiment.seeds:
                continue
            for run in _of(experiment, datasets, methods, seed, split):
                found.setdefault(run.key(), run)
    return list(found.values())


def _of(
    experiment: Experiment, datasets: Sequence[str] | None, methods: Sequence[str] | None, seed: int, split: Path | None
) -> list[Run]:
    used = split if experiment.task in SPLITTING else None
    return [
        Run(dataset, Evaluation(experiment.task, method, seed, None, used, share))
        for dataset in datasets or experiment.datasets
        for method in methods or experiment.methods
        for share in experiment.hidden_shares
    ]


def _check(names: Sequence[str], methods: Sequence[str] | None, seeds: int | None) -> None:
    for kind, given, known in (("experiment", names, EXPERIMENTS), ("method", methods or (), METHODS)):
        for each in given:
            if each not in known:
                raise InputError(f"there is no {kind} {each!r}; choose from {', '.join(known)}")
    if seeds is not None and seeds < 1:
        raise InputError(f"the number of seeds must be at least 1, not {seeds}")


TOO_LARGE = 4
"""Exit code of `glace evaluate` when memory does not suffice."""
FINAL = ("done", "timeout", "memory", "unsupported")
"""Statuses that another attempt would not change; a failed run is repeated."""


@dataclass(frozen=True)
class FinishedRun:
    """What the listener of a grid receives when a run ends: its record, and how many of all runs have ended."""

    run: Run
    record: JsonObject
    done: int
    total: int


@dataclass(frozen=True)
class GridOptions:
    """Where a grid writes its records and reads its data, the time limit of a run, and how many run in parallel."""

    folder: Path
    data_dir: Path | None
    limit_seconds: float
    parallel_runs: int = 1


def run_grid(runs: Sequence[Run], options: GridOptions, listener: Callable[[FinishedRun], None]) -> None:
    """Make all runs that have no final record yet; `listener` is called when one ends."""
    options.folder.mkdir(parents=True, exist_ok=True)
    records = RecordFile(options.folder)
    records.drop_partial_line()
    finished = finished_keys(records)
    missing = [run for run in runs if run.key() not in finished]
    total, lock = len(runs), threading.Lock()
    done = total - len(missing)

    def make(run: Run) -> None:
        nonlocal done
        record = _record_of(run, options)
        with lock:
            records.append(record)
            done += 1
            listener(FinishedRun(run, record, done, total))

    with ThreadPoolExecutor(max_workers=options.parallel_runs) as pool:
        try:
            for made in [pool.submit(make, run) for run in missing]:
                made.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def finished_keys(records: RecordFile) -> set[tuple[object, ...]]:
    """Return the keys of the runs that need not be repeated."""
    return {key_of(line.record) for line in records.read() if line.record.get("status") in FINAL}


def command(run: Run, options: GridOptions) -> list[str]:
    """Return the arguments of `glace` that make this run alone."""
    wanted = run.evaluation
    arguments = ["evaluate", wanted.task, run.dataset, "--method", wanted.method, "--seed", str(wanted.seed)]
    if wanted.split is not None:
        arguments += ["--split", str(wanted.split)]
    if wanted.hidden_share is not None:
        arguments += ["--hidden-share", str(wanted.hidden_share)]
    if options.data_dir is not None:
        arguments += ["--data-dir", str(options.data_dir)]
    return arguments


def check_folder(folder: Path) -> None:
    """Raise if the folder of a grid is a file."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for records and report")


def _record_of(run: Run, options: GridOptions) -> JsonObject:
    reason = unsupported(run.evaluation.task, run.evaluation.method)
    if reason:
        return _empty(run, "unsupported", reason, 0.0)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "record.json"
        began = time.perf_counter()
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "glace.cli", *command(run, options), "--quiet", "--json", str(output)],
                capture_output=True,
                text=True,
                timeout=options.limit_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reason = f"not finished within {options.limit_seconds / 3600:g} h"
            return _empty(run, "timeout", reason, options.limit_seconds)
        if ended.returncode == 0:
            record: JsonObject = json.loads(output.read_text(encoding="utf-8"))
            # The command that repeats the run, without the scratch file, and the command of the grid.
            record["provenance"]["command"] = shlex.join(["glace", *command(run, options)])
            record["provenance"]["grid"] = command_line()
            return record
        return _failure(run, ended, time.perf_counter() - began)


def _failure(run: Run, ended: "subprocess.CompletedProcess[str]", seconds: float) -> JsonObject:
    messages = ended.stderr.strip().splitlines()
    reason = messages[-1].removeprefix("error: ") if messages else f"ended with exit code {ended.returncode}"
    killed = ended.returncode == -9  # by the system, for lack of memory
    status = "memory" if killed or ended.returncode == TOO_LARGE else "failed"
    return _empty(run, status, "killed: out of memory" if killed else reason, seconds)


def _empty(run: Run, status: str, reason: str, seconds: float) -> JsonObject:
    """Return the record of a run without a result."""
    values = {**run.record(), "status": status, "reason": reason, "seconds": round(seconds, 3)}
    record: JsonObject = json.loads(Record("evaluation", values, provenance()).to_json())
    return record
