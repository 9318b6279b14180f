"""Tables with ids to a Graph: an edge table, and attributes or texts for each node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.features.columns import (
    RowLocator,
    are_sparse_rows,
    distinct,
    ids_of,
    is_text,
    label_and_type,
    matrix_of,
    sparse_rows_of,
    weights_of,
)
from glace.features.frames import arrow_table
from glace.features.pipeline import FeaturePipeline, Kinds, distinct_columns
from glace.features.rows import attribute_columns, id_column
from glace.features.text import TextVocabulary
from glace.graph.graph import CleaningReport, Graph, build
from glace.graph.node_types import NodeType
from glace.ids import NodeIds

MISSING = ("error", "empty")


@dataclass(frozen=True)
class EdgeTable:
    """Checked edges: ids of one kind, and a usable weight for each."""

    source: pa.Array
    target: pa.Array
    weights: npt.NDArray[Any]
    where: RowLocator


@dataclass(frozen=True)
class NodeTable:
    """Checked nodes: distinct ids, and for each a row of attributes, a label and a type, where given."""

    ids: NodeIds
    where: RowLocator
    attributes: Any = None
    labels: Categories | None = None
    node_types: Categories | None = None
    pipeline: FeaturePipeline | None = None
    attribute_names: tuple[str, ...] | None = None
    cleaning_report: CleaningReport = field(default_factory=CleaningReport)


def from_tables(
    edges: Any,
    attributes: Any = None,
    *,
    texts: Any = None,
    columns: Any = None,
    pipeline: Any = None,
    directed: bool = False,
    missing: str = "error",
) -> Graph:
    """A graph from tables that name nodes by their ids (pandas, polars, pyarrow or any Arrow frame).

    `edges`: the columns `source`, `target` and, if there, `weight` (above 0); without those names the
    first two columns and, as the weight, the third. `attributes`: the column `id` (else the first), `label`
    and `type` if there, and every other column a number; or two columns of lists, `columns` and `values`, what is
    not zero in a row. `texts`, in place of attributes: `id`, `text`
    (else the next column), `label`, `type`; the words become TF-IDF attributes.

    With `columns`, such as {"title": "text", "brand": "category"}, attributes may be of several kinds, see
    docs/formats.md: `number` (those not named), `category`, `text`, `sentence:MODEL`, or `drop`. Numbers may then be
    missing. `pipeline`, that of a graph or a model made before, is applied in place of learning one.

    Nodes of several types have a table each: `attributes`, `texts`, `columns` and `pipeline` are then dicts by type, such
    as {"word": frame}. `edges` may be a dict by the types of their ends, such as {("word", "synset"): frame}; then a
    type may be without a table, and types may have ids in common.

    An edge that names a node without a row raises, unless `missing="empty"`: such nodes then come
    after the table's, sorted, without attributes. Nodes that no edge names are kept.
    """
    from glace.io.typed_tables import are_typed, from_typed_tables

    if are_typed(edges, attributes, texts):
        check_missing(missing)
        return from_typed_tables(edges, attributes, texts, columns, pipeline, directed, missing)
    check_choices(attributes, texts, missing)
    check_mixed(attributes, columns, pipeline)
    links = edge_table(arrow_table(edges, "edges"), RowLocator("edges"))
    nodes = None
    if attributes is not None:
        nodes = attribute_table(arrow_table(attributes, "attributes"), RowLocator("attributes"), columns, pipeline)
    if texts is not None:
        nodes = text_table(arrow_table(texts, "texts"), RowLocator("texts"))
    return join(links, nodes, directed=directed, missing=missing)


def check_choices(attributes: Any, texts: Any, missing: str) -> None:
    """Raise on options that contradict each other, before any table is read."""
    if attributes is not None and texts is not None:
        raise InputError("give attributes or texts, not both; a graph has one kind")
    check_missing(missing)


def check_missing(missing: str) -> None:
    """Raise unless it says what to do with nodes that have no row."""
    if missing not in MISSING:
        raise InputError(f"must be one of {', '.join(MISSING)}, not {missing!r}", option="missing")


def check_mixed(attributes: Any, columns: Kinds | None, pipeline: FeaturePipeline | None) -> None:
    """Raise on kinds of columns, or a pipeline, that nothing is there for."""
    if columns is not None and pipeline is not None:
        raise InputError("give columns or a pipeline, not both; a pipeline knows what its columns are")
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(
            f"columns must say of each what it is, such as {{'title': 'text'}}, not {type(columns).__name__}"
        )
    if pipeline is not None and not isinstance(pipeline, FeaturePipeline):
        raise InputError(f"pipeline must be that of a graph or a model, not {type(pipeline).__name__}")
    if (columns is not None or pipeline is not None) and attributes is None:
        raise InputError("kinds of columns (columns=..., --column, or a pipeline) go with a table of attributes")


def edge_table(table: pa.Table, where: RowLocator, one_kind: bool = True) -> EdgeTable:
    """The edges of an Arrow table; ids of both ends must be of `one_kind`, unless they are of two types of nodes."""
    source, target, *weight = edge_columns(table.column_names, where)
    sources, targets = (ids_of(table, name, where) for name in (source, target))
    if table.num_rows == 0:
        targets = targets.cast(sources.type)
    if one_kind and sources.type != targets.type:
        raise InputError(
            f"{where.name}: column {source!r} holds {_kind(sources)} and {target!r} {_kind(targets)}; "
            "both must hold the same kind of id"
        )
    weights = weights_of(table, weight[0], where) if weight else np.ones(table.num_rows, dtype=np.float32)
    return EdgeTable(sources, targets, weights, where)


def edge_columns(names: Sequence[str], where: RowLocator) -> list[str]:
    """Names of the source, the target and, where there is one, the weight column."""
    if "source" in names and "target" in names:
        return [name for name in ("source", "target", "weight") if name in names]
    shown = ", ".join(repr(name) for name in names)
    if len(names) < 2:
        raise InputError(f"{where.name}: edges need two columns, source and target, but there is {shown or 'none'}")
    if len(names) > 3:
        raise InputError(
            f"{where.name}: {len(names)} columns ({shown}), and it is not clear which are the edges; "
            "name them source, target and, if there is one, weight"
        )
    return list(names)


def text_column(names: Sequence[str], where: RowLocator) -> str:
    """Name of the column that holds a text table's texts: `text`, else the only other one."""
    others = [name for name in names if name not in (id_column(names, where), "label", "type")]
    if "text" in others:
        return "text"
    if len(others) != 1:
        shown = ", ".join(repr(name) for name in names)
        raise InputError(f"{where.name}: wanted an id and a text column, but there are {shown}; name it text")
    return others[0]


def attribute_table(
    table: pa.Table, where: RowLocator, kinds: Kinds | None = None, pipeline: FeaturePipeline | None = None
) -> NodeTable:
    """The nodes of an Arrow table of numbers, of sparse rows or, with kinds or a pipeline, of mixed columns."""
    key, columns = id_column(table.column_names, where), attribute_columns(table.column_names, where)
    ids = distinct(ids_of(table, key, where), where)
    categories = label_and_type(table, key)
    if kinds is not None:
        check_plain_columns(table, columns, where)
        pipeline = FeaturePipeline.learn(table, columns, kinds, where)
    if pipeline is not None:
        matrix, counts = pipeline.mixed(pipeline.chosen(table, key, where), where)
        cleaning_report = CleaningReport(
            missing_values=sum(each.missing for each in counts),
            unknown_values=sum(each.unknown for each in counts),
            distinct_columns=distinct_columns(pipeline, len(ids)) if kinds is not None else 0,
        )
        return NodeTable(ids, where, matrix, *categories, pipeline=pipeline, cleaning_report=cleaning_report)
    if are_sparse_rows(table.schema, columns):
        return NodeTable(ids, where, sparse_rows_of(table, where), *categories)
    matrix = matrix_of(table, columns, where) if columns else None
    return NodeTable(ids, where, matrix, *categories, attribute_names=tuple(columns) or None)


def check_plain_columns(table: pa.Table, columns: list[str], where: RowLocator) -> None:
    """Raise on sparse rows, whose columns have no names and so no kinds."""
    if are_sparse_rows(table.schema, columns):
        raise InputError(f"{where.name}: these are sparse rows, all of them numbers; leave the kinds of columns out")


def text_table(table: pa.Table, where: RowLocator) -> NodeTable:
    """The nodes of an Arrow table of texts; a missing text is an empty one."""
    ids, texts = text_rows(table, where)
    try:
        vocabulary = TextVocabulary.learn(texts)
    except InputError as problem:
        raise InputError(f"{where.name}: {problem}") from problem
    categories = label_and_type(table, id_column(table.column_names, where))
    return NodeTable(ids, where, vocabulary.attributes(texts), *categories, FeaturePipeline.of_texts(vocabulary))


def text_rows(table: pa.Table, where: RowLocator) -> tuple[NodeIds, list[str]]:
    """Ids and texts of an Arrow table."""
    key, name = id_column(table.column_names, where), text_column(table.column_names, where)
    ids = distinct(ids_of(table, key, where), where)
    column = table.column(name)
    if not (is_text(column.type) or pa.types.is_null(column.type)):
        raise InputError(f"{where.name}: column {name!r} holds {column.type}, not text; give it as attributes")
    return ids, ["" if text is None else text for text in column.to_pylist()]


def join(edges: EdgeTable, nodes: NodeTable | None, *, directed: bool, missing: str) -> Graph:
    """The graph of checked tables; without a node table the nodes are those the edges name, sorted."""
    if nodes is None:
        known = NodeTable(NodeIds(sorted_ids(pa.concat_arrays([edges.source, edges.target]))), edges.where)
    else:
        known = _completed(nodes, edges, missing)
    pairs = np.column_stack([known.ids.find(edges.source), known.ids.find(edges.target)])
    given = len(known.ids) if nodes is None else len(nodes.ids)
    named = np.zeros(len(known.ids), dtype=bool)
    named[pairs] = True
    cleaning_report = replace(
        known.cleaning_report,
        nodes_only_in_edges=len(known.ids) - given,
        nodes_only_in_attributes=given - int(named[:given].sum()),
    )
    return build(
        pairs,
        edges.weights,
        known.ids,
        [NodeType("", len(known.ids), known.attributes, known.attribute_names, known.pipeline)],
        directed=directed,
        labels=known.labels,
        node_types=known.node_types,
        cleaning_report=cleaning_report,
    )


def sorted_ids(ids: pa.Array) -> pa.Array:
    """Each id once, in order."""
    distinct = pc.unique(ids)
    return distinct.take(pc.sort_indices(distinct))


def _kind(ids: pa.Array) -> str:
    return "integers" if pa.types.is_integer(ids.type) else "text"


def _completed(nodes: NodeTable, edges: EdgeTable, missing: str) -> NodeTable:
    """The node table, with the nodes that only the edges name if they are wanted."""
    check_kinds(edges.source, edges.where, nodes.ids, nodes.where)
    from_here, to_here = unknown(edges.source, nodes.ids), unknown(edges.target, nodes.ids)
    if not (from_here.any() or to_here.any()):
        return nodes
    strangers = sorted_ids(
        pa.concat_arrays([edges.source.filter(pa.array(from_here)), edges.target.filter(pa.array(to_here))])
    )
    if missing == "empty":
        return extended(nodes, strangers)
    error = stranger_in(edges, nodes.ids, nodes.where, len(strangers))
    assert error is not None
    raise error


def check_kinds(named: pa.Array, edges: RowLocator, ids: NodeIds, nodes: RowLocator) -> None:
    """Raise unless edges name nodes by the kind of id that the nodes have."""
    if len(ids) and len(named) and ids.array.type != named.type:
        raise InputError(
            f"{edges.name} names nodes by {_kind(named)} (such as {named[0].as_py()!r}), "
            f"{nodes.name} by {_kind(ids.array)} (such as {ids[0]!r}); make them the same"
        )


def stranger_in(edges: EdgeTable, ids: NodeIds, nodes: RowLocator, count: int) -> InputError | None:
    """The error for the first edge that names a node without a row, if there is one; such nodes are `count`."""
    from_here, to_here = unknown(edges.source, ids), unknown(edges.target, ids)
    if not (from_here.any() or to_here.any()):
        return None
    row = int(np.flatnonzero(from_here | to_here)[0])
    node = (edges.source if from_here[row] else edges.target)[row].as_py()
    return InputError(
        f"{edges.where.row(row)}: node {node!r} has no row in {nodes.name}; {count:,} such "
        "nodes in all; add the rows, or give such nodes empty attributes",
        hint=("missing", "empty"),
    )


def unknown(column: pa.Array, ids: NodeIds) -> npt.NDArray[np.bool_]:
    """Which ids of a column are not among these."""
    # Ids of an empty table have no kind to speak of, and may not even compare with the edges'.
    return np.asarray(ids.find(column) < 0) if len(ids) else np.ones(len(column), dtype=np.bool_)


def extended(nodes: NodeTable, strangers: pa.Array) -> NodeTable:
    """The node table with these nodes after its own, without attributes."""
    added = len(strangers)
    attributes = nodes.attributes
    if sp.issparse(attributes):
        attributes = sp.csr_array(sp.vstack([attributes, sp.csr_array((added, attributes.shape[1]), dtype=np.float32)]))
    elif attributes is not None:
        attributes = np.vstack([attributes, np.zeros((added, attributes.shape[1]), dtype=np.float32)])
    return replace(
        nodes,
        ids=NodeIds(pa.concat_arrays([nodes.ids.array.cast(strangers.type), strangers])),
        attributes=attributes,
        labels=_padded(nodes.labels, added),
        node_types=_padded(nodes.node_types, added),
    )


def _padded(categories: Categories | None, added: int) -> Categories | None:
    if categories is None:
        return None
    return replace(categories, codes=np.append(categories.codes, np.full(added, -1, dtype=np.int32)))
