"""What the command line prints: lines, tables and a progress bar; nothing when quiet."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from glace.fitted.history import Progress


class Screen:
    """Standard output for people; results that other programs read go to files."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = _console(quiet)

    def say(self, line: str = "") -> None:
        """Print a line."""
        self.console.print(line, markup=False)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table; numbers stand right-aligned."""
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

    def facts(self, facts: Iterable[tuple[str, Any]]) -> None:
        """Print names and values, one a line."""
        pairs = list(facts)
        width = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.say(f"  {name.replace('_', ' '):<{width}}  {_cell(value)}")

    @contextlib.contextmanager
    def training(self) -> Iterator[Callable[["Progress"], None]]:
        """A bar for a training run; gives the listener to pass to `fit`."""
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        text = TextColumn("{task.fields[figures]}")
        parts = (TextColumn("{task.description:8}"), BarColumn(bar_width=12), text)
        with Bars(*parts, console=self.console, disable=self.quiet, refresh_per_second=4) as bars:
            task = bars.add_task("training", total=1.0, figures="")

            def listen(progress: "Progress") -> None:
                figures = _figures(progress)
                bars.update(task, completed=progress.done, figures=figures, description=progress.stage)

            yield listen
            bars.update(task, completed=1.0)  # early stopping ends a run before its limit

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[float], None]]:
        """A bar for one long piece of work, gone when it is done; gives the callback that takes the share done."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        parts = (TextColumn(what), BarColumn(bar_width=24), TimeRemainingColumn())
        with Progress(*parts, console=self.console, disable=self.quiet, transient=True) as bars:
            task = bars.add_task(what, total=1.0)
            yield lambda share: bars.update(task, completed=share)

    @contextlib.contextmanager
    def grid(self, total: int) -> Iterator[Callable[[int, str], None]]:
        """A bar for many runs; gives the callback that takes how many are done and a line about the last."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        parts = (TextColumn("runs"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*parts, console=self.console, disable=self.quiet) as bars:
            task = bars.add_task("runs", total=total)

            def show(done: int, line: str) -> None:
                bars.update(task, completed=done)
                self.console.print(line, markup=False)

            yield show
            bars.update(task, completed=total)  # of a grid that was finished before

    @contextlib.contextmanager
    def stages(self) -> Iterator[Callable[[str, float], None]]:
        """A bar for work in stages; gives the callback that takes a stage's name and the share of it that is done."""
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        parts = (TextColumn("{task.description:10}"), BarColumn(bar_width=24), TaskProgressColumn())
        with Progress(*parts, console=self.console, disable=self.quiet, refresh_per_second=4) as bars:
            task = bars.add_task("reading", total=1.0)
            yield lambda stage, share: bars.update(task, description=stage, completed=share)
            bars.update(task, description="done", completed=1.0)

    @contextlib.contextmanager
    def transfer(self, name: str) -> Iterator[Callable[[int, int | None], None]]:
        """A bar for a download; gives the callback that takes received and total bytes."""
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        parts = (TextColumn(name), BarColumn(bar_width=24), DownloadColumn())
        bars = Progress(*parts, console=self.console, disable=self.quiet)
        task = bars.add_task(name, total=None)

        def show(received: int, total: int | None) -> None:
            bars.start()  # not before there is something to show: the file may be here already
            bars.update(task, completed=received, total=total)

        try:
            yield show
        finally:
            if bars.live.is_started:
                bars.stop()


def _console(quiet: bool) -> "Console":
    import os
    import sys

    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            """The reader of our output left, as `head` does: print no more, but finish the work."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return Patient(quiet=quiet, highlight=False, soft_wrap=True, emoji=False)  # n:dog is an id, no picture


def file_size(path: str | Path) -> str:
    """A file's size in words."""
    return in_bytes(Path(path).stat().st_size)


def in_bytes(count: float) -> str:
    """A number of bytes in words, such as 1.2 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def in_words(options: dict[str, Any]) -> str:
    """Options and their values in a line."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())


def _figures(progress: "Progress") -> str:
    auc = "" if progress.validation_auc is None else f"  AUC {progress.validation_auc:.4f}"
    rate = f"{progress.edges_per_second:,.0f} edges/s"
    return f"step {progress.step:,}  loss {progress.loss:.3f}{auc}  {rate}"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)


def _is_numeric(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "").lstrip("-").isdigit()
