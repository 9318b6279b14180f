"""Node ids, strings or integers in the user's order, and the lookup of their positions.

They are one Arrow array: a few bytes per id, hashed lookups of whole columns, no Python object per node.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from glace.blocks import blocks
from glace.errors import InputError

NodeId: TypeAlias = str | int
ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray
IdColumn: TypeAlias = Sequence[str] | Sequence[int] | Sequence[NodeId] | npt.NDArray[Any] | ArrowColumn
"""Ids as users pass them."""

# "007" and "+7" are names, not integers. Integers of 64 bits have at most 19 digits.
CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


class NodeIds:
    """The distinct ids of n nodes, all strings or all integers; the k-th id belongs to node k."""

    def __init__(self, values: IdColumn) -> None:
        self._array: pa.Array | None = id_array(values)
        self._count = len(self._array)
        repeated = _first_repeated(self.array)
        if repeated is not None:
            raise InputError(f"id {repeated!r} occurs more than once; every node needs its own id")

    @classmethod
    def numbered(cls, count: int) -> "NodeIds":
        """Return the ids 0, 1, ... count - 1, which take no memory before they are used."""
        ids = cls.__new__(cls)
        ids._array, ids._count = None, count
        return ids

    @property
    def array(self) -> pa.Array:
        """The ids as an Arrow array of int64 or large_string."""
        if self._array is None:
            self._array = pa.array(np.arange(self._count, dtype=np.int64))
        return self._array

    def __len__(self) -> int:
        return self._count

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
        if not isinstance(other, NodeIds) or len(self) != len(other):
            return False
        return (self._array is None and other._array is None) or bool(self.array.equals(other.array))

    def __hash__(self) -> int:
        return hash((len(self), self.are_strings))

    def __repr__(self) -> str:
        shown = ", ".join(repr(value) for value in self.array[:3].to_pylist())
        return f"NodeIds([{shown}{', ...' if len(self) > 3 else ''}], {len(self)} ids)"

    def ascend(self) -> bool:
        """Return whether the ids are sorted; they are compared in blocks, without a copy."""
        return self._array is None or _ascends(self.array)

    @property
    def are_strings(self) -> bool:
        """Whether the ids are strings; otherwise they are 64-bit integers."""
        return self._array is not None and bool(pa.types.is_large_string(self._array.type))

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return the ids as an array of int64 or of Python strings."""
        values: npt.NDArray[Any] = self.array.to_numpy(zero_copy_only=False)
        return values

    def parse(self, text: str) -> NodeId:
        """Return an id typed on a command line: as an integer if the ids are integers and it is one."""
        return int(text) if not self.are_strings and is_integer_text(text) else text

    def take(self, positions: npt.NDArray[np.integer]) -> "NodeIds":
        """Return the ids at these positions, in this order."""
        return NodeIds(self.array.take(pa.array(positions)))

    def find(self, wanted: IdColumn) -> npt.NDArray[np.int64]:
        """Return the positions of a column of ids, -1 for an unknown id; strings among integers raise InputError."""
        found = pc.index_in(self._like_these(wanted), value_set=self.array)
        positions: npt.NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        return positions

    def position(self, wanted: NodeId) -> int:
        """Return the position of one id; InputError for an unknown one, with similar ids."""
        found = self._scan(wanted)
        if found < 0:
            raise self._unknown(wanted)
        return found

    def alike_but_for_spaces(self, wanted: NodeId) -> NodeId | None:
        """Return an id that differs from the wanted one by spaces at its ends only, if there is one."""
        if not self.are_strings or not isinstance(wanted, str):
            return None
        found = pc.index(pc.utf8_trim_whitespace(self.array), pa.scalar(wanted.strip(), pa.large_string())).as_py()
        return None if found < 0 or self[found] == wanted else self[found]

    def positions(self, wanted: Sequence[NodeId]) -> npt.NDArray[np.int64]:
        """Return the positions of several ids; InputError for the first unknown one."""
        try:
            found = self.find(list(wanted))
        except InputError:  # ids of another kind than these
            found = np.full(len(wanted), -1)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            raise self._unknown(wanted[int(unknown[0])])
        return found

    def contents(self) -> Iterator[bytes | memoryview]:
        """Yield bytes for a checksum: the type, the lengths of strings, the values.

        They do not depend on whether the ids fill an Arrow buffer or are a slice of it.
        """
        yield b"large_string" if self.are_strings else b"int64"
        if not self.are_strings:
            for part in blocks(len(self)):
                numbers = np.arange(part.start, part.stop) if self._array is None else self.array[part].to_numpy()
                yield np.ascontiguousarray(numbers, dtype=np.int64).data
            return
        for part in blocks(len(self)):
            yield pc.binary_length(self.array[part]).to_numpy().data
        _, offsets, letters = self.array.buffers()
        if letters is not None and len(self):
            ends = np.frombuffer(offsets, dtype=np.int64)[self.array.offset :][: len(self) + 1]
            yield memoryview(letters)[ends[0] : ends[-1]]

    def _scan(self, wanted: object) -> int:
        """Return the position of one id, -1 if it is unknown."""
        try:
            value = self._like_these([wanted])[0]
        except InputError:  # an id of another kind than these
            return -1
        # Takes 0.7 ms for 200,000 strings; building a hash table takes 40 times as long, keeping one an object per id.
        return int(pc.index(self.array, value).as_py()) if value.is_valid else -1

    def _like_these(self, wanted: IdColumn | list[object]) -> ArrowColumn:
        """Return a column in the type of these ids; only widths are converted, so "7" is not 7."""
        column = wanted if isinstance(wanted, pa.Array | pa.ChunkedArray) else _array_of(wanted)
        kind = _plain_type(column.type)
        same = pa.types.is_large_string(kind) if self.are_strings else pa.types.is_integer(kind)
        if len(column) and not (same or pa.types.is_null(kind)):
            raise InputError(f"ids are {self.array.type}, but these are {column.type}; convert them")
        return _checked_cast(_plain_column(column), self.array.type)

    def _unknown(self, wanted: NodeId) -> InputError:
        return InputError(f"no node {wanted!r}; {self._hint(str(wanted))}")

    def _hint(self, wanted: str) -> str:
        wanted = wanted.encode("utf-8", "replace").decode()  # Arrow refuses lone surrogates
        alike = self.alike_but_for_spaces(wanted)
        if alike is not None:
            return f"did you mean {alike!r}, which differs by spaces only?"
        # difflib needs minutes for a million ids, so it compares only those that share some letters.
        texts = pc.cast(self.array, pa.large_string())
        related = texts.filter(pc.match_substring(texts, wanted.split(":")[-1][:3], ignore_case=True))
        close = difflib.get_close_matches(wanted, related[:20_000].to_pylist(), n=3, cutoff=0.5)
        if close:
            return "did you mean " + ", ".join(close) + "?"
        return f"ids look like {self[0]!r}" if len(self) else "the graph has no nodes"


def is_integer_text(text: str) -> bool:
    """Return whether a text is a plain integer, without leading zeros or a plus sign."""
    return re.fullmatch(CANONICAL_INTEGER, text) is not None


def integers_of(column: ArrowColumn) -> ArrowColumn | None:
    """Return a column of texts as int64 if all are plain 64-bit integers or null, else None."""
    if pc.all(pc.match_substring_regex(column, CANONICAL_INTEGER)).as_py() is False:
        return None
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # 19 digits, but beyond 2^63
        return None


def id_array(values: IdColumn) -> pa.Array:
    """Return a column of ids as one Arrow array of int64 or large_string; ids may repeat, but not be missing."""
    if isinstance(values, pa.ChunkedArray):
        plain = _plain_column(values)
        # A single chunk is not copied, so that the ids of a mapped file stay on disk.
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
    """Return the type without dictionary encoding; every text type becomes large_string."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if str(plain) in ("string", "string_view") else plain


def plain_array(array: pa.Array) -> pa.Array:
    """Return the array without dictionary encoding, and text as large_string."""
    # Arrow cannot decode a dictionary of string_view (categories of polars), but can cast its values.
    if pa.types.is_dictionary(array.type):
        return array.dictionary.cast(_plain_type(array.type)).take(array.indices)
    return array.cast(_plain_type(array.type))


def _plain_column(column: ArrowColumn) -> ArrowColumn:
    if isinstance(column, pa.Array):
        return plain_array(column)
    return pa.chunked_array([plain_array(chunk) for chunk in column.chunks], _plain_type(column.type))


def _array_of(values: object) -> pa.Array:
    try:
        return pa.array(values)
    except (TypeError, ValueError, OverflowError) as problem:  # Arrow's errors are subclasses of these
        raise InputError(f"ids must be all strings or all 64-bit integers: {problem}") from problem


def _checked_cast(array: ArrowColumn, wanted: pa.DataType) -> ArrowColumn:
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as problem:
        raise InputError(f"ids must fit into 64-bit integers: {problem}") from problem


def _ascends(array: pa.Array) -> bool:
    steps = blocks(max(len(array) - 1, 0))
    return all(pc.all(pc.less(array[step], array[step.start + 1 : step.stop + 1])).as_py() is True for step in steps)


def _first_repeated(array: pa.Array) -> NodeId | None:
    if _ascends(array):  # needs no hash table, which takes many times the memory of the ids
        return None
    if len(pc.unique(array)) == len(array):
        return None
    counts = pc.value_counts(array)
    position = pc.index(pc.greater(counts.field(1), 1), True).as_py()
    value: NodeId = counts.field(0)[position].as_py()
    return value
