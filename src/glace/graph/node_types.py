"""Node attributes by node type: one matrix per type, each with its own columns and storage."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.features.pipeline import FeaturePipeline
from glace.ids import NodeIds
from glace.sparse import Matrix, check_sparse, matrix_arrays, narrowed, nonzeros_per_row, read_only

NodeIndex = npt.NDArray[np.int64]
TypeCodes = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class NodeType:
    """The nodes of one type and their attributes.

    Parameters
    ----------
    name
        Name of the type; "" is the only type of a graph without node types.
    count
        Number of nodes of this type.
    attributes
        (count, D) CSR or dense float32, one row per node of the type in the order of the nodes; None if the nodes have
        no attributes.
    feature_names
        Names of the D columns, if they are known.
    pipeline
        How the columns of a table became `attributes`; new rows pass through the same pipeline.
    """

    name: str
    count: int
    attributes: Matrix | None = None
    feature_names: tuple[str, ...] | None = None
    pipeline: FeaturePipeline | None = None

    def features(self) -> Matrix:
        """Return the attributes, or the one-hot identity if there are none."""
        return identity(self.count) if self.attributes is None else self.attributes

    @property
    def width(self) -> int | None:
        """Number of attributes, D; None if there are none."""
        return None if self.attributes is None else int(self.attributes.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether `features` are sparse."""
        return self.attributes is None or sp.issparse(self.attributes)

    @property
    def storage(self) -> str:
        """How the attributes are stored: "none", "sparse" or "dense"."""
        return "none" if self.attributes is None else "sparse" if self.sparse else "dense"

    def without_rows(self) -> "NodeType":
        """Return the attribute schema: everything but the rows."""
        return replace(self, attributes=None if self.attributes is None else self.attributes[:0])

    def without_attributes(self) -> "NodeType":
        """Return the same nodes, known by their identity alone."""
        return NodeType(self.name, self.count)

    def take(self, rows: NodeIndex) -> "NodeType":
        """Return these nodes of the type, in this order."""
        if self.attributes is None:
            return replace(self, count=len(rows))
        taken = self.attributes[rows]
        return replace(self, count=len(rows), attributes=narrowed(taken) if sp.issparse(taken) else taken)

    def text(self) -> str:
        """Describe the type, such as "120 word with 500 sparse attributes"."""
        if self.width is None:
            return f"{self.count:,} {self.name} without attributes"
        return f"{self.count:,} {self.name} with {self.width:,} {self.storage} attributes"


@dataclass(frozen=True, eq=False)
class NodeAttributes:
    """The attributes of all n nodes of a graph, by node type.

    Parameters
    ----------
    types
        The T >= 1 node types.
    type_codes
        (n,) the index of each node's type in `types`. None if there is one type: node i is then row i, and no array
        per node is kept.
    """

    types: tuple[NodeType, ...]
    type_codes: TypeCodes | None = None
    rows: NodeIndex | None = field(init=False, default=None)
    """(n,) the row of each node in the matrix of its type; None if there is one type."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))
        if len(self.types) == 1:
            object.__setattr__(self, "type_codes", None)
            return
        assert self.type_codes is not None, "several node types need the type of each node"
        codes, rows = np.asarray(self.type_codes, dtype=np.int32), np.empty(len(self.type_codes), np.int64)
        for code, each in enumerate(self.types):
            nodes = np.flatnonzero(codes == code)
            assert len(nodes) == each.count, f"{len(nodes)} nodes of type {each.name}, but {each.count} rows"
            rows[nodes] = np.arange(len(nodes))
        object.__setattr__(self, "type_codes", codes)
        object.__setattr__(self, "rows", rows)

    def __len__(self) -> int:
        return sum(each.count for each in self.types)

    @property
    def has_attributes(self) -> bool:
        """Whether nodes of some type have attributes."""
        return any(each.attributes is not None for each in self.types)

    @property
    def matrix(self) -> Matrix | None:
        """The attributes of a graph with one node type; several types raise InputError."""
        if len(self.types) > 1:
            names = ", ".join(each.name for each in self.types)
            raise InputError(
                f"the node types ({names}) have attributes of their own, but one matrix is needed here; use "
                "graph.by_type(), or merge the types with graph.of_one_type()"
            )
        return self.types[0].attributes

    def locate(self, nodes: NodeIndex) -> tuple[TypeCodes, NodeIndex]:
        """Return the type code and the row in that type's matrix of each node."""
        if self.type_codes is None or self.rows is None:
            return np.zeros(len(nodes), np.int32), nodes
        return self.type_codes[nodes], self.rows[nodes]

    def features(self) -> list[Matrix]:
        """Return one matrix per type: its attributes, or the one-hot identity if it has none."""
        return [each.features() for each in self.types]

    def take(self, nodes: NodeIndex) -> "NodeAttributes":
        """Return the attributes of these nodes, in this order."""
        codes, rows = self.locate(nodes)
        taken = tuple(each.take(rows[codes == code]) for code, each in enumerate(self.types))
        return NodeAttributes(taken, codes)

    def with_types(self, types: Sequence[NodeType]) -> "NodeAttributes":
        """Return the same nodes with the attributes of these types, which correspond to `types`."""
        return NodeAttributes(tuple(types), self.type_codes)

    def side_by_side(self) -> Matrix:
        """Return (n, columns of all types) features: each type has columns of its own."""
        if self.type_codes is None:
            return self.types[0].features()
        whole = sp.block_diag([sp.csr_array(each) for each in self.features()], format="csr")
        order = np.argsort(np.argsort(self.type_codes, kind="stable"), kind="stable")
        return narrowed(sp.csr_array(sp.csr_array(whole, dtype=np.float32)[order]))

    def nonzeros(self, nodes: slice) -> npt.NDArray[np.integer]:
        """Return how many attributes of each node are not 0; 1 for a node without attributes."""
        only = self.types[0].attributes
        if self.type_codes is None and only is not None:
            return nonzeros_per_row(only, nodes)  # a slice of a mapped matrix is not copied
        codes, rows = self.locate(np.arange(len(self))[nodes])
        counts = np.ones(len(codes), np.int64)
        for code, each in enumerate(self.types):
            if each.attributes is not None:
                counts[codes == code] = nonzeros_per_row(each.attributes, rows[codes == code])
        return counts

    def storage(self) -> str:
        """Describe how the attributes are stored, for fingerprints."""
        if self.types[0].name == "":
            return self.types[0].storage
        return json.dumps([[each.name, each.count, each.storage] for each in self.types])

    def arrays(self) -> Iterator[npt.NDArray[np.generic]]:
        """Yield every array the attributes consist of."""
        if self.type_codes is not None:
            yield self.type_codes
        for each in self.types:
            yield from matrix_arrays(each.attributes)


def identity(count: int) -> sp.csr_array:
    """Return the (count, count) one-hot CSR matrix."""
    return narrowed(sp.eye_array(count, dtype=np.float32, format="csr"))


def checked_type(node_type: NodeType, ids: NodeIds | None) -> NodeType:
    """Return the type with its attributes as read-only, finite float32; `ids` name a bad row's node."""
    if node_type.attributes is None:
        return node_type
    try:
        matrix = checked_matrix(node_type.attributes, ids)
    except InputError as problem:
        raise InputError(f"type {node_type.name!r}: {problem}" if node_type.name else str(problem)) from problem
    if matrix.shape[0] != node_type.count:
        raise InputError(f"{matrix.shape[0]:,} rows of attributes for {node_type.count:,} nodes; give one row a node")
    assert node_type.feature_names is None or len(node_type.feature_names) == matrix.shape[1]
    return replace(node_type, attributes=read_only(matrix))


def checked_matrix(attributes: object, ids: NodeIds | None = None) -> Matrix:
    """Return a matrix of numbers as float32, CSR or dense; InputError for a value that is not finite.

    The message names the node of the row if `ids` are given.
    """
    matrix = _as_float32(attributes)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"attributes must be a table of rows and columns, but have the shape {matrix.shape}")
    values = matrix.reshape(-1) if isinstance(matrix, np.ndarray) else matrix.data
    if not np.isfinite(values).all():
        entry = int(np.argmin(np.isfinite(values)))
        if isinstance(matrix, np.ndarray):
            row = entry // matrix.shape[1]
        else:
            row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        name = f"row {row + 1}" if ids is None or row >= len(ids) else f"node {ids[row]!r} (row {row + 1})"
        raise InputError(f"attributes must be finite numbers, but {name} has {values[entry]}")
    return matrix


def _as_float32(attributes: Any) -> Matrix:
    if np.iscomplexobj(attributes):
        raise InputError("attributes must be real numbers, but are complex; give their parts as columns")
    if sp.issparse(attributes):
        check_sparse(attributes, "attributes")
    try:
        with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite and is refused later
            if sp.issparse(attributes):
                matrix = sp.csr_array(attributes, dtype=np.float32, copy=True)
                matrix.prune()  # drops what is stored beyond the last row
                matrix.sum_duplicates()
                matrix.eliminate_zeros()  # so that a row of stored zeros counts as empty
                return narrowed(matrix)
            # In row order: data frames have column order, which every product would copy.
            dense = np.array(attributes, dtype=np.float32, order="C")
            dense += 0  # turns -0 into 0, so that equal attributes have equal bytes and one fingerprint
            return dense
    except (TypeError, ValueError) as problem:
        raise InputError(f"attributes must be numbers: {problem}") from problem
