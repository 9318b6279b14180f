"""The entry point: verbs, and what becomes of errors."""

import os
import sys
from collections.abc import Sequence

import typer

from glace.cli import datasets, demo, embed, export, fit, info, neighbors, score
from glace.errors import GlaceError, TrainingDiverged

HELP = """One Gaussian per node of an attributed graph: a mean and a variance, from attributes and edges.

A GRAPH is the name of a dataset (see `glace datasets list`), an .npz file in the Graph2Gauss layout, or a
table of edges (.csv, .tsv, .parquet); or give --edges with --attributes or --texts.

Exit codes: 0 done, 1 a fault in glace, 2 bad input or usage, 3 training diverged, 130 interrupted."""

app = typer.Typer(name="glace", help=HELP, add_completion=False, pretty_exceptions_enable=False)
app.command("info")(info.info)
app.command("fit")(fit.fit)
app.command("embed")(embed.embed)
app.command("neighbors")(neighbors.neighbors)
app.command("score")(score.score)
app.command("export")(export.export)
app.add_typer(datasets.app, name="datasets")
app.command("demo")(demo.demo)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; every error becomes one line on standard error and an exit code."""
    try:
        app(list(arguments) or ["--help"], standalone_mode=False)
    except TrainingDiverged as problem:
        return _say(problem, 3)
    except GlaceError as problem:
        return _say(problem, 2)
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as problem:
        if hasattr(problem, "format_message"):  # typer's usage errors
            return _say(f"{problem.format_message()} (see --help)", 2)
        if hasattr(problem, "exit_code"):
            return int(problem.exit_code)
        if os.environ.get("GLACE_DEBUG"):
            raise
        return _say(f"a fault in glace: {type(problem).__name__}: {problem}; GLACE_DEBUG=1 shows where", 1)
    return 0


def _say(problem: object, code: int) -> int:
    line = " ".join(str(problem).split())
    print(f"error: {line}", file=sys.stderr)
    return code
