"""Files to a Graph: CSV, TSV, Parquet and svmlight tables, npz graphs; messages count rows as people do."""

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
from glace.graph.categories import Categories
from glace.graph.columns import Where
from glace.graph.folder import is_folder, read_folder
from glace.graph.graph import Graph
from glace.graph.npz import read_npz
from glace.graph.tables import (
    NodeTable,
    attribute_table,
    check_choices,
    check_names,
    edge_columns,
    edge_table,
    id_column,
    join,
    ordered,
    text_column,
    text_rows,
    text_table,
)
from glace.graph.text_file import TextFile, one_line, parses
from glace.ids import NodeIds, integers_of, is_integer_text

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
TABLES = (*SEPARATORS, ".csv.gz", ".tsv.gz", ".parquet")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")

# A header that nobody takes for data.
CLEAR_HEADER = {"edges": "source,target", "attributes": "id, ...", "texts": "id,text"}


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
    """A graph from one file: .npz with all of it, or a table of edges for a graph without attributes.

    Or from a graph folder, which is mapped and not read; it says itself whether its edges have a direction.
    """
    if is_folder(path):
        return _of_direction(read_folder(path), path, directed)
    if _ending(Path(path), (".npz", *TABLES)) == ".npz":
        return read_npz(path, directed=directed)
    return read_tables(path, directed=directed)


def _of_direction(graph: Graph, path: str | Path, directed: bool) -> Graph:
    if directed and not graph.directed:
        raise InputError(f"the edges of {path} have no direction; convert it again as a directed graph")
    return graph


class Rows(NamedTuple):
    """New nodes: their ids, and a matrix of attributes or a list of texts, one for each."""

    ids: NodeIds
    values: Any


def read_rows(
    path: str | Path,
    role: str,
    *,
    header: bool = True,
    width: int | None = None,
    names: tuple[str, ...] | None = None,
) -> Rows:
    """The rows of a table of new nodes, `attributes` or `texts`, as `read_tables` reads them.

    A svmlight file does not say how wide it is; `width` does. With `names`, those of a graph's attributes,
    the columns of a table that has names too are brought into that order, and must be just these.
    """
    if role == "attributes" and _ending(Path(path), (*TABLES, *SVMLIGHT)) in SVMLIGHT:
        nodes = _read_svmlight(existing(path, "a file of attributes"), width)
        return Rows(nodes.ids, nodes.attributes)
    (file,) = _settled([_read(path, role, header)])
    if role == "texts":
        return Rows(*text_rows(file.table, file.where))
    table = (
        file.table if names is None or not file.named else ordered(file.table, file.ids[0], names, file.where)
    )
    nodes = attribute_table(table, file.where)
    if nodes.attributes is None:
        raise InputError(f"{file.where.name}: no column of attributes; wanted an id and numbers")
    return Rows(nodes.ids, nodes.attributes)


def read_pairs(path: str | Path, ids: NodeIds, *, header: bool = True) -> npt.NDArray[np.int64]:
    """(P, 2) positions, in `ids`, of the pairs of a table of sources and targets."""
    file = _read(path, "edges", header)
    names = file.table.column_names
    known = parses(names[-1]) or any(ids.parse(name) in ids for name in file.ids)
    if header and known and _may_be_an_edge(file):
        raise _first_row_is_data(file.where, "edges", names)
    pairs = edge_table(file.table, file.where)
    columns = [_positions(column, ids, file) for column in (pairs.source, pairs.target)]
    return np.column_stack(columns)


def _positions(column: pa.Array, ids: NodeIds, file: "_File") -> npt.NDArray[np.int64]:
    wanted = integers_of(column) if file.loose and not ids.are_strings else column
    if wanted is None:  # a text among numbers: no node is called so, and the first one is named
        found = np.array(
            [-1 if integers_of(column[row : row + 1]) is None else 0 for row in range(len(column))]
        )
    else:
        found = _found(wanted, ids, file)
    if (found < 0).any():
        row = int(np.flatnonzero(found < 0)[0])
        raise InputError(f"{file.where.row(row)}: no node {column[row].as_py()!r} in the model")
    return found


def _found(column: pa.Array, ids: NodeIds, file: "_File") -> npt.NDArray[np.int64]:
    try:
        return ids.find(column)
    except InputError as problem:
        raise InputError(f"{file.where.name}: {problem}") from problem


@dataclass(frozen=True)
class _File:
    """A table as read from a file."""

    table: pa.Table
    role: str
    where: Where
    loose: bool
    """Whether its ids are text only because the file has no types."""
    named: bool
    """Whether the names of its columns stand in the file."""

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
        return _File(_read_parquet(source), role, Where(source.name), loose=False, named=True)
    file = TextFile(source, SEPARATORS[ending.removesuffix(".gz")], header, ending.endswith(".gz"))
    where = Where(source.name, file.line_of_row)
    return _File(_read_text(file, role, where), role, where, loose=True, named=header)


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
    if _DATA[role](names):
        raise _first_row_is_data(where, role, names)
    try:
        check_names(names, where)
    except InputError as problem:
        raise InputError(
            f"{problem}, or pass header=False (--no-header) if the first row is data"
        ) from problem


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


def _first_row_is_data(where: Where, role: str, names: Sequence[str]) -> InputError:
    shown = ", ".join(names[:3])
    return InputError(
        f"{where.name}: the first row ({shown}{', ...' if len(names) > 3 else ''}) looks like data, not like the "
        f"names of columns; pass header=False (--no-header), or give it a header such as {CLEAR_HEADER[role]}"
    )


def _may_be_an_edge(links: _File) -> bool:
    """Whether the names of the edge columns were not told apart from data by reading them alone."""
    return links.loose and not {"source", "target"} <= set(links.table.column_names)


def _check_first_row(links: _File, nodes: _File | None = None) -> None:
    """Raise if what was taken for the names of columns are a weight, or ids of nodes."""
    names = links.table.column_names
    if _may_be_an_edge(links) and (parses(names[-1]) or _name_nodes(links.ids, nodes or links)):
        raise _first_row_is_data(links.where, "edges", names)
    if nodes is not None and nodes.loose and "id" not in nodes.ids and _name_nodes(nodes.ids, links):
        raise _first_row_is_data(nodes.where, nodes.role, nodes.table.column_names)


def _name_nodes(names: Sequence[str], file: _File) -> bool:
    """Whether one of these names is an id in this file."""
    wanted = pa.array(names, pa.large_string())
    columns = (column.cast(pa.large_string()) for column in file.id_values())
    return any(pc.any(pc.is_in(column, value_set=wanted)).as_py() for column in columns)


def _settled(files: list[_File]) -> list[_File]:
    """The files with loose ids turned to integers if every id of every file is one, else as they are."""
    converted = [_with_integer_ids(file) for file in files]
    settled = [file for file in converted if file is not None]
    return settled if len(settled) == len(files) else files


def _with_integer_ids(file: _File) -> _File | None:
    """The file with ids that are integers; None if not every one is written as such."""
    table = file.table
    for name, column in zip(file.ids, file.id_values(), strict=True):
        integers = integers_of(column) if file.loose else column
        if integers is None or not pa.types.is_integer(integers.type):
            return None
        table = table.set_column(table.column_names.index(name), name, integers)
    return replace(file, table=table)


def _node_table(file: _File) -> NodeTable:
    if file.role == "texts":
        return text_table(file.table, file.where)
    nodes = attribute_table(file.table, file.where)
    return nodes if file.named else replace(nodes, attribute_names=None)
