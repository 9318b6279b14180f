"""`glace report`: tables and pictures from the records of a folder."""

from pathlib import Path
from typing import Annotated

import typer

from glace.cli.arguments import Quiet
from glace.cli.screen import Screen, file_size


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with the records.jsonl (or .jsonl.xz) of `glace reproduce`."),
    ],
    quiet: Quiet = False,
) -> None:
    """Draw the records of a folder as report.md with plots/*.png, and as one file report.html; runs nothing."""
    from glace.experiments.report.write import write_report

    files = write_report(folder)
    pictures = sum(path.suffix == ".png" for path in files)
    screen = Screen(quiet)
    for path in files[pictures:]:
        screen.say(f"wrote {path} ({file_size(path)})")
    screen.say(f"wrote {pictures} pictures to {folder / 'plots'}")
