"""Edges taken out of a graph that is larger than memory: which ones can go, and the graph without them.

Matrices are worked through in blocks, and new ones lie in scratch files.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import BLOCK, blocks
from glace.graph.graph import CleaningReport, Graph, Mapped
from glace.sparse import assembled, entry_blocks, places_of
from glace.storage.mapped import scratch

ENTRIES = BLOCK // 4
"""Entries looked at in one go: each takes some 100 bytes in passing."""

Pairs = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.uint64]


class Removable:
    """The pairs of a symmetric matrix in a random order, without those that are the first of one of their nodes.

    The order is that of a hash of each pair: as good as a permutation, and nothing needs to hold it.
    """

    def __init__(self, neighborhoods: sp.csr_array, generator: np.random.Generator) -> None:
        self.matrix, self.seed = neighborhoods, np.uint64(generator.integers(2**63))
        self.first = scratch((neighborhoods.shape[0],), np.uint64)
        for rows in entry_blocks(neighborhoods, ENTRIES):
            self._note_first(rows)

    def drawn(self, wanted: int) -> tuple[Pairs, int]:
        """As many pairs (smaller, larger) from the front as wanted, sorted, if there are; and how many there are."""
        count, kept, ranks = 0, np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.uint64)
        limit = np.uint64(2**64 - 1)
        for rows in entry_blocks(self.matrix, ENTRIES):
            pairs, own = self._candidates(rows)
            count += len(pairs)
            below = own <= limit
            kept, ranks = np.concatenate([kept, pairs[below]]), np.concatenate([ranks, own[below]])
            if len(ranks) > 2 * wanted + ENTRIES:
                kept, ranks = _foremost(kept, ranks, wanted)
                limit = ranks.max(initial=0)
        kept, _ = _foremost(kept, ranks, wanted)
        return kept[np.lexsort((kept[:, 1], kept[:, 0]))], count

    def _note_first(self, rows: slice) -> None:
        _, _, ranks = self._entries(rows)
        starts = self.matrix.indptr[rows.start : rows.stop + 1].astype(np.int64)
        starts -= starts[0]
        joined = starts[1:] > starts[:-1]
        if len(ranks):
            self.first[rows][joined] = np.minimum.reduceat(ranks, starts[:-1][joined])

    def _candidates(self, rows: slice) -> tuple[Pairs, Ranks]:
        source, target, ranks = self._entries(rows)
        once = source < target
        source, target, ranks = source[once], target[once], ranks[once]
        free = (ranks > self.first[source]) & (ranks > self.first[target])
        return np.column_stack([source[free], target[free]]), ranks[free]

    def _entries(self, rows: slice) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Ranks]:
        """Row, column and rank of the entries of some rows."""
        indptr = self.matrix.indptr[rows.start : rows.stop + 1].astype(np.int64)
        source = np.repeat(np.arange(rows.start, rows.stop), np.diff(indptr))
        target = self.matrix.indices[indptr[0] : indptr[-1]].astype(np.int64)
        keys = np.minimum(source, target) * self.matrix.shape[0] + np.maximum(source, target)
        return source, target, _mixed(keys.astype(np.uint64) + self.seed)


def without_pairs(graph: Graph, pairs: Pairs) -> Graph:
    """The graph without the edges between these pairs of nodes, in whichever direction; mapped from scratch files."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    neighbors = _without(graph.neighborhoods(), both) if graph.directed else None
    adjacency = _without(graph.adjacency, both)
    return replace(graph, adjacency=adjacency, cleaning_report=CleaningReport(), mapped=Mapped(neighbors=neighbors))


def _without(matrix: sp.csr_array, pairs: Pairs) -> sp.csr_array:
    gone = np.sort(places_of(matrix, pairs))
    gone = gone[np.searchsorted(gone, 0) :]
    indptr = scratch(matrix.indptr.shape, matrix.indptr.dtype)
    narrow = gone.astype(indptr.dtype)  # of another type, numpy would copy what it searches
    for part in blocks(len(indptr)):
        indptr[part] = matrix.indptr[part] - np.searchsorted(narrow, matrix.indptr[part])
    arrays = indptr, _deleted(matrix.indices, gone), _deleted(matrix.data, gone)
    for array in arrays:
        array.flags.writeable = False
    return assembled(matrix.shape, *arrays)


def _deleted(array: npt.NDArray[Any], gone: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The array without these places, sorted."""
    left = scratch((len(array) - len(gone),), array.dtype)
    for part in blocks(len(array)):
        begin, end = np.searchsorted(gone, [part.start, part.stop])
        left[part.start - begin : part.stop - end] = np.delete(array[part], gone[begin:end] - part.start)
    return left


def _foremost(pairs: Pairs, ranks: Ranks, count: int) -> tuple[Pairs, Ranks]:
    if len(ranks) <= count:
        return pairs, ranks
    chosen = np.argpartition(ranks, count)[:count]
    return pairs[chosen], ranks[chosen]


def _mixed(keys: Ranks) -> Ranks:
    """splitmix64's finalizer: a bijection, so no two pairs have one rank."""
    keys ^= keys >> np.uint64(30)
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(27)
    keys *= np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    return keys
