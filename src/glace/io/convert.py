"""Tables to a graph folder, in a stream: memory grows with the number of nodes, not of edges or attributes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from glace.categories import Categories
from glace.errors import InputError
from glace.features.columns import distinct
from glace.graph.graph import CleaningReport, Graph
from glace.ids import NodeIds, id_array
from glace.io.folder import FolderWriter, read_folder, writing
from glace.io.merging import EdgeMerger
from glace.io.node_rows import NodeRows, node_rows
from glace.io.table_file import (
    TableFile,
    check_first_row,
    settled,
    summary,
    table_pieces,
    with_integer_ids,
)
from glace.io.tables import EdgeTable, check_choices, check_kinds, edge_table, stranger_in, unknown

IDS_AN_EDGE = 4
"""To find string ids takes a table of all of them each time: so many ids to an edge that is looked for, at most."""

Progress = Callable[[str, float], None]
"""Told the name of a stage and the share of it that is done."""


def convert_tables(
    edges: str | Path,
    path: str | Path,
    attributes: str | Path | None = None,
    *,
    directed: bool = False,
    missing: str = "error",
    header: bool = True,
    progress: Progress | None = None,
) -> Graph:
    """Write the graph that `read_tables` would read to a graph folder, and map it; its nodes in the order of ids.

    The files are read twice, piece by piece. In memory are the ids, a few bytes more for each node, and some
    megabytes of edges or rows. Graphs of texts are read and written whole: `write_folder(read_tables(...), path)`.
    """
    check_choices(attributes, None, missing)
    tell = progress or (lambda *_: None)
    with writing(path) as writer:
        links = _Links.read(edges, header, lambda share: tell("ids", share))
        rows = None
        if attributes is not None:
            rows = node_rows(attributes, header, lambda share: tell("rows", share))
        plan = _plan(links, rows, header, missing)
        found = _write_edges(writer, plan, directed, tell)
        if rows is not None:
            found = _write_rows(writer, rows, plan, found, lambda share: tell("attributes", share))
        writer.put_ids(plan.ids)
        width = len(plan.ids) if rows is None or rows.storage == "none" else rows.width
        writer.finish(directed, width, found)
    return read_folder(path)


@dataclass(frozen=True)
class _Links:
    """A file of edges that was read once."""

    path: str | Path
    header: bool
    named: TableFile
    """The ids its edges name, each once, in both id columns."""
    rows: int
    integers: bool = False
    """Whether ids that are text in the file are numbers."""

    @classmethod
    def read(cls, path: str | Path, header: bool, tell: Callable[[float], None]) -> "_Links":
        ids, rows, first = _Distinct(), 0, None
        for piece, share in table_pieces(path, "edges", header):
            table = edge_table(piece.table, piece.where)
            ids.add(pa.concat_arrays([table.source, table.target]))
            rows, first = rows + len(table.source), first or piece
            tell(share)
        assert first is not None, "a file has at least one piece"
        return cls(path, header, summary(first, ids.array()), rows)

    @property
    def ids(self) -> pa.Array:
        """The ids that edges name, each once."""
        return id_array(self.named.id_values()[0])

    def tables(self) -> Iterator[tuple[EdgeTable, float]]:
        """The edges again, piece by piece, and the share that has been read."""
        for piece, share in table_pieces(self.path, "edges", self.header):
            kept = with_integer_ids(piece) if self.integers else piece
            assert kept is not None, "all ids were seen to be integers"
            yield edge_table(kept.table, kept.where), share


def _grouped(tables: Iterator[tuple[EdgeTable, float]], rows: int) -> Iterator[tuple[list[EdgeTable], float]]:
    """Tables together that have at least so many rows, but for the last."""
    group: list[EdgeTable] = []
    share = 1.0
    for table, share in tables:
        group.append(table)
        if sum(len(each.source) for each in group) >= rows:
            yield group, share
            group = []
    if group:
        yield group, share


class _Distinct:
    """The distinct values of a column that comes in pieces, in the order of their first occurrence."""

    def __init__(self) -> None:
        self.pieces: list[pa.Array] = []
        self.merged, self.pending = 0, 0

    def add(self, values: pa.Array) -> None:
        self.pieces.append(pc.unique(values))
        self.pending += len(self.pieces[-1])
        if self.pending > self.merged:  # so that all merging together costs little more than the last
            self.array()

    def array(self) -> pa.Array:
        whole = pc.unique(pa.concat_arrays(self.pieces))
        self.pieces, self.merged, self.pending = [whole], len(whole), 0
        return whole


@dataclass(frozen=True)
class _Plan:
    """Which node is where: all ids in ascending order, and the place of each row of attributes among them."""

    links: _Links
    ids: NodeIds
    rows: npt.NDArray[np.int64]
    cleaning_report: CleaningReport

    def pairs(self, tables: list[EdgeTable]) -> npt.NDArray[np.int64]:
        """(E, 2) node numbers of edges."""
        ids = [*(table.source for table in tables), *(table.target for table in tables)]
        return self.places(pa.concat_arrays(ids)).reshape(2, -1).T

    def places(self, column: pa.Array) -> npt.NDArray[np.int64]:
        """The node numbers of ids that are all known."""
        if self.ids.are_strings:
            return self.ids.find(column)
        return np.asarray(np.searchsorted(self.ids.to_numpy(), column.to_numpy()))


def _plan(links: _Links, rows: NodeRows | None, header: bool, missing: str) -> _Plan:
    described = rows.described() if rows else None
    files = [links.named, *([described] if described else [])]
    if header:
        check_first_row(*files)
    named, *rest = settled(files)
    integers = named.loose and pa.types.is_integer(named.id_values()[0].type)
    links = replace(links, named=named, integers=integers)
    if rows is None:
        return _checked(_Plan(links, _ascending(links.ids), np.empty(0, np.int64), CleaningReport()))
    known = distinct(rows.ids(rest[0] if rest else None), rows.where)
    check_kinds(links.ids, named.where, known, rows.where)
    strangers = links.ids.filter(pa.array(unknown(links.ids, known)))
    if len(strangers) and missing == "error":
        raise _first_stranger(links, known, rows, len(strangers))
    ids = _ascending(pa.concat_arrays([known.array.cast(strangers.type), strangers]) if len(strangers) else known.array)
    unnamed = len(known) - (len(links.ids) - len(strangers))
    cleaning_report = CleaningReport(nodes_only_in_edges=len(strangers), nodes_only_in_attributes=unnamed)
    plan = _checked(_Plan(links, ids, np.empty(0, np.int64), cleaning_report))
    return replace(plan, rows=plan.places(known.array.cast(ids.array.type)))


def _checked(plan: _Plan) -> _Plan:
    if len(plan.ids) == 0:
        raise InputError("a graph needs at least one node, but there are no edges and no attributes")
    return plan


def _ascending(ids: pa.Array) -> NodeIds:
    return NodeIds(ids.take(pc.sort_indices(ids)))


def _first_stranger(links: _Links, known: NodeIds, rows: NodeRows, count: int) -> InputError:
    errors = (stranger_in(table, known, rows.where, count) for table, _ in links.tables())
    return next(error for error in errors if error)


def _write_edges(writer: FolderWriter, plan: _Plan, directed: bool, tell: Progress) -> CleaningReport:
    merger = EdgeMerger(writer, len(plan.ids), plan.links.rows, directed)
    for tables, share in _grouped(plan.links.tables(), len(plan.ids) // IDS_AN_EDGE):
        merger.add(plan.pairs(tables), np.concatenate([table.weights for table in tables]))
        tell("edges", share)
    tell("merging", 0.0)
    found = merger.finish()
    return replace(
        found,
        nodes_only_in_edges=plan.cleaning_report.nodes_only_in_edges,
        nodes_only_in_attributes=plan.cleaning_report.nodes_only_in_attributes,
    )


def _write_rows(
    writer: FolderWriter, rows: NodeRows, plan: _Plan, found: CleaningReport, tell: Callable[[float], None]
) -> CleaningReport:
    for name, categories in (("labels", rows.labels), ("types", rows.types)):
        if categories is not None:
            codes = np.full(len(plan.ids), -1, dtype=np.int32)
            codes[plan.rows] = categories.codes
            writer.put_categories(name, Categories(codes, categories.names))
    if rows.names is not None:
        writer.put_strings("columns", rows.names)
    if rows.storage == "none":
        return found
    sizes = rows.write(writer, plan.rows, len(plan.ids), tell)
    return replace(found, empty_attribute_rows=int((sizes == 0).sum()))
