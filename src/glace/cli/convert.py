"""`glace convert`: a graph as a folder that is trained on without loading it."""

from pathlib import Path
from typing import Annotated

import typer

from glace.cli.arguments import Quiet, check_output_folder
from glace.cli.screen import Screen, in_bytes
from glace.cli.source import GraphSource, takes_graph


@takes_graph
def convert(
    source: GraphSource,
    output: Annotated[Path, typer.Option("--output", "-o", help="The graph folder to write, by custom NAME.graph.")],
    quiet: Quiet = False,
) -> None:
    """Write a graph as a folder of arrays that other commands map into memory instead of loading it.

    Tables of edges and attributes are read piece by piece, whatever their size. Texts, .npz files and datasets are
    loaded first.
    """
    from glace.io.folder import MARK, size_of

    screen = Screen(quiet)
    check_output_folder(output, MARK, inputs=source.files())
    with screen.stages() as tell:
        graph = source.write(output, tell)
    screen.say(repr(graph))
    for line in graph.cleaning_report.lines():
        screen.say(f"  {line}")
    screen.say(f"wrote {output} ({in_bytes(size_of(output))})")
