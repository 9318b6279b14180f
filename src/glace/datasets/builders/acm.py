"""AMiner's citation text as a graph: papers, their citations, the words of their abstracts.

The paper's largest graph, ACM, is built from it. A record describes one paper and ends with a blank line. The start of
a line says what it holds: `#*` title, `#@` authors, `#t` year, `#c` venue, `#index` the paper's id, `#%` the id of a
cited paper (one per line), `#!` abstract. The first line of a file may be the number of records.
"""

import codecs
import gzip
import io
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from glace.datasets.download import Progress
from glace.datasets.registry import find
from glace.datasets.tables import Tables
from glace.errors import FormatError, InputError
from glace.graph.graph import Graph
from glace.storage.files import CHUNK, existing

PAPER = {"nodes": 115_772, "edges": 539_910, "attributes": 124_856}
"""The size of the ACM graph in the paper."""

WANTED = "a file in the text format of AMiner's citation networks"

# An abstract has a few thousand bytes. The limit is for files without line breaks.
LONGEST_LINE = CHUNK

# Lines between two calls of `progress`.
_STEP = 4096

Lines = Iterable[tuple[int, str]]
"""Lines without line ends, numbered from 1."""

Say = Callable[[str], None]
"""Receives a line of text for the user."""

_log = logging.getLogger("glace")


@dataclass(slots=True)
class Record:
    """One record of the file `source`: a paper."""

    source: str
    index: str = ""
    line: int = 0
    """The line number of its index."""
    references: list[str] = field(default_factory=list)
    """As listed: they may repeat, or name the paper itself."""
    abstract: str = ""
    is_begun: bool = False
    is_in_abstract: bool = False

    def take(self, number: int, line: str) -> None:
        """Parse a line; titles, authors, years and venues are ignored."""
        if line.startswith("#"):
            self.is_begun, self.is_in_abstract = True, line.startswith("#!")
        if line.startswith("#index"):
            if self.index:
                raise InputError(
                    f"{self.source}, line {number}: a second #index, {line[6:].strip()!r}, in the record of "
                    f"{self.index!r}; a blank line must end each record"
                )
            self.index, self.line = line[6:].strip(), number
        elif line.startswith("#%"):
            self.references += filter(None, [line[2:].strip()])
        elif self.is_in_abstract:  # the first line, or a further one
            self.abstract = f"{self.abstract} {line.removeprefix('#!').strip()}".strip()


@dataclass
class CitationText:
    """A file of this format, plain or gzipped, read once; irregularities are counted."""

    path: Path
    progress: Progress | None = None
    lines_read: int = 0
    undecodable: int = 0
    """Number of lines with bytes that are not UTF-8, which are read as U+FFFD."""
    announced: int | None = None
    """The number of records in the first line, if it has one."""

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the numbered lines."""
        with self.path.open("rb") as raw:
            size = self.path.stat().st_size
            for line in self._raw_lines(raw):
                self.lines_read += 1
                if self.progress is not None and self.lines_read % _STEP == 0:
                    self.progress(raw.tell(), size)
                yield self.lines_read, self._decoded(line)
            if self.progress is not None:
                self.progress(size, size)

    def _raw_lines(self, raw: io.BufferedReader) -> Iterator[bytes]:
        is_packed = self.path.suffix.lower() == ".gz"
        source: io.BufferedIOBase = gzip.GzipFile(fileobj=raw) if is_packed else raw
        try:
            while line := source.readline(LONGEST_LINE):
                if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                    raise InputError(
                        f"{self.path}, line {self.lines_read + 1}: {LONGEST_LINE:,} bytes and no line break; "
                        f"expected {WANTED}"
                    )
                yield line
        except (OSError, EOFError, zlib.error) as problem:
            raise FormatError(
                f"cannot read {self.path} beyond line {self.lines_read:,}: {problem}; get the file again"
            ) from problem

    def _decoded(self, line: bytes) -> str:
        if self.lines_read == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
            self.announced = int(line) if line.strip().isdigit() and len(line) < 20 else None
        try:
            return line.decode().strip()
        except UnicodeDecodeError:
            self.undecodable += 1
            return line.decode(errors="replace").strip()


@dataclass(frozen=True)
class Papers:
    """The papers of a file that have an abstract, by index, in the file's order."""

    by_index: dict[str, Record]
    records: int
    without_index: int

    def links(self) -> dict[tuple[str, str], None]:
        """Return the distinct citations as pairs of indices, without self-citations."""
        return dict.fromkeys(
            (paper.index, target)
            for paper in self.by_index.values()
            for target in paper.references
            if target in self.by_index and target != paper.index
        )


def build_acm(file: str | Path | None = None, progress: Progress | None = None, say: Say | None = None) -> Graph:
    """Return the directed graph of the papers in `file` with an abstract and a link to another such paper.

    Attributes are the TF-IDF of the abstracts, ids the papers' indices; there are no labels. `progress` is called with
    the bytes read, `say` (by default the log) with a line about each kind of record that was left out.
    """
    if file is None:
        acm = find("acm")
        raise InputError(f"acm is built from a file that you must get first: {acm.needs}; then run '{acm.command}'")
    text = CitationText(existing(file, WANTED), progress)
    papers = read_papers(text)
    links = papers.links()
    # One pass suffices: a removed paper has no links, so no other paper loses one.
    linked = {index for link in links for index in link}
    _report(text, papers, len(linked), len(links), say or _log.info)
    if not len(links):
        raise InputError(
            f"{text.path}: no paper with an abstract is linked to another one, in {papers.records:,} records "
            f"on {text.lines_read:,} lines; take a version with abstracts (#!) and references (#%)"
        )
    ids = [index for index in papers.by_index if index in linked]
    try:
        return Tables.of(ids, [papers.by_index[index].abstract for index in ids], links).graph(directed=True)
    except InputError as problem:
        raise InputError(f"{text.path}, abstracts as {problem}") from problem


def read_papers(text: CitationText) -> Papers:
    """Return the papers with an abstract; a repeated index raises."""
    papers: dict[str, Record] = {}
    lines_of: dict[str, int] = {}
    without_index = 0
    for record in records(text.lines(), str(text.path)):
        if not record.index:
            without_index += 1
            continue
        if record.index in lines_of:
            raise InputError(
                f"{text.path}, line {record.line}: #index {record.index!r} was on line {lines_of[record.index]} "
                "already; keep one record per paper"
            )
        lines_of[record.index] = record.line
        if record.abstract:
            papers[record.index] = record
    if not lines_of:
        raise InputError(
            f"{text.path}: none of its {text.lines_read:,} lines begins with '#index' and an id; "
            f"expected {WANTED} (unpack a .zip first; versions in JSON are not supported)"
        )
    return Papers(papers, len(lines_of) + without_index, without_index)


def records(lines: Lines, source: str) -> Iterator[Record]:
    """Yield the records of a file; lines outside of a field are skipped."""
    record = Record(source)
    for number, line in lines:
        if line:
            record.take(number, line)
        elif record.is_begun:
            yield record
            record = Record(source)
    if record.is_begun:
        yield record


def _report(text: CitationText, papers: Papers, kept: int, links: int, say: Say) -> None:
    without_abstract = papers.records - papers.without_index - len(papers.by_index)
    references = sum(len(paper.references) for paper in papers.by_index.values())
    say(
        f"{papers.records:,} records; dropped {without_abstract:,} papers without an abstract and "
        f"{len(papers.by_index) - kept:,} without a link to a kept paper"
    )
    say(
        f"{references:,} references of papers with an abstract; dropped {references - links:,} duplicates, "
        "self-citations and citations of papers that were not kept"
    )
    if papers.without_index:
        say(f"dropped {papers.without_index:,} records without an #index")
    if text.undecodable:
        say(f"replaced bytes that are not UTF-8 by U+FFFD on {text.undecodable:,} lines")
    if text.announced not in (None, papers.records):
        say(f"the first line says {text.announced:,} records, but the file has {papers.records:,}; it may be truncated")
