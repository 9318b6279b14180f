"""DVNE (Zhu, Cui, Wang & Zhu, KDD 2018): Gaussians in Wasserstein space, from the neighbours of a node."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from glace.config.config import SamplingConfig
from glace.experiments.baselines.encoders import NodeIndex, RowEncoder, entries, identity, neighbor_rows, validator
from glace.experiments.baselines.method import Descent, refuse_unseen
from glace.gaussian.dissimilarity import Gaussian, named
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.model.inputs import InputShape
from glace.model.layers import Linear, input_layer
from glace.model.network import gathered, using_threads
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import EdgeSampler
from glace.sparse import Matrix

WASSERSTEIN = named("wasserstein2")
"""The squared distance; the energy of the paper is its root."""


@dataclass(frozen=True)
class DVNE(Descent):
    """A neighbour should be closer than another node, and a draw from the Gaussian tell the neighbours (a WAE).

    The loss of the paper: the mean of E_neighbour^2 + exp(-E_other), where E is the 2-Wasserstein distance, plus
    `alpha` times the error of the reconstructed transition probabilities, each weighted by the probability itself, so
    that only edges count.
    """

    dim: int = option(64, "Dimensions of a mean.", at_least=1)
    hidden: int = option(256, "Width of the hidden layers of encoder and decoder.", at_least=1)
    alpha: float = option(1.0, "Weight of the reconstruction.", at_least=0)
    batch_size: int = option(512, "Edges per step, each with another node.", at_least=1)
    learning_rate: float = option(1e-3, "Step size of Adam.", above=0)
    max_steps: int = option(3000, "Maximum number of steps.", at_least=1)

    name: ClassVar[str] = "dvne"
    inductive: ClassVar[bool] = False
    gaussian: ClassVar[bool] = True

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return Gaussians from all edges of the graph; held-out ones are for early stopping only."""
        refuse_unseen(self.name, unseen)
        rest, held_out = self.hold_out(graph, validation, streams)
        network = WassersteinAutoEncoder(rest, self, streams)
        with using_threads(1):
            self.train(network, network.loss, validator(network, network.rows, WASSERSTEIN, held_out, streams))
            gaussian = network.embed(neighbor_rows(graph), np.arange(graph.num_nodes))
        return Embedding(graph.ids, gaussian.mean, gaussian.variance, WASSERSTEIN.name)


class WassersteinAutoEncoder(RowEncoder):
    """From the transition probabilities of a node over a hidden layer to a Gaussian, and from a draw of it back."""

    def __init__(self, graph: Graph, options: DVNE, streams: Streams) -> None:
        generator, hidden = streams.numpy("weights dvne"), options.hidden
        rows = neighbor_rows(graph)
        # Rows have few entries: bounds for all n columns would start with numbers close to 0.
        super().__init__(rows, hidden, options.dim, generator, fan_in=hidden)
        self.rows, self.identity, self.options, self.streams = rows, identity(graph.num_nodes), options, streams
        sampling = SamplingConfig(batch_size=options.batch_size, n_negatives=1, negative_sampling="independent")
        self.sampler = EdgeSampler(graph, sampling, streams)
        self.decoder = Linear(options.dim, hidden, generator)
        self.output = input_layer(InputShape(graph.num_nodes, True), hidden, generator, fan_in=hidden)

    def loss(self, step: int) -> Tensor:
        """Return the mean loss of the triplets, plus alpha times the mean error of the nodes' rows."""
        nodes, batch = self.sampler.batch(step).distinct()
        gaussians = self(self.rows, nodes)
        noise = self.streams.numpy("noise", step).standard_normal(gaussians.mean.shape, dtype=np.float32)
        anchors, targets = gathered(gaussians, batch.anchors), gathered(gaussians, batch.targets)
        others = gathered(gaussians, batch.negatives[:, 0])
        ranking = triplet_losses(anchors, targets, others, torch.from_numpy(batch.allowed[:, 0])).mean()
        return ranking + self.options.alpha * self.error(gaussians, nodes, torch.from_numpy(noise))

    def error(self, gaussians: Gaussian, nodes: NodeIndex, noise: Tensor) -> Tensor:
        """Return the mean over nodes of the sum over their neighbours of (p (p - q))^2, where q reconstructs p."""
        assert gaussians.variance is not None
        row, column, value = entries(self.rows, nodes)
        columns, places = np.unique(column, return_inverse=True)
        drawn = gaussians.mean + gaussians.variance.sqrt() * noise
        hidden = functional.embedding(torch.from_numpy(row), torch.relu(self.decoder(drawn)))
        weights = functional.embedding(torch.from_numpy(places), self.output(self.identity, columns))
        found = torch.sigmoid((hidden * weights).sum(1))
        return (value * (value - found)).square().sum() / len(nodes)


def triplet_losses(anchor: Gaussian, neighbour: Gaussian, other: Gaussian, allowed: Tensor) -> Tensor:
    """Return (B,) E_neighbour^2 + exp(-E_other); the second only where the other node is no neighbour."""
    # The root has no gradient at 0, which equal Gaussians have.
    energy = WASSERSTEIN.direct(anchor, other).clamp_min(1e-12).sqrt()
    total: Tensor = WASSERSTEIN.direct(anchor, neighbour) + torch.where(allowed, torch.exp(-energy), 0.0)
    return total
