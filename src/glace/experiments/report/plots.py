"""Pictures as PNG: lines by method and clouds of points, the same bytes for the same values."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glace.errors import InputError
from glace.experiments.report.names import FAMILIES, family_of

# Colours that stay apart for colour-blind readers; GLACE is the strongest, the raw attributes grey.
_COLOURS = dict(
    zip(
        FAMILIES,
        ("#7f7f7f", "#a6761d", "#e6ab02", "#1b9e77", "#66c2a5", "#7570b3", "#1f78b4", "#e7298a", "#fb9a99", "#d7191c"),
        strict=True,
    )
)  # fmt: skip
_OTHERS = ("#393b79", "#637939", "#8c6d31", "#843c39", "#7b4173")
_DASHES = {"first": "--", "second": ":", "": "-"}
_STYLE = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.0,
}
_DOTS = 110  # an inch: 1,200 pixels for a full width of 11 inches


@dataclass(frozen=True)
class Line:
    """A curve; curves of one method look alike and are named once in the legend."""

    label: str
    method: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Cloud:
    """Points in the plane, each of a class."""

    title: str
    points: Sequence[Sequence[float]]
    classes: Sequence[int]


def draw_lines(panels: Mapping[str, Sequence[Line]], x: str, y: str, *, log_x: bool = False) -> bytes:
    """A panel for each title, side by side, with one legend for all."""
    with _style():
        figure, axes = _grid(len(panels), most=3, height=3.1)
        for axis, (title, lines) in zip(axes, panels.items(), strict=False):
            _draw_panel(axis, lines, log_x)
            axis.set(title=_literal(title), xlabel=x, ylabel=y)
        _legend(figure, axes)
        return _png(figure)


def draw_clouds(clouds: Sequence[Cloud], names: Sequence[str]) -> bytes:
    """A panel for each cloud, one colour a class."""
    with _style():
        figure, axes = _grid(len(clouds), most=4, height=2.8)
        colours = class_colours(len(names))
        for axis, cloud in zip(axes, clouds, strict=False):
            _draw_cloud(axis, cloud, names, colours)
        if len(names) <= 20:  # more colours nobody tells apart
            _legend(figure, axes, markerscale=4)
        return _png(figure)


def class_colours(count: int) -> list[Any]:
    """So many colours, as different as they can be."""
    from matplotlib import colormaps

    for name, most in (("tab10", 10), ("tab20", 20)):
        if count <= most:
            return [colormaps[name](place) for place in range(count)]
    return [colormaps["nipy_spectral"](0.05 + 0.9 * place / (count - 1)) for place in range(count)]


def _draw_panel(axis: Any, lines: Sequence[Line], log_x: bool) -> None:
    from matplotlib.ticker import LogLocator

    strangers = sorted({family_of(line.method)[0] for line in lines} - set(_COLOURS))
    for line in lines:
        family, order = family_of(line.method)
        colour = _COLOURS.get(family) or _OTHERS[strangers.index(family) % len(_OTHERS)]
        best = line.method == "glace"
        mark = "o" if len(line.x) <= 12 else None
        axis.plot(
            line.x, line.y, _DASHES[order], color=colour, label=_literal(line.label), marker=mark, markersize=3,
            linewidth=2.2 if best else 1.3, zorder=3 if best else 2,
        )  # fmt: skip
    if log_x:
        axis.set_xscale("log", subs=[])
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")


def _draw_cloud(axis: Any, cloud: Cloud, names: Sequence[str], colours: Sequence[Any]) -> None:
    # One call for all points, in their own order: class by class the last class would cover the others.
    x, y = zip(*cloud.points, strict=True)
    size = min(max(6000 / len(x), 2.5), 14.0)
    axis.scatter(x, y, s=size, linewidths=0, alpha=0.8, c=[colours[code] for code in cloud.classes])
    for name, colour in zip(names, colours, strict=True):
        axis.scatter([], [], s=4, linewidths=0, color=colour, label=_literal(name))
    axis.set_title(_literal(cloud.title))
    axis.spines[:].set(visible=True, color="#dddddd")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", adjustable="datalim")


def _grid(count: int, most: int, height: float) -> tuple[Any, list[Any]]:
    """A figure with so many panels, at most `most` in a row; the rest of the last row stays empty."""
    figure_of = _figure_class()
    columns = min(count, most)
    rows = math.ceil(count / columns)
    figure = figure_of(figsize=(11 / most * max(columns, 2), height * rows), dpi=_DOTS, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]


def _legend(figure: Any, axes: Sequence[Any], **options: Any) -> None:
    named: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        named |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in named}
    widest = 0.6 + 0.075 * max((len(label) for label in named), default=0)  # inches, of letters of this size
    columns = max(1, min(len(named), int(figure.get_figwidth() / widest)))
    figure.set_figheight(figure.get_figheight() + 0.2 * math.ceil(len(named) / columns))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, fontsize=8.5, **options)


def _style() -> Any:
    _figure_class()
    from matplotlib import style

    # From the defaults, not from the reader's own settings: the same records give the same picture everywhere.
    return style.context(["default", _STYLE])


def _figure_class() -> Any:
    # A figure of its own, not pyplot: no window, no state shared with the caller's plots.
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise InputError(f"a report needs matplotlib: pip install 'glace-graph[plots]' ({problem})") from problem
    return Figure


def _literal(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar would begin a formula, a low line at the front hides it."""
    escaped = text.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def _png(figure: Any) -> bytes:
    with io.BytesIO() as buffer:
        figure.savefig(buffer, format="png", facecolor="white", metadata={"Software": None})
        return buffer.getvalue()
