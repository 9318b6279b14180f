"""One node from each ring of nodes around an anchor, by a breadth-first search that stops early."""

from typing import Any

from glace.kernels.compile import compiled


@compiled
def sample_rings(
    indptr: Any,
    indices: Any,
    anchors: Any,
    uniform: Any,
    candidates: Any,
    reach: Any,
    seen: Any,
    ball: Any,
    nodes: Any,
    sizes: Any,
) -> None:
    """nodes[b, k]: drawn evenly among the nodes k + 1 hops from anchors[b], in the last column among those farther.

    `nodes` and `sizes`, the numbers of nodes drawn from, are (B, K + 1); an empty ring has the node -1.
    All edges of the anchor are followed, but no more than `reach` from each later ring: an even stretch of
    them from a random start. The ring's size is then scaled up by the share of edges that were not followed.
    `uniform` (B, 2 K) are numbers in [0, 1), `candidates` (B, T) even draws of nodes, of which the first one
    outside of the rings is the farther node. `seen` (n,) False and `ball` (n,) are scratch, left as they came.
    """
    hops = sizes.shape[1] - 1
    for b in range(len(anchors)):
        ball[0] = anchors[b]
        seen[anchors[b]] = True
        begin, end = 0, 1
        sizes[b, hops] = len(seen) - 1
        for k in range(hops):
            edges = _edges_from(indptr, ball, begin, end)
            followed = edges if k == 0 else min(edges, reach)
            start = int(uniform[b, 2 * k] * edges) if followed < edges else 0
            new_end = _follow(indptr, indices, ball, begin, end, start, followed, seen)
            begin, end = end, new_end
            sizes[b, k] = (end - begin) * (edges / followed) if followed > 0 else 0.0
            sizes[b, hops] = max(sizes[b, hops] - sizes[b, k], 0.0)
            nodes[b, k] = ball[begin + int(uniform[b, 2 * k + 1] * (end - begin))] if end > begin else -1
        nodes[b, hops] = _first_unseen(candidates[b], seen)
        for place in range(end):
            seen[ball[place]] = False


@compiled
def _edges_from(indptr: Any, ball: Any, begin: Any, end: Any) -> Any:
    total = 0
    for place in range(begin, end):
        total += indptr[ball[place] + 1] - indptr[ball[place]]
    return total


@compiled
def _follow(indptr: Any, indices: Any, ball: Any, begin: Any, end: Any, start: Any, count: Any, seen: Any) -> Any:
    """Append to `ball` the unseen ends of `count` edges from its nodes begin to end; where it ends then.

    The edges stand in the order of their sources; from number `start` on, after the last comes the first.
    """
    place, new_end = begin, end
    while count > 0 and start >= indptr[ball[place] + 1] - indptr[ball[place]]:
        start -= indptr[ball[place] + 1] - indptr[ball[place]]
        place += 1
    while count > 0:
        first = indptr[ball[place]] + start
        last = min(indptr[ball[place] + 1], first + count)
        for p in range(first, last):
            if not seen[indices[p]]:
                seen[indices[p]] = True
                ball[new_end] = indices[p]
                new_end += 1
        count -= last - first
        start = 0
        place = place + 1 if place + 1 < end else begin
    return new_end


@compiled
def _first_unseen(candidates: Any, seen: Any) -> Any:
    for t in range(len(candidates)):
        if not seen[candidates[t]]:
            return candidates[t]
    return -1
