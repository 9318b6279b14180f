"""Tables of several types of nodes to a Graph: a table of attributes for each type, and of edges between types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from glace.categories import Categories
from glace.errors import InputError
from glace.features.columns import RowLocator
from glace.features.frames import arrow_table
from glace.features.pipeline import FeaturePipeline
from glace.graph.graph import CleaningReport, Graph, build
from glace.graph.node_types import NodeType
from glace.ids import NodeIds
from glace.io.tables import (
    EdgeTable,
    NodeTable,
    attribute_table,
    check_kinds,
    check_mixed,
    edge_table,
    extended,
    sorted_ids,
    text_table,
    unknown,
)

Ends = tuple[str, str] | None
"""The types of the sources and of the targets of a table of edges; None where their ids have to tell."""
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TypedEdges:
    """Edges of one table."""

    table: EdgeTable
    ends: Ends

    def columns(self) -> list[tuple[str | None, pa.Array]]:
        """Sources and targets, each with its type."""
        source, target = self.ends or (None, None)
        return [(source, self.table.source), (target, self.table.target)]


def are_typed(*tables: Any) -> bool:
    """Whether tables are given by type: in a dict whose values are tables or files, and not columns."""
    return any(isinstance(each, Mapping) and not _is_columns(each) for each in tables)


def _is_columns(table: Mapping[Any, Any]) -> bool:
    values = list(table.values())
    are_tables = (
        isinstance(each, Mapping | str)
        or hasattr(each, "columns")
        or hasattr(each, "column_names")
        or hasattr(each, "__fspath__")
        for each in values
    )
    return bool(values) and not any(are_tables)


def by_type(given: Any, what: str) -> dict[str, Any]:
    """Tables by type; one that is given for all of them cannot be told apart."""
    if given is None:
        return {}
    if not are_typed(given):
        raise InputError(
            f"{what} must be given by type where others are, as {{'word': ...}} (--{what} TYPE=FILE); say of which "
            "these are"
        )
    wrong = [name for name in given if not isinstance(name, str) or not name]
    if wrong:
        raise InputError(f"{what} are given by the names of types, not by {wrong[0]!r}")
    return dict(given)


def options_by_type(given: Any, what: str, kind: type) -> dict[str, Any]:
    """Kinds of columns, or pipelines, by type."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(each, kind) for each in given.values()):
        raise InputError(f"{what} must be given by type where tables are, as {{'word': ...}}, one for each")
    return dict(given)


def edges_by_ends(edges: Any) -> dict[Ends, Any]:
    """Tables of edges by the types of their ends."""
    if not are_typed(edges):
        return {None: edges}
    if not edges:
        raise InputError("no table of edges came; give at least one, as {('word', 'synset'): ...}")
    return {ends_of(name): table for name, table in edges.items()}


def ends_of(name: Any) -> tuple[str, str]:
    """Types as ("word", "synset") or "word:synset"."""
    ends = tuple(name.split(":")) if isinstance(name, str) else name
    if not isinstance(ends, tuple) or len(ends) != 2 or not all(isinstance(end, str) and end for end in ends):
        raise InputError(f"edges go from a type to a type, as 'word:synset' (word:synset=FILE), not {name!r}")
    return ends[0], ends[1]


class Given(NamedTuple):
    """What was given of each type, checked: tables or files of attributes, of texts, kinds of columns, pipelines."""

    attributes: dict[str, Any]
    texts: dict[str, Any]
    columns: dict[str, Any]
    pipelines: dict[str, Any]

    @classmethod
    def of(cls, attributes: Any, texts: Any, columns: Any, pipeline: Any) -> "Given":
        """A type has attributes or texts, and what else is said is of types that have attributes."""
        given = cls(
            by_type(attributes, "attributes"),
            by_type(texts, "texts"),
            options_by_type(columns, "columns", Mapping),
            options_by_type(pipeline, "pipeline", FeaturePipeline),
        )
        for name in given.attributes:
            check_mixed(given.attributes, given.columns.get(name), given.pipelines.get(name))
        both = sorted(set(given.attributes) & set(given.texts))
        if both:
            raise InputError(f"give attributes or texts of type {both[0]!r}, not both")
        for what, others in (("columns", given.columns), ("pipeline", given.pipelines)):
            strange = sorted(set(others) - set(given.attributes))
            if strange:
                raise InputError(f"{what} of type {strange[0]!r}, which has no table of attributes; leave it out")
        return given


def from_typed_tables(
    edges: Any, attributes: Any, texts: Any, columns: Any, pipeline: Any, directed: bool, missing: str
) -> Graph:
    """What `from_tables` does with tables by type."""
    given = Given.of(attributes, texts, columns, pipeline)
    nodes = {
        name: attribute_table(
            arrow_table(table, f"attributes of {name}"),
            RowLocator(f"attributes of {name}"),
            given.columns.get(name),
            given.pipelines.get(name),
        )
        for name, table in given.attributes.items()
    }
    nodes |= {
        name: text_table(arrow_table(table, f"texts of {name}"), RowLocator(f"texts of {name}"))
        for name, table in given.texts.items()
    }
    links = [
        TypedEdges(edge_table(arrow_table(table, named(ends)), RowLocator(named(ends)), ends is None), ends)
        for ends, table in edges_by_ends(edges).items()
    ]
    return join_types(links, nodes, directed=directed, missing=missing)


def named(ends: Ends) -> str:
    """What messages call edges that are in no file."""
    return "edges" if ends is None else f"edges {ends[0]}:{ends[1]}"


def join_types(edges: Sequence[TypedEdges], nodes: Mapping[str, NodeTable], *, directed: bool, missing: str) -> Graph:
    """The graph of checked tables. Types are sorted by name, and the nodes of one come after those of the one before.

    A type without a table has the nodes that edges between types name, without attributes. Where two types have an id
    in common, or not the same kind of ids, all nodes are called TYPE:ID.
    """
    for name, table in nodes.items():
        if table.node_types is not None:
            raise InputError(f"{table.where.name}: a column 'type', but all nodes are of type {name!r}; drop it")
    names = sorted({*nodes, *(end for each in edges for end in each.ends or ())})
    if not names:
        raise InputError("no table of nodes came; give attributes or texts by type, or edges by type")
    _check_named(names, nodes, edges)
    tables = [_completed(name, nodes.get(name), edges, missing) for name in names]
    counts = [len(table.ids) for table in tables]
    first = np.cumsum([0, *counts])
    pairs = np.concatenate([_pairs(each, names, tables, first) for each in edges])
    ids, shared = _ids(names, tables)
    kinds = np.repeat(np.arange(len(names), dtype=np.int32), counts)
    rows = [len(nodes[name].ids) if name in nodes else None for name in names]
    cleaning_report = _findings(tables, rows, pairs, first)
    parts = [
        NodeType(name, len(each.ids), each.attributes, each.attribute_names, each.pipeline)
        for name, each in zip(names, tables, strict=True)
    ]
    described = any(part.attributes is not None for part in parts)
    return build(
        pairs,
        np.concatenate([each.table.weights for each in edges]),
        ids,
        parts if described else None,
        directed=directed,
        labels=_labels(tables),
        node_types=Categories(kinds, tuple(names)),
        cleaning_report=CleaningReport(**{**cleaning_report, "shared_ids": shared}),
    )


def _check_named(names: list[str], nodes: Mapping[str, NodeTable], edges: Sequence[TypedEdges]) -> None:
    """Raise if edges name a type without a table, and none a type that has one: one of the names is misspelt."""
    by_edges = {end for each in edges for end in each.ends or names}
    unnamed, bare = sorted(set(nodes) - by_edges), sorted(by_edges - set(nodes))
    if unnamed and bare:
        raise InputError(
            f"no edges are of type {unnamed[0]!r}, which has a table, and type {bare[0]!r} of the edges has none; "
            "is one of the names misspelt?"
        )


def _completed(name: str, table: NodeTable | None, edges: Sequence[TypedEdges], missing: str) -> NodeTable:
    """The nodes of a type, with those that only edges name if they are wanted."""
    mentions = [(each.table.where, column) for each in edges for end, column in each.columns() if end == name]
    if table is None:
        where, _ = mentions[0]
        return NodeTable(NodeIds(sorted_ids(_concatenated([column for _, column in mentions], where, name))), where)
    strangers = []
    for where, column in mentions:
        check_kinds(column, where, table.ids, table.where)
        strange = unknown(column, table.ids)
        if strange.any() and missing == "error":
            row = int(np.flatnonzero(strange)[0])
            raise InputError(
                f"{where.row(row)}: node {column[row].as_py()!r} has no row in {table.where.name}; {strange.sum():,} "
                "such rows in all; add the rows, or give such nodes empty attributes",
                hint=("missing", "empty"),
            )
        strangers.append(column.filter(pa.array(strange)))
    found = [each for each in strangers if len(each)]
    return extended(table, sorted_ids(pa.concat_arrays(found))) if found else table


def _concatenated(columns: list[pa.Array], where: RowLocator, name: str) -> pa.Array:
    if len({column.type for column in columns}) > 1:
        raise InputError(f"{where.name}: nodes of type {name!r} are named by integers here and by text there")
    return pa.concat_arrays(columns)


def _pairs(edges: TypedEdges, names: list[str], tables: list[NodeTable], first: Places) -> Places:
    """(E, 2) positions of the ends of a table's edges among all nodes."""
    places = []
    for end, column in edges.columns():
        if end is not None:
            kind = names.index(end)
            places.append(first[kind] + tables[kind].ids.find(column))
        else:
            places.append(_found(column, edges.table.where, names, tables, first))
    return np.column_stack(places)


def _found(column: pa.Array, where: RowLocator, names: list[str], tables: list[NodeTable], first: Places) -> Places:
    """Where the nodes of a column are, of whatever type; none or two types raise."""
    places, seen = np.full(len(column), -1, np.int64), np.zeros(len(column), np.int64)
    for kind, table in enumerate(tables):
        if len(table.ids) and table.ids.array.type == column.type:
            found = table.ids.find(column)
            places, seen = np.where(found >= 0, first[kind] + found, places), seen + (found >= 0)
    if (seen != 1).any():
        row = int(np.flatnonzero(seen != 1)[0])
        node, known = column[row].as_py(), ", ".join(names)
        if seen[row]:
            raise InputError(
                f"{where.row(row)}: {node!r} is a node of several types; say of which the sources and the targets "
                f"are, in that order: such as {names[0]}:{names[-1]}=FILE, or {{('{names[0]}', '{names[-1]}'): table}}"
            )
        raise InputError(f"{where.row(row)}: node {node!r} has no row in the tables of {known}")
    return places


def _ids(names: list[str], tables: list[NodeTable]) -> tuple[NodeIds, int]:
    """The ids of all nodes, and how many of them were those of two types."""
    arrays = [table.ids.array for table in tables if len(table.ids)]
    total = sum(len(each) for each in arrays)
    if len({each.type for each in arrays}) == 1:
        together = pa.concat_arrays(arrays)
        shared = total - len(together.unique())
        if not shared:
            return NodeIds(together), 0
    else:
        shared = total
    called = [f"{name}:{each}" for name, table in zip(names, tables, strict=True) for each in table.ids]
    return NodeIds(called), shared


def _findings(tables: list[NodeTable], rows: list[int | None], pairs: Places, first: Places) -> dict[str, int]:
    """Of all types; `rows` is how many nodes the table of each had, None where it has none."""
    totals = {
        each.name: sum(getattr(table.cleaning_report, each.name) for table in tables) for each in fields(CleaningReport)
    }
    mentioned = np.zeros(int(first[-1]), dtype=bool)
    mentioned[pairs] = True
    for kind, count in enumerate(rows):
        if count is not None:
            of_table = mentioned[first[kind] : first[kind] + count]
            totals["nodes_only_in_attributes"] += count - int(of_table.sum())
            totals["nodes_only_in_edges"] += int(first[kind + 1] - first[kind]) - count
    return totals


def _labels(tables: list[NodeTable]) -> Categories | None:
    if all(table.labels is None for table in tables):
        return None
    return Categories.of([label for each in tables for label in (each.labels or [None] * len(each.ids))])
