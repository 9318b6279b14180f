"""Batches of nodes by their hops from an anchor: the rankings that Graph2Gauss learns from.

Rings are searched for around the anchors of a batch only and forgotten after it: memory is one number and one
mark a node, and the cost of a step does not depend on the size of the graph.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glace.experiments.baselines import hop_kernels as kernel
from glace.graph.graph import Graph
from glace.rng import Streams
from glace.sampling.edges import check_negatives_exist

NodeIndex = npt.NDArray[np.int64]

REACH = 10_000
"""Edges followed from one ring to the next: what lies behind the hubs of a large graph is drawn from in part."""
REDRAWS = 16
"""Even draws of a node until one is farther than all rings; after that the anchor goes without."""


class Triplets(NamedTuple):
    """Each of T rows says that `near` has fewer hops from `anchor` than `far` has.

    `weight` is the number of such triplets of that anchor and these two rings that the row stands for.
    """

    anchor: NodeIndex
    near: NodeIndex
    far: NodeIndex
    weight: npt.NDArray[np.float64]


@dataclass(frozen=True)
class HopBatch:
    """One node of every ring of every anchor: `nodes` (B, K + 1), -1 where a ring is empty.

    Column k has nodes k + 1 hops from `anchors[b]`, the last one a node with more than K hops or no way at all.
    `sizes`, of the same shape, are the numbers of nodes drawn from.
    """

    anchors: NodeIndex
    nodes: NodeIndex
    sizes: npt.NDArray[np.float64]

    def triplets(self) -> Triplets:
        """Every pair of rings that both have a node, for every anchor."""
        pairs = [_ranked(self, near, far) for far in range(self.nodes.shape[1]) for near in range(far)]
        return Triplets(*(np.concatenate(part) for part in zip(*pairs, strict=True)))


def _ranked(batch: HopBatch, near: int, far: int) -> Triplets:
    there = (batch.nodes[:, near] >= 0) & (batch.nodes[:, far] >= 0)
    weight = batch.sizes[there, near] * batch.sizes[there, far]
    return Triplets(batch.anchors[there], batch.nodes[there, near], batch.nodes[there, far], weight)


class HopSampler:
    """Draws anchors evenly among the nodes that have edges, and their rings along the edges' direction.

    The size of the first ring is exact. So are the others and every draw, except around an anchor from one of
    whose rings lead more than `reach` edges: of those `reach` are followed, the next ring's size is scaled up
    by the rest, and a node not reached so may be drawn as one that is farther.
    """

    def __init__(self, graph: Graph, hops: int, batch: int, streams: Streams, reach: int = REACH) -> None:
        check_negatives_exist(graph)
        self.adjacency, self.hops, self.size, self.reach = graph.adjacency, hops, batch, reach
        self.streams = streams
        self.starts = np.flatnonzero(np.diff(graph.adjacency.indptr))
        self._seen = np.zeros(graph.num_nodes, dtype=np.bool_)
        self._ball = np.empty(graph.num_nodes, dtype=np.int64)

    def batch(self, step: int) -> HopBatch:
        """The batch of this step, which depends on the seed and the step's number only."""
        generator = self.streams.numpy("hops", step)
        anchors = self.starts[generator.integers(len(self.starts), size=self.size)]
        return self.around(anchors, generator)

    def around(self, anchors: NodeIndex, generator: np.random.Generator) -> HopBatch:
        """The rings of these anchors."""
        uniform = generator.random((len(anchors), 2 * self.hops))
        candidates = generator.integers(len(self._seen), size=(len(anchors), REDRAWS))
        nodes = np.empty((len(anchors), self.hops + 1), dtype=np.int64)
        sizes = np.empty(nodes.shape)
        graph = self.adjacency.indptr, self.adjacency.indices
        scratch = self._seen, self._ball
        kernel.sample_rings(*graph, anchors, uniform, candidates, self.reach, *scratch, nodes, sizes)
        return HopBatch(anchors, nodes, sizes)
