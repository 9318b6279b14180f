"""Holding out edges to be predicted, with as many pairs that are no edges."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.graph.graph import Graph


@dataclass(frozen=True)
class HeldOut:
    """Pairs of node numbers (P, 2) that were edges, and as many that never were."""

    edges: npt.NDArray[np.int64]
    non_edges: npt.NDArray[np.int64]

    def pairs(self) -> npt.NDArray[np.int64]:
        """(2P, 2): the edges, then the non-edges."""
        return np.concatenate([self.edges, self.non_edges])

    def truth(self) -> npt.NDArray[np.bool_]:
        """(2P,): True for the edges."""
        return np.repeat([True, False], [len(self.edges), len(self.non_edges)])


def hold_out(graph: Graph, share: float, generator: np.random.Generator) -> tuple[Graph, HeldOut]:
    """The graph without a `share` of its edges, and these; every node that had an edge keeps one.

    Splits are over unordered pairs: if a directed graph has both a->b and b->a, they stay or go together,
    so that no held-out edge can be read off its reverse.
    """
    if not 0 < share < 1:
        raise InputError(f"the share to hold out must be above 0 and below 1, not {share}")
    edges, weights = graph.edges_and_weights()
    pair_of_edge, pairs = _unordered(edges, graph.num_nodes)
    wanted = round(share * len(pairs))
    order = generator.permutation(len(pairs))
    removable = order[~_needed(pairs[order], graph.num_nodes)]
    if wanted < 1 or wanted > len(removable):
        raise InputError(
            f"cannot hold out {share:.0%} of {len(pairs):,} edges ({wanted:,}): while every node keeps an edge, "
            f"{len(removable):,} can go and at least 1 must; hold out another share, or none (validation_share=0)"
        )
    gone = np.zeros(len(pairs), dtype=bool)
    gone[removable[:wanted]] = True
    removed = gone[pair_of_edge]
    held_out = HeldOut(edges[removed], sample_non_edges(graph, int(removed.sum()), generator))
    return graph.with_edges(edges[~removed], weights[~removed]), held_out


def sample_non_edges(graph: Graph, count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """`count` distinct pairs of different nodes, drawn evenly among those that are no edge."""
    size = graph.num_nodes
    possible = size * (size - 1) // (1 if graph.directed else 2) - graph.num_edges
    if possible < count:
        raise InputError(f"the graph has only {possible:,} pairs that are no edge, but {count:,} are wanted")
    found = np.empty((0, 2), dtype=np.int64)
    while len(found) < count:
        drawn = generator.integers(size, size=(2 * count + 16, 2))
        if not graph.directed:
            drawn.sort(axis=1)
        drawn = drawn[(drawn[:, 0] != drawn[:, 1]) & ~graph.has_edges(drawn)]
        found = _distinct(np.concatenate([found, drawn]), size)
    return found[:count]


def _unordered(
    edges: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each edge the number of its pair, and the pairs, (smaller, larger) and sorted, each once."""
    ordered = np.sort(edges, axis=1)
    of_edge = ordered[:, 0] * size + ordered[:, 1]
    if (of_edge[1:] > of_edge[:-1]).all():  # so it is for every undirected graph: nothing to sort
        return np.arange(len(edges)), ordered
    keys, pair_of_edge = np.unique(of_edge, return_inverse=True)
    return pair_of_edge, np.column_stack([keys // size, keys % size])


def _needed(pairs: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.bool_]:
    """Which pairs, in their order, are the first one of at least one of their two nodes."""
    first = np.full(size, len(pairs))
    for side in (0, 1):
        np.minimum.at(first, pairs[:, side], np.arange(len(pairs)))
    needed = np.zeros(len(pairs) + 1, dtype=bool)
    needed[first] = True
    return needed[:-1]


def _distinct(pairs: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """The pairs without repetition, in the order of their first occurrence."""
    keys = pairs[:, 0] * size + pairs[:, 1]
    # Few are repeated, so only those are put into order with their places: of 3 million keys a plain sort takes
    # 0.03 s, one that gives the places 0.4 s.
    ordered = np.sort(keys)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated) == 0:
        return pairs
    among = np.flatnonzero(repeated[np.searchsorted(repeated, keys).clip(max=len(repeated) - 1)] == keys)
    kept = np.ones(len(keys), dtype=bool)
    kept[among] = False
    kept[among[np.unique(keys[among], return_index=True)[1]]] = True
    return np.asarray(pairs[kept])
