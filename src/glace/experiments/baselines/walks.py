"""Random walks from every node, drawn round by round and returned in blocks.

The walks of a round depend only on the seed and the number of the round.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.graph.graph import Graph
from glace.kernels.compile import CSR, FloatArray, IntArray, compiled
from glace.kernels.draws import is_neighbour
from glace.kernels.mixing import GOLDEN, mixed
from glace.rng import Streams

NodeIndex = npt.NDArray[np.int32]
BLOCK = 4096
"""Walks per block."""
TRIES = 16
"""Rejected draws before the whole row is scanned, which bounds the time if weights, p or q are extreme."""
# Typed, because numba converts the sum of an unsigned and a plain integer to a float.
U11, ONE = np.uint64(11), np.uint64(1)


class WalkSampler:
    """Random walks by edge weight, along the direction of the edges, biased as in node2vec.

    `p` and `q` are those of node2vec: the weight of a step back to the previous node is multiplied by 1/p, that of a
    step to a node not joined to the previous one by 1/q. If both are 1, the walk has no memory.
    """

    def __init__(self, graph: Graph, streams: Streams, *, length: int, p: float = 1.0, q: float = 1.0) -> None:
        if graph.adjacency.nnz == 0:
            raise InputError("the graph has no edges; random walks need edges")
        self.adjacency, self.streams, self.length = graph.adjacency, streams, length
        self.csr = (graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data)
        self.bias = np.array([1 / p, 1.0, 1 / q])
        self.starts = np.flatnonzero(np.diff(graph.adjacency.indptr))
        """(S,) the nodes with outgoing edges; each starts one walk per round."""
        self.largest = graph.adjacency.max(axis=1).toarray().astype(np.float64)

    def round(self, number: int) -> Iterator[NodeIndex]:
        """Yield blocks (W, length) with one walk from each start, in random order; -1 after the end of a walk."""
        generator = self.streams.numpy("walks", number)
        order = generator.permutation(self.starts)
        for begin in range(0, len(order), BLOCK):
            starts = order[begin : begin + BLOCK]
            yield self._from(starts, generator.integers(2**64, size=len(starts), dtype=np.uint64))

    def _from(self, starts: npt.NDArray[np.int64], seeds: npt.NDArray[np.uint64]) -> NodeIndex:
        out = np.empty((len(starts), self.length), dtype=np.int32)
        walk(self.csr, self.largest, starts, seeds, self.bias, out)
        return out


@compiled
def walk(csr: CSR, largest: FloatArray, starts: IntArray, seeds: IntArray, bias: FloatArray, out: IntArray) -> None:
    """Write the nodes of walk w to out[w], (W, length) int32, from starts[w] on; -1 after its end.

    `largest` (n,) is the largest weight of each row, `seeds` (W,) is uint64: the draws of a walk are splitmix64 of its
    seed, so a walk does not depend on the others. From t via v, a walk continues to x with probability proportional to
    weight[v, x] times bias[0] if x is t, bias[1] if t has an edge to x, else bias[2]: node2vec's (1/p, 1, 1/q). The
    first step has no t and uses the weight alone. A walk ends at a node without outgoing edges.

    One thread makes eight million steps per second, fifty times what training consumes, so the loop is not parallel:
    compiling it in parallel would take longer than walking most graphs.
    """
    indptr, indices, _ = csr
    top = bias.max()
    for w in range(len(starts)):
        out[w, :] = -1
        before, here, draws = -1, starts[w], np.uint64(0)
        out[w, 0] = here
        for step in range(1, out.shape[1]):
            if indptr[here] == indptr[here + 1]:
                break
            place, draws = _next_by_rejection(csr, largest[here] * top, before, here, bias, seeds[w], draws)
            before, here = here, indices[place]
            out[w, step] = here


@compiled
def _next_by_rejection(
    csr: CSR, bound: float, before: int, here: int, bias: FloatArray, seed: np.uint64, draws: np.uint64
) -> tuple[int, np.uint64]:
    """Return the position in `indices` of the next node, and the number of draws made so far.

    A position is drawn uniformly and accepted with its share of `bound`, which no position exceeds.
    """
    indptr, indices, data = csr
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
    return _next_by_scan(csr, before, here, bias, _uniform(seed, draws)), draws + ONE


@compiled
def _next_by_scan(csr: CSR, before: int, here: int, bias: FloatArray, uniform: float) -> int:
    """Return such a position by scanning the row twice: for its sum, and up to the drawn fraction of it."""
    indptr, indices, data = csr
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
def _bias(indptr: IntArray, indices: IntArray, before: int, node: int, bias: FloatArray) -> float:
    """Return the factor of the weight of a step to `node` after `before`, which is -1 at the start of a walk."""
    if before < 0:
        return bias[1]
    if node == before:
        return bias[0]
    # Equal factors need no search of the row: DeepWalk's walks take half the time.
    if bias[1] == bias[2] or is_neighbour(indptr, indices, before, node):
        return bias[1]
    return bias[2]


@compiled
def _uniform(seed: np.uint64, number: np.uint64) -> float:
    """Return the `number`-th draw of a seed, uniform in [0, 1): splitmix64's output as 53 bits of a float."""
    return np.float64(mixed(seed + (number + ONE) * GOLDEN) >> U11) * 2.0**-53
