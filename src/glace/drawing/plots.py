"""Pictures as PNG: lines by method, clouds of points, and a map; the same values give the same bytes."""

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.storage.files import replacing

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour: TypeAlias = tuple[float, float, float, float]

# Distinct for colour-blind readers; GLACE is the strongest, the raw attributes are grey.
_COLOURS = {
    "attributes": "#7f7f7f", "deepwalk": "#a6761d", "node2vec": "#e6ab02", "line": "#1b9e77", "vgae": "#66c2a5",
    "graphsage": "#7570b3", "graph2gauss": "#1f78b4", "lace": "#e7298a", "glace-published": "#fb9a99",
    "glace": "#d7191c",
}  # fmt: skip
_OTHERS = ("#393b79", "#637939", "#8c6d31", "#843c39", "#7b4173")
# The first and the second order of a method have its colour.
_DASHES = {"-first": "--", "-second": ":"}
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
_DPI = 110
_COLOURS_STORED = 64
"""Colours of a PNG: a palette makes the file four times smaller, and the loss cannot be seen."""


@dataclass(frozen=True)
class Line:
    """A curve through points (x, y), y from 0 to 1; curves of one method look alike and appear once in the legend."""

    label: str
    method: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Cloud:
    """Points in the plane, each with a class."""

    title: str
    points: Sequence[Sequence[float]]
    classes: Sequence[int]


def draw_lines(panels: Mapping[str, Sequence[Line]], x: str, y: str, *, log_x: bool = False) -> bytes:
    """Return a picture with a panel for each title and one legend for all; `y` is drawn in percent."""
    # A method has the same colour in all panels, also in one that lacks others.
    families = {_family(line.method) for lines in panels.values() for line in lines}
    others = dict(zip(sorted(families - set(_COLOURS)), itertools.cycle(_OTHERS), strict=False))
    with _style():
        figure, axes = _grid(len(panels), most=3, height=3.1)
        for axis, (title, lines) in zip(axes, panels.items(), strict=False):
            _draw_panel(axis, lines, _COLOURS | others, log_x)
            axis.set(title=_literal(title), xlabel=x, ylabel=f"{y} (%)")
        _legend(figure, axes)
        return _png(figure)


def draw_clouds(clouds: Sequence[Cloud], names: Sequence[str]) -> bytes:
    """Return a picture with a panel for each cloud and one colour per class."""
    with _style():
        figure, axes = _grid(len(clouds), most=4, height=2.8)
        for axis, cloud in zip(axes, clouds, strict=False):
            _draw_cloud(axis, cloud, names, class_colours(len(names)))
        if len(names) <= 20:  # nobody can tell more colours apart
            _legend(figure, axes, markerscale=4)
        return _png(figure)


def write_map(
    positions: npt.NDArray[np.float64],
    codes: npt.NDArray[np.integer],
    names: Sequence[str],
    path: str | Path,
    title: str,
    marks: Sequence[tuple[int, str]] = (),
) -> None:
    """Write the picture of `draw_map` to a file."""
    png = draw_map(positions, codes, names, title, marks)
    with replacing(path) as temporary:
        temporary.write_bytes(png)


def draw_map(
    positions: npt.NDArray[np.floating],
    codes: npt.NDArray[np.integer],
    names: Sequence[str],
    title: str,
    marks: Sequence[tuple[int, str]] = (),
) -> bytes:
    """Return a picture of positions (n, 2), one colour per label; `marks` are nodes to circle and their captions."""
    figure = _figure_class()(figsize=(11, 8), dpi=130)
    axes = figure.add_subplot()
    for code, (name, colour) in enumerate(zip(names, class_colours(len(names)), strict=True)):
        rows = positions[codes == code]
        size = 5 if len(positions) < 20_000 else 1.5
        axes.scatter(rows[:, 0], rows[:, 1], s=size, linewidths=0, alpha=0.75, color=colour, label=_literal(name))
    for node, text in marks:
        axes.annotate(
            text, positions[node], fontsize=9, fontweight="bold", xytext=(4, 4), textcoords="offset points",
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.7},
        )  # fmt: skip
        axes.plot(*positions[node], "o", ms=5, mfc="none", mec="black")
    axes.set_title(title, loc="left")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=4, fontsize=9)
    axes.set_axis_off()
    return _png(figure, tight=True)


def class_colours(count: int) -> list[Colour]:
    """Return `count` colours, as different as possible."""
    from matplotlib import colormaps

    if count <= 20:
        return [colormaps["tab10" if count <= 10 else "tab20"](place) for place in range(count)]
    return [colormaps["nipy_spectral"](0.05 + 0.9 * place / (count - 1)) for place in range(count)]


def _draw_panel(axis: "Axes", lines: Sequence[Line], colours: Mapping[str, str], log_x: bool) -> None:
    from matplotlib.ticker import LogLocator

    for line in lines:
        family = _family(line.method)
        best = line.method == "glace"
        x, y = np.array(line.points, dtype=np.float64).reshape(-1, 2).T
        axis.plot(
            x, 100 * y, _DASHES.get(line.method.removeprefix(family), "-"),
            color=colours[family],
            label=_literal(line.label), marker="o" if len(x) <= 12 else None, markersize=3,
            linewidth=2.2 if best else 1.3, zorder=3 if best else 2,
        )  # fmt: skip
    if log_x:
        axis.set_xscale("log", subs=[])
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")


def _family(method: str) -> str:
    """Return the method without its order."""
    return method.removesuffix("-first").removesuffix("-second")


def _draw_cloud(axis: "Axes", cloud: Cloud, names: Sequence[str], colours: Sequence[Colour]) -> None:
    # All points in one call, in their own order: drawn class by class, the last class would cover the others.
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


def _grid(count: int, most: int, height: float) -> "tuple[Figure, list[Axes]]":
    """Return a figure with `count` panels, at most `most` in a row; the rest of the last row stays empty."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(count, most)
    rows = math.ceil(count / columns)
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    figure = _figure_class()(figsize=(11 / most * max(columns, 2), height * rows), dpi=_DPI, layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]


def _legend(figure: "Figure", axes: "Sequence[Axes]", markerscale: float = 1.0) -> None:
    entries = [zip(*axis.get_legend_handles_labels(), strict=True) for axis in axes]
    named = {label: handle for some in entries for handle, label in some}
    widest = 0.6 + 0.075 * max((len(label) for label in named), default=0)  # inches per entry at this font size
    columns = max(1, min(len(named), int(figure.get_figwidth() / widest)))
    figure.set_figheight(figure.get_figheight() + 0.2 * math.ceil(len(named) / columns))
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=columns, fontsize=8.5, markerscale=markerscale
    )


def _style() -> "AbstractContextManager[None]":
    _figure_class()
    from matplotlib import style

    # Ignore the user's own settings: the same records must give the same picture everywhere.
    return style.context(["default", _STYLE])


def _figure_class() -> "type[Figure]":
    # Not pyplot, which would share state with the caller's plots and may open windows.
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise InputError(f"pictures need matplotlib: pip install 'glace-graph[plots]' ({problem})") from problem
    return Figure


def _literal(text: str) -> str:
    """Escape text for matplotlib: a dollar sign starts a formula, a leading underscore hides a legend entry."""
    escaped = text.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def _png(figure: "Figure", *, tight: bool = False) -> bytes:
    from PIL import Image

    with io.BytesIO() as drawn, io.BytesIO() as stored:
        figure.savefig(drawn, format="png", facecolor="white", bbox_inches="tight" if tight else None)
        with Image.open(drawn) as image:
            # Median cut, the default, gives the colour of a rare class away to more frequent ones.
            method = Image.Quantize.MAXCOVERAGE
            palette = image.convert("RGB").quantize(_COLOURS_STORED, method, dither=Image.Dither.NONE)
        palette.save(stored, format="png", optimize=True)
        return stored.getvalue()
