"""What encoders are given of a node: its attributes and, if wanted, the mean of its neighbours' beside them."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.kernels import inputs as kernels
from glace.model.input_layers import InputShape, NodeIndex

NEIGHBORS_A_STEP = 5
"""Most neighbours a node's mean is taken over in one step of training; all of them where nodes are embedded.
Hubs would else cost as much as all the rest, and a mean over a few others each time does not overfit."""


Means = tuple[NodeIndex, NodeIndex, npt.NDArray[np.float32]]
"""(start, neighbour, share): what the means of some nodes' neighbours are made of, as rows of a CSR matrix."""


@dataclass(frozen=True)
class InputMask:
    """What is hidden from the encoders, as in a step of training.

    `dropout` is the share of attributes and `neighbor_dropout` the share of nodes whose neighbours are left
    out. The ends of the edges `pairs` (P, 2) do not see each other: else the answer would stand in the input,
    and be missing where an edge is to be predicted. At most `neighbors` of a node are seen.
    """

    seed: int
    dropout: float
    neighbor_dropout: float
    pairs: NodeIndex
    neighbors: int = NEIGHBORS_A_STEP


@dataclass(frozen=True)
class Scaling:
    """How attributes are scaled: sparse rows to unit length, dense columns by a shift and a factor."""

    unit: bool
    shift: npt.NDArray[np.float32] | None = None
    factor: npt.NDArray[np.float32] | None = None


class NodeInputs(Protocol):
    """The rows of all nodes of a graph, made when they are wanted."""

    def __len__(self) -> int: ...

    def rows(self, nodes: NodeIndex, mask: InputMask | None = None) -> Any:
        """What the encoders are given of these nodes."""


class Inputs:
    """The rows of nodes that are of one type.

    `adjacency` is None where the encoders see no neighbours, or where nodes have none.
    """

    def __init__(self, shape: InputShape, attributes: Any, adjacency: sp.csr_array | None, scaling: Scaling) -> None:
        self.shape, self.attributes, self.scaling = shape, attributes, scaling
        self.adjacency = no_edges(attributes.shape[0]) if adjacency is None else adjacency
        self._slots = np.full(shape.columns if shape.sparse else 0, -1, dtype=np.int64)

    def __len__(self) -> int:
        return int(self.attributes.shape[0])

    def rows(self, nodes: NodeIndex, mask: InputMask | None = None) -> Any:
        """(R, `shape.columns`) for these nodes, sparse as the attributes are."""
        dropout, seed = (0.0, 0) if mask is None else (mask.dropout, mask.seed)
        if not self.shape.neighbors:
            return self.own(nodes, dropout, seed)
        neighbours = found_neighbours(self.adjacency, nodes, mask)
        if self.shape.sparse:
            return self._sparse(nodes, neighbours, self.shape.part, dropout, seed)
        parts = [self._scaled(self.attributes[nodes]), self._dense_means(neighbours)]
        return _some_hidden(np.concatenate(parts, axis=1), dropout, seed)

    def own(self, nodes: NodeIndex, dropout: float, seed: int) -> Any:
        """(R, `shape.part`): the attributes of these nodes alone, a share of them hidden."""
        if self.shape.sparse:
            return self._sparse(nodes, _no_means(len(nodes)), self.shape.part, dropout, seed)
        return _some_hidden(self._scaled(self.attributes[nodes]), dropout, seed)

    def means(self, neighbours: Means, dropout: float, seed: int) -> Any:
        """(R, `shape.part`): the means of neighbours alone."""
        if self.shape.sparse:
            nobody = np.full(len(neighbours[0]) - 1, -1)
            return self._sparse(nobody, neighbours, 0, dropout, seed)
        return _some_hidden(self._dense_means(neighbours), dropout, seed)

    def _sparse(self, nodes: NodeIndex, neighbours: Means, shift: int, dropout: float, seed: int) -> sp.csr_array:
        start, column, value = kernels.joined(
            _arrays(self.attributes),
            shift,
            self.shape.hashed,
            nodes,
            neighbours,
            self.scaling.unit,
            dropout,
            seed,
            self._slots,
        )
        # scipy's constructor would check and copy.
        rows = sp.csr_array((len(nodes), self.shape.columns), dtype=np.float32)
        rows.indptr, rows.indices, rows.data = start, column, value
        return rows

    def _dense_means(self, neighbours: Means) -> npt.NDArray[np.float32]:
        start, found, share = neighbours
        mean = sp.csr_array((share, found, start), shape=(len(start) - 1, len(self))) @ self.attributes
        means: npt.NDArray[np.float32] = self._scaled(mean)
        means[np.diff(start) == 0] = 0
        return means

    def _scaled(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if self.scaling.shift is None or self.scaling.factor is None:
            return rows
        return (rows - self.scaling.shift) * self.scaling.factor


def found_neighbours(adjacency: sp.csr_array, nodes: NodeIndex, mask: InputMask | None) -> Means:
    """What the means of these nodes' neighbours are made of."""
    pairs = np.empty((0, 2), np.int64) if mask is None else mask.pairs
    limits = (0, 0.0, 0) if mask is None else (mask.neighbors, mask.neighbor_dropout, mask.seed)
    found: Means = kernels.neighbours(_arrays(adjacency), nodes, partners(nodes, pairs), *limits)
    return found


def _no_means(count: int) -> Means:
    return np.zeros(count + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)


def _some_hidden(rows: npt.NDArray[np.float32], dropout: float, seed: int) -> npt.NDArray[np.float32]:
    """Dense rows with a share of their numbers 0, and the others raised so that the expectation stays."""
    if dropout == 0:
        return rows
    kept = np.random.default_rng(seed).random(rows.shape, dtype=np.float32) >= dropout
    return rows * (kept.astype(np.float32) / np.float32(1 - dropout))


def partners(nodes: NodeIndex, pairs: NodeIndex) -> tuple[NodeIndex, NodeIndex]:
    """(start, partner): for each of the sorted nodes, the other ends of its pairs, as rows of a CSR matrix."""
    own, other = pairs.ravel(), pairs[:, ::-1].ravel()
    place = np.searchsorted(nodes, own)
    start = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(nodes)))])
    return start.astype(np.int64), other[np.argsort(place, kind="stable")]


def _arrays(matrix: sp.csr_array) -> tuple[Any, Any, Any]:
    return matrix.indptr, matrix.indices, matrix.data


def no_edges(nodes: int) -> sp.csr_array:
    """The edges of nodes that have none."""
    return sp.csr_array((nodes, nodes), dtype=np.float32)
