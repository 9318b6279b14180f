"""Figure 2 of the paper: validation AUC against training time."""

from collections.abc import Sequence

from glace.experiments.report.cells import Rows, amount, best_in_bold, cost_columns, methods_column
from glace.experiments.report.document import DASH, Block, Cell, Column, Heading, Picture, Section, Table
from glace.experiments.report.names import dataset_name, method_name
from glace.experiments.report.plots import Line, draw_lines
from glace.experiments.report.results import Results, by_dataset, by_method, score
from glace.experiments.report.schema import Run
from glace.experiments.report.sections.link_prediction import without_unsupported

_GOALS = (0.90, 0.95)
_NEARLY = 0.99
_WIDE = 30.0  # ratio of the longest to the shortest time from which the axis is logarithmic
_GUIDE = (
    "The best validation AUC so far against the seconds of training, one curve per seed. A curve ends where training "
    "ended. Further to the left and higher is better."
)
_TABLE_GUIDE = (
    "Seconds until the validation AUC first reached 90 %, 95 %, and 99 % of the method's own best: the mean over the "
    f"seeds that reached it, with their number if not all did; {DASH} if none."
)

Curve = Sequence[Sequence[float]]


def convergence(results: Results) -> Section | None:
    """Return curves for all datasets, then a table per dataset."""
    if not results.of("convergence"):
        return None
    runs, excluded = without_unsupported(results.of("convergence"))
    blocks: list[Block] = [_GUIDE, *excluded]
    if any(run.done for run in runs):
        blocks.append(_curves([run for run in runs if run.done]))
    for dataset, group in by_dataset(runs):
        blocks += _dataset(dataset, group)
    return Section("Convergence (Figure 2)", tuple(blocks))


def seconds_to(curve: Curve, goal: float) -> float | None:
    """Return when the curve first reaches the goal; None if never."""
    return next((seconds for seconds, auc in curve if auc >= goal), None)


def _curves(runs: Sequence[Run]) -> Picture:
    panels = {
        dataset_name(dataset): [_line(run) for _, some in by_method(group) for run in some]
        for dataset, group in by_dataset(runs)
    }
    seconds = [x for lines in panels.values() for line in lines for x in line.x if x > 0]
    log = bool(seconds) and max(seconds) > _WIDE * min(seconds)
    png = draw_lines(panels, "seconds", "validation AUC (%)", log_x=log)
    return Picture("convergence", png, "Validation AUC against seconds of training.")


def _line(run: Run) -> Line:
    # Zero seconds have no place on a logarithmic axis, and nothing is learned by then.
    curve = [*run.get("curve"), (run.get("seconds"), _best(run))]
    points = [(seconds, 100 * auc) for seconds, auc in curve if seconds > 0]
    return Line(method_name(run.method), run.method, [x for x, _ in points], [y for _, y in points])


def _dataset(dataset: str, runs: Sequence[Run]) -> list[Block]:
    groups = dict(by_method(runs))
    rows = list(groups.values())
    bests = [score([_best(run) for run in row if run.done]) for row in rows]
    columns = [
        methods_column(groups),
        Column("Best AUC", best_in_bold(rows, bests)),
        *(_seconds_column(f"AUC {100 * goal:g}", rows, goal) for goal in _GOALS),
        _seconds_column("99 % of best", rows, None),
        *cost_columns(rows),
    ]
    return [Heading(dataset_name(dataset)), _TABLE_GUIDE, Table(tuple(columns))]


def _best(run: Run) -> float:
    return max(float(auc) for _, auc in run.get("curve"))


def _seconds_column(name: str, rows: Rows, goal: float | None) -> Column:
    """Return when the runs reached a goal, or 99 % of their own best if none is given."""
    cells = []
    for row in rows:
        done = [run for run in row if run.done]
        times = [seconds_to(run.get("curve"), goal or _NEARLY * _best(run)) for run in done]
        found = score([each for each in times if each is not None])
        count = "" if found is None or found.count == len(done) else f" ({found.count} of {len(done)})"
        cells.append(Cell(DASH if found is None else amount(found.mean) + count))
    return Column(name, tuple(cells), "seconds to")
