"""CSV and TSV files, read by Arrow; errors name the line that a text editor shows."""

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from glace.errors import InputError
from glace.storage.files import CHUNK

# The columns of a file without a header; attributes follow the id.
HEADERLESS = {"edges": ("source", "target", "weight"), "attributes": ("id",), "texts": ("id", "text")}
NOT_UTF8 = "the text is not UTF-8; save the file in this encoding"

# A record must fit into a block, and a long text with line breaks is one record.
BLOCK_BYTES = 16 << 20
# Files read in pieces have rows of numbers; Arrow reads several pieces ahead.
PIECE_BYTES = 4 << 20

Types = dict[str, pa.DataType]
"""Arrow types by column name."""


@dataclass(frozen=True)
class TextFile:
    """A CSV or TSV file; maps records, which Arrow counts, to lines, which people count."""

    path: Path
    separator: str
    header: bool
    zipped: bool

    def names(self, role: str) -> list[str]:
        """Names of the columns: the first record, or without a header the default names of the role."""
        first = self._first_record()
        if self.header:
            return first
        named = list(HEADERLESS[role])
        if len(first) > len(named) and role != "attributes":
            raise InputError(
                f"{self.path.name}: {len(first)} columns without a header; give {', '.join(named)}, or add a header"
            )
        return (named + [f"column {place + 1}" for place in range(len(named), len(first))])[: len(first)]

    def read(self, names: list[str], types: Types) -> pa.Table:
        """Read the whole table; a cell or row that cannot be parsed raises an error that names its line."""
        try:
            table = self._parse(names, types, threads=True)
        except (pa.ArrowException, OSError):
            table = self._parse_or_locate_error(names, types)
        # Arrow reads a column that is not UTF-8 as bytes; forced to text, it reports the bad row.
        raw = [field.name for field in table.schema if pa.types.is_binary(field.type)]
        if raw:
            table = self._parse_or_locate_error(names, types | dict.fromkeys(raw, pa.large_string()))
        self._check_quotes(table)
        return table

    def pieces(self, names: list[str], types: Types, columns: list[str]) -> Iterator[tuple[pa.Table, float]]:
        """Yield these columns a few megabytes at a time, and the share of the file read so far; at least one piece.

        The type of a column that is not in `types` is inferred from the first megabytes; numbers are 64-bit floats.
        """
        inferred = self._inferred_types(names, types)
        table = None
        try:
            for table, share in self._batches(names, types | inferred, columns):
                yield table, share
        except (pa.ArrowException, OSError) as problem:
            raise InputError(self._message(one_line(problem), names)) from problem
        assert table is not None
        self._check_quotes(table)

    def _batches(self, names: list[str], types: Types, columns: list[str]) -> Iterator[tuple[pa.Table, float]]:
        with pa.OSFile(str(self.path)) as raw:
            stream = pa.CompressedInputStream(raw, "gzip") if self.zipped else raw
            options = pa.csv.ConvertOptions(column_types=types, include_columns=columns)
            reader = pa.csv.open_csv(stream, **self._options(names, False, PIECE_BYTES), convert_options=options)
            batch = None
            for batch in reader:
                yield pa.Table.from_batches([batch]), raw.tell() / raw.size()
            if batch is None:
                yield reader.schema.empty_table(), 1.0

    def _inferred_types(self, names: list[str], types: Types) -> Types:
        with self._stream() as stream:
            options = pa.csv.ConvertOptions(column_types=types)
            try:
                settings = self._options(names, False, PIECE_BYTES)
                reader = pa.csv.open_csv(stream, **settings, convert_options=options)
            except (pa.ArrowException, OSError) as problem:
                raise InputError(self._message(one_line(problem), names)) from problem
        inferred = {field.name: field.type for field in reader.schema if field.name not in types}
        numeric = (pa.types.is_integer, pa.types.is_null, pa.types.is_floating)
        texts = {name: pa.large_string() for name, kind in inferred.items() if pa.types.is_binary(kind)}
        numbers = {name: pa.float64() for name, kind in inferred.items() if any(test(kind) for test in numeric)}
        return inferred | texts | numbers

    def line_of_row(self, position: int) -> int:
        """Line number, from 1, on which the row of data at `position`, from 0, starts."""
        return self._line(position + int(self.header))

    def _check_quotes(self, table: pa.Table) -> None:
        # If a quote is never closed, Arrow reads all later rows into one long last cell.
        cell = table.column(table.num_columns - 1)[-1].as_py() if table.num_rows else None
        if isinstance(cell, str) and ("\n" in cell or "\r" in cell) and self._ends_quoted():
            row = self.line_of_row(table.num_rows - 1)
            raise InputError(f"{self.path.name}, row {row}: a quote is opened but never closed; close it or double it")

    def _ends_quoted(self) -> bool:
        quoted = False
        with self._stream() as stream:
            for line in _lines(stream):
                quoted = _ends_quoted(line, self.separator, quoted)
        return quoted

    def _parse_or_locate_error(self, names: list[str], types: Types) -> pa.Table:
        try:
            # Arrow reports the row of an error only if it reads with one thread.
            return self._parse(names, types, threads=False)
        except (pa.ArrowException, OSError) as problem:
            raise InputError(self._message(one_line(problem), names)) from problem

    def _parse(self, names: list[str], types: Types, threads: bool) -> pa.Table:
        options = pa.csv.ConvertOptions(column_types=types)
        with self._stream() as stream:
            return pa.csv.read_csv(stream, **self._options(names, threads, BLOCK_BYTES), convert_options=options)

    def _options(self, names: list[str], threads: bool, block: int) -> dict[str, object]:
        given = {} if self.header else {"column_names": names}
        reading = pa.csv.ReadOptions(use_threads=threads, block_size=block, **given)
        return {"read_options": reading, "parse_options": self._parse_options}

    def _message(self, problem: str, names: list[str]) -> str:
        row = re.search(r"Row #(\d+): (.*)", problem)
        if row is None:
            return f"{self.path.name} cannot be read: {problem}"
        column = re.search(r"CSV column #(\d+)", problem)
        place = f" in column {names[int(column[1])]!r}" if column else ""
        # Arrow counts records from 1, including the header but not empty lines.
        return f"{self.path.name}, row {self._line(int(row[1]) - 1)}: {_reworded(row[2])}{place}"

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
        """Raise if a file seems to have one column because another character separates its columns."""
        found = next((other for other in (";", "\t", ",", "|") if other in names[0]), None)
        if len(names) == 1 and found is not None:
            raise InputError(
                f"{self.path.name}: {found!r} seems to separate the columns, but {self.separator!r} is expected; "
                "separate them by commas in a .csv file, or by tabs in a .tsv file"
            )

    def _stream(self) -> pa.NativeFile:
        return pa.input_stream(self.path, compression="gzip" if self.zipped else None)

    @property
    def _parse_options(self) -> pa.csv.ParseOptions:
        return pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)

    def _line(self, record: int) -> int:
        # The file is read again, only for a message: blank lines and line breaks inside quotes make the number of a
        # record differ from its line.
        with self._stream() as stream:
            last = 0
            for last in islice(_record_starts(_lines(stream), self.separator), record + 1):  # noqa: B007
                pass
        return last + 1


def _lines(stream: pa.NativeFile | io.BytesIO) -> Iterator[bytes]:
    """Yield the lines of a stream with their line ends, without a byte order mark."""
    rest = stream.read(CHUNK).removeprefix(codecs.BOM_UTF8)
    while chunk := stream.read(CHUNK):
        # The last line may be incomplete, and so may a line end of two characters.
        *whole, rest = (rest + chunk).splitlines(keepends=True)
        yield from whole
    yield from rest.splitlines(keepends=True)


def _record_starts(lines: Iterable[bytes], separator: str) -> Iterator[int]:
    """Yield the numbers, from 0, of the lines on which a record starts."""
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


def _reworded(problem: str) -> str:
    """A clearer message for a problem that Arrow reports about a cell or row."""
    if "invalid UTF8" in problem:
        return NOT_UTF8
    value = re.search(r"invalid value (.*)", problem)
    return f"expected a number, but found {value[1]}" if value else problem[:1].lower() + problem[1:200]


def one_line(problem: Exception) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(problem).split())
