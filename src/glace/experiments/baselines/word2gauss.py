"""word2gauss (Vilnis & McCallum, ICLR 2015) on random walks: Gaussian skip-gram with a max-margin loss of energies."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glace.experiments.baselines.encoders import Encoder, NodeIndex, identity, validator
from glace.experiments.baselines.method import Descent, refuse_unseen
from glace.experiments.baselines.node2vec import WalkSampler
from glace.gaussian.dissimilarity import Gaussian, named
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.model.inputs import InputShape
from glace.model.layers import input_layer
from glace.model.network import gathered, using_threads
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import WeightedSampler
from glace.sparse import Matrix

ENERGY = named("kl")
"""Minus the energy of the paper: KL(z_context || z_node)."""


class SkipGrams(NamedTuple):
    """Nodes (B,) of walks, nodes near them in the same walk, and random nodes."""

    nodes: NodeIndex
    contexts: NodeIndex
    others: NodeIndex


@dataclass(frozen=True)
class Word2Gauss(Descent):
    """Walks are sentences, nodes are words, and every node has a Gaussian of its own, without attributes.

    The energy of a node and a context of it should be higher than that with a random node, by a margin:
    max(0, margin + KL(context || node) - KL(other || node)).
    """

    dim: int = option(64, "Dimensions of a mean.", at_least=1)
    length: int = option(40, "Nodes per walk.", at_least=2)
    window: int = option(5, "Largest distance in a walk of a node and its context.", at_least=1)
    margin: float = option(1.0, "Margin between the energies of contexts and of random nodes.", above=0)
    least_variance: float = option(0.05, "Lower bound of variances.", above=0)
    largest_variance: float = option(5.0, "Upper bound of variances.", above=0)
    longest_mean: float = option(5.0, "Upper bound of the length of a mean.", above=0)
    negative_power: float = option(0.75, "Random nodes are drawn by degree^power.", at_least=0)
    batch_size: int = option(1024, "Pairs per step.", at_least=1)
    learning_rate: float = option(1e-2, "Step size of Adam.", above=0)
    max_steps: int = option(3000, "Maximum number of steps.", at_least=1)

    name: ClassVar[str] = "word2gauss"
    inductive: ClassVar[bool] = False
    gaussian: ClassVar[bool] = True

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return the Gaussians; that of a node which no walk visits stays as it was drawn."""
        refuse_unseen(self.name, unseen)
        rest, held_out = self.hold_out(graph, validation, streams)
        measure, table = named("kl" if graph.directed else "symmetric_kl"), identity(graph.num_nodes)
        network, batches = GaussianTable(graph.num_nodes, self, streams), skip_grams(rest, self, streams)

        def loss(_: int) -> Tensor:
            return batch_loss(network, table, next(batches), self.margin)

        with using_threads(1):
            self.train(network, loss, validator(network, table, measure, held_out, streams))
            gaussian = network.embed(table, np.arange(graph.num_nodes))
        return Embedding(graph.ids, gaussian.mean, gaussian.variance, measure.name)


class GaussianTable(Encoder):
    """A Gaussian for each node: variances between two bounds, means not longer than a third."""

    def __init__(self, size: int, options: Word2Gauss, streams: Streams) -> None:
        super().__init__()
        self.options, generator = options, streams.numpy("weights word2gauss")
        shape = InputShape(size, True, one_hot=True)
        self.table = input_layer(shape, 2 * options.dim, generator, fan_in=1)

    def forward(self, matrix: Matrix, rows: NodeIndex) -> Gaussian:
        """Return the Gaussians of the nodes of a one-hot matrix."""
        mean, raw = self.table(matrix, rows).chunk(2, dim=1)
        length = mean.square().sum(1, keepdim=True).clamp_min(1e-12).sqrt()
        low, high = math.log(self.options.least_variance), math.log(self.options.largest_variance)
        variance = torch.exp(low + (high - low) * torch.sigmoid(raw))
        return Gaussian(mean * (self.options.longest_mean / length).clamp_max(1), variance)


def skip_grams(graph: Graph, options: Word2Gauss, streams: Streams) -> Iterator[SkipGrams]:
    """Yield batches without end: pairs of all nodes of the walks with one context each, in random order."""
    walks = WalkSampler(graph, streams, length=options.length)
    degrees = np.asarray(graph.neighborhoods().sum(axis=1), dtype=np.float64)
    noise = WeightedSampler(degrees**options.negative_power)
    number = count()
    for round_number in count():
        for block in walks.round(round_number):
            generator = streams.numpy("contexts", next(number))
            pairs = generator.permutation(contexts(block, options.window, generator))
            for at in range(0, len(pairs), options.batch_size):
                nodes, near = pairs[at : at + options.batch_size].T
                yield SkipGrams(nodes, near, noise.draw(generator, len(nodes)))


def contexts(walks: npt.NDArray[np.int32], window: int, generator: np.random.Generator) -> NodeIndex:
    """Return pairs (P, 2): each node of each walk with the node 1 to `window` steps later, unless the walk ends."""
    steps = generator.integers(1, window + 1, size=walks.shape)
    later = np.arange(walks.shape[1]) + steps
    row = np.broadcast_to(np.arange(len(walks))[:, None], walks.shape)
    near = walks[row, np.minimum(later, walks.shape[1] - 1)]
    there = (later < walks.shape[1]) & (walks >= 0) & (near >= 0) & (near != walks)
    return np.column_stack([walks[there], near[there]]).astype(np.int64)


def batch_loss(network: GaussianTable, table: Matrix, batch: SkipGrams, margin: float) -> Tensor:
    """Return the mean of max(0, margin + KL(context || node) - KL(other || node))."""
    # Distinct nodes are looked up once: the sparse input layer supports one use per step.
    distinct, places = np.unique(np.concatenate(batch), return_inverse=True)
    gaussians = network(table, distinct)
    node, context, other = (gathered(gaussians, part) for part in places.reshape(3, -1))
    return torch.relu(margin + ENERGY.direct(node, context) - ENERGY.direct(node, other)).mean()
