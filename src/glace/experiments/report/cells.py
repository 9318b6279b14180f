"""Printed names, and columns of tables from groups of runs: means with deviations, the best in bold, footnotes."""

from collections.abc import Callable, Iterable, Sequence

from glace.drawing.document import DASH, MINUS, Cell, Column, Table, text_column
from glace.experiments.report.paper import dataset_name, method_name, methods_in_order
from glace.experiments.report.results import Run, Score, by_dataset, by_method, mean_score

Rows = Sequence[Sequence[Run]]
"""The runs of each row of a table: one method on one dataset, several seeds. An empty row was not run."""
_MOST_DATASETS = 8


def dataset_tables(runs: Sequence[Run], columns_of: Callable[[str, Rows], list[Column]]) -> list[Table]:
    """Return tables with a row per method and, from `columns_of(name, rows)`, the columns of each dataset.

    A table that would be too wide is split.
    """
    methods = methods_in_order(run.method for run in runs)
    columns = []
    for dataset, group in by_dataset(runs).items():
        done = by_method(group)
        columns.append(columns_of(dataset_name(dataset), [done.get(method, []) for method in methods]))
    chunks = [columns[start : start + _MOST_DATASETS] for start in range(0, len(columns), _MOST_DATASETS)]
    return [Table((methods_column(methods), *(each for some in chunk for each in some))) for chunk in chunks]


def methods_column(methods: Iterable[str]) -> Column:
    """Return the column of method names."""
    return text_column("Method", [method_name(method) for method in methods])


def score_column(name: str, rows: Rows, field: str, group: str = "") -> Column:
    """Return scores in percent with their deviation over seeds, the best in bold."""
    return Column(name, best_in_bold(rows, [mean_score(runs, field) for runs in rows]), group)


def cost_column(name: str, rows: Rows, field: str) -> Column:
    """Return seconds or megabytes, the mean over the finished runs; seconds only of runs that were alone."""
    counted = [[run for run in runs if field != "seconds" or run.is_alone] for runs in rows]
    means = [mean_score(runs, field) for runs in counted]
    cells = [Cell(amount(mean.mean)) if mean else _missing(runs) for runs, mean in zip(rows, means, strict=True)]
    return Column(name, tuple(cells))


def cost_columns(rows: Rows) -> list[Column]:
    """Return the number of finished seeds, and the mean time and memory of a run."""
    counts = [sum(run.done for run in runs) for runs in rows]
    seeds = Column("Seeds", tuple(Cell(str(count) if count else "") for count in counts))
    return [seeds, cost_column("Seconds", rows, "seconds"), cost_column("Peak MB", rows, "peak_rss_mb")]


def compared_columns(name: str, rows: Rows, field: str, printed: Sequence[float | None]) -> list[Column]:
    """Return the paper's numbers, and ours minus the paper's in percentage points; empty where a number is missing.

    `field` is ours, judged as in the paper.
    """
    theirs = [Cell("" if each is None else f"{each:.2f}") for each in printed]
    differences = []
    for runs, their in zip(rows, printed, strict=True):
        ours = mean_score(runs, field)
        differences.append(Cell("" if ours is None or their is None else signed(100 * ours.mean - their)))
    return [Column(name, tuple(theirs), "paper"), Column(name, tuple(differences), "difference")]


def number(found: Score, digits: int = 2, factor: float = 100, *, brief: bool = False) -> str:
    """Format a mean with its deviation, such as 98.55 ± 0.12."""
    spread = "" if brief else deviation(found, digits, factor)
    return f"{factor * found.mean:.{digits}f}{spread}".replace("-", MINUS)


def deviation(found: Score, digits: int = 2, factor: float = 1) -> str:
    """Format a deviation, such as " ± 0.12"; a single value has none."""
    return "" if found.deviation is None else f" ± {factor * found.deviation:.{digits}f}"


def signed(points: float) -> str:
    """Format a number with its sign; one that rounds to zero has none."""
    text = f"{points:+.2f}".replace("-", MINUS)
    return "0.00" if text[1:] == "0.00" else text


def amount(value: float) -> str:
    """Format a number with three digits if it is small, else as a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def best_in_bold(rows: Rows, scores: Sequence[Score | None], *, brief: bool = False) -> tuple[Cell, ...]:
    """Return the scores of some rows in percent, the highest in bold if there are several."""
    # Equal in print is equally good: a reader must not see 98.55 in bold beside 98.55 that is not.
    shown = [round(100 * found.mean, 2) for found in scores if found]
    best = max(shown) if len(shown) > 1 else None
    return tuple(
        Cell(number(found, brief=brief), round(100 * found.mean, 2) == best, _notes(runs)) if found else _missing(runs)
        for runs, found in zip(rows, scores, strict=True)
    )


def _missing(runs: Sequence[Run]) -> Cell:
    """Return a dash with the reason if no run finished; an empty cell if nothing was run, or not measured."""
    if not runs or any(run.done for run in runs):
        return Cell()
    return Cell(DASH, notes=_notes(runs))


def _notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return why runs did not finish, with their seeds if others did."""
    seeds: dict[str, list[int]] = {}
    for run in runs:
        if not run.done:
            seeds.setdefault(run.excuse, []).append(run.seed)
    if not any(run.done for run in runs):
        return tuple(seeds)
    return tuple(f"without seed {', '.join(map(str, sorted(some)))}: {reason}" for reason, some in seeds.items())
