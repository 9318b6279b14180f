"""Node tables larger than memory, read twice: once for ids and sizes, once to put each row in its place."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
from glace.io.table_file import SVMLIGHT, TABLES, TableFile, ending_of, summary, table_pieces
from glace.sparse import index_width_of
from glace.storage.files import existing

Tell = Callable[[float], None]


class NodeRows:
    """The rows of a file of attributes: how many numbers each has, in a matrix of which storage and width."""

    where: RowLocator
    storage: str = "none"
    width: int = 0
    names: tuple[str, ...] | None = None
    labels: Categories | None = None
    types: Categories | None = None

    def __init__(self) -> None:
        self._sizes: list[npt.NDArray[np.integer]] = [np.empty(0, np.int64)]

    def described(self) -> TableFile | None:
        """The ids as a table with the columns of the file, where these may be text only for want of types."""
        return None

    def ids(self, described: TableFile | None) -> pa.Array:
        """The id of each row, from what `described` gave, its kind of id settled; else row numbers from 0."""
        if described is None:
            return NodeIds.numbered(len(self.sizes())).array
        return ids_of(described.table, described.ids[0], self.where)

    def matrices(self, tell: Tell) -> Iterator[Any]:
        """The rows in pieces, float32, CSR or dense as `storage` says."""
        raise NotImplementedError

    def sizes(self) -> npt.NDArray[np.integer]:
        """(rows,) how many numbers of each are not zero."""
        return np.concatenate(self._sizes)

    def write(
        self, writer: FolderWriter, places: npt.NDArray[np.int64], nodes: int, tell: Tell
    ) -> npt.NDArray[np.int64]:
        """Write the attributes of all nodes, row k to node places[k]; returns how many each node has."""
        sizes = np.zeros(nodes, dtype=np.int64)
        sizes[places] = self.sizes()
        first = 0
        put = self._sparse_put(writer, sizes) if self.storage == "sparse" else self._dense_put(writer, nodes)
        for matrix in self.matrices(tell):
            put(matrix, places[first : first + matrix.shape[0]])
            first += matrix.shape[0]
        return sizes

    def _dense_put(self, writer: FolderWriter, nodes: int) -> Callable[[Any, Any], None]:
        room = writer.room("attributes", (nodes, self.width), np.float32)

        def put(matrix: Any, places: Any) -> None:
            room[places] = matrix

        return put

    def _sparse_put(self, writer: FolderWriter, sizes: npt.NDArray[np.int64]) -> Callable[[Any, Any], None]:
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        width = index_width_of(self.width, int(indptr[-1]))
        writer.put("attributes.indptr", indptr.astype(width))
        indices = writer.room("attributes.indices", (int(indptr[-1]),), width)
        data = writer.room("attributes.data", (int(indptr[-1]),), np.float32)

        def put(matrix: Any, places: Any) -> None:
            shift = np.repeat(indptr[places] - matrix.indptr[:-1], np.diff(matrix.indptr))
            target = shift + np.arange(matrix.nnz)
            indices[target], data[target] = matrix.indices, matrix.data

        return put


def node_rows(path: str | Path, header: bool, tell: Tell) -> NodeRows:
    """The rows of a file by its ending, read for the first time."""
    if ending_of(Path(path), (*TABLES, *SVMLIGHT)) in SVMLIGHT:
        return _SvmlightRows(existing(path, "a file of attributes"), tell)
    return _TableRows(path, header, tell)


class _SvmlightRows(NodeRows):
    def __init__(self, path: Path, tell: Tell) -> None:
        super().__init__()
        self.path, self.where, self.storage = path, RowLocator(path.name), "sparse"
        self._labels: list[npt.NDArray[np.float64]] = []
        for matrix in self.matrices(tell):
            self._sizes.append(np.diff(matrix.indptr))
            self.width = max(self.width, matrix.shape[1])
        self.labels = categories_of(np.concatenate([np.empty(0), *self._labels]))

    def matrices(self, tell: Tell) -> Iterator[Any]:
        first = 0
        self._labels.clear()
        for piece in svmlight_pieces(self.path):
            self._labels.append(piece.labels)
            piece.rows.resize(len(piece.labels), int(piece.rows.indices.max(initial=0)) + 1)
            yield checked_matrix(piece.rows, first=first)
            first += len(piece.labels)
            tell(piece.share)


class _TableRows(NodeRows):
    def __init__(self, path: str | Path, header: bool, tell: Tell) -> None:
        super().__init__()
        self.path, self.header = path, header
        self._ids: list[pa.Array] = []
        kept: dict[str, list[Any]] = {"label": [], "type": []}
        for piece, share in table_pieces(path, "attributes", header):
            if not self._ids:
                self._describe(piece)
            self._ids.append(ids_of(piece.table, self.key, piece.where))
            for name in kept.keys() & set(piece.table.column_names) - {self.key}:
                kept[name] += piece.table.column(name).chunks
            self._look(piece)
            tell(share)
        self.labels, self.types = (Categories.of(pa.chunked_array(part)) if part else None for part in kept.values())
        if self.columns and not self.listed:
            self.storage = "sparse" if self._contents.are_sparse() else "dense"

    def _describe(self, piece: TableFile) -> None:
        table, self.first, self.where = piece.table, piece, piece.where
        self.key = id_column(table.column_names, piece.where)
        self.columns = attribute_columns(table.column_names, piece.where)
        self.listed = are_sparse_rows(table.schema, self.columns)
        self.storage = "sparse" if self.listed else "none"
        self.width = 0 if self.listed else len(self.columns)
        self._contents = Contents(self.width)
        self.names = tuple(self.columns) if self.columns and piece.named and not self.listed else None

    def _look(self, piece: TableFile) -> None:
        if self.listed:
            matrix = self._matrix(piece)
            self._sizes.append(np.diff(matrix.indptr))
            self.width = max(self.width, matrix.shape[1])
        elif self.columns:
            dense = self._matrix(piece)
            self._contents.add(dense)
            self._sizes.append(np.count_nonzero(dense, axis=1))

    def _matrix(self, piece: TableFile) -> Any:
        if not self.listed:
            return dense_of(piece.table, self.columns, piece.where) + np.float32(0)  # makes -0 to 0
        return checked_matrix(sparse_rows_of(piece.table, piece.where))

    def described(self) -> TableFile | None:
        return summary(self.first, pa.concat_arrays(self._ids))

    def matrices(self, tell: Tell) -> Iterator[Any]:
        for piece, share in table_pieces(self.path, "attributes", self.header):
            matrix = self._matrix(piece)
            yield sp.csr_array(matrix) if self.storage == "sparse" else matrix
            tell(share)
