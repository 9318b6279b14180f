"""What the methods took: seconds and memory, method by dataset."""

from collections.abc import Sequence

from glace.experiments.report.cells import cost_column, tables_of
from glace.experiments.report.checks import TASKS, is_number
from glace.experiments.report.document import Heading, Part, Section, Text
from glace.experiments.report.names import dataset_name, datasets_in_order, in_order
from glace.experiments.report.results import Results, Run
from glace.experiments.report.sections.common import method_rows

_MEASURES = (
    ("seconds", "Seconds", "Seconds from the graph to the scores"),
    (
        "peak_rss_mb",
        "Peak memory",
        "The most memory the process of a run held, in megabytes, libraries and graph included",
    ),
)


def cost(results: Results) -> Section | None:
    """Of one task, link prediction if it was run: the same work for every method."""
    for task in TASKS:
        runs = [run for run in results.of(task) if run.split == "random"]
        if any(is_number(run.values.get(field)) for run in runs for field, _, _ in _MEASURES):
            return Section("Time and memory", tuple(_tables(task, runs)))
    return None


def _tables(task: str, runs: Sequence[Run]) -> list[Part]:
    methods = in_order(run.method for run in runs)
    datasets = datasets_in_order(run.dataset for run in runs)
    parts: list[Part] = []
    for field, title, guide in _MEASURES:
        columns = [cost_column(dataset_name(each), method_rows(runs, methods, each), field) for each in datasets]
        parts += [
            Heading(title),
            Text(f"{guide}: {task}, mean over seeds."),
            *tables_of(methods, [[column] for column in columns]),
        ]
    return parts
