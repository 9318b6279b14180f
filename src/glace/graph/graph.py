"""The graph that every stage works on: edges, attributes by node type, ids and labels, checked once when it is made."""

import hashlib
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.blocks import row_blocks
from glace.categories import Categories
from glace.errors import InputError
from glace.features.pipeline import FeaturePipeline
from glace.ids import NodeIds
from glace.sparse import (
    Matrix,
    bad_weights,
    check_sums,
    checked_matrix,
    larger_of,
    matrix_arrays,
    narrowed,
    nonzeros_per_row,
    places_of,
    read_only,
    summed_matrix,
)
from glace.storage.mapped import release
from glace.values import NONE, ValueSummary, are_counted, in_storage

NodeIndex = npt.NDArray[np.int64]
TypeCodes = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class NodeType:
    """The nodes of one type and their attributes.

    Parameters
    ----------
    name
        Name of the type; "" is the only type of a graph without node types.
    count
        Number of nodes of this type.
    attributes
        (count, D) CSR or dense float32, one row per node of the type in the order of the nodes; None if the nodes have
        no attributes.
    feature_names
        Names of the D columns, if they are known.
    pipeline
        How the columns of a table became `attributes`; new rows pass through the same pipeline.
    scaling
        How training scales the attributes, one of `glace.values.SCALINGS`. Like their storage, it follows from their
        values: see `by_values`.
    """

    name: str
    count: int
    attributes: Matrix | None = None
    feature_names: tuple[str, ...] | None = None
    pipeline: FeaturePipeline | None = None
    scaling: str = NONE

    def features(self) -> Matrix:
        """Return the attributes, or the one-hot identity if there are none."""
        return identity(self.count) if self.attributes is None else self.attributes

    @property
    def width(self) -> int | None:
        """Number of attributes, D; None if there are none."""
        return None if self.attributes is None else int(self.attributes.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether `features` are sparse."""
        return self.attributes is None or sp.issparse(self.attributes)

    @property
    def storage(self) -> str:
        """How the attributes are stored: "none", "sparse" or "dense"."""
        return "none" if self.attributes is None else "sparse" if self.sparse else "dense"

    @property
    def has_words(self) -> bool:
        """Whether the attributes are sparse and counted, like words: nodes can have some in common."""
        return sp.issparse(self.attributes) and are_counted(self.scaling, sparse=True)

    def words_alone(self) -> "NodeType":
        """Return the same nodes with their words; without attributes if they have no words."""
        if not self.has_words:
            return self.without_attributes()
        names = self.feature_names if self.pipeline is None else self.pipeline.short_names()
        return replace(self, pipeline=None, feature_names=names)

    def by_values(self) -> "NodeType":
        """Return the type with the storage and the scaling that the values of its attributes call for.

        Storage follows the density. Scaling follows what the values are, unless a pipeline knows it: it has already
        scaled its blocks of columns. A type without nodes stays as it is.
        """
        if self.attributes is None or self.count == 0:
            return self
        summary = ValueSummary.of(self.attributes)
        scaling = (self.pipeline and self.pipeline.scaling) or summary.scaling()
        return replace(self, attributes=in_storage(self.attributes, summary.is_sparse()), scaling=scaling)

    def like(self, schema: "NodeType") -> "NodeType":
        """Return the type with the storage and the scaling of another."""
        if self.attributes is None:
            return self
        return replace(self, attributes=in_storage(self.attributes, schema.sparse), scaling=schema.scaling)

    def without_rows(self) -> "NodeType":
        """Return the attribute schema: everything but the rows."""
        return replace(self, attributes=None if self.attributes is None else self.attributes[:0])

    def without_attributes(self) -> "NodeType":
        """Return the same nodes, known by their identity alone."""
        return NodeType(self.name, self.count)

    def take(self, rows: NodeIndex) -> "NodeType":
        """Return these nodes of the type, in this order."""
        if self.attributes is None:
            return replace(self, count=len(rows))
        taken = self.attributes[rows]
        taken = narrowed(taken) if sp.issparse(taken) else taken
        return replace(self, count=len(rows), attributes=taken).by_values()

    def text(self) -> str:
        """Describe the type, such as "120 nodes of type word with 500 sparse attributes"."""
        nodes = f"{self.count:,} node{'s' * (self.count != 1)} of type {self.name}"
        if self.width is None:
            return f"{nodes} without attributes"
        return f"{nodes} with {self.width:,} {self.storage} attributes"


@dataclass(frozen=True, eq=False)
class NodeAttributes:
    """The attributes of all n nodes of a graph, by node type.

    Parameters
    ----------
    types
        The T >= 1 node types.
    type_codes
        (n,) the index of each node's type in `types`. None if there is one type: node i is then row i, and no array
        per node is kept.
    """

    types: tuple[NodeType, ...]
    type_codes: TypeCodes | None = None
    rows: NodeIndex | None = field(init=False, default=None)
    """(n,) the row of each node in the matrix of its type; None if there is one type."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))
        if len(self.types) == 1:
            object.__setattr__(self, "type_codes", None)
            return
        assert self.type_codes is not None, "several node types need the type of each node"
        codes, rows = np.asarray(self.type_codes, dtype=np.int32), np.empty(len(self.type_codes), np.int64)
        for code, each in enumerate(self.types):
            nodes = np.flatnonzero(codes == code)
            assert len(nodes) == each.count, f"{len(nodes)} nodes of type {each.name}, but {each.count} rows"
            rows[nodes] = np.arange(len(nodes))
        object.__setattr__(self, "type_codes", codes)
        object.__setattr__(self, "rows", rows)

    def __len__(self) -> int:
        return sum(each.count for each in self.types)

    @property
    def has_attributes(self) -> bool:
        """Whether nodes of some type have attributes."""
        return any(each.attributes is not None for each in self.types)

    @property
    def matrix(self) -> Matrix | None:
        """The attributes of a graph with one node type; several types raise InputError."""
        if len(self.types) > 1:
            names = ", ".join(each.name for each in self.types)
            raise InputError(
                f"the node types ({names}) have attributes of their own, but one matrix is needed here; use "
                "graph.by_type(), or merge the types with graph.of_one_type()"
            )
        return self.types[0].attributes

    def locate(self, nodes: NodeIndex) -> tuple[TypeCodes, NodeIndex]:
        """Return the type code and the row in that type's matrix of each node."""
        if self.type_codes is None or self.rows is None:
            return np.zeros(len(nodes), np.int32), nodes
        return self.type_codes[nodes], self.rows[nodes]

    def features(self) -> list[Matrix]:
        """Return one matrix per type: its attributes, or the one-hot identity if it has none."""
        return [each.features() for each in self.types]

    def take(self, nodes: NodeIndex) -> "NodeAttributes":
        """Return the attributes of these nodes, in this order."""
        codes, rows = self.locate(nodes)
        taken = tuple(each.take(rows[codes == code]) for code, each in enumerate(self.types))
        return NodeAttributes(taken, codes)

    def with_types(self, types: Sequence[NodeType]) -> "NodeAttributes":
        """Return the same nodes with the attributes of these types, which correspond to `types`."""
        return NodeAttributes(tuple(types), self.type_codes)

    def side_by_side(self, matrices: Sequence[Matrix] | None = None) -> Matrix:
        """Return (n, columns of all types) the rows of all nodes, given those of each type; by default `features`."""
        matrices = self.features() if matrices is None else matrices
        if self.type_codes is None:
            return matrices[0]
        whole = sp.block_diag([sp.csr_array(each) for each in matrices], format="csr")
        order = np.argsort(np.argsort(self.type_codes, kind="stable"), kind="stable")
        return narrowed(sp.csr_array(sp.csr_array(whole, dtype=np.float32)[order]))

    def nonzeros(self, nodes: slice | NodeIndex) -> npt.NDArray[np.integer]:
        """Return how many attributes of each node are not 0; 1 for a node without attributes."""
        only = self.types[0].attributes
        if self.type_codes is None and only is not None:
            return nonzeros_per_row(only, nodes)  # a slice of a mapped matrix is not copied
        codes, rows = self.locate(np.arange(len(self))[nodes])
        counts = np.ones(len(codes), np.int64)
        for code, each in enumerate(self.types):
            if each.attributes is not None:
                counts[codes == code] = nonzeros_per_row(each.attributes, rows[codes == code])
        return counts

    def storage(self) -> str:
        """Describe how the attributes are stored and scaled, for fingerprints."""
        return json.dumps([[each.name, each.count, each.storage, each.scaling] for each in self.types])

    def arrays(self) -> Iterator[npt.NDArray[np.generic]]:
        """Yield every array the attributes consist of."""
        if self.type_codes is not None:
            yield self.type_codes
        for each in self.types:
            yield from matrix_arrays(each.attributes)


def identity(count: int) -> sp.csr_array:
    """Return the (count, count) one-hot CSR matrix."""
    return narrowed(sp.eye_array(count, dtype=np.float32, format="csr"))


def checked_type(node_type: NodeType, ids: NodeIds | None) -> NodeType:
    """Return the type with its attributes as read-only, finite float32, stored and scaled by their values.

    `ids` name a bad row's node.
    """
    if node_type.attributes is None:
        return node_type
    try:
        matrix = checked_matrix(node_type.attributes, ids)
    except InputError as problem:
        raise InputError(f"type {node_type.name!r}: {problem}" if node_type.name else str(problem)) from problem
    if matrix.shape[0] != node_type.count:
        raise InputError(f"{matrix.shape[0]:,} rows of attributes for {node_type.count:,} nodes; give one row a node")
    assert node_type.feature_names is None or len(node_type.feature_names) == matrix.shape[1]
    checked = replace(node_type, attributes=matrix).by_values()
    return replace(checked, attributes=read_only(checked.attributes))


def _counted(text: str) -> int:
    """A field that counts from 0; `text` describes it to users."""
    return field(default=0, metadata={"text": text})


@dataclass(frozen=True)
class CleaningReport:
    """How many irregularities of each kind were found, and treated, while a graph was made."""

    duplicate_edges: int = _counted("repeated edges, weights added")
    """Rows that list an edge again; their weights were added."""
    unequal_directions: int = _counted("edges listed both ways with unequal weights, larger kept")
    """Edges of an undirected graph listed both ways with unequal weights; the larger one was kept."""
    self_loops: int = _counted("self-loops, dropped")
    """Edges from a node to itself; dropped."""
    isolated_nodes: int = _counted("nodes without an edge, kept")
    """Nodes without an edge; kept, their Gaussian comes from their attributes."""
    empty_attribute_rows: int = _counted("nodes without attributes, kept")
    """Nodes whose attributes are all zero; kept, the encoder sees only its bias."""
    nodes_only_in_edges: int = _counted("nodes only in the edges, given no attributes")
    """Nodes that edges name but the attribute table does not; given an empty row, on request only."""
    nodes_only_in_attributes: int = _counted("nodes only in the attributes, kept without edges")
    """Nodes of the attribute table that no edge names; kept, isolated."""
    shared_ids: int = _counted("ids that occur in several types; nodes are called TYPE:ID")
    """Ids that occur in two node types; all nodes are then called TYPE:ID."""
    missing_values: int = _counted("missing values of attributes, taken as unknown")
    """Empty cells of mixed columns: a number is replaced by the mean, any other adds nothing to its row."""
    unknown_values: int = _counted("categories never seen in training, taken as unknown")
    """Categories that the given pipeline does not know; they add nothing to their rows."""
    distinct_columns: int = _counted("columns of categories in which no two nodes are alike, of little use")
    """Columns of categories in which every node has its own; kept, but new nodes cannot share them."""

    notes: tuple[str, ...] = ()
    """What was guessed about the files and tables, and what may surprise, in words."""

    def lines(self) -> list[str]:
        """Return the notes, and one readable line for each kind that occurred."""
        counts = ((each.metadata["text"], getattr(self, each.name)) for each in fields(self) if each.name != "notes")
        return [*self.notes, *(f"{text}: {count:,}" for text, count in counts if count)]


class GraphFolder(NamedTuple):
    """Where the files of a graph are, and the fingerprint of the graph that they hold."""

    path: str
    fingerprint: str


@dataclass(frozen=True)
class Mapped:
    """Precomputed facts of a graph whose arrays are mapped from files."""

    fingerprint: str | None = None
    """What `Graph.fingerprint` returns, if it is stored."""
    neighbors: sp.csr_array | None = None
    """What `Graph.neighborhoods` returns, for a directed graph."""
    folder: GraphFolder | None = None
    """The folder that `read_folder` read."""


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An immutable graph of n nodes with attributes, ids, labels and node types.

    Make one with `glace.from_arrays`, `from_tables`, `read_tables`, `from_networkx`, `from_pyg` or `datasets.load`.

    Parameters
    ----------
    adjacency : csr_array of float32, shape (n, n)
        Weights above 0, sorted, without self-loops; an undirected edge is stored in both
        directions.
    node_attributes : NodeAttributes
        Attributes of the T >= 1 node types; `attributes` is the matrix of a graph with one type.
    ids : NodeIds
        The id of each node, a string or an integer.
    directed : bool
        Whether edges have a direction.
    labels : Categories, optional
        The class of each node, if known.
    node_types : Categories, optional
        The type of each node, if nodes have types; types may share the columns of one attribute matrix.
    cleaning_report : CleaningReport
        What was found and treated while the graph was made from data.
    mapped : Mapped, optional
        Set if the arrays are mapped from files; whatever needs all of them then works in blocks.
    node_columns : mapping of str to pyarrow.Array
        Columns of the node tables that hold text, such as titles, for people to read: (n,) each, "" for none.

    Examples
    --------
    >>> import glace
    >>> graph = glace.from_arrays([[0, 1], [1, 2]], ids=["a", "b", "c"], labels=["x", "y", "x"])
    >>> graph
    Graph(3 nodes, 2 undirected edges, no attributes, 2 labels)
    >>> graph.edges().tolist()
    [[0, 1], [1, 2]]
    """

    adjacency: sp.csr_array
    node_attributes: NodeAttributes
    ids: NodeIds
    directed: bool
    labels: Categories | None = None
    node_types: Categories | None = None
    cleaning_report: CleaningReport = field(default_factory=CleaningReport)
    mapped: Mapped | None = None
    node_columns: Mapping[str, pa.Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Graph({', '.join(self._facts())})"

    def _repr_html_(self) -> str:
        """Return a table of facts, which notebooks show."""
        facts = [*self._facts(), *self.cleaning_report.lines()]
        rows = "".join(f"<li>{html.escape(fact)}</li>" for fact in facts)
        return f"<b>Graph</b><ul>{rows}</ul>"

    def __len__(self) -> int:
        return self.num_nodes

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes and of attribute columns, as scikit-learn asks for them."""
        return self.num_nodes, self.num_attributes

    def __getitem__(self, nodes: npt.NDArray[Any] | Sequence[int] | slice | tuple[Any, EllipsisType]) -> "Graph":
        """Return the subgraph of some nodes, by number; scikit-learn splits a graph this way."""
        chosen = nodes[0] if isinstance(nodes, tuple) else nodes
        if isinstance(chosen, int | np.integer | str):
            raise InputError("a graph is indexed by several node numbers, such as graph[:100]; ids are in graph.ids")
        return self.take(np.arange(self.num_nodes)[chosen])

    def _facts(self) -> list[str]:
        kind = "directed" if self.directed else "undirected"
        facts = [f"{self.num_nodes:,} nodes", f"{self.num_edges:,} {kind} edges", self.attribute_text]
        if self.node_types is not None and len(self.node_attributes.types) == 1:
            facts.append(f"{len(self.node_types.names):,} node types")
        return facts if self.labels is None else [*facts, f"{len(self.labels.names):,} labels"]

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return int(self.adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of edges; an undirected one counts once."""
        entries = int(self.adjacency.nnz)
        return entries if self.directed else entries // 2

    def by_type(self) -> NodeAttributes:
        """Return the attributes by node type, T >= 1."""
        return self.node_attributes

    @property
    def has_attributes(self) -> bool:
        """Whether nodes of some type have attributes."""
        return self.node_attributes.has_attributes

    @property
    def attributes(self) -> Matrix | None:
        """The (n, D) attributes of a graph with one node type, None if it has none; several types raise InputError."""
        return self.node_attributes.matrix

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns of `attributes`, if they are known; None with several node types."""
        types = self.node_attributes.types
        return types[0].feature_names if len(types) == 1 else None

    @property
    def pipeline(self) -> FeaturePipeline | None:
        """How the columns of a table became `attributes`, if they did; None with several node types."""
        types = self.node_attributes.types
        return types[0].pipeline if len(types) == 1 else None

    @property
    def num_attributes(self) -> int:
        """Number of attribute columns of all types; the number of nodes if there are none."""
        if not self.has_attributes:
            return self.num_nodes
        return sum(each.width or 0 for each in self.node_attributes.types)

    @property
    def attribute_text(self) -> str:
        """Describes the attributes, such as "500 sparse attributes"."""
        types = self.node_attributes.types
        if types[0].name:
            return ", ".join(each.text() for each in types)
        return f"{self.num_attributes:,} {types[0].storage} attributes" if self.has_attributes else "no attributes"

    def features(self) -> Matrix:
        """Return one matrix: the attributes, or the one-hot identity without any; types side by side."""
        return self.node_attributes.side_by_side()

    def of_one_type(self) -> "Graph":
        """Return the same graph without node types; the attributes of each type become columns of their own."""
        only = self.node_attributes.types[0]
        if only.name or len(self.node_attributes.types) > 1:
            only = NodeType("", self.num_nodes, self.features() if self.has_attributes else None).by_values()
        return replace(self.with_types([only]), node_types=None)

    def with_types(self, types: Sequence[NodeType]) -> "Graph":
        """Return the same nodes and edges with other attributes, by node type.

        Parameters
        ----------
        types
            As many types as there are, in the same order, or one that covers all nodes.

        Returns
        -------
        Graph
            The new graph.
        """
        old, new = self.node_attributes.types, tuple(types)
        same = len(old) == len(new) and all(a.attributes is b.attributes for a, b in zip(old, new, strict=True))
        mapped = self.mapped if same or self.mapped is None else replace(self.mapped, fingerprint=None)
        return replace(self, node_attributes=self.node_attributes.with_types(new), mapped=mapped)

    def with_attributes(self, attributes: Matrix | None, feature_names: tuple[str, ...] | None = None) -> "Graph":
        """Return the same nodes and edges with these attributes; node types stay, but share the columns.

        Parameters
        ----------
        attributes
            (n, D) numbers, dense or sparse; None for no attributes.
        feature_names
            Names of the D columns.

        Returns
        -------
        Graph
            The new graph.
        """
        given = NodeType("", self.num_nodes, attributes, feature_names)
        return self.with_types([checked_type(given, self.ids)])

    def without_attributes(self) -> "Graph":
        """Return the same nodes and edges; each node is known by its identity alone."""
        return self.with_types([NodeType("", self.num_nodes)])

    def edges(self) -> npt.NDArray[np.int64]:
        """Return (E, 2) node numbers, each edge once: (source, target), or (smaller, larger) if undirected."""
        return self.edges_and_weights()[0]

    def edges_and_weights(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return the edges as `edges` does, and their (E,) weights."""
        coo = self.adjacency.tocoo()
        pairs = np.column_stack([coo.row, coo.col]).astype(np.int64)
        keep = slice(None) if self.directed else pairs[:, 0] < pairs[:, 1]
        return pairs[keep], coo.data[keep]

    def has_edges(self, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Look up which pairs of nodes are edges.

        Parameters
        ----------
        pairs
            (P, 2) node numbers, source and target.

        Returns
        -------
        ndarray
            (P,) True for each pair that is an edge.
        """
        return np.asarray(places_of(self.adjacency, pairs) >= 0)

    def with_edges(self, pairs: npt.NDArray[np.integer], weights: npt.NDArray[np.floating]) -> "Graph":
        """Return the same nodes with other edges.

        Parameters
        ----------
        pairs
            (E, 2) node numbers, each edge once, as `edges` returns them.
        weights
            (E,) weights above 0.

        Returns
        -------
        Graph
            The new graph, in memory.
        """
        adjacency, _ = _merged(pairs, weights, self.num_nodes, self.directed)
        return replace(self, adjacency=adjacency, cleaning_report=CleaningReport(), mapped=None)

    def known_edges(self, symmetric: bool) -> sp.csr_array:
        """Return the pairs that a search for missing edges must skip.

        Parameters
        ----------
        symmetric
            Whether the dissimilarity is symmetric, so that an edge is known in both directions.

        Returns
        -------
        csr_array
            (n, n) with an entry for each such pair.
        """
        return self.neighborhoods() if symmetric else self.adjacency

    def has_label(self, name: str) -> npt.NDArray[np.bool_]:
        """Return which nodes have a label.

        Parameters
        ----------
        name
            The label; InputError if the graph does not have it.

        Returns
        -------
        ndarray
            (n,) True for each node with this label.
        """
        return _in_category(self.labels, name, "label")

    def has_type(self, name: str) -> npt.NDArray[np.bool_]:
        """Return which nodes are of a node type.

        Parameters
        ----------
        name
            The node type; InputError if the graph does not have it.

        Returns
        -------
        ndarray
            (n,) True for each node of this type.
        """
        return _in_category(self.node_types, name, "type")

    def among(self, label: str | None, node_type: str | None) -> npt.NDArray[np.bool_] | None:
        """Return which nodes have a label and a node type.

        Parameters
        ----------
        label
            The label to have; None for any.
        node_type
            The node type to have; None for any.

        Returns
        -------
        ndarray or None
            (n,) True for each such node; None if neither is given.
        """
        masks = [] if label is None else [self.has_label(label)]
        masks += [] if node_type is None else [self.has_type(node_type)]
        return np.logical_and.reduce(masks) if masks else None

    def joined_types(self, symmetric: bool) -> npt.NDArray[np.bool_] | None:
        """Return between which node types there are edges.

        Parameters
        ----------
        symmetric
            Whether an edge counts in both directions.

        Returns
        -------
        ndarray or None
            (T + 1, T + 1) True where an edge leads from one type to another, nodes without a type last; None without
            node types.
        """
        joined = self._joined_types
        return joined | joined.T if symmetric and joined is not None else joined

    @cached_property
    def _joined_types(self) -> npt.NDArray[np.bool_] | None:
        return None if self.node_types is None else self.node_types.joined(self.adjacency)

    def neighborhoods(self) -> sp.csr_array:
        """Return (n, n) CSR of each node's neighbours, whichever way edges point; two directions add up."""
        if not self.directed:
            return self.adjacency
        return self._both_ways

    @cached_property
    def _both_ways(self) -> sp.csr_array:
        stored = self.mapped and self.mapped.neighbors
        return sp.csr_array(self.adjacency + self.adjacency.T) if stored is None else stored

    def in_id_order(self) -> tuple["Graph", npt.NDArray[np.int64] | None]:
        """Return the graph with its nodes sorted by id, and the positions that undo it; None if they are sorted."""
        if self.ids.ascend():
            return self, None
        order = np.argsort(self.ids.to_numpy(), kind="stable")
        return self.take(order), np.argsort(order)

    def take(self, nodes: npt.NDArray[np.integer] | Sequence[int]) -> "Graph":
        """Return the subgraph of some nodes.

        Parameters
        ----------
        nodes
            Node numbers, in the order of the new graph.

        Returns
        -------
        Graph
            These nodes and the edges among them, in memory.
        """
        chosen = np.asarray(nodes, dtype=np.int64)
        adjacency = sp.csr_array(self.adjacency[chosen][:, chosen])
        adjacency.sort_indices()
        attributes = self.node_attributes.take(chosen)
        for array in attributes.arrays():
            array.flags.writeable = False
        return replace(
            self,
            adjacency=read_only(narrowed(adjacency)),
            node_attributes=attributes,
            ids=self.ids.take(chosen),
            labels=self.labels.take(chosen) if self.labels else None,
            node_types=self.node_types.take(chosen) if self.node_types else None,
            cleaning_report=CleaningReport(),
            mapped=None,
            node_columns={name: column.take(pa.array(chosen)) for name, column in self.node_columns.items()},
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything training can see: edges, weights, direction, attributes, ids, types."""
        if self.mapped and self.mapped.fingerprint:
            return self.mapped.fingerprint
        facts = {
            "directed": self.directed,
            "nodes": self.num_nodes,
            "edges": int(self.adjacency.nnz),
            "attributes": self.node_attributes.storage(),
            "columns": self.num_attributes,
        }
        digest = hashlib.sha256(json.dumps(facts).encode())
        for array in (*matrix_arrays(self.adjacency), *self.node_attributes.arrays()):
            for block in row_blocks(array):
                # The width of an index depends on the size of a matrix and, in scipy, on how it was made.
                wide = block.astype(np.int64) if block.dtype.kind == "i" else block
                digest.update(np.ascontiguousarray(wide).data)
            release(array)
        for part in self.ids.contents():
            digest.update(part)
        if self.node_types is not None:
            digest.update(np.ascontiguousarray(self.node_types.codes).data)
        return digest.hexdigest()


def _in_category(categories: Categories | None, name: str, what: str) -> npt.NDArray[np.bool_]:
    if categories is None:
        raise InputError(f"no {what} {name!r}; the graph has none")
    return np.asarray(categories.codes == categories.code_of(name, what))


def _merged(
    pairs: npt.NDArray[np.integer], weights: npt.NDArray[np.floating], num_nodes: int, directed: bool
) -> tuple[sp.csr_array, CleaningReport]:
    """Return the read-only sorted CSR of edges, and how many edges were repeated or had unequal directions.

    An undirected edge is stored in both directions; if both are given, it has the larger of the two weights.
    """
    matrix = summed_matrix(weights, (pairs[:, 0], pairs[:, 1]), (num_nodes, num_nodes))
    duplicates, unequal = len(pairs) - int(matrix.nnz), 0
    if not directed:
        matrix, unequal = larger_of(matrix, sp.csr_array(matrix.T))
    matrix.sort_indices()
    return read_only(narrowed(matrix)), CleaningReport(duplicates, unequal // 2)


def build(
    pairs: npt.NDArray[np.integer],
    weights: npt.NDArray[np.floating],
    ids: NodeIds,
    types: Sequence[NodeType] | None = None,
    *,
    directed: bool,
    labels: Categories | None = None,
    node_types: Categories | None = None,
    cleaning_report: CleaningReport | None = None,
) -> Graph:
    """Return a checked graph; every function that makes a graph in memory ends here.

    Parameters
    ----------
    pairs, weights
        (E, 2) node numbers and (E,) weights. Repeated edges are merged and self-loops dropped, both counted.
    ids
        The id of each node.
    types
        Attributes by node type; None for one type without attributes. Several types need `node_types`, whose codes
        are their indices. One type named "" covers all nodes, whether or not they have `node_types`.
    directed
        Whether an edge has a direction.
    labels, node_types
        One category per node.
    cleaning_report
        What the caller counted already.
    """
    count = len(ids)
    if count == 0:
        raise InputError("a graph needs at least one node, but there are no edges and no attributes")
    _check_weights(weights, pairs, ids)
    loops = pairs[:, 0] == pairs[:, 1]
    pairs, weights = pairs[~loops], weights[~loops]
    adjacency, merged = _merged(pairs, weights, count, directed)
    check_sums(adjacency.data)
    for name, categories in (("labels", labels), ("node types", node_types)):
        if categories is not None and len(categories) != count:
            raise InputError(f"{len(categories):,} {name} for {count:,} nodes; give one for each node")
    attributes = _checked_attributes(types or [NodeType("", count)], node_types, ids)
    degree = np.diff(adjacency.indptr) + (np.bincount(adjacency.indices, minlength=count) if directed else 0)
    cleaning_report = replace(
        cleaning_report or CleaningReport(),
        duplicate_edges=merged.duplicate_edges,
        unequal_directions=merged.unequal_directions,
        self_loops=int(loops.sum()),
        isolated_nodes=int((degree == 0).sum()),
        empty_attribute_rows=int((attributes.nonzeros(slice(None)) == 0).sum()),
    )
    return Graph(adjacency, attributes, ids, directed, labels, node_types, cleaning_report)


def _checked_attributes(types: Sequence[NodeType], node_types: Categories | None, ids: NodeIds) -> NodeAttributes:
    if len(types) > 1:
        assert node_types is not None, "several node types need the type of each node"
        return NodeAttributes(tuple(checked_type(each, None) for each in types), node_types.codes)
    only = checked_type(types[0], ids)
    if only.count != len(ids):
        raise InputError(f"{only.count:,} rows of attributes for {len(ids):,} nodes; give one row a node")
    return NodeAttributes((only,))


def _check_weights(weights: npt.NDArray[np.floating], pairs: npt.NDArray[np.integer], ids: NodeIds) -> None:
    """Raise InputError unless every weight, stored as a 32-bit float, is finite and above 0."""
    bad = bad_weights(weights)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        source, target = (ids[node] for node in pairs[first])
        raise InputError(
            f"edge weights must be finite and above 0, but edge {first + 1} "
            f"({source!r} to {target!r}) has {weights[first]}; {int(bad.sum()):,} such in all"
        )
