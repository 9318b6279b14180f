"""Unsupervised GraphSAGE (Hamilton, Ying and Leskovec, 2017): max-pooled neighbours, trained on short random walks."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from glace.experiments.baselines.graph_networks import GraphNetwork, GraphNetworkMethod, View, fitting_input
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import WeightedSampler

NodeIndex = npt.NDArray[np.int64]

BLOCK = 16_384
"""Nodes per block when all points are computed; bounds the memory of their neighbours."""


@dataclass(frozen=True)
class GraphSAGE(GraphNetworkMethod):
    """Two layers, each from a node's own vector and the maximum over its neighbours' projected vectors."""

    name: ClassVar[str] = "graphsage"

    hidden: int = option(128, "Width of the input and the hidden layer.", at_least=1)
    learning_rate: float = option(1e-3, "Step size of Adam.", above=0)
    max_steps: int = option(1000, "Maximum number of steps.", at_least=1)
    patience: int = option(5, "Stop after this many validations without a better AUC.", at_least=1)
    batch_size: int = option(256, "Pairs per step, each from one random walk.", at_least=1)
    walk_length: int = option(5, "Longest walk: a pair is the two ends of a walk of 1 to this many edges.", at_least=1)
    n_negatives: int = option(
        1, "Weight of the mean loss of negatives, Q in the paper, whose 20 learned little.", at_least=1
    )
    negative_pool_size: int = option(200, "Negatives drawn per step, shared by all pairs.", at_least=1)
    negative_power: float = option(
        0.0, "Negatives are drawn by degree^power; 0.75 in the paper, 0 is uniform.", at_least=0
    )
    scale: float = option(
        5.0, "Factor of the dot products in the loss; without it, unit vectors keep the sigmoid close to 1/2.", above=0
    )
    first_hop_samples: int = option(25, "Neighbours sampled per node of the batch.", at_least=1)
    second_hop_samples: int = option(10, "Neighbours sampled for each of those.", at_least=1)

    def network(self, library: Any, view: View, streams: Streams) -> GraphNetwork:
        """Return an untrained network."""
        return Sage(library, view, self, streams)


class Hop(NamedTuple):
    """The edges of one layer, (2, E): from positions in the distinct `sources` to positions of the computed nodes.

    `own` are the positions of the computed nodes among the sources.
    """

    sources: NodeIndex
    own: NodeIndex
    edges: NodeIndex


class Sage(GraphNetwork):
    """The input layer, then two layers of torch_geometric's SAGEConv; points have length 1.

    The input layer reduces the number of columns. Without it, the first projection would be D x D.
    """

    def __init__(self, library: Any, view: View, options: GraphSAGE, streams: Streams) -> None:
        super().__init__()
        self.options, self.streams = options, streams
        self.input = fitting_input(view, options.hidden, streams)
        widths = [options.hidden, options.hidden, options.dim]
        self.layers = nn.ModuleList(library.SAGEConv(*ends, aggr="max", project=True) for ends in pairwise(widths))
        degrees = np.asarray(view.adjacency.sum(axis=1), dtype=np.float64)
        self.starts, self.noise = (
            WeightedSampler((degrees > 0).astype(float)),
            WeightedSampler(degrees**options.negative_power),
        )
        self.cumulated = np.concatenate([[0.0], np.cumsum(view.adjacency.data, dtype=np.float64)])

    def loss(self, view: View, step: int) -> Tensor:
        """Return the mean over pairs (u, v) of -log sigmoid(s z_u z_v) - Q mean over n of log sigmoid(-s z_u z_n)."""
        anchors, targets = self._pairs(view.adjacency, step)
        negatives = self.noise.draw(self.streams.numpy("negatives", step), self.options.negative_pool_size)
        nodes, places = np.unique(np.concatenate([anchors, targets, negatives]), return_inverse=True)
        z = self._sampled(view, nodes, self.streams.numpy("neighbours", step))
        # functional.embedding gathers rows like indexing, but sums its gradient in a fixed order.
        rows = functional.embedding(torch.from_numpy(places), z)
        anchor, target, noise = torch.split(rows, [len(anchors), len(targets), len(negatives)])
        positive_loss = -functional.logsigmoid(self.options.scale * (anchor * target).sum(1)).mean()
        negative_loss = -functional.logsigmoid(-self.options.scale * anchor @ noise.T).mean()
        return positive_loss + self.options.n_negatives * negative_loss

    def points(self, view: View) -> Tensor:
        """Return the points (n, dim) from all neighbours, layer by layer."""
        with torch.no_grad():
            x: Tensor = self.input(view.attributes, np.arange(view.size))
            for number in range(len(self.layers)):
                blocks = np.split(np.arange(view.size), range(BLOCK, view.size, BLOCK))
                hops = (hop(view.adjacency, block) for block in blocks)
                x = torch.cat([self._layer(number, x[each.sources], each) for each in hops])
        return x

    def _sampled(self, view: View, nodes: NodeIndex, generator: np.random.Generator) -> Tensor:
        """Return the points of these nodes from sampled neighbours of the first and second order."""
        last = hop(view.adjacency, nodes, self.options.first_hop_samples, generator)
        first = hop(view.adjacency, last.sources, self.options.second_hop_samples, generator)
        return self._layer(1, self._layer(0, self.input(view.attributes, first.sources), first), last)

    def _layer(self, number: int, x: Tensor, hop: Hop) -> Tensor:
        own = functional.embedding(torch.from_numpy(hop.own), x)
        out = self.layers[number]((x, own), torch.from_numpy(hop.edges), (len(x), len(own)))
        # The original also normalises the inner layer, which costs a point of validation AUC on Cora-ML.
        return torch.relu(out) if number < len(self.layers) - 1 else functional.normalize(out, dim=1)

    def _pairs(self, adjacency: sp.csr_array, step: int) -> tuple[NodeIndex, NodeIndex]:
        """Return the ends of `batch_size` walks of 1 to `walk_length` edges."""
        generator = self.streams.numpy("walks", step)
        starts = self.starts.draw(generator, self.options.batch_size)
        lengths = generator.integers(1, self.options.walk_length + 1, size=len(starts))
        ends = starts.copy()
        for length in range(self.options.walk_length):
            going = lengths > length
            ends[going] = self._next(adjacency, ends[going], generator)
        return starts, ends

    def _next(self, adjacency: sp.csr_array, nodes: NodeIndex, generator: np.random.Generator) -> NodeIndex:
        """Draw a neighbour of each node by the weight of the edge."""
        begin, end = adjacency.indptr[nodes], adjacency.indptr[nodes + 1]
        low, high = self.cumulated[begin], self.cumulated[end]
        places = np.searchsorted(self.cumulated, low + generator.random(len(nodes)) * (high - low), "right") - 1
        return np.asarray(adjacency.indices[np.clip(places, begin, end - 1)], dtype=np.int64)


def hop(
    adjacency: sp.csr_array, nodes: NodeIndex, most: int | None = None, generator: np.random.Generator | None = None
) -> Hop:
    """Return the edges into these nodes, all of them or at most `most` per node.

    If a node has more, its neighbours are drawn with replacement: for a maximum, that is a smaller sample.
    """
    begin = adjacency.indptr[nodes].astype(np.int64)
    degrees = adjacency.indptr[nodes + 1] - begin
    counts = degrees if most is None else np.minimum(degrees, most)
    rows = np.repeat(np.arange(len(nodes)), counts)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    if generator is not None:
        drawn = (generator.random(len(rows)) * degrees[rows]).astype(np.int64)
        offsets = np.where((degrees > counts)[rows], drawn, offsets)
    neighbours = adjacency.indices[begin[rows] + offsets]
    sources, places = np.unique(np.concatenate([nodes, neighbours]), return_inverse=True)
    return Hop(sources, places[: len(nodes)], np.stack([places[len(nodes) :], rows]))
