"""The tables and figures of the paper as a grid of runs, each a process of its own with one record; resumable."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue

from glace.cores import cores, shares_of_cores
from glace.datasets.registry import data_folder
from glace.errors import InputError
from glace.experiments.code_state import code_state
from glace.experiments.evaluation.rankers import HEURISTICS
from glace.experiments.methods import METHODS
from glace.experiments.record_file import JsonObject, RecordFile, key_of
from glace.experiments.report.paper import AUTHORS_SPLIT, CONVERGING
from glace.experiments.splits import BALANCED, GRAPH2GAUSS
from glace.experiments.tasks import SPLITTING, Evaluation, unsupported
from glace.records import Record, command_line, provenance, without_places
from glace.storage.files import make_folder

CITATIONS = ("cora-ml", "citeseer", "dblp", "pubmed")
LARGER = ("wordnet", "debian")
BENCHMARKS = ("cora-planetoid", "citeseer-planetoid", "pubmed-planetoid")
AS_CODED = "glace-as-coded"
"""The authors' program as it is takes long, and has rows where there is something to compare it with."""
RATED = tuple(name for name in METHODS if name != AS_CODED and not name.endswith("-kl"))
"""Without the rows that differ for directed graphs only."""
PLAIN = tuple(name for name in RATED if not name.endswith(("-first", "-second", "-wasserstein2")))
SLOW = ("vgae", "sdne", "dvne")
"""Take ten minutes and more on a large graph, where they have one seed."""
DIRECTED = ("lace", "word2gauss", "graph2gauss", "glace-symmetric-kl", "glace-kl")


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or a part of one: its task, and the default values of everything that varies."""

    task: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    hidden_shares: tuple[float | None, ...] = (None,)
    protocols: tuple[str | None, ...] = (None,)
    split: str | None = None
    """Name of a file in the data folder with a given split."""
    directed: bool = False
    """Whether edges keep their direction."""


EXPERIMENTS: dict[str, tuple[Experiment, ...]] = {
    "table-2": (
        Experiment("link-prediction", CITATIONS, RATED, 3),
        Experiment("link-prediction", LARGER, tuple(name for name in RATED if name not in SLOW), 3),
        Experiment("link-prediction", LARGER, SLOW, 1),
        Experiment("link-prediction", ("dblp",), (AS_CODED,), 3),
    ),
    "authors-split": (Experiment("link-prediction", ("cora-ml",), (*RATED, AS_CODED), 1, split=AUTHORS_SPLIT),),
    "table-3": (
        Experiment(
            "induction",
            CITATIONS,
            (
                "attributes",
                "graphsage",
                "graph2gauss",
                "lace-published",
                "lace",
                "glace-published-first",
                "glace-published",
                "glace",
            ),
            3,
            (0.1, 0.5),
            (BALANCED,),
        ),
        # What the paper compares, on its graphs, with the pairs that its numbers fit.
        Experiment(
            "induction",
            ("cora-ml", "citeseer", "pubmed"),
            ("attributes", "graph2gauss", "glace-published-first", "glace-published", "glace"),
            3,
            (0.1, 0.5),
            (GRAPH2GAUSS,),
        ),
    ),
    "figure-1": (Experiment("node-classification", CITATIONS, PLAIN, 3),),
    "figure-2": (Experiment("link-prediction", (*CITATIONS, *LARGER), CONVERGING, 3),),
    "figure-3": (
        Experiment(
            "visualization",
            CITATIONS,
            tuple(name for name in PLAIN if name != "deepwalk"),  # its picture is that of node2vec
            1,
        ),
    ),
    "uncertainty": (Experiment("uncertainty", CITATIONS, ("graph2gauss", "glace-published", "glace"), 1),),
    "benchmark-ranking": (
        Experiment("benchmark-ranking", BENCHMARKS, (*HEURISTICS, *PLAIN), 5, (0.1,)),
        # The share that tables of other papers have.
        Experiment("benchmark-ranking", BENCHMARKS, ("glace",), 5, (0.2,)),
    ),
    "directed": (Experiment("link-prediction", ("cora-ml", "citeseer", "dblp", *LARGER), DIRECTED, 3, directed=True),),
}


def runs(
    names: Sequence[str],
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    split: Path | None = None,
    data_dir: Path | None = None,
) -> list[Evaluation]:
    """Return the runs of these experiments without repetition; arguments replace the defaults of each experiment.

    Of the parts of an experiment, a dataset goes to those that name it, or to the first if none does. Splits that an
    experiment names are files in the data folder.
    """
    _check(names, methods, seeds)
    wanted = [
        (part, _datasets_of(part, EXPERIMENTS[name], datasets, split)) for name in names for part in EXPERIMENTS[name]
    ]
    found = (
        Evaluation(
            each.task, dataset, method, seed, None, _split_of(each, split, data_dir), share, each.directed, protocol
        )
        # Seeds are the outer loop: an interrupted grid then has some runs of every kind.
        for seed in range(seeds or max(each.seeds for each, _ in wanted))
        for each, its_datasets in wanted
        if seed < (seeds or each.seeds)
        for dataset in its_datasets
        for method in methods or each.methods
        for share in each.hidden_shares
        for protocol in each.protocols
    )
    return list({run.key(): run for run in found}.values())


def _datasets_of(
    part: Experiment, parts: Sequence[Experiment], given: Sequence[str] | None, split: Path | None
) -> Sequence[str]:
    """Return the datasets of a part: its own of those that are given, and for the first part also unknown ones."""
    if given is None:
        return part.datasets
    known = {name for each in parts for name in each.datasets}
    # A split that the experiment names is one of its own dataset.
    takes_others = part is parts[0] and (part.split is None or split is not None)
    return [name for name in given if name in part.datasets or (takes_others and name not in known)]


def _split_of(experiment: Experiment, given: Path | None, data_dir: Path | None) -> Path | None:
    if given is not None:
        return given if experiment.task in SPLITTING else None
    return data_folder(data_dir) / experiment.split if experiment.split else None


def _check(names: Sequence[str], methods: Sequence[str] | None, seeds: int | None) -> None:
    for kind, given, known in (("experiment", names, EXPERIMENTS), ("method", methods or (), (*METHODS, *HEURISTICS))):
        for each in given:
            if each not in known:
                raise InputError(f"there is no {kind} {each!r}; choose from {', '.join(known)}")
    if seeds is not None and seeds < 1:
        raise InputError(f"the number of seeds must be at least 1, not {seeds}")


TOO_LARGE = 4
"""Exit code of `glace evaluate` when memory does not suffice."""
FINAL = ("done", "memory", "unsupported")
"""Statuses that another attempt would not change. A failed run is repeated, and a run that had less time."""
INTERRUPTED = (130, -signal.SIGINT)
"""Exit codes of a process that was stopped by Ctrl-C, which goes to all processes of a terminal."""


@dataclass(frozen=True)
class GridOptions:
    """Where a grid writes its records and reads its data, the time limit of a run, and how many run in parallel."""

    folder: Path
    data_dir: Path | None
    limit_seconds: float
    parallel_runs: int = 1


Listener = Callable[[Evaluation, JsonObject, int], None]
"""Called when a run ends, with its record and the number of runs that have ended."""


def run_grid(runs: Sequence[Evaluation], options: GridOptions, listener: Listener) -> None:
    """Make all runs that have no final record yet; `listener` is called when one ends."""
    records = RecordFile(make_folder(options.folder))
    records.drop_partial_line()
    missing = unfinished(runs, options.folder, options.limit_seconds)
    done, lock = count(len(runs) - len(missing) + 1), threading.Lock()

    def make(run: Evaluation) -> None:
        record = _record_of(run, options)
        with lock:
            records.append(record)
            listener(run, record, next(done))

    shares: SimpleQueue[set[int]] = SimpleQueue()
    for share in shares_of_cores(options.parallel_runs):
        shares.put(share)
    with ThreadPoolExecutor(options.parallel_runs, initializer=_take_cores, initargs=(shares,)) as pool:
        try:
            for made in [pool.submit(make, run) for run in missing]:
                made.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _take_cores(shares: "SimpleQueue[set[int]]") -> None:
    """Give this thread, and so the processes it starts, cores of its own.

    Two runs with a core each end earlier than two that share both, or than one after the other: 53, 63 and 83 s for
    GLACE and GLACE as published on DBLP.
    """
    with suppress(Empty):
        os.sched_setaffinity(0, shares.get_nowait())


def unfinished(runs: Sequence[Evaluation], folder: Path, limit_seconds: float) -> list[Evaluation]:
    """Return the runs that have no final record in a folder."""
    finished = finished_keys(RecordFile(folder), limit_seconds)
    return [run for run in runs if run.key() not in finished]


def finished_keys(records: RecordFile, limit_seconds: float) -> set[tuple[object, ...]]:
    """Return the keys of the runs that need not be repeated with this time limit."""
    return {key_of(line.record) for line in records.read() if _is_final(line.record, limit_seconds)}


def _is_final(record: JsonObject, limit_seconds: float) -> bool:
    if record.get("status") == "timeout":
        return bool(record.get("seconds", 0.0) >= limit_seconds)
    return record.get("status") in FINAL


def command(run: Evaluation, options: GridOptions) -> list[str]:
    """Return the arguments of `glace` that make this run alone."""
    arguments = ["evaluate", run.task, run.dataset, "--method", run.method, "--seed", str(run.seed)]
    given = {
        "--split": run.split,
        "--hidden-share": run.hidden_share,
        "--protocol": run.protocol,
        "--data-dir": options.data_dir,
    }
    arguments += ["--directed"] * run.directed
    return arguments + [text for name, value in given.items() if value is not None for text in (name, str(value))]


def check_folder(folder: Path) -> None:
    """Raise if the folder of a grid exists as a file, lies below one, or cannot be written to; nothing is made yet."""
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not nearest.is_dir():
        raise InputError(f"{nearest} is a file; name a folder for records and report")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"cannot write to the folder {nearest}; name another for records and report")


def _record_of(run: Evaluation, options: GridOptions) -> JsonObject:
    """Make a run and return its record with how it was made: the report shows times of runs that were alone."""
    load, began = load_average(), time.perf_counter()
    record = _result_of(run, options)
    record["provenance"] |= {
        # The command that repeats the run, without the scratch file, and the command of the grid.
        "command": without_places(shlex.join(["glace", *command(run, options)])),
        "grid": without_places(command_line()),
        "parallel_runs": options.parallel_runs,
        "cores": cores(),
        "load_before": load,
        "wall_seconds": round(time.perf_counter() - began, 3),
    }
    return record


def load_average() -> float | None:
    """Return the mean number of processes that wanted a processor in the last minute; None where it is not known."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _result_of(run: Evaluation, options: GridOptions) -> JsonObject:
    if reason := unsupported(run.task, run.method):
        return _empty(run, "unsupported", reason, 0.0)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "record.json"
        began = time.perf_counter()
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "glace", *command(run, options), "--quiet", "--json", str(output)],
                capture_output=True,
                text=True,
                timeout=options.limit_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reason = f"not finished within {options.limit_seconds / 3600:g} h"
            return _empty(run, "timeout", reason, options.limit_seconds)
        if ended.returncode in INTERRUPTED:
            raise KeyboardInterrupt
        if ended.returncode == 0:
            record: JsonObject = json.loads(output.read_text(encoding="utf-8"))
            return record
        return _failure(run, ended, time.perf_counter() - began)


def _failure(run: Evaluation, ended: "subprocess.CompletedProcess[str]", seconds: float) -> JsonObject:
    messages = ended.stderr.strip().splitlines()
    reason = messages[-1].removeprefix("error: ") if messages else f"ended with exit code {ended.returncode}"
    killed = ended.returncode == -9  # by the system, for lack of memory
    status = "memory" if killed or ended.returncode == TOO_LARGE else "failed"
    return _empty(run, status, "killed: out of memory" if killed else reason, seconds)


def _empty(run: Evaluation, status: str, reason: str, seconds: float) -> JsonObject:
    """Return the record of a run without a result."""
    values = {**run.record(), "status": status, "reason": reason, "seconds": round(seconds, 3)}
    record: JsonObject = json.loads(Record("evaluation", values, provenance(**code_state())).to_json())
    return record
