"""Graphs in a folder, NAME.graph: plain .npy arrays that are mapped and never read whole, and a graph.json.

Nodes lie in the order of their ids, which is the order they are trained in.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.blocks import blocks, row_blocks
from glace.categories import Categories
from glace.errors import FormatError, GlaceError, InputError
from glace.features.pipeline import FeaturePipeline
from glace.features.text import TextVocabulary
from glace.graph.graph import CleaningReport, Graph, Mapped
from glace.graph.node_types import NodeAttributes, NodeType
from glace.ids import NodeIds
from glace.sparse import assembled, index_width_of
from glace.storage.container import pack_strings
from glace.storage.files import replacing_folder
from glace.storage.mapped import NpyStream, create_npy, map_npy

MARK, FORMAT, VERSION = "graph.json", "glace-graph", 1
ENDING = ".graph"
IDS = ("numbered", "integers", "strings")
STORAGE = ("none", "sparse", "dense")
FACTS = {
    "nodes": int,
    "directed": bool,
    "attributes": str,
    "width": int,
    "ids": str,
    "cleaning_report": dict,
    "fingerprint": str,
    "arrays": dict,
}

Arrays = dict[str, npt.NDArray[Any]]


def write_folder(graph: Graph, path: str | Path) -> None:
    """Write a graph, its nodes in the order of their ids, so that `read_folder` maps it."""
    ordered = replace(graph.in_id_order()[0], cleaning_report=graph.cleaning_report)
    attributes = ordered.attributes
    with writing(path) as writer:
        writer.put_matrix("adjacency", ordered.adjacency)
        if ordered.directed:
            writer.put_matrix("neighbors", ordered.neighborhoods())
        if sp.issparse(attributes):
            writer.put_matrix("attributes", attributes)
        elif attributes is not None:
            writer.put("attributes", attributes)
        writer.put_nodes(ordered)
        writer.finish(ordered.directed, ordered.num_attributes, ordered.cleaning_report)


def read_folder(path: str | Path, *, verify: bool = False) -> Graph:
    """A graph whose arrays are mapped from the files of a folder, not read.

    Every file must be there, whole, and of the kind and size that graph.json states. The indices are gone through
    once, in blocks: compiled code believes those it is given, and a damaged folder could have it read anything.
    `verify` goes through all the rest too and compares the fingerprint.
    """
    folder = Path(path)
    facts = _facts(folder)
    try:
        graph = _graph(folder, facts)
        _check_indices(graph)
        if verify and replace(graph, mapped=None).fingerprint() != graph.fingerprint():
            raise FormatError(f"the content is not that whose fingerprint {MARK} states")
    except GlaceError as problem:
        raise FormatError(f"{folder} is no usable graph folder: {problem}") from problem
    return graph


def is_folder(path: str | Path) -> bool:
    """Whether a path names a graph folder: by what is there or, if nothing is, by its ending."""
    return Path(path).is_dir() or str(path).rstrip("/").endswith(ENDING)


@contextmanager
def writing(path: str | Path) -> Iterator["FolderWriter"]:
    """What writes a graph folder, array by array; on success the folder is at `path`, else nothing changes."""
    with replacing_folder(path, MARK) as temporary:
        yield FolderWriter(temporary)


class FolderWriter:
    """The arrays of a graph folder, put there whole, in a stream or in any order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, array: npt.NDArray[Any]) -> None:
        """An array that is at hand."""
        with self.stream(name, array.dtype, array.shape[1:]) as stream:
            stream.append(array)

    def stream(self, name: str, dtype: npt.DTypeLike, columns: tuple[int, ...] = ()) -> NpyStream:
        """An array that comes piece by piece."""
        return NpyStream(self._path(name), dtype, columns)

    def create(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Create an array of zeros that can be filled in any order."""
        return create_npy(self._path(name), shape, dtype)

    def mapped(self, name: str) -> npt.NDArray[Any]:
        """An array that was written before."""
        return map_npy(self._path(name))

    def put_matrix(self, name: str, matrix: sp.csr_array) -> None:
        """The three arrays of a CSR matrix."""
        width = index_width_of(matrix.shape[1], int(matrix.nnz))
        self.put(f"{name}.indptr", matrix.indptr.astype(width, copy=False))
        self.put(f"{name}.indices", matrix.indices.astype(width, copy=False))
        self.put(f"{name}.data", matrix.data)

    def put_strings(self, name: str, texts: Any) -> None:
        """Strings, as their UTF-8 bytes and the offsets of each."""
        for part, array in pack_strings(name, texts).items():
            self.put(part.replace("/", "."), array)

    def put_nodes(self, graph: Graph) -> None:
        """Ids, labels, types, and what the attributes are called."""
        self.put_ids(graph.ids)
        for name, categories in (("labels", graph.labels), ("types", graph.node_types)):
            if categories is not None:
                self.put_categories(name, categories)
        if graph.pipeline is not None:
            for name, array in graph.pipeline.to_arrays().items():
                self.put(name.replace("/", "."), array)
        elif graph.feature_names is not None:
            self.put_strings("columns", graph.feature_names)

    def put_ids(self, ids: NodeIds) -> None:
        """Ids in ascending order; numbers from 0 on need no file."""
        if ids.are_strings:
            self.put_strings("ids", ids.array)
        elif len(ids) and (ids[0], ids[len(ids) - 1]) != (0, len(ids) - 1):  # ascending: all others follow
            self.put("ids", ids.to_numpy())

    def put_categories(self, name: str, categories: Categories) -> None:
        """The category of each node, and what they are called."""
        self.put(name, categories.codes)
        self.put_strings(f"{name}.names", categories.names)

    def finish(self, directed: bool, width: int, cleaning_report: CleaningReport) -> None:
        """Write graph.json, with the fingerprint of what was written."""
        arrays = {path.stem: map_npy(path) for path in sorted(self.folder.glob("*.npy"))}
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "nodes": len(arrays["adjacency.indptr"]) - 1,
            "directed": directed,
            "attributes": _storage_of(arrays),
            "width": width,
            "ids": _kind_of_ids(arrays),
            "cleaning_report": asdict(cleaning_report),
            "fingerprint": "",
            "arrays": {name: [array.dtype.str, *array.shape] for name, array in arrays.items()},
        }
        facts["fingerprint"] = _graph(self.folder, facts).fingerprint()
        text = json.dumps(facts, indent=1, ensure_ascii=False)
        (self.folder / MARK).write_text(text + "\n", encoding="utf-8")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"


def _storage_of(arrays: Arrays) -> str:
    if "attributes" in arrays:
        return "dense"
    return "sparse" if "attributes.indptr" in arrays else "none"


def _kind_of_ids(arrays: Arrays) -> str:
    if "ids" in arrays:
        return "integers"
    return "strings" if "ids.bytes" in arrays else "numbered"


def _facts(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; wanted a graph that `glace convert` wrote")
    try:
        facts = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise InputError(f"{folder} is a folder, but no graph: wanted a {MARK} in it") from problem
    except (OSError, ValueError, RecursionError) as problem:
        raise FormatError(f"{folder / MARK} cannot be read: {problem}") from problem
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise FormatError(f"{folder / MARK} does not describe a graph; wanted one that `glace convert` wrote")
    if facts.get("version") != VERSION:
        raise FormatError(
            f"{folder} has format version {facts.get('version')}, but this glace reads version {VERSION}; "
            "use the version of glace that wrote it, or convert it again"
        )
    for name, kind in FACTS.items():
        if type(facts.get(name)) is not kind:
            raise FormatError(f"{folder / MARK} lacks {name}, or it is no {kind.__name__}; convert it again")
    return facts


class _Stored:
    """The arrays of a folder, each mapped when asked for and compared with what graph.json states."""

    def __init__(self, folder: Path, stated: dict[str, Any]) -> None:
        self.folder, self.stated = folder, stated

    def __contains__(self, name: str) -> bool:
        return name in self.stated

    def array(self, name: str, shape: tuple[int | None, ...], kinds: tuple[str, ...]) -> npt.NDArray[Any]:
        """An array of this shape (None: any number) and one of these types."""
        if name not in self.stated:
            raise FormatError(f"{MARK} names no array {name}")
        array = map_npy(self.folder / f"{name}.npy")
        if [array.dtype.str, *array.shape] != self.stated[name]:
            raise FormatError(f"{name}.npy is {array.dtype.str} of {array.shape}, not what {MARK} states")
        fits = array.ndim == len(shape) and all(
            wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype.str not in kinds or not array.flags.c_contiguous:
            raise FormatError(f"{name}.npy is {array.dtype.str} of {array.shape}; wanted {kinds[0]} of {shape}")
        return array

    def matrix(self, name: str, rows: int, columns: int) -> sp.csr_array:
        """A CSR matrix of this shape."""
        indptr = self.array(f"{name}.indptr", (rows + 1,), ("<i4", "<i8"))
        indices = self.array(f"{name}.indices", (None,), (indptr.dtype.str,))
        data = self.array(f"{name}.data", (len(indices),), ("<f4",))
        if indptr[0] != 0 or indptr[-1] != len(indices):
            raise FormatError(f"{name}.indptr.npy must go from 0 to {len(indices):,}, the number of entries")
        return assembled((rows, columns), indptr, indices, data)

    def strings(self, name: str, count: int | None) -> pa.Array:
        """Strings, as many as stated."""
        offsets = self.array(f"{name}.offsets", (None if count is None else count + 1,), ("<i8",))
        letters = self.array(f"{name}.bytes", (None,), ("|u1",))
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(letters):
            raise FormatError(f"{name}.offsets.npy must go from 0 to {len(letters):,}, the number of bytes")
        if not _ascends(offsets):
            raise FormatError(f"{name}.offsets.npy must never descend")
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
        return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)

    def categories(self, name: str, count: int) -> Categories | None:
        """The categories of all nodes, where there."""
        if name not in self:
            return None
        codes = self.array(name, (count,), ("<i4",))
        return Categories(codes, tuple(self.strings(f"{name}.names", None).to_pylist()))

    def ids(self, kind: str, count: int) -> NodeIds:
        """The ids, which must ascend."""
        if kind not in IDS:
            raise FormatError(f"{MARK} has ids that are {kind!r}; wanted one of {', '.join(IDS)}")
        if kind == "numbered":
            return NodeIds.numbered(count)
        ids = NodeIds(
            self.strings("ids", count) if kind == "strings" else pa.array(self.array("ids", (count,), ("<i8",)))
        )
        if not ids.ascend():
            raise FormatError("the ids do not ascend")
        return ids


def _graph(folder: Path, facts: dict[str, Any]) -> Graph:
    stored, count = _Stored(folder, facts["arrays"]), facts["nodes"]
    if count < 1 or facts["attributes"] not in STORAGE:
        raise FormatError(
            f"{MARK} states {count:,} nodes and attributes that are {facts['attributes']!r}; "
            f"wanted at least 1, and one of {', '.join(STORAGE)}"
        )
    neighbors = stored.matrix("neighbors", count, count) if facts["directed"] else None
    adjacency = stored.matrix("adjacency", count, count)
    only = NodeType(
        "",
        count,
        _attributes(stored, facts["attributes"], count, facts["width"]),
        tuple(stored.strings("columns", facts["width"]).to_pylist()) if "columns.bytes" in stored else None,
        _recipe(stored, facts["width"]),
    )
    return Graph(
        adjacency,
        NodeAttributes((only,)),
        stored.ids(facts["ids"], count),
        facts["directed"],
        stored.categories("labels", count),
        stored.categories("types", count),
        _findings(facts["cleaning_report"]),
        Mapped(facts["fingerprint"], neighbors),
    )


def _attributes(stored: _Stored, storage: str, count: int, width: int) -> Any:
    if storage == "none":
        return None
    if storage == "dense":
        return stored.array("attributes", (count, width), ("<f4",))
    return stored.matrix("attributes", count, width)


def _recipe(stored: _Stored, width: int) -> FeaturePipeline | None:
    if "pipeline" in stored:
        return FeaturePipeline.from_bytes(stored.array("pipeline", (None,), ("|u1",)), width)
    if "idf" not in stored:
        return None
    idf = stored.array("idf", (width,), ("<f8",))
    words = tuple(stored.strings("words", width).to_pylist())
    return FeaturePipeline.of_texts(TextVocabulary(words, np.array(idf)))


def _findings(counts: dict[str, Any]) -> CleaningReport:
    try:
        return CleaningReport(**counts)
    except TypeError as problem:
        raise FormatError(f"{MARK} has other cleaning_report than this glace knows: {problem}") from problem


def _check_indices(graph: Graph) -> None:
    """Raise unless all indices lie inside their matrix."""
    matrices = {
        "adjacency": graph.adjacency,
        "neighbors": graph.neighborhoods(),
        "attributes": graph.attributes,
    }
    for name, matrix in matrices.items():
        if sp.issparse(matrix) and not _lies_inside(matrix):
            raise FormatError(f"{name} has indices outside of it, or out of order")


def _ascends(offsets: npt.NDArray[Any]) -> bool:
    steps = (np.diff(offsets[part.start : part.stop + 1]) for part in blocks(len(offsets) - 1))
    return all((step >= 0).all() for step in steps)


def _lies_inside(matrix: sp.csr_array) -> bool:
    return _ascends(matrix.indptr) and all(
        len(part) == 0 or (part.min() >= 0 and part.max() < matrix.shape[1]) for part in row_blocks(matrix.indices)
    )


def size_of(path: str | Path) -> int:
    """Bytes of all files of a folder."""
    return sum(entry.stat().st_size for entry in os.scandir(path))
