"""Random pairs of nodes that are not edges, the negatives of link prediction."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.graph.graph import Graph

Pairs = npt.NDArray[np.int64]
MAX_ROUNDS = 1000
"""Rounds of drawing; one or two are enough unless nearly every possible pair is an edge."""


def sample_non_edges(graph: Graph, count: int, generator: np.random.Generator) -> Pairs:
    """Return `count` distinct pairs of different nodes, drawn evenly from those that are not edges.

    If nodes have types, the ends of a pair have the types of a random edge: an edge between a word and a meaning must
    be distinguished from other pairs of a word and a meaning.
    """
    size = graph.num_nodes
    if graph.node_types is not None:
        return _typed_non_edges(graph, np.arange(graph.adjacency.nnz), None, count, generator)

    def draw(number: int) -> Pairs:
        drawn = generator.integers(size, size=(number, 2))
        return drawn if graph.directed else np.sort(drawn, axis=1)

    possible = size * (size - 1) // (1 if graph.directed else 2) - graph.num_edges
    return _non_edges(graph, count, possible, draw, "")


def hidden_non_edges(graph: Graph, visible: int, count: int, generator: np.random.Generator) -> Pairs:
    """Return pairs like `sample_non_edges`, each with at least one of the nodes from number `visible` on."""
    size = graph.num_nodes
    if graph.node_types is not None:
        start = int(graph.adjacency.indptr[visible])
        above = np.flatnonzero(graph.adjacency.indices[:start] >= visible)
        entries = np.concatenate([above, np.arange(start, graph.adjacency.nnz)])
        return _typed_non_edges(graph, entries, visible, count, generator)

    def draw(number: int) -> Pairs:
        # Of two hidden nodes only one order is kept; otherwise such pairs would be drawn twice as often.
        hidden, other = generator.integers(visible, size, number), generator.integers(size, size=number)
        drawn = np.column_stack([other, hidden])[other < hidden]
        turned = graph.directed & (generator.random(len(drawn)) < 0.5)
        return np.where(turned[:, None], drawn[:, ::-1], drawn)

    pairs = size * (size - 1) - visible * (visible - 1)
    touching = graph.num_edges - graph.take(np.arange(visible)).num_edges
    possible = pairs // (1 if graph.directed else 2) - touching
    return _non_edges(graph, count, possible, draw, " and have a hidden node")


def _typed_non_edges(
    graph: Graph, entries: Pairs, visible: int | None, count: int, generator: np.random.Generator
) -> Pairs:
    """Return `count` distinct pairs, made from the edges at these `entries` by replacing both ends.

    A node is replaced by one of its type; if `visible` is given, a node from that number on by another such node.
    """
    assert graph.node_types is not None
    classes = graph.node_types.codes.astype(np.int64) + 1
    if visible is not None:
        classes = classes * 2 + (np.arange(len(classes)) >= visible)
    nodes_by_class, counts = np.argsort(classes, kind="stable"), np.bincount(classes)
    first = np.cumsum(counts) - counts

    def replaced(nodes: Pairs) -> Pairs:
        own = classes[nodes]
        return np.asarray(nodes_by_class[first[own] + generator.integers(counts[own])])

    def draw(number: int) -> Pairs:
        chosen = entries[generator.integers(len(entries), size=number)]
        places = chosen.astype(graph.adjacency.indptr.dtype)
        sources = np.searchsorted(graph.adjacency.indptr, places, side="right") - 1
        drawn = np.column_stack([replaced(sources), replaced(graph.adjacency.indices[chosen])])
        return drawn if graph.directed else np.sort(drawn, axis=1)

    return _non_edges(graph, count, count, draw, " and have the types of an edge")


def _non_edges(graph: Graph, count: int, possible: int, draw: Callable[[int], Pairs], kind: str) -> Pairs:
    """Return `count` distinct pairs from `draw` that are not edges; there are `possible` such pairs."""
    if possible < count:
        raise InputError(f"the graph has only {possible:,} pairs that are no edge{kind}, but {count:,} are wanted")
    found, rounds = np.empty((0, 2), dtype=np.int64), 0
    while len(found) < count:
        drawn = draw(2 * count + 16)
        drawn = drawn[(drawn[:, 0] != drawn[:, 1]) & ~graph.has_edges(drawn)]
        found = distinct_pairs(np.concatenate([found, drawn]), graph.num_nodes)
        rounds += 1
        if rounds == MAX_ROUNDS:
            raise InputError(
                f"only {len(found):,} pairs that are no edge{kind} were found in {rounds} rounds of drawing, but "
                f"{count:,} are wanted: nearly all such pairs are edges"
            )
    return found[:count]


def distinct_pairs(pairs: Pairs, size: int) -> Pairs:
    """Return the pairs without repetition, in the order of their first occurrence."""
    keys = pairs[:, 0] * size + pairs[:, 1]
    # Few pairs are repeated, so only those are sorted with their positions: sorting 3 million keys takes 0.03 s,
    # with positions 0.4 s.
    ordered = np.sort(keys)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated) == 0:
        return pairs
    among = np.flatnonzero(repeated[np.searchsorted(repeated, keys).clip(max=len(repeated) - 1)] == keys)
    kept = np.ones(len(keys), dtype=bool)
    kept[among] = False
    kept[among[np.unique(keys[among], return_index=True)[1]]] = True
    return np.asarray(pairs[kept])
