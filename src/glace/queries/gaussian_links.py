"""Missing edges by the Gaussians alone: the pairs of the smallest dissimilarity, without comparing all pairs."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import blocks
from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions, Values, checked_count
from glace.graph.graph import Graph

FIRST_K = 8
"""Answers requested for each node at first; nodes that may have more among the best get four times as many."""
NODES = 4096
"""Nodes per search, between two reports of progress."""

Among = npt.NDArray[np.bool_]
Search = Callable[[Embedding, int, list[Positions], Among | None], tuple[Positions, Values]]
"""Like `Embedding.nearest_to`: queries, k, excluded positions for each query, and which nodes (n,) can be answers."""
Progress = Callable[[float], None]


class Pairs(NamedTuple):
    """Pairs of positions (P, 2) and their dissimilarities (P,), the smallest first."""

    positions: Positions
    dissimilarities: Values


class LinkTypes(NamedTuple):
    """Which node types edges may connect: node i has the type `codes[i]` (n,), the last one if it has none.

    `allowed` (T + 1, T + 1) says whether an edge may lead from the type of the row to that of the column.
    """

    codes: npt.NDArray[np.integer]
    names: tuple[str | None, ...]
    allowed: npt.NDArray[np.bool_]

    def leading_to(self, code: int) -> "LinkTypes":
        """Only edges to this type."""
        return self._replace(allowed=self.allowed & (np.arange(len(self.names)) == code))

    def with_end(self, code: int) -> "LinkTypes":
        """Only edges from or to this type."""
        own = np.arange(len(self.names)) == code
        return self._replace(allowed=self.allowed & (own | own[:, None]))


def untyped(nodes: int) -> LinkTypes:
    """Return the types of a graph without node types: any node may have an edge to any other."""
    return LinkTypes(np.zeros(nodes, np.int64), (None,), np.ones((1, 1), np.bool_))


def link_types(
    graph: Graph, symmetric: bool, node_type: str | None = None, position: int | None = None
) -> LinkTypes | None:
    """The pairs of node types that edges of the graph connect; None if nodes have no types.

    With `node_type`, only edges from the node at `position` to that type or, without a position, edges with an end of
    that type.
    """
    if graph.node_types is None:
        if node_type is not None:
            raise InputError(f"no type {node_type!r}; the graph has none")
        return None
    joined = graph.joined_types(symmetric)
    assert joined is not None
    types = LinkTypes(graph.node_types.codes.astype(np.int64) % len(joined), (*graph.node_types.names, None), joined)
    if node_type is None:
        return types
    code = graph.node_types.code_of(node_type, "type")
    if position is None:
        types = types.with_end(code)
        if not types.allowed.any():
            raise InputError(f"no node of type {node_type!r} has an edge, so no links are proposed")
        return types
    types, own = types.leading_to(code), types.codes[position]
    if not types.allowed[own].any():
        source = "nodes without a type" if types.names[own] is None else f"type {types.names[own]!r}"
        raise InputError(
            f"no edge leads from {source} to type {node_type!r}, so no such links are proposed; leave the type out to "
            "see other links of this node"
        )
    return types


def likely_links(
    embedding: Embedding,
    known: sp.csr_array,
    k: int,
    search: Search | None = None,
    progress: Progress | None = None,
    types: LinkTypes | None = None,
) -> Pairs:
    """The k most probable edges of the whole graph that are not `known` (n, n) and that `types` allows.

    Exact if `search` is, which is the default: nodes whose last answer could still be among the best are searched
    again with a larger k. With a symmetric measure a pair comes once, the smaller position first; `types` must then be
    symmetric. Ties are in the order of positions.
    """
    assert types is None or not embedding.measure.symmetric or (types.allowed == types.allowed.T).all()
    remaining, node_k, done = np.arange(len(embedding)), FIRST_K, 0
    best = BestPairs(checked_count(k), embedding.measure.symmetric)
    while len(remaining):
        unfinished = []
        for part in blocks(len(remaining), NODES):
            nodes = remaining[part]
            positions, values = links_of_each(embedding, known, nodes, node_k, search, types)
            best.add(nodes, positions, values)
            # A node is finished if it has no more answers, or if its last one is worse than the k best.
            more = (positions[:, -1] >= 0) & (positions.shape[1] == node_k) & (values[:, -1] <= best.threshold())
            unfinished.append((nodes[more], values[more, -1]))
            done += len(nodes)
            if progress:
                progress(min(done / len(embedding), 1.0))
        candidates, last = (np.concatenate(column) for column in zip(*unfinished, strict=True))
        remaining, node_k = candidates[last <= best.threshold()], 4 * node_k
    return Pairs(best.positions, best.values)


def links_of(
    embedding: Embedding,
    known: sp.csr_array,
    node: int,
    k: int,
    search: Search | None = None,
    types: LinkTypes | None = None,
) -> Pairs:
    """The k most probable missing edges of the node at this position, by the rules of `likely_links`."""
    positions, values = links_of_each(embedding, known, np.array([node]), checked_count(k), search, types)
    found = positions[0] >= 0
    return Pairs(np.column_stack([np.full(found.sum(), node), positions[0][found]]), values[0][found])


def links_of_each(
    embedding: Embedding,
    known: sp.csr_array,
    nodes: Positions,
    k: int,
    search: Search | None = None,
    types: LinkTypes | None = None,
) -> tuple[Positions, Values]:
    """Positions and dissimilarities (N, k) of the most probable missing edges of each node, as in `nearest_to`."""
    find, k = search or _exact(embedding), min(k, len(embedding))
    exclude = [_no_answers(known, node) for node in nodes.tolist()]
    if types is None:
        return find(embedding.take(nodes), k, exclude, None)
    positions, values = np.full((len(nodes), k), -1, np.int64), np.full((len(nodes), k), np.inf)
    codes = types.codes[nodes]
    # All nodes of a type have the same possible answers, so they are searched together.
    for code in np.unique(codes).tolist():
        rows, among = np.flatnonzero(codes == code), types.allowed[code][types.codes]
        found = find(embedding.take(nodes[rows]), k, [exclude[row] for row in rows], among)
        positions[rows, : found[0].shape[1]], values[rows, : found[1].shape[1]] = found
    return positions, values


def gaussian_candidates(
    embedding: Embedding, known: sp.csr_array, nodes: Positions, k: int, types: LinkTypes
) -> Positions:
    """Return (N, k) the nodes of the smallest dissimilarity to each node that it has no edge with; -1 for none."""
    return links_of_each(embedding, known, nodes, k, None, types)[0]


def _no_answers(known: sp.csr_array, node: int) -> Positions:
    """The node itself and the nodes it has an edge to."""
    return np.append(known.indices[known.indptr[node] : known.indptr[node + 1]], node).astype(np.int64)


def _exact(embedding: Embedding) -> Search:
    return lambda queries, k, exclude, among: embedding.nearest_to(queries, k, exclude=exclude, among=among)


class BestPairs:
    """The k best pairs so far."""

    def __init__(self, k: int, symmetric: bool) -> None:
        self.k, self.symmetric = k, symmetric
        self.positions, self.values = np.empty((0, 2), np.int64), np.empty(0)

    def add(self, nodes: Positions, positions: Positions, values: Values) -> None:
        """Add the answers (N, k) of some nodes."""
        if not positions.shape[1]:
            return
        row, rank = np.nonzero(positions >= 0)
        values = values[row, rank]
        # A pair occurs at most twice among the answers of these nodes, so that twice k are enough.
        if len(values) > 2 * self.k:
            kept = np.argpartition(values, 2 * self.k)[: 2 * self.k]
            row, rank, values = row[kept], rank[kept], values[kept]
        pairs = np.column_stack([nodes[row], positions[row, rank]])
        if self.symmetric:
            pairs = np.sort(pairs, axis=1)
        pairs, values = np.concatenate([self.positions, pairs]), np.concatenate([self.values, values])
        # A pair is found from both of its ends, and again if a node is searched again.
        _, first = np.unique(pairs, axis=0, return_index=True)
        pairs, values = pairs[first], values[first]
        order = np.lexsort((pairs[:, 1], pairs[:, 0], values))[: self.k]
        self.positions, self.values = pairs[order], values[order]

    def threshold(self) -> float:
        """Dissimilarity above which a pair cannot be among the best."""
        return float(self.values[-1]) if len(self.values) >= self.k else np.inf
