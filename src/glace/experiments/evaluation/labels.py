"""Labels as the tasks take them: the nodes that have one, and which."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glace.categories import Categories
from glace.errors import InputError


class Labelled(NamedTuple):
    """`nodes` (m,), the positions of those that have a label, ascending, and their `codes` (m,)."""

    nodes: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]


def labelled(labels: Categories | None, count: int) -> Labelled:
    """The nodes with a label among `count`; raises unless they are of two classes at least."""
    if labels is None:
        raise InputError("the graph has no labels; this task needs the class of some nodes")
    if len(labels) != count:
        raise InputError(f"{len(labels):,} labels for {count:,} nodes; give one for each, or none (-1)")
    nodes = np.flatnonzero(labels.codes >= 0)
    classes = len(np.unique(labels.codes[nodes]))
    if classes < 2:
        raise InputError(f"the labels name {classes} classes; at least 2 are needed to tell them apart")
    return Labelled(nodes, labels.codes[nodes])
