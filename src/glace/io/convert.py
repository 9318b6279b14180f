"""Tables to a graph folder in a stream: memory grows with the number of nodes, not of edges or attributes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
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
from glace.graph.codec import encode_ids
from glace.graph.graph import CleaningReport, Graph
from glace.ids import NodeIds, id_array
from glace.io.folder import FolderWriter, read_folder, writing
from glace.io.merging import EdgeMerger
from glace.io.table_file import (
    TableFile,
    check_first_rows,
    table_pieces,
    with_common_ids,
    with_ids_only,
    with_integer_ids,
)
from glace.io.tables import EdgeTable, are_unknown, check_id_kinds, check_policy, edge_table, sorted_ids, unknown_node
from glace.sparse import Matrix, checked_matrix, index_width_of, nonzeros_per_row
from glace.storage.container import pack_strings
from glace.values import NONE, ValueSummary, in_storage

ATTRIBUTES = "types/0/attributes"
IDS_PER_EDGE = 4
"""Looking up string ids builds a hash table of all of them, so edges are looked up in groups of n / 4 at least."""

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
    header: bool = True,
    progress: Progress | None = None,
) -> Graph:
    """Write the graph that `read_tables` would read to a graph folder, without holding it in memory.

    The files are read twice, piece by piece. Memory holds the ids, a few bytes per node, and some megabytes of edges
    or rows. Graphs with texts, mixed columns or node types are written with ``write_folder(read_tables(...), path)``.

    Parameters
    ----------
    edges : path
        File of the edges, see `read_tables`.
    path : path
        The folder to write, by convention NAME.graph. An existing graph folder is replaced.
    attributes : path, optional
        File of numeric attributes.
    directed : bool, default False
        Whether edges have a direction.
    nodes_without_attributes : {"error", "empty"}, default "error"
        What to do with nodes that edges name but that have no row: raise, or give them empty attributes.
    header : bool, default True
        Whether the first row of text files holds the names of columns.
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
    report_progress = progress or (lambda *_: None)
    with writing(path) as writer:
        edge_file = _EdgeFile.scan(edges, header, partial(report_progress, "ids"))
        report_rows = partial(report_progress, "rows")
        rows = None if attributes is None else NodeRows(attributes, header, report_rows)
        plan = _plan(edge_file, rows, header, nodes_without_attributes)
        if len(plan.ids) == 0:
            raise InputError("a graph needs at least one node, but there are no edges and no attributes")
        report = _write_edges(writer, plan, directed, report_progress)
        if rows is not None:
            report = _write_rows(writer, rows, plan, report, partial(report_progress, "attributes"))
        writer.put(encode_ids(plan.ids))
        writer.finish(_metadata(len(plan.ids), rows, directed), report)
    return read_folder(path)


class NodeRows:
    """A file of attributes that was read once: ids, labels, types, and the non-zeros of each row."""

    def __init__(self, path: str | Path, header: bool, report: Report) -> None:
        self.path, self.header = path, header
        self.width = 0
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

    def summary_of_values(self, nodes: int) -> ValueSummary:
        """Return the statistics of the matrix of so many nodes, of which some may have no row in the file."""
        self._summary.rows = nodes
        return self._summary

    def _read_schema(self, piece: TableFile) -> None:
        names, self.where = piece.table.column_names, piece.where
        self.key, self.columns = id_column(names, piece.where), attribute_columns(names, piece.where)
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
        for piece, share in table_pieces(self.path, "attributes", self.header):
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
    """A file of edges that was read once for its ids."""

    path: str | Path
    header: bool
    summary: TableFile
    """The distinct ids, in both id columns."""
    rows: int
    as_integers: bool = False
    """Whether ids that are text in the file are integers."""

    @classmethod
    def scan(cls, path: str | Path, header: bool, report: Report) -> "_EdgeFile":
        ids, rows, first = _DistinctIds(), 0, None
        for piece, share in table_pieces(path, "edges", header):
            table = edge_table(piece.table, piece.where)
            ids.add(pa.concat_arrays([table.source, table.target]))
            rows, first = rows + len(table.source), first or piece
            report(share)
        assert first is not None, "a file has at least one piece"
        return cls(path, header, with_ids_only(first, ids.array()), rows)

    @property
    def ids(self) -> pa.Array:
        """The distinct ids."""
        return id_array(self.summary.id_values()[0])

    def tables(self) -> Iterator[tuple[EdgeTable, float]]:
        """Read the edges again, piece by piece; yield the share of the file read so far with each piece."""
        for piece, share in table_pieces(self.path, "edges", self.header):
            converted = with_integer_ids(piece) if self.as_integers else piece
            assert converted is not None, "all ids are integers"
            yield edge_table(converted.table, converted.where), share

    def groups(self, rows: int) -> Iterator[tuple[list[EdgeTable], float]]:
        """The pieces in groups of at least this many rows, except the last group."""
        group: list[EdgeTable] = []
        share = 1.0
        for table, share in self.tables():
            group.append(table)
            if sum(len(each.source) for each in group) >= rows:
                yield group, share
                group = []
        if group:
            yield group, share


class _DistinctIds:
    """Collects the distinct values of a column that comes in pieces, in the order of their first occurrence."""

    def __init__(self) -> None:
        self.pieces: list[pa.Array] = []
        self.merged, self.pending = 0, 0

    def add(self, values: pa.Array) -> None:
        self.pieces.append(pc.unique(values))
        self.pending += len(self.pieces[-1])
        if self.pending > self.merged:  # the size doubles, so all merges together cost little more than the last
            self.array()

    def array(self) -> pa.Array:
        whole = pc.unique(pa.concat_arrays(self.pieces))
        self.pieces, self.merged, self.pending = [whole], len(whole), 0
        return whole


@dataclass(frozen=True)
class _Plan:
    """The position of every node: all ids in ascending order, and the position of each row of attributes."""

    edges: _EdgeFile
    ids: NodeIds
    rows: Positions = field(default_factory=lambda: np.empty(0, np.int64))
    report: CleaningReport = field(default_factory=CleaningReport)

    def pairs(self, tables: list[EdgeTable]) -> Positions:
        """(E, 2) node numbers of the edges."""
        ids = [*(table.source for table in tables), *(table.target for table in tables)]
        return self.positions(pa.concat_arrays(ids)).reshape(2, -1).T

    def positions(self, column: pa.Array) -> Positions:
        """The node numbers of ids, all of which must exist."""
        if self.ids.are_strings:
            return self.ids.find(column)
        return np.asarray(np.searchsorted(self.ids.to_numpy(), column.to_numpy()))


def _plan(edges: _EdgeFile, rows: NodeRows | None, header: bool, policy: str) -> _Plan:
    nodes = [] if rows is None else [rows.summary]
    if header:
        check_first_rows([edges.summary], nodes)
    named, *described = with_common_ids([edges.summary, *nodes])
    as_integers = named.raw_ids and pa.types.is_integer(named.id_values()[0].type)
    edges = replace(edges, summary=named, as_integers=as_integers)
    if rows is None:
        return _Plan(edges, NodeIds(sorted_ids(edges.ids)))
    known = distinct(ids_of(described[0].table, rows.key, rows.where), rows.where)
    check_id_kinds(edges.ids, named.where, known, rows.where)
    added = edges.ids.filter(pa.array(are_unknown(edges.ids, known)))
    if len(added) and policy == "error":
        errors = (unknown_node(table, "", known, rows.where, len(added)) for table, _ in edges.tables())
        raise next(filter(None, errors))
    ids = sorted_ids(pa.concat_arrays([known.array.cast(added.type), added]) if len(added) else known.array)
    without_edges = len(known) - (len(edges.ids) - len(added))
    report = CleaningReport(nodes_only_in_edges=len(added), nodes_only_in_attributes=without_edges)
    plan = _Plan(edges, NodeIds(ids), report=report)
    return replace(plan, rows=plan.positions(known.array.cast(ids.type)))


def _write_edges(writer: FolderWriter, plan: _Plan, directed: bool, progress: Progress) -> CleaningReport:
    merger = EdgeMerger(writer, len(plan.ids), plan.edges.rows, directed)
    for tables, share in plan.edges.groups(len(plan.ids) // IDS_PER_EDGE):
        merger.add(plan.pairs(tables), np.concatenate([table.weights for table in tables]))
        progress("edges", share)
    progress("merging", 0.0)
    only_in = plan.report.nodes_only_in_edges, plan.report.nodes_only_in_attributes
    return replace(merger.finish(), nodes_only_in_edges=only_in[0], nodes_only_in_attributes=only_in[1])


def _write_rows(
    writer: FolderWriter, rows: NodeRows, plan: _Plan, report: CleaningReport, progress: Report
) -> CleaningReport:
    for name, categories in (("labels", rows.labels), ("node_types", rows.types)):
        if categories is not None:
            codes = np.full(len(plan.ids), -1, dtype=np.int32)
            codes[plan.rows] = categories.codes
            writer.put({f"{name}/codes": codes, **pack_strings(f"{name}/names", categories.names)})
    if rows.feature_names is not None:
        writer.put(pack_strings("types/0/feature_names", rows.feature_names))
    if not rows.columns:
        return report
    counts = rows.write(writer, plan.rows, len(plan.ids), progress)
    return replace(report, empty_attribute_rows=int((counts == 0).sum()))
