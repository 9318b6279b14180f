"""Tables that users give, one or by node type: which table holds what, and contradictions between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from glace.errors import InputError
from glace.features.layout import PLAIN, TableLayout
from glace.features.pipeline import FeaturePipeline, Kinds

Ends = tuple[str, str] | None
"""Node types of the sources and of the targets of an edge table; None if the ids decide."""
POLICIES = ("error", "empty")
"""What `nodes_without_attributes` may be."""

Table = TypeVar("Table")
EdgeTables: TypeAlias = Table | Mapping[str, Table] | Mapping[tuple[str, str], Table]
NodeTables: TypeAlias = Table | Mapping[str, Table] | None
Columns: TypeAlias = Kinds | Mapping[str, Kinds] | None
Pipelines: TypeAlias = FeaturePipeline | Mapping[str, FeaturePipeline] | None
Given: TypeAlias = Any
"""A frame or a path; which one, the caller of this module knows."""


@dataclass(frozen=True)
class NodeSource:
    """The table, or file, of one node type, and how its columns become attributes."""

    table: Given
    role: str
    """ "attributes" or "texts"."""
    columns: Kinds | None = None
    pipeline: FeaturePipeline | None = None
    layout: TableLayout = PLAIN

    def text_columns(self) -> tuple[str, ...]:
        """Columns of texts or categories, which must not be read as numbers even if they look like numbers."""
        columns = () if self.pipeline is None else self.pipeline.columns
        kinds = {column.name: column.kind for column in columns} | dict(self.columns or {})
        return tuple(name for name, kind in kinds.items() if kind != "number")


def tables_by_type(
    edges: Given, attributes: Given, texts: Given, columns: object, pipeline: object
) -> tuple[dict[Ends, Given], dict[str, NodeSource]]:
    """The edge tables by the types of their ends, and the node tables by type; contradictions raise."""
    if not are_typed(edges, attributes, texts):
        given = ({} if each is None else {"": each} for each in (attributes, texts, columns, pipeline))
        return {("", ""): edges}, _node_sources(*given)
    tables, documents = _by_type(attributes, "attributes"), _by_type(texts, "texts")
    kinds, pipelines = _options_by_type(columns, "columns"), _options_by_type(pipeline, "pipeline")
    return _edges_by_ends(edges), _node_sources(tables, documents, kinds, pipelines)


def are_typed(*tables: object) -> bool:
    """Whether tables are given by type: as a dict of tables or files, not of columns."""
    return any(isinstance(each, Mapping) and not _holds_columns(each) for each in tables)


def _holds_columns(table: Mapping[object, object]) -> bool:
    signs = ("columns", "column_names", "__fspath__")
    are_tables = (
        isinstance(each, Mapping | str) or any(hasattr(each, sign) for sign in signs) for each in table.values()
    )
    return bool(table) and not any(are_tables)


def check_policy(nodes_without_attributes: str) -> None:
    """Raise unless `nodes_without_attributes` is a known choice."""
    if nodes_without_attributes not in POLICIES:
        raise InputError(
            f"must be one of {', '.join(POLICIES)}, not {nodes_without_attributes!r}", option="nodes_without_attributes"
        )


def _source(table: Given, role: str, columns: object, pipeline: object) -> NodeSource:
    if columns is not None and pipeline is not None:
        raise InputError("give columns or a pipeline, not both; a pipeline knows the kinds of its columns")
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(f"columns must map names to kinds, such as {{'title': 'text'}}, not {type(columns).__name__}")
    if pipeline is not None and not isinstance(pipeline, FeaturePipeline):
        raise InputError(
            f"pipeline must be a FeaturePipeline, that of a graph or a model, not {type(pipeline).__name__}"
        )
    return NodeSource(table, role, columns, pipeline)


def _node_sources(
    tables: dict[str, Given], documents: dict[str, Given], kinds: dict[str, object], pipelines: dict[str, object]
) -> dict[str, NodeSource]:
    for name in sorted(tables.keys() & documents.keys()):
        raise InputError(
            f"give attributes or texts{_of_type(name)}, not both; texts can be a column of attributes (columns=, "
            "--column)"
        )
    for name in sorted((kinds.keys() | pipelines.keys()) - tables.keys()):
        raise InputError(
            f"kinds of columns (columns=, --column) or a pipeline{_of_type(name)} need a table of attributes"
        )
    nodes = {name: _source(table, "attributes", kinds.get(name), pipelines.get(name)) for name, table in tables.items()}
    return nodes | {name: NodeSource(table, "texts") for name, table in documents.items()}


def _of_type(name: str) -> str:
    return f" of type {name!r}" if name else ""


def _by_type(tables: Given, what: str) -> dict[str, Given]:
    if tables is None:
        return {}
    if not are_typed(tables):
        raise InputError(
            f"{what} must be given by type if other tables are, as {{'word': ...}} (--{what} TYPE=FILE); name the "
            "type of these nodes"
        )
    for name in tables:
        if not isinstance(name, str) or not name:
            raise InputError(f"{what} must be given by the names of types, not by {name!r}")
    return dict(tables)


def _options_by_type(options: object, what: str) -> dict[str, object]:
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(
        isinstance(each, Mapping | FeaturePipeline) for each in options.values()
    ):
        raise InputError(f"{what} must be given by type if tables are, as {{'word': ...}}, one for each")
    return dict(options)


def _edges_by_ends(edges: Given) -> dict[Ends, Given]:
    if not are_typed(edges):
        return {None: edges}
    if not edges:
        raise InputError("there is no table of edges; give at least one, as {('word', 'synset'): ...}")
    return {_ends(name): table for name, table in edges.items()}


def _ends(name: object) -> tuple[str, str]:
    """Types given as ("word", "synset") or "word:synset"."""
    ends = tuple(name.split(":")) if isinstance(name, str) else name
    if not isinstance(ends, tuple) or len(ends) != 2 or not all(isinstance(end, str) and end for end in ends):
        raise InputError(f"edges lead from a type to a type, as 'word:synset' (word:synset=FILE), not {name!r}")
    return ends[0], ends[1]


def types_of(ends: Ends) -> str:
    """The types of the two ends of edges, such as user:movie; "" if they have none."""
    return f"{ends[0]}:{ends[1]}" if ends and ends[0] else ""
