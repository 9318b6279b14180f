"""Novelty: how unlike the training nodes a new node is.

Novelty adds two z-scores: how rare the attributes of a node are, and how close its mean is to the center of all nodes,
where attributes that do not go together lead. The reference are training nodes with half of their attributes dropped:
complete, they would fit the model better than any new node can.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import row_blocks
from glace.errors import FormatError
from glace.gaussian.dissimilarity import Gaussian
from glace.queries.certainty import STEPS, Center, share_below
from glace.sparse import Matrix, nonzeros_per_row
from glace.storage.container import Arrays
from glace.values import in_storage

SAMPLE = 1000
"""Training nodes that the reference is computed from."""
HIGH, UNSEEN = 0.99, 0.5
"""A node is unlike the training graph if its rank, or its share of unseen attributes, is above these."""

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


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
    """Attributes of at most `SAMPLE` nodes; if they are `counted`, half of the entries are dropped."""
    rows = attributes[np.sort(generator.permutation(attributes.shape[0])[:SAMPLE])]
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
        cls, attributes: Matrix, counted: bool, scaled: Matrix, gaussians: Gaussian, middle: Center
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
        middle
            The center of all nodes.
        """
        column_counts = _column_counts(attributes) if counted else None
        signs = _signs(scaled, column_counts, attributes.shape[0], gaussians, middle)
        center, deviation = signs.mean(axis=0), signs.std(axis=0)
        deviation[deviation == 0] = 1
        sums = ((signs - center) / deviation).sum(axis=1)
        quantiles = np.quantile(sums, np.linspace(0, 1, STEPS + 1))
        return cls(attributes.shape[0], column_counts, center, deviation, quantiles)

    def novelty(self, attributes: Matrix, scaled: Matrix, gaussians: Gaussian, middle: Center) -> Novelty:
        """Novelty of nodes with these attributes and Gaussians; without any attributes it is 1."""
        signs = _signs(scaled, self.column_counts, self.nodes, gaussians, middle)
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


def _signs(scaled: Matrix, column_counts: Counts | None, nodes: int, gaussians: Gaussian, middle: Center) -> Numbers:
    """(n, 2) the signs of novelty: rare attributes, and a mean close to the center of all nodes."""
    return np.column_stack([_rarity(scaled, column_counts, nodes), -middle.distance(gaussians)])


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
