"""From a folder of records to its report."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from glace.drawing.document import PLOTS, Block, Heading, Picture, pictures, to_html, to_markdown
from glace.errors import InputError
from glace.experiments.report import curves, ranking, tables
from glace.experiments.report.results import Results, read_results
from glace.storage.files import replacing

TITLE = "Gaussian embeddings of attributed graphs: results"
_SECTIONS = {
    "link-prediction": ("Link prediction (Table 2)", tables.link_prediction),
    "node-classification": ("Node classification (Figure 1)", curves.node_classification),
    "induction": ("Induction (Table 3)", tables.induction),
    "convergence": ("Convergence (Figure 2)", curves.convergence),
    "visualization": ("Visualization (Figure 3)", curves.visualization),
    "uncertainty": ("Uncertainty", curves.uncertainty),
    "benchmark-ranking": ("Ranking (not in the paper)", ranking.benchmark_ranking),
}
"""Title and blocks of each task, in the order of the report; the first block explains the task."""


def write_report(folder: str | Path) -> list[Path]:
    """Draw the records of `folder` as plots/*.png, report.md and report.html in it; return the files written."""
    place = Path(folder)
    blocks = report_of(read_results(place))
    # Everything is drawn before the first file is touched: an error leaves the previous report as it was.
    contents = {place / PLOTS / f"{picture.name}.png": picture.png for picture in pictures(blocks)}
    contents[place / "report.md"] = to_markdown(blocks).encode("utf-8")
    contents[place / "report.html"] = to_html(blocks).encode("utf-8")
    try:
        (place / PLOTS).mkdir(exist_ok=True)
    except OSError as problem:
        raise InputError(f"cannot make the folder {place / PLOTS}: {problem.strerror}") from problem
    for path, content in contents.items():
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    return list(contents)


def report_of(results: Results) -> list[Block]:
    """Return the report of some results, with a section for each task that was run."""
    blocks: list[Block] = [Heading(TITLE, 1), *tables.notices(results)]
    for task, (title, section) in _SECTIONS.items():
        if results.of(task):
            runs, excluded = tables.without_unsupported(results.of(task))
            guide, *rest = section(runs)
            blocks += [Heading(title, 2), guide, *excluded, *rest]
    if results.directed():
        blocks += [Heading("Directed link prediction (not in the paper)", 2), *tables.directed(results.directed())]
    return list(_with_file_names([*blocks, *tables.cost(results), *tables.provenance(results)]))


def _with_file_names(blocks: Iterable[Block]) -> Iterator[Block]:
    """Rename pictures so that their names are distinct and safe as file names and links."""
    taken: set[str] = set()
    for block in blocks:
        if isinstance(block, Picture):
            plain = re.sub(r"[^a-z0-9]+", "-", block.name.lower()).strip("-")
            names = (plain if number == 1 else f"{plain}-{number}" for number in count(1))
            block = replace(block, name=next(name for name in names if name not in taken))
            taken.add(block.name)
        yield block
