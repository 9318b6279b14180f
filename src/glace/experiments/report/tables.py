"""A table as a value, and as HTML and Markdown: the same cells, marks and footnotes in both."""

import html
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
"""As wide as a plus, so that signed letters stand below each other."""
_DENSE = 8  # columns, from which on a table is set smaller to stay on the screen and on paper


@dataclass(frozen=True)
class Cell:
    """What stands in one place; `notes` become footnotes of the table, each text once."""

    text: str = ""
    strong: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column from top to bottom; neighbours of the same `group` share a heading above their names."""

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
        """The cells, row by row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def footnotes(self) -> dict[str, str]:
        """The letters of the footnotes by their texts, in the order they are met."""
        texts = dict.fromkeys(note for row in self.rows() for cell in row for note in cell.notes)
        return {text: _letters(place) for place, text in enumerate(texts)}


def words(name: str, texts: Iterable[str]) -> Column:
    """A column of words."""
    return Column(name, tuple(Cell(text) for text in texts), numeric=False)


def stacked(name: str, tables: Mapping[str, Sequence[Column]]) -> Table:
    """Tables of the same columns below each other, each with its title in its first row of a new first column."""
    titles = [
        Cell(title if place == 0 else "") for title, columns in tables.items() for place in range(len(columns[0].cells))
    ]
    parts = zip(*tables.values(), strict=True)
    joined = [replace(each[0], cells=tuple(cell for part in each for cell in part.cells)) for each in parts]
    return Table((Column(name, tuple(titles), numeric=False), *joined))


def table_html(table: Table) -> str:
    """A `<table>` in a box that scrolls sideways if it must, with its footnotes below."""
    letters = table.footnotes()
    body = "".join(_row_html(row, table.columns, letters) for row in table.rows())
    notes = "".join(f"<li>{html.escape(text)}</li>" for text in letters)
    below = f'<ol class="notes" type="a">{notes}</ol>' if notes else ""
    dense = ' class="dense"' if len(table.columns) > _DENSE else ""
    return (
        f'<div class="wide"><table{dense}><thead>{_head_html(table.columns)}</thead>'
        f"<tbody>{body}</tbody></table></div>{below}"
    )


def table_markdown(table: Table) -> str:
    """A pipe table, groups written before the names of their columns, with its footnotes below."""
    letters = table.footnotes()
    names = [plain_markdown(f"{column.group} {column.name}".strip()) for column in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_cell_markdown(cell, letters) for cell in row] for row in table.rows()]
    lines = [f"| {' | '.join(cells)} |" for cells in (names, rules, *rows)]
    notes = [f"<sup>{letter}</sup> {plain_markdown(text)}  " for text, letter in letters.items()]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def plain_markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    flat = " ".join(text.split())
    return re.sub(r"([\\|*`\[\]])", r"\\\1", flat).replace("&", "&amp;").replace("<", "&lt;")


def _head_html(columns: tuple[Column, ...]) -> str:
    names = "".join(f"<th{_kind(column)}>{html.escape(column.name)}</th>" for column in columns)
    if not any(column.name for column in columns):
        return ""
    if not any(column.group for column in columns):
        return f"<tr>{names}</tr>"
    runs = [(group, len(list(each))) for group, each in itertools.groupby(columns, lambda each: each.group)]
    groups = "".join(
        f'<th colspan="{width}" class="group">{html.escape(group)}</th>' if group else f'<td colspan="{width}"></td>'
        for group, width in runs
    )
    return f"<tr>{groups}</tr><tr>{names}</tr>"


def _row_html(row: tuple[Cell, ...], columns: tuple[Column, ...], letters: dict[str, str]) -> str:
    cells = zip(row, columns, strict=True)
    return "<tr>" + "".join(f"<td{_kind(each)}>{_cell_html(cell, letters)}</td>" for cell, each in cells) + "</tr>"


def _kind(column: Column) -> str:
    return ' class="number"' if column.numeric else ""


def _cell_html(cell: Cell, letters: dict[str, str]) -> str:
    text = html.escape(cell.text)
    return (f"<b>{text}</b>" if cell.strong else text) + _marks(cell, letters)


def _cell_markdown(cell: Cell, letters: dict[str, str]) -> str:
    text = plain_markdown(cell.text)
    return (f"**{text}**" if cell.strong else text) + _marks(cell, letters)


def _marks(cell: Cell, letters: dict[str, str]) -> str:
    marks = ",".join(letters[note] for note in dict.fromkeys(cell.notes))
    return f"<sup>{marks}</sup>" if marks else ""


def _letters(place: int) -> str:
    """a to z, then aa: a dash with a number behind it would read as a negative number."""
    before, last = divmod(place, 26)
    return (_letters(before - 1) if before else "") + chr(ord("a") + last)
