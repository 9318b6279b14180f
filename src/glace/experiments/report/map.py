"""The map: means in two dimensions, coloured by label."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.storage.files import replacing


def draw_map(
    positions: npt.NDArray[np.float64],
    codes: npt.NDArray[np.integer],
    names: Sequence[str],
    path: str | Path,
    title: str,
    marks: Sequence[tuple[int, str]] = (),
) -> None:
    """A PNG of the positions, one colour a label, with the named nodes of `marks` written beside their dots."""
    figure, axes = _figure()
    colours = _colours(len(names))
    for code, name in enumerate(names):
        rows = positions[codes == code]
        axes.scatter(rows[:, 0], rows[:, 1], s=5, linewidths=0, alpha=0.75, color=colours[code], label=name)
    for node, text in marks:
        axes.annotate(
            text, positions[node], fontsize=9, fontweight="bold", xytext=(4, 4), textcoords="offset points",
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.7},
        )  # fmt: skip
        axes.plot(*positions[node], "o", ms=5, mfc="none", mec="black")
    axes.set_title(title, loc="left")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=4, fontsize=9)
    axes.set_axis_off()
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", bbox_inches="tight", metadata={"Software": None})


def _figure() -> tuple[Any, Any]:
    # A figure of its own, not pyplot: no window, no state shared with the caller's plots.
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise InputError(f"a map needs matplotlib: pip install 'glace-graph[plots]' ({problem})") from problem
    figure = Figure(figsize=(11, 8), dpi=130)
    return figure, figure.add_subplot()


def _colours(count: int) -> Any:
    from matplotlib import colormaps

    for name, most in (("tab10", 10), ("tab20", 20)):
        if count <= most:
            return colormaps[name](np.arange(count))
    return colormaps["nipy_spectral"](np.linspace(0.05, 0.95, count))
