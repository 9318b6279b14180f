"""From a folder of records to its report."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from glace.errors import InputError
from glace.experiments.report.document import Document, Part, Picture, Section
from glace.experiments.report.html import document_html
from glace.experiments.report.markdown import PLOTS, document_markdown
from glace.experiments.report.results import Results, read_results
from glace.experiments.report.sections.classification import node_classification
from glace.experiments.report.sections.convergence import convergence
from glace.experiments.report.sections.cost import cost
from glace.experiments.report.sections.head import head
from glace.experiments.report.sections.induction import induction
from glace.experiments.report.sections.link_prediction import link_prediction
from glace.experiments.report.sections.uncertainty import uncertainty
from glace.experiments.report.sections.visualization import visualization
from glace.storage.files import replacing

TITLE = "Gaussian embeddings of attributed graphs, measured"
_SECTIONS = (
    head, link_prediction, node_classification, induction, convergence, visualization, uncertainty, cost,
)  # fmt: skip


def write_report(folder: str | Path) -> list[Path]:
    """Draw `folder`/records.jsonl as report.html, report.md and plots/*.png in it; gives the files written."""
    place = Path(folder)
    document = report_of(read_results(place))
    # All is drawn before the first file is touched: an error leaves the last report as it was.
    contents = {place / PLOTS / f"{picture.name}.png": picture.png for picture in document.pictures()}
    contents[place / "report.md"] = document_markdown(document).encode("utf-8")
    contents[place / "report.html"] = document_html(document).encode("utf-8")
    _make(place / PLOTS)
    for path, content in contents.items():
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    return list(contents)


def report_of(results: Results) -> Document:
    """The report of some results, a section for each task that was run."""
    sections = [section for make in _SECTIONS if (section := make(results)) is not None]
    return Document(TITLE, tuple(_with_file_names(sections)))


def _with_file_names(sections: Iterable[Section]) -> Iterable[Section]:
    """The same with names of pictures that can be files and links, no two alike."""
    taken: set[str] = set()

    def named(part: Part) -> Part:
        if not isinstance(part, Picture):
            return part
        plain = re.sub(r"[^a-z0-9]+", "-", part.name.lower()).strip("-")
        number, name = 1, plain
        while name in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name)
        return replace(part, name=name)

    return [replace(section, parts=tuple(map(named, section.parts))) for section in sections]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as problem:
        raise InputError(f"cannot make the folder {folder}: {problem.strerror}") from problem
