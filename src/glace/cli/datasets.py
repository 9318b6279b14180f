"""`glace datasets`: list, describe, download and build datasets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from glace.cli.arguments import DataDir, Format, Json, Quiet
from glace.cli.screen import Screen, check_outputs, download_listener, in_bytes, write_record

if TYPE_CHECKING:
    from glace.graph.graph import Graph

app = typer.Typer(help="List, describe, download and build datasets.", no_args_is_help=True)

Name = Annotated[str, Argument(help="The name of a dataset.")]


@app.command("list")
def list_(data_dir: DataDir = None, form: Format = None, quiet: Quiet = False) -> None:
    """List the datasets and how to get those that are not on this machine."""
    from glace import datasets
    from glace.datasets.registry import is_available

    listed = map(datasets.find, datasets.names())
    rows = [
        (each.name, "available" if is_available(each.name, data_dir) else each.command, each.summary) for each in listed
    ]
    Screen.of_answers(quiet, form).table(["name", "get it by", "what it is"], rows)


@app.command()
def info(name: Name, data_dir: DataDir = None, json: Json = None, quiet: Quiet = False) -> None:
    """Describe a dataset: source, licence and, if it is on this machine, its size."""
    from glace import datasets
    from glace.cli.info import graph_facts
    from glace.datasets.registry import is_available

    check_outputs(json)
    dataset, screen = datasets.find(name), Screen(quiet)
    facts: dict[str, object] = {"summary": dataset.summary, "source": dataset.source, "licence": dataset.licence}
    if is_available(name, data_dir):
        facts |= graph_facts(datasets.load(name, data_dir=data_dir))
    else:
        facts["get it by"] = dataset.command
    screen.facts(facts, title=name)
    write_record(json, "dataset", {"name": name, **facts})


@app.command()
def get(name: Name, data_dir: DataDir = None, quiet: Quiet = False) -> None:
    """Download a published dataset into the data folder and verify its checksum."""
    from glace import datasets

    screen = Screen(quiet)
    with screen.progress(name) as report:
        path = datasets.get(name, data_dir, download_listener(report))
    screen.say(f"{name} is in {path} ({in_bytes(path.stat().st_size)})")


@app.command()
def build(
    name: Name,
    source: Annotated[
        Path | None,
        Option("--from", help="Folder of the original files, by default Debian's; for acm, AMiner's text file."),
    ] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="File to write; default: in the data folder.")] = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Build a dataset from files on this machine; `glace datasets list` shows which datasets are built."""
    from glace import datasets

    screen, dataset = Screen(quiet), datasets.find(name)
    if dataset.kind != "downloaded":
        screen.say(f"building {name} ...")
    with screen.progress(dataset.name) as report:
        graph, path = datasets.build(name, source, output, data_dir, download_listener(report), screen.say)
    screen.say(repr(graph))
    if dataset.name == "acm":
        _compare(graph, screen)
    screen.say(f"wrote {path}")


def _compare(graph: "Graph", screen: Screen) -> None:
    """Print the size of the graph beside that in the paper, which does not say how its graph was made."""
    from glace.datasets.builders.acm import PAPER

    here = {"nodes": graph.num_nodes, "edges": graph.num_edges, "attributes": graph.num_attributes}
    screen.table(["", "here", "paper"], [(what, here[what], PAPER[what]) for what in PAPER])
