"""The entry point: the verbs, and how errors become messages and exit codes."""

import functools
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from typer import Option

from glace import __version__
from glace.cli import datasets, quick
from glace.cli.arguments import OPTION_GROUPS
from glace.cli.clusters import clusters
from glace.cli.convert import convert
from glace.cli.demo import demo
from glace.cli.embed import embed, export
from glace.cli.evaluate import evaluate
from glace.cli.fit import fit
from glace.cli.info import info
from glace.cli.links import links
from glace.cli.neighbors import neighbors
from glace.cli.report import report
from glace.cli.reproduce import reproduce
from glace.cli.score import score
from glace.cli.serve import explore, serve
from glace.cli.update import update
from glace.errors import DistributedError, GlaceError, InputError, TooLarge, TrainingDiverged

# One line per paragraph, because typer keeps all line breaks of a help text.
HELP = (
    "One Gaussian per node of an attributed graph: a mean and a variance, from attributes and edges.\n\n"
    "A GRAPH is the name of a dataset (see `glace datasets list`), an .npz file in the Graph2Gauss layout, a folder "
    "written by `glace convert`, or a table of edges (.csv, .tsv, .parquet). For attributes or texts in another table, "
    "use --edges with --attributes or --texts.\n\n"
    "Exit codes: 0 success, 1 a bug in glace, 2 bad input or usage, 3 training diverged, 4 out of memory, "
    "5 another process of a distributed run is lost, 130 interrupted."
)

app = typer.Typer(name="glace", help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"glace {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before the verb; HELP is the help text."""


def with_option_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has the options of a group in place of each parameter with the type of the group.

    typer reads the options of a command from the signature of its function.
    """
    own = [each.replace(kind=each.KEYWORD_ONLY) for each in inspect.signature(verb).parameters.values()]
    groups = {each.name: each.annotation for each in own if each.annotation in OPTION_GROUPS}

    @functools.wraps(verb)
    def command(**values: object) -> None:
        made = {
            name: group(**{option.name: values.pop(option.name) for option in OPTION_GROUPS[group]})
            for name, group in groups.items()
        }
        verb(**made, **values)

    single = [each for each in own if each.name not in groups]
    required = [each for each in single if each.default is each.empty]
    grouped = [option for group in groups.values() for option in OPTION_GROUPS[group]]
    parameters = [*required, *grouped, *(each for each in single if each not in required)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


VERBS: list[Callable[..., None]] = [
    info,
    convert,
    fit,
    update,
    embed,
    neighbors,
    links,
    score,
    clusters,
    serve,
    explore,
    export,
]
VERBS += [demo, evaluate, reproduce, report]
for verb in VERBS:
    app.command()(with_option_groups(verb))
app.add_typer(datasets.app, name="datasets")


def main() -> None:
    """Run the command line and exit."""
    quick.enabled = True
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:  # the reader is gone; without this, Python would complain about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; an error becomes one line on standard error."""
    try:
        code = app(list(arguments), prog_name="glace", standalone_mode=False)
    except TrainingDiverged as problem:
        return _say(problem, 3)
    except DistributedError as problem:
        return _say(_text(problem), 5)
    except (TooLarge, MemoryError) as problem:
        return _say(_text(problem) or "out of memory", 4)
    except GlaceError as problem:
        return _say(_text(problem), 2)
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except SystemExit as leaving:  # from typer and rich when the reader of the help text is gone
        return 0 if isinstance(leaving.__context__, BrokenPipeError) else int(leaving.code or 0)
    except Exception as problem:
        return _unexpected(problem)
    # typer turns an exit and an interrupt into a number.
    return _say("interrupted", 130) if code == 130 else code or 0


def _unexpected(problem: Exception) -> int:
    """The exit code for an error of typer, or for a bug."""
    if type(problem).__name__ == "NoArgsIsHelpError":  # the help text has been printed
        return 0
    if hasattr(problem, "format_message"):
        return _say(_usage(problem), 2)
    if type(problem).__name__ == "Abort":  # an interrupt in older versions of typer
        return _say("interrupted", 130)
    if hasattr(problem, "exit_code"):
        return int(problem.exit_code)
    if os.environ.get("GLACE_DEBUG"):
        raise problem
    return _say(f"a bug in glace: {type(problem).__name__}: {problem}; set GLACE_DEBUG=1 for the traceback", 1)


def _usage(problem: Exception) -> str:
    """The message of a usage error of typer, with the value that was given and where to find help."""
    message = str(problem.format_message()).rstrip(".")  # type: ignore[attr-defined]
    errors = getattr(problem.__cause__, "errors", None)  # of pydantic, with which newer versions of typer parse values
    option = re.match("Invalid value for (.*?):", message)
    if errors and option:
        found = errors()[0]  # such as "Input should be a valid integer, unable to parse string as an integer"
        wanted = found["msg"].removeprefix("Input should ").partition(",")[0]
        message = f"{option[1]} must {wanted}, not {found['input']!r}"
    command = getattr(getattr(problem, "ctx", None), "command_path", "glace")
    return f"{message[:1].lower()}{message[1:]}; see '{command} --help'"


def _text(problem: Exception) -> str:
    return problem.text(as_option) if isinstance(problem, InputError) else str(problem)


def as_option(name: str, *value: object) -> str:
    """The command line's spelling of an option: `--n-jobs`, with a value `--n-jobs 2`; True and False are flags."""
    if name == "columns" and value and isinstance(value[0], dict):
        return " ".join(f"--column {shlex.quote(f'{column}={kind}')}" for column, kind in value[0].items())
    words = name.replace("_", "-")
    dashes = "-" if len(words) == 1 else "--"
    if value in ((True,), (False,)) and isinstance(value[0], bool):
        return f"--{words}" if value[0] else f"--no-{words}"
    return " ".join([f"{dashes}{words}", *(shlex.quote(str(each)) for each in value)])


def _say(problem: object, code: int) -> int:
    line = " ".join(str(problem).split())
    print(f"error: {line}", file=sys.stderr)
    return code
