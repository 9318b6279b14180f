"""The arguments of `from_tables` and `read_tables`, brought into one form: tables by node type.

A graph without node types has one type, named "": its edges are those of ("", "") and its nodes those of "".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from glace.errors import InputError
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

    @property
    def is_mixed(self) -> bool:
        """Whether the columns have kinds, and so need names."""
        return self.columns is not None or self.pipeline is not None


def tables_by_type(
    edges: Given, attributes: Given, texts: Given, columns: object, pipeline: object
) -> tuple[dict[Ends, Given], dict[str, NodeSource]]:
    """The edge tables by the types of their ends, and the node tables by type; contradictions raise."""
    if are_typed(edges, attributes, texts):
        return _edges_by_ends(edges), _nodes_by_type(attributes, texts, columns, pipeline)
    check_choices(attributes, texts)
    if (columns is not None or pipeline is not None) and attributes is None:
        raise InputError("kinds of columns (columns=, --column) or a pipeline need a table of attributes")
    role, table = ("attributes", attributes) if texts is None else ("texts", texts)
    return {("", ""): edges}, {} if table is None else {"": _source(table, role, columns, pipeline)}


def are_typed(*tables: object) -> bool:
    """Whether tables are given by type: as a dict of tables or files, not of columns."""
    return any(isinstance(each, Mapping) and not _holds_columns(each) for each in tables)


def _holds_columns(table: Mapping[object, object]) -> bool:
    signs = ("columns", "column_names", "__fspath__")
    are_tables = (
        isinstance(each, Mapping | str) or any(hasattr(each, sign) for sign in signs) for each in table.values()
    )
    return bool(table) and not any(are_tables)


def check_choices(attributes: object, texts: object) -> None:
    """Raise if both attributes and texts are given."""
    if attributes is not None and texts is not None:
        raise InputError("give attributes or texts, not both; texts can be a column of attributes (columns=, --column)")


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


def _nodes_by_type(attributes: Given, texts: Given, columns: object, pipeline: object) -> dict[str, NodeSource]:
    tables, documents = _by_type(attributes, "attributes"), _by_type(texts, "texts")
    kinds, pipelines = _options_by_type(columns, "columns"), _options_by_type(pipeline, "pipeline")
    both = sorted(set(tables) & set(documents))
    if both:
        raise InputError(f"give attributes or texts of type {both[0]!r}, not both")
    for what, options in (("columns", kinds), ("pipeline", pipelines)):
        unknown = sorted(set(options) - set(tables))
        if unknown:
            raise InputError(f"{what} of type {unknown[0]!r}, which has no table of attributes; leave it out")
    nodes = {name: _source(table, "attributes", kinds.get(name), pipelines.get(name)) for name, table in tables.items()}
    return nodes | {name: NodeSource(table, "texts") for name, table in documents.items()}


def _by_type(tables: Given, what: str) -> dict[str, Given]:
    if tables is None:
        return {}
    if not are_typed(tables):
        raise InputError(
            f"{what} must be given by type if other tables are, as {{'word': ...}} (--{what} TYPE=FILE); name the "
            "type of these nodes"
        )
    wrong = [name for name in tables if not isinstance(name, str) or not name]
    if wrong:
        raise InputError(f"{what} must be given by the names of types, not by {wrong[0]!r}")
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
