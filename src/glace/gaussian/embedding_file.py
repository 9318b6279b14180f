"""Embeddings as files: Parquet and npz to exchange, Arrow to map into memory, CSV for other programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import SupportsFloat

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from glace.blocks import blocks
from glace.errors import FormatError, GlaceError, InputError
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import FORMAT_VERSION, MATRICES, METADATA, SHARES, Embedding, PlattScaling
from glace.ids import NodeIds
from glace.storage.archive import read_arrays, string_array
from glace.storage.files import existing, replacing

ROWS = 1 << 16
"""Rows written at a time, so that an embedding can be larger than memory."""


READABLE = (".parquet", ".arrow", ".npz")
"""Endings of the files that `read_embedding` reads."""
Matrix = npt.NDArray[np.float32]


def write_embedding(
    embedding: Embedding, path: str | Path, types: Iterable[str | None] | pa.StringArray | None = None
) -> None:
    """Write an embedding to a file whose name ends in .parquet, .arrow, .npz or .csv.

    Parameters
    ----------
    embedding : Embedding
        The embedding to write.
    path : str or Path
        The file; its ending selects the format. A file that exists is replaced.
    types : iterable of str or None, optional
        Node types, written beside the ids for other programs; `glace.load_embedding` ignores them.

    Raises
    ------
    InputError
        If the ending is unknown, the file cannot be written, or the types do not fit the nodes.

    Examples
    --------
    >>> import glace, tempfile
    >>> graph = glace.datasets.planted(200, communities=4, attributes=80, words=8)
    >>> embedding = glace.train(graph, {"dim": 8, "hidden": 32, "max_steps": 5}).embedding
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     glace.write_embedding(embedding, f"{folder}/nodes.parquet")
    ...     glace.load_embedding(f"{folder}/nodes.parquet")
    Embedding(200 Gaussians with 8 dimensions, symmetric_kl)
    """
    check_ending(path)
    checked = _checked_types(types, len(embedding))
    with replacing(path) as temporary:
        _WRITERS[Path(path).suffix](embedding, temporary, checked)


def _checked_types(types: Iterable[str | None] | pa.StringArray | None, count: int) -> pa.StringArray | None:
    if types is None:
        return None
    try:
        checked = types if isinstance(types, pa.StringArray) else pa.array(list(types), pa.string())
    except (pa.ArrowException, TypeError) as problem:
        raise InputError(f"types must be strings or None, one per node: {problem}") from problem
    if len(checked) != count:
        raise InputError(f"{len(checked):,} types for {count:,} nodes; give one for each node")
    return checked


def read_embedding(path: str | Path) -> Embedding:
    """Read an embedding from a .parquet, .arrow (mapped into memory, not loaded) or .npz file.

    Parameters
    ----------
    path : str or Path
        A file written by `write_embedding`.

    Returns
    -------
    Embedding
        The embedding, without node types.

    Raises
    ------
    FormatError
        If the file is damaged or is not an embedding.
    """
    check_ending(path, READABLE, "read")
    source = existing(path, "an embedding file")
    try:
        if source.suffix == ".npz":
            return _read_npz(source)
        return from_table(_read_parquet(source) if source.suffix == ".parquet" else _read_arrow(source))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as problem:
        detail = str(problem) if isinstance(problem, GlaceError) else "not an embedding written by glace, or damaged"
        raise FormatError(f"cannot read {path}: {detail}") from problem


def check_ending(path: str | Path, endings: Sequence[str] = (*READABLE, ".csv"), verb: str = "written") -> None:
    """Raise unless the name ends in a format that can be written, or read."""
    if Path(path).suffix not in endings:
        raise InputError(f"an embedding cannot be {verb} as {str(path)!r}; the name must end in {', '.join(endings)}")


def from_table(table: pa.Table) -> Embedding:
    """The embedding of a table that `Embedding.to_arrow` made."""
    facts = json.loads((table.schema.metadata or {})[METADATA])
    if facts["format_version"] != FORMAT_VERSION:
        raise FormatError(f"format version {facts['format_version']}, but this glace reads version {FORMAT_VERSION}")
    columns = {name: _matrix(table[name]) for name in MATRICES if name in table.column_names}
    columns |= {name: _numbers(table[name].to_numpy()) for name in SHARES if name in table.column_names}
    novel = table["novel"].to_numpy() if "novel" in table.column_names else None
    return from_matrices(NodeIds(table["id"]), columns, facts["dissimilarity"], platt_scaling_from(facts), novel)


def platt_scaling_from(facts: Mapping[str, SupportsFloat]) -> PlattScaling:
    """The calibration in the metadata of a file."""
    return PlattScaling(float(facts["offset"]), float(facts["slope"]))


def from_matrices(
    ids: NodeIds,
    named: Mapping[str, Matrix],
    dissimilarity: str,
    platt_scaling: PlattScaling,
    novel: npt.NDArray[np.bool_] | None = None,
) -> Embedding:
    """The embedding of these matrices, named as in `MATRICES`, and of the columns in `SHARES` that are there."""
    mean, variance, context_mean, context_variance = (named.get(name) for name in MATRICES)
    if mean is None:
        raise FormatError("the means are missing")
    context = None if context_mean is None else Gaussian(context_mean, context_variance)
    error, certainty = (named.get(name) for name in SHARES)
    return Embedding(ids, mean, variance, dissimilarity, platt_scaling, context, error, certainty, novel)


def _matrix(column: pa.ChunkedArray) -> Matrix:
    if not pa.types.is_fixed_size_list(column.type) or column.null_count:
        raise FormatError("means and variances must be lists of one fixed size")
    # One chunk is used where it lies, without a copy: a mapped file stays on disk.
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    numbers = whole.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    return _numbers(numbers)


def _write_parquet(embedding: Embedding, path: Path, types: pa.StringArray | None) -> None:
    import pyarrow.parquet as pq

    table = embedding.to_arrow(types)
    pq.write_table(table, path, compression="zstd", use_dictionary=False, row_group_size=ROWS)


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(path)


def _write_arrow(embedding: Embedding, path: Path, types: pa.StringArray | None) -> None:
    table = embedding.to_arrow(types)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(len(table), 1))


def _read_arrow(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def _write_npz(embedding: Embedding, path: Path, types: pa.StringArray | None) -> None:
    strings = embedding.ids.are_strings
    ids = string_array(embedding.ids, "id") if strings else embedding.ids.to_numpy()
    arrays = {"ids": ids, **embedding.matrices(), **embedding.shares()}
    if types is not None:  # numpy has no missing strings
        arrays["types"] = string_array((each or "" for each in types.to_pylist()), "type")
    if embedding.novel is not None:
        arrays["novel"] = embedding.novel
    facts = {"dissimilarity": embedding.dissimilarity, **embedding.platt_scaling._asdict()}
    with path.open("wb") as sink:
        np.savez(sink, allow_pickle=False, **arrays, **{name: np.array(value) for name, value in facts.items()})


def _read_npz(path: Path) -> Embedding:
    arrays = read_arrays(path, ("ids", *MATRICES, *SHARES, "novel", "dissimilarity", "offset", "slope"))
    columns = {name: _numbers(arrays[name]) for name in (*MATRICES, *SHARES) if name in arrays}
    ids = NodeIds(arrays["ids"].tolist())
    return from_matrices(ids, columns, str(arrays["dissimilarity"]), platt_scaling_from(arrays), arrays.get("novel"))


def _numbers(array: npt.NDArray[np.generic]) -> Matrix:
    if array.dtype.kind != "f":
        raise FormatError(f"means, variances, errors and certainties must be floating-point numbers, not {array.dtype}")
    return array.astype(np.float32, copy=False)


def _write_csv(embedding: Embedding, path: Path, types: pa.StringArray | None) -> None:
    from pyarrow import csv

    with csv.CSVWriter(path, embedding.flat_table(slice(0, 0), types).schema) as writer:
        for part in blocks(len(embedding), ROWS):
            writer.write_table(embedding.flat_table(part, types))


_WRITERS = {".parquet": _write_parquet, ".arrow": _write_arrow, ".npz": _write_npz, ".csv": _write_csv}
