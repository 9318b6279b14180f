"""CSV and TSV files: read by Arrow, with errors that name the line a person would count to."""

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from glace.errors import InputError
from glace.storage.files import CHUNK

# What the columns of a file without a header are; attributes go on after the id.
HEADERLESS = {"edges": ("source", "target", "weight"), "attributes": ("id",), "texts": ("id", "text")}
NOT_UTF8 = "the text is not UTF-8; save the file in that encoding"

# One record must fit into a block; a long text with line breaks may be one record.
BLOCK_BYTES = 16 << 20
# A file read piece by piece has rows of numbers; Arrow reads several pieces ahead.
PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class TextFile:
    """A CSV or TSV file, and the way from its records to its lines."""

    path: Path
    separator: str
    header: bool
    zipped: bool

    def names(self, role: str) -> list[str]:
        """Names of the columns: the first record, or without a header what the role's columns are called."""
        first = self._first_record()
        if self.header:
            return first
        named = list(HEADERLESS[role])
        if len(first) > len(named) and role != "attributes":
            raise InputError(
                f"{self.path.name}: {len(first)} columns without a header; wanted {', '.join(named)}, or a header"
            )
        return (named + [f"column {place + 1}" for place in range(len(named), len(first))])[: len(first)]

    def read(self, names: list[str], types: dict[str, Any]) -> pa.Table:
        """The table; what cannot be parsed raises, naming the line."""
        try:
            table = self._parse(names, types, threads=True)
        except (pa.ArrowException, OSError):
            table = self._parse_saying_where(names, types)
        # Arrow takes a column that is no UTF-8 for bytes; asked for text it says which row is at fault.
        raw = [field.name for field in table.schema if pa.types.is_binary(field.type)]
        if raw:
            table = self._parse_saying_where(names, types | dict.fromkeys(raw, pa.large_string()))
        self._check_quotes(table)
        return table

    def pieces(self, names: list[str], types: dict[str, Any], columns: list[str]) -> Iterator[tuple[pa.Table, float]]:
        """These columns, some megabytes at a time, and the share of the file that has been read; at least one piece.

        A column without a type has that of its first megabytes; numbers are read as 64-bit floats.
        """
        guessed = self._guessed(names, types)
        table = None
        try:
            for table, share in self._batches(names, types | guessed, columns):
                yield table, share
        except (pa.ArrowException, OSError) as problem:
            raise InputError(self._said(one_line(problem), names)) from problem
        assert table is not None
        self._check_quotes(table)

    def _batches(self, names: list[str], types: dict[str, Any], columns: list[str]) -> Iterator[tuple[pa.Table, float]]:
        with pa.OSFile(str(self.path)) as raw:
            stream = pa.CompressedInputStream(raw, "gzip") if self.zipped else raw
            options = pa.csv.ConvertOptions(column_types=types, include_columns=columns)
            reader = pa.csv.open_csv(stream, **self._options(names, False, PIECE_BYTES), convert_options=options)
            batch = None
            for batch in reader:
                yield pa.Table.from_batches([batch]), raw.tell() / raw.size()
            if batch is None:
                yield reader.schema.empty_table(), 1.0

    def _guessed(self, names: list[str], types: dict[str, Any]) -> dict[str, Any]:
        with self._stream() as stream:
            options = pa.csv.ConvertOptions(column_types=types)
            try:
                settings = self._options(names, False, PIECE_BYTES)
                reader = pa.csv.open_csv(stream, **settings, convert_options=options)
            except (pa.ArrowException, OSError) as problem:
                raise InputError(self._said(one_line(problem), names)) from problem
            plain = (pa.types.is_integer, pa.types.is_null, pa.types.is_floating)
            found = {field.name: field.type for field in reader.schema if field.name not in types}
        texts = {name: pa.large_string() for name, kind in found.items() if pa.types.is_binary(kind)}
        numbers = {name: pa.float64() for name, kind in found.items() if any(test(kind) for test in plain)}
        return found | texts | numbers

    def line_of_row(self, position: int) -> int:
        """Line, from 1, on which the k-th row of data starts, k from 0."""
        return self._line(position + int(self.header))

    def _check_quotes(self, table: pa.Table) -> None:
        # Arrow takes a quote that is never closed for one long cell, the last, with all later rows in it.
        cell = table.column(table.num_columns - 1)[-1].as_py() if table.num_rows else None
        if isinstance(cell, str) and ("\n" in cell or "\r" in cell) and self._ends_quoted():
            row = self.line_of_row(table.num_rows - 1)
            raise InputError(f"{self.path.name}, row {row}: a quote is opened but never closed; close or double it")

    def _ends_quoted(self) -> bool:
        quoted = False
        with self._stream() as stream:
            for line in _lines(stream):
                quoted = _ends_quoted(line, self.separator, quoted)
        return quoted

    def _parse_saying_where(self, names: list[str], types: dict[str, Any]) -> pa.Table:
        try:
            # Arrow knows the row of an error only when it reads with one thread.
            return self._parse(names, types, threads=False)
        except (pa.ArrowException, OSError) as problem:
            raise InputError(self._said(one_line(problem), names)) from problem

    def _parse(self, names: list[str], types: dict[str, Any], threads: bool) -> pa.Table:
        options = pa.csv.ConvertOptions(column_types=types)
        with self._stream() as stream:
            return pa.csv.read_csv(stream, **self._options(names, threads, BLOCK_BYTES), convert_options=options)

    def _options(self, names: list[str], threads: bool, block: int) -> dict[str, Any]:
        given = {} if self.header else {"column_names": names}
        reading = pa.csv.ReadOptions(use_threads=threads, block_size=block, **given)
        return {"read_options": reading, "parse_options": self._parse_options}

    def _said(self, problem: str, names: list[str]) -> str:
        row = re.search(r"Row #(\d+): (.*)", problem)
        if row is None:
            return f"{self.path.name} cannot be read: {problem}"
        column = re.search(r"CSV column #(\d+)", problem)
        place = f" in column {names[int(column[1])]!r}" if column else ""
        # Arrow counts records from 1, the header among them, empty lines not.
        return f"{self.path.name}, row {self._line(int(row[1]) - 1)}: {_plain(row[2])}{place}"

    def _first_record(self) -> list[str]:
        try:
            with self._stream() as stream:
                lines = list(_lines(io.BytesIO(stream.read(BLOCK_BYTES))))
            starts = _record_starts(lines, self.separator)
            record = b"".join(lines[next(starts, 0) : next(starts, None)])
            names: list[str] = pa.csv.read_csv(pa.BufferReader(record), parse_options=self._parse_options).column_names
        except UnicodeDecodeError as problem:
            raise InputError(f"{self.path.name}, row {self._line(0)}: {NOT_UTF8}") from problem
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{self.path.name} cannot be read: {one_line(problem)}") from problem
        self._check_separator(names)
        return names

    def _check_separator(self, names: list[str]) -> None:
        """Raise if a file has but one column because something else separates its columns."""
        found = next((other for other in (";", "\t", ",", "|") if other in names[0]), None)
        if len(names) == 1 and found is not None:
            raise InputError(
                f"{self.path.name}: {found!r} seems to separate the columns, but {self.separator!r} is wanted; "
                "save it so, and name it .csv for commas or .tsv for tabs"
            )

    def _stream(self) -> Any:
        return pa.input_stream(self.path, compression="gzip" if self.zipped else None)

    @property
    def _parse_options(self) -> Any:
        return pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)

    def _line(self, record: int) -> int:
        # Read again for a message only: blank lines and line breaks inside quotes make a record's number differ
        # from its line.
        with self._stream() as stream:
            last = 0
            for last in islice(_record_starts(_lines(stream), self.separator), record + 1):  # noqa: B007
                pass
        return last + 1


def _lines(stream: Any) -> Iterator[bytes]:
    """The lines of a stream with their ends, without a byte order mark; read piece by piece."""
    rest = stream.read(CHUNK).removeprefix(codecs.BOM_UTF8)
    while chunk := stream.read(CHUNK):
        # The last line may go on, and so may a line end of two characters.
        *whole, rest = (rest + chunk).splitlines(keepends=True)
        yield from whole
    yield from rest.splitlines(keepends=True)


def _record_starts(lines: Iterable[bytes], separator: str) -> Iterator[int]:
    """Numbers, from 0, of the lines on which a record starts."""
    quoted = False
    for number, line in enumerate(lines):
        if not quoted and line.strip(b"\r\n"):
            yield number
        quoted = _ends_quoted(line, separator, quoted)


def _ends_quoted(line: bytes, separator: str, quoted: bool) -> bool:
    """Whether a line ends inside quotes; only a quote at the start of a field opens them."""
    if quoted:
        closing = re.match(rb'(?:[^"]|"")*"(?!")', line)
        if closing is None:
            return True
        line = b"closed" + line[closing.end() :]
    opening = b"(?:^|" + re.escape(separator.encode()) + b')"(?:[^"]|"")*'
    return re.search(opening + b"$", re.sub(opening + b'"(?!")', b"", line)) is not None


def _plain(problem: str) -> str:
    """Arrow's words for what is wrong with a cell or row, in ours."""
    if "invalid UTF8" in problem:
        return NOT_UTF8
    value = re.search(r"invalid value (.*)", problem)
    return f"wanted a number, but found {value[1]}" if value else problem[:1].lower() + problem[1:200]


def one_line(problem: Exception) -> str:
    """A message without line breaks."""
    return " ".join(str(problem).split())
