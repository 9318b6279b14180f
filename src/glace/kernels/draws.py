"""The rejection of negatives that are neighbours."""

from glace.kernels.compile import BoolArray, IntArray, by_rows, compiled


@compiled
def _first_from(values: IntArray, low: int, high: int, wanted: int) -> int:
    """Return the place of the first of the sorted values from `low` to `high` that is not below the wanted one."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def is_neighbour(indptr: IntArray, indices: IntArray, source: int, target: int) -> bool:
    """Whether `target` is in the sorted adjacency row of `source`."""
    place = _first_from(indices, indptr[source], indptr[source + 1], target)
    return bool(place < indptr[source + 1] and indices[place] == target)


@by_rows(lambda _indptr, _indices, anchors, *_: len(anchors), least=256)
def allowed_pairs(
    indptr: IntArray,
    indices: IntArray,
    anchors: IntArray,
    candidates: IntArray,
    allowed: BoolArray,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Set allowed[b, k], (B, K), to whether candidates[b, k] is neither anchors[b] nor one of its neighbours."""
    for b in range(begin, end):
        for k in range(candidates.shape[1]):
            other = candidates[b, k]
            allowed[b, k] = other != anchors[b] and not is_neighbour(indptr, indices, anchors[b], other)


@by_rows(lambda _indptr, _indices, anchors, *_: len(anchors), least=256)
def allowed_pool(
    indptr: IntArray,
    indices: IntArray,
    anchors: IntArray,
    pool: IntArray,
    allowed: BoolArray,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Set allowed[b, k], (B, M), for one pool (M,) shared by all anchors and sorted ascending.

    Most rows have few neighbours: looking up each of them in the pool is faster than looking up the whole pool.
    """
    for b in range(begin, end):
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
def _forbid(pool: IntArray, node: int, allowed: BoolArray) -> None:
    place = _first_from(pool, 0, len(pool), node)
    while place < len(pool) and pool[place] == node:
        allowed[place] = False
        place += 1
