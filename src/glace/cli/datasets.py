"""`glace datasets`: graphs by name."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glace.cli.arguments import DataDir, Json, Quiet, check_outputs, write_record
from glace.cli.screen import Screen, download_listener, file_size

if TYPE_CHECKING:
    from glace.graph.graph import Graph

app = typer.Typer(help="Graphs by name: list them, describe, download or build one.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of a dataset.")]


@app.command("list")
def list_(data_dir: DataDir = None, quiet: Quiet = False) -> None:
    """List the datasets and whether they are at hand."""
    from glace import datasets
    from glace.datasets.registry import stored

    rows = []
    for name in datasets.names():
        dataset = datasets.find(name)
        at_hand = dataset.kind == "bundled" or stored(dataset, data_dir)
        rows.append((name, "at hand" if at_hand else dataset.command, dataset.summary))
    Screen(quiet).table(["name", "get it by", "what it is"], rows)


@app.command()
def info(name: Name, data_dir: DataDir = None, json: Json = None, quiet: Quiet = False) -> None:
    """Describe a dataset: origin, licence and, if it is at hand, its size."""
    from glace import datasets
    from glace.cli.info import graph_facts
    from glace.datasets.registry import stored
    from glace.records import Record, provenance

    check_outputs(json)
    dataset, screen = datasets.find(name), Screen(quiet)
    facts = {"summary": dataset.summary, "source": dataset.source, "licence": dataset.licence}
    if dataset.kind == "bundled" or stored(dataset, data_dir):
        facts |= graph_facts(datasets.load(name, data_dir=data_dir))
    else:
        facts["get it by"] = dataset.command
    screen.say(name)
    screen.facts((fact, value) for fact, value in facts.items() if value is not None)
    if json:
        write_record(json, Record("dataset", {"name": name, **facts}, provenance()))


@app.command()
def get(name: Name, data_dir: DataDir = None, quiet: Quiet = False) -> None:
    """Download a published dataset, verified, into the data folder."""
    from glace import datasets

    screen = Screen(quiet)
    with screen.progress(name) as report:
        path = datasets.get(name, data_dir, download_listener(report))
    screen.say(f"{name} is in {path} ({file_size(path)})")


@app.command()
def build(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Folder of the source files, by default where Debian has them; for acm AMiner's file.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it; by default the data folder.")
    ] = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Make a dataset from its sources: Debian's (wordnet, wordnet-nouns, debian) or AMiner's text file (acm)."""
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
    """The size of the graph beside that of the paper's, which says no more of how it was made."""
    from glace.datasets.builders.acm import PAPER

    here = {"nodes": graph.num_nodes, "edges": graph.num_edges, "attributes": graph.num_attributes}
    screen.table(["", "here", "paper"], [(what, here[what], PAPER[what]) for what in PAPER])
