"""Tables 2 and 3 of the paper: held-out edges, and edges of nodes unknown to training, against non-edges."""

from collections.abc import Sequence

from glace.experiments.report import paper
from glace.experiments.report.cells import (
    Rows,
    best_in_bold,
    cost_columns,
    difference_column,
    method_rows,
    methods_column,
    printed_column,
    score_column,
    tables_of,
)
from glace.experiments.report.document import Block, Column, Heading, Section, Table, stacked
from glace.experiments.report.names import dataset_name, in_order, method_name
from glace.experiments.report.results import Results, by_dataset, by_method, grouped, mean_score
from glace.experiments.report.schema import Run, is_number

_GUIDE = (
    "Each method saw the graph without the held-out edges, then ranked those edges among as many non-edges. Gaussians "
    "are scored by minus their dissimilarity, points by their dot product, as in the paper. Higher is better; the best "
    "of a column is bold; a dash is explained below its table; an empty cell was not run, or does not apply."
)
_COSINE = (
    "Points again (AUC), by dot product and by cosine: the length of a vector counts in the first and not in the "
    "second. The better of the two is bold."
)
_GIVEN = (
    "One split read from a file, so all seeds hold out the same edges and ± shows only the randomness of the methods."
)
_INDUCTION = (
    "A share of the nodes was hidden from training together with all their edges. Their embeddings come from their "
    "attributes alone; the scores say how well their edges are told from non-edges."
)
_COMPARED = (
    "Ours, the paper's where it has numbers, and ours minus the paper's in percentage points; the best of a dataset "
    "is bold."
)


def link_prediction(results: Results) -> Section | None:
    """Return the overview, a table per dataset, points by cosine, and splits given as files."""
    runs = results.of("link-prediction")
    if not runs:
        return None
    blocks: list[Block] = [_GUIDE]
    random = [run for run in runs if run.split == "random"]
    if random:
        blocks += [*_overview(random), *_datasets(random), *_by_cosine(random)]
    given = grouped((run for run in runs if run.split != "random"), lambda run: (run.dataset, run.split))
    for (dataset, split), group in sorted(given.items()):
        blocks += _given_split(dataset, split, group)
    return Section("Link prediction (Table 2)", tuple(blocks))


def induction(results: Results) -> Section | None:
    """Return a table for each share of hidden nodes."""
    if not results.of("induction"):
        return None
    runs, excluded = without_unsupported(results.of("induction"))
    caveats = " ".join(paper.CAVEATS[dataset] for dataset, _ in by_dataset(runs) if dataset in paper.CAVEATS)
    blocks: list[Block] = [_INDUCTION, *excluded, *([caveats] if caveats else [])]
    # A run that did not finish may not know its share; it gets a table of its own.
    for share, group in sorted(grouped(runs, lambda run: run.hidden_share or 0.0).items()):
        title = f"{100 * share:g} % of the nodes hidden" if share else "Share of hidden nodes unknown"
        columns = {dataset_name(dataset): _hidden(share, dataset, some) for dataset, some in by_dataset(group)}
        blocks += [Heading(title), _COMPARED, stacked("Dataset", columns)]
    return Section("Induction (Table 3)", tuple(blocks))


def without_unsupported(runs: Sequence[Run]) -> tuple[list[Run], list[Block]]:
    """Return the runs without the methods that never support the task, and a sentence that names those methods.

    One sentence replaces a row of dashes for each of them in every table.
    """
    unable = [method for method, group in by_method(runs) if all(run.status == "unsupported" for run in group)]
    sentence = f"Methods that cannot do this task are left out: {', '.join(map(method_name, unable))}."
    return [run for run in runs if run.method not in unable], [sentence] if unable else []


def _hidden(share: float, dataset: str, runs: Sequence[Run]) -> list[Column]:
    methods = in_order(run.method for run in runs)
    rows = method_rows(runs, methods, dataset)
    printed = [paper.induction(method, dataset, share) for method in methods]
    return [methods_column(methods), *_compared_columns(rows, printed), *cost_columns(rows)]


def _overview(runs: Sequence[Run]) -> list[Block]:
    methods = in_order(run.method for run in runs)
    columns = [
        [score_column(dataset_name(dataset), method_rows(group, methods, dataset), "auc")]
        for dataset, group in by_dataset(runs)
    ]
    guide = "The area under the ROC curve, dataset by dataset."
    return [Heading("AUC of all datasets"), guide, *tables_of(methods, columns)]


def _datasets(runs: Sequence[Run]) -> list[Block]:
    blocks: list[Block] = []
    for dataset, group in by_dataset(runs):
        methods = in_order(run.method for run in group)
        rows = method_rows(group, methods, dataset)
        printed = [paper.link_prediction(method, dataset) for method in methods]
        guide, scores = "The paper prints no numbers for this graph.", _ours(rows)
        if any(printed):
            guide = "Ours, the paper's, and ours minus the paper's in percentage points."
            guide = f"{guide} {paper.TABLE_2_CAVEATS.get(dataset, '')}".strip()
            scores = _compared_columns(rows, printed)
        blocks += [Heading(dataset_name(dataset)), guide]
        blocks.append(Table((methods_column(methods), *scores, *cost_columns(rows))))
    return blocks


def _compared_columns(rows: Rows, printed: Sequence[paper.Printed | None]) -> list[Column]:
    """Return AUC and AP: ours, the paper's and the differences."""
    by_field = {name: [each and getattr(each, name) for each in printed] for name in ("auc", "ap")}
    theirs = [printed_column(name.upper(), values, "paper") for name, values in by_field.items()]
    differences = [
        difference_column(name.upper(), rows, name, values, "difference") for name, values in by_field.items()
    ]
    return [*_ours(rows), *theirs, *differences]


def _ours(rows: Rows, suffix: str = "", group: str = "ours") -> list[Column]:
    return [score_column(name.upper(), rows, f"{name}{suffix}", group) for name in ("auc", "ap")]


def _by_cosine(runs: Sequence[Run]) -> list[Block]:
    points = [run for run in runs if is_number(run.get("auc_cosine"))]
    if not points:
        return []
    methods = in_order(run.method for run in points)
    columns = [
        _dot_and_cosine(method_rows(group, methods, dataset), dataset_name(dataset))
        for dataset, group in by_dataset(points)
    ]
    return [Heading("Dot product or cosine"), _COSINE, *tables_of(methods, columns)]


def _dot_and_cosine(rows: Rows, group: str) -> list[Column]:
    """Return both scores of each row side by side, the better of the two in bold."""
    pairs = [
        best_in_bold([row, row], [mean_score(row, "auc"), mean_score(row, "auc_cosine")], brief=True) for row in rows
    ]
    dots, cosines = zip(*pairs, strict=True)
    return [Column("dot", dots, group), Column("cosine", cosines, group)]


def _given_split(dataset: str, split: str, runs: Sequence[Run]) -> list[Block]:
    methods = in_order(run.method for run in runs)
    rows = method_rows(runs, methods, dataset)
    columns = [methods_column(methods), *_ours(rows, "", "all pairs")]
    for suffix, group in (("_without_reversed", "without the reversed"), ("_cosine", "by cosine")):
        if any(is_number(run.get(f"auc{suffix}")) for run in runs):
            columns += _ours(rows, suffix, group)
    title = f"{dataset_name(dataset)}, the given split {split}"
    return [Heading(title), _guide_of_given(runs), Table((*columns, *cost_columns(rows)))]


def _guide_of_given(runs: Sequence[Run]) -> str:
    found = [run.get("reversed_edges") for run in runs]
    counts = {int(each) for each in found if is_number(each) and each}
    if not counts:
        return _GIVEN
    count = " or ".join(str(each) for each in sorted(counts))
    return (
        f"{_GIVEN} The reverse of {count} of its test edges is a training edge: a method that ignores direction knows "
        "them already, so the scores without them are the fairer ones."
    )
