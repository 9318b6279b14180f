"""What the variances are worth: whether they mark errors, what they go with, which dimensions they call idle."""

from collections.abc import Mapping, Sequence
from typing import Any

from glace.experiments.report.cells import methods_column
from glace.experiments.report.checks import is_number
from glace.experiments.report.document import Heading, Part, Picture, Section, Text
from glace.experiments.report.names import dataset_name, method_name
from glace.experiments.report.plots import Line, draw_lines
from glace.experiments.report.results import Results, Run, score
from glace.experiments.report.sections.common import by_dataset, by_method, without_unable
from glace.experiments.report.tables import DASH, MINUS, Cell, Column, stacked

_GUIDE = (
    "A Gaussian's variance should say where its mean can be trusted. Whether it does is measured here, not assumed. "
    "The spread of a node is the mean logarithm of its variances, that of a pair the mean of its two nodes'. "
    "Curves are means over seeds."
)
_BY_SPREAD = (
    "Held-out pairs in ten parts of equal size, from the narrowest to the widest, each judged by itself: if the "
    "variance marks errors, the curve falls."
)
_LEFT_OUT = (
    "AUC of the pairs that are left when the widest are left out: if the variance marks errors, the curve rises; pairs "
    "left out at random would leave it flat."
)
_CERTAIN = (
    "AUC of the pairs that are left when those whose nodes are the least certain are left out. Certainty is not the "
    "variance but a rank made of how far a mean stands from the center and of how much is known of the node; see "
    "docs/concepts.md."
)
_ANSWERS = "The same by the certainty of the answer: how far the calibrated probability of the edge is from one half."
_HALVES = (
    "100 - AUC of the more and the less certain half of the pairs, by the certainty of their nodes and of the answers: "
    "if certainty marks errors, the first is much smaller than the second."
)
_CORRELATION = (
    f"Spearman's rank correlation of a node's spread, from {MINUS}1 to 1, with its degree, its number of attributes, "
    "and the number and entropy of the classes around it; near 0, the spread tells nothing of it."
)
_DROPPED = (
    "AUC after a share of the dimensions is dropped, those of the widest variance first, the narrowest first, or at "
    "random: if the variance says which dimensions hold little, the first curve stays high the longest."
)
_DROPPABLE = "Percent of the dimensions that can be dropped in each order before AUC falls by half a point."
_ORDERS = ("widest_first", "narrowest_first", "at_random")

Points = list[tuple[float, float]]


def uncertainty(results: Results) -> Section | None:
    """Curves and tables of each measure that the runs have."""
    tried = results.of("uncertainty")
    if not tried:
        return None
    runs, said = without_unable(tried)
    done = [run for run in runs if run.done]
    parts: list[Part] = [Text(_GUIDE), *said]
    parts += _by_method("Narrow and wide pairs", _BY_SPREAD, done, "variance_term", "tenth", "tenth of the pairs")
    parts += _by_method(
        "Without the widest pairs", _LEFT_OUT, done, "without_most_uncertain", "left_out", "left out (share)"
    )
    parts += _by_method(
        "Without the least certain nodes",
        _CERTAIN,
        done,
        "without_least_certain",
        "left_out",
        "left out (share)",
    )
    parts += _by_method(
        "Without the least certain answers",
        _ANSWERS,
        done,
        "without_least_certain_answers",
        "left_out",
        "left out (share)",
    )
    parts += _table("More and less certain halves", _HALVES, runs, "error_of_halves", 100, 2)
    parts += _table("What the spread goes with", _CORRELATION, runs, "spread_correlation", 1, 3)
    parts += _dropped_dimensions(done)
    parts += _table("Dimensions to spare", _DROPPABLE, runs, "droppable_share", 100, 1)
    return Section("Uncertainty", tuple(parts))


def mean_curve(runs: Sequence[Run], field: str, x: str, y: str) -> Points:
    """The means of y at each x over the runs that have the two columns; seeds may miss a place."""
    found: dict[float, list[float]] = {}
    for run in runs:
        columns = run.values.get(field) or {}
        for place, value in zip(columns.get(x, []), columns.get(y, []), strict=y in columns):
            found.setdefault(place, []).append(value)
    return [(place, sum(values) / len(values)) for place, values in sorted(found.items())]


def _by_method(title: str, guide: str, runs: Sequence[Run], field: str, x: str, x_label: str) -> list[Part]:
    """A panel a dataset, a line a method."""
    panels = {}
    for dataset, group in by_dataset(runs):
        lines = [_line(name, method_name(name), mean_curve(some, field, x, "auc")) for name, some in by_method(group)]
        panels[dataset_name(dataset)] = [line for line in lines if line.x]
    pictures = _picture(field, title, panels, x_label)
    return [Heading(title), Text(guide), *pictures] if pictures else []


def _dropped_dimensions(runs: Sequence[Run]) -> list[Part]:
    """A picture a dataset, a panel a method, a line an order of dropping."""
    field, parts = "auc_without_dimensions", []
    for dataset, group in by_dataset(runs):
        panels = {}
        for method, some in by_method(group):
            lines = [_line(order, _in_words(order), mean_curve(some, field, "dropped", order)) for order in _ORDERS]
            panels[method_name(method)] = [line for line in lines if line.x]
        parts += _picture(
            f"{field}-{dataset}", f"{dataset_name(dataset)}, dimensions dropped", panels, "dropped (share)"
        )
    return [Heading("Dropped dimensions"), Text(_DROPPED), *parts] if parts else []


def _line(method: str, label: str, curve: Points) -> Line:
    return Line(label, method, [x for x, _ in curve], [100 * y for _, y in curve])


def _picture(name: str, caption: str, panels: Mapping[str, list[Line]], x: str) -> list[Part]:
    drawn = {title: lines for title, lines in panels.items() if lines}
    if not drawn:
        return []
    return [Picture(f"uncertainty-{name}", draw_lines(drawn, x, "AUC (%)"), f"{caption}: AUC in percent.")]


def _table(title: str, guide: str, runs: Sequence[Run], field: str, factor: float, digits: int) -> list[Part]:
    """The single numbers of a field, a row a dataset and method."""
    names = list(dict.fromkeys(name for run in runs if run.done for name in run.values.get(field) or {}))
    if not names:
        return []
    parts = {}
    for dataset, group in by_dataset(runs):
        methods = by_method(group)
        columns = [methods_column(method for method, _ in methods)]
        for name in names:
            cells = tuple(_cell([_at(run, field, name) for run in some], factor, digits) for _, some in methods)
            columns.append(Column(_in_words(name), cells))
        parts[dataset_name(dataset)] = columns
    return [Heading(title), Text(guide), stacked("Dataset", parts)]


def _at(run: Run, field: str, name: str) -> Any:
    return (run.values.get(field) or {}).get(name) if run.done else None


def _cell(values: Sequence[Any], factor: float, digits: int) -> Cell:
    found = score([factor * value for value in values if is_number(value)])
    if found is None:
        return Cell(DASH)
    spread = "" if found.deviation is None else f" ± {found.deviation:.{digits}f}"
    return Cell(f"{found.mean:.{digits}f}{spread}".replace("-", MINUS))


def _in_words(name: str) -> str:
    return name.replace("_", " ")
