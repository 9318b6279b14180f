"""Tables to a graph folder in a stream: edges and ids are kept in a database on disk, attributes are read twice."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.features.columns import (
    are_sparse_rows,
    attribute_columns,
    dense_of,
    distinct,
    id_column,
    ids_of,
    sparse_rows_of,
)
from glace.features.layout import PLAIN, TableLayout
from glace.graph.graph import CleaningReport, Graph
from glace.ids import id_array
from glace.io.by_type import check_policy
from glace.io.edge_database import EdgeDatabase, edge_database
from glace.io.folder import FolderWriter, read_folder, writing
from glace.io.headers import FirstRowIsData, Layouts
from glace.io.merged_ids import advice, different_names
from glace.io.merging import Entries, merged, write_adjacency
from glace.io.table_file import TableFile, check_first_rows, table_pieces, with_ids_only, with_integer_ids
from glace.io.tables import EdgeTable, check_id_kinds, edge_table, unknown_node
from glace.sparse import Matrix, checked_matrix, index_width_of, nonzeros_per_row
from glace.storage.container import pack_strings
from glace.values import NONE, ValueSummary, in_storage

ATTRIBUTES = "types/0/attributes"

Positions = npt.NDArray[np.int64]
Report = Callable[[float], None]
Progress = Callable[[str, float], None]
"""Called with the name of a stage and the share of it that is done."""


def convert_tables(
    edges: str | Path,
    path: str | Path,
    attributes: str | Path | None = None,
    *,
    directed: bool = False,
    nodes_without_attributes: str = "error",
    layout: TableLayout = PLAIN,
    progress: Progress | None = None,
) -> Graph:
    """Write the graph that `read_tables` would read to a graph folder, without holding it in memory.

    The files are read twice, piece by piece; edges and ids are matched and sorted by DuckDB, which keeps on disk, in
    the new folder, what does not fit into 1.4 GB. Rows of attributes take some bytes per node. Ids of edges that are
    the integers 0 to n - 1, each of them used, need not be looked up. Graphs with texts, mixed columns or node types
    are written with ``write_folder(read_tables(...), path)``.

    Parameters
    ----------
    edges : path
        File of the edges, see `read_tables`, or a folder of Parquet files.
    path : path
        The folder to write, by convention NAME.graph. An existing graph folder is replaced.
    attributes : path, optional
        File of numeric attributes, or a folder of Parquet files.
    directed : bool, default False
        Whether edges have a direction.
    nodes_without_attributes : {"error", "empty"}, default "error"
        What to do with nodes that edges name but that have no row: raise, or give them empty attributes.
    layout : TableLayout, optional
        Names of columns, separator, encoding and header, as of `read_tables`.
    progress : callable, optional
        Called with the name of a stage and the share of it that is done.

    Returns
    -------
    Graph
        The memory-mapped graph. Its nodes are sorted by id; apart from that it equals the graph of `read_tables`, bit
        for bit.

    Raises
    ------
    InputError
        If a file cannot be used; the message names the file and the row. The folder is then not written.

    Examples
    --------
    >>> import glace, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "edges.csv")
    ...     _ = path.write_text("source,target\\nann,bob\\nbob,eve\\n")
    ...     mapped = glace.convert_tables(path, f"{folder}/people.graph")
    ...     mapped.fingerprint() == glace.read_tables(path).fingerprint()
    True
    """
    check_policy(nodes_without_attributes)
    layouts, shown = Layouts(layout), progress or (lambda *_: None)
    files = _Files(edges, attributes, directed, nodes_without_attributes)
    while True:
        try:
            _convert(files, path, layouts, shown)
            return read_folder(path)
        except FirstRowIsData as problem:
            layouts.take_as_headerless(problem)


class _Files(NamedTuple):
    """What to convert."""

    edges: str | Path
    attributes: str | Path | None
    directed: bool
    nodes_without_attributes: str


def _convert(files: _Files, path: str | Path, layouts: Layouts, report_progress: Progress) -> None:
    edges, attributes, directed, nodes_without_attributes = files
    with writing(path) as writer:
        with edge_database(writer.folder / "edges") as database:
            edge_file = _EdgeFile.scan(edges, layouts.of(edges), database, partial(report_progress, "ids"))
            rows = None
            if attributes is not None:
                rows = NodeRows(attributes, layouts.of(attributes), partial(report_progress, "rows"))
            edge_file, report = _name_nodes(database, edge_file, rows, nodes_without_attributes)
            nodes = database.count
            if nodes == 0:
                raise InputError("a graph needs at least one node, but there are no edges and no attributes")
            _write_ids(writer, database)
            positions = np.empty(0, np.int64) if rows is None else database.described_nodes()
            report = _write_edges(writer, database, edge_file, directed, report, report_progress)
        if rows is not None:
            report = _write_rows(writer, rows, positions, nodes, report, partial(report_progress, "attributes"))
        notes = (*layouts.notes, *edge_file.notes(), *(() if rows is None else rows.summary.notes))
        writer.finish(_metadata(nodes, rows, directed), replace(report, notes=notes))


class NodeRows:
    """A file of attributes that was read once: ids, labels, types, and the non-zeros of each row."""

    def __init__(self, path: str | Path, layout: TableLayout, report: Report) -> None:
        self.path, self.layout = path, layout
        self.width = 0
        ids: list[pa.Array] = []
        categories: dict[str, list[pa.Array]] = {name: [] for name in layout.categories}
        self._counts: list[npt.NDArray[np.integer]] = [np.empty(0, np.int64)]
        for piece, share in table_pieces(path, "attributes", layout):
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

    def summary_of_values(self, nodes: int) -> ValueSummary:
        """Return the statistics of the matrix of so many nodes, of which some may have no row in the file."""
        self._summary.rows = nodes
        return self._summary

    def _read_schema(self, piece: TableFile) -> None:
        names, self.where = piece.table.column_names, piece.where
        self.key = id_column(names, piece.where, piece.layout)
        self.columns = attribute_columns(names, piece.where, piece.layout)
        self.lists = are_sparse_rows(piece.table.schema, self.columns)
        self.width = 0 if self.lists else len(self.columns)
        self._summary = ValueSummary(self.width)
        self.feature_names = tuple(self.columns) if self.columns and piece.named and not self.lists else None

    def _count(self, piece: TableFile) -> None:
        if not self.columns:
            return
        matrix = self._matrix(piece)
        self._counts.append(nonzeros_per_row(matrix))
        self._summary.add(matrix)
        self.width = max(self.width, matrix.shape[1])

    def _matrix(self, piece: TableFile) -> Matrix:
        if self.lists:
            return checked_matrix(sparse_rows_of(piece.table, piece.where))
        return dense_of(piece.table, self.columns, piece.where) + np.float32(0)  # turns -0 into 0

    def write(self, writer: FolderWriter, positions: Positions, nodes: int, report: Report) -> Positions:
        """Read the file again and write row k to node positions[k]; return the number of non-zeros of each node."""
        counts = np.zeros(nodes, dtype=np.int64)
        counts[positions] = np.concatenate(self._counts)
        if self.summary_of_values(nodes).is_sparse():
            put = _sparse_target(writer, counts, self.width)
        else:
            put = _dense_target(writer, nodes, self.width)
        first = 0
        for piece, share in table_pieces(self.path, "attributes", self.layout):
            matrix = self._matrix(piece)
            put(positions[first : first + matrix.shape[0]], matrix)
            first += matrix.shape[0]
            report(share)
        return counts


def _dense_target(writer: FolderWriter, nodes: int, columns: int) -> Callable[[Positions, Matrix], None]:
    """Create a dense matrix; return the function that writes rows to positions."""
    rows = writer.create(ATTRIBUTES, (nodes, columns), np.float32)

    def put(positions: Positions, matrix: Matrix) -> None:
        # The last columns of sparse rows may be missing in a piece.
        rows[positions, : matrix.shape[1]] = in_storage(matrix, sparse=False)

    return put


def _sparse_target(writer: FolderWriter, counts: Positions, columns: int) -> Callable[[Positions, Matrix], None]:
    """Create a CSR matrix with these numbers of entries per row; return the function that writes rows to positions."""
    indptr = np.concatenate([[0], np.cumsum(counts)])
    width = index_width_of(columns, int(indptr[-1]))
    writer.put({f"{ATTRIBUTES}/indptr": indptr.astype(width)})
    indices = writer.create(f"{ATTRIBUTES}/indices", (int(indptr[-1]),), width)
    data = writer.create(f"{ATTRIBUTES}/data", (int(indptr[-1]),), np.float32)

    def put(positions: Positions, matrix: Matrix) -> None:
        rows = sp.csr_array(matrix)
        shift = np.repeat(indptr[positions] - rows.indptr[:-1], np.diff(rows.indptr))
        target = shift + np.arange(rows.nnz)
        indices[target], data[target] = rows.indices, rows.data

    return put


def _metadata(nodes: int, rows: NodeRows | None, directed: bool) -> dict[str, object]:
    """The metadata of `glace.graph.codec` for a graph of one node type."""
    only: dict[str, object] = {"name": "", "count": nodes, "width": None, "sparse": True, "scaling": NONE}
    if rows is not None and rows.columns:
        summary = rows.summary_of_values(nodes)
        only |= {"width": rows.width, "sparse": summary.is_sparse(), "scaling": summary.scaling()}
    return {"nodes": nodes, "directed": directed, "types": [only]}


@dataclass(frozen=True)
class _EdgeFile:
    """A file, or folder of files, of edges that was read once for its ids."""

    path: str | Path
    layout: TableLayout
    first: TableFile
    """Its first rows."""
    kind: pa.DataType
    """Type of the ids."""

    @classmethod
    def scan(cls, path: str | Path, layout: TableLayout, database: EdgeDatabase, report: Report) -> "_EdgeFile":
        """Read the ids of all edges into a database."""
        pieces = table_pieces(path, "edges", layout)
        first, share = next(pieces)
        kind = edge_table(first.table, first.where, layout=first.layout).source.type

        def columns() -> Iterator[pa.Array]:
            for piece, share_read in itertools.chain([(first, share)], pieces):
                table = _checked(edge_table(piece.table, piece.where, layout=piece.layout), kind)
                yield from (table.source, table.target)
                report(share_read)

        database.add_names(columns(), kind)
        return cls(path, layout, first, kind)

    def notes(self) -> list[str]:
        """Return what may surprise about the file; which ids are in both columns is not counted."""
        where, names = self.first.where, self.first.ids
        different = different_names((names[0], names[1]))
        said = [advice(where.name, (names[0], names[1]), "ids that occur")] if different else []
        return [*self.first.notes, *said]

    def summary(self, ids: pa.Array) -> TableFile:
        """Return a table with the columns of the file and these ids."""
        return with_ids_only(self.first, ids)

    def tables(self) -> Iterator[tuple[EdgeTable, float]]:
        """Read the edges again, piece by piece; yield the share of the file read so far with each piece."""
        as_integers = self.first.raw_ids and pa.types.is_integer(self.kind)
        for piece, share in table_pieces(self.path, "edges", self.layout):
            converted = with_integer_ids(piece) if as_integers else piece
            assert converted is not None, "all ids are integers"
            yield edge_table(converted.table, converted.where, layout=converted.layout), share


def _checked(table: EdgeTable, kind: pa.DataType) -> EdgeTable:
    """Return edges with ids of a type; those of an empty piece have none."""
    if len(table.source) and table.source.type != kind:
        raise InputError(
            f"{table.where.name}: ids are {table.source.type}, but in other files {kind}; make them the same"
        )
    return replace(table, source=table.source.cast(kind), target=table.target.cast(kind))


def _name_nodes(
    database: EdgeDatabase, edges: _EdgeFile, rows: NodeRows | None, policy: str
) -> tuple[_EdgeFile, CleaningReport]:
    """Number all nodes, named by edges or described by rows; ids that are all written as integers become integers."""
    names = edges.first.table.column_names + ([] if rows is None else rows.summary.table.column_names)
    named = edges.summary(database.names_among(names))
    nodes = [] if rows is None else [rows.summary]
    check_first_rows([named], nodes)
    described = [with_integer_ids(file) for file in nodes]
    integers = pa.types.is_integer(edges.kind) or (edges.first.raw_ids and database.names_are_integers())
    if integers and None not in described:
        nodes = [file for file in described if file is not None]
        if not pa.types.is_integer(edges.kind):
            database.make_names_integers()
            edges = replace(edges, kind=pa.int64())
    report = CleaningReport() if rows is None else _describe(database, edges, rows, nodes[0], policy)
    database.number_nodes()
    return edges, report


def _describe(database: EdgeDatabase, edges: _EdgeFile, rows: NodeRows, file: TableFile, policy: str) -> CleaningReport:
    """Add the ids of rows to the database; what to do with other nodes says the policy."""
    known = distinct(ids_of(file.table, rows.key, rows.where), rows.where)
    check_id_kinds(id_array(database.first_names()), edges.first.where, known, rows.where)
    count = database.count_names()
    added = database.add_described(known.array if len(known) else known.array.cast(edges.kind))
    if added and policy == "error":
        errors = (unknown_node(table, "", known, rows.where, added) for table, _ in edges.tables())
        raise next(filter(None, errors))
    return CleaningReport(nodes_only_in_edges=added, nodes_only_in_attributes=len(known) - (count - added))


def _write_ids(writer: FolderWriter, database: EdgeDatabase) -> None:
    """Write the ids as `glace.graph.codec.encode_ids` does, in a stream."""
    if database.numbered:
        return
    if not database.has_texts:
        with writer.stream("ids", np.int64) as numbers:
            for ids in database.ids():
                numbers.append(ids.to_numpy())
        return
    total = 0
    with writer.stream("ids/bytes", np.uint8) as letters, writer.stream("ids/offsets", np.int64) as ends:
        ends.append([0])
        for ids in database.ids():
            packed = pack_strings("ids", ids)
            letters.append(packed["ids/bytes"])
            ends.append(total + packed["ids/offsets"][1:])
            total += int(packed["ids/offsets"][-1])


def _write_edges(
    writer: FolderWriter,
    database: EdgeDatabase,
    edges: _EdgeFile,
    directed: bool,
    report: CleaningReport,
    progress: Progress,
) -> CleaningReport:
    def batches() -> Iterator[pa.RecordBatch]:
        for table, share in edges.tables():
            checked = _checked(table, edges.kind)
            weights = pa.array(checked.weights.astype(np.float32))
            yield pa.record_batch({"source": checked.source, "target": checked.target, "weight": weights})
            progress("edges", share)

    self_loops = database.add_edges(batches(), edges.kind)
    total = database.count_edges()
    entries = _reported(database.entries(), 2 * total, partial(progress, "merging"))
    found = write_adjacency(writer, merged(entries), database.count, total, directed)
    only_in = report.nodes_only_in_edges, report.nodes_only_in_attributes
    return replace(found, self_loops=self_loops, nodes_only_in_edges=only_in[0], nodes_only_in_attributes=only_in[1])


def _reported(parts: Iterator[Entries], total: int, report: Report) -> Iterator[Entries]:
    done = 0
    report(0.0)
    for part in parts:
        yield part
        done += len(part.rows)
        report(min(done / max(total, 1), 1.0))


def _write_rows(
    writer: FolderWriter, rows: NodeRows, positions: Positions, nodes: int, report: CleaningReport, progress: Report
) -> CleaningReport:
    for name, categories in (("labels", rows.labels), ("node_types", rows.types)):
        if categories is not None:
            codes = np.full(nodes, -1, dtype=np.int32)
            codes[positions] = categories.codes
            writer.put({f"{name}/codes": codes, **pack_strings(f"{name}/names", categories.names)})
    if rows.feature_names is not None:
        writer.put(pack_strings("types/0/feature_names", rows.feature_names))
    if not rows.columns:
        return report
    counts = rows.write(writer, positions, nodes, progress)
    return replace(report, empty_attribute_rows=int((counts == 0).sum()))
