"""Graphs in one .npz file, in the layout of the published Graph2Gauss files.

A file need not be trusted: no pickle is loaded and every array is checked, see also `glace.storage.archive`.
"""

import logging
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import FormatError, InputError
from glace.features.pipeline import FeaturePipeline
from glace.graph.arrays import edges_of
from glace.graph.codec import encode_matrix
from glace.graph.graph import Graph, NodeType, build
from glace.ids import NodeIds
from glace.storage.archive import MAX_BYTES, read_arrays, string_array
from glace.storage.container import Array, Arrays
from glace.storage.files import existing, replacing
from glace.values import in_storage

MAX_COLUMNS = 2**31 - 1

# The kinds of number, as numpy's type letters, that each member may hold.
NUMBERS = {
    **{f"{matrix}_data": "biuf" for matrix in ("adj", "attr")},
    **{f"{matrix}_{part}": "iu" for matrix in ("adj", "attr") for part in ("indices", "indptr", "shape")},
    **{"labels": "iu", "types": "iu", "ids": "iu", "pipeline": "u"},
}
# Names are a convenience: published files hold some of them pickled, and those are ignored.
NAMES = ("node_names", "attr_names", "label_names", "type_names")

_log = logging.getLogger("glace")


def read_npz(path: str | Path, *, directed: bool = False, max_bytes: int = MAX_BYTES) -> Graph:
    """Read a graph from an .npz file in the Graph2Gauss layout.

    The members are adj_data, adj_indices, adj_indptr and adj_shape, a CSR matrix of edge weights; optionally attr_*,
    labels (negative: none), label_names and node_names.
    Names of nodes or attributes that are repeated or incomplete are logged and ignored.

    Parameters
    ----------
    path : path
        The file.
    directed : bool, default False
        Whether edges have a direction, which the file does not state.
    max_bytes : int, default 2**30
        A file that unpacks to more than this, and to 50 times its size, is refused.

    Returns
    -------
    Graph
        The graph, with its attributes and labels if the file has them.

    Raises
    ------
    InputError
        If the file is not found or unpacks to too many bytes.
    FormatError
        If the file is damaged or does not hold a graph.

    Examples
    --------
    See `write_npz`.
    """
    source = existing(path, "a graph in an .npz file")
    members = read_arrays(source, {*NUMBERS, *NAMES}, may_be_pickled=NAMES, max_bytes=max_bytes)
    try:
        return _graph(_checked(members), directed, source.name)
    except (InputError, FormatError) as problem:
        raise FormatError(f"{source.name}: {problem}") from problem


def write_npz(graph: Graph, path: str | Path) -> None:
    """Write a graph to an .npz file in the Graph2Gauss layout; equal graphs give equal bytes.

    Parameters
    ----------
    graph : Graph
        A graph with one attribute matrix. Graphs whose node types have their own attributes need `write_folder`.
    path : path
        The file to write.

    Raises
    ------
    InputError
        If the file cannot be written or node types have their own attributes.

    Examples
    --------
    >>> import glace, tempfile
    >>> graph = glace.from_arrays([[0, 1], [1, 2]], [[0.5], [1.0], [2.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     glace.write_npz(graph, f"{folder}/path.npz")
    ...     glace.read_npz(f"{folder}/path.npz").fingerprint() == graph.fingerprint()
    True
    """
    if graph.by_type().types[0].name:
        raise InputError(
            "an .npz file holds one matrix of attributes, but here node types have their own; write a graph folder "
            "(.graph), or merge the types with graph.of_one_type()"
        )
    pairs, weights = graph.edges_and_weights()
    shape = (graph.num_nodes, graph.num_nodes)
    members = _matrix_members("adj", sp.csr_array((weights, (pairs[:, 0], pairs[:, 1])), shape=shape))
    if graph.attributes is not None:
        members |= _matrix_members("attr", in_storage(graph.attributes, sparse=True))
    with replacing(path) as temporary, temporary.open("wb") as opened:
        np.savez_compressed(opened, allow_pickle=False, **members, **_name_members(graph))


def _checked(members: Arrays) -> Arrays:
    """The members in native types; names that are not one-dimensional arrays of strings are left out."""
    names = {name: array for name, array in members.items() if name in NAMES}
    texts = {name: array for name, array in names.items() if array.dtype.kind == "U" and array.ndim == 1}
    return texts | {name: _checked_numbers(name, array) for name, array in members.items() if name in NUMBERS}


def _checked_numbers(name: str, array: Array) -> Array:
    """The array in native byte order; floats as 32 or 64 bits, the widths that scipy supports."""
    if array.dtype.kind not in NUMBERS[name]:
        raise FormatError(f"{name} holds {array.dtype}, not numbers of the expected kind")
    if array.ndim != 1:
        raise FormatError(f"{name} has the shape {array.shape}; expected one dimension")
    if array.dtype.kind != "f":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    with np.errstate(over="ignore"):
        return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64, copy=False)


def _graph(members: Arrays, directed: bool, source: str) -> Graph:
    adjacency = _csr(members, "adj")
    count = adjacency.shape[0]
    if adjacency.shape != (count, count):
        raise FormatError(f"adj_shape is {adjacency.shape}; expected a square adjacency")
    pairs, weights = edges_of(adjacency)
    return build(
        pairs.astype(np.int64),
        weights if weights.dtype.kind == "f" else weights.astype(np.float64),
        _ids(members, count, source),
        [_only_type(members, count, source)],
        directed=directed,
        labels=_categories(members, "labels", "label_names", count),
        node_types=_categories(members, "types", "type_names", count),
    )


def _only_type(members: Arrays, count: int, source: str) -> NodeType:
    if not any(name == "pipeline" or (name.startswith("attr_") and name != "attr_names") for name in members):
        return NodeType("", count)
    attributes = _csr(members, "attr")
    rows, width = attributes.shape
    pipeline = FeaturePipeline.from_bytes(members["pipeline"], width) if "pipeline" in members else None
    names = None if pipeline else _names(members, "attr_names", width, source, "attributes have no names")
    return NodeType("", rows, attributes, None if names is None else tuple(names), pipeline)


def _csr(members: Arrays, matrix: str) -> sp.csr_array:
    parts = [f"{matrix}_{part}" for part in ("data", "indices", "indptr", "shape")]
    absent = [name for name in parts if name not in members]
    if absent:
        raise FormatError(f"no member {', '.join(absent)}; expected a graph in the Graph2Gauss layout")
    data, indices, indptr, shape = (members[name] for name in parts)
    if len(shape) != 2 or (shape < 0).any() or shape[1] > MAX_COLUMNS:
        raise FormatError(f"{matrix}_shape is {shape.tolist()[:5]}; expected two numbers from 0 to {MAX_COLUMNS:,}")
    try:
        found = sp.csr_array((data, indices.astype(np.int64), indptr.astype(np.int64)), shape=tuple(shape.tolist()))
        found.check_format()
    except ValueError as problem:
        raise FormatError(f"{matrix}_* is not a valid CSR matrix: {problem}") from problem
    if len(found.data) != len(data):  # scipy drops entries beyond the last row
        raise FormatError(f"{matrix}_indptr ends at {len(found.data):,}, but there are {len(data):,} entries")
    return found


def _names(members: Arrays, member: str, count: int, source: str, consequence: str) -> list[str] | None:
    """The names in a member; None, with a line in the log, if they are not one distinct name for each."""
    if member not in members:
        return None
    names: list[str] = members[member].tolist()
    if len(set(names)) == len(names) == count:
        return names
    found = (source, member, len(names), len(set(names)), count, consequence)
    _log.warning("%s: %s has %d names, %d of them distinct, for %d; %s", *found)
    return None


def _ids(members: Arrays, count: int, source: str) -> NodeIds:
    names = _names(members, "node_names", count, source, "nodes are named by number")
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
        raise FormatError(f"{values} has {len(codes):,} numbers for {count:,} nodes; expected one for each")
    if names not in members:
        distinct, places = np.unique(codes, return_inverse=True)
        negative = int((distinct < 0).sum())
        texts = tuple(map(str, distinct[negative:].tolist()))
        return Categories(np.maximum(places - negative, -1).astype(np.int32), texts)
    known = tuple(members[names].tolist())
    if len(set(known)) != len(known) or codes.max(initial=-1) >= len(known):
        raise FormatError(f"{names} has {len(known):,} names; expected distinct ones for 0 to {codes.max(initial=-1)}")
    return Categories(np.where(codes < 0, -1, codes).astype(np.int32), known)


def _matrix_members(name: str, matrix: sp.csr_array) -> Arrays:
    members = {member.replace("/", "_"): array for member, array in encode_matrix(name, matrix).items()}
    return members | {f"{name}_shape": np.array(matrix.shape, dtype=np.int64)}


def _name_members(graph: Graph) -> Arrays:
    members: Arrays = {}
    if graph.ids.are_strings:
        members["node_names"] = string_array(graph.ids, "id")
    elif graph.ids != NodeIds.numbered(graph.num_nodes):
        members["ids"] = graph.ids.to_numpy()
    categories = (("labels", "label", graph.labels), ("types", "type", graph.node_types))
    for values, what, each in categories:
        if each is not None:
            members |= {values: each.codes, f"{what}_names": string_array(each.names, what)}
    if graph.pipeline is not None:
        members["pipeline"] = graph.pipeline.to_bytes()
    elif graph.feature_names is not None:
        members["attr_names"] = string_array(graph.feature_names, "attribute")
    return members
