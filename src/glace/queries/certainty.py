"""How certain an embedding is of each node: its rank among the training nodes.

A node the encoder knows nothing of stands where all stand on average. The further its mean is from there, measured in
widths of common Gaussians, and the more attributes and edges it has, the more certain its place:

    certainty = |(mean - center) / width|^2 * (1 + attributes)^0.2 * (1 + edges)^0.3

as a rank, the share of training nodes that are less certain. docs/concepts.md has what it was measured by, and why it
is not the variance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.blocks import blocks
from glace.errors import FormatError
from glace.gaussian.dissimilarity import Gaussian
from glace.storage.container import Arrays

ATTRIBUTES, EDGES = 0.2, 0.3
"""Powers of the evidence. With none, one node in two is more certain when half of its edges are removed; with 1, having
edges is all that counts, and the nodes with many are those that are hard to tell from others."""
SAMPLE = 100_000
"""Nodes looked at, evenly apart, to know what all are like."""
STEPS = 1000
ROWS = 1 << 16
LEAST = 1e-30

Numbers = npt.NDArray[np.float64]
EvidenceCounts = Callable[[slice], Numbers]
"""How much is known of some nodes, (rows,), as `evidence` tells; asked for in blocks, as the nodes may be many."""
Allocator = Callable[[tuple[int, ...], Any], Any]
"""What gives an array of a shape and a type to write to."""


def evidence(attributes: npt.NDArray[np.integer], edges: npt.NDArray[np.integer] | int) -> Numbers:
    """(n,) how much is known of nodes that have so many attributes and edges, on the scale of a logarithm."""
    return np.asarray(ATTRIBUTES * np.log1p(attributes) + EDGES * np.log1p(edges))


def ascending(quantiles: Numbers) -> tuple[Numbers, Numbers]:
    """Distinct quantiles, and the share of what lies below each: equals have none below them but the others'."""
    places, first = np.unique(quantiles, return_index=True)
    return places, np.linspace(0, 1, len(quantiles))[first]


@dataclass(frozen=True, eq=False)
class CertaintyModel:
    """What the training nodes are like: the mean (L,) of their means and variances, and of their certainty the
    quantiles (STEPS + 1,), ascending."""

    center: Numbers
    width: Numbers
    quantiles: Numbers

    @classmethod
    def of(cls, nodes: Gaussian, known: EvidenceCounts) -> "CertaintyModel":
        """From all training nodes."""
        some = slice(None, None, -(-len(nodes.mean) // SAMPLE))
        mean = np.asarray(nodes.mean[some], dtype=np.float64)
        width = np.ones(mean.shape[1])
        if nodes.variance is not None:
            width = np.asarray(nodes.variance[some], dtype=np.float64).mean(axis=0)
        start = cls(mean.mean(axis=0), width, np.zeros(STEPS + 1))
        found = start.standing(nodes[some]) + known(some)
        return cls(start.center, width, np.quantile(found, np.linspace(0, 1, STEPS + 1)))

    @classmethod
    def from_arrays(cls, arrays: Arrays, width: int) -> "CertaintyModel":
        """From arrays by the names of the fields, for means of this width."""
        parts = [arrays[name] for name in ("center", "width", "quantiles")]
        if [part.shape for part in parts] != [(width,), (width,), (STEPS + 1,)]:
            raise FormatError("what the training nodes are like does not fit the embedding")
        if not all(np.isfinite(part).all() for part in parts) or not (parts[1] > 0).all():
            raise FormatError("what the training nodes are like must be finite, and widths above 0")
        return cls(*parts)

    def standing(self, nodes: Gaussian) -> Numbers:
        """(n,) logarithm of the squared distance of the means from the center, in widths."""
        gap = np.asarray(nodes.mean, dtype=np.float64) - self.center
        return np.asarray(np.log((gap * gap / self.width).sum(axis=1) + LEAST))

    def certainty(self, nodes: Gaussian, known: EvidenceCounts, room: Allocator = np.empty) -> npt.NDArray[np.float32]:
        """(n,) ranks from 0 to 1, in an array that `room` gives."""
        ranks: npt.NDArray[np.float32] = room((len(nodes.mean),), np.float32)
        places, shares = ascending(self.quantiles)
        for rows in blocks(len(ranks), ROWS):
            found = self.standing(nodes[rows]) + known(rows)
            ranks[rows] = np.interp(found, places, shares)
        return ranks
