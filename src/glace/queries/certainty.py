"""Certainty: how well a model knows each node, as a rank among the training nodes.

An encoder that knows nothing of a node puts it at the mean of all nodes. The further its mean is from there, in units
of the usual width of a Gaussian, and the more attributes and edges it has, the more certain its place is:

    certainty = |(mean - center) / width|^2 * (1 + attributes)^0.2 * (1 + edges)^0.3

as a rank: the share of training nodes that are less certain. docs/concepts.md has the measurements behind the formula,
and why certainty is not the variance.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import blocks
from glace.errors import FormatError
from glace.gaussian.dissimilarity import Gaussian
from glace.graph.graph import Graph
from glace.graph.node_types import NodeAttributes
from glace.sparse import nonzeros_per_row
from glace.storage.container import Arrays

ATTRIBUTES, EDGES = 0.2, 0.3
"""Exponents of the evidence. With 0, every second node is more certain when half of its edges are removed; with 1, only
edges count, and nodes with many edges are the ones that are hard to tell from others."""
SAMPLE = 100_000
"""Nodes, evenly spaced, that the reference statistics are computed from."""
STEPS = 1000
ROWS = 1 << 16
SMALLEST = 1e-30

Numbers = npt.NDArray[np.float64]
Matrix = sp.csr_array | npt.NDArray[np.float32]
EvidenceCounts = Callable[[slice], Numbers]
"""Gives the `evidence` (rows,) of a slice of nodes; a function, because there may be more nodes than memory holds."""
Allocator = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[np.float32]]
"""Allocates an array of the given shape and dtype: `np.empty`, or one on disk."""


def evidence(attributes: npt.NDArray[np.integer], edges: npt.NDArray[np.integer] | int) -> Numbers:
    """(n,) logarithm of the evidence for nodes with these numbers of attributes and edges."""
    return np.asarray(ATTRIBUTES * np.log1p(attributes) + EDGES * np.log1p(edges))


def graph_evidence(graph: Graph) -> EvidenceCounts:
    """Evidence for the nodes of a graph, from their attributes (or identity, without attributes) and edges."""
    neighbors, attributes = graph.neighborhoods(), graph.by_type()
    return lambda rows: evidence(attributes.nonzeros(rows), nonzeros_per_row(neighbors, rows))


def attribute_evidence(attributes: NodeAttributes) -> EvidenceCounts:
    """Evidence for new nodes, which have attributes but no edges."""
    return lambda rows: evidence(attributes.nonzeros(rows), 0)


def share_below(values: Numbers, quantiles: Numbers) -> Numbers:
    """The share of a population below each value, given the population's quantiles; ties count as not below."""
    distinct, first = np.unique(quantiles, return_index=True)
    return np.interp(values, distinct, np.linspace(0, 1, len(quantiles))[first])


@dataclass(frozen=True, eq=False)
class CertaintyModel:
    """Statistics of the training nodes: mean of their means (L,), mean of their variances (L,), and quantiles
    (STEPS + 1,) of the logarithm of their certainty."""

    center: Numbers
    width: Numbers
    quantiles: Numbers

    @classmethod
    def fit(cls, nodes: Gaussian, evidence: EvidenceCounts) -> "CertaintyModel":
        """Compute the statistics from the training nodes."""
        sample = slice(None, None, -(-len(nodes.mean) // SAMPLE))
        mean = np.asarray(nodes.mean[sample], dtype=np.float64)
        width = np.ones(mean.shape[1])
        if nodes.variance is not None:
            width = np.asarray(nodes.variance[sample], dtype=np.float64).mean(axis=0)
        start = cls(mean.mean(axis=0), width, np.zeros(STEPS + 1))
        certainty = start.distance(nodes[sample]) + evidence(sample)
        return cls(start.center, width, np.quantile(certainty, np.linspace(0, 1, STEPS + 1)))

    @classmethod
    def from_arrays(cls, arrays: Arrays, width: int) -> "CertaintyModel":
        """The model of arrays named like the fields, for means with `width` dimensions."""
        values = [arrays[name] for name in ("center", "width", "quantiles")]
        if [value.shape for value in values] != [(width,), (width,), (STEPS + 1,)]:
            raise FormatError("the statistics behind the certainty do not fit the embedding")
        if not all(np.isfinite(value).all() for value in values) or not (values[1] > 0).all():
            raise FormatError("the statistics behind the certainty must be finite, with widths above 0")
        return cls(*values)

    def distance(self, nodes: Gaussian) -> Numbers:
        """(n,) logarithm of the squared distance of the means from the center, in units of the width."""
        gap = np.asarray(nodes.mean, dtype=np.float64) - self.center
        return np.asarray(np.log((gap * gap / self.width).sum(axis=1) + SMALLEST))

    def certainty(
        self, nodes: Gaussian, evidence: EvidenceCounts, allocate: Allocator = np.empty
    ) -> npt.NDArray[np.float32]:
        """(n,) certainties from 0 to 1, in an array from `allocate`."""
        ranks = allocate((len(nodes.mean),), np.float32)
        for rows in blocks(len(ranks), ROWS):
            ranks[rows] = share_below(self.distance(nodes[rows]) + evidence(rows), self.quantiles)
        return ranks
