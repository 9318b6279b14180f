"""Arguments that several verbs share, and options made from the fields of configurations."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from glace.errors import InputError
from glace.options import limits_of

_OUTPUT = "Output"  # a panel of the help

DataDir = Annotated[
    Path | None, typer.Option(help="Folder of dataset files; by default GLACE_DATA, else the user's cache.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV and TSV files start with data.")]
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
        return declared(function, [*own, *parameters])

    return decorate


def declared(command: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Callable[..., Any]:
    """The command with these parameters for typer, which reads them from its signature and annotations."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameter(each: Any, stage: type) -> inspect.Parameter:
    limits = limits_of(stage)[each.name]
    kind: Any = str if limits.choices else limits.kind
    text = limits.help
    if limits.choices:
        text += f" ({', '.join(limits.choices)}{'' if limits.kind is str else ', or a number'})"
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
