"""Random walks over a CSR adjacency, with the second-order bias of node2vec.

Every walk has its own seed, and its draws are a function of that seed and their number (splitmix64): a walk
does not depend on the others. One thread makes eight million steps a second, fifty times what any training on
them takes in: the loops are not made parallel, which would take longer to compile than most graphs to walk.
"""

from typing import Any

import numpy as np

from glace.kernels.compile import compiled
from glace.kernels.draws import is_neighbour
from glace.kernels.mixing import GOLDEN, mixed

# Draws that may be rejected before the row is read whole. Either way of drawing is exact, so the choice between
# them is not seen in the walks; it bounds the time where weights, p or q are extreme.
TRIES = 16
# Typed, because numba makes a float of an unsigned number and a plain one.
U11, ONE = np.uint64(11), np.uint64(1)


@compiled
def walk(indptr: Any, indices: Any, data: Any, largest: Any, starts: Any, seeds: Any, bias: Any, out: Any) -> None:
    """out[w] = the nodes that walk w visits from starts[w] on, and -1 behind its end; (W, length) int32.

    `largest` is (n,), the largest weight of each row (`largest_weights`); `seeds` is (W,) uint64. From t over v,
    a walk goes on to x by weight[v, x] times bias[0] if x is t, bias[1] if t has an edge to x, else bias[2]:
    node2vec's (1/p, 1, 1/q). The first step has no t and goes by weight alone. A walk ends where no edge leaves.
    """
    top = bias.max()
    for w in range(len(starts)):
        out[w, :] = -1
        before, here, draws = -1, starts[w], np.uint64(0)
        out[w, 0] = here
        for step in range(1, out.shape[1]):
            if indptr[here] == indptr[here + 1]:
                break
            place, draws = _by_rejection(
                indptr, indices, data, largest[here] * top, before, here, bias, seeds[w], draws
            )
            before, here = here, indices[place]
            out[w, step] = here


@compiled
def largest_weights(indptr: Any, data: Any) -> Any:
    """(n,) float64: the largest weight of each row, 0 of an empty one."""
    out = np.zeros(len(indptr) - 1)
    for row in range(len(out)):
        for p in range(indptr[row], indptr[row + 1]):
            out[row] = max(out[row], data[p])
    return out


@compiled
def _by_rejection(
    indptr: Any,
    indices: Any,
    data: Any,
    bound: Any,
    before: Any,
    here: Any,
    bias: Any,
    seed: Any,
    draws: Any,
) -> Any:
    """The place in `indices` of the next node, and the number of draws made so far.

    Draw a place evenly, keep it with its share of `bound`, which no place exceeds.
    """
    begin, degree = indptr[here], indptr[here + 1] - indptr[here]
    for _ in range(TRIES):
        place = begin + min(np.int64(_uniform(seed, draws) * degree), degree - 1)
        draws += ONE
        share = data[place] * _bias(indptr, indices, before, indices[place], bias)
        if share >= bound:
            return place, draws
        draws += ONE
        if _uniform(seed, draws - ONE) * bound < share:
            return place, draws
    return _by_reading(indptr, indices, data, before, here, bias, _uniform(seed, draws)), draws + ONE


@compiled
def _by_reading(indptr: Any, indices: Any, data: Any, before: Any, here: Any, bias: Any, uniform: Any) -> Any:
    """The same place by reading the row whole, twice: for the sum, and up to the drawn part of it."""
    total = 0.0
    for place in range(indptr[here], indptr[here + 1]):
        total += data[place] * _bias(indptr, indices, before, indices[place], bias)
    left = uniform * total
    for place in range(indptr[here], indptr[here + 1]):
        left -= data[place] * _bias(indptr, indices, before, indices[place], bias)
        if left < 0.0:
            return place
    return indptr[here + 1] - 1


@compiled
def _bias(indptr: Any, indices: Any, before: Any, node: Any, bias: Any) -> Any:
    """How much likelier than by its weight the walk goes to `node`, having come from `before`; -1 is the start."""
    if before < 0:
        return bias[1]
    if node == before:
        return bias[0]
    # Without bias between near and far, no row need be searched: DeepWalk's walks take half the time.
    if bias[1] == bias[2] or is_neighbour(indptr, indices, before, node):
        return bias[1]
    return bias[2]


@compiled
def _uniform(seed: Any, number: Any) -> Any:
    """The `number`-th draw of a seed, evenly from [0, 1): splitmix64's output as 53 bits of a float."""
    return np.float64(mixed(seed + (number + ONE) * GOLDEN) >> U11) * 2.0**-53
