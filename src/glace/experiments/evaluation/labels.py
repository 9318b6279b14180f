"""The labelled nodes of a graph, for the tasks that need classes."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glace.categories import Categories
from glace.errors import InputError


class Labelled(NamedTuple):
    """Positions of the labelled `nodes` (m,), ascending, and their class `codes` (m,)."""

    nodes: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]


def labelled(labels: Categories | None, count: int) -> Labelled:
    """Return the labelled nodes of a graph with `count` nodes; raises unless there are at least two classes."""
    if labels is None:
        raise InputError("the graph has no labels; this task needs the class of some nodes")
    if len(labels) != count:
        raise InputError(f"{len(labels):,} labels for {count:,} nodes; give one for each, or none (-1)")
    nodes = np.flatnonzero(labels.codes >= 0)
    classes = len(np.unique(labels.codes[nodes]))
    if classes < 2:
        raise InputError(f"the labels name {classes} classes; at least 2 are needed to tell them apart")
    return Labelled(nodes, labels.codes[nodes])
