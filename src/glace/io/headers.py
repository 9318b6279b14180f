"""Whether the first row of a text file holds column names or data, and the names that columns have in either case."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from glace.errors import InputError
from glace.features.columns import RowLocator, attribute_columns, check_names, parses
from glace.features.layout import TableLayout, given_columns, layout_of
from glace.ids import is_integer_text

# The columns of a file without a header; attributes follow the id.
HEADERLESS = {"edges": ("source", "target", "weight"), "attributes": ("id",), "texts": ("id", "text")}
# Headers that cannot be mistaken for data.
CLEAR_HEADER = {"edges": "source,target", "attributes": "id, ...", "texts": "id,text"}
USUAL_NAMES = frozenset(
    [
        "abstract",
        "body",
        "category",
        "class",
        "content",
        "definition",
        "description",
        "genre",
        "id",
        "key",
        "kind",
        "label",
        "name",
        "node",
        "section",
        "summary",
        "text",
        "title",
        "type",
    ]
)
"""A first row with two of these names columns of texts."""


class Header(NamedTuple):
    """The names of the columns, whether the file states them, and what may surprise about that, in words."""

    names: list[str]
    present: bool
    is_unclear: bool = False
    """Whether the names may be data: an id and a text look like any two names."""
    notes: tuple[str, ...] = ()


class FirstRowIsData(InputError):
    """What was read as column names is data: the ids of nodes, or a weight."""

    def __init__(self, path: Path, role: str, names: Sequence[str]) -> None:
        super().__init__(
            f"{path.name}: the first row ({_shown(names)}) looks like data, not like column names; add a header such "
            f"as {CLEAR_HEADER[role]}, or read the file without one",
            hint=("header", False),
        )
        self.path = path


def unclear_header(where: RowLocator, role: str, names: Sequence[str]) -> InputError:
    """The error for a first row that may be names or data."""
    return InputError(
        f"{where.name}: the first row ({_shown(names)}) may hold column names or data; if it holds names, name the id "
        f"column ({'--id-column, or ' * (role == 'texts')}header=True, --header), otherwise read it as data",
        hint=("header", False),
    )


def _shown(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"


def header_of(first: list[str], role: str, layout: TableLayout, where: RowLocator) -> Header:
    """Return the header of a file with this first row."""
    named = any(name in first for name in given_columns(layout, role).values())
    may_be_data = layout.header is None and not named and MAY_BE_DATA[role](first)
    if may_be_data and role == "attributes" and _count_up(first):
        raise unclear_header(where, role, first)
    is_unclear = may_be_data and role == "texts"
    if layout.header or (layout.header is None and (is_unclear or not may_be_data)):
        _check_distinct(first, where)
        return Header(first, True, is_unclear)
    names = list(HEADERLESS[role])
    if len(first) > len(names) and role != "attributes" and not given_columns(layout, role):
        raise InputError(
            f"{where.name}: {len(first)} columns without a header; name those of {role} by their numbers",
            hint=("source_column" if role == "edges" else "text_column", 1 if role == "edges" else 2),
        )
    names = (names + [f"column {place + 1}" for place in range(len(names), len(first))])[: len(first)]
    notes = (f"no header; the columns are {_shown(names)}",) if layout.header is None else ()
    return Header(names, False, notes=notes)


def _check_distinct(names: Sequence[str], where: RowLocator) -> None:
    try:
        check_names(names, where)
    except InputError as problem:
        raise InputError(
            f"{problem}, or read the file without a header if its first row is data", hint=("header", False)
        ) from problem


def _count_up(names: Sequence[str]) -> bool:
    """Whether names are 0, 1, 2, ... or 1, 2, 3, ..., as pandas calls the columns of an array; data may be, too."""
    return (
        any(list(names) == [str(start + place) for place in range(len(names))] for start in (0, 1)) and len(names) > 2
    )


def _is_node(names: Sequence[str]) -> bool:
    """Whether a header may be an id and numbers.

    pandas names columns 0, 1, 2, ... and an index "". One or two such names after another name may be data as well.
    """
    if "id" in names or not names:
        return False
    key, others = names[0], attribute_columns(names, RowLocator(""))
    if is_integer_text(key):
        return True
    if not others or not all(parses(name) for name in others):
        return False
    counted = any(others == [str(start + place) for place in range(len(others))] for start in (0, 1))
    return not (counted and (len(others) > 2 or key == ""))


def _is_text(names: Sequence[str]) -> bool:
    """Whether a header may be an id and a text, which look like any two names."""
    usual = [name for name in names if name.strip().lower() in USUAL_NAMES or re.search(r"(^|[a-z_ ])[Ii][Dd]$", name)]
    return not {"id", "text"} & set(names) and len(usual) < 2


MAY_BE_DATA: dict[str, Callable[[Sequence[str]], bool]] = {
    "edges": lambda names: len(names) > 1 and all(is_integer_text(name) for name in names[:2]),
    "attributes": _is_node,
    "texts": _is_text,
}


class Layouts:
    """The layout of each file of a graph: a file whose first row turns out to be data has no header."""

    def __init__(self, layout: TableLayout) -> None:
        self._layout = layout
        self._headerless: list[Path] = []

    def of(self, path: str | Path, types: str = "") -> TableLayout:
        """Return the layout of a file, which holds nodes or edges of these types."""
        layout = layout_of(self._layout, types)
        return replace(layout, header=False) if Path(path) in self._headerless else layout

    @property
    def notes(self) -> tuple[str, ...]:
        """Which files were found to have no header, in words."""
        return tuple(f"{path.name}: no header; its first row names a node" for path in self._headerless)

    def take_as_headerless(self, problem: FirstRowIsData) -> None:
        """Note that a file has no header, so that it is read again; raise if the user said otherwise."""
        if self._layout.header is not None or problem.path in self._headerless:
            raise problem
        self._headerless.append(problem.path)
