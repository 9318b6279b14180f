"""Output of the command line: text and progress on the screen, and files with results."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from glace.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    from glace.fitted.model import FittedModel
    from glace.fitted.state import Listener, Progress
    from glace.graph.graph import Graph, NodeType

FORMATS = ("table", "tsv", "csv", "json")
PIPED_WIDTH = 250
"""Columns of a table that no terminal limits."""
PIPED = "tsv"
"""The format of answers that another program reads, unless an option says otherwise."""
SHOWN = 20
"""Rows of a long table that are printed."""
RECENT = 3.0
"""Seconds after a report for which the time left is known."""


class Report(Protocol):
    """Reports progress: the share done, None if unknown; a detail to show; and the name of the stage."""

    def __call__(self, share: float | None, detail: str = ..., stage: str = ...) -> None:
        """Show the progress."""


class Screen:
    """Standard output for people; results for other programs go to files."""

    def __init__(self, quiet: bool = False, form: str = "table") -> None:
        self.quiet, self.form = quiet, form
        self.console = _console(quiet)

    @classmethod
    def of_answers(cls, quiet: bool, form: str | None) -> "Screen":
        """A screen for the answers to a question, in the format that is given or suits who reads them."""
        if form is not None and form not in FORMATS:
            raise InputError(f"must be {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {form!r}", option="format")
        screen = cls(quiet)
        screen.form = form or ("table" if screen.console.is_terminal else PIPED)
        return screen

    def say(self, line: str = "") -> None:
        """Print a line."""
        self.console.print(line, markup=False)

    def remark(self, line: str) -> None:
        """Print a line about an answer: below a table, or on standard error if another program reads the answer."""
        if self.form == "table":
            self.say(line)
        elif not self.quiet:
            print(line, file=sys.stderr)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table for people, with numbers right-aligned, or all of it for another program."""
        listed = list(rows)
        if self.form != "table":
            if not self.quiet:
                print(_as_text(columns, listed, self.form), end="")
            return
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, name in enumerate(columns):
            numeric = all(isinstance(row[place], float | int | None) for row in listed)
            table.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in listed:
            table.add_row(*map(_cell, row))
        self.console.print(table, markup=False)

    def answer(self, columns: Mapping[str, Sequence[object]], shown: Sequence[str] | None = None) -> None:
        """Print the columns of an answer: all of them for another program; in a table those of `shown` with a value."""
        names = list(columns)
        if self.form == "table":
            names = [name for name in names if shown is None or name in shown]
            names = [name for name in names if not columns[name] or any(each is not None for each in columns[name])]
        self.table(names, list(zip(*(columns[name] for name in names), strict=True)))

    def facts(self, facts: Mapping[str, object], title: str | None = None, verbatim: bool = False) -> None:
        """Print a title, if given, then names and values, one per line, without those that are None.

        In names an underscore becomes a blank, unless they are to be printed `verbatim`.
        """
        if title is not None:
            self.say(title)
        known = {name: value for name, value in facts.items() if value is not None}
        width = max(map(len, known), default=0)
        for name, value in known.items():
            shown = name if verbatim else name.replace("_", " ")
            self.say(f"  {shown:<{width}}  {_cell(value)}")

    def graph(self, graph: "Graph") -> None:
        """Print the size of a graph and what was changed or found while it was read."""
        self.say(repr(graph))
        for line in graph.cleaning_report.lines():
            self.say(f"  {line}")

    def wrote(self, path: Path, what: str = "") -> None:
        """Print the name and size of a file that was written, and what it is."""
        self.say(f"wrote {path}{what and ': '}{what} ({in_bytes(path.stat().st_size)})")

    def pairs(self, table: "pa.Table", output: Path | None, noun: str, shown: Sequence[str] | None = None) -> None:
        """Print a table with ids in `source` and `target`, and write it to the output, if given.

        On a terminal, only the first rows are printed, and only the columns of `shown`, if given.
        """
        first = table[:SHOWN] if self.form == "table" else table
        columns = first.to_pydict()
        ids = {name: [str(each) for each in columns[name]] for name in ("source", "target")}
        if self.form == "table" or output is None:
            self.answer(columns | ids, shown)
        if len(table) > len(first) and self.form == "table":
            self.say(f"... {len(table):,} {noun} in all" + ("" if output else "; -o FILE writes them"))
        if output:
            write_table(table, output)
            self.remark(f"wrote {output}")

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Report]:
        """Show a progress bar on a terminal while work runs; gives the function to report progress with."""
        bar = _bar(self.console)
        task = bar.add_task(what, total=None, detail="", reported=bar.get_time())

        def report(share: float | None, detail: str = "", stage: str = what) -> None:
            if self.console.is_terminal and not self.quiet:
                bar.start()  # not earlier: the work may turn out to be done already
            total = None if share is None else 1.0
            now = bar.get_time()
            bar.update(task, completed=share or 0.0, total=total, description=stage, detail=detail, reported=now)

        try:
            yield report
        finally:
            if bar.live.is_started:
                bar.stop()


def _bar(console: "Console") -> "RichProgress":
    """A progress bar: the stage, the share of the whole work, the time so far and, if known, the time left."""
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
    from rich.text import Text

    class Times(ProgressColumn):
        def render(self, task: Task) -> Text:
            # A stage that has not reported for a while may end at any time.
            is_recent = task.get_time() - task.fields["reported"] < RECENT
            left = task.time_remaining if is_recent else None
            return Text(_clock(task.elapsed or 0) + ("" if left is None else f", {_clock(left)} left"))

    stage, detail = TextColumn("{task.description}"), TextColumn("{task.fields[detail]}")
    columns = (stage, BarColumn(bar_width=12), TaskProgressColumn(), Times(), detail)
    return Progress(*columns, console=console, transient=True, refresh_per_second=4)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def training_listener(report: Report) -> "Listener":
    """A listener for training that shows its progress, the steps being those of the stage."""
    from glace.training.train import TRAINING_END

    def show(progress: "Progress") -> None:
        # After the last step nobody reports: all nodes are embedded, and the link model is fitted.
        ended = progress.stage == "training" and math.isclose(progress.done, TRAINING_END)
        report(progress.done, _figures(progress), "link model" if ended else progress.stage)

    return show


def download_listener(report: Report) -> Callable[[int, int | None], None]:
    """A listener for downloads, which takes the bytes received and, if known, in total."""
    return lambda received, total: report(received / total if total else None, in_bytes(received))


def _console(quiet: bool) -> "Console":
    import os

    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            """Finish the work without printing when the reader of the output, such as `head`, is gone."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    console = Patient(quiet=quiet, highlight=False, soft_wrap=True, emoji=False)  # n:dog is an id, not an emoji
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def check_outputs(
    *outputs: Path | None, inputs: Iterable[str | Path | None] = (), folder_mark: str | None = None
) -> None:
    """Raise, before any work, if an output cannot be written or would replace an input.

    Outputs are files, or, with `folder_mark`, folders that contain a file of this name.
    """
    from glace.storage.files import check_folder_writable, check_writable

    taken = {Path(path).resolve() for path in inputs if path is not None}
    for path in (path for path in outputs if path is not None):
        if folder_mark is None:
            check_writable(path)
        else:
            check_folder_writable(path, folder_mark)
        if path.resolve() in taken:
            raise InputError(f"cannot write {path}: it is also another file of this command; choose another name")
        taken.add(path.resolve())


def check_ending(output: Path | None, *endings: str) -> None:
    """Raise unless the name of the output, if given, has one of these endings."""
    if output is not None and output.suffix not in endings:
        raise InputError(f"cannot write {output}: its name must end in {' or '.join(endings)}")


def write_record(
    path: Path | None, kind: str, values: Mapping[str, object], graph: "Graph | None" = None, **facts: object
) -> None:
    """Write a record of results as the only line of a JSON file, if a path is given."""
    from glace.records import Record, provenance
    from glace.storage.files import write_text

    if path is not None:
        data = {} if graph is None else {"data": graph.fingerprint()}
        write_text(path, Record(kind, values, provenance(**facts, **data)).to_json() + "\n")


def write_table(table: "pa.Table", output: Path) -> None:
    """Write a table to a .csv or .parquet file."""
    import pyarrow.csv
    import pyarrow.parquet

    from glace.storage.files import replacing

    write = pyarrow.csv.write_csv if output.suffix == ".csv" else pyarrow.parquet.write_table
    with replacing(output) as temporary:
        write(table, temporary)


def in_bytes(count: float) -> str:
    """A number of bytes, such as 1.2 MB."""
    from rich.filesize import decimal

    return decimal(int(count))


def in_time(seconds: float) -> str:
    """A duration, such as 3.2 s, 4 min 10 s or 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def in_words(options: Mapping[str, object]) -> str:
    """Options and their values on one line."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())


def _figures(progress: "Progress") -> str:
    auc = "" if progress.validation_auc is None else f"  AUC {progress.validation_auc:.4f}"
    total = f" of {progress.steps:,.0f}" if math.isfinite(progress.steps) else ""
    return f"step {progress.step:,}{total}{auc}"


def _as_text(columns: Sequence[str], rows: Sequence[Sequence[object]], form: str) -> str:
    """All rows of a table, as tab-separated or comma-separated lines, or as JSON."""
    import csv
    import io
    import json

    plain = [[_plain(value) for value in row] for row in rows]
    if form == "json":
        objects = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in plain)
        return "[" + ",\n ".join(objects) + "]\n"
    written = io.StringIO()
    if form == "csv":
        csv.writer(written, lineterminator="\n").writerows([columns, *plain])
        return written.getvalue()
    lines = ["\t".join("" if value is None else _on_one_line(value) for value in row) for row in [columns, *plain]]
    return "\n".join([*lines, ""])


def _on_one_line(value: object) -> str:
    return str(value).replace("\t", " ").replace("\r", " ").replace("\n", " ")


def _plain(value: object) -> object:
    """A value that other programs read: a float has the seven digits that 32 bits hold."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)


def scaled_attributes(node_types: "Sequence[NodeType]") -> dict[str, str]:
    """How the attributes of each node type are stored and scaled, in words."""
    from glace.values import SCALINGS

    return {
        f"scaling of {each.name}" if each.name else "scaling": f"{SCALINGS[each.scaling]} (stored {each.storage})"
        for each in node_types
        if each.width is not None
    }


def ranked_by(model: "FittedModel") -> str:
    """What ranks missing edges, and how well it ranks the validation edges among the candidates of each node."""
    from glace.config.config import METHODS

    links = model.link_model
    if links is None:
        reason = "it ranks validation edges no better" if METHODS[model.method].link_model else f"not in {model.method}"
        return f"ranked by the Gaussians alone; link model off ({reason})"
    if links.validation is None or links.gaussian_validation is None:
        return "ranked by the Gaussians and numbers of edges; too few validation edges to fit a link model"
    own, gaussian = (
        f"MRR {each.mrr:.3f}  Hits@10 {each.hits_at_10:.3f}" for each in (links.validation, links.gaussian_validation)
    )
    return f"{own}  (Gaussians alone: {gaussian})"
