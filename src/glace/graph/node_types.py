"""Attributes of nodes of several types: a matrix for each type, of its own width and storage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.features.pipeline import FeaturePipeline
from glace.sparse import narrowed


@dataclass(frozen=True, eq=False)
class NodeType:
    """The attributes of the nodes of one type, (count, D), CSR or dense; None where they have none."""

    name: str
    count: int
    matrix: Any = None
    names: tuple[str, ...] | None = None
    pipeline: FeaturePipeline | None = None

    def features(self) -> Any:
        """The attributes, or the one-hot identity where there are none."""
        return identity(self.count) if self.matrix is None else self.matrix

    @property
    def width(self) -> int | None:
        """How many attributes there are; None where nodes have none."""
        return None if self.matrix is None else int(self.matrix.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether what an encoder is given is sparse."""
        return self.matrix is None or sp.issparse(self.matrix)

    def without_rows(self) -> "NodeType":
        """What is to be known of the attributes of other nodes."""
        return replace(self, matrix=None if self.matrix is None else self.matrix[:0])

    def text(self) -> str:
        """In words, such as "120 word with 500 sparse attributes"."""
        if self.matrix is None:
            return f"{self.count:,} {self.name} without attributes"
        storage = "sparse" if sp.issparse(self.matrix) else "dense"
        return f"{self.count:,} {self.name} with {self.matrix.shape[1]:,} {storage} attributes"


class TypedAttributes:
    """The attributes of n nodes: node i has row `places[i]` of the matrix of type `kinds[i]`, (n,) each.

    The nodes of a type have its rows in their order.
    """

    def __init__(self, kinds: npt.NDArray[np.integer], parts: Sequence[NodeType]) -> None:
        self.kinds, self.parts = np.asarray(kinds, dtype=np.int32), tuple(parts)
        self.places = np.empty(len(self.kinds), np.int64)
        for kind, part in enumerate(self.parts):
            mine = np.flatnonzero(self.kinds == kind)
            assert len(mine) == part.count, f"{len(mine)} nodes of type {part.name}, but {part.count} rows"
            self.places[mine] = np.arange(len(mine))

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes, and the columns of all types that have attributes."""
        return len(self.kinds), sum(each.matrix.shape[1] for each in self.parts if each.matrix is not None)

    def __getitem__(self, nodes: npt.NDArray[np.integer]) -> "TypedAttributes":
        """Those of these nodes, in that order."""
        kinds, parts = self.kinds[nodes], []
        for kind, part in enumerate(self.parts):
            mine = self.places[nodes[kinds == kind]]
            rows = None if part.matrix is None else part.matrix[mine]
            parts.append(replace(part, count=len(mine), matrix=narrowed(rows) if sp.issparse(rows) else rows))
        return TypedAttributes(kinds, parts)

    def changed(self, parts: Sequence[NodeType]) -> "TypedAttributes":
        """The same nodes with other attributes."""
        return TypedAttributes(self.kinds, parts)

    def padded(self) -> sp.csr_array:
        """(n, columns of all types) CSR: every type has columns of its own, and so has a node without attributes."""
        whole = sp.block_diag([sp.csr_array(part.features()) for part in self.parts], format="csr")
        order = np.argsort(np.argsort(self.kinds, kind="stable"), kind="stable")
        return narrowed(sp.csr_array(sp.csr_array(whole, dtype=np.float32)[order]))

    def row_sizes(self) -> npt.NDArray[np.int64]:
        """(n,) how many attributes of each node are not 0; 1 where it is known by its identity."""
        return self._row_sizes

    @cached_property
    def _row_sizes(self) -> npt.NDArray[np.int64]:
        sizes = np.empty(len(self.kinds), np.int64)
        for kind, part in enumerate(self.parts):
            matrix = part.features()
            counts = np.diff(matrix.indptr) if sp.issparse(matrix) else np.count_nonzero(matrix, axis=1)
            sizes[self.kinds == kind] = counts
        return sizes


class ByType(NamedTuple):
    """What a network is given of a graph: node i is row `places[i]` of the attributes of type `kinds[i]`, (n,) each.

    Both are None where all attributes are of one type, whose name is "".
    """

    parts: tuple[NodeType, ...]
    kinds: npt.NDArray[np.int32] | None = None
    places: npt.NDArray[np.int64] | None = None

    def features(self) -> list[Any]:
        """The attributes of each type, and for one without the one-hot identity."""
        return [part.features() for part in self.parts]


def identity(count: int) -> sp.csr_array:
    """(count, count) CSR with a 1 for each node."""
    return narrowed(sp.eye_array(count, dtype=np.float32, format="csr"))
