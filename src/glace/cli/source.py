"""Where a command's graph comes from: the arguments that name it, in one place for all verbs."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from glace.cli.arguments import DataDir, NoHeader, declared
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.graph.graph import Graph

_PANEL = "Graph"


@dataclass(frozen=True)
class GraphSource:
    """The graph a command line names; `takes_graph` makes an argument of each field."""

    graph: Annotated[
        str | None,
        typer.Argument(metavar="GRAPH", help="A dataset's name, an .npz file, a graph folder or a table of edges."),
    ] = None
    edges: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE:TYPE=]FILE",
            help="Table of edges: source, target and, if there, weight. Those between types of nodes with the types, "
            "word:synset=FILE; may be repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    attributes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE=]FILE",
            help="Table of attributes: id, then numbers (.csv .tsv .parquet .svmlight), or see --column. Repeated as "
            "TYPE=FILE for types of nodes that have attributes of their own.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE:]NAME=KIND",
            help="What a column of attributes is: number, category, text, sentence:MODEL or drop; may be repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    texts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE=]FILE",
            help="Table of texts in place of attributes: id, text.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    directed: Annotated[bool, typer.Option("--directed", help="Edges have a direction.", rich_help_panel=_PANEL)] = (
        False
    )
    nodes_without_attributes: Annotated[
        str,
        typer.Option(
            help="Nodes that edges name but the table does not: `error`, or `empty` attributes.",
            rich_help_panel=_PANEL,
        ),
    ] = "error"
    no_header: NoHeader = False
    data_dir: DataDir = None

    @property
    def name(self) -> str:
        """The graph in a word, for messages and records."""
        return str(self.graph or ", ".join(self.edges or []))

    def files(self) -> list[str | Path | None]:
        """The files the graph is read from, which no output may replace."""
        listed = [*(self.edges or []), *(self.attributes or []), *(self.texts or [])]
        return [self.graph, *(_typed(each)[1] for each in listed)]

    def load(self, pipeline: Any = None) -> "Graph":
        """Read the graph; an argument that would be ignored raises.

        A `pipeline` is that of a model for mixed columns or, where types have attributes of their own, one for each.
        """
        from glace import datasets
        from glace.io.read import read_graph, read_tables

        tables = self._checked_tables()
        if tables is not None:
            columns = self._kinds(isinstance(tables.attributes, dict))
            if isinstance(pipeline, dict):
                pipeline = {name: each for name, each in pipeline.items() if name in (tables.attributes or {})}
            return read_tables(
                *tables[:2],
                texts=tables.texts,
                columns=columns,
                pipeline=pipeline if self.attributes else None,
                **self._reading(),
            )
        if self._dataset in datasets.names():
            return datasets.load(self._dataset, directed=self.directed, data_dir=self.data_dir)
        assert self.graph is not None
        if not Path(self.graph).suffix and not Path(self.graph).exists():
            raise InputError(f"no dataset or file {self.graph!r}; datasets: {', '.join(datasets.names())}")
        return read_graph(self.graph, directed=self.directed)

    def write(self, path: Path, progress: Callable[[str, float], None]) -> "Graph":
        """Write the graph to a graph folder: tables of numbers in a stream, anything else by way of memory."""
        from glace.io.convert import convert_tables
        from glace.io.folder import read_folder, write_folder

        tables = self._checked_tables()
        by_way_of_memory = tables is None or tables.texts or self.column or tables.are_typed()
        if tables is not None and not by_way_of_memory:
            return convert_tables(tables.edges, path, tables.attributes, progress=progress, **self._reading())
        write_folder(self.load(), path)
        return read_folder(path)

    def _reading(self) -> dict[str, Any]:
        """How tables are read."""
        return {
            "directed": self.directed,
            "nodes_without_attributes": self.nodes_without_attributes,
            "header": not self.no_header,
        }

    def _kinds(self, typed: bool) -> dict[str, Any] | None:
        """What columns of attributes are, where that is said; by type, where these have attributes of their own."""
        from glace.features.pipeline import parsed_columns

        if not self.column:
            return None
        if not typed:
            return parsed_columns(self.column)
        found: dict[str, list[str]] = {}
        for each in self.column:
            name, colon, rest = each.partition(":")
            if not colon or "=" in name:
                raise InputError(f"a column of a type is given as TYPE:NAME=KIND, not {each!r}")
            found.setdefault(name, []).append(rest)
        return {name: parsed_columns(listed) for name, listed in found.items()}

    @property
    def _dataset(self) -> str:
        return (self.graph or "").replace("_", "-")

    def _checked_tables(self) -> "Tables | None":
        """The tables, if the graph is given by some, after a look at all arguments."""
        from glace import datasets
        from glace.io.table_arguments import check_choices, check_policy

        tables = self._tables()
        if tables is None or not tables.are_typed():
            check_choices(self.attributes, self.texts)
        check_policy(self.nodes_without_attributes)
        self._check_used(tables is not None, self._dataset in datasets.names())
        return tables

    def _tables(self) -> "Tables | None":
        """The tables, if the graph is given by some."""
        from glace.io.table_file import TABLES

        if (self.graph is None) == (not self.edges):
            came = "nothing" if self.graph is None else f"both {self.graph} and --edges {', '.join(self.edges or [])}"
            raise InputError(f"name one graph: a dataset, a file, or --edges FILE; {came} was given")
        if self.graph is not None and not self.graph.lower().endswith(TABLES):
            return None
        edges = self.edges or [str(self.graph)]
        given = (("--edges", edges), ("--attributes", self.attributes), ("--texts", self.texts))
        return Tables(*(_by_type(listed or [], option) for option, listed in given))

    def _check_used(self, is_table: bool, is_dataset: bool) -> None:
        described = bool(self.attributes or self.texts)
        broken = {
            "--attributes and --texts go with a table of edges": described and not is_table,
            "--column goes with --attributes": bool(self.column) and not self.attributes,
            "--nodes-without-attributes goes with --attributes or --texts": self.nodes_without_attributes != "error"
            and not described,
            "--data-dir goes with the name of a dataset": self.data_dir is not None and not is_dataset,
            "--no-header goes with CSV and TSV files": self.no_header and not is_table,
        }
        for rule in (rule for rule, is_broken in broken.items() if is_broken):
            raise InputError(f"{rule}; leave it out")


class Tables(NamedTuple):
    """Files of tables: one of each, or none, or a dict of them by type of node."""

    edges: Any
    attributes: Any
    texts: Any

    def are_typed(self) -> bool:
        """Whether some are given by type."""
        return any(isinstance(each, dict) for each in self)


def _typed(text: str) -> tuple[str, Path]:
    """The type and the file of TYPE=FILE; a file without a type has none."""
    name, equals, path = text.partition("=")
    if equals and name and path and not Path(text).exists():
        return name, Path(path)
    return "", Path(text)


def _by_type(listed: Sequence[str], option: str) -> Any:
    """The one file, nothing, or files by type."""
    found = [_typed(each) for each in listed]
    if not found or (len(found) == 1 and found[0][0] == ""):
        return found[0][1] if found else None
    names = [name for name, _ in found]
    if "" in names:
        raise InputError(f"{option} {listed[names.index('')]}: of several, say of which type each is, as TYPE=FILE")
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise InputError(f"{option} is given twice for {repeated[0]}; put them into one file")
    return dict(found)


def takes_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the arguments of a `GraphSource` in place of its first parameter, which gets the source."""
    hints = get_type_hints(GraphSource, include_extras=True)
    parameters = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(GraphSource)
    ]
    signature = inspect.signature(function)
    own = [each.replace(kind=each.KEYWORD_ONLY) for each in list(signature.parameters.values())[1:]]

    @functools.wraps(function)
    def command(**arguments: Any) -> Any:
        source = GraphSource(**{each.name: arguments.pop(each.name) for each in parameters})
        return function(source, **arguments)

    before = [each for each in own if each.default is each.empty]  # arguments such as the TASK of `evaluate`
    return declared(command, [*before, *parameters, *(each for each in own if each not in before)])
