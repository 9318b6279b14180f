"""Arguments that several verbs share, and options generated from the fields of configurations."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from glace.config.config import STAGES
from glace.errors import InputError
from glace.options import HasFields, limits_of, number_or_word

if TYPE_CHECKING:
    from glace.records import Record

_OUTPUT = "Output"  # a panel of the help

DataDir = Annotated[
    Path | None, typer.Option(help="Folder of dataset files; by default $GLACE_DATA, or else the user's cache.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV and TSV files have no header.")]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="Also write the results to this file, as a JSON record.", rich_help_panel=_OUTPUT),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.", rich_help_panel=_OUTPUT)]
NJobs = Annotated[int, typer.Option(help="Number of threads.")]
K = Annotated[int, typer.Option("-k", help="Number of answers.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by `glace fit`.")]
AnyEmbedding = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, or an embedding (.parquet .arrow .npz).")
]


def check_outputs(*outputs: Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise, before any work, if an output cannot be written or would replace an input."""
    from glace.storage.files import check_writable

    taken = {Path(path).resolve() for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        check_writable(path)
        if path.resolve() in taken:
            raise InputError(f"cannot write {path}: it is also another file of this command; choose another name")
        taken.add(path.resolve())


def write_record(path: Path, record: "Record") -> None:
    """Write a record as the only line of a JSON file."""
    from glace.storage.files import write_text

    write_text(path, record.to_json() + "\n")


def check_output_folder(path: Path, mark: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise, before any work, if a folder, marked by a file in it, cannot be written or would replace an input."""
    from glace.storage.files import check_folder_writable

    check_folder_writable(path, mark)
    if path.resolve() in {Path(each).resolve() for each in inputs if each is not None}:
        raise InputError(f"cannot write {path}: it is also another file of this command; choose another name")


Values = dict[str, Any]
Group = tuple[Callable[..., object], Sequence[inspect.Parameter]]
"""Options that form one object, and the function that makes the object of them."""


def takes(**groups: Group) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace parameters of a command by groups of options.

    typer reads the options of a command from the signature of its function. The decorated function has, instead of each
    parameter named here, the options of the group; the command receives the object made of their values.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(**values: object) -> None:
            made = {
                name: make(**{option.name: values.pop(option.name) for option in options})
                for name, (make, options) in groups.items()
            }
            function(**made, **values)

        own = [each.replace(kind=each.KEYWORD_ONLY) for each in inspect.signature(function).parameters.values()]
        required = [each for each in own if each.name not in groups and each.default is each.empty]
        optional = [each for each in own if each.name not in groups and each.default is not each.empty]
        grouped = [option for _, options in groups.values() for option in options]
        parameters = [*required, *grouped, *optional]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def fields_as_options(dataclass: type[HasFields]) -> list[inspect.Parameter]:
    """One option per field of a dataclass whose annotations typer understands."""
    hints = get_type_hints(dataclass, include_extras=True)
    return [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(dataclass)
    ]


def _training_option(each: "Field[Any]", stage: type[HasFields]) -> inspect.Parameter:
    limits = limits_of(stage)[each.name]
    choices = f" ({', '.join(limits.choices)}{'' if limits.kind is str else ', or a number'})" if limits.choices else ""
    shown = typer.Option(
        help=limits.help + choices,
        rich_help_panel=stage.__name__.removesuffix("Config"),
        show_default=False if each.default in (None, MISSING) else str(each.default),
    )
    kind: Any = str if limits.choices else limits.kind
    annotation = Annotated[kind | None, shown]
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _given(**options: Any) -> Values:
    """The options that were given, as each method has its own defaults; numbers given for words become numbers."""
    return {
        name: number_or_word(value) if isinstance(value, str) else value
        for name, value in options.items()
        if value is not None
    }


TRAINING_OPTIONS: Group = (_given, [_training_option(each, stage) for stage in STAGES for each in fields(stage)])
"""All training options; a command receives those that were given, as a dict."""


def named_options(given: Sequence[str]) -> Values:
    """Parse options given as NAME=VALUE; numbers, true and false become such values."""
    options: Values = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InputError(f"give an option of a method as NAME=VALUE, not {each!r}")
        truth = {"true": True, "false": False}.get(value.lower())
        options[name.replace("-", "_")] = number_or_word(value) if truth is None else truth
    return options
