"""The graph every stage works on: edges, attributes, ids, labels, checked once when made."""

import hashlib
import json
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import row_blocks
from glace.categories import Categories
from glace.errors import InputError
from glace.features.pipeline import FeaturePipeline
from glace.graph.attributes import arrays_of, checked_attributes, read_only, row_sizes, storage_of
from glace.graph.node_types import ByType, NodeType, TypedAttributes, identity
from glace.ids import NodeIds
from glace.sparse import bad_weights, narrowed, places_of


@dataclass(frozen=True)
class CleaningReport:
    """What was found and treated while a graph was made; every number counts one kind of thing."""

    duplicate_edges: int = 0
    """Rows that named an edge again; their weights were added."""
    unequal_directions: int = 0
    """Edges of an undirected graph listed both ways with unequal weights; the larger one was kept."""
    self_loops: int = 0
    """Edges from a node to itself; dropped."""
    isolated_nodes: int = 0
    """Nodes without an edge; kept, they get their Gaussian from their attributes."""
    empty_attribute_rows: int = 0
    """Nodes whose attributes are all zero; kept, the encoder sees only its bias."""
    nodes_only_in_edges: int = 0
    """Nodes that edges name but the attribute table does not; given an empty row, on request only."""
    nodes_only_in_attributes: int = 0
    """Nodes of the attribute table that no edge names; kept, isolated."""
    shared_ids: int = 0
    """Ids that nodes of two types have; all nodes are then called TYPE:ID."""
    missing_values: int = 0
    """Cells of mixed columns that are empty; a number is then the mean, any other one adds nothing to its row."""
    unknown_values: int = 0
    """Categories that a pipeline from elsewhere does not know; they add nothing to their rows."""
    distinct_columns: int = 0
    """Columns of categories in which no two nodes have the same; kept, but new nodes cannot share them either."""

    def lines(self) -> list[str]:
        """One readable line for each kind that occurred."""
        return [f"{_SAID[each.name]}: {count:,}" for each in fields(self) if (count := getattr(self, each.name))]


_SAID = {
    "duplicate_edges": "repeated edges, weights added",
    "unequal_directions": "edges listed both ways with unequal weights, larger kept",
    "self_loops": "self-loops, dropped",
    "isolated_nodes": "nodes without an edge, kept",
    "empty_attribute_rows": "nodes without attributes, kept",
    "nodes_only_in_edges": "nodes only in the edges, given no attributes",
    "nodes_only_in_attributes": "nodes only in the attributes, kept without edges",
    "shared_ids": "ids that are not of one type only; nodes are called TYPE:ID",
    "missing_values": "missing values of attributes, taken as unknown",
    "unknown_values": "categories never seen in training, taken as unknown",
    "distinct_columns": "columns of categories in which no two nodes are alike, of little use",
}


@dataclass(frozen=True)
class Mapped:
    """What is known of a graph whose arrays are mapped from files, and would else be worked out in memory."""

    fingerprint: str | None = None
    neighbors: sp.csr_array | None = None
    """The neighbours of each node whichever way edges point; that of a directed graph, see `neighborhoods`."""


@dataclass(frozen=True, eq=False)
class Graph:
    """An immutable attributed graph of n nodes; make one with the functions of `glace.graph`.

    `adjacency` is (n, n) CSR, float32 weights above 0, sorted, without self-loops; an undirected edge
    stands in it in both directions. `attributes` is (n, D), CSR or dense, float32; None means that a
    node is known by its identity alone, as if D = n and the matrix were one-hot. Types of nodes whose attributes
    are not the same columns have a matrix each, in `TypedAttributes`.
    """

    adjacency: sp.csr_array
    attributes: sp.csr_array | npt.NDArray[np.float32] | TypedAttributes | None
    ids: NodeIds
    directed: bool
    labels: Categories | None = None
    node_types: Categories | None = None
    pipeline: FeaturePipeline | None = None
    """How texts or mixed columns became the attributes, where they did; new rows go the same way."""
    cleaning_report: CleaningReport = field(default_factory=CleaningReport)
    """What was treated while this graph was made from data; nothing in a graph made from another one."""
    attribute_names: tuple[str, ...] | None = None
    """What the D columns are called, where they came with names."""
    mapped: Mapped | None = None
    """Set where the arrays are mapped from files: what needs all of them is then done in blocks."""

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"Graph({self.num_nodes:,} nodes, {self.num_edges:,} {kind} edges, {self.attribute_text})"

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return int(self.adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of edges; an undirected one counts once."""
        entries = int(self.adjacency.nnz)
        return entries if self.directed else entries // 2

    @property
    def num_attributes(self) -> int:
        """Width of the attributes, D; the number of nodes where there are none."""
        return self.num_nodes if self.attributes is None else int(self.attributes.shape[1])

    @property
    def attribute_text(self) -> str:
        """The attributes in words, such as "500 sparse attributes"."""
        if self.attributes is None:
            return "no attributes"
        if isinstance(self.attributes, TypedAttributes):
            return ", ".join(part.text() for part in self.attributes.parts)
        return f"{self.num_attributes:,} {storage_of(self.attributes)} attributes"

    def features(self) -> sp.csr_array | npt.NDArray[np.float32]:
        """One matrix: the attributes, or the one-hot identity where there are none; types side by side."""
        if isinstance(self.attributes, TypedAttributes):
            return self.attributes.padded()
        return identity(self.num_nodes) if self.attributes is None else self.attributes

    def one_matrix(self, what: str) -> sp.csr_array | npt.NDArray[np.float32] | None:
        """The attributes, for something that holds no more than one matrix of them."""
        if isinstance(self.attributes, TypedAttributes):
            raise InputError(
                f"{what} holds one matrix of attributes, but here types of nodes have their own; keep the tables, or "
                "give up the types (in Python: graph.of_one_type())"
            )
        return self.attributes

    def of_one_type(self) -> "Graph":
        """The same nodes as if they had no types, the attributes of each in columns of their own."""
        attributes = self.features() if isinstance(self.attributes, TypedAttributes) else self.attributes
        return replace(self, attributes=attributes, node_types=None)

    def by_type(self) -> ByType:
        """The attributes of each type that has its own; of one, if none has."""
        if isinstance(self.attributes, TypedAttributes):
            return ByType(self.attributes.parts, self.attributes.kinds, self.attributes.places)
        only = NodeType("", self.num_nodes, self.attributes, self.attribute_names, self.pipeline)
        return ByType((only,))

    def edges(self) -> npt.NDArray[np.int64]:
        """(E, 2) node numbers, each edge once: (source, target), or (smaller, larger) if undirected."""
        return self.edges_and_weights()[0]

    def edges_and_weights(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The edges as in `edges`, and their weights (E,)."""
        coo = self.adjacency.tocoo()
        pairs = np.column_stack([coo.row, coo.col]).astype(np.int64)
        keep = slice(None) if self.directed else pairs[:, 0] < pairs[:, 1]
        return pairs[keep], coo.data[keep]

    def has_edges(self, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """(P,) whether each pair (source, target) of node numbers is an edge."""
        return np.asarray(places_of(self.adjacency, pairs) >= 0)

    def with_edges(self, pairs: npt.NDArray[np.integer], weights: npt.NDArray[np.floating]) -> "Graph":
        """The same nodes with these edges (each once, as `edges` gives them) in place of the old ones."""
        adjacency = adjacency_of(pairs, weights, self.num_nodes, self.directed)
        return replace(self, adjacency=adjacency, cleaning_report=CleaningReport(), mapped=None)

    def without_attributes(self) -> "Graph":
        """The same nodes and edges, each node known by its identity alone."""
        mapped = self.mapped and replace(self.mapped, fingerprint=None)
        return replace(self, attributes=None, attribute_names=None, pipeline=None, mapped=mapped)

    def known_edges(self, symmetric: bool) -> sp.csr_array:
        """(n, n) CSR of the pairs that are no missing edges: by a symmetric measure, whichever way an edge points."""
        return self.neighborhoods() if symmetric else self.adjacency

    def has_label(self, name: str) -> npt.NDArray[np.bool_]:
        """(n,) whether a node's label is this one; a label that no node can have raises."""
        return _of_category(self.labels, name, "label")

    def has_type(self, name: str) -> npt.NDArray[np.bool_]:
        """(n,) whether a node is of this type; a type that no node can have raises."""
        return _of_category(self.node_types, name, "type")

    def among(self, label: str | None, node_type: str | None) -> npt.NDArray[np.bool_] | None:
        """(n,) whether a node has this label and this type, where they are given; None where neither is."""
        asked = [] if label is None else [self.has_label(label)]
        asked += [] if node_type is None else [self.has_type(node_type)]
        return np.logical_and.reduce(asked) if asked else None

    def joined_types(self, symmetric: bool) -> npt.NDArray[np.bool_] | None:
        """(T + 1, T + 1) whether edges lead from a type to another, nodes without one last; None without types."""
        joined = self._joined_types
        return joined | joined.T if symmetric and joined is not None else joined

    @cached_property
    def _joined_types(self) -> npt.NDArray[np.bool_] | None:
        return None if self.node_types is None else self.node_types.joined(self.adjacency)

    def neighborhoods(self) -> sp.csr_array:
        """(n, n) CSR of the neighbours of each node, whichever way an edge points; two directions add up."""
        if not self.directed:
            return self.adjacency
        stored = self.mapped and self.mapped.neighbors
        return self._both_ways if stored is None else stored

    @cached_property
    def _both_ways(self) -> sp.csr_array:
        return sp.csr_array(self.adjacency + self.adjacency.T)

    def in_id_order(self) -> tuple["Graph", npt.NDArray[np.int64] | None]:
        """The graph with its nodes sorted by id, and the positions that bring them back; (self, None) if sorted."""
        if self.ids.ascend():
            return self, None
        order = np.argsort(self.ids.to_numpy(), kind="stable")
        return self.take(order), np.argsort(order)

    def take(self, nodes: npt.NDArray[np.integer]) -> "Graph":
        """The graph of these nodes, in that order, with the edges among them."""
        adjacency = sp.csr_array(self.adjacency[nodes][:, nodes])
        adjacency.sort_indices()
        attributes = None if self.attributes is None else self.attributes[nodes]
        return replace(
            self,
            adjacency=read_only(narrowed(adjacency)),
            attributes=read_only(narrowed(attributes) if sp.issparse(attributes) else attributes),
            ids=self.ids.take(nodes),
            labels=self.labels.take(nodes) if self.labels else None,
            node_types=self.node_types.take(nodes) if self.node_types else None,
            cleaning_report=CleaningReport(),
            mapped=None,
        )

    def fingerprint(self) -> str:
        """SHA-256 of all that training can see: edges, weights, direction, attributes, ids, types."""
        if self.mapped and self.mapped.fingerprint:
            return self.mapped.fingerprint
        facts = {
            "directed": self.directed,
            "nodes": self.num_nodes,
            "edges": int(self.adjacency.nnz),
            "attributes": storage_of(self.attributes),
            "columns": self.num_attributes,
        }
        digest = hashlib.sha256(json.dumps(facts).encode())
        for array in (*arrays_of(self.adjacency), *arrays_of(self.attributes)):
            for block in row_blocks(array):
                # The width of an index depends on the size of a matrix and, in scipy, on how it came about.
                wide = block.astype(np.int64) if block.dtype.kind == "i" else block
                digest.update(np.ascontiguousarray(wide).data)
        for part in self.ids.contents():
            digest.update(part)
        if self.node_types is not None:
            digest.update(np.ascontiguousarray(self.node_types.codes).data)
        return digest.hexdigest()


def _of_category(categories: Categories | None, name: str, what: str) -> npt.NDArray[np.bool_]:
    if categories is None:
        raise InputError(f"no {what} {name!r}; the graph has none")
    return np.asarray(categories.codes == categories.code_of(name, what))


def adjacency_of(
    pairs: npt.NDArray[np.integer], weights: npt.NDArray[np.floating], num_nodes: int, directed: bool
) -> sp.csr_array:
    """Read-only sorted CSR of distinct edges without self-loops; both directions if undirected.

    An undirected edge that is given in both directions is one edge, of the larger weight.
    """
    return _merged(pairs, weights, num_nodes, directed)[0]


def _merged(
    pairs: npt.NDArray[np.integer], weights: npt.NDArray[np.floating], num_nodes: int, directed: bool
) -> tuple[sp.csr_array, CleaningReport]:
    """`adjacency_of`, and how many edges were repeated or had unequal directions."""
    shape = (num_nodes, num_nodes)
    matrix = sp.csr_array((weights.astype(np.float32), (pairs[:, 0], pairs[:, 1])), shape=shape)
    matrix.sum_duplicates()
    found = CleaningReport(duplicate_edges=len(pairs) - int(matrix.nnz))
    if not directed:
        matrix, unequal = _symmetric(matrix)
        found = replace(found, unequal_directions=unequal)
    matrix.sort_indices()
    return read_only(narrowed(matrix)), found


def _symmetric(matrix: sp.csr_array) -> tuple[sp.csr_array, int]:
    """The larger of both directions of each edge, and how many edges have two that are unequal."""
    larger, unequal = larger_of(matrix, sp.csr_array(matrix.T))
    return larger, unequal // 2


def larger_of(matrix: sp.csr_array, reverse: sp.csr_array) -> tuple[sp.csr_array, int]:
    """The larger of two entries, and how many places have two that are unequal."""
    larger = sp.csr_array(matrix.maximum(reverse))
    # A place that only one of the two has is unequal as well, and is not meant.
    alone = 2 * int(larger.nnz) - int(matrix.nnz) - int(reverse.nnz)
    if alone == larger.nnz:
        return larger, 0
    return larger, int((matrix != reverse).nnz) - alone


def check_sums(adjacency: sp.csr_array) -> None:
    """Raise unless the weights of repeated edges have finite sums."""
    if not np.isfinite(adjacency.data).all():
        raise InputError("the weights of a repeated edge add up to more than a 32-bit float holds; scale them")


def build(
    pairs: npt.NDArray[np.integer],
    weights: npt.NDArray[np.floating],
    attributes: Any,
    ids: NodeIds,
    *,
    directed: bool,
    labels: Categories | None = None,
    node_types: Categories | None = None,
    pipeline: FeaturePipeline | None = None,
    cleaning_report: CleaningReport | None = None,
    attribute_names: tuple[str, ...] | None = None,
) -> Graph:
    """The door all makers go through: checks the parts, treats what needs treatment, counts it."""
    count = len(ids)
    if count == 0:
        raise InputError("a graph needs at least one node, but there are no edges and no attributes")
    check_weights(weights, pairs, ids)
    loops = pairs[:, 0] == pairs[:, 1]
    pairs, weights = pairs[~loops], weights[~loops]
    adjacency, merged = _merged(pairs, weights, count, directed)
    check_sums(adjacency)
    features = checked_attributes(attributes, ids)
    for name, categories in (("labels", labels), ("node types", node_types)):
        if categories is not None and len(categories) != count:
            raise InputError(f"{len(categories):,} {name} for {count:,} nodes; give one for each node")
    degree = np.diff(adjacency.indptr) + (np.bincount(adjacency.indices, minlength=count) if directed else 0)
    cleaning_report = replace(
        cleaning_report or CleaningReport(),
        duplicate_edges=merged.duplicate_edges,
        unequal_directions=merged.unequal_directions,
        self_loops=int(loops.sum()),
        isolated_nodes=int((degree == 0).sum()),
        empty_attribute_rows=0 if features is None else int((row_sizes(features) == 0).sum()),
    )
    assert attribute_names is None or (features is not None and len(attribute_names) == features.shape[1])
    return Graph(adjacency, features, ids, directed, labels, node_types, pipeline, cleaning_report, attribute_names)


def check_weights(weights: npt.NDArray[np.floating], pairs: npt.NDArray[np.integer], ids: NodeIds) -> None:
    """Raise unless every weight is, as the 32-bit float it will be, a finite number above 0."""
    bad = bad_weights(weights)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        source, target = (ids[node] for node in pairs[first])
        raise InputError(
            f"edge weights must be finite and above 0, but edge {first + 1} "
            f"({source!r} to {target!r}) has {weights[first]}; {int(bad.sum()):,} such in all"
        )
