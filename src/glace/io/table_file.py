"""Table files, CSV, TSV, Parquet or svmlight, whole or in pieces; data in the place of a header raises."""

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from glace.errors import InputError
from glace.features.columns import (
    RowLocator,
    attribute_columns,
    check_names,
    edge_columns,
    id_column,
    parses,
    text_column,
)
from glace.ids import integers_of, is_integer_text
from glace.storage.files import CHUNK, existing

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PIECE_NUMBERS = 1 << 20
"""Values in a piece of a Parquet file; a list counts as many as it holds."""
TABLES = (*SEPARATORS, ".csv.gz", ".tsv.gz", ".parquet")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")

# Headers that cannot be mistaken for data.
CLEAR_HEADER = {"edges": "source,target", "attributes": "id, ...", "texts": "id,text"}

# The columns of a file without a header; attributes follow the id.
HEADERLESS = {"edges": ("source", "target", "weight"), "attributes": ("id",), "texts": ("id", "text")}
NOT_UTF8 = "the text is not UTF-8; save the file in this encoding"

# A record must fit into a block, and a long text with line breaks is one record.
BLOCK_BYTES = 16 << 20
# Files read in pieces have rows of numbers; Arrow reads several pieces ahead.
PIECE_BYTES = 4 << 20
SVMLIGHT_BYTES = 16 << 20

Types = dict[str, pa.DataType]
"""Arrow types by column name."""
Piece = tuple[pa.Table, float]
"""Some rows, and the share of the file that has been read."""


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
        table, raw = None, []
        with suppress(pa.ArrowException, OSError):
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
            stream = pa.CompressedInputStream(raw, "gzip") if self.zipped else raw
            reader = self._batches(stream, names, types, columns)
            for batch in reader:
                table = pa.Table.from_batches([batch])
                yield table, raw.tell() / raw.size()
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
        with self._located_errors(names), self._stream() as stream:
            schema = self._batches(stream, names, types).schema
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
        except (pa.ArrowException, OSError) as problem:
            raise InputError(self._message(one_line(problem), names)) from problem

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


def _svmlight_pieces(path: Path) -> Iterator[Piece]:
    """Yield tables with the columns id (row numbers from 0), label, and the lists `columns` and `values`."""
    first = 0
    with path.open("rb") as opened:
        while piece := opened.read(SVMLIGHT_BYTES) + opened.readline():
            table = _svmlight_table(path.name, piece, first)
            yield table, opened.tell() / path.stat().st_size
            first += table.num_rows


def _svmlight_table(name: str, content: bytes, first: int) -> pa.Table:
    from sklearn.datasets import load_svmlight_file

    try:
        # Columns are numbered from 0 in any case: a file that numbers them from 1 has an empty first column, which does
        # no harm, whereas guessing could read two files that belong together differently.
        matrix, labels = load_svmlight_file(io.BytesIO(content), zero_based=True)
    except (ValueError, TypeError, OverflowError, IndexError) as problem:
        raise InputError(f"{name} cannot be read as svmlight: {one_line(problem)}") from problem
    distinct, places = np.unique(labels, return_inverse=True)
    names = [str(int(label)) if label.is_integer() else str(label) for label in distinct.tolist()]  # 1.0 is called 1
    ends = matrix.indptr.astype(np.int64)
    columns, values = (pa.LargeListArray.from_arrays(ends, array) for array in (matrix.indices, matrix.data))
    label = pa.array(names, pa.string()).take(pa.array(places))
    ids = np.arange(first, first + len(labels))
    return pa.table({"id": ids, "label": label, "columns": columns, "values": values})


@dataclass(frozen=True)
class TableFile:
    """A table as read from a file."""

    table: pa.Table
    role: str
    """ "edges", "attributes" or "texts"."""
    where: RowLocator
    raw_ids: bool
    """Whether ids are text only because the file states no types."""
    named: bool
    """Whether the file itself names its columns."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the id columns."""
        return _id_columns(self.table.column_names, self.role, self.where)

    def id_values(self) -> list[pa.ChunkedArray]:
        """The id columns."""
        return [self.table.column(name) for name in self.ids]


def _id_columns(names: Sequence[str], role: str, where: RowLocator) -> tuple[str, ...]:
    return tuple(edge_columns(names, where)[:2]) if role == "edges" else (id_column(names, where),)


def ending_of(path: Path, known: Sequence[str]) -> str:
    """The one of the known endings that a file name has; another ending raises."""
    for ending in sorted(known, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return ending
    raise InputError(f"{path}: unknown file format; the name must end in one of {', '.join(known)}")


def read_table(path: str | Path, role: str, header: bool, text_columns: Sequence[str] = ()) -> TableFile:
    """Read a whole file of "edges", "attributes" or "texts"; the `text_columns` are text even if they look numeric."""
    source, _, file = (Path(path), "", None) if Path(path).is_dir() else _opened(path, role, header)
    if file is None:
        pieces = [piece for piece, _ in table_pieces(path, role, header)]
        return replace(pieces[0], table=_joined(pieces, source), where=RowLocator(source.name))
    where = RowLocator(source.name, file.line_of_row)
    names, types = _schema(file, role, where)
    types |= {name: pa.large_string() for name in text_columns if name in names}
    table = _with_null_ids(file.read(names, types), _id_columns(names, role, where))
    return TableFile(table, role, where, raw_ids=True, named=header)


def _joined(pieces: list[TableFile], source: Path) -> pa.Table:
    try:
        return pa.concat_tables(piece.table for piece in pieces)
    except pa.ArrowInvalid as problem:
        raise InputError(f"the files of {source} have different columns: {one_line(problem)}") from problem


def table_pieces(path: str | Path, role: str, header: bool) -> Iterator[tuple[TableFile, float]]:
    """Read a file a few megabytes at a time: yield at least one piece, and the share of the file read so far.

    Messages count rows from the start of the file. Of an edge file only the columns of the edges are read. A folder of
    Parquet files is read file by file.
    """
    if Path(path).is_dir():
        yield from _folder_pieces(Path(path), role, header)
        return
    source, ending, file = _opened(path, role, header)
    row_number: Callable[[int], int] = (lambda position: position + 1) if file is None else file.line_of_row
    if file is not None:
        pieces, named = _text_pieces(file, role), header
    else:
        named = ending == ".parquet"
        pieces = _parquet_pieces(source) if named else _svmlight_pieces(source)
    first = 0
    for table, share in pieces:
        where = RowLocator(source.name, lambda position, first=first: row_number(position + first))  # type: ignore[misc]
        yield TableFile(table, role, where, raw_ids=file is not None, named=named), share
        first += table.num_rows


def _folder_pieces(folder: Path, role: str, header: bool) -> Iterator[tuple[TableFile, float]]:
    files = parquet_files(folder)
    sizes = [file.stat().st_size for file in files]
    for number, file in enumerate(files):
        for piece, share in table_pieces(file, role, header):
            yield piece, (sum(sizes[:number]) + share * sizes[number]) / sum(sizes)


def with_ids_only(file: TableFile, ids: pa.Array) -> TableFile:
    """The same columns with these values in the id columns and nulls in the others."""
    columns = {name: ids if name in file.ids else pa.nulls(len(ids)) for name in file.table.column_names}
    return replace(file, table=pa.table(columns))


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder in the order of their names, without hidden ones; raise if there are none."""
    found = sorted(path for path in folder.glob("*.parquet") if not path.name.startswith((".", "_")) and path.is_file())
    if not found:
        raise InputError(f"{folder} is a folder without Parquet files; their names must end in .parquet")
    return found


def parquet_rows(path: Path) -> int:
    """The number of rows that a Parquet file states."""
    try:
        return int(pa.parquet.read_metadata(existing(path, "a Parquet file")).num_rows)
    except (pa.ArrowException, OSError) as problem:
        raise InputError(f"{path.name} cannot be read as Parquet: {one_line(problem)}") from problem


def _opened(path: str | Path, role: str, header: bool) -> tuple[Path, str, TextFile | None]:
    """The path, its ending, and a reader if it is a text file."""
    ending = ending_of(Path(path), (*TABLES, *SVMLIGHT) if role == "attributes" else TABLES)
    source = existing(path, f"a file of {role}")
    separator = SEPARATORS.get(ending.removesuffix(".gz"))
    file = None if separator is None else TextFile(source, separator, header, ending.endswith(".gz"))
    return source, ending, file


def _parquet_pieces(path: Path) -> Iterator[Piece]:
    done = 0
    try:
        with pa.parquet.ParquetFile(path, pre_buffer=False) as opened:  # else it keeps what it has read: the whole file
            schema, count = opened.schema_arrow, opened.metadata.num_rows
            check_names(schema.names, RowLocator(path.name))
            for batch in opened.iter_batches(_rows_per_piece(opened.metadata)):
                done += batch.num_rows
                yield pa.Table.from_batches([batch]), done / count
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path.name} cannot be read as Parquet: {one_line(problem)}") from problem
    if not done:
        yield schema.empty_table(), 1.0


def _rows_per_piece(metadata: pa.parquet.FileMetaData) -> int:
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    values: int = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
    return max(PIECE_NUMBERS * int(metadata.num_rows) // max(values, 1), 1)


def _text_pieces(file: TextFile, role: str) -> Iterator[Piece]:
    where = RowLocator(file.path.name, file.line_of_row)
    names, types = _schema(file, role, where)
    ids = _id_columns(names, role, where)
    columns = edge_columns(names, where) if role == "edges" else names
    for table, share in file.pieces(names, types, columns):
        yield _with_null_ids(table, ids), share


def _schema(file: TextFile, role: str, where: RowLocator) -> tuple[list[str], dict[str, pa.DataType]]:
    """Names of the columns, and the types that Arrow must not guess: an id 007 is text, and a weight is a number."""
    names = file.names(role)
    if file.header:
        _check_header(names, role, where)
    types = dict.fromkeys((*_id_columns(names, role, where), "label", "type"), pa.large_string())
    if role == "texts":
        types[text_column(names, where)] = pa.large_string()
    if role == "edges":
        types |= dict.fromkeys(edge_columns(names, where)[2:], pa.float64())
    return names, types


def _with_null_ids(table: pa.Table, ids: Sequence[str]) -> pa.Table:
    # Arrow reads an empty cell of a text column as "", but an empty id is a missing one.
    for name in ids:
        column = table.column(name)
        values = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.large_string()), column)
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def _check_header(names: Sequence[str], role: str, where: RowLocator) -> None:
    if _LOOKS_LIKE_DATA[role](names):
        raise first_row_is_data(where, role, names)
    try:
        check_names(names, where)
    except InputError as problem:
        raise InputError(
            f"{problem}, or read the file without a header if its first row is data", hint=("header", False)
        ) from problem


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


_LOOKS_LIKE_DATA: dict[str, Callable[[Sequence[str]], bool]] = {
    "edges": lambda names: len(names) > 1 and all(is_integer_text(name) for name in names[:2]),
    "attributes": _is_node,
    "texts": lambda names: not {"id", "text"} & set(names),  # an id and a text look like any two names
}


def first_row_is_data(where: RowLocator, role: str, names: Sequence[str]) -> InputError:
    """The error for data where a header should be."""
    shown = ", ".join(names[:3])
    return InputError(
        f"{where.name}: the first row ({shown}{', ...' if len(names) > 3 else ''}) looks like data, not like column "
        f"names; add a header such as {CLEAR_HEADER[role]}, or read the file without one",
        hint=("header", False),
    )


def may_be_an_edge(file: TableFile) -> bool:
    """Whether the names of the columns of an edge file may be data."""
    return file.raw_ids and not {"source", "target"} <= set(file.table.column_names)


def check_first_rows(edges: Sequence[TableFile], nodes: Sequence[TableFile]) -> None:
    """Raise if what was read as column names is a weight, or ids of nodes."""
    for file in edges:
        names = file.table.column_names
        others = (file, *nodes)
        if may_be_an_edge(file) and (parses(names[-1]) or any(_hold_ids(other, file.ids) for other in others)):
            raise first_row_is_data(file.where, "edges", names)
    for file in nodes:
        if file.raw_ids and "id" not in file.ids and any(_hold_ids(other, file.ids) for other in edges):
            raise first_row_is_data(file.where, file.role, file.table.column_names)


def _hold_ids(file: TableFile, names: Sequence[str]) -> bool:
    """Whether one of these names is an id in the file."""
    wanted = pa.array(names, pa.large_string())
    columns = (column.cast(pa.large_string()) for column in file.id_values())
    return any(pc.any(pc.is_in(column, value_set=wanted)).as_py() for column in columns)


def with_common_ids(files: list[TableFile]) -> list[TableFile]:
    """The files with integer ids if every id of every file is written as an integer, otherwise unchanged."""
    converted = [with_integer_ids(file) for file in files]
    integers = [file for file in converted if file is not None]
    return integers if len(integers) == len(files) else files


def with_integer_ids(file: TableFile) -> TableFile | None:
    """The file with integer ids; None if an id is not written as a plain integer."""
    table = file.table
    for name, column in zip(file.ids, file.id_values(), strict=True):
        integers = integers_of(column) if file.raw_ids else column
        if integers is None or not pa.types.is_integer(integers.type):
            return None
        table = table.set_column(table.column_names.index(name), name, integers)
    return replace(file, table=table)
