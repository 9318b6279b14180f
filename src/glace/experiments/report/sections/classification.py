"""Figure 1 of the paper: classes of nodes from their embeddings, by the share of labels shown."""

from collections.abc import Mapping, Sequence

import numpy as np

from glace.experiments.report.cells import Rows, best_in_bold, methods_column
from glace.experiments.report.document import DASH, Block, Cell, Column, Heading, Picture, Section, Table
from glace.experiments.report.names import dataset_name, method_name
from glace.experiments.report.plots import Line, draw_lines
from glace.experiments.report.results import Results, by_dataset, by_method, score
from glace.experiments.report.schema import Run

_SHARES = (0.1, 0.5, 0.9)
_TESTED = 0.1
_OURS = ("glace", "glace-published")
_SCORES = (("micro_f1", "Micro-F1"), ("macro_f1", "Macro-F1"))
_GUIDE = (
    "All nodes were embedded without labels; a logistic regression then learned the classes from the embeddings of a "
    "share of the nodes and was tested on the others. Micro-F1 is the share of nodes with the right class; macro-F1 "
    "weights every class equally. Tables: mean ± standard deviation over the trials of all seeds. p is the p-value of "
    f"a paired t-test on micro-F1 with {100 * _TESTED:g} % of the labels, trial by trial. Trials share most of their "
    "nodes, so p is too small; it says that two methods differ, not which is better."
)


def node_classification(results: Results) -> Section | None:
    """Return curves for all datasets, then a table per dataset."""
    runs = results.of("node-classification")
    if not runs:
        return None
    blocks: list[Block] = [_GUIDE]
    done = [run for run in runs if run.done]
    if done:
        blocks += [_curves(done, field, name) for field, name in _SCORES]
    for dataset, group in by_dataset(runs):
        blocks += _dataset(dataset, group)
    return Section("Node classification (Figure 1)", tuple(blocks))


def trials_at(run: Run, field: str, share: float) -> list[float]:
    """Return the trials of a run at a share of labels; empty if it has none there."""
    return list(run.get(f"{field}_trials").get(share, []))


def paired_p(ours: Sequence[Run], theirs: Sequence[Run], share: float = _TESTED) -> float | None:
    """Return p of a paired t-test of micro-F1 over the trials of the common seeds; None if there is no test."""
    others = {run.seed: run for run in theirs if run.done}
    pairs: list[tuple[float, float]] = []
    for run in ours:
        if run.done and run.seed in others:
            both = (trials_at(each, "micro_f1", share) for each in (run, others[run.seed]))
            pairs += zip(*both, strict=False)
    # Constant differences have no variance to test against.
    if len(pairs) < 2 or np.ptp([our - their for our, their in pairs]) < 1e-12:
        return None
    from scipy.stats import ttest_rel

    return float(ttest_rel(*zip(*pairs, strict=True)).pvalue)


def _curves(runs: Sequence[Run], field: str, name: str) -> Picture:
    panels = {
        dataset_name(dataset): [_line(method, some, field) for method, some in by_method(group)]
        for dataset, group in by_dataset(runs)
    }
    png = draw_lines(panels, "labels shown (%)", f"{name} (%)")
    return Picture(f"node-classification-{field.replace('_', '-')}", png, f"{name} by the share of labels shown.")


def _line(method: str, runs: Sequence[Run], field: str) -> Line:
    shares = sorted({share for run in runs for share in run.get(f"{field}_trials")})
    means = [np.mean([each for run in runs for each in trials_at(run, field, share)]) for share in shares]
    return Line(method_name(method), method, [100 * each for each in shares], [100 * float(each) for each in means])


def _dataset(dataset: str, runs: Sequence[Run]) -> list[Block]:
    groups = dict(by_method(runs))
    rows = list(groups.values())
    columns = [methods_column(groups)]
    for field, name in _SCORES:
        group = f"{name[0].lower()}{name[1:]} with labels of"
        columns += [_score_column(rows, field, share, group) for share in _SHARES]
    ours = next((method for method in _OURS if any(run.done for run in groups.get(method, []))), None)
    guide = "F1 in percent with 10, 50 and 90 % of the labels shown."
    if ours and len(groups) > 1:
        columns.append(_test_column(groups, ours))
        guide += f" p: a paired t-test against {method_name(ours)}."
    return [Heading(dataset_name(dataset)), guide, Table(tuple(columns))]


def _score_column(rows: Rows, field: str, share: float, group: str) -> Column:
    scores = [score([each for run in runs if run.done for each in trials_at(run, field, share)]) for runs in rows]
    return Column(f"{100 * share:g} %", best_in_bold(rows, scores), group)


def _test_column(groups: Mapping[str, Sequence[Run]], ours: str) -> Column:
    cells = []
    for method, runs in groups.items():
        p = None if method == ours else paired_p(groups[ours], runs)
        text = DASH if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"
        cells.append(Cell("" if method == ours else text))
    return Column("p", tuple(cells))
