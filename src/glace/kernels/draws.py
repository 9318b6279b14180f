"""The rejection of negatives that are neighbours."""

from typing import Any

import numpy as np
from numba import prange

from glace.kernels.compile import compiled


@compiled
def is_neighbour(indptr: Any, indices: Any, source: Any, target: Any) -> Any:
    """Whether target is in the sorted adjacency row of source."""
    low, high = indptr[source], indptr[source + 1]
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low < indptr[source + 1] and indices[low] == target


@compiled
def allowed_pairs(indptr: Any, indices: Any, anchors: Any, candidates: Any, allowed: Any) -> None:
    """allowed[b, k] = candidates[b, k] is neither anchors[b] nor one of its neighbours; (B, K) bool."""
    for b in prange(len(anchors)):
        for k in range(candidates.shape[1]):
            other = candidates[b, k]
            allowed[b, k] = other != anchors[b] and not is_neighbour(indptr, indices, anchors[b], other)


@compiled
def allowed_pool(indptr: Any, indices: Any, anchors: Any, pool: Any, allowed: Any) -> None:
    """The same against one pool (M,) sorted ascending, for all anchors; allowed is (B, M) bool.

    Most rows have few neighbours: looking each of them up in the pool beats looking up the whole pool.
    """
    for b in prange(len(anchors)):
        allowed[b, :] = True
        anchor = anchors[b]
        _forbid(pool, anchor, allowed[b])
        if indptr[anchor + 1] - indptr[anchor] < len(pool):
            for p in range(indptr[anchor], indptr[anchor + 1]):
                _forbid(pool, indices[p], allowed[b])
        else:
            for k in range(len(pool)):
                if is_neighbour(indptr, indices, anchor, pool[k]):
                    allowed[b, k] = False


@compiled
def _forbid(pool: Any, node: Any, allowed: Any) -> None:
    place = np.searchsorted(pool, node)
    while place < len(pool) and pool[place] == node:
        allowed[place] = False
        place += 1
