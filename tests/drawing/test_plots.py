"""Plots: what is stored as a file shows what was drawn."""

import io
from unittest.mock import patch

import numpy as np
import pytest

from glace.drawing import plots
from glace.drawing.plots import Line, _png, draw_lines

pytest.importorskip("matplotlib")


def test_a_method_has_one_colour_in_all_panels():
    """Also in a panel that lacks another method without a colour of its own."""
    lines = {name: Line(name, name, ((0.0, 0.1), (1.0, 0.9))) for name in ("first unknown", "second unknown", "glace")}
    drawn: list[dict[str, str]] = []

    def colours(figure, axes, **_):
        drawn.extend({line.get_label(): line.get_color() for line in axis.get_lines()} for axis in axes)

    with patch.object(plots, "_legend", colours):
        draw_lines({"all": [*lines.values()], "one": [lines["second unknown"]]}, "x", "y")
    assert len(set(drawn[0].values())) == 3
    assert drawn[1]["second unknown"] == drawn[0]["second unknown"]


def test_a_rare_colour_survives_the_palette():
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(4, 3))
    axes, rng = figure.subplots(), np.random.default_rng(0)
    for colour, count in (("#ff7f0e", 1500), ("#2ca02c", 1500), ("#9467bd", 1500), ("#1f77b4", 1)):
        x, y = rng.random((2, count))
        axes.scatter(x, y, c=colour, s=4, linewidths=0)
    with Image.open(io.BytesIO(_png(figure))) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.int64).reshape(-1, 3)
    assert np.abs(pixels - [0x1F, 0x77, 0xB4]).sum(axis=1).min() < 60
