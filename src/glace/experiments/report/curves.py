"""Figures 1 to 3 of the paper and the uncertainty: curves and clouds of points, with tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from glace.drawing.document import DASH, MINUS, Block, Cell, Column, Heading, Picture, Table, stacked
from glace.drawing.plots import Cloud, Line, draw_clouds, draw_lines
from glace.experiments.report.cells import (
    Rows,
    amount,
    best_in_bold,
    cost_columns,
    dataset_tables,
    methods_column,
    number,
    score_column,
    signed,
)
from glace.experiments.report.paper import dataset_name, method_name
from glace.experiments.report.results import Run, by_dataset, by_method, is_number, score

Points = list[tuple[float, float]]

_SHARES = (0.1, 0.5, 0.9)
_OURS = ("glace", "glace-published")
_F1_SCORES = (("micro_f1", "Micro-F1"), ("macro_f1", "Macro-F1"))
_CLASSES_GUIDE = (
    "All nodes were embedded without labels; a logistic regression then learned the classes from the embeddings of a "
    "share of the nodes and was tested on the others. Micro-F1 is the share of nodes with the right class; macro-F1 "
    "weights every class equally. A node of a learned method has 128 numbers, raw attributes have all of theirs. "
    "Tables: mean ± standard deviation over the trials of all seeds."
)
_TESTS_GUIDE = (
    "Micro-F1 of {} minus that of each method, in percentage points, at each share of the labels, with the p-value of "
    "a paired t-test over the trials of all seeds. The p-values of the table are corrected for their number by Holm's "
    "method. They are too small nevertheless, because the ten trials of a seed share one embedding and most of "
    "their nodes."
)


def node_classification(runs: Sequence[Run]) -> list[Block]:
    """Return curves for all datasets, then a table."""
    blocks: list[Block] = [_CLASSES_GUIDE]
    if done := [run for run in runs if run.done]:
        blocks += [_f1_curves(done, field, name) for field, name in _F1_SCORES]
    for dataset, group in by_dataset(runs).items():
        blocks += _f1_table(dataset, group)
    return blocks


def trials_at(run: Run, field: str, share: float) -> list[float]:
    """Return the trials of a run at a share of labels; empty if it has none there."""
    return list(run.get(f"{field}_trials").get(share, []))


class PairedTest(NamedTuple):
    """The mean difference of two methods over the same trials, and p of a paired t-test; None without variance."""

    difference: float
    p: float | None


def paired_test(ours: Sequence[Run], theirs: Sequence[Run], share: float) -> PairedTest | None:
    """Return the test of micro-F1 over the trials of the common seeds; None if there are no common trials."""
    others = {run.seed: run for run in theirs if run.done}
    pairs: list[tuple[float, float]] = []
    for run in ours:
        if run.done and run.seed in others:
            both = (trials_at(each, "micro_f1", share) for each in (run, others[run.seed]))
            pairs += zip(*both, strict=False)
    if not pairs:
        return None
    differences = [our - their for our, their in pairs]
    # Constant differences have no variance to test against.
    if len(pairs) < 2 or np.ptp(differences) < 1e-12:
        return PairedTest(float(np.mean(differences)), None)
    from scipy.stats import ttest_1samp

    return PairedTest(float(np.mean(differences)), float(ttest_1samp(differences, 0).pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down method.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none falls below one before it, or exceeds 1.
    The chance that any true null hypothesis is rejected at a level is then at most that level.
    """
    corrected, highest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min((len(p_values) - rank) * p_values[place], 1.0))
        corrected[place] = highest
    return corrected


def _panels(runs: Sequence[Run], curve: Callable[[Sequence[Run]], Points]) -> dict[str, list[Line]]:
    """Return a panel for each dataset with a line for each method: the curve of its runs."""
    return {
        dataset_name(dataset): [
            Line(method_name(method), method, curve(some)) for method, some in by_method(group).items()
        ]
        for dataset, group in by_dataset(runs).items()
    }


def _f1_curves(runs: Sequence[Run], field: str, name: str) -> Picture:
    def curve(some: Sequence[Run]) -> Points:
        shares = sorted({share for run in some for share in run.get(f"{field}_trials")})
        trials = [[each for run in some for each in trials_at(run, field, share)] for share in shares]
        return [(100 * share, float(np.mean(each))) for share, each in zip(shares, trials, strict=True)]

    png = draw_lines(_panels(runs, curve), "labels shown (%)", name)
    return Picture(f"node-classification-{field}", png, f"{name} by the share of labels shown.")


def _f1_table(dataset: str, runs: Sequence[Run]) -> list[Block]:
    groups = by_method(runs)
    rows = list(groups.values())
    columns = [methods_column(groups)]
    for field, name in _F1_SCORES:
        group = f"{name[0].lower()}{name[1:]} with labels of"
        columns += [_f1_column(rows, field, share, group) for share in _SHARES]
    guide = "F1 in percent with 10, 50 and 90 % of the labels shown."
    return [Heading(dataset_name(dataset)), guide, Table(tuple(columns)), *_tests_table(groups)]


def _f1_column(rows: Rows, field: str, share: float, group: str) -> Column:
    scores = [score([each for run in runs if run.done for each in trials_at(run, field, share)]) for runs in rows]
    return Column(f"{100 * share:g} %", best_in_bold(rows, scores), group)


def _tests_table(groups: Mapping[str, Sequence[Run]]) -> list[Block]:
    """Return how much our method is ahead of the others at every share, with corrected p-values."""
    ours = next((method for method in _OURS if any(run.done for run in groups.get(method, []))), None)
    others = [method for method, runs in groups.items() if method != ours and any(run.done for run in runs)]
    if ours is None or not others:
        return []
    shares = sorted({share for run in groups[ours] if run.done for share in run.get("micro_f1_trials")})
    tests = [[paired_test(groups[ours], groups[method], share) for method in others] for share in shares]
    known = [test.p for column in tests for test in column if test and test.p is not None]
    corrected = iter(holm(known))
    columns = [
        Column(f"{100 * share:g} %", tuple(_test_cell(test, corrected) for test in column), "labels of")
        for share, column in zip(shares, tests, strict=True)
    ]
    return [_TESTS_GUIDE.format(method_name(ours)), Table((methods_column(others), *columns))]


def _test_cell(test: PairedTest | None, corrected: Iterator[float]) -> Cell:
    """Return difference and p; takes the next corrected p if the test has one."""
    if test is None:
        return Cell(DASH)
    p = None if test.p is None else next(corrected)
    shown = DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
    return Cell(f"{signed(100 * test.difference)} ({shown})")


_GOALS = (0.90, 0.95)
_NEARLY = 0.99
_WIDE = 30.0  # ratio of the longest to the shortest time from which the axis is logarithmic
_CONVERGENCE_GUIDE = (
    "The best validation AUC so far against the seconds of training, one curve per run that was made alone "
    "(--parallel-runs 1). A curve ends with the run, which includes calibration, certainty and link model. The seconds "
    "of GLACE include its trials, but the curve leaves out their points, because their networks are smaller and are "
    "discarded. Further to the left and higher is better."
)
_SECONDS_GUIDE = (
    "Seconds until the validation AUC first reached 90 %, 95 %, and 99 % of the method's own best: the mean over the "
    f"seeds that reached it, with their number if not all did; {DASH} if none did, or none was run alone."
)


def convergence(runs: Sequence[Run]) -> list[Block]:
    """Return curves for all datasets, then a table."""
    blocks: list[Block] = [_CONVERGENCE_GUIDE]
    if timed := [run for run in runs if run.done and run.is_alone]:
        blocks.append(_training_curves(timed))
    tables = {dataset_name(dataset): _seconds_columns(by_method(group)) for dataset, group in by_dataset(runs).items()}
    return [*blocks, Heading("Seconds to a quality"), _SECONDS_GUIDE, stacked("Dataset", tables)]


def seconds_to(curve: Sequence[Sequence[float]], goal: float) -> float | None:
    """Return when the curve first reaches the goal; None if never."""
    return next((seconds for seconds, auc in curve if auc >= goal), None)


def _training_curves(runs: Sequence[Run]) -> Picture:
    panels = {
        dataset_name(dataset): [_training_line(run) for some in by_method(group).values() for run in some]
        for dataset, group in by_dataset(runs).items()
    }
    seconds = [x for lines in panels.values() for line in lines for x, _ in line.points]
    is_wide = max(seconds, default=0) > _WIDE * min(seconds, default=0)
    png = draw_lines(panels, "seconds", "validation AUC", log_x=is_wide)
    return Picture("convergence", png, "Validation AUC against seconds of training.")


def _training_line(run: Run) -> Line:
    # Zero seconds have no place on a logarithmic axis, and nothing is learned by then.
    curve = [*_curve(run), (run.get("seconds"), _best(run))]
    return Line(method_name(run.method), run.method, [(seconds, auc) for seconds, auc in curve if seconds > 0])


def _seconds_columns(methods: Mapping[str, Sequence[Run]]) -> list[Column]:
    rows = list(methods.values())
    bests = [score([_best(run) for run in row if run.done]) for row in rows]
    return [
        methods_column(methods),
        Column("Best AUC", best_in_bold(rows, bests)),
        *(_seconds_column(f"AUC {100 * goal:g}", rows, goal) for goal in _GOALS),
        _seconds_column("99 % of best", rows, None),
        *cost_columns(rows),
    ]


def _curve(run: Run) -> Points:
    """Return the curve of the model itself, which begins where it is better than the best trial."""
    trials = run.choice.trials if run.choice else []
    highest = max((trial.auc for trial in trials), default=0.0)
    return [(seconds, auc) for seconds, auc in run.get("curve") if auc > highest] or run.get("curve")[-1:]


def _best(run: Run) -> float:
    return max(float(auc) for _, auc in run.get("curve"))


def _seconds_column(name: str, rows: Rows, goal: float | None) -> Column:
    """Return when the runs reached a goal, or 99 % of their own best if none is given."""
    cells = []
    for row in rows:
        done = [run for run in row if run.done and run.is_alone]
        times = [seconds_to(_curve(run), goal or _NEARLY * _best(run)) for run in done]
        found = score([each for each in times if each is not None])
        count = "" if found is None or found.count == len(done) else f" ({found.count} of {len(done)})"
        cells.append(Cell(DASH if found is None else amount(found.mean) + count))
    return Column(name, tuple(cells), "seconds to")


_PICTURE_GUIDE = (
    "Embeddings reduced to two dimensions by t-SNE, without labels; the colours are the classes. The number in a title "
    f"is the silhouette of the classes in the picture, from {MINUS}1 to 1: above 0, a node is closer to its own class "
    "than to the next one. Axes have no unit."
)
_SILHOUETTE_GUIDE = "The silhouettes times 100, mean over seeds; the pictures show the first seed."


def visualization(runs: Sequence[Run]) -> list[Block]:
    """Return a figure per dataset, and the silhouettes of all."""
    blocks: list[Block] = [_PICTURE_GUIDE]
    for dataset, group in by_dataset(run for run in runs if run.done).items():
        first = [some[0] for some in by_method(group).values()]
        png = draw_clouds([_cloud(run) for run in first], _class_names(first))
        caption = f"{dataset_name(dataset)}: nodes in the plane by method, coloured by class."
        blocks += [Heading(dataset_name(dataset)), Picture(f"visualization-{dataset}", png, caption)]
    tables = dataset_tables(runs, lambda name, rows: [score_column(name, rows, "silhouette")])
    return [*blocks, Heading("Silhouettes"), _SILHOUETTE_GUIDE, *tables]


def _cloud(run: Run) -> Cloud:
    value = run.get("silhouette")
    title = method_name(run.method) + (f"  {value:.2f}".replace("-", MINUS) if is_number(value) else "")
    return Cloud(title, run.get("points"), run.get("classes"))


def _class_names(runs: Sequence[Run]) -> list[str]:
    """Return the class names of the first run; classes without a name are numbered."""
    given = runs[0].get("class_names") or []
    count = max(max(run.get("classes")) for run in runs) + 1
    return [str(given[code]) if code < len(given) else f"class {code}" for code in range(max(count, len(given)))]


_UNCERTAINTY_GUIDE = (
    "A Gaussian's variance should say where its mean can be trusted. Whether it does is measured here, not assumed. "
    "The spread of a node is the mean logarithm of its variances; the spread of a pair is the mean of its two nodes. "
    "Curves are means over seeds."
)
_X_LABELS = {"tenth": "tenth of the pairs", "left_out": "left out (share)"}
# Field of the record, its x, title and guide of the picture.
_CURVES = (
    (
        "by_spread",
        "tenth",
        "Narrow and wide pairs",
        "AUC within each tenth of the held-out pairs, from the smallest spread to the largest: if the variance marks "
        "errors, the curve falls.",
    ),
    (
        "without_most_uncertain",
        "left_out",
        "Without the widest pairs",
        "AUC of the remaining pairs when those of the largest spread are left out: if the variance marks errors, the "
        "curve rises; leaving out random pairs would leave it flat.",
    ),
    (
        "without_least_certain",
        "left_out",
        "Without the least certain nodes",
        "AUC of the remaining pairs when those with the least certain nodes are left out. Certainty is not the "
        "variance but the rank of the error that is expected for the node, learned from held-out pairs; see "
        "docs/uncertainty.md.",
    ),
    (
        "without_least_certain_answers",
        "left_out",
        "Without the least certain answers",
        "The same by the certainty of the answer: the distance of the calibrated probability of the edge from 1/2.",
    ),
)
_HALVES = (
    "100 - AUC of the more and the less certain half of the pairs, by the certainty of their nodes and of the answers: "
    "if certainty marks errors, the first is much smaller than the second."
)
_CORRELATION = (
    f"Spearman's rank correlation, from {MINUS}1 to 1, of a node's spread with its degree, its number of attributes, "
    "and the number and entropy of the classes around it."
)
_DROPPED = (
    "AUC after a share of the dimensions is dropped, those of the largest variance first, of the smallest first, or at "
    "random: if the variance says which dimensions hold little, the first curve stays high the longest."
)
_DROPPABLE = "Percent of the dimensions that can be dropped in each order before AUC falls by half a point."
_ORDERS = ("widest_first", "narrowest_first", "at_random")


def uncertainty(runs: Sequence[Run]) -> list[Block]:
    """Return curves and tables of each measure that the runs have."""
    done = [run for run in runs if run.done]
    blocks: list[Block] = [_UNCERTAINTY_GUIDE]
    for field, x, title, guide in _CURVES:
        panels = _panels(done, partial(mean_curve, field=field, x=x, y="auc"))
        pictures = _auc_picture(field, title, panels, _X_LABELS[x])
        blocks += [Heading(title), guide, *pictures] if pictures else []
    blocks += _facts_table("More and less certain halves", _HALVES, runs, "error_of_halves", 100, 2)
    blocks += _facts_table("Correlations of the spread", _CORRELATION, runs, "spread_correlation", 1, 3)
    dropped = [block for dataset, group in by_dataset(done).items() for block in _dropped_dimensions(dataset, group)]
    blocks += [Heading("Dropped dimensions"), _DROPPED, *dropped] if dropped else []
    return blocks + _facts_table("Dispensable dimensions", _DROPPABLE, runs, "droppable_share", 100, 1)


def mean_curve(runs: Sequence[Run], field: str, x: str, y: str) -> Points:
    """Return the mean of y at each x over the runs that have the two columns; runs may lack some x."""
    found: dict[float, list[float]] = {}
    for run in runs:
        columns = run.get(field) or {}
        for place, value in zip(columns.get(x, []), columns.get(y, []), strict=y in columns):
            found.setdefault(place, []).append(value)
    return [(place, sum(values) / len(values)) for place, values in sorted(found.items())]


def _dropped_dimensions(dataset: str, runs: Sequence[Run]) -> list[Block]:
    """Return a picture with one panel per method and one line per order of dropping."""
    field = "auc_without_dimensions"
    panels = {
        method_name(method): [
            Line(_spelled(order), order, mean_curve(some, field, "dropped", order)) for order in _ORDERS
        ]
        for method, some in by_method(runs).items()
    }
    return _auc_picture(f"{field}-{dataset}", f"{dataset_name(dataset)}, dimensions dropped", panels, "dropped (share)")


def _auc_picture(name: str, caption: str, panels: Mapping[str, list[Line]], x: str) -> list[Block]:
    """Return a picture of the lines and panels that have points, or nothing."""
    lines = {title: [line for line in some if line.points] for title, some in panels.items()}
    drawn = {title: some for title, some in lines.items() if some}
    if not drawn:
        return []
    return [Picture(f"uncertainty-{name}", draw_lines(drawn, x, "AUC"), f"{caption}: AUC in percent.")]


def _facts_table(title: str, guide: str, runs: Sequence[Run], field: str, factor: float, digits: int) -> list[Block]:
    """Return the single numbers of a field, one row per dataset and method."""
    names = list(dict.fromkeys(name for run in runs if run.done for name in run.get(field) or {}))
    if not names:
        return []
    columns = {}
    for dataset, group in by_dataset(runs).items():
        methods = by_method(group)
        numbers = [
            Column(_spelled(name), tuple(_fact_cell(some, field, name, factor, digits) for some in methods.values()))
            for name in names
        ]
        columns[dataset_name(dataset)] = [methods_column(methods), *numbers]
    return [Heading(title), guide, stacked("Dataset", columns)]


def _fact_cell(runs: Sequence[Run], field: str, name: str, factor: float, digits: int) -> Cell:
    values = [(run.get(field) or {}).get(name) for run in runs if run.done]
    found = score([value for value in values if is_number(value)])
    return Cell(DASH if found is None else number(found, digits, factor))


def _spelled(name: str) -> str:
    return name.replace("_", " ")
