"""From a folder of records to its report."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from glace.drawing.document import PLOTS, Block, Heading, Picture, pictures, to_html, to_markdown
from glace.errors import InputError
from glace.experiments.report import curves, ranking, tables
from glace.experiments.report.results import Results, Run, read_results
from glace.storage.files import replacing

TITLE = "Gaussian embeddings of attributed graphs: results"


class _Section(NamedTuple):
    """Title of a section, the runs it is about, and its blocks, of which the first explains the task."""

    title: str
    runs: Callable[[Results], list[Run]]
    blocks: Callable[[Sequence[Run]], list[Block]]


def _of(task: str) -> Callable[[Results], list[Run]]:
    return lambda results: results.of(task)


_SECTIONS = (
    _Section("Link prediction (Table 2)", _of("link-prediction"), tables.link_prediction),
    _Section("Node classification (Figure 1)", _of("node-classification"), curves.node_classification),
    _Section("Induction (Table 3)", _of("induction"), tables.induction),
    _Section("Convergence (Figure 2)", Results.converging, curves.convergence),
    _Section("Visualization (Figure 3)", _of("visualization"), curves.visualization),
    _Section("Uncertainty", _of("uncertainty"), curves.uncertainty),
    _Section("Ranking (not in the paper)", _of("benchmark-ranking"), ranking.benchmark_ranking),
    _Section("Directed link prediction (not in the paper)", Results.directed, tables.directed),
)


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
    """Return the report of some results, with a section for everything that was run."""
    blocks: list[Block] = [Heading(TITLE, 1), *tables.notices(results)]
    for section in _SECTIONS:
        if found := section.runs(results):
            runs, excluded = tables.without_unsupported(found)
            guide, *rest = section.blocks(runs)
            blocks += [Heading(section.title, 2), guide, *excluded, *rest]
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
