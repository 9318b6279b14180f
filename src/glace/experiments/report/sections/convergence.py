"""Figure 2 of the paper: how soon a method is good."""

from collections.abc import Sequence

from glace.experiments.report.cells import amount, best_in_bold, methods_column, seeds_column
from glace.experiments.report.document import Heading, Part, Picture, Section, Text
from glace.experiments.report.names import dataset_name, datasets_in_order, in_order, method_name
from glace.experiments.report.plots import Line, draw_lines
from glace.experiments.report.results import Results, Run, grouped, score
from glace.experiments.report.sections.common import without_unable
from glace.experiments.report.tables import DASH, Cell, Column, Table

_GOALS = (0.90, 0.95)
_NEARLY = 0.99
_WIDE = 30.0  # a range of seconds that no linear axis shows
_GUIDE = (
    "The best AUC of held-out validation edges so far while the method trains, against seconds, one curve a seed. A "
    "curve ends where the method did. Further to the left and higher is better."
)
_TABLE_GUIDE = (
    "Seconds until the validation AUC first reached 90 %, 95 %, and 99 % of the method's own best: the mean over the "
    f"seeds that got there, and how many if not all did; {DASH} if none."
)

Curve = Sequence[Sequence[float]]


def convergence(results: Results) -> Section | None:
    """Curves for all datasets, then a table a dataset."""
    tried = results.of("convergence")
    if not tried:
        return None
    runs, said = without_unable(tried)
    parts: list[Part] = [Text(_GUIDE), *said]
    if any(run.done for run in runs):
        parts.append(_curves([run for run in runs if run.done]))
    for dataset in datasets_in_order(run.dataset for run in runs):
        parts += _dataset(dataset, [run for run in runs if run.dataset == dataset])
    return Section("Convergence (Figure 2)", tuple(parts))


def seconds_to(curve: Curve, goal: float) -> float | None:
    """When the curve first is at the goal or above; None if never."""
    return next((seconds for seconds, auc in curve if auc >= goal), None)


def _curves(runs: Sequence[Run]) -> Picture:
    panels = {}
    for dataset in datasets_in_order(run.dataset for run in runs):
        groups = grouped((run for run in runs if run.dataset == dataset), lambda run: run.method)
        panels[dataset_name(dataset)] = [_line(run) for method in in_order(groups) for run in groups[method]]
    seconds = [x for lines in panels.values() for line in lines for x in line.x if x > 0]
    log = bool(seconds) and max(seconds) > _WIDE * min(seconds)
    png = draw_lines(panels, "seconds", "validation AUC (%)", log_x=log)
    return Picture("convergence", png, "Validation AUC against seconds of training.")


def _line(run: Run) -> Line:
    # No seconds have no place on a logarithmic axis, and nothing has been learned by then.
    curve = [*run.values["curve"], (run.values["seconds"], _best(run))]
    points = [(seconds, 100 * auc) for seconds, auc in curve if seconds > 0]
    return Line(method_name(run.method), run.method, [x for x, _ in points], [y for _, y in points])


def _dataset(dataset: str, runs: Sequence[Run]) -> list[Part]:
    groups = grouped(runs, lambda run: run.method)
    methods = in_order(groups)
    rows = [groups[method] for method in methods]
    bests = [score([_best(run) for run in row if run.done]) for row in rows]
    columns = [methods_column(methods), Column("Best AUC", best_in_bold(rows, bests))]
    for goal in _GOALS:
        columns.append(_seconds_column(f"AUC {100 * goal:g}", rows, goal))
    columns.append(_seconds_column("99 % of best", rows, None))
    columns.append(_total_column(rows))
    return [Heading(dataset_name(dataset)), Text(_TABLE_GUIDE), Table((*columns, seeds_column(rows)))]


def _best(run: Run) -> float:
    return max(float(auc) for _, auc in run.values["curve"])


def _seconds_column(name: str, rows: Sequence[Sequence[Run]], goal: float | None) -> Column:
    """When the runs reached a goal, or nearly their own best if none is given."""
    cells = []
    for row in rows:
        done = [run for run in row if run.done]
        times = [seconds_to(run.values["curve"], goal or _NEARLY * _best(run)) for run in done]
        cells.append(_seconds_cell([each for each in times if each is not None], len(done)))
    return Column(name, tuple(cells), "seconds to")


def _seconds_cell(times: Sequence[float], runs: int) -> Cell:
    found = score(times)
    if found is None:
        return Cell(DASH)
    return Cell(amount(found.mean) + ("" if found.count == runs else f" ({found.count} of {runs})"))


def _total_column(rows: Sequence[Sequence[Run]]) -> Column:
    totals = [score([float(run.values["seconds"]) for run in row if run.done]) for row in rows]
    return Column("the end", tuple(Cell(amount(each.mean) if each else DASH) for each in totals), "seconds to")
