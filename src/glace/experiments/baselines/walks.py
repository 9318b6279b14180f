"""Random walks from every node, drawn anew for each round and handed over in blocks.

The walks of a round depend on the seed and the round's number only.
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
"""Walks in memory at a time."""


class WalkSampler:
    """Walks over a graph's edges by weight, along their direction if it is directed, biased as in node2vec.

    `p` and `q` are node2vec's: a step back to the last node is taken by 1/p times its weight, one to a node that
    the last one has no edge to by 1/q times its weight; with both 1 the next node depends on the present one only.
    """

    def __init__(self, graph: Graph, streams: Streams, *, length: int, p: float = 1.0, q: float = 1.0) -> None:
        if graph.adjacency.nnz == 0:
            raise InputError("the graph has no edges; walks need some to go along")
        self.adjacency, self.streams, self.length = graph.adjacency, streams, length
        self.bias = np.array([1 / p, 1.0, 1 / q])
        self.starts = np.flatnonzero(np.diff(graph.adjacency.indptr))
        """(S,) the nodes that a walk can leave; each begins one walk a round."""
        self.largest = walks.largest_weights(graph.adjacency.indptr, graph.adjacency.data)

    def round(self, number: int) -> Iterator[NodeIndex]:
        """One walk from each start, in random order: blocks (W, length), -1 behind the end of a walk."""
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
