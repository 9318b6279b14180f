"""Edges in any order and number to the adjacency of a graph folder: merged bucket by bucket, by way of the disk.

The rules are those of `glace.graph.graph.build`, and so is the code that adds up and compares: each row of a
matrix comes out the same whether it is made with all others or with those of its bucket.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.graph.graph import CleaningReport, check_sums, larger_of
from glace.io.folder import FolderWriter
from glace.io.spill import Buckets
from glace.sparse import index_width_of
from glace.storage.mapped import NpyStream


class EdgeMerger:
    """Takes edges piece by piece, then writes `adjacency` and, of a directed graph, `neighbors`."""

    def __init__(self, writer: FolderWriter, nodes: int, edges: int, directed: bool) -> None:
        """For about so many edges, which decides on the number of buckets."""
        self.writer, self.nodes, self.directed = writer, nodes, directed
        width = index_width_of(nodes, 0)
        record = [("source", width), ("target", width), ("weight", np.float32)]
        self.own = Buckets(writer.folder / "own", nodes, edges, record)
        self.reverse = Buckets(writer.folder / "reverse", nodes, edges, record)
        self.loops, self.duplicates, self.unequal, self.isolated = 0, 0, 0, 0

    def add(self, pairs: npt.NDArray[np.int64], weights: npt.NDArray[np.floating]) -> None:
        """Add edges (E, 2) of node numbers with usable weights (E,)."""
        loops = pairs[:, 0] == pairs[:, 1]
        self.loops += int(loops.sum())
        self._spill(self.own, pairs[~loops, 0], pairs[~loops, 1], weights[~loops])

    def finish(self) -> CleaningReport:
        """Write the matrices, and tell what was treated."""
        entries = self._sum_duplicates()
        width = index_width_of(self.nodes, 2 * entries)
        adjacency = _MatrixStream(self.writer, "adjacency", width)
        neighbors = _MatrixStream(self.writer, "neighbors", width) if self.directed else None
        for number in range(self.own.count):
            own, back = self._matrix(self.own, number), self._matrix(self.reverse, number)
            joined = sp.csr_array(own + back) if neighbors else self._symmetric(own, back)
            adjacency.append(own if neighbors else joined)
            if neighbors:
                neighbors.append(joined)
            self.isolated += int((np.diff(joined.indptr) == 0).sum())
        for stream in (adjacency, neighbors):
            if stream:
                stream.close()
        for buckets in (self.own, self.reverse):
            buckets.remove()
        return CleaningReport(self.duplicates, self.unequal // 2, self.loops, self.isolated)

    def _sum_duplicates(self) -> int:
        """Add the weights of repeated edges, note the reverse of each edge, and count the edges."""
        entries = 0
        for number in range(self.own.count):
            came = len(self.own.get(number))
            matrix = self._matrix(self.own, number)
            check_sums(matrix)
            coo, first = matrix.tocoo(), self.own.range(number)[0]
            self.own.replace(number, np.empty(0, self.own.dtype))
            self._spill(self.own, coo.row + first, coo.col, coo.data)
            self._spill(self.reverse, coo.col, coo.row + first, coo.data)
            self.duplicates += came - int(matrix.nnz)
            entries += int(matrix.nnz)
        return entries

    def _symmetric(self, own: sp.csr_array, back: sp.csr_array) -> sp.csr_array:
        larger, unequal = larger_of(own, back)
        self.unequal += unequal
        return larger

    def _matrix(self, buckets: Buckets, number: int) -> sp.csr_array:
        """The rows of a bucket; repeated entries added up."""
        (first, end), records = buckets.range(number), buckets.get(number)
        places = (records["source"] - first, records["target"])
        matrix = sp.csr_array((records["weight"], places), shape=(end - first, self.nodes))
        matrix.sum_duplicates()
        return matrix

    def _spill(self, buckets: Buckets, source: Any, target: Any, weight: Any) -> None:
        records = np.empty(len(source), buckets.dtype)
        records["source"], records["target"], records["weight"] = source, target, weight
        buckets.put(source, records)


class _MatrixStream:
    """A CSR matrix of a graph folder that grows by rows."""

    def __init__(self, writer: FolderWriter, name: str, width: type[np.signedinteger[Any]]) -> None:
        kinds = {"indptr": width, "indices": width, "data": np.float32}
        self.parts: dict[str, NpyStream] = {part: writer.stream(f"{name}.{part}", kind) for part, kind in kinds.items()}
        self.entries = 0
        self.parts["indptr"].append([0])

    def append(self, rows: sp.csr_array) -> None:
        rows.sort_indices()
        self.parts["indptr"].append(self.entries + rows.indptr[1:].astype(np.int64))
        self.parts["indices"].append(rows.indices)
        self.parts["data"].append(rows.data)
        self.entries += int(rows.nnz)

    def close(self) -> None:
        for part in self.parts.values():
            part.close()
