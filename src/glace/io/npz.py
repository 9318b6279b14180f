"""Graphs in one .npz file, in the layout of the published Graph2Gauss files; no pickle is ever loaded.

A file is untrusted: every array is checked before use, see also `glace.storage.archive`.
"""

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import FormatError, InputError
from glace.features.pipeline import FeaturePipeline
from glace.features.text import TextVocabulary
from glace.graph.arrays import edges_of
from glace.graph.graph import Graph, build
from glace.graph.node_types import NodeType
from glace.ids import NodeIds
from glace.sparse import index_width
from glace.storage.archive import MAX_BYTES, read_arrays, string_array
from glace.storage.files import existing, replacing

MAX_COLUMNS = 2**31 - 1

# The kinds of number (numpy's letters) each member may hold.
NUMBERS = {
    **{f"{matrix}_data": "biuf" for matrix in ("adj", "attr")},
    **{f"{matrix}_{part}": "iu" for matrix in ("adj", "attr") for part in ("indices", "indptr", "shape")},
    **{"labels": "iu", "types": "iu", "ids": "iu", "vocabulary_idf": "f", "pipeline": "u"},
}
# Names are a convenience: published files hold some of them pickled, and those are left out.
NAMES = ("node_names", "attr_names", "label_names", "type_names", "vocabulary_words")

Arrays = dict[str, npt.NDArray[Any]]

_log = logging.getLogger("glace")


def read_npz(path: str | Path, *, directed: bool = False, max_bytes: int = MAX_BYTES) -> Graph:
    """A graph from a Graph2Gauss file: adj_*, and where there attr_*, labels, label_names, node_names.

    The adjacency's data are the weights, a negative label is none. The file does not say whether its
    edges have a direction: `directed` does. Attributes stored with every zero come back dense. Names of
    nodes or attributes that are repeated, or not one for each, are logged and not used. A file that
    unpacks to more than `max_bytes` and to 50 times its size is refused.
    """
    source = existing(path, "a graph in an .npz file")
    members = read_arrays(source, {*NUMBERS, *NAMES}, may_be_pickled=NAMES, max_bytes=max_bytes)
    try:
        return _graph(_checked(members), directed, source.name)
    except (InputError, FormatError) as problem:
        raise FormatError(f"{source.name}: {problem}") from problem


def write_npz(graph: Graph, path: str | Path) -> None:
    """Write a graph so that `read_npz`, told its direction, gives it back; the same graph, the same bytes."""
    members = _adjacency_members(graph) | _attribute_members(graph) | _name_members(graph)
    with replacing(path) as temporary, temporary.open("wb") as opened:
        np.savez_compressed(opened, allow_pickle=False, **members)


def _checked(members: Arrays) -> Arrays:
    """The members in native types; names that are not one-dimensional arrays of strings are left out."""
    names = {name: array for name, array in members.items() if name in NAMES}
    texts = {name: array for name, array in names.items() if array.dtype.kind == "U" and array.ndim == 1}
    return texts | {name: _checked_numbers(name, array) for name, array in members.items() if name in NUMBERS}


def _checked_numbers(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind not in NUMBERS[name]:
        raise FormatError(f"{name} holds {array.dtype}, not numbers of the kind wanted")
    if array.ndim != 1:
        raise FormatError(f"{name} has the shape {array.shape}; wanted one dimension")
    return _native(array)


def _native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """In this machine's byte order and, for scipy, no float but 32 or 64 bits wide."""
    if array.dtype.kind != "f":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    with np.errstate(over="ignore"):
        return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64, copy=False)


def _graph(members: Arrays, directed: bool, source: str) -> Graph:
    adjacency = _csr(members, "adj")
    count = adjacency.shape[0]
    if adjacency.shape != (count, count):
        raise FormatError(f"adj_shape is {adjacency.shape}; wanted a square adjacency")
    attributes = _csr(members, "attr") if _has_attributes(members) else None
    pipeline = _recipe(members, attributes)
    names = _attribute_names(members, attributes, source) if pipeline is None else None
    pairs, weights = edges_of(adjacency)
    return build(
        pairs.astype(np.int64),
        weights if weights.dtype.kind == "f" else weights.astype(np.float64),
        _ids(members, count, source),
        [NodeType("", count, _dense_if_full(attributes), names, pipeline)],
        directed=directed,
        labels=_categories(members, "labels", "label_names", count),
        node_types=_categories(members, "types", "type_names", count),
    )


def _has_attributes(members: Arrays) -> bool:
    return any(name.startswith("attr_") and name != "attr_names" for name in members)


def _csr(members: Arrays, matrix: str) -> sp.csr_array:
    parts = [f"{matrix}_{part}" for part in ("data", "indices", "indptr", "shape")]
    absent = [name for name in parts if name not in members]
    if absent:
        raise FormatError(f"no member {', '.join(absent)}; wanted a graph in the Graph2Gauss layout")
    data, indices, indptr, shape = (members[name] for name in parts)
    if len(shape) != 2 or (shape < 0).any():
        raise FormatError(f"{matrix}_shape is {shape.tolist()[:5]}; wanted two numbers of at least 0")
    rows, columns = (int(side) for side in shape)
    if columns > MAX_COLUMNS:
        raise FormatError(f"{matrix}_shape has {columns:,} columns; wanted at most {MAX_COLUMNS:,}")
    _check_csr(matrix, data, indices, indptr, rows, columns)
    return sp.csr_array((data, indices.astype(np.int64), indptr.astype(np.int64)), shape=(rows, columns))


def _check_csr(matrix: str, data: Any, indices: Any, indptr: Any, rows: int, columns: int) -> None:
    if len(data) != len(indices):
        raise FormatError(f"{matrix}_data has {len(data):,} numbers and {matrix}_indices {len(indices):,}")
    if len(indptr) != rows + 1:
        raise FormatError(f"{matrix}_indptr has {len(indptr):,} numbers; wanted {rows + 1:,}, one more than rows")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise FormatError(f"{matrix}_indptr must ascend from 0 to {len(indices):,}, the number of entries")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        raise FormatError(f"{matrix}_indices must be between 0 and {columns - 1:,}")


def _dense_if_full(attributes: sp.csr_array | None) -> Any:
    # No larger than what was read, so a small file cannot ask for a huge dense matrix.
    if attributes is not None and attributes.nnz == math.prod(attributes.shape) and attributes.has_canonical_format:
        return attributes.toarray()
    return attributes


def _names(members: Arrays, member: str, count: int, source: str, instead: str) -> list[str] | None:
    """The names of a member that holds them; None, and one line in the log, if they cannot tell things apart."""
    if member not in members:
        return None
    names: list[str] = members[member].tolist()
    if len(names) != count:
        _log.warning("%s: %s has %d names for %d; %s", source, member, len(names), count, instead)
        return None
    distinct = len(set(names))
    if distinct != count:
        _log.warning("%s: %s has %d names, %d distinct; %s", source, member, count, distinct, instead)
        return None
    return names


def _attribute_names(members: Arrays, attributes: sp.csr_array | None, source: str) -> tuple[str, ...] | None:
    if attributes is None:
        return None
    names = _names(members, "attr_names", attributes.shape[1], source, "attributes have no names")
    return None if names is None else tuple(names)


def _ids(members: Arrays, count: int, source: str) -> NodeIds:
    names = _names(members, "node_names", count, source, "nodes are called by number")
    if names is not None:
        return NodeIds(names)
    if "ids" not in members:
        return NodeIds.numbered(count)
    if len(members["ids"]) != count:
        raise FormatError(f"ids has {len(members['ids']):,} numbers for {count:,} nodes")
    return NodeIds(members["ids"])


def _categories(members: Arrays, values: str, names: str, count: int) -> Categories | None:
    if values not in members:
        return None
    codes = members[values]
    if len(codes) != count:
        raise FormatError(f"{values} has {len(codes):,} numbers for {count:,} nodes; wanted one for each")
    if names not in members:
        distinct, places = np.unique(codes, return_inverse=True)
        negative = int((distinct < 0).sum())
        texts = tuple(str(code) for code in distinct[negative:].tolist())
        return Categories(np.maximum(places - negative, -1).astype(np.int32), texts)
    known = tuple(members[names].tolist())
    if len(set(known)) != len(known) or codes.max(initial=-1) >= len(known):
        raise FormatError(f"{names} has {len(known):,} names; wanted distinct ones for 0 to {codes.max(initial=-1)}")
    return Categories(np.where(codes < 0, -1, codes).astype(np.int32), known)


def _recipe(members: Arrays, attributes: sp.csr_array | None) -> FeaturePipeline | None:
    if "pipeline" in members:
        return FeaturePipeline.from_bytes(members["pipeline"], 0 if attributes is None else attributes.shape[1])
    words, idf = members.get("vocabulary_words"), members.get("vocabulary_idf")
    if words is None or idf is None:
        return None
    if attributes is None or attributes.shape[1] != len(words) or not np.isfinite(idf).all():
        raise FormatError(f"vocabulary_words has {len(words):,} words; wanted one, with a finite idf, an attribute")
    return FeaturePipeline.of_texts(TextVocabulary(tuple(words.tolist()), idf.astype(np.float64)))


def _adjacency_members(graph: Graph) -> Arrays:
    pairs, weights = graph.edges_and_weights()
    shape = (graph.num_nodes, graph.num_nodes)
    return _matrix_members("adj", sp.csr_array((weights, (pairs[:, 0], pairs[:, 1])), shape=shape))


def _attribute_members(graph: Graph) -> Arrays:
    attributes = graph.attributes
    if attributes is None:
        return {}
    if sp.issparse(attributes):
        return _matrix_members("attr", attributes)
    rows, columns = attributes.shape
    # Zeros are stored too: that is how read_npz knows a dense matrix, and other readers need not care.
    indices, indptr = np.tile(np.arange(columns), rows), np.arange(rows + 1) * columns
    return _matrix_members("attr", sp.csr_array((attributes.ravel(), indices, indptr), shape=(rows, columns)))


def _matrix_members(name: str, matrix: sp.csr_array) -> Arrays:
    # One width of index for one size of matrix, whatever scipy chose: the bytes depend on the graph alone.
    width = index_width(matrix)
    return {
        f"{name}_data": matrix.data,
        f"{name}_indices": matrix.indices.astype(width),
        f"{name}_indptr": matrix.indptr.astype(width),
        f"{name}_shape": np.array(matrix.shape, dtype=np.int64),
    }


def _name_members(graph: Graph) -> Arrays:
    members: Arrays = {}
    if graph.ids.are_strings:
        members["node_names"] = string_array(graph.ids, "id")
    elif graph.ids != NodeIds.numbered(graph.num_nodes):
        members["ids"] = graph.ids.to_numpy()
    if graph.labels is not None:
        members |= {"labels": graph.labels.codes, "label_names": string_array(graph.labels.names, "label")}
    if graph.node_types is not None:
        members |= {
            "types": graph.node_types.codes,
            "type_names": string_array(graph.node_types.names, "type"),
        }
    if graph.pipeline is not None:
        return members | _recipe_members(graph.pipeline)
    if graph.feature_names is not None:
        members["attr_names"] = string_array(graph.feature_names, "attribute")
    return members


def _recipe_members(pipeline: FeaturePipeline) -> Arrays:
    arrays = pipeline.to_arrays()
    if "pipeline" in arrays:
        return arrays
    assert pipeline.vocabulary is not None
    words = string_array(pipeline.vocabulary.words, "word")
    return {"vocabulary_words": words, "vocabulary_idf": pipeline.vocabulary.idf}
