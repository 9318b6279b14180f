"""`glace convert`: writes a graph as a folder that training maps into memory."""

from pathlib import Path
from typing import Annotated

import typer

from glace.cli.arguments import Quiet, check_output_folder, takes
from glace.cli.screen import Screen, in_bytes
from glace.cli.source import SOURCE, GraphSource


@takes(source=SOURCE)
def convert(
    source: GraphSource,
    output: Annotated[Path, typer.Option("--output", "-o", help="The graph folder to write, such as NAME.graph.")],
    quiet: Quiet = False,
) -> None:
    """Write a graph as a folder of arrays that other commands map into memory instead of loading.

    Numeric tables are streamed, so they may be larger than memory. Texts, .npz files and datasets are loaded first.
    """
    from glace.io.folder import MARK, size_of

    screen = Screen(quiet)
    check_output_folder(output, MARK, inputs=source.files())
    with screen.progress("reading") as report:
        graph = source.write(output, lambda stage, share: report(share, stage=stage))
    screen.say(repr(graph))
    for line in graph.cleaning_report.lines():
        screen.say(f"  {line}")
    screen.say(f"wrote {output} ({in_bytes(size_of(output))})")
