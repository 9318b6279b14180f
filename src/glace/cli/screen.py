"""Output of the command line: lines, tables and a progress bar; nothing with --quiet."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

    from glace.fitted.state import Listener, Progress


class Report(Protocol):
    """Reports progress: the share done, None if unknown; a detail to show; and the name of the stage."""

    def __call__(self, share: float | None, detail: str = ..., stage: str = ...) -> None:
        """Show the progress."""


class Screen:
    """Standard output for people; results for other programs go to files."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = _console(quiet)

    def say(self, line: str = "") -> None:
        """Print a line."""
        self.console.print(line, markup=False)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table; numbers are right-aligned."""
        from rich import box
        from rich.table import Table

        cells = [[_cell(value) for value in row] for row in rows]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, name in enumerate(columns):
            numeric = all(_is_numeric(row[place]) for row in cells) and bool(cells)
            table.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            table.add_row(*row)
        self.console.print(table, markup=False)

    def facts(self, facts: Iterable[tuple[str, object]]) -> None:
        """Print names and values, one per line."""
        pairs = list(facts)
        width = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.say(f"  {name.replace('_', ' '):<{width}}  {_cell(value)}")

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Report]:
        """Show a progress bar on a terminal while work runs; gives the function to report progress with."""
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = (
            TextColumn("{task.description:8}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        bar = Progress(*columns, console=self.console, transient=True, refresh_per_second=4)
        task = bar.add_task(what, total=None, detail="")

        def report(share: float | None, detail: str = "", stage: str = what) -> None:
            if self.console.is_terminal and not self.quiet:
                bar.start()  # not earlier: the work may turn out to be done already
            total = None if share is None else 1.0
            bar.update(task, completed=share or 0.0, total=total, detail=detail, description=stage)

        try:
            yield report
        finally:
            if bar.live.is_started:
                bar.stop()


def training_listener(report: Report) -> "Listener":
    """A listener for training that shows its progress."""
    return lambda progress: report(progress.done, _figures(progress), progress.stage)


def download_listener(report: Report) -> Callable[[int, int | None], None]:
    """A listener for downloads, which takes the bytes received and, if known, in total."""
    return lambda received, total: report(received / total if total else None, in_bytes(received))


def _console(quiet: bool) -> "Console":
    import os
    import sys

    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            """Finish the work without printing when the reader of the output, such as `head`, is gone."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return Patient(quiet=quiet, highlight=False, soft_wrap=True, emoji=False)  # n:dog is an id, not an emoji


def file_size(path: str | Path) -> str:
    """The size of a file, such as 1.2 MB."""
    return in_bytes(Path(path).stat().st_size)


def in_bytes(count: float) -> str:
    """A number of bytes, such as 1.2 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def in_words(options: Mapping[str, object]) -> str:
    """Options and their values on one line."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())


def _figures(progress: "Progress") -> str:
    auc = "" if progress.validation_auc is None else f"  AUC {progress.validation_auc:.4f}"
    rate = f"{progress.edges_per_second:,.0f} edges/s"
    return f"step {progress.step:,}  loss {progress.loss:.3f}{auc}  {rate}"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)


def _is_numeric(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "").lstrip("-").isdigit()
