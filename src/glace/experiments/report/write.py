"""From a folder of records to its report."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from glace.errors import InputError
from glace.experiments.report.curves import convergence, node_classification, uncertainty, visualization
from glace.experiments.report.document import PLOTS, Block, Document, Picture, Section, document_html, document_markdown
from glace.experiments.report.results import Results, read_results
from glace.experiments.report.tables import cost, head, induction, link_prediction
from glace.storage.files import replacing

TITLE = "Gaussian embeddings of attributed graphs: results"
_SECTIONS = (
    head, link_prediction, node_classification, induction, convergence, visualization, uncertainty, cost,
)  # fmt: skip


def write_report(folder: str | Path) -> list[Path]:
    """Draw the records of `folder` as plots/*.png, report.md and report.html in it; return the files written."""
    place = Path(folder)
    document = report_of(read_results(place))
    # Everything is drawn before the first file is touched: an error leaves the previous report as it was.
    contents = {place / PLOTS / f"{picture.name}.png": picture.png for picture in document.pictures()}
    contents[place / "report.md"] = document_markdown(document).encode("utf-8")
    contents[place / "report.html"] = document_html(document).encode("utf-8")
    try:
        (place / PLOTS).mkdir(exist_ok=True)
    except OSError as problem:
        raise InputError(f"cannot make the folder {place / PLOTS}: {problem.strerror}") from problem
    for path, content in contents.items():
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    return list(contents)


def report_of(results: Results) -> Document:
    """Return the report of some results, with a section for each task that was run."""
    sections = [section for make in _SECTIONS if (section := make(results)) is not None]
    return Document(TITLE, tuple(_with_file_names(sections)))


def _with_file_names(sections: Iterable[Section]) -> Iterable[Section]:
    """Rename pictures so that their names are distinct and safe as file names and links."""
    taken: set[str] = set()

    def renamed(block: Block) -> Block:
        if not isinstance(block, Picture):
            return block
        plain = re.sub(r"[^a-z0-9]+", "-", block.name.lower()).strip("-")
        number, name = 1, plain
        while name in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name)
        return replace(block, name=name)

    return [replace(section, blocks=tuple(map(renamed, section.blocks))) for section in sections]
