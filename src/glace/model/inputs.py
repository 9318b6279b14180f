"""What encoders are given of a node: its attributes and, if wanted, the mean of its neighbours' beside them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.kernels import inputs as kernels
from glace.model.encoders import InputShape, NodeNumbers

NEIGHBORS_A_STEP = 5
"""Most neighbours a node's mean is taken over in one step of training; all of them where nodes are embedded.
Hubs would else cost as much as all the rest, and a mean over a few others each time does not overfit."""


Means = tuple[NodeNumbers, NodeNumbers, npt.NDArray[np.float32]]
"""(start, neighbour, share): what the means of some nodes' neighbours are made of, as rows of a CSR matrix."""


@dataclass(frozen=True)
class Veil:
    """What is hidden from the encoders, as in a step of training.

    `dropout` is the share of attributes and `neighbor_dropout` the share of nodes whose neighbours are left
    out. The ends of the edges `pairs` (P, 2) do not see each other: else the answer would stand in the input,
    and be missing where an edge is to be predicted. At most `neighbors` of a node are seen.
    """

    seed: int
    dropout: float
    neighbor_dropout: float
    pairs: NodeNumbers
    neighbors: int = NEIGHBORS_A_STEP


@dataclass(frozen=True)
class Scaling:
    """How attributes are scaled: sparse rows to unit length, dense columns by a shift and a factor."""

    unit: bool
    shift: npt.NDArray[np.float32] | None = None
    factor: npt.NDArray[np.float32] | None = None


class Inputs:
    """The rows of all nodes of a graph, made when they are wanted.

    `adjacency` is None where the encoders see no neighbours, or where nodes have none.
    """

    def __init__(
        self, shape: InputShape, attributes: Any, adjacency: sp.csr_array | None, scaling: Scaling
    ) -> None:
        self.shape, self.attributes, self.scaling = shape, attributes, scaling
        self.adjacency = _no_edges(attributes.shape[0]) if adjacency is None else adjacency
        self._slots = np.full(shape.columns if shape.sparse else 0, -1, dtype=np.int64)

    def __len__(self) -> int:
        return int(self.attributes.shape[0])

    def rows(self, nodes: NodeNumbers, veil: Veil | None = None) -> Any:
        """(R, `shape.columns`) for these nodes, sparse as the attributes are."""
        neighbours = self._neighbours(nodes, veil)
        dropout, seed = (0.0, 0) if veil is None else (veil.dropout, veil.seed)
        build = self._sparse if self.shape.sparse else self._dense
        return build(nodes, neighbours, dropout, seed)

    def _neighbours(self, nodes: NodeNumbers, veil: Veil | None) -> Means:
        if not self.shape.neighbors:
            return np.zeros(len(nodes) + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
        pairs = np.empty((0, 2), np.int64) if veil is None else veil.pairs
        limits = (0, 0.0, 0) if veil is None else (veil.neighbors, veil.neighbor_dropout, veil.seed)
        found: Means = kernels.neighbours(_arrays(self.adjacency), nodes, partners(nodes, pairs), *limits)
        return found

    def _sparse(self, nodes: NodeNumbers, neighbours: Means, dropout: float, seed: int) -> sp.csr_array:
        start, column, value = kernels.joined(
            _arrays(self.attributes),
            self.shape.part,
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

    def _dense(
        self, nodes: NodeNumbers, neighbours: Means, dropout: float, seed: int
    ) -> npt.NDArray[np.float32]:
        parts = [self._scaled(self.attributes[nodes])]
        if self.shape.neighbors:
            start, found, share = neighbours
            mean = sp.csr_array((share, found, start), shape=(len(nodes), len(self))) @ self.attributes
            parts.append(np.where(np.diff(start)[:, None] > 0, self._scaled(mean), np.float32(0)))
        rows = np.concatenate(parts, axis=1)
        if dropout > 0:
            kept = np.random.default_rng(seed).random(rows.shape, dtype=np.float32) >= dropout
            rows *= kept / np.float32(1 - dropout)
        return rows

    def _scaled(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if self.scaling.shift is None or self.scaling.factor is None:
            return rows
        return (rows - self.scaling.shift) * self.scaling.factor


def partners(nodes: NodeNumbers, pairs: NodeNumbers) -> tuple[NodeNumbers, NodeNumbers]:
    """(start, partner): for each of the sorted nodes, the other ends of its pairs, as rows of a CSR matrix."""
    own, other = pairs.ravel(), pairs[:, ::-1].ravel()
    place = np.searchsorted(nodes, own)
    start = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(nodes)))])
    return start.astype(np.int64), other[np.argsort(place, kind="stable")]


def _arrays(matrix: sp.csr_array) -> tuple[Any, Any, Any]:
    return matrix.indptr, matrix.indices, matrix.data


def _no_edges(nodes: int) -> sp.csr_array:
    return sp.csr_array((nodes, nodes), dtype=np.float32)
