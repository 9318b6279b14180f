"""Running a grid: each run in a process of its own, one line of records.jsonl each, finished ones never again."""

import json
import os
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

from glace.errors import FormatError, InputError
from glace.experiments.grid import Run, key_of
from glace.experiments.tasks import unsupported
from glace.records import Record, command_line, provenance

RECORDS = "records.jsonl"
TOO_LARGE = 4
"""Exit code of `glace evaluate` where memory does not suffice."""
FINAL = ("done", "timeout", "memory", "unsupported")
"""Statuses that another try would not change; a run that failed is tried again."""


@dataclass(frozen=True)
class Tidings:
    """What a caller is told when a run ends."""

    run: Run
    record: dict[str, Any]
    done: int
    total: int


@dataclass(frozen=True)
class Place:
    """Where and how runs are made."""

    folder: Path
    data_dir: Path | None
    limit_seconds: float
    jobs: int = 1


def perform(runs: Sequence[Run], place: Place, told: Callable[[Tidings], None]) -> None:
    """Make all runs that have no final record yet, and tell of each when it ends."""
    place.folder.mkdir(parents=True, exist_ok=True)
    records = Records(place.folder / RECORDS)
    finished = records.finished()
    wanted = [run for run in runs if run.key() not in finished]
    total, lock = len(runs), threading.Lock()
    done = total - len(wanted)

    def make(run: Run) -> None:
        nonlocal done
        record = _record_of(run, place)
        with lock:
            records.append(record)
            done += 1
            told(Tidings(run, record, done, total))

    with ThreadPoolExecutor(max_workers=place.jobs) as pool:
        try:
            for made in [pool.submit(make, run) for run in wanted]:
                made.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


class Records:
    """The file of records; a line is appended whole and synced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            self._cut_half_line()

    def finished(self) -> set[tuple[object, ...]]:
        """The keys of runs that need not be repeated."""
        return {key_of(record) for record in self.read() if record.get("status") in FINAL}

    def read(self) -> list[dict[str, Any]]:
        """All records."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [self._parsed(number, line) for number, line in enumerate(lines, start=1)]

    def append(self, record: dict[str, Any]) -> None:
        """Add one."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _parsed(self, number: int, line: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except json.JSONDecodeError as problem:
            raise FormatError(f"{self.path}, line {number}, is no record ({problem}); mend or remove it") from problem
        if not isinstance(record, dict):
            raise FormatError(f"{self.path}, line {number}, is no record; mend or remove it")
        return record

    def _cut_half_line(self) -> None:
        """What a killed run left of a line goes: its run will be made again."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with self.path.open("r+b") as file:
                file.truncate(whole)


def _record_of(run: Run, place: Place) -> dict[str, Any]:
    reason = unsupported(run.evaluation.task, run.evaluation.method)
    if reason:
        return _empty(run, "unsupported", reason, 0.0)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "record.json"
        began = time.perf_counter()
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "glace.cli", *command(run, place), "--quiet", "--json", str(output)],
                capture_output=True,
                text=True,
                timeout=place.limit_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reason = f"not finished within {place.limit_seconds / 3600:g} h"
            return _empty(run, "timeout", reason, place.limit_seconds)
        if ended.returncode == 0:
            record: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
            # What makes it again, without the scratch file, and what it is a part of.
            record["provenance"]["command"] = shlex.join(["glace", *command(run, place)])
            record["provenance"]["grid"] = command_line()
            return record
        return _failure(run, ended, time.perf_counter() - began)


def command(run: Run, place: Place) -> list[str]:
    """The arguments of `glace` that make this run alone."""
    wanted = run.evaluation
    arguments = ["evaluate", wanted.task, run.dataset, "--method", wanted.method, "--seed", str(wanted.seed)]
    if wanted.split is not None:
        arguments += ["--split", str(wanted.split)]
    if wanted.hidden_share is not None:
        arguments += ["--hidden-share", str(wanted.hidden_share)]
    if place.data_dir is not None:
        arguments += ["--data-dir", str(place.data_dir)]
    return arguments


def _failure(run: Run, ended: "subprocess.CompletedProcess[str]", seconds: float) -> dict[str, Any]:
    said = ended.stderr.strip().splitlines()
    reason = said[-1].removeprefix("error: ") if said else f"ended with exit code {ended.returncode}"
    killed = ended.returncode == -9  # by the system, which had no memory left
    status = "memory" if killed or ended.returncode == TOO_LARGE else "failed"
    return _empty(run, status, "killed: out of memory" if killed else reason, seconds)


def _empty(run: Run, status: str, reason: str, seconds: float) -> dict[str, Any]:
    """The record of a run without a result."""
    wanted = run.evaluation
    values = {
        "task": wanted.task,
        "dataset": run.dataset,
        "method": wanted.method,
        "seed": wanted.seed,
        "status": status,
        "reason": reason,
        "split": wanted.split.name if wanted.split else "random",
        "hidden_share": wanted.hidden_share,
        "seconds": round(seconds, 3),
    }
    record: dict[str, Any] = json.loads(Record("evaluation", values, provenance()).to_json())
    return record


def check_folder(folder: Path) -> None:
    """Raise if the folder of a grid cannot be one."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder to put records and report into")
