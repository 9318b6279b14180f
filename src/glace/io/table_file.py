"""Table files, text, Parquet or svmlight, whole or in pieces, with the columns that the layout names."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from glace.errors import InputError
from glace.features.columns import RowLocator, check_names, edge_columns, id_column, parses, text_column
from glace.features.layout import PLAIN, TableLayout, given_columns, resolved
from glace.ids import integers_of
from glace.io.headers import FirstRowIsData, Header, header_of, unclear_header
from glace.io.text_file import TEXT_ENDINGS, TextFile, form_of, one_line, unreadable
from glace.storage.files import existing

PIECE_NUMBERS = 1 << 20
"""Values in a piece of a Parquet file; a list counts as many as it holds."""
TABLES = (*TEXT_ENDINGS, ".parquet")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
SVMLIGHT_BYTES = 16 << 20

Piece = tuple[pa.Table, float]
"""Some rows, and the share of the file that has been read."""


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
    path: Path
    role: str
    """ "edges", "attributes" or "texts"."""
    where: RowLocator
    raw_ids: bool
    """Whether ids are text only because the file states no types."""
    named: bool
    """Whether the file itself names its columns."""
    layout: TableLayout = PLAIN
    header_is_unclear: bool = False
    notes: tuple[str, ...] = ()
    """What was found out about the file and may surprise, in words."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the id columns."""
        return _id_columns(self.table.column_names, self.role, self.where, self.layout)

    def id_values(self) -> list[pa.ChunkedArray]:
        """The id columns."""
        return [self.table.column(name) for name in self.ids]


def _id_columns(names: Sequence[str], role: str, where: RowLocator, layout: TableLayout) -> tuple[str, ...]:
    return tuple(edge_columns(names, where, layout)[:2]) if role == "edges" else (id_column(names, where, layout),)


def unused_columns(names: Sequence[str], role: str, where: RowLocator, layout: TableLayout) -> list[str]:
    """Say which columns of a table of edges or texts are used, if others are not."""
    if role == "attributes":
        return []
    if role == "edges":
        used = edge_columns(names, where, layout)
        said = "edges " + ", ".join(
            f"{how} {name!r}" for how, name in zip(("from", "to", "weighted by"), used, strict=False)
        )
    else:
        text = text_column(names, where, layout)
        used, said = [id_column(names, where, layout), text, *layout.categories], f"the texts are {text!r}"
    unused = [repr(name) for name in names if name not in used]
    return [f"{said}; not used: {', '.join(unused)}"] if unused else []


def ending_of(path: Path, known: Sequence[str]) -> str:
    """The one of the known endings that a file name has; another ending raises."""
    for ending in sorted(known, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return ending
    raise InputError(f"{path}: unknown file format; the name must end in one of {', '.join(known)}")


def read_table(path: str | Path, role: str, layout: TableLayout = PLAIN, text_columns: Sequence[str] = ()) -> TableFile:
    """Read a whole file of "edges", "attributes" or "texts"; the `text_columns` are text even if they look numeric."""
    source, ending = _existing(path, role)
    if ending not in TEXT_ENDINGS:
        pieces = [piece for piece, _ in table_pieces(path, role, layout)]
        return replace(pieces[0], table=_joined(pieces, source), where=RowLocator(source.name))
    opened = _Opened.of(source, ending, role, layout)
    types = opened.types() | {name: pa.large_string() for name in text_columns if name in opened.header.names}
    return opened.found(opened.file.read(opened.header.names, types), 0)


@dataclass(frozen=True)
class _Opened:
    """A text file whose form, header and columns are known."""

    file: TextFile
    role: str
    header: Header
    layout: TableLayout

    @classmethod
    def of(cls, path: Path, ending: str, role: str, layout: TableLayout) -> "_Opened":
        try:
            form = form_of(path, ending, role, layout)
        except (pa.ArrowException, OSError, UnicodeError) as problem:
            raise unreadable(path, problem) from problem
        header = header_of(TextFile(path, form).first_record(), role, layout, RowLocator(path.name))
        found = resolved(layout, header.names, role, path.name)
        return cls(TextFile(path, form, header.present), role, header, found)

    @property
    def where(self) -> RowLocator:
        return RowLocator(self.file.path.name, self.file.line_of_row)

    def columns(self) -> list[str]:
        """The columns to read: of edges, only their own."""
        names = self.header.names
        return edge_columns(names, self.where, self.layout) if self.role == "edges" else names

    def types(self) -> dict[str, pa.DataType]:
        """Types that Arrow must not guess: an id 007 is text, and a weight is a number."""
        names, where, layout = self.header.names, self.where, self.layout
        texts = (*_id_columns(names, self.role, where, layout), *layout.categories)
        types = dict.fromkeys(texts, pa.large_string())
        if self.role == "texts":
            types[text_column(names, where, layout)] = pa.large_string()
        if self.role == "edges":
            types |= dict.fromkeys(edge_columns(names, where, layout)[2:], pa.float64())
        return types

    def found(self, table: pa.Table, first: int) -> TableFile:
        """The table of rows from `first` on."""
        ids = _id_columns(self.header.names, self.role, self.where, self.layout)
        line, path = self.file.line_of_row, self.file.path
        where = RowLocator(path.name, lambda position: line(position + first))
        unused = unused_columns(self.header.names, self.role, where, self.layout)
        notes = tuple(f"{path.name}: {note}" for note in (*self.file.form.notes, *self.header.notes, *unused))
        header, layout = self.header, self.layout
        filled = _with_null_ids(table, ids)
        return TableFile(filled, path, self.role, where, True, header.present, layout, header.is_unclear, notes)


def _joined(pieces: list[TableFile], source: Path) -> pa.Table:
    try:
        return pa.concat_tables(piece.table for piece in pieces)
    except pa.ArrowInvalid as problem:
        raise InputError(f"the files of {source} have different columns: {one_line(problem)}") from problem


def table_pieces(path: str | Path, role: str, layout: TableLayout = PLAIN) -> Iterator[tuple[TableFile, float]]:
    """Read a file a few megabytes at a time: yield at least one piece, and the share of the file read so far.

    Messages count rows from the start of the file. Of a text file of edges only the columns of the edges are read. A
    folder of Parquet files is read file by file.
    """
    source, ending = _existing(path, role)
    if ending == FOLDER:
        yield from _folder_pieces(source, role, layout)
        return
    first = 0
    if ending in TEXT_ENDINGS:
        opened = _Opened.of(source, ending, role, layout)
        for table, share in opened.file.pieces(opened.header.names, opened.types(), opened.columns()):
            yield opened.found(table, first), share
            first += table.num_rows
        return
    named = ending == ".parquet"
    for table, share in _parquet_pieces(source) if named else _svmlight_pieces(source):
        where = RowLocator(source.name, lambda position, first=first: position + first + 1)  # type: ignore[misc]
        found = resolved(layout, table.column_names, role, source.name)
        unused = unused_columns(table.column_names, role, where, found)
        notes = tuple(f"{source.name}: {note}" for note in unused)
        yield TableFile(table, source, role, where, raw_ids=False, named=named, layout=found, notes=notes), share
        first += table.num_rows


def _folder_pieces(folder: Path, role: str, layout: TableLayout) -> Iterator[tuple[TableFile, float]]:
    files = parquet_files(folder)
    sizes = [file.stat().st_size for file in files]
    columns: list[str] | None = None
    for number, file in enumerate(files):
        for piece, share in table_pieces(file, role, layout):
            names = piece.table.column_names
            columns = names if columns is None else columns
            if names != columns:
                raise InputError(
                    f"the files of {folder} have different columns: {', '.join(columns)} in {files[0].name}, "
                    f"{', '.join(names)} in {file.name}"
                )
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


FOLDER = ""
"""The ending of a folder."""


def _existing(path: str | Path, role: str) -> tuple[Path, str]:
    """The path of a file or folder, and its ending."""
    if Path(path).is_dir():
        return Path(path), FOLDER
    ending = ending_of(Path(path), (*TABLES, *SVMLIGHT) if role == "attributes" else TABLES)
    return existing(path, f"a file of {role}"), ending


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


def _with_null_ids(table: pa.Table, ids: Sequence[str]) -> pa.Table:
    # Arrow reads an empty cell of a text column as "", but an empty id is a missing one.
    for name in ids:
        column = table.column(name)
        values = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.large_string()), column)
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def may_be_an_edge(file: TableFile) -> bool:
    """Whether the names of the columns of an edge file may be data."""
    if not file.raw_ids or not file.named or file.layout.header or given_columns(file.layout, "edges"):
        return False
    return not {"source", "target"} <= set(file.table.column_names)


def check_first_rows(edges: Sequence[TableFile], nodes: Sequence[TableFile]) -> None:
    """Raise if what was read as column names is a weight, or ids of nodes."""
    for file in edges:
        names = file.table.column_names
        others = (file, *nodes)
        if may_be_an_edge(file) and (parses(names[-1]) or any(_hold_ids(other, file.ids) for other in others)):
            raise FirstRowIsData(file.path, "edges", names)
    for file in nodes:
        _check_first_node(file, edges)


def _check_first_node(file: TableFile, edges: Sequence[TableFile]) -> None:
    names = file.table.column_names
    if not file.raw_ids or not file.named or file.layout.header or "id" in file.ids or file.layout.id_column:
        return
    if any(_hold_ids(other, file.ids) for other in edges):
        raise FirstRowIsData(file.path, file.role, names)
    first_nodes = file.id_values()[0].slice(0, 100).to_pylist()
    if file.header_is_unclear and not any(_hold_ids(other, list(filter(None, first_nodes))) for other in edges):
        raise unclear_header(file.where, file.role, names)


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
