"""Node ids: strings or integers, in the user's order, and the way from an id to its position.

Kept as one Arrow array: a few bytes an id, hashed look-ups of whole columns, no Python object per node.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from glace.blocks import blocks
from glace.errors import InputError

NodeId = str | int

# How a number is written that is one: "007" and "+7" are names. 19 digits are the most that may fit into 64 bits.
CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


class NodeIds:
    """The distinct ids of n nodes, all strings or all integers; position in it is the node's number."""

    def __init__(self, values: Any) -> None:
        self.array = id_array(values)
        repeated = _first_repeated(self.array)
        if repeated is not None:
            raise InputError(f"id {repeated!r} occurs more than once; every node needs its own id")

    @classmethod
    def numbered(cls, count: int) -> "NodeIds":
        """Ids 0, 1, ... count - 1."""
        return cls(pa.array(np.arange(count, dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, position: slice) -> list[NodeId]: ...

    @overload
    def __getitem__(self, position: int) -> NodeId: ...

    def __getitem__(self, position: int | slice) -> NodeId | list[NodeId]:
        if isinstance(position, slice):
            several: list[NodeId] = self.array[position].to_pylist()
            return several
        value: NodeId = self.array[int(position)].as_py()
        return value

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self.array.to_pylist())

    def __contains__(self, wanted: object) -> bool:
        return self._scan(wanted) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeIds) and bool(self.array.equals(other.array))

    def __hash__(self) -> int:
        return hash((len(self), str(self.array.type)))

    def __repr__(self) -> str:
        shown = ", ".join(repr(value) for value in self.array[:3].to_pylist())
        return f"NodeIds([{shown}{', ...' if len(self) > 3 else ''}], {len(self)} ids)"

    def ascend(self) -> bool:
        """Whether each id comes after the one before; looked at in blocks, nothing is copied."""
        return _ascends(self.array)

    @property
    def are_strings(self) -> bool:
        """Whether the ids are strings; otherwise they are 64-bit integers."""
        return bool(pa.types.is_large_string(self.array.type))

    def to_numpy(self) -> npt.NDArray[Any]:
        """The ids as an array of int64 or of Python strings."""
        values: npt.NDArray[Any] = self.array.to_numpy(zero_copy_only=False)
        return values

    def parse(self, text: str) -> NodeId:
        """An id as typed on a command line: a number if the ids are numbers and it is one."""
        return int(text) if not self.are_strings and is_integer_text(text) else text

    def take(self, positions: npt.NDArray[np.integer]) -> "NodeIds":
        """The ids at these positions, in that order."""
        return NodeIds(self.array.take(pa.array(positions)))

    def find(self, wanted: Any) -> npt.NDArray[np.int64]:
        """Positions of a whole column of ids, -1 where an id is not here; a column of the other kind raises."""
        found = pc.index_in(self._like_these(wanted), value_set=self.array)
        positions: npt.NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        return positions

    def position(self, wanted: NodeId) -> int:
        """Position of one id; an unknown one raises, naming ids that look like it."""
        found = self._scan(wanted)
        if found < 0:
            raise self._unknown(wanted)
        return found

    def positions(self, wanted: Sequence[NodeId]) -> npt.NDArray[np.int64]:
        """Positions of several ids; the first unknown one raises."""
        try:
            found = self.find(list(wanted))
        except InputError:  # ids of another kind than these
            found = np.full(len(wanted), -1)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            raise self._unknown(wanted[int(unknown[0])])
        return found

    def contents(self) -> Iterator[bytes | memoryview]:
        """Bytes that equal ids share and others do not: kind, lengths of strings, values.

        They are the same whether the ids have an Arrow buffer of their own or a slice of a longer one.
        """
        yield str(self.array.type).encode()
        if not self.are_strings:
            yield np.ascontiguousarray(self.to_numpy()).data
            return
        for part in blocks(len(self)):
            yield pc.binary_length(self.array[part]).to_numpy().data
        _, offsets, letters = self.array.buffers()
        if letters is not None and len(self):
            ends = np.frombuffer(offsets, dtype=np.int64)[self.array.offset :][: len(self) + 1]
            yield memoryview(letters)[ends[0] : ends[-1]]

    def _scan(self, wanted: object) -> int:
        """Position of one id, -1 if it is not here."""
        try:
            value = self._like_these([wanted])[0]
        except InputError:  # an id of another kind than these
            return -1
        # 0.7 ms over 200,000 strings. A hash table of all ids takes 40 times that for each call or, kept, a
        # Python object for each id.
        return int(pc.index(self.array, value).as_py()) if value.is_valid else -1

    def _like_these(self, wanted: Any) -> Any:
        """A column as an Arrow one of these ids' type; only widths change, so "7" is not 7 and "007" neither."""
        column = wanted if isinstance(wanted, pa.Array | pa.ChunkedArray) else _array_of(wanted)
        kind = _plain_type(column.type)
        same = pa.types.is_large_string(kind) if self.are_strings else pa.types.is_integer(kind)
        if len(column) and not (same or pa.types.is_null(kind)):
            raise InputError(f"ids are {self.array.type}, but these are {column.type}; give them as those")
        return _checked_cast(_plain_column(column), self.array.type)

    def _unknown(self, wanted: NodeId) -> InputError:
        return InputError(f"no node {wanted!r}; {self._hint(str(wanted))}")

    def _hint(self, wanted: str) -> str:
        wanted = wanted.encode("utf-8", "replace").decode()  # half of a letter that takes two is none to Arrow
        # difflib over a million ids takes minutes; ids that share some letters are candidates enough.
        texts = pc.cast(self.array, pa.large_string())
        related = texts.filter(pc.match_substring(texts, wanted.split(":")[-1][:3], ignore_case=True))
        close = difflib.get_close_matches(wanted, related[:20_000].to_pylist(), n=3, cutoff=0.5)
        if close:
            return "did you mean " + ", ".join(close) + "?"
        return f"ids look like {self[0]!r}" if len(self) else "the graph has no nodes"


def is_integer_text(text: str) -> bool:
    """Whether a text is written as a plain integer is."""
    return re.fullmatch(CANONICAL_INTEGER, text) is not None


def integers_of(column: Any) -> Any:
    """A column of texts as int64 where each is written as a plain integer of 64 bits (nulls stay), else None."""
    if pc.all(pc.match_substring_regex(column, CANONICAL_INTEGER)).as_py() is False:
        return None
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # 19 digits, but beyond 2^63
        return None


def id_array(values: Any) -> pa.Array:
    """Any column of ids, repeated or not, as one Arrow array of int64 or large_string without nulls."""
    if isinstance(values, pa.ChunkedArray):
        plain = _plain_column(values)
        # One chunk is used where it lies: the ids of a mapped file stay on disk.
        values = plain.chunk(0) if plain.num_chunks == 1 else plain.combine_chunks()
    array = plain_array(values if isinstance(values, pa.Array) else _array_of(values))
    if array.null_count:
        missing = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"the id in row {missing + 1} is missing; every node needs an id")
    if pa.types.is_integer(array.type):
        return _checked_cast(array, pa.int64())
    if pa.types.is_large_string(array.type):
        return array
    if len(array) == 0:
        return pa.array([], pa.int64())
    raise InputError(f"ids must be strings or integers, not {array.type}")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary; every kind of text is large_string."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if str(plain) in ("string", "string_view") else plain


def plain_array(array: pa.Array) -> pa.Array:
    """The array without a dictionary, and text as large_string."""
    # Arrow cannot decode a dictionary of string_view, which polars' categories are; its values it can cast.
    if pa.types.is_dictionary(array.type):
        return array.dictionary.cast(_plain_type(array.type)).take(array.indices)
    return array.cast(_plain_type(array.type))


def _plain_column(column: Any) -> Any:
    if isinstance(column, pa.Array):
        return plain_array(column)
    return pa.chunked_array([plain_array(chunk) for chunk in column.chunks], _plain_type(column.type))


def _array_of(values: Any) -> pa.Array:
    try:
        return pa.array(values)
    except (TypeError, ValueError, OverflowError) as problem:  # Arrow's own errors are kinds of these
        raise InputError(f"ids must be all strings or all 64-bit integers: {problem}") from problem


def _checked_cast(array: Any, wanted: pa.DataType) -> Any:
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as problem:
        raise InputError(f"ids must fit into 64-bit integers: {problem}") from problem


def _ascends(array: pa.Array) -> bool:
    steps = blocks(max(len(array) - 1, 0))
    return all(pc.all(pc.less(array[step], array[step.start + 1 : step.stop + 1])).as_py() is True for step in steps)


def _first_repeated(array: pa.Array) -> NodeId | None:
    if _ascends(array):  # a hash table of all ids would take many times the memory they do
        return None
    if len(pc.unique(array)) == len(array):
        return None
    counts = pc.value_counts(array)
    position = pc.index(pc.greater(counts.field(1), 1), True).as_py()
    value: NodeId = counts.field(0)[position].as_py()
    return value
