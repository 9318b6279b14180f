"""Table files: CSV, TSV and Parquet, whole or piece by piece; what takes data for a header is refused."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from glace.errors import InputError
from glace.features.columns import RowLocator, parses
from glace.features.frames import check_names
from glace.features.rows import id_column
from glace.ids import integers_of, is_integer_text
from glace.io.tables import edge_columns, text_column
from glace.io.text_file import TextFile, one_line
from glace.storage.files import existing

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PIECE_NUMBERS = 1 << 20
"""Values in a piece of a Parquet file; a list has as many as are in it."""
TABLES = (*SEPARATORS, ".csv.gz", ".tsv.gz", ".parquet")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")

# A header that nobody takes for data.
CLEAR_HEADER = {"edges": "source,target", "attributes": "id, ...", "texts": "id,text"}


@dataclass(frozen=True)
class TableFile:
    """A table as read from a file."""

    table: pa.Table
    role: str
    where: RowLocator
    loose: bool
    """Whether its ids are text only because the file has no types."""
    named: bool
    """Whether the names of its columns stand in the file."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the columns that hold ids."""
        return _id_columns(self.table.column_names, self.role, self.where)

    def id_values(self) -> list[Any]:
        """The columns that hold ids."""
        return [self.table.column(name) for name in self.ids]


def _id_columns(names: Sequence[str], role: str, where: RowLocator) -> tuple[str, ...]:
    return tuple(edge_columns(names, where)[:2]) if role == "edges" else (id_column(names, where),)


def ending_of(path: Path, known: Sequence[str]) -> str:
    """Which of the known endings a name has; another one raises."""
    for ending in sorted(known, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return ending
    raise InputError(f"{path}: unknown kind of file; its name must end in one of {', '.join(known)}")


def read_table(path: str | Path, role: str, header: bool, worded: Sequence[str] = ()) -> TableFile:
    """The whole table of a file of `edges`, `attributes` or `texts`; the columns `worded` are text in any case."""
    source, file = _opened(path, role, header)
    if file is None:
        return TableFile(_read_parquet(source), role, RowLocator(source.name), loose=False, named=True)
    where = RowLocator(source.name, file.line_of_row)
    names, types = _described(file, role, where)
    types |= {name: pa.large_string() for name in worded if name in names}
    table = _with_missing_ids(file.read(names, types), _id_columns(names, role, where))
    return TableFile(table, role, where, loose=True, named=header)


def table_pieces(path: str | Path, role: str, header: bool) -> Iterator[tuple[TableFile, float]]:
    """The same, some megabytes at a time, and the share of the file that has been read; at least one piece.

    Messages count the rows of the whole file. Of edges only the columns that matter are read.
    """
    source, file = _opened(path, role, header)
    tables = _parquet_pieces(source) if file is None else _text_pieces(file, role)
    number, first = (lambda position: position + 1) if file is None else file.line_of_row, 0
    for table, share in tables:
        where = RowLocator(source.name, lambda position, first=first: number(position + first))  # type: ignore[misc]
        yield TableFile(table, role, where, loose=file is not None, named=file is None or header), share
        first += table.num_rows


def summary(file: TableFile, ids: pa.Array) -> TableFile:
    """A table with the columns of a file, these ids in its id columns and nothing in the others."""
    columns = {name: ids if name in file.ids else pa.nulls(len(ids)) for name in file.table.column_names}
    return replace(file, table=pa.table(columns))


def _opened(path: str | Path, role: str, header: bool) -> tuple[Path, TextFile | None]:
    """The file, and how it is read if it is text."""
    ending = ending_of(Path(path), TABLES)
    source = existing(path, f"a file of {role}")
    if ending == ".parquet":
        return source, None
    return source, TextFile(source, SEPARATORS[ending.removesuffix(".gz")], header, ending.endswith(".gz"))


def _read_parquet(path: Path) -> pa.Table:
    with _parquet(path) as opened:
        table = opened.read()
        names = table.column_names
    check_names(names, RowLocator(path.name))
    return table


def _parquet_pieces(path: Path) -> Iterator[tuple[pa.Table, float]]:
    with _parquet(path) as opened:
        schema, count = opened.schema_arrow, opened.metadata.num_rows
        check_names(schema.names, RowLocator(path.name))
        done = 0
        for batch in opened.iter_batches(_rows_a_piece(opened.metadata)):
            done += batch.num_rows
            yield pa.Table.from_batches([batch]), done / count
        if not done:
            yield schema.empty_table(), 1.0


def _rows_a_piece(described: Any) -> int:
    groups = [described.row_group(number) for number in range(described.num_row_groups)]
    values: int = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
    return max(PIECE_NUMBERS * int(described.num_rows) // max(values, 1), 1)


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        with pa.parquet.ParquetFile(path) as opened:
            yield opened
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path.name} cannot be read as Parquet: {one_line(problem)}") from problem


def _text_pieces(file: TextFile, role: str) -> Iterator[tuple[pa.Table, float]]:
    where = RowLocator(file.path.name, file.line_of_row)
    names, types = _described(file, role, where)
    ids = _id_columns(names, role, where)
    columns = edge_columns(names, where) if role == "edges" else names
    for table, share in file.pieces(names, types, columns):
        yield _with_missing_ids(table, ids), share


def _described(file: TextFile, role: str, where: RowLocator) -> tuple[list[str], dict[str, Any]]:
    """Names of the columns, and the types that are known."""
    names = file.names(role)
    if file.header:
        _check_names(names, role, where)
    return names, _column_types(names, _id_columns(names, role, where), role, where)


def _with_missing_ids(table: pa.Table, ids: Sequence[str]) -> pa.Table:
    for name in ids:
        column = table.column(name)
        # Text columns of Arrow hold an empty cell as "", but for an id it is a missing one.
        given = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.large_string()), column)
        table = table.set_column(table.column_names.index(name), name, given)
    return table


def _column_types(names: Sequence[str], ids: Sequence[str], role: str, where: RowLocator) -> dict[str, Any]:
    """The types that must not be guessed: an id 007 is no number, and a weight of x no text."""
    types = dict.fromkeys((*ids, "label", "type"), pa.large_string())
    if role == "texts":
        types[text_column(names, where)] = pa.large_string()
    if role == "edges":
        types |= dict.fromkeys(edge_columns(names, where)[2:], pa.float64())
    return types


def _check_names(names: Sequence[str], role: str, where: RowLocator) -> None:
    if _DATA[role](names):
        raise first_row_is_data(where, role, names)
    try:
        check_names(names, where)
    except InputError as problem:
        raise InputError(f"{problem}, or pass header=False (--no-header) if the first row is data") from problem


def _is_an_edge(names: Sequence[str]) -> bool:
    return len(names) > 1 and all(is_integer_text(name) for name in names[:2])


def _is_a_node(names: Sequence[str]) -> bool:
    """Whether a header may be a node's id and numbers.

    pandas calls columns 0, 1, 2 ... and ids nothing. Fewer than three such beside a name may be data as well.
    """
    if "id" in names or not names:
        return False
    key, others = names[0], [name for name in names[1:] if name not in ("label", "type")]
    if is_integer_text(key):
        return True
    if not others or not all(parses(name) for name in others):
        return False
    counted = any(others == [str(start + place) for place in range(len(others))] for start in (0, 1))
    return not (counted and (len(others) > 2 or key == ""))


def _is_no_header_of_texts(names: Sequence[str]) -> bool:
    # A row of an id and a text looks like any two names.
    return not {"id", "text"} & set(names)


_DATA = {"edges": _is_an_edge, "attributes": _is_a_node, "texts": _is_no_header_of_texts}


def first_row_is_data(where: RowLocator, role: str, names: Sequence[str]) -> InputError:
    """The error for a header that is none."""
    shown = ", ".join(names[:3])
    return InputError(
        f"{where.name}: the first row ({shown}{', ...' if len(names) > 3 else ''}) looks like data, not like the "
        f"names of columns; pass header=False (--no-header), or give it a header such as {CLEAR_HEADER[role]}"
    )


def may_be_an_edge(links: TableFile) -> bool:
    """Whether the names of the edge columns were not told apart from data by reading them alone."""
    return links.loose and not {"source", "target"} <= set(links.table.column_names)


def check_first_row(links: TableFile, nodes: TableFile | None = None) -> None:
    """Raise if what was taken for the names of columns are a weight, or ids of nodes."""
    names = links.table.column_names
    if may_be_an_edge(links) and (parses(names[-1]) or name_nodes(links.ids, nodes or links)):
        raise first_row_is_data(links.where, "edges", names)
    if nodes is not None and nodes.loose and "id" not in nodes.ids and name_nodes(nodes.ids, links):
        raise first_row_is_data(nodes.where, nodes.role, nodes.table.column_names)


def name_nodes(names: Sequence[str], file: TableFile) -> bool:
    """Whether one of these names is an id in this file."""
    wanted = pa.array(names, pa.large_string())
    columns = (column.cast(pa.large_string()) for column in file.id_values())
    return any(pc.any(pc.is_in(column, value_set=wanted)).as_py() for column in columns)


def settled(files: list[TableFile]) -> list[TableFile]:
    """The files with loose ids turned to integers if every id of every file is one, else as they are."""
    converted = [with_integer_ids(file) for file in files]
    settled = [file for file in converted if file is not None]
    return settled if len(settled) == len(files) else files


def with_integer_ids(file: TableFile) -> TableFile | None:
    """The file with ids that are integers; None if not every one is written as such."""
    table = file.table
    for name, column in zip(file.ids, file.id_values(), strict=True):
        integers = integers_of(column) if file.loose else column
        if integers is None or not pa.types.is_integer(integers.type):
            return None
        table = table.set_column(table.column_names.index(name), name, integers)
    return replace(file, table=table)
