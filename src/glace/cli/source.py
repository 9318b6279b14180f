"""Where a command's graph comes from: the arguments that name it, in one place for all verbs."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from glace.cli.arguments import DataDir, NoHeader, declared
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.graph.graph import Graph
    from glace.graph.recipe import Recipe

_PANEL = "Graph"


@dataclass(frozen=True)
class GraphSource:
    """The graph a command line names; `takes_graph` makes an argument of each field."""

    graph: Annotated[
        str | None,
        typer.Argument(
            metavar="GRAPH", help="A dataset's name, an .npz file, a graph folder or a table of edges."
        ),
    ] = None
    edges: Annotated[
        Path | None,
        typer.Option(help="Table of edges: source, target and, if there, weight.", rich_help_panel=_PANEL),
    ] = None
    attributes: Annotated[
        Path | None,
        typer.Option(
            help="Table of attributes: id, then numbers (.csv .tsv .parquet .svmlight), or see --column.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=KIND",
            help="What a column of attributes is: number, category, text, sentence:MODEL or drop; may be repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    texts: Annotated[
        Path | None,
        typer.Option(help="Table of texts in place of attributes: id, text.", rich_help_panel=_PANEL),
    ] = None
    directed: Annotated[
        bool, typer.Option("--directed", help="Edges have a direction.", rich_help_panel=_PANEL)
    ] = False
    missing: Annotated[
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
        return str(self.graph or self.edges)

    def files(self) -> list[str | Path | None]:
        """The files the graph is read from, which no output may replace."""
        return [self.graph, self.edges, self.attributes, self.texts]

    def load(self, recipe: "Recipe | None" = None) -> "Graph":
        """Read the graph; an argument that would be ignored raises. A `recipe` is that of a model for mixed columns."""
        from glace import datasets
        from glace.graph.io import read_graph, read_tables

        table = self._checked_table()
        if table is not None:
            return read_tables(
                table,
                self.attributes,
                texts=self.texts,
                columns=self._kinds(),
                recipe=recipe if self.attributes is not None else None,
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
        from glace.graph.convert import convert_tables
        from glace.graph.folder import read_folder, write_folder

        table = self._checked_table()
        if table is not None and self.texts is None and not self.column:
            return convert_tables(table, path, self.attributes, progress=progress, **self._reading())
        write_folder(self.load(), path)
        return read_folder(path)

    def _reading(self) -> dict[str, Any]:
        """How tables are read."""
        return {"directed": self.directed, "missing": self.missing, "header": not self.no_header}

    def _kinds(self) -> dict[str, str] | None:
        """What columns of attributes are, where that is said."""
        from glace.graph.recipe import parsed_columns

        return parsed_columns(self.column) if self.column else None

    @property
    def _dataset(self) -> str:
        return (self.graph or "").replace("_", "-")

    def _checked_table(self) -> Path | None:
        """The table of edges, if the graph is given by one, after a look at all arguments."""
        from glace import datasets
        from glace.graph.tables import check_choices

        check_choices(self.attributes, self.texts, self.missing)
        table = self._table()
        self._check_used(table is not None, self._dataset in datasets.names())
        return table

    def _table(self) -> Path | None:
        """The table of edges, if the graph is given by one."""
        from glace.graph.table_file import TABLES

        if (self.graph is None) == (self.edges is None):
            came = "nothing" if self.graph is None else f"both {self.graph} and --edges {self.edges}"
            raise InputError(f"name one graph: a dataset, a file, or --edges FILE; {came} was given")
        if self.graph is None:
            return self.edges
        return Path(self.graph) if self.graph.lower().endswith(TABLES) else None

    def _check_used(self, is_table: bool, is_dataset: bool) -> None:
        described = self.attributes is not None or self.texts is not None
        broken = {
            "--attributes and --texts go with a table of edges": described and not is_table,
            "--column goes with --attributes": bool(self.column) and self.attributes is None,
            "--missing goes with --attributes or --texts": self.missing != "error" and not described,
            "--data-dir goes with the name of a dataset": self.data_dir is not None and not is_dataset,
            "--no-header goes with CSV and TSV files": self.no_header and not is_table,
        }
        for rule in (rule for rule, is_broken in broken.items() if is_broken):
            raise InputError(f"{rule}; leave it out")


def takes_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the arguments of a `GraphSource` in place of its first parameter, which gets the source."""
    hints = get_type_hints(GraphSource, include_extras=True)
    parameters = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
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
