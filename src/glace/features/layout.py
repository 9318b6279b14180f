"""How tables are laid out: which columns hold ids, weights, texts and labels, and how cells are separated."""

import codecs
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from glace.errors import InputError

ByType: TypeAlias = str | Mapping[str, str] | None
"""The name of a column; by node type, or by the two types of edges, if the tables are given so."""

SEPARATORS = {"comma": ",", "tab": "\t", "\\t": "\t", "semicolon": ";", "pipe": "|", "space": " "}
"""Words for characters that a shell makes hard to type."""
SPACE = " "
"""Stands for any run of blanks and tabs."""


@dataclass(frozen=True)
class TableLayout:
    """How tables are laid out, where they differ from what `read_tables` expects.

    Parameters
    ----------
    source_column, target_column : str, optional
        Columns of the two ends of an edge; give both. A file without a header has columns 1, 2, ...
    weight_column : str, optional
        Column of the weights of edges.
    id_column : str, optional
        Column of the ids of nodes.
    text_column : str, optional
        Column of the texts of nodes.
    label_column : str, optional
        Column of the labels of nodes, which are not used in training.
    separator : str, optional
        The character between two cells of a text file: itself, or comma, tab, semicolon, pipe or space (any number of
        blanks and tabs). By default it follows from the file.
    encoding : str, optional
        The encoding of text files, such as latin-1. By default UTF-8 or UTF-16, as the file shows.
    header : bool, optional
        Whether the first row of text files holds names of columns. By default it follows from the file.

    Notes
    -----
    With several node types, a column may be a dict by type: ``id_column={"user": "userId", "movie": "movieId"}``,
    ``source_column={"user:movie": "userId"}``.

    Examples
    --------
    >>> import glace, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "ratings.csv")
    ...     _ = path.write_text("userId,movieId,rating,timestamp\\nann,Alien,5,9\\nann,Heat,3,9\\n")
    ...     layout = glace.TableLayout(source_column="userId", target_column="movieId", weight_column="rating")
    ...     graph = glace.read_tables(path, layout=layout)
    >>> list(graph.ids)
    ['Alien', 'Heat', 'ann']
    """

    source_column: ByType = None
    target_column: ByType = None
    weight_column: ByType = None
    id_column: ByType = None
    text_column: ByType = None
    label_column: ByType = None
    separator: str | None = None
    encoding: str | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if self.separator is not None:
            plain = SEPARATORS.get(self.separator, self.separator)
            if len(plain) != 1 or not plain.isascii() or plain in '"\r\n' or plain.isalnum():
                words = ", ".join(word for word in SEPARATORS if word.isalpha())
                raise InputError(f"must be one character, or {words}, not {self.separator!r}", option="separator")
            object.__setattr__(self, "separator", plain)
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _encoding(self.encoding))

    @property
    def label(self) -> str:
        """Name of the column of labels."""
        return str(self.label_column or "label")

    @property
    def categories(self) -> tuple[str, str]:
        """Columns that hold a category of the node and no attribute: its label and its type."""
        return self.label, "type"


COLUMN_OPTIONS = tuple(each.name for each in fields(TableLayout) if each.name.endswith("_column"))
COLUMNS_OF = {"edges": ("source", "target", "weight"), "attributes": ("id", "label"), "texts": ("id", "text", "label")}
"""Columns that a table of each role can name."""
PLAIN = TableLayout()


def layout_of(layout: TableLayout, types: str) -> TableLayout:
    """Return the layout of the table of a node type, or of edges between two types, such as user:movie."""
    chosen: dict[str, Any] = {name: _of_type(getattr(layout, name), types) for name in COLUMN_OPTIONS}
    return replace(layout, **chosen)


def given_columns(layout: TableLayout, role: str) -> dict[str, str]:
    """Return the columns that are given for a table of "edges", "attributes" or "texts", by option."""
    wanted = (f"{name}_column" for name in COLUMNS_OF[role])
    return {name: str(getattr(layout, name)) for name in wanted if getattr(layout, name) is not None}


def resolved(layout: TableLayout, names: Sequence[str], role: str, table: str) -> TableLayout:
    """Return the layout with the names of a table's columns where they were given by number; unknown ones raise."""
    given = given_columns(layout, role)
    found: dict[str, Any] = {option: named_column(names, given[option], option, table) for option in given}
    return replace(layout, **found)


def check_types(layout: TableLayout, known: Sequence[str]) -> None:
    """Raise InputError if a column is given for a node type that there is none of."""
    for option in COLUMN_OPTIONS:
        value = getattr(layout, option)
        strange = next((name for name in value if name not in known), None) if isinstance(value, Mapping) else None
        if strange is not None:
            raise InputError(f"names the type {strange!r}, but there are {', '.join(known)}", option=option)


def _of_type(value: ByType, types: str) -> str | None:
    return value.get(types) if isinstance(value, Mapping) else value


def _encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError as problem:
        raise InputError(
            f"must be the name of an encoding, such as latin-1, not {name!r}", option="encoding"
        ) from problem


def named_column(names: Sequence[str], given: str, option: str, table: str) -> str:
    """Return the column that an option gives by its name or by its number, from 1; InputError if there is none."""
    if given in names:
        return given
    if given.isdecimal() and 1 <= int(given) <= len(names):
        return names[int(given) - 1]
    alike = difflib.get_close_matches(given, names, 1)
    hint = f"did you mean {alike[0]!r}?" if alike else f"its columns are {', '.join(map(repr, names[:10]))}"
    raise InputError(f"is {given!r}, but {table} has no such column; {hint}", option=option)
