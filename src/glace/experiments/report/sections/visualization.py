"""Figure 3 of the paper: the nodes in the plane, coloured by class."""

from collections.abc import Sequence

from glace.experiments.report.cells import score_column, tables_of
from glace.experiments.report.checks import is_number
from glace.experiments.report.document import Heading, Part, Picture, Section, Text
from glace.experiments.report.names import dataset_name, datasets_in_order, in_order, method_name
from glace.experiments.report.plots import Cloud, draw_clouds
from glace.experiments.report.results import Results, Run, grouped
from glace.experiments.report.sections.common import method_rows
from glace.experiments.report.tables import MINUS

_GUIDE = (
    "Embeddings brought to two dimensions by t-SNE, without labels; the colours are the classes. The number in a title "
    f"is the silhouette of the classes in the picture, from {MINUS}1 to 1: above 0, a node is nearer to its own "
    "class than to the next. Axes have no unit."
)
_TABLE_GUIDE = "The silhouettes times 100, the mean over seeds; pictures are of the first seed."


def visualization(results: Results) -> Section | None:
    """A figure a dataset, and the silhouettes of all."""
    runs = results.of("visualization")
    if not runs:
        return None
    parts: list[Part] = [Text(_GUIDE)]
    for dataset in datasets_in_order(run.dataset for run in runs if run.done):
        parts += _figure(dataset, [run for run in runs if run.dataset == dataset and run.done])
    methods = in_order(run.method for run in runs)
    columns = [
        [score_column(dataset_name(dataset), method_rows(runs, methods, dataset), "silhouette")]
        for dataset in datasets_in_order(run.dataset for run in runs)
    ]
    parts += [Heading("Silhouettes"), Text(_TABLE_GUIDE), *tables_of(methods, columns)]
    return Section("Visualization (Figure 3)", tuple(parts))


def _figure(dataset: str, runs: Sequence[Run]) -> list[Part]:
    groups = grouped(runs, lambda run: run.method)
    first = [groups[method][0] for method in in_order(groups)]
    png = draw_clouds([_cloud(run) for run in first], _class_names(first))
    caption = f"{dataset_name(dataset)}: nodes in the plane by method, coloured by class."
    return [Heading(dataset_name(dataset)), Picture(f"visualization-{dataset}", png, caption)]


def _cloud(run: Run) -> Cloud:
    value = run.values.get("silhouette")
    title = method_name(run.method) + (f"  {value:.2f}".replace("-", MINUS) if is_number(value) else "")
    return Cloud(title, run.values["points"], run.values["classes"])


def _class_names(runs: Sequence[Run]) -> list[str]:
    """The names the first run gives; numbers for classes beyond them."""
    given = runs[0].values.get("class_names") or []
    count = max(max(run.values["classes"]) for run in runs) + 1
    return [str(given[code]) if code < len(given) else f"class {code}" for code in range(max(count, len(given)))]
