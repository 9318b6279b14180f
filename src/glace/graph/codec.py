"""A graph as named arrays and JSON metadata, and back: what graph folders and model files store.

    adjacency/indptr, adjacency/indices, adjacency/data     CSR; both directions of an undirected edge
    neighbors/indptr, ...                                   CSR of `Graph.neighborhoods`, only if asked for
    ids  or  ids/bytes, ids/offsets                         integers or strings; absent if ids are 0 to n - 1
    labels/codes, labels/names/bytes, labels/names/offsets  likewise node_types/...
    types/0/attributes  or  types/0/attributes/indptr, ...  dense or CSR, one per node type with attributes
    types/0/feature_names/bytes, .../offsets                names of its columns, if known
    types/0/pipeline                                        `FeaturePipeline.to_bytes`, if it has one

Metadata: {"nodes": n, "directed": bool, "types": [{"name", "count", "width" (null without attributes), "sparse",
"scaling"}]}.
Arrays may be mapped from files: `decode` never copies them and reads them in blocks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.blocks import blocks, row_blocks
from glace.categories import Categories
from glace.errors import FormatError
from glace.features.pipeline import FeaturePipeline
from glace.graph.graph import Graph, Mapped, NodeAttributes, NodeType
from glace.ids import NodeIds
from glace.sparse import Matrix, assembled, bad_weights, entry_blocks, index_width
from glace.storage.container import Arrays, pack_strings, unpack_strings
from glace.storage.mapped import release
from glace.values import SCALINGS

JSON = dict[str, object]


def encode(graph: Graph, *, ids: bool = True, neighbors: bool = False) -> tuple[JSON, Arrays]:
    """Return metadata and arrays of a graph.

    Parameters
    ----------
    graph
        The graph to store.
    ids
        Whether to include the ids; without, `decode` needs them.
    neighbors
        Whether to include `Graph.neighborhoods`, which a mapped directed graph cannot compute in memory.
    """
    arrays = encode_matrix("adjacency", graph.adjacency)
    if neighbors and graph.directed:
        arrays |= encode_matrix("neighbors", graph.neighborhoods())
    if ids:
        arrays |= encode_ids(graph.ids)
    for name, categories in (("labels", graph.labels), ("node_types", graph.node_types)):
        if categories is not None:
            arrays |= {f"{name}/codes": categories.codes, **pack_strings(f"{name}/names", categories.names)}
    for place, column in enumerate(graph.node_columns.values()):
        arrays |= pack_strings(f"columns/{place}", column)
    types, of_types = encode_types(graph.by_type().types)
    facts: JSON = {"nodes": graph.num_nodes, "directed": graph.directed, "types": types}
    return facts | ({"columns": list(graph.node_columns)} if graph.node_columns else {}), arrays | of_types


def decode(
    metadata: Mapping[str, object], arrays: Arrays, *, ids: NodeIds | None = None, mapped: bool = False
) -> Graph:
    """Return the graph that `encode` stored; FormatError if metadata and arrays do not fit together.

    Indices are checked because compiled code reads wherever they point, weights because training needs them finite
    and above 0; attribute values are not read.

    Parameters
    ----------
    metadata, arrays
        What `encode` returned; other entries are ignored.
    ids
        The ids, if they are stored elsewhere.
    mapped
        Whether the arrays are mapped from files, so that the graph must be processed in blocks.
    """
    count, directed = metadata.get("nodes"), metadata.get("directed")
    if not isinstance(count, int) or count < 1 or not isinstance(directed, bool):
        raise FormatError(f"a graph needs at least 1 node and true or false for directed, not {count!r}, {directed!r}")
    adjacency = decode_matrix("adjacency", arrays, (count, count))
    if any(bad_weights(block).any() for block in row_blocks(adjacency.data)):
        raise FormatError("edge weights must be finite and above 0")
    release(adjacency.data)
    neighbors = None
    if mapped and directed:
        neighbors = decode_matrix("neighbors", arrays, (count, count))
    labels, node_types = (_categories(name, count, arrays) for name in ("labels", "node_types"))
    types = decode_types(metadata.get("types"), arrays)
    return Graph(
        adjacency,
        _attributes(types, node_types, count),
        decode_ids(arrays, count) if ids is None else ids,
        directed,
        labels,
        node_types,
        mapped=Mapped(neighbors=neighbors) if mapped else None,
        node_columns=_columns(metadata.get("columns", []), count, arrays),
    )


def _columns(names: object, count: int, arrays: Arrays) -> dict[str, pa.Array]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise FormatError("the columns must be a list of distinct names")
    columns = {name: unpack_strings(f"columns/{place}", arrays) for place, name in enumerate(names)}
    for name, column in columns.items():
        if len(column) != count:
            raise FormatError(f"column {name!r} has {len(column):,} values for {count:,} nodes")
    return columns


def encode_types(types: Sequence[NodeType], *, rows: bool = True) -> tuple[list[JSON], Arrays]:
    """Return metadata and arrays of node types; without `rows` only their schema."""
    stated: list[JSON] = []
    arrays: Arrays = {}
    for code, each in enumerate(types):
        facts: JSON = {"name": each.name, "count": each.count, "width": each.width, "sparse": each.sparse}
        stated.append({**facts, "scaling": each.scaling})
        if rows and each.attributes is not None:
            arrays |= encode_matrix(f"types/{code}/attributes", each.attributes)
        if each.feature_names is not None:
            arrays |= pack_strings(f"types/{code}/feature_names", each.feature_names)
        if each.pipeline is not None:
            arrays[f"types/{code}/pipeline"] = each.pipeline.to_bytes()
    return stated, arrays


def decode_types(stated: object, arrays: Arrays, *, rows: bool = True) -> tuple[NodeType, ...]:
    """Return the node types that `encode_types` stored."""
    if not isinstance(stated, list):
        raise FormatError("the node types must be a list")
    return tuple(_type(each, code, arrays, rows) for code, each in enumerate(stated))


def _type(stated: object, code: int, arrays: Arrays, rows: bool) -> NodeType:
    if not isinstance(stated, dict):
        raise FormatError(f"node type {code} must be an object with name, count, width, sparse and scaling")
    name, count, width, sparse, scaling = (stated.get(key) for key in ("name", "count", "width", "sparse", "scaling"))
    if not isinstance(name, str) or not isinstance(count, int) or count < 0:
        raise FormatError(f"node type {code} needs a name and a count, not {name!r}, {count!r}")
    if width is None:
        return NodeType(name, count)
    if not isinstance(width, int) or width < 1 or not isinstance(sparse, bool):
        raise FormatError(f"node type {code} needs a width of at least 1 and true or false for sparse")
    if scaling not in SCALINGS:
        raise FormatError(f"node type {code} needs a scaling, one of {', '.join(SCALINGS)}, not {scaling!r}")
    shape, prefix = (count if rows else 0, width), f"types/{code}"
    matrix: Matrix
    if not rows:
        matrix = sp.csr_array(shape, dtype=np.float32) if sparse else np.empty(shape, np.float32)
    elif sparse:
        matrix = decode_matrix(f"{prefix}/attributes", arrays, shape)
    else:
        matrix = _array(f"{prefix}/attributes", arrays, shape, np.float32)
    names = None
    if f"{prefix}/feature_names/bytes" in arrays:
        names = tuple(unpack_strings(f"{prefix}/feature_names", arrays).to_pylist())
        if len(names) != width:
            raise FormatError(f"{prefix}/feature_names has {len(names):,} names for {width:,} attributes")
    stored = arrays.get(f"{prefix}/pipeline")
    pipeline = None if stored is None else FeaturePipeline.from_bytes(stored, width)
    return NodeType(name, count, matrix, names, pipeline, scaling)


def _attributes(types: tuple[NodeType, ...], node_types: Categories | None, count: int) -> NodeAttributes:
    codes = None if len(types) == 1 else np.empty(0, np.int32) if node_types is None else node_types.codes
    found = [count] if codes is None else np.bincount(codes + 1, minlength=len(types) + 1).tolist()[1:]
    stated = [each.count for each in types]
    if found != stated or sum(found) != count:
        raise FormatError(f"the metadata states {stated} nodes of each type, but there are {found}")
    return NodeAttributes(types, codes)


def encode_matrix(name: str, matrix: Matrix) -> Arrays:
    """Return the array of a dense matrix, or the three of a sparse one."""
    if isinstance(matrix, np.ndarray):
        return {name: matrix}
    width = index_width(matrix)
    return {
        f"{name}/indptr": matrix.indptr.astype(width, copy=False),
        f"{name}/indices": matrix.indices.astype(width, copy=False),
        f"{name}/data": matrix.data,
    }


def decode_matrix(name: str, arrays: Arrays, shape: tuple[int, int]) -> sp.csr_array:
    """Return the CSR matrix of three arrays, its indices checked in blocks to be sorted and inside the matrix."""
    indptr = _array(f"{name}/indptr", arrays, (shape[0] + 1,), np.int32, np.int64)
    indices = _array(f"{name}/indices", arrays, (None,), indptr.dtype.type)
    data = _array(f"{name}/data", arrays, (len(indices),), np.float32)
    steps = (np.diff(indptr[part.start : part.stop + 1]) for part in blocks(shape[0]))
    if indptr[0] != 0 or indptr[-1] != len(indices) or any((step < 0).any() for step in steps):
        raise FormatError(f"{name}/indptr must ascend from 0 to {len(indices):,}, the number of entries")
    matrix = assembled(shape, indptr, indices, data)
    for rows in entry_blocks(matrix):
        starts = indptr[rows.start : rows.stop + 1].astype(np.int64)
        columns = indices[starts[0] : starts[-1]]
        if len(columns) and (columns.min() < 0 or columns.max() >= shape[1]):
            raise FormatError(f"{name}/indices must be from 0 to {shape[1] - 1:,}")
        ascends = columns[1:] > columns[:-1]
        boundaries = starts[1:-1] - starts[0] - 1
        ascends[boundaries[(boundaries >= 0) & (boundaries < len(ascends))]] = True
        if not ascends.all():
            raise FormatError(f"{name}/indices must ascend in each row")
    release(indices)
    return matrix


def encode_ids(ids: NodeIds) -> Arrays:
    """Return the arrays of ids; none if they are 0 to n - 1."""
    if ids.are_strings:
        return pack_strings("ids", ids.array)
    return {} if ids == NodeIds.numbered(len(ids)) else {"ids": ids.to_numpy()}


def decode_ids(arrays: Arrays, count: int) -> NodeIds:
    """Return the ids that `encode_ids` stored."""
    if "ids/bytes" in arrays:
        ids = NodeIds(unpack_strings("ids", arrays))
    elif "ids" in arrays:
        ids = NodeIds(_array("ids", arrays, (count,), np.int64))
    else:
        ids = NodeIds.numbered(count)
    if len(ids) != count:
        raise FormatError(f"{len(ids):,} ids for {count:,} nodes")
    return ids


def _categories(name: str, count: int, arrays: Arrays) -> Categories | None:
    if f"{name}/codes" not in arrays:
        return None
    codes = _array(f"{name}/codes", arrays, (count,), np.int32)
    names = tuple(unpack_strings(f"{name}/names", arrays).to_pylist())
    if codes.min(initial=-1) < -1 or codes.max(initial=-1) >= len(names):
        raise FormatError(f"{name}/codes must be from -1 (none) to {len(names) - 1}")
    return Categories(codes, names)


def _array(name: str, arrays: Arrays, shape: tuple[int | None, ...], *dtypes: type[np.generic]) -> npt.NDArray[Any]:
    """Return a stored array of this shape (None: any length) and one of these types."""
    if name not in arrays:
        raise FormatError(f"no array {name}")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(a in (None, b) for a, b in zip(shape, array.shape, strict=True))
    if not fits or array.dtype not in [np.dtype(each) for each in dtypes] or not array.flags.c_contiguous:
        raise FormatError(f"{name} is {array.dtype} of shape {array.shape}; expected {np.dtype(dtypes[0])} of {shape}")
    return array
