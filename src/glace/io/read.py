"""Files to a Graph: CSV, TSV, Parquet and svmlight tables, npz files, graph folders."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from glace.errors import InputError
from glace.features.columns import (
    are_sparse_rows,
    attribute_columns,
    distinct,
    ids_of,
    is_number,
    numbers_or_nan,
    parses,
    texts_of,
)
from glace.features.guess import guessed_kinds
from glace.features.layout import PLAIN, TableLayout, check_types
from glace.features.pipeline import FeaturePipeline, NewColumns, Rows
from glace.graph.graph import Graph
from glace.ids import NodeIds
from glace.io.by_type import (
    Columns,
    EdgeTables,
    Ends,
    NodeSource,
    NodeTables,
    Pipelines,
    check_policy,
    tables_by_type,
    types_of,
)
from glace.io.folder import is_folder, read_folder
from glace.io.headers import FirstRowIsData, Layouts, unclear_header
from glace.io.npz import read_npz
from glace.io.table_file import (
    TABLES,
    TableFile,
    check_first_rows,
    ending_of,
    may_be_an_edge,
    read_table,
    table_pieces,
    with_common_ids,
)
from glace.io.tables import NodeTable, edge_table, join, node_table

FilePath: TypeAlias = str | Path


def read_tables(
    edges: EdgeTables[FilePath],
    attributes: NodeTables[FilePath] = None,
    *,
    texts: NodeTables[FilePath] = None,
    columns: Columns = None,
    pipeline: Pipelines = None,
    directed: bool = False,
    nodes_without_attributes: str = "error",
    layout: TableLayout = PLAIN,
) -> Graph:
    """Read a graph from table files: .csv, .tsv, .txt, .edgelist, .parquet, or folders of the last.

    Text files may be compressed (.gz, .zst) and encoded in UTF-8 or UTF-16; lines that start with # are comments if the
    first line of edges does. What is guessed about a file is a line of ``graph.cleaning_report.lines()``.

    The columns are those of `from_tables`. In text files ids are read as text; they become integers only if all ids in
    all files are written as plain integers, so "007" stays text. With several node types there is one file per type,
    in dicts by type.

    Parameters
    ----------
    edges : path, or dict of paths
        File of the edges; with node types, a dict such as ``{("word", "synset"): "edges.csv"}``.
    attributes : path, or dict of paths, optional
        File of the attributes. It may also be .svm, .svmlight or .libsvm: ids are then row numbers from 0, and the
        leading number of a row is its label.
    texts : path, or dict of paths, optional
        File of texts, instead of attributes.
    columns : dict of str to str, optional
        Kinds of the columns of `attributes`, see `from_tables`; the file then needs a header. Kinds that are not given
        are guessed if a column does not hold numbers.
    pipeline : FeaturePipeline, optional
        The pipeline of another graph or of a model, applied instead of learning one from the columns.
    directed : bool, default False
        Whether edges have a direction.
    nodes_without_attributes : {"error", "empty"}, default "error"
        What to do with nodes that edges name but that have no row: raise, or give them empty attributes.
    layout : TableLayout, optional
        Names of the columns, separator, encoding, and whether the first row of text files holds names of columns; by
        default these follow from the files. Without a header the columns are source, target, weight; id, attributes;
        id, text.

    Returns
    -------
    Graph
        See `from_tables`.

    Raises
    ------
    InputError
        If a file cannot be used; the message names the file and the row as a text editor counts it.

    Examples
    --------
    >>> import glace, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "edges.csv")
    ...     _ = path.write_text("source,target,weight\\nann,bob,2\\nbob,eve,1\\n")
    ...     graph = glace.read_tables(path)
    >>> list(graph.ids)
    ['ann', 'bob', 'eve']
    """
    edge_paths, sources = tables_by_type(edges, attributes, texts, columns, pipeline)
    check_policy(nodes_without_attributes)
    check_types(layout, [*map(types_of, edge_paths), *sources])
    layouts = Layouts(layout)
    while True:
        try:
            files = _read_files(edge_paths, sources, layouts)
            break
        except FirstRowIsData as problem:
            layouts.take_as_headerless(problem)
    described = files[len(edge_paths) :]
    nodes = {name: _node_table(file, each) for (name, each), file in zip(sources.items(), described, strict=True)}
    links = [
        edge_table(file.table, file.where, ends, file.layout) for ends, file in zip(edge_paths, files, strict=False)
    ]
    graph = join(links, nodes, directed=directed, nodes_without_attributes=nodes_without_attributes)
    notes = (*layouts.notes, *(note for file in files for note in file.notes), *graph.cleaning_report.notes)
    return replace(graph, cleaning_report=replace(graph.cleaning_report, notes=notes))


def _read_files(
    edge_paths: Mapping[Ends, FilePath], sources: Mapping[str, NodeSource], layouts: Layouts
) -> list[TableFile]:
    """Read all files, edges first, with the same kind of ids."""
    edge_files = [read_table(path, "edges", layouts.of(path, types_of(ends))) for ends, path in edge_paths.items()]
    node_files = [
        read_table(source.table, source.role, layouts.of(source.table, name), source.text_columns())
        for name, source in sources.items()
    ]
    check_first_rows(edge_files, node_files)
    return with_common_ids([*edge_files, *node_files])


def holds_numbers_only(path: FilePath, layout: TableLayout = PLAIN) -> bool:
    """Return whether the first rows of a file of attributes hold numbers or sparse rows; nothing is guessed then."""
    first, _ = next(iter(table_pieces(path, "attributes", Layouts(layout).of(path))))
    columns = attribute_columns(first.table.column_names, first.where, first.layout)
    return are_sparse_rows(first.table.schema, columns) or not guessed_kinds(first.table, columns)


def _node_table(file: TableFile, source: NodeSource) -> NodeTable:
    if source.columns is not None or source.pipeline is not None:
        _check_named(file)
    nodes = node_table(file.table, file.where, replace(source, layout=file.layout))
    return nodes if file.named else replace(nodes, feature_names=None)


def _check_named(file: TableFile) -> None:
    if not file.named:
        raise InputError(
            f"{file.where.name}: kinds of columns need column names, but the file has none; add a header, or use a "
            "CSV or Parquet table"
        )


def read_graph(path: FilePath, *, directed: bool = False) -> Graph:
    """Read a graph from one file or folder.

    Parameters
    ----------
    path : path
        An .npz file, a table of edges, or a folder of such Parquet files, for a graph without attributes, or a graph
        folder, which is memory-mapped.
    directed : bool, default False
        Whether edges have a direction. Leave it out for a graph folder, which states it.

    Returns
    -------
    Graph
        The graph, with its attributes and labels if the file has them.

    Raises
    ------
    InputError
        If the file is not found or cannot be used, or a folder of undirected edges is asked for as directed.

    Examples
    --------
    >>> import glace, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     glace.write_npz(glace.from_arrays([[0, 1], [1, 2]]), f"{folder}/path.npz")
    ...     graph = glace.read_graph(f"{folder}/path.npz")
    >>> graph.num_edges
    2
    """
    if is_folder(path):
        graph = read_folder(path)
        if directed and not graph.directed:
            raise InputError(f"the edges of {path} have no direction; convert it again as a directed graph")
        return graph
    if not Path(path).is_dir() and ending_of(Path(path), (".npz", *TABLES)) == ".npz":
        return read_npz(path, directed=directed)
    return read_tables(path, directed=directed)


def read_rows(
    path: FilePath,
    role: str,
    *,
    layout: TableLayout = PLAIN,
    width: int | None = None,
    names: tuple[str, ...] | None = None,
    pipeline: FeaturePipeline | None = None,
) -> Rows:
    """Read the rows of new nodes from a table of "attributes" or "texts", the way `read_tables` reads them.

    What the model knows about their columns is as for `NewColumns`; a file without column names has them in order.
    """
    text_columns = NodeSource(path, role, pipeline=pipeline).text_columns()
    (file,) = with_common_ids([read_table(path, role, layout, text_columns)])
    if file.header_is_unclear:
        raise unclear_header(file.where, role, file.table.column_names)
    (key,), where = file.ids, file.where
    ids = distinct(ids_of(file.table, key, where), where)
    if role == "texts":
        return Rows(ids, texts_of(file.table, where, file.layout))
    if pipeline is not None and pipeline.vocabulary is None:
        _check_named(file)
    known = NewColumns(width, names if file.named else None, pipeline, file.layout)
    return Rows(ids, *known.values(file.table, key, where))


def read_numbers(path: FilePath, ids: NodeIds, *, layout: TableLayout = PLAIN) -> dict[str, npt.NDArray[np.float32]]:
    """Read the columns of numbers of a node table, each (n,) in the order of `ids`.

    A missing number, or that of a node without a row, is NaN. Rows of other nodes are not used.
    """
    file = read_table(path, "attributes", layout)
    (key,), where = file.ids, file.where
    rows = distinct(ids_of(file.table, key, where), where)
    known = ids.array.cast(rows.array.type) if file.raw_ids else ids.array
    found = rows.find(known)
    if not (found >= 0).any():
        raise InputError(f"{where.name}: no row has the id of a node of the model, such as {ids[0]!r}")
    numbers = {}
    for name in attribute_columns(file.table.column_names, where, file.layout):
        if is_number(file.table.column(name).type):
            values = np.append(numbers_or_nan(file.table.column(name), name, where), np.nan)
            numbers[name] = values[found].astype(np.float32)  # -1, for no row, is the last one
    return numbers


def read_pairs(path: FilePath, ids: NodeIds, *, layout: TableLayout = PLAIN) -> npt.NDArray[np.int64]:
    """Read pairs of nodes from a table of sources and targets; return (P, 2) positions in `ids`."""
    layouts = Layouts(layout)
    while True:
        try:
            return _pairs(path, ids, layouts.of(path))
        except FirstRowIsData as problem:
            layouts.take_as_headerless(problem)


def _pairs(path: FilePath, ids: NodeIds, layout: TableLayout) -> npt.NDArray[np.int64]:
    file = read_table(path, "edges", layout)
    names = file.table.column_names
    is_data = parses(names[-1]) or any(ids.parse(name) in ids for name in file.ids)
    if is_data and may_be_an_edge(file):
        raise FirstRowIsData(file.path, "edges", names)
    pairs = edge_table(file.table, file.where, layout=file.layout)
    return np.column_stack([_positions(column, ids, file) for column in (pairs.source, pairs.target)])


def _positions(column: pa.Array, ids: NodeIds, file: TableFile) -> npt.NDArray[np.int64]:
    # In a text file all ids are text. The text of an integer id is unique: 007 is not 7.
    known = NodeIds(ids.array.cast(column.type)) if file.raw_ids else ids
    try:
        found = known.find(column)
    except InputError as problem:
        raise InputError(f"{file.where.name}: {problem}") from problem
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        raise InputError(f"{file.where.row(row)}: no node {column[row].as_py()!r} in the model")
    return found
