"""`glace convert`: write a graph as a folder that training maps into memory."""

from pathlib import Path
from typing import Annotated

from typer import Option

from glace.cli.arguments import GraphSource, Quiet
from glace.cli.screen import Screen, check_outputs, in_bytes


def convert(
    source: GraphSource,
    output: Annotated[Path, Option("--output", "-o", help="The graph folder to write, such as NAME.graph.")],
    quiet: Quiet = False,
) -> None:
    """Write a graph as a folder of arrays that other commands map into memory instead of loading.

    Numeric tables are streamed, so they may be larger than memory. Texts, .npz files and datasets are loaded first.
    """
    from glace.io.folder import MARK, size_of

    screen = Screen(quiet)
    check_outputs(output, inputs=source.files(), folder_mark=MARK)
    source.check_files()
    with screen.progress("reading") as report:
        graph = source.write(output, lambda stage, share: report(share, stage=stage))
    screen.graph(graph)
    screen.say(f"wrote {output} ({in_bytes(size_of(output))})")
