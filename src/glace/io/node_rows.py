"""Node tables larger than memory, read twice: once for ids and sizes, once to write each row to its position."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.categories import Categories
from glace.features.columns import (
    Contents,
    are_sparse_rows,
    attribute_columns,
    dense_of,
    id_column,
    ids_of,
    sparse_rows_of,
)
from glace.graph.node_types import checked_matrix
from glace.io.folder import FolderWriter
from glace.io.table_file import TableFile, table_pieces, with_ids_only
from glace.sparse import Matrix, index_width_of, nonzeros_per_row

ATTRIBUTES = "types/0/attributes"

Report = Callable[[float], None]
Positions = npt.NDArray[np.int64]


class NodeRows:
    """A file of attributes that was read once: ids, labels, types, and the non-zeros of each row."""

    def __init__(self, path: str | Path, header: bool, report: Report) -> None:
        self.path, self.header = path, header
        self.storage, self.width = "none", 0
        ids: list[pa.Array] = []
        categories: dict[str, list[pa.Array]] = {"label": [], "type": []}
        self._counts: list[npt.NDArray[np.integer]] = [np.empty(0, np.int64)]
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
        """The ids as a table with the columns of the file."""
        self.labels, self.types = (
            Categories.of(pa.chunked_array(chunks)) if chunks else None for chunks in categories.values()
        )
        if self.columns:
            self.storage = "sparse" if self.lists or self._contents.are_sparse() else "dense"

    def _read_schema(self, piece: TableFile) -> None:
        names, self.where = piece.table.column_names, piece.where
        self.key, self.columns = id_column(names, piece.where), attribute_columns(names, piece.where)
        self.lists = are_sparse_rows(piece.table.schema, self.columns)
        self.width = 0 if self.lists else len(self.columns)
        self._contents = Contents(self.width)
        self.feature_names = tuple(self.columns) if self.columns and piece.named and not self.lists else None

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

    def write(self, writer: FolderWriter, positions: Positions, nodes: int, report: Report) -> Positions:
        """Read the file again and write row k to node positions[k]; return the number of non-zeros of each node."""
        counts = np.zeros(nodes, dtype=np.int64)
        counts[positions] = np.concatenate(self._counts)
        put = _sparse_target(writer, counts, self.width) if self.storage == "sparse" else None
        dense = writer.create(ATTRIBUTES, (nodes, self.width), np.float32) if put is None else None
        first = 0
        for piece, share in table_pieces(self.path, "attributes", self.header):
            matrix = self._matrix(piece)
            here = positions[first : first + matrix.shape[0]]
            if put is not None:
                put(sp.csr_array(matrix), here)
            elif dense is not None:
                dense[here] = matrix
            first += matrix.shape[0]
            report(share)
        return counts


def _sparse_target(writer: FolderWriter, counts: Positions, columns: int) -> Callable[[sp.csr_array, Positions], None]:
    """Create a CSR matrix with these numbers of entries per row; return the function that writes rows to positions."""
    indptr = np.concatenate([[0], np.cumsum(counts)])
    width = index_width_of(columns, int(indptr[-1]))
    writer.put({f"{ATTRIBUTES}/indptr": indptr.astype(width)})
    indices = writer.create(f"{ATTRIBUTES}/indices", (int(indptr[-1]),), width)
    data = writer.create(f"{ATTRIBUTES}/data", (int(indptr[-1]),), np.float32)

    def put(rows: sp.csr_array, positions: Positions) -> None:
        shift = np.repeat(indptr[positions] - rows.indptr[:-1], np.diff(rows.indptr))
        target = shift + np.arange(rows.nnz)
        indices[target], data[target] = rows.indices, rows.data

    return put
