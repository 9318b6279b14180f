"""Input rows of the encoder: a node's attributes and, for each node type, the mean over its neighbours of that type."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from torch import nn

from glace.config.config import MLP, EncoderSpec
from glace.kernels import inputs as kernels
from glace.kernels.compile import CSR
from glace.kernels.sparse_layer import ByColumn, by_column
from glace.sparse import Matrix, narrowed
from glace.values import NONE, are_counted, in_storage

NodeIndex = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float32]


class InputShape(NamedTuple):
    """The attributes of a node type as a network sees them.

    `width` is the number D of attributes; sparse ones are hashed into `hashed` columns if that is not 0. `one_hot`
    nodes have no attributes: each has a column of its own. `scaling` is one of `glace.values.SCALINGS`; `sparse` says
    whether the scaled rows are, which standardised ones never are, however the attributes are stored.
    """

    width: int
    sparse: bool
    hashed: int = 0
    one_hot: bool = False
    scaling: str = NONE

    @property
    def counted(self) -> bool:
        """See `glace.values.are_counted`."""
        return are_counted(self.scaling, self.sparse)

    @property
    def columns(self) -> int:
        """Numbers in an input row."""
        return self.hashed or self.width


@dataclass(frozen=True, eq=False)
class InputType:
    """A node type: its name, the shape of its attributes, and its encoder, with the user's module if it is custom."""

    name: str
    shape: InputShape
    encoder: EncoderSpec = field(default_factory=MLP)
    module: nn.Module | None = None

    def title(self) -> str:
        """Return what error messages call the encoder."""
        return "the encoder" if self.name == "" else f"the encoder of type {self.name!r}"

    def empty(self, rows: int = 0) -> Matrix:
        """Return attributes (rows, D) that are all 0."""
        size = (rows, self.shape.width)
        return sp.csr_array(size, dtype=np.float32) if self.shape.sparse else np.zeros(size, np.float32)


@dataclass(frozen=True)
class Scaling:
    """How attribute rows are scaled.

    Columns of measurements are scaled one by one, by a `shift` and a `factor` (D,), which are empty without any. With
    `unit`, the other columns, whose factor is 0, are scaled to unit length, row by row.
    """

    unit: bool
    shift: Numbers = field(default_factory=lambda: np.empty(0, np.float32))
    factor: Numbers = field(default_factory=lambda: np.empty(0, np.float32))

    @property
    def by_column(self) -> bool:
        """Whether some columns are scaled one by one."""
        return len(self.shift) > 0

    def of_dense(self, rows: Numbers) -> Numbers:
        """Return scaled dense rows."""
        if not self.by_column:
            return _of_unit_length(rows) if self.unit else rows
        scaled = (rows - self.shift) * self.factor
        return scaled + _of_unit_length(np.where(self.factor == 0, rows, 0)) if self.unit else scaled

    def of_sparse(self, rows: sp.csr_array) -> sp.csr_array:
        """Return scaled sparse rows; a measured column that is 0 in the attributes is not so when it is scaled."""
        measured = np.flatnonzero(self.factor)
        others = rows.copy()
        others.data[self.factor[others.indices] != 0] = 0
        others.eliminate_zeros()
        lengths = np.sqrt(np.add.reduceat(np.append(np.square(others.data, dtype=np.float64), 0), others.indptr[:-1]))
        others.data /= np.repeat(lengths, np.diff(others.indptr)).astype(np.float32)
        values = (rows[:, measured].toarray() - self.shift[measured]) * self.factor[measured]
        places = np.repeat(np.arange(len(values)), len(measured)), np.tile(measured, len(values))
        return narrowed(others + sp.csr_array((values.ravel(), places), shape=rows.shape))


def _of_unit_length(rows: Numbers) -> Numbers:
    """Return rows of length 1; an empty row stays empty."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return rows / np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]


MAX_NEIGHBORS = 5
"""Neighbours that a mean is taken over in a training step; all of them when nodes are embedded. Otherwise hubs would
cost as much as all other nodes, and a mean over a different sample in each step does not overfit."""
TypeCodes = npt.NDArray[np.integer]
Locate = Callable[[NodeIndex], tuple[TypeCodes, NodeIndex]]
"""Maps nodes to their type codes and to their rows in the matrix of that type."""


@dataclass(frozen=True)
class InputMask:
    """What a training step hides from the encoder.

    `dropout` is the fraction of attributes and `neighbor_dropout` the fraction of nodes whose neighbours are hidden.
    The ends of the edges `pairs` (P, 2) do not see each other: the answer would be in the input, and missing when an
    edge is to be predicted. At most `max_neighbors` neighbours of a node are seen.
    """

    seed: int
    dropout: float
    neighbor_dropout: float
    pairs: NodeIndex
    max_neighbors: int = MAX_NEIGHBORS

    def seed_of(self, matrix: int) -> int:
        """Return a different seed for each matrix."""
        return (self.seed + matrix * 0x9E3779B97F4A7C15) % 2**63


class SparseRows(sp.csr_array):  # type: ignore[misc]  # scipy has no types
    """Sparse input rows of a batch, with their transpose, which all branches of a network need."""

    transposed: ByColumn | None = None


class TypeInputs:
    """Input rows from the attributes of one node type."""

    def __init__(self, shape: InputShape, attributes: Matrix, scaling: Scaling) -> None:
        self.shape, self.attributes, self.scaling = shape, attributes, scaling
        self._local = threading.local()

    @property
    def _slots(self) -> NodeIndex:
        """The scratch array of kernels; each thread has its own, because threads prepare batches side by side."""
        if not hasattr(self._local, "slots"):
            self._local.slots = np.full(self.shape.columns, -1, dtype=np.int64)
        slots: NodeIndex = self._local.slots
        return slots

    def own(self, rows: NodeIndex, mask: InputMask | None = None, matrix: int = 0) -> Matrix:
        """Return the scaled attributes (R, columns) of these rows."""
        if self.shape.one_hot:
            mask = None  # dropout would erase a one-hot node completely
        if not self.shape.sparse:
            return _dropout(self._scaled(rows), mask, matrix)
        count = len(rows)
        return self._sparse((np.arange(count + 1), rows, np.ones(count, np.float32)), mask, matrix)

    def means(self, neighbors: CSR, mask: InputMask | None = None, matrix: int = 0) -> Matrix:
        """Return the weighted means (R, columns) of the attributes of neighbours; without neighbours, zeros."""
        if self.shape.sparse:
            return self._sparse(neighbors, mask, matrix)
        start, rows, share = neighbors
        if self.scaling.unit:
            distinct, places = np.unique(rows, return_inverse=True)
            means = sp.csr_array((share, places, start), shape=(len(start) - 1, len(distinct))) @ self._scaled(distinct)
        else:  # the mean of rows can be scaled instead of the rows
            weights = sp.csr_array((share, rows, start), shape=(len(start) - 1, self.attributes.shape[0]))
            means = self.scaling.of_dense(in_storage(weights @ self.attributes, sparse=False))
            means[np.diff(start) == 0] = 0
        return _dropout(means, mask, matrix)

    def _scaled(self, rows: npt.NDArray[np.integer]) -> Numbers:
        return self.scaling.of_dense(in_storage(self.attributes[rows], sparse=False))

    def _sparse(self, combination: CSR, mask: InputMask | None, matrix: int) -> sp.csr_array:
        dropout, seed = (0.0, 0) if mask is None else (mask.dropout, mask.seed_of(matrix))
        attributes, unit = self.attributes, self.scaling.unit
        if self.scaling.by_column:
            start, rows, share = combination
            distinct, places = np.unique(rows, return_inverse=True)
            attributes, combination, unit = self.scaling.of_sparse(attributes[distinct]), (start, places, share), False
        arrays = kernels.combined_rows(
            csr_arrays(attributes), combination, self.shape.hashed, unit, dropout, seed, self._slots
        )
        # scipy's constructor would check and copy.
        rows = SparseRows((len(combination[0]) - 1, self.shape.columns), dtype=np.float32)
        rows.indptr, rows.indices, rows.data = arrays
        if mask is not None:
            rows.transposed = by_column(arrays, np.arange(rows.shape[0]), self._slots)
        return rows


class InputRows(NamedTuple):
    """Input rows of R nodes: node r is row rows[r] of own[type_codes[r]], and row r of each matrix of `neighbors`.

    `neighbors` has a matrix of means for each node type, or none if the encoder does not see neighbours.
    """

    type_codes: TypeCodes
    rows: NodeIndex
    own: list[Matrix]
    neighbors: list[Matrix]


class NodeInputs:
    """Input rows of all nodes of a graph, computed on demand.

    `adjacency` is None if the encoder does not see neighbours, or if nodes have none.
    """

    def __init__(
        self, types: Sequence[TypeInputs], locate: Locate, adjacency: sp.csr_array | None, neighbors: bool
    ) -> None:
        self.types, self.locate, self.neighbors = types, locate, neighbors
        self.count = sum(int(each.attributes.shape[0]) for each in types)
        self.adjacency = sp.csr_array((self.count, self.count), dtype=np.float32) if adjacency is None else adjacency

    def __len__(self) -> int:
        return self.count

    def rows(self, nodes: NodeIndex, mask: InputMask | None = None) -> InputRows:
        """Return the input rows of these nodes, which are sorted if there is a mask."""
        type_codes, rows = self.locate(nodes)
        places, own, means = np.empty(len(nodes), np.int64), [], []
        for code, each in enumerate(self.types):
            mine = np.flatnonzero(type_codes == code)
            places[mine] = np.arange(len(mine))
            own.append(each.own(rows[mine], mask, 2 * code))
        if self.neighbors:
            start, found, share = sampled_neighbors(self.adjacency, nodes, mask)
            found_codes, found_rows = self.locate(np.asarray(found, np.int64))
            for code, each in enumerate(self.types):
                of_type = _selected((start, found_rows, share), found_codes == code)
                means.append(each.means(of_type, mask, 2 * code + 1))
        return InputRows(type_codes, places, own, means)


def sampled_neighbors(adjacency: sp.csr_array, nodes: NodeIndex, mask: InputMask | None) -> CSR:
    """Return the neighbours of each node and their weights in its mean, as CSR arrays."""
    pairs = np.empty((0, 2), np.int64) if mask is None else mask.pairs
    limits = (0, 0.0, 0) if mask is None else (mask.max_neighbors, mask.neighbor_dropout, mask.seed)
    return kernels.sample_neighbors(csr_arrays(adjacency), nodes, partners(nodes, pairs), *limits)


def _selected(neighbors: CSR, selected: npt.NDArray[np.bool_]) -> CSR:
    """Return only the selected neighbours, with weights that add up to 1 again."""
    start, found, share = neighbors
    if selected.all():
        return neighbors
    count = len(start) - 1
    row = np.repeat(np.arange(count), np.diff(start))[selected]
    total = np.bincount(row, weights=share[selected], minlength=count)
    counts = np.bincount(row, minlength=count)
    shares = (share[selected] / total[row]).astype(np.float32)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), found[selected], shares


def _dropout(rows: npt.NDArray[np.float32], mask: InputMask | None, matrix: int) -> npt.NDArray[np.float32]:
    """Set a fraction of dense numbers to 0, and scale up the others so that the expectation stays."""
    if mask is None or mask.dropout == 0:
        return rows
    kept = np.random.default_rng(mask.seed_of(matrix)).random(rows.shape, dtype=np.float32) >= mask.dropout
    return rows * (kept.astype(np.float32) / np.float32(1 - mask.dropout))


def partners(nodes: NodeIndex, pairs: NodeIndex) -> tuple[NodeIndex, NodeIndex]:
    """Return for each of the sorted nodes the other ends of its pairs, as indptr and indices of a CSR matrix."""
    own, other = pairs.ravel(), pairs[:, ::-1].ravel()
    place = np.searchsorted(nodes, own)
    start = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(nodes)))])
    return start.astype(np.int64), other[np.argsort(place, kind="stable")]


def csr_arrays(matrix: sp.csr_array) -> CSR:
    """Return what kernels need of a sparse matrix."""
    return matrix.indptr, matrix.indices, matrix.data


def only_type(type_code: int) -> Locate:
    """Node i is row i of the matrix of this type."""

    def locate(nodes: NodeIndex) -> tuple[TypeCodes, NodeIndex]:
        return np.full(len(nodes), type_code, np.int32), nodes

    return locate
