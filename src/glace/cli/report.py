"""`glace report`: one page about a model, with its measures, map, examples and what to beware of."""

from pathlib import Path
from typing import Annotated

from typer import Option

from glace.cli.arguments import ModelFile, NJobs, Quiet
from glace.cli.screen import Screen, check_ending, check_outputs


def report(
    model: ModelFile,
    output: Annotated[
        Path | None, Option("--output", "-o", help="The .html file to write; by default MODEL with the ending .html.")
    ] = None,
    n_jobs: NJobs = -1,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page about a model: what it learned, how well, its map, examples, and what to beware of.

    The page needs no server and no other file. The map is that of `glace explore`, kept beside the model.
    """
    from glace.drawing.document import to_html
    from glace.fitted.model import load
    from glace.report import MapOfNodes, model_report
    from glace.server.map import map_of
    from glace.storage.files import write_text

    path = model.with_suffix(".html") if output is None else output
    check_outputs(path, inputs=[model])
    check_ending(path, ".html")
    screen, fitted = Screen(quiet), load(model)
    with screen.progress(f"map of {len(fitted.embedding):,} nodes") as show:
        positions = map_of(fitted.embedding, model, n_jobs=n_jobs, progress=show)
    with screen.progress("searching links") as show:
        blocks = model_report(fitted, MapOfNodes(positions, fitted.clusters()), model.stem, show)
    write_text(path, to_html(blocks))
    screen.wrote(path)
