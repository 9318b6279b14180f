"""Files to a Graph: CSV, TSV, Parquet and svmlight tables, npz files, graph folders."""

from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from glace.errors import InputError
from glace.features.columns import distinct, ids_of, parses, texts_of
from glace.features.pipeline import FeaturePipeline, NewColumns, Rows
from glace.graph.graph import Graph
from glace.ids import NodeIds
from glace.io.folder import is_folder, read_folder
from glace.io.npz import read_npz
from glace.io.table_file import (
    TABLES,
    TableFile,
    check_first_rows,
    ending_of,
    first_row_is_data,
    may_be_an_edge,
    read_table,
    with_common_ids,
)
from glace.io.tables import (
    Columns,
    EdgeTables,
    NodeSource,
    NodeTable,
    NodeTables,
    Pipelines,
    check_policy,
    edge_table,
    join,
    node_table,
    tables_by_type,
)

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
    header: bool = True,
) -> Graph:
    """Read a graph from table files: .csv, .tsv, .txt (tabs), .csv.gz, .tsv.gz or .parquet, or folders of the last.

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
        Kinds of the columns of `attributes`, see `from_tables`; the file then needs a header.
    pipeline : FeaturePipeline, optional
        The pipeline of another graph or of a model, applied instead of learning one from the columns.
    directed : bool, default False
        Whether edges have a direction.
    nodes_without_attributes : {"error", "empty"}, default "error"
        What to do with nodes that edges name but that have no row: raise, or give them empty attributes.
    header : bool, default True
        Whether the first row of text files holds the names of columns. Without a header the columns are source,
        target, weight; id, attributes; id, text.

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
    edge_files = {ends: read_table(path, "edges", header) for ends, path in edge_paths.items()}
    node_files = {
        name: read_table(source.table, source.role, header, source.text_columns()) for name, source in sources.items()
    }
    if header:
        check_first_rows(list(edge_files.values()), list(node_files.values()))
    files = with_common_ids([*edge_files.values(), *node_files.values()])
    described = files[len(edge_files) :]
    nodes = {name: _node_table(file, source) for (name, source), file in zip(sources.items(), described, strict=True)}
    links = [edge_table(file.table, file.where, ends) for ends, file in zip(edge_files, files, strict=False)]
    return join(links, nodes, directed=directed, nodes_without_attributes=nodes_without_attributes)


def _node_table(file: TableFile, source: NodeSource) -> NodeTable:
    if source.columns is not None or source.pipeline is not None:
        _check_named(file)
    nodes = node_table(file.table, file.where, source)
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
    header: bool = True,
    width: int | None = None,
    names: tuple[str, ...] | None = None,
    pipeline: FeaturePipeline | None = None,
) -> Rows:
    """Read the rows of new nodes from a table of "attributes" or "texts", the way `read_tables` reads them.

    What the model knows about their columns is as for `NewColumns`; a file without column names has them in order.
    """
    text_columns = NodeSource(path, role, pipeline=pipeline).text_columns()
    (file,) = with_common_ids([read_table(path, role, header, text_columns)])
    (key,), where = file.ids, file.where
    ids = distinct(ids_of(file.table, key, where), where)
    if role == "texts":
        return Rows(ids, texts_of(file.table, where))
    if pipeline is not None and pipeline.vocabulary is None:
        _check_named(file)
    return Rows(ids, *NewColumns(width, names if file.named else None, pipeline).values(file.table, key, where))


def read_pairs(path: FilePath, ids: NodeIds, *, header: bool = True) -> npt.NDArray[np.int64]:
    """Read pairs of nodes from a table of sources and targets; return (P, 2) positions in `ids`."""
    file = read_table(path, "edges", header)
    names = file.table.column_names
    is_data = parses(names[-1]) or any(ids.parse(name) in ids for name in file.ids)
    if header and is_data and may_be_an_edge(file):
        raise first_row_is_data(file.where, "edges", names)
    pairs = edge_table(file.table, file.where)
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
