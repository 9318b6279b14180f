"""Embeddings as files: Parquet and npz to exchange, Arrow to map into memory, CSV for other programs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from glace.blocks import blocks
from glace.errors import FormatError, GlaceError, InputError
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding
from glace.ids import NodeIds
from glace.metrics import PlattScaling
from glace.storage.archive import read_arrays, string_array
from glace.storage.files import existing, replacing

_KEY = b"glace"
VERSION = 1
ROWS = 1 << 16
"""Rows written at a time, so that an embedding larger than memory can be."""
MATRICES = ("mean", "variance", "context_mean", "context_variance")


def write_embedding(embedding: Embedding, path: str | Path, types: Any = None) -> None:
    """Write by the ending of the name: .parquet, .arrow, .npz or .csv.

    `types` (n,), strings or None as in `graph.node_types`, are written beside the ids, for other programs: they are not
    read back.
    """
    writer = _by_ending(path, _WRITERS, "written")
    named = _checked_types(types, len(embedding))
    with replacing(path) as temporary:
        writer(embedding, temporary, named)


def _checked_types(types: Any, count: int) -> pa.StringArray | None:
    if types is None:
        return None
    try:
        named = types if isinstance(types, pa.StringArray) else pa.array(list(types), pa.string())
    except (pa.ArrowException, TypeError) as problem:
        raise InputError(f"types must be strings or None, one a node: {problem}") from problem
    if len(named) != count:
        raise InputError(f"{len(named):,} types for {count:,} nodes; give one for each node")
    return named


def read_embedding(path: str | Path) -> Embedding:
    """Read by the ending of the name: .parquet, .arrow (mapped into memory, not loaded) or .npz."""
    reader = _by_ending(path, _READERS, "read")
    source = existing(path, "an embedding file")
    try:
        embedding: Embedding = reader(source)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as problem:
        detail = str(problem) if isinstance(problem, GlaceError) else "not an embedding written by glace, or damaged"
        raise FormatError(f"cannot read {path}: {detail}") from problem
    return embedding


def check_ending(path: str | Path) -> None:
    """Raise unless the name ends in a format that can be written."""
    _by_ending(path, _WRITERS, "written")


def is_embedding_file(path: str | Path) -> bool:
    """Whether the name ends like an embedding that `read_embedding` reads."""
    return Path(path).suffix in _READERS


def _by_ending(path: str | Path, known: dict[str, Callable[..., Any]], verb: str) -> Callable[..., Any]:
    ending = Path(path).suffix
    if ending not in known:
        raise InputError(f"an embedding cannot be {verb} as {str(path)!r}; the name must end in {', '.join(known)}")
    return known[ending]


def as_table(embedding: Embedding, types: pa.StringArray | None = None) -> pa.Table:
    """Columns id, certainty, mean and, where there, variance, context_mean, context_variance: lists of fixed size.

    Where there are types, they come after the id.
    """
    columns = {} if types is None else {"type": types}
    columns |= {} if embedding.certainty is None else {"certainty": pa.array(embedding.certainty)}
    columns |= {name: _lists(matrix) for name, matrix in matrices(embedding).items()}
    facts = {"dissimilarity": embedding.dissimilarity, **embedding.odds._asdict(), "format_version": VERSION}
    table = pa.table({"id": embedding.ids.array, **columns})
    return table.replace_schema_metadata({_KEY: json.dumps(facts)})


def from_table(table: pa.Table) -> Embedding:
    """Back from `as_table`."""
    facts = json.loads((table.schema.metadata or {})[_KEY])
    if facts["format_version"] != VERSION:
        raise FormatError(f"format version {facts['format_version']}, but this glace reads version {VERSION}")
    columns = {name: _matrix(table[name]) for name in MATRICES if name in table.column_names}
    if "certainty" in table.column_names:
        columns["certainty"] = _numbers(table["certainty"].to_numpy())
    return from_matrices(NodeIds(table["id"]), columns, facts["dissimilarity"], odds_of(facts))


def matrices(embedding: Embedding) -> dict[str, Any]:
    """The matrices an embedding has, by the names of `MATRICES`."""
    context = embedding.context or Gaussian(None, None)
    values = (embedding.mean, embedding.variance, context.mean, context.variance)
    return {name: matrix for name, matrix in zip(MATRICES, values, strict=True) if matrix is not None}


def odds_of(facts: Mapping[str, Any]) -> PlattScaling:
    """The odds among other facts; files of before they had a slope have one of 1."""
    return PlattScaling(float(facts["offset"]), float(facts.get("slope", 1.0)))


def from_matrices(ids: NodeIds, named: dict[str, Any], dissimilarity: str, odds: PlattScaling) -> Embedding:
    """Back from `matrices`, with the certainty under its name."""
    mean, variance, context_mean, context_variance = (named.get(name) for name in MATRICES)
    if mean is None:
        raise FormatError("there are no means")
    context = None if context_mean is None else Gaussian(context_mean, context_variance)
    return Embedding(ids, mean, variance, dissimilarity, odds, context, named.get("certainty"))


def _lists(matrix: Any) -> pa.Array:
    values = pa.array(np.ascontiguousarray(matrix, dtype=np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(values, matrix.shape[1])


def _matrix(column: pa.ChunkedArray) -> Any:
    if not pa.types.is_fixed_size_list(column.type) or column.null_count:
        raise FormatError("means and variances must be lists of one fixed size")
    # One chunk is used where it lies, without a copy: a mapped file stays on disk.
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    numbers = whole.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    return _numbers(numbers)


def _write_parquet(embedding: Embedding, path: Path, types: pa.StringArray | None) -> None:
    import pyarrow.parquet as pq

    table = as_table(embedding, types)
    pq.write_table(table, path, compression="zstd", use_dictionary=False, row_group_size=ROWS)


def _read_parquet(path: Path) -> Embedding:
    import pyarrow.parquet as pq

    return from_table(pq.read_table(path))


def _write_arrow(embedding: Embedding, path: Path, types: pa.StringArray | None) -> None:
    table = as_table(embedding, types)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(len(table), 1))


def _read_arrow(path: Path) -> Embedding:
    with pa.memory_map(str(path)) as source:
        return from_table(pa.ipc.open_file(source).read_all())


def _write_npz(embedding: Embedding, path: Path, types: pa.StringArray | None) -> None:
    strings = embedding.ids.are_strings
    ids = string_array(embedding.ids, "id") if strings else embedding.ids.to_numpy()
    arrays = {"ids": ids, **matrices(embedding)}
    if types is not None:  # numpy has no missing strings
        arrays["types"] = string_array((each or "" for each in types.to_pylist()), "type")
    if embedding.certainty is not None:
        arrays["certainty"] = embedding.certainty
    facts = {name: np.array(value) for name, value in embedding.odds._asdict().items()}
    facts["dissimilarity"] = np.array(embedding.dissimilarity)
    with path.open("wb") as sink:
        np.savez(sink, allow_pickle=False, **arrays, **facts)


def _read_npz(path: Path) -> Embedding:
    arrays = read_arrays(path, ("ids", *MATRICES, "certainty", "dissimilarity", "offset", "slope"))
    columns = {name: _numbers(arrays[name]) for name in (*MATRICES, "certainty") if name in arrays}
    ids = NodeIds(arrays["ids"].tolist())
    return from_matrices(ids, columns, str(arrays["dissimilarity"]), odds_of(arrays))


def _numbers(array: Any) -> Any:
    if array.dtype.kind != "f":
        raise FormatError(f"means, variances and certainties must be floating-point numbers, not {array.dtype}")
    return array.astype(np.float32, copy=False)


def _write_csv(embedding: Embedding, path: Path, types: pa.StringArray | None) -> None:
    from pyarrow import csv

    with csv.CSVWriter(path, _csv_table(embedding, slice(0, 0), types).schema) as writer:
        for part in blocks(len(embedding), ROWS):
            writer.write_table(_csv_table(embedding, part, types))


def _csv_table(embedding: Embedding, rows: slice, types: pa.StringArray | None) -> pa.Table:
    columns = {"id": embedding.ids.array[rows]}
    if types is not None:
        columns["type"] = types[rows]
    if embedding.certainty is not None:
        columns["certainty"] = pa.array(embedding.certainty[rows])
    for name, matrix in matrices(embedding).items():
        columns |= {f"{name}_{column}": pa.array(matrix[rows, column]) for column in range(matrix.shape[1])}
    return pa.table(columns)


_WRITERS = {".parquet": _write_parquet, ".arrow": _write_arrow, ".npz": _write_npz, ".csv": _write_csv}
_READERS = {".parquet": _read_parquet, ".arrow": _read_arrow, ".npz": _read_npz}
