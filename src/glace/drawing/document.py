"""The report as a list of blocks (headings, paragraphs, tables, pictures), rendered as Markdown or HTML."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
"""As wide as a plus sign, so that signed numbers line up."""
PLOTS = "plots"
"""Folder of the pictures, beside the report."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table; its `notes` become footnotes of the table."""

    text: str = ""
    bold: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """One column from top to bottom; `group` is written before the name of the column."""

    name: str
    cells: tuple[Cell, ...]
    group: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """Columns of equal length."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        assert len({len(column.cells) for column in self.columns}) == 1, "columns of unequal length"

    def rows(self) -> list[tuple[Cell, ...]]:
        """Return the cells row by row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def footnotes(self) -> dict[str, str]:
        """Return the letter of each distinct footnote text, in order of appearance."""
        texts = dict.fromkeys(note for row in self.rows() for cell in row for note in cell.notes)
        return {text: _letters(place) for place, text in enumerate(texts)}


@dataclass(frozen=True)
class Heading:
    """The title of the report (level 1), of a section (2), or of a part of a section (3)."""

    text: str
    level: int = 3


@dataclass(frozen=True)
class Code:
    """Preformatted lines."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A PNG; `name` is its file name without the suffix, `caption` its alternative text."""

    name: str
    png: bytes
    caption: str


Block = str | Heading | Code | Picture | Table
"""A string is a paragraph of plain text."""


def text_column(name: str, texts: Iterable[str]) -> Column:
    """Return a column of left-aligned text."""
    return Column(name, tuple(Cell(text) for text in texts), numeric=False)


def stacked(name: str, tables: Mapping[str, Sequence[Column]]) -> Table:
    """Return tables with the same columns below each other; a new first column holds the title of each."""
    titles = [Cell("" if row else title) for title, columns in tables.items() for row in range(len(columns[0].cells))]
    by_column = zip(*tables.values(), strict=True)
    joined = [replace(same[0], cells=tuple(cell for column in same for cell in column.cells)) for same in by_column]
    return Table((Column(name, tuple(titles), numeric=False), *joined))


def to_markdown(blocks: Iterable[Block]) -> str:
    """Return the report as Markdown that links its pictures as plots/NAME.png."""
    return "\n\n".join(map(_block_markdown, blocks)) + "\n"


def to_html(blocks: Sequence[Block]) -> str:
    """Return the report as one HTML file without scripts, its style and pictures inside; its title comes first."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark").enable("table").render(to_markdown(blocks))
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    for picture in pictures(blocks):
        data = base64.b64encode(picture.png).decode("ascii")
        body = body.replace(f'src="{PLOTS}/{picture.name}.png"', f'src="data:image/png;base64,{data}"')
    titles = re.findall("<h2>(.*?)</h2>", body)
    body = re.sub("<h2>(.*?)</h2>", lambda found: f'<h2 id="{_anchor(found[1])}">{found[1]}</h2>', body)
    links = "".join(f'<a href="#{_anchor(title)}">{title}</a>' for title in titles)
    title = body.partition("</h1>")[0].removeprefix("<h1>")
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"{body.replace('</h1>', f'</h1><nav>{links}</nav>', 1)}</body>\n</html>\n"
    )


def pictures(blocks: Iterable[Block]) -> list[Picture]:
    """Return all pictures, in order."""
    return [block for block in blocks if isinstance(block, Picture)]


def escaped(text: str) -> str:
    """Return text on one line that Markdown shows literally; an underscore within a word is no mark there."""
    return (
        re.sub(r"([\\|*`\[\]]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", " ".join(text.split()))
        .replace("&", "&amp;")
        .replace("<", "&lt;")
    )


def table_markdown(table: Table) -> str:
    """Return a pipe table with its footnotes below."""
    letters = table.footnotes()
    names = [escaped(f"{column.group} {column.name}".strip()) for column in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_cell_markdown(cell, letters) for cell in row] for row in table.rows()]
    lines = [f"| {' | '.join(cells)} |" for cells in (names, rules, *rows)]
    notes = [f"<sup>{letter}</sup> {escaped(text)}  " for text, letter in letters.items()]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _block_markdown(block: Block) -> str:
    match block:
        case str():
            return _paragraph(escaped(block))
        case Heading():
            return f"{'#' * block.level} {escaped(block.text)}"
        case Code():
            return "\n".join(f"    {line}" for line in block.text.splitlines())
        case Picture():
            return f"![{escaped(block.caption)}]({PLOTS}/{block.name}.png)"
        case Table():
            return table_markdown(block)


def _paragraph(text: str) -> str:
    """Return escaped text that does not begin a heading, a list, a quotation, a line or code either."""
    return re.sub(r"^(\d*)([.)#>+~-])", r"\1\\\2", text)


def _cell_markdown(cell: Cell, letters: Mapping[str, str]) -> str:
    text = escaped(cell.text)
    marks = ",".join(letters[note] for note in dict.fromkeys(cell.notes))
    return (f"**{text}**" if cell.bold else text) + (f"<sup>{marks}</sup>" if marks else "")


def _letters(place: int) -> str:
    """Return a to z, then aa, ab, ...: a number after a dash would read as a negative number."""
    before, last = divmod(place, 26)
    return (_letters(before - 1) if before else "") + chr(ord("a") + last)


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")
