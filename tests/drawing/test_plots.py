"""Plots: what is stored as a file shows what was drawn."""

import io

import numpy as np
import pytest

from glace.drawing.plots import _png

pytest.importorskip("matplotlib")


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
