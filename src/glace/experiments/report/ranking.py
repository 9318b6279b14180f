"""Benchmark ranking: Hits@K and MRR of every method, with and without link model, and published numbers."""

from collections.abc import Mapping, Sequence

from glace.drawing.document import Block, Cell, Column, Heading, stacked, text_column
from glace.experiments.report.cells import cost_columns, score_column
from glace.experiments.report.paper import RANKING_MEASURES, dataset_name, method_name
from glace.experiments.report.results import Run, by_dataset, by_method, grouped, with_link_models

_GUIDE = (
    "A random share of the edges was hidden, half as many more were for validation, and nodes may have lost all their "
    "edges, as in published splits. Hits@K is the share of hidden edges above all but K - 1 of as many random "
    "non-edges; equal scores are no hit. MRR is the mean of 1 / rank of a hidden edge among 500 hard negatives: its "
    "ends replaced by the nodes that resource allocation, personalised PageRank and the attributes find most probable "
    "(HeaRT, Li et al. 2023); equal scores count half. “+ link model” is fitted to the validation edges, which the "
    "other rows use for early stopping only."
)
_PUBLISHED_GUIDE = (
    "The last rows are published numbers on other random splits of the same size, so small differences decide nothing."
)
_GRAPHS = ("cora-planetoid", "citeseer-planetoid", "pubmed-planetoid")
# In percent, of each of these graphs. Hits@100 were measured with 20 % of the edges in the test, where K of twice as
# many non-edges is harder to reach than with 10 %; the MRR with 10 %.
_PUBLISHED: dict[float, dict[str, tuple[str, tuple[float, float, float]]]] = {
    0.1: {"the best in HeaRT": ("mrr", (18.3, 28.7, 9.4))},
    0.2: {
        "NCNC": ("hits_at_100", (89.7, 93.5, 81.3)),
        "OCN": ("hits_at_100", (89.8, 93.6, 84.0)),
        "Refined-GAE": ("hits_at_100", (88.2, 92.4, 80.1)),
    },
}


def benchmark_ranking(runs: Sequence[Run]) -> list[Block]:
    """Return a table for each share of hidden edges."""
    blocks: list[Block] = [_GUIDE]
    # A run that did not finish may not know its share; it gets a table of its own.
    for share, group in sorted(grouped(with_link_models(runs), lambda run: run.hidden_share or 0.0).items()):
        title = f"{100 * share:g} % of the edges hidden" if share else "Share of hidden edges unknown"
        columns = {dataset_name(dataset): _columns(dataset, share, some) for dataset, some in by_dataset(group).items()}
        guide = [_PUBLISHED_GUIDE] if share in _PUBLISHED else []
        blocks += [Heading(title), *guide, stacked("Dataset", columns)]
    return blocks


def _columns(dataset: str, share: float, runs: Sequence[Run]) -> list[Column]:
    methods = by_method(runs)
    rows = list(methods.values())
    published = {name: row for name, row in _PUBLISHED.get(share, {}).items() if dataset in _GRAPHS}
    names = text_column("Method", [*map(method_name, methods), *(f"{name} (published)" for name in published)])
    measures = [
        _with_published(score_column(title, rows, field), field, dataset, published)
        for field, title in RANKING_MEASURES["benchmark-ranking"].items()
    ]
    costs = [_with_published(column, "", dataset, published) for column in cost_columns(rows)]
    return [names, *measures, *costs]


def _with_published(
    column: Column, field: str, dataset: str, published: Mapping[str, tuple[str, tuple[float, float, float]]]
) -> Column:
    """Return the column with the cells of the published rows, empty where they have no number."""
    cells = [
        Cell(f"{numbers[_GRAPHS.index(dataset)]:.1f}") if measure == field else Cell()
        for measure, numbers in published.values()
    ]
    return Column(column.name, (*column.cells, *cells), column.group, column.numeric)
