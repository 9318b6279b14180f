"""Tables with ids to a Graph: edges, and attributes or texts for each node type, T >= 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from glace.categories import Categories
from glace.errors import InputError
from glace.features.columns import (
    Frame,
    RowLocator,
    are_sparse_rows,
    arrow_table,
    attribute_columns,
    dense_of,
    distinct,
    edge_columns,
    id_column,
    ids_of,
    is_text,
    label_and_type,
    sparse_rows_of,
    texts_of,
    weights_of,
)
from glace.features.guess import guessed_kinds, guesses_line
from glace.features.layout import PLAIN, TableLayout, layout_of, resolved
from glace.features.pipeline import FeaturePipeline, Kinds, distinct_columns
from glace.features.text import TextVocabulary
from glace.graph.graph import CleaningReport, Graph, NodeType, build
from glace.ids import NodeIds, plain_array
from glace.io.by_type import (
    Columns,
    EdgeTables,
    Ends,
    NodeSource,
    NodeTables,
    Pipelines,
    check_policy,
    tables_by_type,
    types_of,
)
from glace.io.merged_ids import merged_ids_note
from glace.sparse import Matrix, nonzeros_per_row

Positions = npt.NDArray[np.int64]
MOST_COLUMN_BYTES = 64 << 20
"""A larger column of text is not kept with the graph."""


@dataclass(frozen=True)
class EdgeTable:
    """Checked edges: the ids of both ends and a valid weight for each."""

    source: pa.Array
    target: pa.Array
    weights: npt.NDArray[np.floating]
    where: RowLocator
    ends: Ends = ("", "")
    """Node types of the sources and of the targets; None if the ids decide."""
    names: tuple[str, str] = ("source", "target")
    """Names of the columns."""

    def columns_of(self, node_type: str) -> list[pa.Array]:
        """The columns that hold ids of this node type."""
        columns = zip(self.ends or (), (self.source, self.target), strict=False)
        return [column for end, column in columns if end == node_type]


@dataclass(frozen=True)
class NodeTable:
    """Checked nodes of one type: distinct ids, and for each a row of attributes, a label and a type, if given."""

    ids: NodeIds
    where: RowLocator
    attributes: Matrix | None = None
    labels: Categories | None = None
    node_types: Categories | None = None
    pipeline: FeaturePipeline | None = None
    feature_names: tuple[str, ...] | None = None
    cleaning_report: CleaningReport = field(default_factory=CleaningReport)
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    """Columns of text, for people to read."""
    zero_rows: int = 0
    """Rows that are all zeros although a cell has a value: numbers at their means."""


def from_tables(
    edges: EdgeTables[Frame],
    attributes: NodeTables[Frame] = None,
    *,
    texts: NodeTables[Frame] = None,
    columns: Columns = None,
    pipeline: Pipelines = None,
    directed: bool = False,
    nodes_without_attributes: str = "error",
    layout: TableLayout = PLAIN,
) -> Graph:
    """Make a graph from tables that name nodes by their ids.

    Tables are frames of pandas or polars, pyarrow tables, or dicts of columns. With several node types there is one
    table per type: `attributes`, `texts`, `columns` and `pipeline` are then dicts by type.

    Parameters
    ----------
    edges : table, or dict of tables
        The columns `source`, `target` and optionally `weight` (above 0). Without these names the first two columns
        and, as the weight, the third. With node types, a dict by the types of both ends, such as
        ``{("word", "synset"): frame}``; a type may then have no node table, and types may share ids. In one table for
        all types the ids must be unique.
    attributes : table, or dict of tables, optional
        The column `id` (otherwise the first), `label` and `type` if present, and numbers in all other columns. For
        sparse attributes, two columns of lists: `columns`, where a row is not zero, and `values`. The values decide
        how attributes are stored and scaled, as with `from_arrays`.
    texts : table, or dict of tables, optional
        Instead of attributes: `id`, `text` (otherwise the other column), `label` and `type`. The words become TF-IDF
        attributes.
    columns : dict of str to str, optional
        Kinds of the columns of `attributes`: "number", "category", "text", "sentence:MODEL" or "drop". Numbers may
        then be missing. Kinds that are not given are guessed if a column does not hold numbers;
        `graph.cleaning_report` says so.
    pipeline : FeaturePipeline, optional
        The pipeline of another graph or of a model, applied instead of learning one from the columns.
    directed : bool, default False
        Whether edges have a direction.
    nodes_without_attributes : {"error", "empty"}, default "error"
        What to do with nodes that edges name but that have no row in their table: raise, or append them to the
        table's nodes, sorted, with empty attributes.
    layout : TableLayout, optional
        Names of the columns, if they differ from those above.

    Returns
    -------
    Graph
        The nodes in the order of the table, or sorted by id without one; types in the order of their names. Nodes
        without edges are kept. `graph.cleaning_report` counts what was merged, dropped or added. If two types share an
        id, all nodes are named TYPE:ID.

    Raises
    ------
    InputError
        If a table cannot be used; the message names the table and the row.

    Examples
    --------
    >>> import glace
    >>> edges = {"source": ["ann", "bob"], "target": ["bob", "eve"]}
    >>> people = {"id": ["ann", "bob", "eve"], "age": [30, 41, 25], "town": ["Bern", "Genf", "Bern"]}
    >>> graph = glace.from_tables(edges, people, columns={"town": "category"})
    >>> graph.num_nodes, graph.num_edges, graph.num_attributes
    (3, 2, 3)
    """
    edge_frames, sources = tables_by_type(edges, attributes, texts, columns, pipeline)
    check_policy(nodes_without_attributes)
    nodes = {}
    for name, source in sources.items():
        label = f"{source.role} of {name}" if name else source.role
        table = arrow_table(source.table, label)
        found = resolved(layout_of(layout, name), table.column_names, source.role, label)
        nodes[name] = node_table(table, RowLocator(label), replace(source, layout=found))
    links = []
    for ends, frame in edge_frames.items():
        label = f"edges {types_of(ends)}" if ends and ends[0] else "edges"
        links.append(edge_table(arrow_table(frame, label), RowLocator(label), ends, layout_of(layout, types_of(ends))))
    return join(links, nodes, directed=directed, nodes_without_attributes=nodes_without_attributes)


def edge_table(table: pa.Table, where: RowLocator, ends: Ends = ("", ""), layout: TableLayout = PLAIN) -> EdgeTable:
    """The edges of an Arrow table; both ends must have the same kind of id, unless they are of two node types."""
    source, target, *weight = edge_columns(table.column_names, where, layout)
    sources, targets = (ids_of(table, name, where) for name in (source, target))
    if table.num_rows == 0:
        targets = targets.cast(sources.type)
    if (ends is None or ends[0] == ends[1]) and sources.type != targets.type:
        raise InputError(
            f"{where.name}: column {source!r} holds {_kind(sources)} and {target!r} {_kind(targets)}; "
            "both must hold the same kind of id"
        )
    weights = weights_of(table, weight[0], where) if weight else np.ones(table.num_rows, dtype=np.float32)
    return EdgeTable(sources, targets, weights, where, ends, (source, target))


def node_table(table: pa.Table, where: RowLocator, source: NodeSource) -> NodeTable:
    """The nodes of an Arrow table of attributes or texts."""
    if source.role == "texts":
        nodes = text_table(table, where, source.layout)
    else:
        nodes = attribute_table(table, where, source.columns, source.pipeline, source.layout)
    used = (id_column(table.column_names, where, source.layout), *source.layout.categories)
    columns = {name: table.column(name) for name in table.column_names if name not in used}
    return replace(nodes, columns={name: _readable(each) for name, each in columns.items() if is_text(each.type)})


def _readable(column: pa.ChunkedArray) -> pa.Array:
    """A column of text, "" where it has no value."""
    plain = pa.concat_arrays([plain_array(chunk) for chunk in column.chunks] or [pa.array([], pa.large_string())])
    return pc.fill_null(plain, "")


def attribute_table(
    table: pa.Table,
    where: RowLocator,
    kinds: Kinds | None = None,
    pipeline: FeaturePipeline | None = None,
    layout: TableLayout = PLAIN,
) -> NodeTable:
    """The nodes of an Arrow table of numbers, of sparse rows or, with kinds or a pipeline, of mixed columns.

    Kinds that are not given are guessed if a column does not hold numbers.
    """
    key = id_column(table.column_names, where, layout)
    columns = attribute_columns(table.column_names, where, layout)
    ids = distinct(ids_of(table, key, where), where)
    categories = label_and_type(table, key, layout)
    sparse_rows = are_sparse_rows(table.schema, columns)
    if kinds is not None and sparse_rows:
        raise InputError(f"{where.name}: sparse rows hold numbers only; leave out the kinds of columns")
    guesses = (
        {}
        if pipeline is not None or sparse_rows
        else guessed_kinds(table, [each for each in columns if each not in (kinds or {})])
    )
    notes = (guesses_line(where.name, guesses),) if guesses else ()
    if guesses:
        kinds = {name: each.kind for name, each in guesses.items()} | dict(kinds or {})
    if kinds is not None:
        pipeline = FeaturePipeline.learn(table, columns, kinds, where)
        # New tables may have the labels or not, whatever their name.
        pipeline = replace(pipeline, dropped=(*pipeline.dropped, *given_label(layout)))
    if pipeline is not None:
        matrix, counts = pipeline.mixed(pipeline.chosen(table, key, where, layout), where)
        missing, unknown = sum(each.missing for each in counts), sum(each.unknown for each in counts)
        alike = 0 if kinds is None else distinct_columns(pipeline, len(ids))
        report = CleaningReport(missing_values=missing, unknown_values=unknown, distinct_columns=alike, notes=notes)
        zeros = nonzeros_per_row(matrix) == 0
        at_mean = int((zeros & pipeline.have_numbers(table, where)).sum())
        nodes = NodeTable(ids, where, matrix, *categories, pipeline=pipeline, cleaning_report=report)
        return replace(nodes, zero_rows=at_mean)
    if sparse_rows:
        return NodeTable(ids, where, sparse_rows_of(table, where), *categories)
    dense = dense_of(table, columns, where) if columns else None
    return NodeTable(ids, where, dense, *categories, feature_names=tuple(columns) or None)


def given_label(layout: TableLayout) -> list[str]:
    """The name of the column of labels, if it is not the usual one."""
    return [] if layout.label_column is None else [layout.label]


def text_table(table: pa.Table, where: RowLocator, layout: TableLayout = PLAIN) -> NodeTable:
    """The nodes of an Arrow table of texts; a missing text is empty."""
    key = id_column(table.column_names, where, layout)
    ids, texts = distinct(ids_of(table, key, where), where), texts_of(table, where, layout)
    try:
        vocabulary = TextVocabulary.learn(texts)
    except InputError as problem:
        raise InputError(f"{where.name}: {problem}") from problem
    categories = label_and_type(table, key, layout)
    return NodeTable(ids, where, vocabulary.attributes(texts), *categories, FeaturePipeline.of_texts(vocabulary))


def join(
    edges: Sequence[EdgeTable], nodes: Mapping[str, NodeTable], *, directed: bool, nodes_without_attributes: str
) -> Graph:
    """The graph of checked tables: types sorted by name, and each type's nodes in the order of its table.

    A type without a table has the nodes that edges name, sorted and without attributes. If two types share an id, or
    have different kinds of ids, all nodes are named TYPE:ID.
    """
    names = _type_names(edges, nodes)
    tables = [_completed(name, nodes.get(name), edges, nodes_without_attributes) for name in names]
    first = np.cumsum([0, *(len(table.ids) for table in tables)])
    pairs = _stacked([_pairs(each, names, tables, first) for each in edges])
    ids, shared_ids = _ids(names, tables)
    rows = [len(nodes[name].ids) if name in nodes else None for name in names]
    types = [
        NodeType(name, len(table.ids), table.attributes, table.feature_names, table.pipeline)
        for name, table in zip(names, tables, strict=True)
    ]
    graph = build(
        pairs,
        _stacked([each.weights for each in edges]),
        ids,
        types if any(each.attributes is not None for each in types) else None,
        directed=directed,
        labels=_labels(tables),
        node_types=_node_types(names, tables),
        cleaning_report=replace(
            _cleaning_report(tables, rows, pairs, first),
            shared_ids=shared_ids,
            notes=(
                *_merged_ids(edges),
                *_spaced_ids(ids),
                *(note for each in tables for note in each.cleaning_report.notes),
            ),
        ),
    )
    report = graph.cleaning_report
    empty = report.empty_attribute_rows - sum(table.zero_rows for table in tables)
    return replace(
        graph, cleaning_report=replace(report, empty_attribute_rows=empty), node_columns=_node_columns(tables)
    )


def _node_columns(tables: list[NodeTable]) -> dict[str, pa.Array]:
    """The text columns of all types; a type that lacks one has "". Without those that would make files large."""
    names = dict.fromkeys(name for table in tables for name in table.columns)
    whole = {
        name: pa.concat_arrays([table.columns.get(name, _blank(len(table.ids))) for table in tables]) for name in names
    }
    return {name: column for name, column in whole.items() if column.nbytes <= MOST_COLUMN_BYTES}


def _merged_ids(edges: Sequence[EdgeTable]) -> list[str]:
    plain = [each for each in edges if each.ends == ("", "")]
    notes = (merged_ids_note(each.where.name, each.names, each.source, each.target) for each in plain)
    return [note for note in notes if note is not None]


def _spaced_ids(ids: NodeIds) -> list[str]:
    """Say how many ids differ from another one by spaces only."""
    if not ids.are_strings:
        return []
    trimmed = pc.utf8_trim_whitespace(ids.array)
    spaced = pc.and_(pc.not_equal(trimmed, ids.array), pc.is_in(trimmed, value_set=ids.array))
    found = ids.array.filter(spaced)
    if not len(found):
        return []
    return [
        f"{len(found):,} ids differ from another id by spaces only (first: {found[0].as_py()!r}); they are other nodes"
    ]


def _type_names(edges: Sequence[EdgeTable], nodes: Mapping[str, NodeTable]) -> list[str]:
    for name, table in nodes.items():
        if name and table.node_types is not None:
            raise InputError(f"{table.where.name}: a column 'type', but all nodes are of type {name!r}; drop it")
    names = sorted({*nodes, *(end for each in edges for end in each.ends or ())})
    if not names:
        raise InputError("there is no table of nodes; give attributes or texts by type, or edges by type")
    by_edges = {end for each in edges for end in each.ends or names}
    without_edges, without_table = sorted(set(nodes) - by_edges), sorted(by_edges - set(nodes))
    if without_edges and without_table:
        raise InputError(
            f"type {without_edges[0]!r} has a table but no edges, and type {without_table[0]!r} has edges but no "
            "table; is one of the names misspelt?"
        )
    return names


def _completed(name: str, table: NodeTable | None, edges: Sequence[EdgeTable], policy: str) -> NodeTable:
    """The nodes of a type, including those that only edges name."""
    if table is None:
        mentions = [(each.where, column) for each in edges for column in each.columns_of(name)]
        return NodeTable(NodeIds(sorted_ids(_concatenated(mentions, name))), mentions[0][0])
    unknown = []
    for each in edges:
        for column in each.columns_of(name):
            check_id_kinds(column, each.where, table.ids, table.where)
            unknown.append(column.filter(pa.array(are_unknown(column, table.ids))))
    found = [column for column in unknown if len(column)]
    if not found:
        return table
    added = sorted_ids(pa.concat_arrays(found))
    if policy == "error":
        raise next(filter(None, (unknown_node(each, name, table.ids, table.where, len(added)) for each in edges)))
    return _extended(table, added)


def _concatenated(mentions: list[tuple[RowLocator, pa.Array]], name: str) -> pa.Array:
    columns = [column for _, column in mentions]
    if len({column.type for column in columns}) > 1:
        places = ", ".join(dict.fromkeys(where.name for where, _ in mentions))
        raise InputError(f"nodes of type {name!r} are named by integers and by text ({places}); make them the same")
    return pa.concat_arrays(columns)


def sorted_ids(ids: pa.Array) -> pa.Array:
    """The distinct ids in ascending order."""
    distinct_ids = pc.unique(ids)
    return distinct_ids.take(pc.sort_indices(distinct_ids))


def _kind(ids: pa.Array) -> str:
    return "integers" if pa.types.is_integer(ids.type) else "text"


def check_id_kinds(named: pa.Array, edges: RowLocator, ids: NodeIds, nodes: RowLocator) -> None:
    """Raise unless edges name nodes by the kind of id that the nodes have."""
    if len(ids) and len(named) and ids.array.type != named.type:
        raise InputError(
            f"{edges.name} names nodes by {_kind(named)} (such as {named[0].as_py()!r}), "
            f"{nodes.name} by {_kind(ids.array)} (such as {ids[0]!r}); make them the same"
        )


def are_unknown(column: pa.Array, ids: NodeIds) -> npt.NDArray[np.bool_]:
    """Whether each id of a column is not among `ids`."""
    # The ids of an empty table have no kind, so they may not be comparable with those of the edges.
    return np.asarray(ids.find(column) < 0) if len(ids) else np.ones(len(column), dtype=np.bool_)


def unknown_node(edges: EdgeTable, node_type: str, ids: NodeIds, nodes: RowLocator, count: int) -> InputError | None:
    """The error for the first edge that names one of the `count` nodes without a row; None if no edge here does."""
    columns = edges.columns_of(node_type)
    unknown = [are_unknown(column, ids) for column in columns]
    bad_rows = np.flatnonzero(np.logical_or.reduce(unknown)) if columns else np.empty(0)
    if len(bad_rows) == 0:
        return None
    row = int(bad_rows[0])
    node = next(column[row].as_py() for column, bad in zip(columns, unknown, strict=True) if bad[row])
    alike = ids.alike_but_for_spaces(node)
    spaces = "" if alike is None else f", but {alike!r} has, which differs by spaces only"
    return InputError(
        f"{edges.where.row(row)}: node {node!r} has no row in {nodes.name}{spaces}; {count:,} such "
        f"node{'s'[: count > 1]} in all; add the rows, or give such nodes empty attributes",
        hint=("nodes_without_attributes", "empty"),
    )


def _extended(nodes: NodeTable, added: pa.Array) -> NodeTable:
    """The node table with these nodes appended, without attributes."""
    count, attributes = len(added), nodes.attributes
    if isinstance(attributes, np.ndarray):
        attributes = np.pad(attributes, ((0, count), (0, 0)))
    elif attributes is not None:
        attributes = attributes.copy()
        attributes.resize(len(nodes.ids) + count, attributes.shape[1])
    return replace(
        nodes,
        ids=NodeIds(pa.concat_arrays([nodes.ids.array.cast(added.type), added])),
        attributes=attributes,
        labels=_padded(nodes.labels, count),
        node_types=_padded(nodes.node_types, count),
        columns={name: pa.concat_arrays([each, _blank(count)]) for name, each in nodes.columns.items()},
    )


def _blank(count: int) -> pa.Array:
    return pa.repeat(pa.scalar("", pa.large_string()), count)


def _padded(categories: Categories | None, count: int) -> Categories | None:
    if categories is None:
        return None
    return replace(categories, codes=np.append(categories.codes, np.full(count, -1, dtype=np.int32)))


def _stacked(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _pairs(edges: EdgeTable, names: list[str], tables: list[NodeTable], first: Positions) -> Positions:
    """(E, 2) positions of the ends of a table's edges among all nodes; `first` is where each type starts."""
    if edges.ends is None:
        columns = [_found(column, edges.where, names, tables, first) for column in (edges.source, edges.target)]
        return np.column_stack(columns)
    codes = [names.index(end) for end in edges.ends]
    found = [tables[code].ids.find(column) for code, column in zip(codes, (edges.source, edges.target), strict=True)]
    return np.column_stack([first[code] + rows for code, rows in zip(codes, found, strict=True)])


def _found(
    column: pa.Array, where: RowLocator, names: list[str], tables: list[NodeTable], first: Positions
) -> Positions:
    """Positions of nodes of any type; an id of no type or of several types raises."""
    positions, matches = np.full(len(column), -1, np.int64), np.zeros(len(column), np.int64)
    for code, table in enumerate(tables):
        if len(table.ids) and table.ids.array.type == column.type:
            rows = table.ids.find(column)
            positions, matches = np.where(rows >= 0, first[code] + rows, positions), matches + (rows >= 0)
    if (matches == 1).all():
        return positions
    row = int(np.flatnonzero(matches != 1)[0])
    node = column[row].as_py()
    if matches[row] == 0:
        raise InputError(f"{where.row(row)}: node {node!r} has no row in the tables of {', '.join(names)}")
    raise InputError(
        f"{where.row(row)}: {node!r} is a node of several types; give the edges by the types of their sources and "
        f"targets, such as {names[0]}:{names[-1]}=FILE, or {{('{names[0]}', '{names[-1]}'): table}}"
    )


def _ids(names: list[str], tables: list[NodeTable]) -> tuple[NodeIds, int]:
    """The ids of all nodes, and how many of them occurred in two types."""
    if len(tables) == 1:
        return tables[0].ids, 0
    arrays = [table.ids.array for table in tables if len(table.ids)]
    total = sum(len(each) for each in arrays)
    shared = total
    if len({each.type for each in arrays}) == 1:
        together = pa.concat_arrays(arrays)
        shared -= len(together.unique())
        if not shared:
            return NodeIds(together), 0
    return NodeIds([f"{name}:{each}" for name, table in zip(names, tables, strict=True) for each in table.ids]), shared


def _labels(tables: list[NodeTable]) -> Categories | None:
    if len(tables) == 1 or all(table.labels is None for table in tables):
        return tables[0].labels
    return Categories.of([label for each in tables for label in (each.labels or [None] * len(each.ids))])


def _node_types(names: list[str], tables: list[NodeTable]) -> Categories | None:
    if names == [""]:
        return tables[0].node_types
    codes = np.repeat(np.arange(len(names), dtype=np.int32), [len(table.ids) for table in tables])
    return Categories(codes, tuple(names))


def _cleaning_report(
    tables: list[NodeTable], rows: list[int | None], pairs: Positions, first: Positions
) -> CleaningReport:
    """Counts over all types; `rows` is the number of rows of each type's table, None if it has none."""
    totals = {
        each.name: sum(getattr(table.cleaning_report, each.name) for table in tables)
        for each in fields(CleaningReport)
        if each.name != "notes"
    }
    mentioned = np.zeros(int(first[-1]), dtype=bool)
    mentioned[pairs] = True
    for code, count in enumerate(rows):
        if count is not None:
            in_table = mentioned[first[code] : first[code] + count]
            totals["nodes_only_in_attributes"] += count - int(in_table.sum())
            totals["nodes_only_in_edges"] += int(first[code + 1] - first[code]) - count
    return CleaningReport(**totals)
