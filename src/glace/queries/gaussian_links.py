"""Missing edges by the Gaussians alone: the pairs of the smallest dissimilarity, without comparing all pairs."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from glace.blocks import blocks
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions, Values, checked_count
from glace.queries.pair_features import LinkTypes, Search, links_of_each

FIRST_K = 8
"""Answers requested for each node at first; nodes that may have more among the best get four times as many."""
NODES = 4096
"""Nodes per search, between two reports of progress."""

Progress = Callable[[float], None]


class Pairs(NamedTuple):
    """Pairs of positions (P, 2) and their dissimilarities (P,), the smallest first."""

    positions: Positions
    dissimilarities: Values


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
