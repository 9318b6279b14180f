"""Figure 3 of the paper: the nodes in the plane, coloured by class."""

from collections.abc import Sequence

from glace.experiments.report.cells import method_rows, score_column, tables_of
from glace.experiments.report.document import MINUS, Block, Heading, Picture, Section
from glace.experiments.report.names import dataset_name, in_order, method_name
from glace.experiments.report.plots import Cloud, draw_clouds
from glace.experiments.report.results import Results, by_dataset, by_method
from glace.experiments.report.schema import Run, is_number

_GUIDE = (
    "Embeddings reduced to two dimensions by t-SNE, without labels; the colours are the classes. The number in a title "
    f"is the silhouette of the classes in the picture, from {MINUS}1 to 1: above 0, a node is closer to its own class "
    "than to the next one. Axes have no unit."
)
_TABLE_GUIDE = "The silhouettes times 100, mean over seeds; the pictures show the first seed."


def visualization(results: Results) -> Section | None:
    """Return a figure per dataset, and the silhouettes of all."""
    runs = results.of("visualization")
    if not runs:
        return None
    blocks: list[Block] = [_GUIDE]
    for dataset, group in by_dataset(run for run in runs if run.done):
        blocks += _figure(dataset, group)
    methods = in_order(run.method for run in runs)
    columns = [
        [score_column(dataset_name(dataset), method_rows(group, methods, dataset), "silhouette")]
        for dataset, group in by_dataset(runs)
    ]
    blocks += [Heading("Silhouettes"), _TABLE_GUIDE, *tables_of(methods, columns)]
    return Section("Visualization (Figure 3)", tuple(blocks))


def _figure(dataset: str, runs: Sequence[Run]) -> list[Block]:
    first = [group[0] for _, group in by_method(runs)]
    png = draw_clouds([_cloud(run) for run in first], _class_names(first))
    caption = f"{dataset_name(dataset)}: nodes in the plane by method, coloured by class."
    return [Heading(dataset_name(dataset)), Picture(f"visualization-{dataset}", png, caption)]


def _cloud(run: Run) -> Cloud:
    value = run.get("silhouette")
    title = method_name(run.method) + (f"  {value:.2f}".replace("-", MINUS) if is_number(value) else "")
    return Cloud(title, run.get("points"), run.get("classes"))


def _class_names(runs: Sequence[Run]) -> list[str]:
    """Return the class names of the first run; classes without a name are numbered."""
    given = runs[0].get("class_names") or []
    count = max(max(run.get("classes")) for run in runs) + 1
    return [str(given[code]) if code < len(given) else f"class {code}" for code in range(max(count, len(given)))]
