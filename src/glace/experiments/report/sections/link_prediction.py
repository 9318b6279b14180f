"""Table 2 of the paper: held-out edges told from pairs that are no edges."""

from collections.abc import Sequence

from glace.experiments.report import paper
from glace.experiments.report.cells import (
    Rows,
    best_in_bold,
    cost_column,
    difference_column,
    methods_column,
    printed_column,
    score_column,
    seeds_column,
    tables_of,
)
from glace.experiments.report.checks import is_number
from glace.experiments.report.document import Heading, Part, Section, Text
from glace.experiments.report.names import dataset_name, in_order
from glace.experiments.report.results import Results, Run, grouped, measured
from glace.experiments.report.sections.common import by_dataset, method_rows
from glace.experiments.report.tables import Column, Table

_GUIDE = (
    "Each method saw the graph without the held-out edges, then ranked those edges among as many pairs that are no "
    "edges. Gaussians are judged by minus their dissimilarity, points by their dot product, as in the paper. Higher is "
    "better; the best of a column is bold; a dash is explained below its table; what is empty was not "
    "run, or does not apply."
)
_COSINE = (
    "Points again (AUC), by dot product and by cosine: the length of a vector counts in the one and not in the other. "
    "The better of the two is bold."
)
_GIVEN = (
    "One split that was handed over as a file, so all seeds have the same edges held out and ± shows the methods' own "
    "randomness only."
)


def link_prediction(results: Results) -> Section | None:
    """The overview, a table a dataset, points by cosine, and splits given as files."""
    runs = results.of("link-prediction")
    if not runs:
        return None
    parts: list[Part] = [Text(_GUIDE)]
    random = [run for run in runs if run.split == "random"]
    if random:
        parts += [*_overview(random), *_datasets(random), *_by_cosine(random)]
    given = grouped((run for run in runs if run.split != "random"), lambda run: (run.dataset, run.split))
    for (dataset, split), group in sorted(given.items()):
        parts += _given_split(dataset, split, group)
    return Section("Link prediction (Table 2)", tuple(parts))


def _overview(runs: Sequence[Run]) -> list[Part]:
    methods = in_order(run.method for run in runs)
    columns = [
        [score_column(dataset_name(dataset), method_rows(group, methods, dataset), "auc")]
        for dataset, group in by_dataset(runs)
    ]
    return [
        Heading("AUC of all datasets"),
        Text("The area under the ROC curve, dataset by dataset."),
        *tables_of(methods, columns),
    ]


def _datasets(runs: Sequence[Run]) -> list[Part]:
    parts: list[Part] = []
    for dataset, group in by_dataset(runs):
        methods = in_order(run.method for run in group)
        rows = method_rows(group, methods, dataset)
        printed = [paper.link_prediction(method, dataset) for method in methods]
        parts += [Heading(dataset_name(dataset)), Text(_guide_of(dataset, any(printed)))]
        scores = compared_columns(rows, printed) if any(printed) else _ours(rows)
        parts.append(Table((methods_column(methods), *scores, *cost_columns(rows))))
    return parts


def compared_columns(rows: Rows, printed: Sequence[paper.Printed | None]) -> list[Column]:
    """AUC and AP: ours, the paper's and the differences."""
    auc, ap = ([each and getattr(each, name) for each in printed] for name in ("auc", "ap"))
    theirs = [printed_column("AUC", auc, "paper"), printed_column("AP", ap, "paper")]
    apart = [
        difference_column("AUC", rows, "auc", auc, "difference"),
        difference_column("AP", rows, "ap", ap, "difference"),
    ]
    return [*_ours(rows), *theirs, *apart]


def _ours(rows: Rows) -> list[Column]:
    return [score_column("AUC", rows, "auc", "ours"), score_column("AP", rows, "ap", "ours")]


def cost_columns(rows: Rows) -> list[Column]:
    """How many seeds, and what a run took on average."""
    return [
        seeds_column(rows),
        cost_column("Seconds", rows, "seconds"),
        cost_column("Peak MB", rows, "peak_rss_mb"),
    ]


def _guide_of(dataset: str, in_the_paper: bool) -> str:
    compared = (
        "Ours, the paper's, and ours minus the paper's in points."
        if in_the_paper
        else "The paper prints no numbers for this graph."
    )
    return f"{compared} {paper.TABLE_2_CAVEATS.get(dataset, '') if in_the_paper else ''}".strip()


def _by_cosine(runs: Sequence[Run]) -> list[Part]:
    points = [run for run in runs if is_number(run.values.get("auc_cosine"))]
    if not points:
        return []
    methods = in_order(run.method for run in points)
    columns = [
        _dot_and_cosine(method_rows(group, methods, dataset), dataset_name(dataset))
        for dataset, group in by_dataset(points)
    ]
    return [Heading("Dot product or cosine"), Text(_COSINE), *tables_of(methods, columns)]


def _dot_and_cosine(rows: Rows, group: str) -> list[Column]:
    """Both scores of each row side by side; here a row competes with itself."""
    pairs = [best_in_bold([row, row], [measured(row, "auc"), measured(row, "auc_cosine")], brief=True) for row in rows]
    dots, cosines = zip(*pairs, strict=True)
    return [Column("dot", dots, group), Column("cosine", cosines, group)]


def _given_split(dataset: str, split: str, runs: Sequence[Run]) -> list[Part]:
    methods = in_order(run.method for run in runs)
    rows = method_rows(runs, methods, dataset)
    columns = [methods_column(methods), score_column("AUC", rows, "auc", "all pairs")]
    columns.append(score_column("AP", rows, "ap", "all pairs"))
    if any(is_number(run.values.get("auc_without_reversed")) for run in runs):
        columns.append(score_column("AUC", rows, "auc_without_reversed", "without the reversed"))
        columns.append(score_column("AP", rows, "ap_without_reversed", "without the reversed"))
    if any(is_number(run.values.get("auc_cosine")) for run in runs):
        columns.append(score_column("AUC", rows, "auc_cosine", "by cosine"))
        columns.append(score_column("AP", rows, "ap_cosine", "by cosine"))
    title = f"{dataset_name(dataset)}, the given split {split}"
    return [Heading(title), Text(_guide_of_given(runs)), Table((*columns, *cost_columns(rows)))]


def _guide_of_given(runs: Sequence[Run]) -> str:
    found = [run.values.get("reversed_edges") for run in runs]
    counts = {int(each) for each in found if is_number(each) and each}
    if not counts:
        return _GIVEN
    count = " or ".join(str(each) for each in sorted(counts))
    return (
        f"{_GIVEN} {count} of its test edges run against an edge that is among the training edges in the other "
        "direction: a method that sees the graph undirected knows them already, so the scores without them are the "
        "fairer ones."
    )
