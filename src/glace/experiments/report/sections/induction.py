"""Table 3 of the paper: edges of nodes that had no part in training, from their attributes alone."""

from collections.abc import Sequence

from glace.experiments.report import paper
from glace.experiments.report.cells import methods_column
from glace.experiments.report.document import Heading, Part, Section, Text
from glace.experiments.report.names import dataset_name, datasets_in_order, in_order
from glace.experiments.report.results import Results, Run, grouped
from glace.experiments.report.sections.common import method_rows, without_unable
from glace.experiments.report.sections.link_prediction import compared_columns, cost_columns
from glace.experiments.report.tables import Column, stacked

_GUIDE = (
    "A share of the nodes was hidden from training together with all their edges. Their Gaussians, or points, come "
    "from their attributes alone; the scores say how well their edges are told from pairs that are no edges."
)
_COMPARED = "Ours, the paper's where it has numbers, and ours minus the paper's in points; best of a dataset in bold."


def induction(results: Results) -> Section | None:
    """A table for each share of hidden nodes."""
    tried = results.of("induction")
    if not tried:
        return None
    runs, said = without_unable(tried)
    parts: list[Part] = [Text(_GUIDE), *said, *_caveats(runs)]
    for share, group in sorted(grouped(runs, _share).items()):
        parts += _hidden(share, group)
    return Section("Induction (Table 3)", tuple(parts))


def _caveats(runs: Sequence[Run]) -> list[Part]:
    found = datasets_in_order(run.dataset for run in runs if run.dataset in paper.CAVEATS)
    return [Text(" ".join(paper.CAVEATS[dataset] for dataset in found))] if found else []


def _share(run: Run) -> float:
    # A run that did not come to its end may not say; it stands apart rather than nowhere.
    return float(run.values.get("hidden_share") or 0)


def _hidden(share: float, runs: Sequence[Run]) -> list[Part]:
    datasets = datasets_in_order(run.dataset for run in runs)
    title = f"{100 * share:g} % of the nodes hidden" if share else "Share of hidden nodes unknown"
    table = stacked("Dataset", {dataset_name(each): _columns(share, each, runs) for each in datasets})
    return [Heading(title), Text(_COMPARED), table]


def _columns(share: float, dataset: str, runs: Sequence[Run]) -> list[Column]:
    methods = in_order(run.method for run in runs if run.dataset == dataset)
    rows = method_rows(runs, methods, dataset)
    printed = [paper.induction(method, dataset, share) for method in methods]
    return [methods_column(methods), *compared_columns(rows, printed), *cost_columns(rows)]
