"""Table files, CSV, TSV, Parquet or svmlight, whole or in pieces; data in the place of a header raises."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from glace.errors import InputError
from glace.features.columns import RowLocator, parses
from glace.features.frames import check_names
from glace.features.rows import attribute_columns, id_column
from glace.ids import integers_of, is_integer_text
from glace.io.svmlight import read_svmlight, svmlight_pieces
from glace.io.tables import edge_columns, text_column
from glace.io.text_file import TextFile, one_line
from glace.storage.files import existing

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PIECE_NUMBERS = 1 << 20
"""Values in a piece of a Parquet file; a list counts as many as it holds."""
TABLES = (*SEPARATORS, ".csv.gz", ".tsv.gz", ".parquet")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")

# Headers that cannot be mistaken for data.
CLEAR_HEADER = {"edges": "source,target", "attributes": "id, ...", "texts": "id,text"}

Piece = tuple[pa.Table, float]
"""Some rows, and the share of the file that has been read."""


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
    source, ending, file = _opened(path, role, header)
    if file is None:
        table = _read_parquet(source) if ending == ".parquet" else read_svmlight(source)
        return TableFile(table, role, RowLocator(source.name), raw_ids=False, named=ending == ".parquet")
    where = RowLocator(source.name, file.line_of_row)
    names, types = _schema(file, role, where)
    types |= {name: pa.large_string() for name in text_columns if name in names}
    table = _with_null_ids(file.read(names, types), _id_columns(names, role, where))
    return TableFile(table, role, where, raw_ids=True, named=header)


def table_pieces(path: str | Path, role: str, header: bool) -> Iterator[tuple[TableFile, float]]:
    """Read a file a few megabytes at a time: yield at least one piece, and the share of the file read so far.

    Messages count rows from the start of the file. Of an edge file only the columns of the edges are read.
    """
    source, ending, file = _opened(path, role, header)
    row_number: Callable[[int], int] = (lambda position: position + 1) if file is None else file.line_of_row
    if file is not None:
        pieces, named = _text_pieces(file, role), header
    else:
        named = ending == ".parquet"
        pieces = _parquet_pieces(source) if named else svmlight_pieces(source)
    first = 0
    for table, share in pieces:
        where = RowLocator(source.name, lambda position, first=first: row_number(position + first))  # type: ignore[misc]
        yield TableFile(table, role, where, raw_ids=file is not None, named=named), share
        first += table.num_rows


def with_ids_only(file: TableFile, ids: pa.Array) -> TableFile:
    """The same columns with these values in the id columns and nulls in the others."""
    columns = {name: ids if name in file.ids else pa.nulls(len(ids)) for name in file.table.column_names}
    return replace(file, table=pa.table(columns))


def _opened(path: str | Path, role: str, header: bool) -> tuple[Path, str, TextFile | None]:
    """The path, its ending, and a reader if it is a text file."""
    ending = ending_of(Path(path), (*TABLES, *SVMLIGHT) if role == "attributes" else TABLES)
    source = existing(path, f"a file of {role}")
    separator = SEPARATORS.get(ending.removesuffix(".gz"))
    file = None if separator is None else TextFile(source, separator, header, ending.endswith(".gz"))
    return source, ending, file


def _read_parquet(path: Path) -> pa.Table:
    with _parquet(path) as opened:
        table = opened.read()
    check_names(table.column_names, RowLocator(path.name))
    return table


def _parquet_pieces(path: Path) -> Iterator[Piece]:
    with _parquet(path) as opened:
        schema, count = opened.schema_arrow, opened.metadata.num_rows
        check_names(schema.names, RowLocator(path.name))
        done = 0
        for batch in opened.iter_batches(_rows_per_piece(opened.metadata)):
            done += batch.num_rows
            yield pa.Table.from_batches([batch]), done / count
        if not done:
            yield schema.empty_table(), 1.0


def _rows_per_piece(metadata: pa.parquet.FileMetaData) -> int:
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    values: int = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
    return max(PIECE_NUMBERS * int(metadata.num_rows) // max(values, 1), 1)


@contextmanager
def _parquet(path: Path) -> Iterator[pa.parquet.ParquetFile]:
    try:
        with pa.parquet.ParquetFile(path) as opened:
            yield opened
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path.name} cannot be read as Parquet: {one_line(problem)}") from problem


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


def _is_edge(names: Sequence[str]) -> bool:
    return len(names) > 1 and all(is_integer_text(name) for name in names[:2])


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


def _is_text_row(names: Sequence[str]) -> bool:
    # An id and a text look like any two names.
    return not {"id", "text"} & set(names)


_LOOKS_LIKE_DATA = {"edges": _is_edge, "attributes": _is_node, "texts": _is_text_row}


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
