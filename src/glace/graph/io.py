"""Files to a Graph: CSV, TSV, Parquet and svmlight tables, npz graphs; messages count rows as people do."""

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from glace.errors import InputError
from glace.files import existing
from glace.graph.graph import Categories, Graph
from glace.graph.npz import read_npz
from glace.graph.tables import (
    NodeTable,
    Where,
    attribute_table,
    check_choices,
    check_names,
    edge_columns,
    edge_table,
    id_column,
    join,
    text_column,
    text_table,
)
from glace.ids import NodeIds

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
TABLES = (*SEPARATORS, ".csv.gz", ".tsv.gz", ".parquet")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")

# What the columns of a file without a header are; attributes go on after the id.
HEADERLESS = {"edges": ("source", "target", "weight"), "attributes": ("id",), "texts": ("id", "text")}
NOT_UTF8 = "the text is not UTF-8; save the file in that encoding"

# At most 18 digits: every such number fits into 64 bits. "007" and "+7" are names, not numbers.
CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"

# One record must fit into a block; a long text with line breaks may be one record.
BLOCK_BYTES = 16 << 20


def read_tables(
    edges: str | Path,
    attributes: str | Path | None = None,
    *,
    texts: str | Path | None = None,
    directed: bool = False,
    missing: str = "error",
    header: bool = True,
) -> Graph:
    """A graph from files, read by their ending: .csv, .tsv, .txt (tabs), .csv.gz, .tsv.gz, .parquet.

    The columns are those of `from_tables`. Attributes may also be .svm, .svmlight or .libsvm: ids are
    then row numbers from 0 and the leading number is the label. In text files ids are read as text, and
    become integers only if all of them, in both files, are written as plain integers. `header=False`
    says that text files start with data: source, target, weight; id, attributes; id, text.
    """
    check_choices(attributes, texts, missing)
    role, path = ("attributes", attributes) if texts is None else ("texts", texts)
    files, nodes = [_read(edges, "edges", header)], None
    if path is not None and role == "attributes" and _ending(Path(path), (*TABLES, *SVMLIGHT)) in SVMLIGHT:
        nodes = _read_svmlight(existing(path, "a file of attributes"))
    elif path is not None:
        files.append(_read(path, role, header))
    if header:
        _check_first_row(*files)
    links, *described = _settled(files)
    if described:
        nodes = _node_table(described[0])
    return join(edge_table(links.table, links.where), nodes, directed=directed, missing=missing)


def read_graph(path: str | Path, *, directed: bool = False) -> Graph:
    """A graph from one file: .npz with all of it, or a table of edges for a graph without attributes."""
    if _ending(Path(path), (".npz", *TABLES)) == ".npz":
        return read_npz(path, directed=directed)
    return read_tables(path, directed=directed)


@dataclass(frozen=True)
class _File:
    """A table as read from a file; `loose` where its ids are text only because the file has no types."""

    table: pa.Table
    role: str
    where: Where
    loose: bool

    @property
    def ids(self) -> tuple[str, ...]:
        return _id_columns(self.table.column_names, self.role, self.where)

    def id_values(self) -> list[Any]:
        return [self.table.column(name) for name in self.ids]


def _id_columns(names: Sequence[str], role: str, where: Where) -> tuple[str, ...]:
    return tuple(edge_columns(names, where)[:2]) if role == "edges" else (id_column(names, where),)


def _ending(path: Path, known: Sequence[str]) -> str:
    for ending in sorted(known, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return ending
    raise InputError(f"{path}: unknown kind of file; its name must end in one of {', '.join(known)}")


def _read(path: str | Path, role: str, header: bool) -> _File:
    ending = _ending(Path(path), TABLES)
    source = existing(path, f"a file of {role}")
    if ending == ".parquet":
        return _File(_read_parquet(source), role, Where(source.name), loose=False)
    file = TextFile(source, SEPARATORS[ending.removesuffix(".gz")], header, ending.endswith(".gz"))
    where = Where(source.name, file.line_of_row)
    return _File(_read_text(file, role, where), role, where, loose=True)


def _read_parquet(path: Path) -> pa.Table:
    try:
        with pa.parquet.ParquetFile(path) as opened:
            table = opened.read()
        names = table.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path.name} cannot be read as Parquet: {_one_line(problem)}") from problem
    check_names(names, Where(path.name))
    return table


def _read_svmlight(path: Path) -> NodeTable:
    from sklearn.datasets import load_svmlight_file

    try:
        matrix, labels = load_svmlight_file(str(path))
    except (ValueError, TypeError, OverflowError, IndexError) as problem:
        raise InputError(f"{path.name} cannot be read as svmlight: {_one_line(problem)}") from problem
    names = [str(int(label)) if label.is_integer() else str(label) for label in labels.tolist()]
    return NodeTable(NodeIds.numbered(len(names)), Where(path.name), matrix, Categories.of(names))


def _read_text(file: "TextFile", role: str, where: Where) -> pa.Table:
    names = file.names(role)
    if file.header:
        _check_names(names, role, where)
    ids = _id_columns(names, role, where)
    table = file.read(names, _column_types(names, ids, role, where))
    for name in ids:
        column = table.column(name)
        # Text columns of Arrow hold an empty cell as "", but for an id it is a missing one.
        given = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.large_string()), column)
        table = table.set_column(names.index(name), name, given)
    return table


def _column_types(names: Sequence[str], ids: Sequence[str], role: str, where: Where) -> dict[str, Any]:
    """The types that must not be guessed: an id 007 is no number, and a weight of x no text."""
    types = dict.fromkeys((*ids, "label", "type"), pa.large_string())
    if role == "texts":
        types[text_column(names, where)] = pa.large_string()
    if role == "edges":
        types |= dict.fromkeys(edge_columns(names, where)[2:], pa.float64())
    return types


def _check_names(names: Sequence[str], role: str, where: Where) -> None:
    if role == "edges" and len(names) > 1 and all(re.match(CANONICAL_INTEGER, name) for name in names[:2]):
        raise _first_row_is_data(where, names)
    if role == "attributes" and _is_row_of_numbers(names):
        raise _first_row_is_data(where, names)
    try:
        check_names(names, where)
    except InputError as problem:
        raise InputError(
            f"{problem}, or pass header=False (--no-header) if the first row is data"
        ) from problem


def _is_row_of_numbers(names: Sequence[str]) -> bool:
    """Whether a header is rather a node's id and numbers; 0, 1, 2 ... may be column names."""
    try:
        numbers = [float(name) for name in names[1:]]
    except ValueError:
        return False
    return any(not number.is_integer() for number in numbers)


def _first_row_is_data(where: Where, names: Sequence[str]) -> InputError:
    shown = ", ".join(names[:3])
    return InputError(
        f"{where.name}: the first row ({shown}{', ...' if len(names) > 3 else ''}) looks like data, "
        "not like the names of columns; pass header=False (--no-header), or add a header"
    )


def _check_first_row(links: _File, nodes: _File | None = None) -> None:
    """Raise if what was taken for the names of the edge columns are two ids of the node table."""
    names = links.table.column_names
    if nodes is None or not links.loose or {"source", "target"} <= set(names):
        return
    known = nodes.id_values()[0].cast(pa.large_string())
    if pc.all(pc.is_in(pa.array(names[:2], pa.large_string()), value_set=known)).as_py():
        raise _first_row_is_data(links.where, names)


def _settled(files: list[_File]) -> list[_File]:
    """The files with loose ids turned to integers if every id of every file is one, else as they are."""
    if not all(_could_be_integers(file) for file in files):
        return files
    return [_with_integer_ids(file) if file.loose else file for file in files]


def _could_be_integers(file: _File) -> bool:
    if not file.loose:
        return all(pa.types.is_integer(column.type) for column in file.id_values())
    return all(
        pc.all(pc.match_substring_regex(column, CANONICAL_INTEGER)).as_py() is not False
        for column in file.id_values()
    )


def _with_integer_ids(file: _File) -> _File:
    table = file.table
    for name, column in zip(file.ids, file.id_values(), strict=True):
        table = table.set_column(table.column_names.index(name), name, column.cast(pa.int64()))
    return replace(file, table=table)


def _node_table(file: _File) -> NodeTable:
    return (text_table if file.role == "texts" else attribute_table)(file.table, file.where)


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
                f"{self.path.name}: {len(first)} columns without a header; "
                f"wanted {', '.join(named)}, or a header"
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

    def line_of_row(self, position: int) -> int:
        """Line, from 1, on which the k-th row of data starts, k from 0."""
        return self._line(position + int(self.header))

    def _check_quotes(self, table: pa.Table) -> None:
        # Arrow takes a quote that is never closed for one long cell, the last, with all later rows in it.
        cell = table.column(table.num_columns - 1)[-1].as_py() if table.num_rows else None
        if isinstance(cell, str) and ("\n" in cell or "\r" in cell) and self._ends_quoted():
            row = self.line_of_row(table.num_rows - 1)
            raise InputError(
                f"{self.path.name}, row {row}: a quote is opened but never closed; close or double it"
            )

    def _ends_quoted(self) -> bool:
        quoted = False
        with self._stream() as stream:
            for line in _lines(stream.read()):
                quoted = _ends_quoted(line, self.separator, quoted)
        return quoted

    def _parse_saying_where(self, names: list[str], types: dict[str, Any]) -> pa.Table:
        try:
            # Arrow knows the row of an error only when it reads with one thread.
            return self._parse(names, types, threads=False)
        except (pa.ArrowException, OSError) as problem:
            raise InputError(self._said(_one_line(problem), names)) from problem

    def _parse(self, names: list[str], types: dict[str, Any], threads: bool) -> pa.Table:
        given = {} if self.header else {"column_names": names}
        with self._stream() as stream:
            return pa.csv.read_csv(
                stream,
                read_options=pa.csv.ReadOptions(use_threads=threads, block_size=BLOCK_BYTES, **given),
                parse_options=self._parse_options,
                convert_options=pa.csv.ConvertOptions(column_types=types),
            )

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
                lines = _lines(stream.read(BLOCK_BYTES))
            starts = _record_starts(lines, self.separator)
            record = b"".join(lines[next(starts, 0) : next(starts, None)])
            names: list[str] = pa.csv.read_csv(
                pa.BufferReader(record), parse_options=self._parse_options
            ).column_names
        except UnicodeDecodeError as problem:
            raise InputError(f"{self.path.name}, row {self._line(0)}: {NOT_UTF8}") from problem
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{self.path.name} cannot be read: {_one_line(problem)}") from problem
        return names

    def _stream(self) -> Any:
        return pa.input_stream(self.path, compression="gzip" if self.zipped else None)

    @property
    def _parse_options(self) -> Any:
        return pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)

    def _line(self, record: int) -> int:
        return self._starts[min(record, len(self._starts) - 1)] + 1

    @cached_property
    def _starts(self) -> list[int]:
        # Read again, whole, for a message only: blank lines and line breaks inside quotes make a
        # record's number differ from its line.
        with self._stream() as stream:
            return list(_record_starts(_lines(stream.read()), self.separator))


def _lines(content: bytes) -> list[bytes]:
    return content.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)


def _record_starts(lines: Sequence[bytes], separator: str) -> Iterator[int]:
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


def _one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())
