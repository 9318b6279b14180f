"""Figure 1 of the paper: classes of nodes from their embeddings, by the share of labels shown."""

from collections.abc import Mapping, Sequence

import numpy as np

from glace.experiments.report.cells import Rows, best_in_bold, methods_column
from glace.experiments.report.document import Heading, Part, Picture, Section, Text
from glace.experiments.report.names import dataset_name, datasets_in_order, in_order, method_name
from glace.experiments.report.plots import Line, draw_lines
from glace.experiments.report.results import Results, Run, grouped, score
from glace.experiments.report.tables import DASH, Cell, Column, Table

_SHARES = (0.1, 0.5, 0.9)
_TESTED = 0.1
_OURS = ("glace", "glace-published")
_GUIDE = (
    "All nodes were embedded without labels; a logistic regression then learned the classes from the embeddings of a "
    "share of the nodes and was judged on the others. Micro-F1 is the share of nodes that get the right class; "
    "macro-F1 counts every class alike. Tables: mean ± standard deviation over the trials of all seeds. p is of a "
    f"paired t-test on micro-F1 with {100 * _TESTED:g} % of the labels, trial by trial; trials share most of "
    "their nodes, so p validation_points smaller than it is, and it says that two methods differ, not which is better."
)


def node_classification(results: Results) -> Section | None:
    """Curves for all datasets, then a table a dataset."""
    runs = results.of("node-classification")
    if not runs:
        return None
    parts: list[Part] = [Text(_GUIDE)]
    done = [run for run in runs if run.done]
    if done:
        parts += [_curves(done, field, name) for field, name in (("micro_f1", "Micro-F1"), ("macro_f1", "Macro-F1"))]
    for dataset in datasets_in_order(run.dataset for run in runs):
        parts += _dataset(dataset, [run for run in runs if run.dataset == dataset])
    return Section("Node classification (Figure 1)", tuple(parts))


def trials_at(run: Run, field: str, share: float) -> list[float]:
    """The trials of a run at a share of labels; none if it has none there."""
    for text, scores in run.values[f"{field}_trials"].items():
        if abs(float(text) - share) < 1e-9:
            return list(scores)
    return []


def paired_p(ours: Sequence[Run], theirs: Sequence[Run], share: float = _TESTED) -> float | None:
    """The p of a paired t-test of micro-F1, trial by trial of the seeds both have; None if it cannot be done."""
    others = {run.seed: run for run in theirs if run.done}
    pairs: list[tuple[float, float]] = []
    for run in ours:
        if run.done and run.seed in others:
            both = (trials_at(each, "micro_f1", share) for each in (run, others[run.seed]))
            pairs += zip(*both, strict=False)
    # Differences that are all the same have no spread to test against.
    if len(pairs) < 2 or np.ptp([our - their for our, their in pairs]) < 1e-12:
        return None
    from scipy.stats import ttest_rel

    return float(ttest_rel(*zip(*pairs, strict=True)).pvalue)


def _curves(runs: Sequence[Run], field: str, name: str) -> Picture:
    panels = {}
    for dataset in datasets_in_order(run.dataset for run in runs):
        groups = grouped((run for run in runs if run.dataset == dataset), lambda run: run.method)
        panels[dataset_name(dataset)] = [_line(method, groups[method], field) for method in in_order(groups)]
    png = draw_lines(panels, "labels shown (%)", f"{name} (%)")
    return Picture(f"node-classification-{field.replace('_', '-')}", png, f"{name} by the share of labels shown.")


def _line(method: str, runs: Sequence[Run], field: str) -> Line:
    shares = sorted({float(share) for run in runs for share in run.values[f"{field}_trials"]})
    means = [np.mean([each for run in runs for each in trials_at(run, field, share)]) for share in shares]
    return Line(method_name(method), method, [100 * each for each in shares], [100 * float(each) for each in means])


def _dataset(dataset: str, runs: Sequence[Run]) -> list[Part]:
    groups = grouped(runs, lambda run: run.method)
    methods = in_order(groups)
    rows = [groups[method] for method in methods]
    columns = [methods_column(methods)]
    for field, name in (("micro_f1", "micro-F1 with labels of"), ("macro_f1", "macro-F1 with labels of")):
        columns += [_score_column(rows, field, share, name) for share in _SHARES]
    ours = next((method for method in _OURS if any(run.done for run in groups.get(method, []))), None)
    guide = "F1 in percent with 10, 50 and 90 % of the labels shown."
    if ours and len(methods) > 1:
        columns.append(_test_column(methods, groups, ours))
        guide += f" p: a paired t-test against {method_name(ours)}."
    return [Heading(dataset_name(dataset)), Text(guide), Table(tuple(columns))]


def _score_column(rows: Rows, field: str, share: float, group: str) -> Column:
    scores = []
    for runs in rows:
        scores.append(score([each for run in runs if run.done for each in trials_at(run, field, share)]))
    return Column(f"{100 * share:g} %", best_in_bold(rows, scores), group)


def _test_column(methods: Sequence[str], groups: Mapping[str, Sequence[Run]], ours: str) -> Column:
    cells = []
    for method in methods:
        p = None if method == ours else paired_p(groups[ours], groups[method])
        cells.append(Cell("" if method == ours else DASH if p is None else _p_text(p)))
    return Column("p", tuple(cells))


def _p_text(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"
