"""Node tables larger than memory, read twice: once for ids and sizes, once to write each row to its position."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.categories import Categories
from glace.features.columns import Contents, RowLocator, are_sparse_rows, dense_of, ids_of, sparse_rows_of
from glace.features.rows import attribute_columns, id_column
from glace.graph.attributes import checked_matrix
from glace.ids import NodeIds
from glace.io.folder import FolderWriter
from glace.io.svmlight import categories_of, svmlight_pieces
from glace.io.table_file import SVMLIGHT, TABLES, TableFile, ending_of, table_pieces, with_ids_only
from glace.sparse import Matrix, index_width_of, nonzeros_per_row
from glace.storage.files import existing

ATTRIBUTES = "types/0/attributes"

Report = Callable[[float], None]
Positions = npt.NDArray[np.int64]


class NodeRows:
    """The rows of a file of attributes: their number of non-zeros, and the storage and width of their matrix."""

    where: RowLocator
    storage: str = "none"
    width: int = 0
    names: tuple[str, ...] | None = None
    labels: Categories | None = None
    types: Categories | None = None
    summary: TableFile | None = None
    """The ids as a table with the columns of the file; None if ids are row numbers."""

    def __init__(self) -> None:
        self._counts: list[npt.NDArray[np.integer]] = [np.empty(0, np.int64)]

    def ids(self, summary: TableFile | None) -> pa.Array:
        """The id of each row, from the `summary` with its kind of id decided; row numbers without one."""
        if summary is None:
            return NodeIds.numbered(sum(map(len, self._counts))).array
        return ids_of(summary.table, summary.ids[0], self.where)

    def matrices(self, report: Report) -> Iterator[Matrix]:
        """Yield the rows in pieces, sparse or dense as `storage` says."""
        raise NotImplementedError

    def write(self, writer: FolderWriter, positions: Positions, nodes: int, report: Report) -> Positions:
        """Write the attributes of all nodes, row k to node positions[k]; return the non-zeros of each node."""
        counts = np.zeros(nodes, dtype=np.int64)
        counts[positions] = np.concatenate(self._counts)
        put = self._sparse_target(writer, counts) if self.storage == "sparse" else self._dense_target(writer, nodes)
        first = 0
        for matrix in self.matrices(report):
            put(matrix, positions[first : first + matrix.shape[0]])
            first += matrix.shape[0]
        return counts

    def _dense_target(self, writer: FolderWriter, nodes: int) -> Callable[[Matrix, Positions], None]:
        dense = writer.create(ATTRIBUTES, (nodes, self.width), np.float32)

        def put(matrix: Matrix, positions: Positions) -> None:
            dense[positions] = matrix

        return put

    def _sparse_target(self, writer: FolderWriter, counts: Positions) -> Callable[[Matrix, Positions], None]:
        indptr = np.concatenate([[0], np.cumsum(counts)])
        width = index_width_of(self.width, int(indptr[-1]))
        writer.put({f"{ATTRIBUTES}/indptr": indptr.astype(width)})
        indices = writer.create(f"{ATTRIBUTES}/indices", (int(indptr[-1]),), width)
        data = writer.create(f"{ATTRIBUTES}/data", (int(indptr[-1]),), np.float32)

        def put(matrix: sp.csr_array, positions: Positions) -> None:
            shift = np.repeat(indptr[positions] - matrix.indptr[:-1], np.diff(matrix.indptr))
            target = shift + np.arange(matrix.nnz)
            indices[target], data[target] = matrix.indices, matrix.data

        return put


def node_rows(path: str | Path, header: bool, report: Report) -> NodeRows:
    """Read a file of attributes for the first time."""
    if ending_of(Path(path), (*TABLES, *SVMLIGHT)) in SVMLIGHT:
        return _SvmlightRows(existing(path, "a file of attributes"), report)
    return _TableRows(path, header, report)


class _SvmlightRows(NodeRows):
    def __init__(self, path: Path, report: Report) -> None:
        super().__init__()
        self.path, self.where, self.storage = path, RowLocator(path.name), "sparse"
        self._labels: list[npt.NDArray[np.float64]] = []
        for matrix in self.matrices(report):
            self._counts.append(nonzeros_per_row(matrix))
            self.width = max(self.width, matrix.shape[1])
        self.labels = categories_of(np.concatenate([np.empty(0), *self._labels]))

    def matrices(self, report: Report) -> Iterator[Matrix]:
        first = 0
        self._labels.clear()
        for piece in svmlight_pieces(self.path):
            self._labels.append(piece.labels)
            piece.rows.resize(len(piece.labels), int(piece.rows.indices.max(initial=0)) + 1)
            yield checked_matrix(piece.rows, first=first)
            first += len(piece.labels)
            report(piece.share)


class _TableRows(NodeRows):
    def __init__(self, path: str | Path, header: bool, report: Report) -> None:
        super().__init__()
        self.path, self.header = path, header
        ids: list[pa.Array] = []
        categories: dict[str, list[pa.Array]] = {"label": [], "type": []}
        for piece, share in table_pieces(path, "attributes", header):
            if not ids:
                first = piece
                self._read_schema(piece)
            ids.append(ids_of(piece.table, self.key, piece.where))
            for name in categories.keys() & set(piece.table.column_names) - {self.key}:
                categories[name] += piece.table.column(name).chunks
            self._count(piece)
            report(share)
        self.summary = with_ids_only(first, pa.concat_arrays(ids))
        self.labels, self.types = (
            Categories.of(pa.chunked_array(chunks)) if chunks else None for chunks in categories.values()
        )
        if self.columns and not self.lists:
            self.storage = "sparse" if self._contents.are_sparse() else "dense"

    def _read_schema(self, piece: TableFile) -> None:
        names, self.where = piece.table.column_names, piece.where
        self.key, self.columns = id_column(names, piece.where), attribute_columns(names, piece.where)
        self.lists = are_sparse_rows(piece.table.schema, self.columns)
        self.storage = "sparse" if self.lists else "none"
        self.width = 0 if self.lists else len(self.columns)
        self._contents = Contents(self.width)
        self.names = tuple(self.columns) if self.columns and piece.named and not self.lists else None

    def _count(self, piece: TableFile) -> None:
        if not self.columns:
            return
        matrix = self._matrix(piece)
        self._counts.append(nonzeros_per_row(matrix))
        if isinstance(matrix, np.ndarray):
            self._contents.add(matrix)
        else:
            self.width = max(self.width, matrix.shape[1])

    def _matrix(self, piece: TableFile) -> Matrix:
        if self.lists:
            return checked_matrix(sparse_rows_of(piece.table, piece.where))
        return dense_of(piece.table, self.columns, piece.where) + np.float32(0)  # turns -0 into 0

    def matrices(self, report: Report) -> Iterator[Matrix]:
        for piece, share in table_pieces(self.path, "attributes", self.header):
            matrix = self._matrix(piece)
            yield sp.csr_array(matrix) if self.storage == "sparse" else matrix
            report(share)
