"""Whether variance and certainty mark errors, what the variance correlates with, which dimensions it calls idle."""

from collections.abc import Mapping, Sequence

from glace.experiments.report.cells import methods_column, number
from glace.experiments.report.document import DASH, MINUS, Block, Cell, Column, Heading, Picture, Section, stacked
from glace.experiments.report.names import dataset_name, method_name
from glace.experiments.report.plots import Line, draw_lines
from glace.experiments.report.results import Results, by_dataset, by_method, score
from glace.experiments.report.schema import Run, is_number
from glace.experiments.report.sections.link_prediction import without_unsupported

_GUIDE = (
    "A Gaussian's variance should say where its mean can be trusted. Whether it does is measured here, not assumed. "
    "The spread of a node is the mean logarithm of its variances; the spread of a pair is the mean of its two nodes. "
    "Curves are means over seeds."
)
# Field of the record, its x, the label of x, title and guide of the picture.
_CURVES = (
    (
        "by_spread",
        "tenth",
        "tenth of the pairs",
        "Narrow and wide pairs",
        "AUC within each tenth of the held-out pairs, from the smallest spread to the largest: if the variance marks "
        "errors, the curve falls.",
    ),
    (
        "without_most_uncertain",
        "left_out",
        "left out (share)",
        "Without the widest pairs",
        "AUC of the remaining pairs when those of the largest spread are left out: if the variance marks errors, the "
        "curve rises; leaving out random pairs would leave it flat.",
    ),
    (
        "without_least_certain",
        "left_out",
        "left out (share)",
        "Without the least certain nodes",
        "AUC of the remaining pairs when those with the least certain nodes are left out. Certainty is not the "
        "variance but a rank by the distance of the mean from the center and by the number of attributes and edges; "
        "see docs/concepts.md.",
    ),
    (
        "without_least_certain_answers",
        "left_out",
        "left out (share)",
        "Without the least certain answers",
        "The same by the certainty of the answer: the distance of the calibrated probability of the edge from 1/2.",
    ),
)
_HALVES = (
    "100 - AUC of the more and the less certain half of the pairs, by the certainty of their nodes and of the answers: "
    "if certainty marks errors, the first is much smaller than the second."
)
_CORRELATION = (
    f"Spearman's rank correlation, from {MINUS}1 to 1, of a node's spread with its degree, its number of attributes, "
    "and the number and entropy of the classes around it."
)
_DROPPED = (
    "AUC after a share of the dimensions is dropped, those of the largest variance first, of the smallest first, or at "
    "random: if the variance says which dimensions hold little, the first curve stays high the longest."
)
_DROPPABLE = "Percent of the dimensions that can be dropped in each order before AUC falls by half a point."
_ORDERS = ("widest_first", "narrowest_first", "at_random")

Points = list[tuple[float, float]]


def uncertainty(results: Results) -> Section | None:
    """Return curves and tables of each measure that the runs have."""
    if not results.of("uncertainty"):
        return None
    runs, excluded = without_unsupported(results.of("uncertainty"))
    done = [run for run in runs if run.done]
    blocks: list[Block] = [_GUIDE, *excluded]
    for field, x, x_label, title, guide in _CURVES:
        pictures = _method_curves(done, field, x, x_label, title)
        blocks += [Heading(title), guide, *pictures] if pictures else []
    blocks += _table("More and less certain halves", _HALVES, runs, "error_of_halves", 100, 2)
    blocks += _table("Correlations of the spread", _CORRELATION, runs, "spread_correlation", 1, 3)
    dropped = [block for dataset, group in by_dataset(done) for block in _dropped_dimensions(dataset, group)]
    blocks += [Heading("Dropped dimensions"), _DROPPED, *dropped] if dropped else []
    blocks += _table("Dispensable dimensions", _DROPPABLE, runs, "droppable_share", 100, 1)
    return Section("Uncertainty", tuple(blocks))


def mean_curve(runs: Sequence[Run], field: str, x: str, y: str) -> Points:
    """Return the mean of y at each x over the runs that have the two columns; runs may lack some x."""
    found: dict[float, list[float]] = {}
    for run in runs:
        columns = run.get(field) or {}
        for place, value in zip(columns.get(x, []), columns.get(y, []), strict=y in columns):
            found.setdefault(place, []).append(value)
    return [(place, sum(values) / len(values)) for place, values in sorted(found.items())]


def _method_curves(runs: Sequence[Run], field: str, x: str, x_label: str, title: str) -> list[Block]:
    """Return a picture with one panel per dataset and one line per method."""
    panels = {
        dataset_name(dataset): [
            _line(method, method_name(method), mean_curve(some, field, x, "auc")) for method, some in by_method(group)
        ]
        for dataset, group in by_dataset(runs)
    }
    return _picture(field, title, panels, x_label)


def _dropped_dimensions(dataset: str, runs: Sequence[Run]) -> list[Block]:
    """Return a picture with one panel per method and one line per order of dropping."""
    field = "auc_without_dimensions"
    panels = {
        method_name(method): [
            _line(order, _spelled(order), mean_curve(some, field, "dropped", order)) for order in _ORDERS
        ]
        for method, some in by_method(runs)
    }
    return _picture(f"{field}-{dataset}", f"{dataset_name(dataset)}, dimensions dropped", panels, "dropped (share)")


def _line(method: str, label: str, curve: Points) -> Line:
    return Line(label, method, [x for x, _ in curve], [100 * y for _, y in curve])


def _picture(name: str, caption: str, panels: Mapping[str, list[Line]], x: str) -> list[Block]:
    lines = {title: [line for line in some if line.x] for title, some in panels.items()}
    drawn = {title: some for title, some in lines.items() if some}
    if not drawn:
        return []
    return [Picture(f"uncertainty-{name}", draw_lines(drawn, x, "AUC (%)"), f"{caption}: AUC in percent.")]


def _table(title: str, guide: str, runs: Sequence[Run], field: str, factor: float, digits: int) -> list[Block]:
    """Return the single numbers of a field, one row per dataset and method."""
    names = list(dict.fromkeys(name for run in runs if run.done for name in run.get(field) or {}))
    if not names:
        return []
    columns = {}
    for dataset, group in by_dataset(runs):
        methods = dict(by_method(group))
        cells = {name: tuple(_cell(some, field, name, factor, digits) for some in methods.values()) for name in names}
        numbers = [Column(_spelled(name), column) for name, column in cells.items()]
        columns[dataset_name(dataset)] = [methods_column(methods), *numbers]
    return [Heading(title), guide, stacked("Dataset", columns)]


def _cell(runs: Sequence[Run], field: str, name: str, factor: float, digits: int) -> Cell:
    values = [(run.get(field) or {}).get(name) for run in runs if run.done]
    found = score([value for value in values if is_number(value)])
    return Cell(DASH if found is None else number(found, digits, factor))


def _spelled(name: str) -> str:
    return name.replace("_", " ")
