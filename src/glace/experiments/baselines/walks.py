"""Random walks from every node, drawn round by round and returned in blocks.

The walks of a round depend only on the seed and the number of the round.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.experiments.baselines import walk_kernels as walks
from glace.graph.graph import Graph
from glace.rng import Streams

NodeIndex = npt.NDArray[np.int32]
BLOCK = 4096
"""Walks per block."""


class WalkSampler:
    """Random walks by edge weight, along the direction of the edges, biased as in node2vec.

    `p` and `q` are those of node2vec: the weight of a step back to the previous node is multiplied by 1/p, that of a
    step to a node not joined to the previous one by 1/q. If both are 1, the walk has no memory.
    """

    def __init__(self, graph: Graph, streams: Streams, *, length: int, p: float = 1.0, q: float = 1.0) -> None:
        if graph.adjacency.nnz == 0:
            raise InputError("the graph has no edges; random walks need edges")
        self.adjacency, self.streams, self.length = graph.adjacency, streams, length
        self.bias = np.array([1 / p, 1.0, 1 / q])
        self.starts = np.flatnonzero(np.diff(graph.adjacency.indptr))
        """(S,) the nodes with outgoing edges; each starts one walk per round."""
        self.largest = walks.largest_weights(graph.adjacency.indptr, graph.adjacency.data)

    def round(self, number: int) -> Iterator[NodeIndex]:
        """Yield blocks (W, length) with one walk from each start, in random order; -1 after the end of a walk."""
        generator = self.streams.numpy("walks", number)
        order = generator.permutation(self.starts)
        for begin in range(0, len(order), BLOCK):
            starts = order[begin : begin + BLOCK]
            yield self._from(starts, generator.integers(2**64, size=len(starts), dtype=np.uint64))

    def _from(self, starts: npt.NDArray[np.int64], seeds: npt.NDArray[np.uint64]) -> NodeIndex:
        out = np.empty((len(starts), self.length), dtype=np.int32)
        matrix = self.adjacency
        walks.walk(matrix.indptr, matrix.indices, matrix.data, self.largest, starts, seeds, self.bias, out)
        return out
