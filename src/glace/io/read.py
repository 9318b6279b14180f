"""Files to a Graph: CSV, TSV, Parquet and svmlight tables, npz graphs; messages count rows as people do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.errors import InputError
from glace.features.columns import parses
from glace.features.frames import ordered
from glace.features.pipeline import FeaturePipeline, Kinds, worded_columns
from glace.features.rows import Rows, pipeline_rows
from glace.graph.graph import Graph
from glace.ids import NodeIds, integers_of
from glace.io.folder import is_folder, read_folder
from glace.io.npz import read_npz
from glace.io.svmlight import read_svmlight
from glace.io.table_file import (
    SVMLIGHT,
    TABLES,
    TableFile,
    check_first_row,
    ending_of,
    first_row_is_data,
    may_be_an_edge,
    read_table,
    settled,
)
from glace.io.tables import (
    NodeTable,
    attribute_table,
    check_choices,
    check_missing,
    check_mixed,
    edge_table,
    join,
    text_rows,
    text_table,
)
from glace.io.typed_tables import (
    Given,
    TypedEdges,
    are_typed,
    edges_by_ends,
    join_types,
)
from glace.storage.files import existing


def read_tables(
    edges: Any,
    attributes: Any = None,
    *,
    texts: Any = None,
    columns: Any = None,
    pipeline: Any = None,
    directed: bool = False,
    missing: str = "error",
    header: bool = True,
) -> Graph:
    """A graph from files, read by their ending: .csv, .tsv, .txt (tabs), .csv.gz, .tsv.gz, .parquet.

    The columns are those of `from_tables`. Attributes may also be .svm, .svmlight or .libsvm: ids are
    then row numbers from 0 and the leading number is the label. In text files ids are read as text, and
    become integers only if all of them, in both files, are written as plain integers. `header=False`
    says that text files start with data: source, target, weight; id, attributes; id, text. `columns` and `pipeline`
    go by the names of columns, which the file of attributes must then have. Nodes of several types have a file each,
    in dicts by type as in `from_tables`.
    """
    if are_typed(edges, attributes, texts):
        check_missing(missing)
        return _read_types(edges, attributes, texts, columns, pipeline, directed, missing, header)
    check_choices(attributes, texts, missing)
    check_mixed(attributes, columns, pipeline)
    role, path = ("attributes", attributes) if texts is None else ("texts", texts)
    files, nodes = [read_table(edges, "edges", header)], None
    mixed = columns is not None or pipeline is not None
    if path is not None and role == "attributes" and _is_svmlight(path, mixed):
        nodes = read_svmlight(existing(path, "a file of attributes"))
    elif path is not None:
        files.append(read_table(path, role, header, worded_columns(columns, pipeline)))
    if header:
        check_first_row(*files)
    links, *described = settled(files)
    if described:
        nodes = _node_table(described[0], columns, pipeline)
    return join(edge_table(links.table, links.where), nodes, directed=directed, missing=missing)


def _read_types(
    edges: Any,
    attributes: Any,
    texts: Any,
    columns: Any,
    pipeline: Any,
    directed: bool,
    missing: str,
    header: bool,
) -> Graph:
    """What `read_tables` does with files by type."""
    given = Given.of(attributes, texts, columns, pipeline)
    kinds, pipelines = given.columns, given.pipelines
    nodes, files = {}, {}
    for name, path in given.attributes.items():
        if _is_svmlight(path, name in kinds or name in pipelines):
            nodes[name] = read_svmlight(existing(path, "a file of attributes"))
        else:
            files[name] = read_table(path, "attributes", header, worded_columns(kinds.get(name), pipelines.get(name)))
    files |= {name: read_table(path, "texts", header) for name, path in given.texts.items()}
    links = {ends: read_table(path, "edges", header) for ends, path in edges_by_ends(edges).items()}
    if header:
        for each in links.values():
            check_first_row(each)
            for file in files.values():
                check_first_row(each, file)
    done = settled([*links.values(), *files.values()])
    for name, file in zip(files, done[len(links) :], strict=True):
        nodes[name] = _node_table(file, kinds.get(name), pipelines.get(name))
    between = [
        TypedEdges(edge_table(file.table, file.where, ends is None), ends)
        for ends, file in zip(links, done, strict=False)
    ]
    return join_types(between, nodes, directed=directed, missing=missing)


def _is_svmlight(path: str | Path, mixed: bool) -> bool:
    found = ending_of(Path(path), (*TABLES, *SVMLIGHT)) in SVMLIGHT
    if found and mixed:
        raise InputError(
            f"{path}: columns of an svmlight file have no names, and so no kinds; give a CSV or Parquet table"
        )
    return found


def _check_named(file: TableFile, mixed: bool) -> None:
    if mixed and not file.named:
        raise InputError(f"{file.where.name}: mixed columns go by their names, but the file has no header; give it one")


def read_graph(path: str | Path, *, directed: bool = False) -> Graph:
    """A graph from one file: .npz with all of it, or a table of edges for a graph without attributes.

    Or from a graph folder, which is mapped and not read; it says itself whether its edges have a direction.
    """
    if is_folder(path):
        return _of_direction(read_folder(path), path, directed)
    if ending_of(Path(path), (".npz", *TABLES)) == ".npz":
        return read_npz(path, directed=directed)
    return read_tables(path, directed=directed)


def _of_direction(graph: Graph, path: str | Path, directed: bool) -> Graph:
    if directed and not graph.directed:
        raise InputError(f"the edges of {path} have no direction; convert it again as a directed graph")
    return graph


def read_rows(
    path: str | Path,
    role: str,
    *,
    header: bool = True,
    width: int | None = None,
    names: tuple[str, ...] | None = None,
    pipeline: FeaturePipeline | None = None,
) -> Rows:
    """The rows of a table of new nodes, `attributes` or `texts`, as `read_tables` reads them.

    Sparse rows, in svmlight or Parquet, do not say how wide they are; `width` does. With `names`, those of a
    graph's attributes, the columns of a table that has names too are brought into that order, and must be just
    these. With a `pipeline`, they are the columns of that.
    """
    mixed = pipeline is not None and pipeline.vocabulary is None
    if role == "attributes" and _is_svmlight(path, mixed):
        nodes = read_svmlight(existing(path, "a file of attributes"), width)
        return Rows(nodes.ids, nodes.attributes)
    (file,) = settled([read_table(path, role, header, worded_columns(None, pipeline))])
    if role == "texts":
        return Rows(*text_rows(file.table, file.where))
    _check_named(file, mixed)
    if pipeline is not None and pipeline.suits(file.table.column_names):
        return pipeline_rows(file.table, file.ids[0], pipeline, file.where)
    table = file.table if names is None or not file.named else ordered(file.table, file.ids[0], names, file.where)
    nodes = attribute_table(table, file.where)
    if nodes.attributes is None:
        raise InputError(f"{file.where.name}: no column of attributes; wanted an id and numbers")
    if sp.issparse(nodes.attributes) and nodes.attribute_names is None and width is not None:
        nodes.attributes.resize(len(nodes.ids), max(width, nodes.attributes.shape[1]))
    return Rows(nodes.ids, nodes.attributes)


def read_pairs(path: str | Path, ids: NodeIds, *, header: bool = True) -> npt.NDArray[np.int64]:
    """(P, 2) positions, in `ids`, of the pairs of a table of sources and targets."""
    file = read_table(path, "edges", header)
    names = file.table.column_names
    known = parses(names[-1]) or any(ids.parse(name) in ids for name in file.ids)
    if header and known and may_be_an_edge(file):
        raise first_row_is_data(file.where, "edges", names)
    pairs = edge_table(file.table, file.where)
    columns = [_positions(column, ids, file) for column in (pairs.source, pairs.target)]
    return np.column_stack(columns)


def _positions(column: pa.Array, ids: NodeIds, file: TableFile) -> npt.NDArray[np.int64]:
    wanted = integers_of(column) if file.loose and not ids.are_strings else column
    if wanted is None:  # a text among numbers: no node is called so, and the first one is named
        found = np.array([-1 if integers_of(column[row : row + 1]) is None else 0 for row in range(len(column))])
    else:
        found = _found(wanted, ids, file)
    if (found < 0).any():
        row = int(np.flatnonzero(found < 0)[0])
        raise InputError(f"{file.where.row(row)}: no node {column[row].as_py()!r} in the model")
    return found


def _found(column: pa.Array, ids: NodeIds, file: TableFile) -> npt.NDArray[np.int64]:
    try:
        return ids.find(column)
    except InputError as problem:
        raise InputError(f"{file.where.name}: {problem}") from problem


def _node_table(file: TableFile, columns: Kinds | None, pipeline: FeaturePipeline | None) -> NodeTable:
    if file.role == "texts":
        return text_table(file.table, file.where)
    _check_named(file, columns is not None or pipeline is not None)
    nodes = attribute_table(file.table, file.where, columns, pipeline)
    return nodes if file.named else replace(nodes, attribute_names=None)
