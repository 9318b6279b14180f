"""What several sections share: runs in rows and by dataset, and the methods that cannot do a task."""

from collections.abc import Sequence

from glace.experiments.report.cells import Rows
from glace.experiments.report.document import Part, Text
from glace.experiments.report.names import datasets_in_order, in_order, method_name
from glace.experiments.report.results import Run, grouped


def method_rows(runs: Sequence[Run], methods: Sequence[str], dataset: str) -> Rows:
    """The runs on one dataset, method by method."""
    return [[run for run in runs if run.method == method and run.dataset == dataset] for method in methods]


def by_dataset(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """The datasets in order, each with its runs."""
    groups = grouped(runs, lambda run: run.dataset)
    return [(dataset, groups[dataset]) for dataset in datasets_in_order(groups)]


def by_method(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """The methods in order, each with its runs by seed."""
    groups = grouped(runs, lambda run: run.method)
    return [(method, groups[method]) for method in in_order(groups)]


def without_unable(runs: Sequence[Run]) -> tuple[list[Run], list[Part]]:
    """The runs without the methods that can do the task on no graph, and a sentence that names these.

    One sentence instead of a row of dashes for each of them, in every table.
    """
    unable = [method for method, group in by_method(runs) if all(run.status == "unsupported" for run in group)]
    said = f"Not here, for they cannot do this: {', '.join(map(method_name, unable))}."
    return [run for run in runs if run.method not in unable], [Text(said)] if unable else []
