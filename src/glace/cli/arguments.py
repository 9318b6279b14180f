"""Arguments that several verbs share, and options made from the fields of configurations."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.errors import InputError
from glace.options import limits_of

if TYPE_CHECKING:
    from glace.graph.graph import Graph

_GRAPH, _OUTPUT = "Graph", "Output"  # panels of the help

GraphName = Annotated[
    str | None, typer.Argument(metavar="GRAPH", help="A dataset's name, an .npz file or a table of edges.")
]
Edges = Annotated[
    Path | None,
    typer.Option(help="Table of edges: source, target and, if there, weight.", rich_help_panel=_GRAPH),
]
Attributes = Annotated[
    Path | None,
    typer.Option(
        help="Table of attributes: id, then numbers (.csv .tsv .parquet .svmlight).", rich_help_panel=_GRAPH
    ),
]
Texts = Annotated[
    Path | None,
    typer.Option(help="Table of texts in place of attributes: id, text.", rich_help_panel=_GRAPH),
]
Directed = Annotated[bool, typer.Option("--directed", help="Edges have a direction.", rich_help_panel=_GRAPH)]
Missing = Annotated[
    str,
    typer.Option(
        help="Nodes that edges name but the table does not: `error`, or `empty` attributes.",
        rich_help_panel=_GRAPH,
    ),
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="CSV and TSV files start with data.", rich_help_panel=_GRAPH)
]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of dataset files; by default GLACE_DATA, else the user's cache.")
]
Json = Annotated[
    Path | None,
    typer.Option(
        "--json", help="Write what is printed, as a record, to this file too.", rich_help_panel=_OUTPUT
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=_OUTPUT)
]
Threads = Annotated[int, typer.Option(help="Threads to compute with.")]
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
    """The graph the arguments name; an option that would be ignored raises."""
    from glace import datasets
    from glace.graph.io import read_graph, read_tables
    from glace.graph.tables import check_choices

    check_choices(attributes, texts, missing)
    if (graph is None) == (edges is None):
        came = "nothing" if graph is None else f"both {graph} and --edges {edges}"
        raise InputError(f"name one graph: a dataset, a file, or --edges FILE; {came} was given")
    table = edges if graph is None else Path(graph) if _is_table(graph) else None
    described = attributes is not None or texts is not None
    name = (graph or "").replace("_", "-")
    _check_used(
        {
            "--attributes and --texts go with a table of edges": described and table is None,
            "--missing goes with --attributes or --texts": missing != "error" and not described,
            "--data-dir goes with the name of a dataset": data_dir is not None
            and name not in datasets.names(),
            "--no-header goes with CSV and TSV files": no_header and table is None,
        }
    )
    if table is not None:
        return read_tables(
            table, attributes, texts=texts, directed=directed, missing=missing, header=not no_header
        )
    if name in datasets.names():
        return datasets.load(name, directed=directed, data_dir=data_dir)
    assert graph is not None
    if not Path(graph).suffix and not Path(graph).exists():
        raise InputError(f"no dataset or file {graph!r}; datasets: {', '.join(datasets.names())}")
    return read_graph(graph, directed=directed)


def _check_used(ignored: dict[str, bool]) -> None:
    """Raise if an option was given that would be ignored."""
    for rule, broken in ignored.items():
        if broken:
            raise InputError(f"{rule}; leave it out")


def _is_table(graph: str) -> bool:
    from glace.graph.io import TABLES

    return graph.lower().endswith(TABLES)


def check_outputs(*outputs: Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise, before any work is done, if an output cannot be written or would replace an input."""
    from glace.files import check_writable

    taken = {Path(path).resolve() for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        check_writable(path)
        if path.resolve() in taken:
            raise InputError(f"cannot write {path}: it is also another file of this command; name a new one")
        taken.add(path.resolve())


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
    panel = stage.__name__.removesuffix("Config")
    annotation = Annotated[taken, typer.Option(help=text, rich_help_panel=panel)]
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
