"""Run a grid: each run in its own process and one line of records.jsonl; finished runs are not repeated."""

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
from typing import Any

from glace.errors import InputError
from glace.experiments.grid import Run
from glace.experiments.record_file import RecordFile, key_of
from glace.experiments.tasks import unsupported
from glace.records import Record, command_line, provenance

TOO_LARGE = 4
"""Exit code of `glace evaluate` when memory does not suffice."""
FINAL = ("done", "timeout", "memory", "unsupported")
"""Statuses that another attempt would not change; a failed run is repeated."""


@dataclass(frozen=True)
class FinishedRun:
    """What the listener of a grid receives when a run ends: its record, and how many of all runs have ended."""

    run: Run
    record: dict[str, Any]
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


def _record_of(run: Run, options: GridOptions) -> dict[str, Any]:
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
            record: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
            # The command that repeats the run, without the scratch file, and the command of the grid.
            record["provenance"]["command"] = shlex.join(["glace", *command(run, options)])
            record["provenance"]["grid"] = command_line()
            return record
        return _failure(run, ended, time.perf_counter() - began)


def _failure(run: Run, ended: "subprocess.CompletedProcess[str]", seconds: float) -> dict[str, Any]:
    messages = ended.stderr.strip().splitlines()
    reason = messages[-1].removeprefix("error: ") if messages else f"ended with exit code {ended.returncode}"
    killed = ended.returncode == -9  # by the system, for lack of memory
    status = "memory" if killed or ended.returncode == TOO_LARGE else "failed"
    return _empty(run, status, "killed: out of memory" if killed else reason, seconds)


def _empty(run: Run, status: str, reason: str, seconds: float) -> dict[str, Any]:
    """Return the record of a run without a result."""
    values = {**run.record(), "status": status, "reason": reason, "seconds": round(seconds, 3)}
    record: dict[str, Any] = json.loads(Record("evaluation", values, provenance()).to_json())
    return record
