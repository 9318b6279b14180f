"""Arguments that several verbs share, and options made from the fields of configurations."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.errors import InputError
from glace.options import limits_of

if TYPE_CHECKING:
    from glace.graph.graph import Graph

GraphName = Annotated[
    str | None, typer.Argument(metavar="[GRAPH]", help="A dataset's name, an .npz file or a table of edges.")
]
Edges = Annotated[Path | None, typer.Option(help="Table of edges: source, target and, if there, weight.")]
Attributes = Annotated[
    Path | None, typer.Option(help="Table of attributes: id, then numbers (.csv .tsv .parquet .svmlight).")
]
Texts = Annotated[Path | None, typer.Option(help="Table of texts in place of attributes: id, text.")]
Directed = Annotated[bool, typer.Option("--directed", help="Edges have a direction.")]
Missing = Annotated[
    str, typer.Option(help="Nodes that edges name but the table does not: `error`, or `empty` attributes.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV and TSV files start with data.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of dataset files [default: GLACE_DATA, else the cache].")
]
Json = Annotated[Path | None, typer.Option("--json", help="Write what is printed as a record to this file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Threads = Annotated[int | None, typer.Option(help="Threads to compute with.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by `glace fit`.")]
AnyEmbedding = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, or an embedding (.parquet .arrow .npz).")
]


def load_graph(
    graph: str | None,
    edges: Path | None,
    attributes: Path | None,
    texts: Path | None,
    *,
    directed: bool,
    missing: str,
    no_header: bool,
    data_dir: Path | None,
) -> "Graph":
    """The graph the arguments name."""
    from glace import datasets
    from glace.graph.io import read_graph, read_tables

    if (graph is None) == (edges is None):
        raise InputError("name a graph: a dataset, a file, or --edges FILE; one of them, not both")
    if edges is not None:
        return read_tables(
            edges, attributes, texts=texts, directed=directed, missing=missing, header=not no_header
        )
    if attributes is not None or texts is not None:
        raise InputError("--attributes and --texts go with --edges; a GRAPH brings its own")
    assert graph is not None
    if graph in datasets.names():
        return datasets.load(graph, directed=directed, data_dir=data_dir)
    if not Path(graph).suffix and not Path(graph).exists():
        raise InputError(f"no dataset or file {graph!r}; datasets: {', '.join(datasets.names())}")
    return read_graph(graph, directed=directed)


def with_options(*configurations: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option for each field of these configurations, in place of its `**options`."""
    parameters = [_parameter(each, stage) for stage in configurations for each in fields(stage)]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        # typer reads a command's options from its signature and annotations.
        function.__signature__ = signature.replace(parameters=[*own, *parameters])  # type: ignore[attr-defined]
        function.__annotations__ |= {each.name: each.annotation for each in parameters}
        return function

    return decorate


def _parameter(each: Any, stage: type) -> inspect.Parameter:
    limits = limits_of(stage)[each.name]
    kind: Any = str if limits.choices else limits.kind
    if limits.choices:
        choices = ", ".join(limits.choices) + (", or a number" if limits.kind is not str else "")
    text = f"{limits.help} ({choices})" if limits.choices else limits.help
    taken: Any = kind | None if each.default is None else kind
    annotation = Annotated[taken, typer.Option(help=text)]
    default = str(each.default) if limits.choices and each.default is not None else each.default
    return inspect.Parameter(
        each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def parsed(options: dict[str, Any]) -> dict[str, Any]:
    """Options that take a word or a number, such as --offset, with numbers as numbers."""
    return {name: _number_or_word(value) for name, value in options.items()}


def _number_or_word(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
