"""Text files of cells: their form as ending and first lines show it, and their rows, whole or in pieces, with lines."""

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from glace.errors import InputError
from glace.features.layout import SPACE, TableLayout
from glace.storage.files import CHUNK

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t", ".edges": SPACE, ".edgelist": SPACE}
"""The usual separator of each ending."""
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
TEXT_ENDINGS = tuple(ending + zipped for zipped in ("", *COMPRESSIONS) for ending in SEPARATORS)
COMMENTS = ("#", "%")
"""Lists of edges start with such lines: SNAP's with the first, KONECT's with the second."""
OTHERS = ("\t", ";", ",", "|")
HEAD_BYTES = 1 << 16
HEAD_LINES = 50
NOT_UTF8 = "the text is not UTF-8 but perhaps Latin-1, which Windows writes; name its encoding"

# A record must fit into a block, and a long text with line breaks is one record.
BLOCK_BYTES = 16 << 20
# Files read in pieces have rows of numbers; Arrow reads several pieces ahead.
PIECE_BYTES = 4 << 20

Types = dict[str, pa.DataType]
"""Arrow types by column name."""


@dataclass(frozen=True)
class TextForm:
    """How the bytes of a text file become cells."""

    separator: str
    """SPACE stands for any run of blanks and tabs."""
    compression: str | None = None
    encoding: str | None = None
    """None if it is UTF-8."""
    comment: str | None = None
    """How lines start that are no data; None if there are none."""
    notes: tuple[str, ...] = ()
    """What was found out and may surprise, in words."""

    @property
    def delimiter(self) -> str:
        """The separator in the stream that `cells_stream` gives."""
        return "\t" if self.separator == SPACE else self.separator

    def stream(self, file: pa.NativeFile) -> pa.NativeFile:
        """Return the lines of an open file in UTF-8, as a text editor would number them."""
        opened = pa.CompressedInputStream(file, self.compression) if self.compression else file
        return pa.transcoding_input_stream(opened, self.encoding, "utf-8") if self.encoding else opened

    def cells_stream(self, file: pa.NativeFile) -> pa.NativeFile:
        """Return the same lines without comments, and with one delimiter between two cells."""
        lines = self.stream(file)
        if self.comment is None and self.separator != SPACE:
            return lines
        return pa.PythonFile(io.BufferedReader(_Chunks(self._cleaned(lines)), CHUNK), mode="r")

    def is_comment(self, line: bytes) -> bool:
        """Return whether a line is a comment."""
        return self.comment is not None and line.startswith(self.comment.encode())

    def _cleaned(self, lines: pa.NativeFile) -> Iterator[bytes]:
        rest = b""
        while chunk := lines.read(CHUNK):
            whole, rest = _split_at_last_line(rest + chunk)
            yield self._clean(whole)
        yield self._clean(rest)

    def _clean(self, lines: bytes) -> bytes:
        if self.comment is not None:
            mark = re.escape(self.comment.encode())
            lines = re.sub(rb"(?m)^" + mark + rb"[^\r\n]*", b"", lines)
        if self.separator == SPACE:
            lines = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", lines)
            lines = re.sub(rb"[ \t]+", b"\t", lines)
        return lines


class _Chunks(io.RawIOBase):
    """A file that holds the bytes of an iterator."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, target: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Fill the target with the next bytes; return their number, 0 at the end."""
        while not self._rest:
            try:
                self._rest = next(self._chunks)
            except StopIteration:
                return 0
        count = min(len(target), len(self._rest))
        target[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _split_at_last_line(content: bytes) -> tuple[bytes, bytes]:
    end = max(content.rfind(b"\n"), content.rfind(b"\r", 0, len(content) - 1)) + 1
    return content[:end], content[end:]


def form_of(path: Path, ending: str, role: str, layout: TableLayout) -> TextForm:
    """Return the form of a text file; what the layout does not say follows from the ending and the first lines."""
    plain, zipped = (
        (ending[: ending.rfind(".")], ending[ending.rfind(".") :]) if ending.count(".") > 1 else (ending, "")
    )
    form = TextForm(SEPARATORS[plain], COMPRESSIONS.get(zipped))
    with pa.OSFile(str(path)) as file:
        encoding = layout.encoding or _encoding(form.stream(file).read(HEAD_BYTES))
    encoding = None if encoding in ("utf-8", "utf-8-sig", "ascii") else encoding
    form = TextForm(form.separator, form.compression, encoding)
    with pa.OSFile(str(path)) as file:
        head = form.stream(file).read(HEAD_BYTES)
    lines = _text_lines(head)
    comment = _comment(lines, role)
    data = [line for line in lines if line.strip() and not (comment and line.startswith(comment))]
    sure = role == "edges" and plain != ".csv"
    separator = layout.separator or _separator(data[: 1 if sure else HEAD_LINES], SEPARATORS[plain], role)
    notes = (
        f"read as {encoding.upper()}" if encoding and not layout.encoding else "",
        f"lines that start with {comment} are comments" if comment else "",
        f"columns are separated by {_word(separator)}" if not layout.separator and separator != form.separator else "",
    )
    return TextForm(separator, form.compression, encoding, comment, tuple(filter(None, notes)))


def _word(separator: str) -> str:
    return {"\t": "tabs", SPACE: "blanks"}.get(separator, repr(separator))


def _encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark, or every other byte being 0, gives away; None for all others."""
    marks = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
    marks |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
    found = next((name for mark, name in marks.items() if head.startswith(mark)), None)
    if found is not None or len(head) < 8:
        return found
    zeros = [head[start::2].count(0) / len(head[start::2]) for start in (0, 1)]
    if max(zeros) > 0.5 and min(zeros) < 0.05:
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    return None


def _text_lines(head: bytes) -> list[str]:
    lines = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace").splitlines()
    return lines[:-1] if len(head) >= HEAD_BYTES and len(lines) > 1 else lines  # the last one may be incomplete


def _comment(lines: list[str], role: str) -> str | None:
    """How comments start: as the first line does, unless all lines do, or it is the header of a table of nodes."""
    filled = [line for line in lines if line.strip()]
    mark = next((mark for mark in COMMENTS if filled and filled[0].startswith(mark)), None)
    if mark is None or all(line.startswith(mark) for line in filled):
        return None
    separators = [each for each in OTHERS if each in filled[0]]
    looks_like_header = any(filled[0].count(each) == filled[1].count(each) for each in separators)
    return None if role != "edges" and looks_like_header else mark


def _separator(lines: list[str], usual: str, role: str) -> str:
    """The usual separator if the first line has it, otherwise one that it has; blanks only for rows of equal length."""
    first = lines[0] if lines else ""
    if usual in first and usual != SPACE:
        return usual
    other = next((each for each in OTHERS if each in first), None)
    if usual == SPACE:
        return other if other in (",", ";") else SPACE
    if other is not None:
        return other
    cells = {len(line.split()) for line in lines}
    return SPACE if role == "edges" and len(cells) == 1 and cells.pop() > 1 else usual


def unreadable(path: Path, problem: Exception) -> InputError:
    """The error for a file that cannot be read at all."""
    return InputError(f"{path.name} cannot be read: {' '.join(str(problem).split())}")


@dataclass(frozen=True)
class TextFile:
    """A file of cells; maps records, which Arrow counts, to lines, which people count."""

    path: Path
    form: TextForm
    header: bool = True

    def read(self, names: list[str], types: Types) -> pa.Table:
        """Read the whole table; a cell or row that cannot be parsed raises an error that names its line."""
        table, raw = None, []
        with suppress(pa.ArrowException, OSError, UnicodeError):
            table = self._parse(names, types, threads=True)
            # Arrow reads a column that is not UTF-8 as bytes; forced to text, it reports the bad row.
            raw = [field.name for field in table.schema if pa.types.is_binary(field.type)]
        if table is None or raw:
            with self._located_errors(names):  # Arrow reports the row of an error only if it reads with one thread
                table = self._parse(names, types | dict.fromkeys(raw, pa.large_string()), threads=False)
        self._check_quotes(table)
        return table

    def pieces(self, names: list[str], types: Types, columns: list[str]) -> Iterator[tuple[pa.Table, float]]:
        """Yield these columns a few megabytes at a time, and the share of the file read so far; at least one piece.

        The type of a column that is not in `types` is inferred from the first megabytes; numbers are 64-bit floats.
        """
        types = types | self._inferred_types(names, types)
        table = None
        with self._located_errors(names), pa.OSFile(str(self.path)) as raw:
            reader = self._batches(self.form.cells_stream(raw), names, types, columns)
            for batch in reader:
                table = pa.Table.from_batches([batch])
                yield table, 1.0 if raw.closed else raw.tell() / raw.size()
            if table is None:
                table = reader.schema.empty_table()
                yield table, 1.0
        self._check_quotes(table)

    def _batches(
        self, stream: pa.NativeFile, names: list[str], types: Types, columns: list[str] | None = None
    ) -> pa.csv.CSVStreamingReader:
        options = pa.csv.ConvertOptions(column_types=types, include_columns=columns)
        return pa.csv.open_csv(stream, **self._options(names, False, PIECE_BYTES), convert_options=options)

    def _inferred_types(self, names: list[str], types: Types) -> Types:
        with self._located_errors(names), pa.OSFile(str(self.path)) as raw:
            schema = self._batches(self.form.cells_stream(raw), names, types).schema
        inferred = {field.name: field.type for field in schema if field.name not in types}
        numeric = (pa.types.is_integer, pa.types.is_null, pa.types.is_floating)
        texts = {name: pa.large_string() for name, kind in inferred.items() if pa.types.is_binary(kind)}
        numbers = {name: pa.float64() for name, kind in inferred.items() if any(test(kind) for test in numeric)}
        return inferred | texts | numbers

    @contextmanager
    def _located_errors(self, names: list[str]) -> Iterator[None]:
        """Raise Arrow's errors as an InputError that names the line."""
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeError) as problem:
            raise self._error(problem, names) from problem

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
        with self._lines() as lines:
            for line in lines:
                quoted = _ends_quoted(line, self.form.separator, quoted)
        return quoted

    def _parse(self, names: list[str], types: Types, threads: bool) -> pa.Table:
        options = pa.csv.ConvertOptions(column_types=types)
        with pa.OSFile(str(self.path)) as raw:
            stream = self.form.cells_stream(raw)
            return pa.csv.read_csv(stream, **self._options(names, threads, BLOCK_BYTES), convert_options=options)

    def _options(self, names: list[str], threads: bool, block: int) -> dict[str, object]:
        given = {} if self.header else {"column_names": names}
        reading = pa.csv.ReadOptions(use_threads=threads, block_size=block, **given)
        return {"read_options": reading, "parse_options": self._parse_options}

    def _error(self, problem: Exception, names: list[str]) -> InputError:
        """Arrow's error about a cell or row, with the line and, if it is known, the column."""
        message = one_line(problem)
        row = re.search(r"Row #(\d+): (.*)", message)
        if row is None:
            return unreadable(self.path, problem)
        column = re.search(r"CSV column #(\d+)", message)
        # Arrow counts records from 1, including the header but not empty lines.
        place = f"{self.path.name}, row {self._line(int(row[1]) - 1)}"
        place += f", column {names[int(column[1])]!r}" if column else ""
        if "invalid UTF8" in message:
            return not_utf8(place)
        return InputError(f"{place}: {_reworded(row[2])}")

    def first_record(self) -> list[str]:
        """The cells of the first record, which are the names of the columns if there is a header."""
        try:
            with pa.OSFile(str(self.path)) as raw:
                lines = list(_lines(io.BytesIO(self.form.cells_stream(raw).read(BLOCK_BYTES))))
            starts = _record_starts(lines, self.form)
            record = b"".join(lines[next(starts, 0) : next(starts, None)])
            cells: list[str] = pa.csv.read_csv(pa.BufferReader(record), parse_options=self._parse_options).column_names
        except UnicodeError as problem:
            raise not_utf8(f"{self.path.name}, row {self._line(0)}") from problem
        except (pa.ArrowException, OSError) as problem:
            raise unreadable(self.path, problem) from problem
        return cells

    @contextmanager
    def _lines(self) -> Iterator[Iterator[bytes]]:
        with pa.OSFile(str(self.path)) as raw:
            yield _lines(self.form.stream(raw))

    @property
    def _parse_options(self) -> pa.csv.ParseOptions:
        quote = False if self.form.separator == SPACE else '"'
        return pa.csv.ParseOptions(delimiter=self.form.delimiter, newlines_in_values=True, quote_char=quote)

    def _line(self, record: int) -> int:
        # The file is read again, only for a message: blank lines and line breaks inside quotes make the number of a
        # record differ from its line.
        last = 0
        with self._lines() as lines:
            for last in islice(_record_starts(lines, self.form), record + 1):  # noqa: B007
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


def _record_starts(lines: Iterable[bytes], form: TextForm) -> Iterator[int]:
    """Yield the numbers, from 0, of the lines on which a record starts."""
    quoted, blank = False, b"\r\n \t" if form.separator == SPACE else b"\r\n"
    for number, line in enumerate(lines):
        if not quoted and form.is_comment(line):
            continue
        if not quoted and line.strip(blank):
            yield number
        quoted = _ends_quoted(line, form.separator, quoted)


def _ends_quoted(line: bytes, separator: str, quoted: bool) -> bool:
    """Whether a line ends inside quotes; only a quote at the start of a field opens them."""
    if separator == SPACE:
        return False
    if quoted:
        closing = re.match(rb'(?:[^"]|"")*"(?!")', line)
        if closing is None:
            return True
        line = b"closed" + line[closing.end() :]
    opening = b"(?:^|" + re.escape(separator.encode()) + b')"(?:[^"]|"")*'
    return re.search(opening + b"$", re.sub(opening + b'"(?!")', b"", line)) is not None


def _reworded(problem: str) -> str:
    """A clearer message for a problem that Arrow reports about a cell or row."""
    value = re.search(r"invalid value (.*)", problem)
    return f"expected a number, but found {value[1]}" if value else problem[:1].lower() + problem[1:200]


def not_utf8(place: str) -> InputError:
    """The error for text in another encoding."""
    return InputError(f"{place}: {NOT_UTF8}", hint=("encoding", "latin-1"))


def one_line(problem: Exception) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(problem).split())
