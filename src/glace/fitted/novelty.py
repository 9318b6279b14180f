"""Is a new node like the nodes of the training graph? By its attributes, and by where they put it.

Two things are added up, each in standard deviations of what is common: how rare the node's attributes are, and how near
to the center of all nodes it stands, which is where attributes that do not go together lead. What is common is taken
from training nodes with half of their attributes hidden: whole, they would be better known than any new node.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import row_blocks
from glace.errors import FormatError
from glace.fitted.embed import embed_all
from glace.graph.graph import Graph
from glace.graph.node_types import NodeAttributes
from glace.model.network import Network
from glace.queries.certainty import CertaintyModel, EvidenceCounts, ascending, evidence
from glace.rng import Streams
from glace.sparse import nonzeros_per_row
from glace.storage.container import Arrays

SAMPLE = 1000
"""Training nodes that say what is common."""
STEPS = 1000
HIGH, UNSEEN = 0.99, 0.5
"""The rank, and the share of attributes never seen, above which a node is unlike those of the training."""

Numbers = npt.NDArray[np.float64]


class Novelty(NamedTuple):
    """How unlike the training nodes each of n nodes is.

    `unseen` (n,) is the share of its attributes, or of the words of its text, that no training node has; `rank` (n,)
    the share of training nodes that are less strange, 0 to 1.
    """

    unseen: Numbers
    rank: Numbers

    def is_high(self) -> npt.NDArray[np.bool_]:
        """(n,) whether what is said of the node should be doubted."""
        return np.asarray((self.rank > HIGH) | (self.unseen > UNSEEN))


@dataclass(frozen=True, eq=False)
class NoveltyModel:
    """What is common: `seen` (D,) training nodes that have each sparse attribute, of `nodes`; and of both signs of
    strangeness the mean and deviation (2,) and of their sum the `quantiles` (STEPS + 1,), ascending."""

    nodes: int
    seen: npt.NDArray[np.int64] | None
    middle: Numbers
    deviation: Numbers
    quantiles: Numbers

    @classmethod
    def of(cls, nodes: int, seen: npt.NDArray[np.int64] | None, found: Numbers) -> "NoveltyModel":
        """From the signs (S, 2) of some nodes."""
        middle, deviation = found.mean(axis=0), found.std(axis=0)
        deviation[deviation == 0] = 1
        sums = ((found - middle) / deviation).sum(axis=1)
        return cls(nodes, seen, middle, deviation, np.quantile(sums, np.linspace(0, 1, STEPS + 1)))

    @classmethod
    def learn(
        cls, network: Network, reference: CertaintyModel, kind: int, matrix: Any, streams: Streams
    ) -> "NoveltyModel | None":
        """What is common among the nodes of a kind; nothing where they have no attributes."""
        if matrix is None or matrix.shape[0] == 0:
            return None
        generator, count = streams.numpy("common nodes", kind), matrix.shape[0]
        some = np.sort(generator.permutation(count)[:SAMPLE])
        seen, rows = counts_of(matrix), half_hidden(matrix[some], generator)
        return cls.of(count, seen, signs(network, reference, kind, rows, seen, count))

    def novelty(self, network: Network, reference: CertaintyModel, kind: int, matrix: Any) -> Novelty:
        """Of nodes of that kind with these attributes; one that has none is as strange as can be."""
        found = signs(network, reference, kind, matrix, self.seen, self.nodes)
        sums = ((found - self.middle) / self.deviation).sum(axis=1)
        ranks = np.interp(sums, *ascending(self.quantiles))
        ranks[nonzeros_per_row(matrix) == 0] = 1.0
        return Novelty(self.unseen(matrix), ranks)

    def unseen(self, matrix: Any) -> Numbers:
        """(n,) the share of each node's attributes that no training node has; 0 where all are dense."""
        if self.seen is None:
            return np.zeros(matrix.shape[0])
        return _mean_over_rows(matrix, (self.seen == 0).astype(np.float64))

    def to_arrays(self) -> Arrays:
        """For the model file."""
        found: Arrays = {"middle": self.middle, "deviation": self.deviation, "quantiles": self.quantiles}
        found["nodes"] = np.array(self.nodes, np.int64)
        return found if self.seen is None else {**found, "seen": self.seen}

    @classmethod
    def from_arrays(cls, arrays: Arrays, width: int, sparse: bool) -> "NoveltyModel":
        """Back from `to_arrays`, for attributes of this width, sparse or dense."""
        found = cls(
            int(arrays["nodes"]),
            arrays.get("seen"),
            *(arrays[name] for name in ("middle", "deviation", "quantiles")),
        )
        if not found.fits(width, sparse):
            raise FormatError("what is common among the nodes does not fit the model")
        return found

    def fits(self, width: int, sparse: bool) -> bool:
        """Whether it can be of a model of such attributes."""
        parts = self.middle, self.deviation, self.quantiles
        shapes = [part.shape for part in parts] == [(2,), (2,), (STEPS + 1,)]
        numbers = all(part.dtype == np.float64 and np.isfinite(part).all() for part in parts)
        counts = (self.seen is None) == (not sparse)
        if self.seen is not None:
            whole = self.seen.shape == (width,) and self.seen.dtype == np.int64
            counts = counts and whole and bool((self.seen >= 0).all())
        return bool(shapes and numbers and counts and self.nodes > 0 and (self.deviation > 0).all())


def signs(
    network: Network,
    reference: CertaintyModel,
    kind: int,
    matrix: Any,
    seen: npt.NDArray[np.int64] | None,
    nodes: int,
) -> Numbers:
    """(n, 2) the signs of strangeness: rare attributes, and a place near the center."""
    own, _ = embed_all(network, network.inputs_of(kind, matrix), np.empty)
    # Dense attributes are rare where they are far from the mean, which is what they are scaled by.
    scaled = matrix if sp.issparse(matrix) else network.scaled(kind, matrix)
    return np.column_stack([rarity(scaled, seen, nodes), -reference.standing(own)])


def known_of(graph: Graph) -> EvidenceCounts:
    """How much is known of the graph's nodes: by their attributes, or by their identity alone, and their edges."""
    around, attributes = graph.neighborhoods(), graph.by_type()

    def known(rows: slice) -> npt.NDArray[np.float64]:
        return evidence(attributes.nonzeros(rows), nonzeros_per_row(around, rows))

    return known


def known_by_rows(attributes: NodeAttributes) -> EvidenceCounts:
    """The same of nodes that have attributes and no edges."""
    return lambda rows: evidence(attributes.nonzeros(rows), 0)


def counts_of(matrix: Any) -> npt.NDArray[np.int64] | None:
    """(D,) in how many rows of a sparse matrix each column is; None of a dense one."""
    if not sp.issparse(matrix):
        return None
    counts = np.zeros(matrix.shape[1], np.int64)
    for part in row_blocks(matrix.indices):
        counts += np.bincount(part, minlength=len(counts))
    return counts


def rarity(matrix: Any, seen: npt.NDArray[np.int64] | None, nodes: int) -> Numbers:
    """(n,) how rare the attributes of each row are: the mean logarithm of nodes to one, or of dense ones the square."""
    if seen is None:
        return np.asarray(np.square(matrix, dtype=np.float64).mean(axis=1))
    return _mean_over_rows(matrix, np.log((nodes + 1) / (seen + 1)))


def half_hidden(matrix: Any, generator: np.random.Generator) -> Any:
    """Sparse rows with each entry left out or not; dense ones as they are."""
    if not sp.issparse(matrix):
        return matrix
    rows = sp.coo_array(matrix)
    kept = generator.random(rows.nnz) < 0.5
    some = (rows.data[kept], (rows.row[kept], rows.col[kept]))
    return sp.csr_array(some, shape=matrix.shape, dtype=np.float32)


def _mean_over_rows(matrix: Any, values: Numbers) -> Numbers:
    """(n,) mean of the values (D,) of each row's entries; 0 where it has none."""
    rows = sp.csr_array(matrix)
    ones = sp.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    return np.asarray((ones @ values) / np.maximum(np.diff(rows.indptr), 1))
