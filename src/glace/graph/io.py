"""Files to a Graph: CSV, TSV, Parquet and svmlight tables, npz graphs; messages count rows as people do."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
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
    text_rows,
    text_table,
)
from glace.graph.text_file import TextFile, one_line
from glace.ids import NodeIds

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
TABLES = (*SEPARATORS, ".csv.gz", ".tsv.gz", ".parquet")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")

# At most 18 digits: every such number fits into 64 bits. "007" and "+7" are names, not numbers.
CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"


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


class Rows(NamedTuple):
    """New nodes: their ids, and a matrix of attributes or a list of texts, one for each."""

    ids: NodeIds
    values: Any


def read_rows(path: str | Path, role: str, *, header: bool = True, width: int | None = None) -> Rows:
    """The rows of a table of new nodes, `attributes` or `texts`, as `read_tables` reads them.

    A svmlight file does not say how wide it is; `width` does.
    """
    if role == "attributes" and _ending(Path(path), (*TABLES, *SVMLIGHT)) in SVMLIGHT:
        nodes = _read_svmlight(existing(path, "a file of attributes"), width)
        return Rows(nodes.ids, nodes.attributes)
    (file,) = _settled([_read(path, role, header)])
    if role == "texts":
        return Rows(*text_rows(file.table, file.where))
    nodes = attribute_table(file.table, file.where)
    if nodes.attributes is None:
        raise InputError(f"{file.where.name}: no column of attributes; wanted an id and numbers")
    return Rows(nodes.ids, nodes.attributes)


def read_pairs(path: str | Path, ids: NodeIds, *, header: bool = True) -> npt.NDArray[np.int64]:
    """(P, 2) positions, in `ids`, of the pairs of a table of sources and targets."""
    file = _read(path, "edges", header)
    if file.loose and not ids.are_strings and _could_be_integers(file):
        file = _with_integer_ids(file)
    pairs = edge_table(file.table, file.where)
    columns = []
    for column in (pairs.source, pairs.target):
        found = ids.find(column)
        if (found < 0).any():
            row = int(np.flatnonzero(found < 0)[0])
            raise InputError(f"{file.where.row(row)}: no node {column[row].as_py()!r} in the model")
        columns.append(found)
    return np.column_stack(columns)


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
        raise InputError(f"{path.name} cannot be read as Parquet: {one_line(problem)}") from problem
    check_names(names, Where(path.name))
    return table


def _read_svmlight(path: Path, width: int | None = None) -> NodeTable:
    from sklearn.datasets import load_svmlight_file

    try:
        # Counted from 0 whatever the file says: one that counts from 1 has an empty first column, which does no
        # harm, while a guess could take the rows of two files that belong together differently.
        matrix, labels = load_svmlight_file(str(path), n_features=width, zero_based=True)
    except (ValueError, TypeError, OverflowError, IndexError) as problem:
        raise InputError(f"{path.name} cannot be read as svmlight: {one_line(problem)}") from problem
    names = [str(int(label)) if label.is_integer() else str(label) for label in labels.tolist()]
    return NodeTable(NodeIds.numbered(len(names)), Where(path.name), matrix, Categories.of(names))


def _read_text(file: TextFile, role: str, where: Where) -> pa.Table:
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


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


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
    """Raise if what was taken for the names of the edge columns are a weight, or two ids of nodes."""
    names = links.table.column_names
    if not links.loose or {"source", "target"} <= set(names):
        return
    columns = [column.cast(pa.large_string()) for column in (nodes or links).id_values()]
    known = pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.large_string())
    are_ids = pc.all(pc.is_in(pa.array(names[:2], pa.large_string()), value_set=known)).as_py()
    if are_ids or _is_number(names[-1]):
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
