"""Edges in any order to the adjacency of a graph folder, merged on disk bucket by bucket.

The rules are those of `glace.graph.graph.build`, and so is the code that sums and compares: a row of a matrix has the
same bits whether it is computed with all rows or with those of its bucket.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.graph.graph import CleaningReport
from glace.io.folder import FolderWriter
from glace.sparse import check_sums, index_width_of, larger_of, summed_matrix

RECORDS = 1 << 20
"""Records per bucket, roughly. Merging edges takes about 150 bytes per record, so a bucket takes 150 MB."""
MOST = 1 << 10
"""Largest number of buckets: each is a file, and many small files are slow to write."""

Records = npt.NDArray[Any]
"""A structured or plain array."""


class Buckets:
    """Records grouped by ranges of rows; within a range they keep their order."""

    def __init__(self, folder: Path, rows: int, records: int, dtype: npt.DTypeLike) -> None:
        """Create a folder for about `records` records that belong to rows 0 to rows - 1."""
        folder.mkdir()
        self.folder, self.rows, self.dtype = folder, rows, np.dtype(dtype)
        self.each = -(-rows // max(min(-(-records // RECORDS), MOST, rows), 1))
        self.count = -(-rows // self.each)

    def put(self, rows: npt.NDArray[np.integer], records: Records) -> None:
        """Append records; record k belongs to rows[k]."""
        bucket = (rows // self.each).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")  # a radix sort for 16-bit numbers, so linear time
        ends = np.cumsum(np.bincount(bucket, minlength=self.count))
        ordered = np.ascontiguousarray(records, dtype=self.dtype)[order]
        for number in np.unique(bucket).tolist():
            with self._path(number).open("ab") as opened:
                opened.write(ordered[ends[number - 1] if number else 0 : ends[number]].view(np.uint8).data)

    def range(self, number: int) -> tuple[int, int]:
        """The first row of a bucket and the one after its last."""
        return number * self.each, min((number + 1) * self.each, self.rows)

    def get(self, number: int) -> Records:
        """The records of a bucket."""
        path = self._path(number)
        return np.fromfile(path, self.dtype) if path.exists() else np.empty(0, self.dtype)

    def replace(self, number: int, records: Records) -> None:
        """Replace the records of a bucket."""
        np.ascontiguousarray(records, dtype=self.dtype).tofile(self._path(number))

    def __iter__(self) -> Iterator[tuple[int, int, Records]]:
        """Yield the range of rows and the records of each bucket."""
        return ((*self.range(number), self.get(number)) for number in range(self.count))

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / str(number)


Numbers = npt.NDArray[np.integer]


class EdgeMerger:
    """Takes edges piece by piece, then writes `adjacency` and, for a directed graph, `neighbors`."""

    def __init__(self, writer: FolderWriter, nodes: int, edges: int, directed: bool) -> None:
        """Prepare for about `edges` edges, which determines the number of buckets."""
        self.writer, self.nodes, self.directed = writer, nodes, directed
        width = index_width_of(nodes, 0)
        record = [("source", width), ("target", width), ("weight", np.float32)]
        self.forward = Buckets(writer.folder / "forward", nodes, edges, record)
        self.backward = Buckets(writer.folder / "backward", nodes, edges, record)
        self.self_loops, self.duplicates, self.unequal, self.isolated = 0, 0, 0, 0

    def add(self, pairs: npt.NDArray[np.int64], weights: npt.NDArray[np.floating]) -> None:
        """Add edges, (E, 2) node numbers, with valid weights (E,)."""
        loops = pairs[:, 0] == pairs[:, 1]
        self.self_loops += int(loops.sum())
        _spill(self.forward, pairs[~loops, 0], pairs[~loops, 1], weights[~loops])

    def finish(self) -> CleaningReport:
        """Write the matrices and count what was merged or dropped."""
        entries = self._sum_duplicates()
        width = index_width_of(self.nodes, 2 * entries)
        adjacency = _MatrixWriter(self.writer, "adjacency", width)
        neighbors = _MatrixWriter(self.writer, "neighbors", width) if self.directed else None
        for number in range(self.forward.count):
            forward, backward = self._matrix(self.forward, number), self._matrix(self.backward, number)
            if neighbors is None:
                joined, unequal = larger_of(forward, backward)
                self.unequal += unequal
                adjacency.append(joined)
            else:
                joined = sp.csr_array(forward + backward)
                adjacency.append(forward)
                neighbors.append(joined)
            self.isolated += int((np.diff(joined.indptr) == 0).sum())
        for matrix in filter(None, (adjacency, neighbors)):
            matrix.close()
        for buckets in (self.forward, self.backward):
            buckets.remove()
        return CleaningReport(self.duplicates, self.unequal // 2, self.self_loops, self.isolated)

    def _sum_duplicates(self) -> int:
        """Sum the weights of repeated edges, spill the reverse of each edge, and return the number of edges."""
        entries = 0
        for number in range(self.forward.count):
            records = len(self.forward.get(number))
            matrix = self._matrix(self.forward, number)
            check_sums(matrix)
            coo, first = matrix.tocoo(), self.forward.range(number)[0]
            self.forward.replace(number, np.empty(0, self.forward.dtype))
            _spill(self.forward, coo.row + first, coo.col, coo.data)
            _spill(self.backward, coo.col, coo.row + first, coo.data)
            self.duplicates += records - int(matrix.nnz)
            entries += int(matrix.nnz)
        return entries

    def _matrix(self, buckets: Buckets, number: int) -> sp.csr_array:
        """The rows of a bucket, with the weights of repeated entries summed."""
        (first, end), records = buckets.range(number), buckets.get(number)
        positions = (records["source"] - first, records["target"])
        return summed_matrix(records["weight"], positions, (end - first, self.nodes))


def _spill(buckets: Buckets, source: Numbers, target: Numbers, weight: npt.NDArray[np.floating]) -> None:
    records = np.empty(len(source), buckets.dtype)
    records["source"], records["target"], records["weight"] = source, target, weight
    buckets.put(source, records)


class _MatrixWriter:
    """Writes a CSR matrix of a graph folder in blocks of rows."""

    def __init__(self, writer: FolderWriter, name: str, width: npt.DTypeLike) -> None:
        self.indptr = writer.stream(f"{name}/indptr", width)
        self.indices = writer.stream(f"{name}/indices", width)
        self.data = writer.stream(f"{name}/data", np.float32)
        self.indptr.append([0])
        self.entries = 0

    def append(self, rows: sp.csr_array) -> None:
        rows.sort_indices()
        self.indptr.append(self.entries + rows.indptr[1:].astype(np.int64))
        self.indices.append(rows.indices)
        self.data.append(rows.data)
        self.entries += int(rows.nnz)

    def close(self) -> None:
        for stream in (self.indptr, self.indices, self.data):
            stream.close()
