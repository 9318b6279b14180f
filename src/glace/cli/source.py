"""The options that name the graph of a command, in one place for all verbs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from glace.cli.arguments import DataDir, Group, NoHeader, fields_as_options
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.graph.graph import Graph

_PANEL = "Graph"


@dataclass(frozen=True)
class GraphSource:
    """The graph that a command line names; each field is an option."""

    graph: Annotated[
        str | None,
        typer.Argument(metavar="GRAPH", help="A dataset's name, an .npz file, a graph folder or a table of edges."),
    ] = None
    edges: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE:TYPE=]FILE",
            help="Table of edges: source, target and, optionally, weight. Between node types: word:synset=FILE. May be "
            "repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    attributes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE=]FILE",
            help="Table of attributes: id, then numbers (.csv .tsv .parquet .svmlight), or see --column. For several "
            "node types, repeat it as TYPE=FILE.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE:]NAME=KIND",
            help="Kind of an attribute column: number, category, text, sentence:MODEL or drop. May be repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    texts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE=]FILE",
            help="Table of texts instead of attributes: id, text.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    directed: Annotated[bool, typer.Option("--directed", help="Edges have a direction.", rich_help_panel=_PANEL)] = (
        False
    )
    nodes_without_attributes: Annotated[
        str,
        typer.Option(
            help="Nodes that edges name but no row describes: an `error`, or nodes with `empty` attributes.",
            rich_help_panel=_PANEL,
        ),
    ] = "error"
    no_header: NoHeader = False
    data_dir: DataDir = None

    @property
    def name(self) -> str:
        """A short name of the graph for messages and records."""
        return str(self.graph or ", ".join(self.edges or []))

    def files(self) -> list[str | Path | None]:
        """The input files, which no output may replace."""
        listed = [*(self.edges or []), *(self.attributes or []), *(self.texts or [])]
        return [self.graph, *(_typed(each)[1] for each in listed)]

    def load(self, pipeline: Any = None) -> "Graph":
        """Read the graph; raise if an option does not apply to it.

        `pipeline` is the feature pipeline of a model, or a dict of pipelines by node type, to apply instead of learning
        one.
        """
        from glace import datasets
        from glace.io.read import read_graph, read_tables

        tables = self._checked_tables()
        if tables is not None:
            columns = self._column_kinds(isinstance(tables.attributes, dict))
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
        """Write the graph to a graph folder: numeric tables are streamed, other graphs are loaded first."""
        from glace.io.convert import convert_tables
        from glace.io.folder import read_folder, write_folder

        tables = self._checked_tables()
        load_first = tables is None or tables.texts or self.column or tables.are_typed()
        if tables is not None and not load_first:
            return convert_tables(tables.edges, path, tables.attributes, progress=progress, **self._reading())
        write_folder(self.load(), path)
        return read_folder(path)

    def _reading(self) -> dict[str, Any]:
        """Options of reading tables."""
        return {
            "directed": self.directed,
            "nodes_without_attributes": self.nodes_without_attributes,
            "header": not self.no_header,
        }

    def _column_kinds(self, typed: bool) -> dict[str, Any] | None:
        """The kinds of columns given by --column; by node type if the tables are."""
        from glace.features.pipeline import parsed_columns

        if not self.column:
            return None
        if not typed:
            return parsed_columns(self.column)
        found: dict[str, list[str]] = {}
        for each in self.column:
            name, colon, rest = each.partition(":")
            if not colon or "=" in name:
                raise InputError(f"give the kind of a column of a node type as TYPE:NAME=KIND, not {each!r}")
            found.setdefault(name, []).append(rest)
        return {name: parsed_columns(listed) for name, listed in found.items()}

    @property
    def _dataset(self) -> str:
        return (self.graph or "").replace("_", "-")

    def _checked_tables(self) -> "Tables | None":
        """The tables, if the graph is given by tables, after checking all options."""
        from glace import datasets
        from glace.io.tables import check_choices, check_policy

        tables = self._tables()
        if tables is None or not tables.are_typed():
            check_choices(self.attributes, self.texts)
        check_policy(self.nodes_without_attributes)
        self._check_used(tables is not None, self._dataset in datasets.names())
        return tables

    def _tables(self) -> "Tables | None":
        """The tables, if the graph is given by tables."""
        from glace.io.table_file import TABLES

        if (self.graph is None) == (not self.edges):
            given = "nothing" if self.graph is None else f"both {self.graph} and --edges {', '.join(self.edges or [])}"
            raise InputError(f"name one graph: a dataset, a file, or --edges FILE, not {given}")
        if self.graph is not None and not self.graph.lower().endswith(TABLES):
            return None
        edges = self.edges or [str(self.graph)]
        options = (("--edges", edges), ("--attributes", self.attributes), ("--texts", self.texts))
        return Tables(*(_by_type(listed or [], option) for option, listed in options))

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
    """Table files: one path, None, or a dict of paths by node type."""

    edges: Any
    attributes: Any
    texts: Any

    def are_typed(self) -> bool:
        """Whether any is given by node type."""
        return any(isinstance(each, dict) for each in self)


def _typed(text: str) -> tuple[str, Path]:
    """Split TYPE=FILE; the type is "" if there is none."""
    name, equals, path = text.partition("=")
    if equals and name and path and not Path(text).exists():
        return name, Path(path)
    return "", Path(text)


def _by_type(listed: Sequence[str], option: str) -> Any:
    """One path, None, or paths by node type."""
    found = [_typed(each) for each in listed]
    if not found or (len(found) == 1 and found[0][0] == ""):
        return found[0][1] if found else None
    names = [name for name, _ in found]
    if "" in names:
        raise InputError(f"{option} {listed[names.index('')]}: give several files as TYPE=FILE, with their node types")
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise InputError(f"{option} is given twice for {repeated[0]}; join the files")
    return dict(found)


SOURCE: Group = (GraphSource, fields_as_options(GraphSource))
"""The options that name a graph; a command receives a `GraphSource`."""
