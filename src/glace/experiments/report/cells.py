"""Columns of tables from groups of runs: means with deviations, the best in bold, reasons as footnotes."""

from collections.abc import Iterable, Sequence

from glace.experiments.report.names import method_name
from glace.experiments.report.results import Run, Score, measured
from glace.experiments.report.tables import DASH, MINUS, Cell, Column, Table, words

Rows = Sequence[Sequence[Run]]
"""The runs of each row of a table: one method on one dataset, several seeds. An empty row was not run."""
_MOST_DATASETS = 8


def tables_of(methods: Sequence[str], columns: Sequence[Sequence[Column]]) -> list[Table]:
    """Method by dataset, given each dataset's columns; several tables if one would be too wide to read."""
    chunks = [columns[start : start + _MOST_DATASETS] for start in range(0, len(columns), _MOST_DATASETS)]
    return [Table((methods_column(methods), *(each for some in chunk for each in some))) for chunk in chunks]


def methods_column(methods: Iterable[str]) -> Column:
    """The names of the methods."""
    return words("Method", [method_name(method) for method in methods])


def score_column(name: str, rows: Rows, field: str, group: str = "", *, brief: bool = False) -> Column:
    """A value between 0 and 1 in percent with its deviation over seeds (not if `brief`), the best in bold."""
    scores = [measured(runs, field) for runs in rows]
    return Column(name, best_in_bold(rows, scores, brief=brief), group)


def cost_column(name: str, rows: Rows, field: str, group: str = "") -> Column:
    """Seconds or megabytes, the mean over the runs that are done."""
    cells = []
    for runs in rows:
        found = measured(runs, field)
        cells.append(Cell(amount(found.mean)) if found else _missing(runs))
    return Column(name, tuple(cells), group)


def seeds_column(rows: Rows) -> Column:
    """How many seeds are done."""
    counts = [sum(run.done for run in runs) for runs in rows]
    return Column("Seeds", tuple(Cell(str(count) if count else "") for count in counts))


def printed_column(name: str, values: Iterable[float | None], group: str = "") -> Column:
    """The paper's numbers; nothing where it has none."""
    return Column(name, tuple(Cell("" if each is None else f"{each:.2f}") for each in values), group)


def difference_column(name: str, rows: Rows, field: str, printed: Iterable[float | None], group: str = "") -> Column:
    """Ours minus the paper's, in points of a percent; empty where one of the two is missing."""
    cells = []
    for runs, theirs in zip(rows, printed, strict=True):
        ours = measured(runs, field)
        cells.append(Cell("" if ours is None or theirs is None else signed(100 * ours.mean - theirs)))
    return Column(name, tuple(cells), group)


def percent(found: Score, *, brief: bool = False) -> str:
    """Such as 98.55 ± 0.12; without the deviation if there is none."""
    spread = "" if brief or found.deviation is None else f" ± {100 * found.deviation:.2f}"
    return f"{100 * found.mean:.2f}{spread}".replace("-", MINUS)


def signed(points: float) -> str:
    """With its sign, a minus of the width of a plus; what rounds to nothing has none."""
    text = f"{points:+.2f}".replace("-", MINUS)
    return "0.00" if text[1:] == "0.00" else text


def amount(value: float) -> str:
    """Three digits of a small number, a large one in whole."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def best_in_bold(rows: Rows, scores: Sequence[Score | None], *, brief: bool = False) -> tuple[Cell, ...]:
    """The scores of some rows in percent, the highest in bold if there are several."""
    # Equal in print is equally good: a reader must not see 98.55 in bold beside 98.55 that is not.
    shown = [None if found is None else f"{100 * found.mean:.2f}" for found in scores]
    known = [float(text) for text in shown if text is not None]
    best = max(known) if len(known) > 1 else None
    cells = []
    for runs, found, text in zip(rows, scores, shown, strict=True):
        strong = text is not None and best is not None and float(text) == best
        cells.append(_missing(runs) if found is None else Cell(percent(found, brief=brief), strong, _notes(runs)))
    return tuple(cells)


def _missing(runs: Sequence[Run]) -> Cell:
    """A dash with the reason where no run came to its end; nothing where nothing was run, or not measured."""
    if not runs or any(run.done for run in runs):
        return Cell()
    return Cell(DASH, notes=_notes(runs))


def _notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """The reasons of the runs that are not done, and their seeds if others are."""
    excuses: dict[str, list[int]] = {}
    for run in runs:
        if not run.done:
            excuses.setdefault(run.excuse, []).append(run.seed)
    if not any(run.done for run in runs):
        return tuple(excuses)
    return tuple(f"without seed {_listed(seeds)}: {excuse}" for excuse, seeds in excuses.items())


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(str(seed) for seed in sorted(seeds))
