"""Arguments that several verbs share, and options made from the fields of configurations."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.errors import InputError
from glace.options import limits_of

if TYPE_CHECKING:
    from glace.records import Record

_OUTPUT = "Output"  # a panel of the help

DataDir = Annotated[
    Path | None, typer.Option(help="Folder of dataset files; by default GLACE_DATA, else the user's cache.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV and TSV files start with data.")]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="Write what is printed, as a record, to this file too.", rich_help_panel=_OUTPUT),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=_OUTPUT)]
NJobs = Annotated[int, typer.Option(help="Number of threads.")]
K = Annotated[int, typer.Option("-k", help="Number of answers.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by `glace fit`.")]
AnyEmbedding = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, or an embedding (.parquet .arrow .npz).")
]


def check_outputs(*outputs: Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise, before any work is done, if an output cannot be written or would replace an input."""
    from glace.storage.files import check_writable

    taken = {Path(path).resolve() for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        check_writable(path)
        if path.resolve() in taken:
            raise InputError(f"cannot write {path}: it is also another file of this command; name a new one")
        taken.add(path.resolve())


def write_record(path: Path, record: "Record") -> None:
    """Write a record as the only line of a JSON file."""
    from glace.storage.files import write_text

    write_text(path, record.to_json() + "\n")


def check_output_folder(path: Path, mark: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise, before any work is done, if a folder marked by a file cannot be written or would replace an input."""
    from glace.storage.files import check_folder_writable

    check_folder_writable(path, mark)
    if path.resolve() in {Path(each).resolve() for each in inputs if each is not None}:
        raise InputError(f"cannot write {path}: it is also another file of this command; name a new one")


def with_options(*configurations: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option for each field of these configurations, in place of its `**options`.

    What is not given comes as None: each method has defaults of its own.
    """
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
    panel = stage.__name__.removesuffix("Config")
    default = False if each.default is None else str(each.default)
    shown = typer.Option(help=text, rich_help_panel=panel, show_default=default)
    annotation = Annotated[kind | None, shown]
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def named_options(given: Sequence[str]) -> dict[str, Any]:
    """Options given as NAME=VALUE, numbers and true or false as such."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InputError(f"an option of a method is given as NAME=VALUE, not {each!r}")
        found[name.replace("-", "_")] = _value(value)
    return found


def _value(text: str) -> Any:
    words = {"true": True, "false": False}
    return words[text.lower()] if text.lower() in words else _number_or_word(text)


def parsed(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; those that take a word or a number, such as --offset, with numbers as numbers."""
    return {name: _number_or_word(value) for name, value in options.items() if value is not None}


def _number_or_word(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
