"""Certainty and novelty: how well a model knows each node, and how unlike the training nodes a new node is.

An encoder that knows nothing about a node puts it at the mean of all nodes. The further its mean is from there, in
units of the usual width of a Gaussian, and the more attributes and edges it has, the more certain its place is:

    certainty = |(mean - center) / width|^2 * (1 + attributes)^0.2 * (1 + edges)^0.3

as a rank: the share of training nodes that are less certain. docs/concepts.md has the measurements behind the formula,
and why certainty is not the variance.

Novelty adds two z-scores: how rare the attributes of a node are, and how close its mean is to the center of all nodes,
where attributes that do not go together lead. The reference are training nodes with half of their attributes dropped:
complete, they would fit the model better than any new node can.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import blocks, row_blocks
from glace.errors import FormatError
from glace.gaussian.dissimilarity import Gaussian
from glace.graph.graph import Graph, NodeAttributes
from glace.sparse import Matrix, nonzeros_per_row
from glace.storage.container import Arrays
from glace.values import in_storage

ATTRIBUTES, EDGES = 0.2, 0.3
"""Exponents of the evidence. With 0, every second node is more certain when half of its edges are removed; with 1, only
edges count, and nodes with many edges are the ones that are hard to tell from others."""
SAMPLE = 100_000
"""Nodes, evenly spaced, that the reference statistics are computed from."""
STEPS = 1000
ROWS = 1 << 16
SMALLEST = 1e-30

NOVELTY_SAMPLE = 1000
"""Training nodes that the reference of novelty is computed from."""
HIGH, UNSEEN = 0.99, 0.5
"""A node is unlike the training graph if its rank, or its share of unseen attributes, is above these."""

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
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


class Novelty(NamedTuple):
    """How unlike the training nodes each of n nodes is.

    Attributes
    ----------
    unseen : ndarray of float, shape (n,)
        Share of the node's attributes, or of the words of its text, that no training node has.
    rank : ndarray of float, shape (n,)
        Share of training nodes that are less unusual, 0 to 1.
    """

    unseen: Numbers
    rank: Numbers

    def is_high(self) -> npt.NDArray[np.bool_]:
        """(n,) whether results for the node should be treated with caution."""
        return np.asarray((self.rank > HIGH) | (self.unseen > UNSEEN))


def reference_rows(attributes: Matrix, counted: bool, generator: np.random.Generator) -> Matrix:
    """Attributes of at most `NOVELTY_SAMPLE` nodes; if they are `counted`, half of the entries are dropped."""
    rows = attributes[np.sort(generator.permutation(attributes.shape[0])[:NOVELTY_SAMPLE])]
    if not counted:
        return rows
    entries = sp.coo_array(rows)
    kept = generator.random(entries.nnz) < 0.5
    values = entries.data[kept], (entries.row[kept], entries.col[kept])
    dropped = sp.csr_array(values, shape=rows.shape, dtype=np.float32)
    return in_storage(dropped, sparse=not isinstance(rows, np.ndarray))


@dataclass(frozen=True, eq=False)
class NoveltyModel:
    """Statistics of the training nodes of one type.

    `column_counts` (D,) is the number of nodes, of `nodes`, that have each attribute, None for measurements.
    `center` and `deviation` (2,) standardize the two signs of novelty; `quantiles` (STEPS + 1,) are those of their sum.
    """

    nodes: int
    column_counts: Counts | None
    center: Numbers
    deviation: Numbers
    quantiles: Numbers

    @classmethod
    def fit(
        cls, attributes: Matrix, counted: bool, scaled: Matrix, gaussians: Gaussian, certainty: CertaintyModel
    ) -> "NoveltyModel":
        """Compute the statistics of a node type.

        Parameters
        ----------
        attributes
            Attributes (n, D) of all nodes of the type.
        counted
            Whether it matters which attributes a node has, as with words; otherwise they are measurements.
        scaled
            The sample of `reference_rows`; measurements are standardized as for the encoder.
        gaussians
            Gaussians of the sample.
        certainty
            Knows the center of all nodes.
        """
        column_counts = _column_counts(attributes) if counted else None
        signs = _signs(scaled, column_counts, attributes.shape[0], gaussians, certainty)
        center, deviation = signs.mean(axis=0), signs.std(axis=0)
        deviation[deviation == 0] = 1
        sums = ((signs - center) / deviation).sum(axis=1)
        quantiles = np.quantile(sums, np.linspace(0, 1, STEPS + 1))
        return cls(attributes.shape[0], column_counts, center, deviation, quantiles)

    def novelty(self, attributes: Matrix, scaled: Matrix, gaussians: Gaussian, certainty: CertaintyModel) -> Novelty:
        """Novelty of nodes with these attributes and Gaussians; without any attributes it is 1."""
        signs = _signs(scaled, self.column_counts, self.nodes, gaussians, certainty)
        ranks = share_below(((signs - self.center) / self.deviation).sum(axis=1), self.quantiles)
        ranks[nonzeros_per_row(attributes) == 0] = 1.0
        unseen = np.zeros(attributes.shape[0])
        if self.column_counts is not None:
            unseen = _row_means(attributes, (self.column_counts == 0).astype(np.float64))
        return Novelty(unseen, ranks)

    def to_arrays(self) -> Arrays:
        """The arrays for the model file."""
        arrays: Arrays = {"center": self.center, "deviation": self.deviation, "quantiles": self.quantiles}
        arrays["nodes"] = np.array(self.nodes, np.int64)
        return arrays if self.column_counts is None else {**arrays, "column_counts": self.column_counts}

    @classmethod
    def from_arrays(cls, arrays: Arrays, width: int, counted: bool) -> "NoveltyModel":
        """The model of these arrays, for `counted` attributes or measurements with `width` columns."""
        statistics = [arrays[name] for name in ("center", "deviation", "quantiles")]
        nodes, counts = int(arrays["nodes"]), arrays.get("column_counts")
        fits = [each.shape for each in statistics] == [(2,), (2,), (STEPS + 1,)] and (counts is not None) == counted
        fits = fits and all(each.dtype == np.float64 and np.isfinite(each).all() for each in statistics)
        if counts is not None:
            fits = fits and counts.shape == (width,) and counts.dtype == np.int64 and bool((counts >= 0).all())
        if not (fits and nodes > 0 and (statistics[1] > 0).all()):
            raise FormatError("the statistics behind the novelty do not fit the model")
        return cls(nodes, counts, *statistics)


def _signs(
    scaled: Matrix, column_counts: Counts | None, nodes: int, gaussians: Gaussian, certainty: CertaintyModel
) -> Numbers:
    """(n, 2) the signs of novelty: rare attributes, and a mean close to the center of all nodes."""
    return np.column_stack([_rarity(scaled, column_counts, nodes), -certainty.distance(gaussians)])


def _rarity(scaled: Matrix, column_counts: Counts | None, nodes: int) -> Numbers:
    """(n,) mean inverse document frequency of attributes that are counted; mean square of measurements."""
    if column_counts is None:
        return np.asarray(np.square(in_storage(scaled, sparse=False), dtype=np.float64).mean(axis=1))
    return _row_means(scaled, np.log((nodes + 1) / (column_counts + 1)))


def _column_counts(matrix: Matrix) -> Counts:
    """(D,) number of rows that have each column."""
    counts = np.zeros(matrix.shape[1], np.int64)
    if isinstance(matrix, np.ndarray):
        for part in row_blocks(matrix):
            counts += np.count_nonzero(part, axis=0)
        return counts
    for part in row_blocks(matrix.indices):
        counts += np.bincount(part, minlength=len(counts))
    return counts


def _row_means(matrix: Matrix, values: Numbers) -> Numbers:
    """(n,) mean of `values` (D,) over the entries of each row; 0 for an empty row."""
    rows = sp.csr_array(matrix)
    ones = sp.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    return np.asarray((ones @ values) / np.maximum(np.diff(rows.indptr), 1))
