"""Graph2Gauss (Bojchevski & Guennemann, ICLR 2018): Gaussians that rank nodes by their hops from an anchor.

Hop sets are computed only around the anchors of a batch and not stored: memory is nine bytes per node, and the cost of
a step does not depend on the size of the graph.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glace.experiments.baselines.encoders import RowEncoder, validator
from glace.experiments.baselines.method import Descent, scaled_attributes, with_unseen
from glace.gaussian.dissimilarity import named
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.kernels.compile import BoolArray, FloatArray, IntArray, compiled
from glace.model.network import using_threads
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import check_negatives_exist
from glace.sparse import Matrix

NodeIndex = npt.NDArray[np.int64]

REACH = 10_000
"""Most edges followed from one hop set to the next; behind hubs of large graphs, the next set is a sample."""
REDRAWS = 16
"""Attempts to draw a node beyond all hop sets; after that, the anchor has none."""


class Triplets(NamedTuple):
    """Each of T rows says that `closer` has fewer hops from `anchor` than `further` has.

    `weight` is the number of triplets of this anchor and these two hop sets, of which the row is a sample.
    """

    anchor: NodeIndex
    closer: NodeIndex
    further: NodeIndex
    weight: npt.NDArray[np.float64]


@dataclass(frozen=True)
class HopBatch:
    """A node from every hop set of every anchor: `nodes` (B, K + 1), -1 where a set is empty.

    Column k holds nodes k + 1 hops from `anchors[b]`, the last column nodes with more than K hops or no path. `sizes`,
    of the same shape, are the sizes of the sets.
    """

    anchors: NodeIndex
    nodes: NodeIndex
    sizes: npt.NDArray[np.float64]

    def triplets(self) -> Triplets:
        """Return a triplet for every anchor and every pair of its non-empty hop sets."""
        second, first = np.tril_indices(self.nodes.shape[1], -1)
        pair, row = np.nonzero(((self.nodes[:, first] >= 0) & (self.nodes[:, second] >= 0)).T)
        closer, further = (row, first[pair]), (row, second[pair])
        weight = self.sizes[closer] * self.sizes[further]
        return Triplets(self.anchors[row], self.nodes[closer], self.nodes[further], weight)


class HopSampler:
    """Draws anchors uniformly from the nodes with edges, and nodes from their hop sets, along the edges' direction.

    Sizes and draws are exact unless more than `reach` edges leave a hop set: then `reach` of them are followed, the
    size of the next set is scaled up, and nodes that were not reached may count as further away.
    """

    def __init__(self, graph: Graph, hops: int, batch: int, streams: Streams, reach: int = REACH) -> None:
        check_negatives_exist(graph)
        self.adjacency, self.hops, self.size, self.reach = graph.adjacency, hops, batch, reach
        self.streams = streams
        self.starts = np.flatnonzero(np.diff(graph.adjacency.indptr))
        self._seen = np.zeros(graph.num_nodes, dtype=np.bool_)
        self._ball = np.empty(graph.num_nodes, dtype=np.int64)

    def batch(self, step: int) -> HopBatch:
        """Return the batch of a step; it depends only on the seed and the number of the step."""
        generator = self.streams.numpy("hops", step)
        anchors = self.starts[generator.integers(len(self.starts), size=self.size)]
        return self.around(anchors, generator)

    def around(self, anchors: NodeIndex, generator: np.random.Generator) -> HopBatch:
        """Return nodes from the hop sets of these anchors."""
        uniform = generator.random((len(anchors), 2 * self.hops))
        candidates = generator.integers(len(self._seen), size=(len(anchors), REDRAWS))
        nodes = np.empty((len(anchors), self.hops + 1), dtype=np.int64)
        sizes = np.empty(nodes.shape)
        graph = self.adjacency.indptr, self.adjacency.indices
        scratch = self._seen, self._ball
        sample_hops(*graph, anchors, uniform, candidates, self.reach, *scratch, nodes, sizes)
        return HopBatch(anchors, nodes, sizes)


@compiled
def sample_hops(
    indptr: IntArray,
    indices: IntArray,
    anchors: IntArray,
    uniform: FloatArray,
    candidates: IntArray,
    reach: int,
    seen: BoolArray,
    ball: IntArray,
    nodes: IntArray,
    sizes: FloatArray,
) -> None:
    """Draw nodes[b, k] uniformly from the nodes k + 1 hops from anchors[b], the last column from those further away.

    `nodes` and `sizes`, the sizes of the hop sets, are (B, K + 1); the node of an empty set is -1. All edges of the
    anchor are followed, but at most `reach` from each later set: consecutive ones from a random start. The size of the
    next set is then scaled up by the fraction of edges followed. `uniform` (B, 2 K) are numbers in [0, 1), `candidates`
    (B, T) uniformly drawn nodes, the first of which outside of all sets is the further node. `seen` (n,), all False,
    and `ball` (n,) are scratch arrays; `seen` is all False again afterwards.
    """
    hops = sizes.shape[1] - 1
    for b in range(len(anchors)):
        ball[0] = anchors[b]
        seen[anchors[b]] = True
        begin, end = 0, 1
        sizes[b, hops] = len(seen) - 1
        for k in range(hops):
            last = ball[begin:end]
            edges = (indptr[last + 1] - indptr[last]).sum()
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
def _follow(
    indptr: IntArray, indices: IntArray, ball: IntArray, begin: int, end: int, start: int, count: int, seen: BoolArray
) -> int:
    """Append to `ball` the unseen targets of `count` edges of its nodes from `begin` to `end`; return its new end.

    Edges are in the order of their sources, from number `start` on; the first follows the last.
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
def _first_unseen(candidates: IntArray, seen: BoolArray) -> int:
    for t in range(len(candidates)):
        if not seen[candidates[t]]:
            return int(candidates[t])
    return -1


ENERGY = named("kl")
"""E_ij = KL(z_j || z_i), for undirected edges too: each end is the anchor in turn."""


@dataclass(frozen=True)
class Graph2Gauss(Descent):
    """The published loss and encoder, with hops sampled batch by batch instead of stored for all pairs.

    A node k hops from an anchor should have a lower energy than a node that is further away: the loss of a triplet is
    E_closer^2 + exp(-E_further). Edges are unweighted, as in the authors' code.
    """

    dim: int = option(64, "Dimensions of a mean, L in the paper.", at_least=1)
    hidden: int = option(512, "Width of the hidden layer.", at_least=1)
    hops: int = option(2, "Hops that are distinguished, K in the paper; all nodes beyond are one group.", at_least=1)
    scaled: bool = option(
        False,
        "Weight a triplet by the sizes of its two hop sets, which gives the loss of all triplets; "
        "off, as in the authors' code, every pair of hop sets counts the same.",
    )
    batch_size: int = option(512, "Anchors per step; each contributes a node from every hop set.", at_least=1)
    learning_rate: float = option(1e-3, "Step size of Adam.", above=0)
    max_steps: int = option(2000, "Maximum number of steps.", at_least=1)

    name: ClassVar[str] = "graph2gauss"
    gaussian: ClassVar[bool] = True

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return the Gaussians of the graph's nodes, then those of `unseen`, from their attributes alone."""
        measure = named("kl" if graph.directed else "symmetric_kl")
        attributes = scaled_attributes(graph, unseen)
        encoder = RowEncoder(attributes, self.hidden, self.dim, streams.numpy("weights graph2gauss"))
        rest, held_out = self.hold_out(graph, validation, streams)
        sampler = HopSampler(rest, self.hops, self.batch_size, streams)

        def loss(step: int) -> Tensor:
            return batch_loss(encoder, attributes, sampler.batch(step).triplets(), self.scaled)

        with using_threads(1):
            self.train(encoder, loss, validator(encoder, attributes, measure, held_out, streams))
            gaussian = encoder.embed(attributes, np.arange(attributes.shape[0]))
        return Embedding(with_unseen(graph.ids, len(gaussian.mean)), gaussian.mean, gaussian.variance, measure.name)


def batch_loss(encoder: RowEncoder, attributes: Matrix, triplets: Triplets, scaled: bool) -> Tensor:
    """Return the mean of E_closer^2 + exp(-E_further), weighted by the triplets' weights if `scaled`."""
    # Distinct nodes are encoded once: the sparse input layer supports one use per step.
    nodes, places = np.unique(np.concatenate(triplets[:3]), return_inverse=True)
    gaussians = encoder(attributes, nodes)
    anchor, closer, further = (gaussians[torch.from_numpy(part)] for part in places.reshape(3, -1))
    loss = ENERGY.direct(anchor, closer) ** 2 + torch.exp(-ENERGY.direct(anchor, further))
    weight = torch.from_numpy((triplets.weight if scaled else np.ones(len(loss))).astype(np.float32))
    total: Tensor = (loss * (weight / weight.sum().clip(1))).sum()
    return total
