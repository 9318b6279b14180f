"""What the commands share: turns, children, memory, options, tables and records."""

import contextlib
import ctypes
import gc
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from glace import datasets, records
from glace.datasets.planted import planted
from glace.experiments.code_state import commit
from glace.experiments.report.cells import amount
from glace.graph.graph import Graph
from glace.records import Record, peak_rss_mb, provenance

FOLDER = Path(__file__).parent

Threads = Annotated[int, typer.Option(min=1, help="Threads of each side.")]
Scale = Annotated[float, typer.Option(min=0.0, help="Size against the paper's ACM graph, which is 1.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often each side has its turn.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the real graphs; else that of `glace datasets`.")]
Results = Annotated[Path, typer.Option(help="Folder the records are appended in.")]
RESULTS = FOLDER / "results"

Item = TypeVar("Item")


def acm_like(scale: float) -> Graph:
    """A planted graph of the size of the paper's ACM graph: 115,772 nodes, 539,910 edges, 124,856 attributes.

    Nodes have some 54 attributes, drawn evenly: a batch meets more distinct ones than with words of a language,
    of which a few make up most of a text.
    """
    nodes = max(round(115_772 * scale), 400)
    communities = max(min(50, nodes // 40), 2)
    degree = 2 * 539_910 / 115_772
    width = max(round(124_856 * scale), 20 * communities)
    return planted(nodes, communities=communities, degree=degree, attributes=width, words=54)


def graph_of(name: str, scale: float, data_dir: str | Path | None) -> Graph:
    """A graph of the registry, or `planted`, the synthetic one, which needs no data."""
    return acm_like(scale) if name == "planted" else datasets.load(name, data_dir=data_dir)


def in_turn(items: Sequence[Item], rounds: int, doing: str) -> Iterator[Item]:
    """A, B, A, B, ...: what else the machine does then hits all alike. Shows how far it is.

    Of the turns of each the fastest counts: other work on the machine adds to the time and never takes from it.
    """
    turns = [item for _ in range(rounds) for item in items]
    yield from track(turns, doing, console=Console(stderr=True), transient=True)


def interleaved(jobs: Mapping[Item, Callable[[], object]], rounds: int, doing: str) -> dict[Item, float]:
    """Least seconds of each job over `rounds` turns, after one turn that is not counted."""
    seconds: dict[Item, list[float]] = {name: [] for name in jobs}
    for name in in_turn(list(jobs), 1 + rounds, doing):
        began = time.perf_counter()
        jobs[name]()
        seconds[name].append(time.perf_counter() - began)
    return {name: min(each[1:]) for name, each in seconds.items()}


def in_child(function: str, limit_seconds: float | None = None, /, **arguments: Any) -> dict[str, Any]:
    """What MODULE:FUNCTION gives in a process of its own, with `peak_mb`, the most memory it held.

    Arguments and result are plain values. Raises subprocess.TimeoutExpired after `limit_seconds`.
    """
    command = [sys.executable, "-m", "benchmarks.child", function]
    ended = subprocess.run(
        command,
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER.parent,
        timeout=limit_seconds,
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command[2:])} ended with {ended.returncode}:\n{ended.stderr}")
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


def memory_mb(field: str) -> float:
    """Memory of this process by the name Linux has for it; elsewhere its peak, which is all there is."""
    found = records.memory_mb(field)
    return found if found is not None else peak_rss_mb() or float("nan")


def settled_mb() -> float:
    """The resident memory once what is free has been given back; the peak counts from now on, where the system can."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return memory_mb("VmRSS")


class PeakOfOwnMemory:
    """The most memory a block of code held at a time, in megabytes, without the pages of mapped files.

    Those can be given back at any time without being written. The system keeps no peak of the rest, so a thread looks
    twenty times a second.
    """

    def __enter__(self) -> Self:
        self.mb, self._over = memory_mb("RssAnon"), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self.mb = max(self.mb, memory_mb("RssAnon"))


@dataclass(frozen=True)
class Report:
    """Where the answer to one question goes: tables to the screen, records to a file."""

    question: str
    folder: Path
    facts: dict[str, Any]
    commit: str | None = field(default_factory=lambda: commit(FOLDER, "../src", "*.py"))
    """That of the start: while a long run lasts, the files may change."""

    def note(self, **values: Any) -> None:
        """Append a record."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = shlex.join(["python", "-m", f"benchmarks.{self.question}", *sys.argv[1:]])
        known = provenance(**self.facts) | {"command": command, "commit": self.commit, "cores": os.cpu_count()}
        with (self.folder / f"{self.question}.jsonl").open("a", encoding="utf-8") as file:
            file.write(Record(self.question, values, known | {"load": os.getloadavg()}).to_json() + "\n")

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table, as Markdown shows it too."""
        table = Table(box=box.MARKDOWN)
        for place, name in enumerate(columns):
            table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
        for row in rows:
            table.add_row(*(cell(value) for value in row))
        console = Console(width=240, highlight=False)
        console.print(f"\n{title}\n", markup=False)
        console.print(table, markup=False)


def cell(value: Any) -> str:
    """Three digits of a number, a large one in whole, thousands apart."""
    if isinstance(value, float):
        return amount(value) if value >= 0.1 else f"{value:.2g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def nothing() -> dict[str, Any]:
    """What a child does whose memory is that of Python and the libraries."""
    return {}
