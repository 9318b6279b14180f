"""Graph2Gauss (Bojchevski & Guennemann, ICLR 2018): Gaussians that rank nodes by their hops from an anchor."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.experiments.baselines.descent import MAX_VALIDATION_EDGES, Descent
from glace.experiments.baselines.hops import HopSampler, Triplets
from glace.experiments.baselines.method import scaled_attributes, with_unseen
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, named, stacked
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import LinkScores, link_scores
from glace.model.inputs import InputShape
from glace.model.layers import GaussianHead, input_layer
from glace.model.network import ENCODE_ROWS, using_threads
from glace.options import option
from glace.rng import Streams
from glace.sparse import Matrix

NodeIndex = npt.NDArray[np.int64]

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
    inductive: ClassVar[bool] = True

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return the Gaussians of the graph's nodes, then those of `unseen`, from their attributes alone."""
        measure = named("kl" if graph.directed else "symmetric_kl")
        attributes = scaled_attributes(graph, unseen)
        encoder = RowEncoder(attributes, self.hidden, self.dim, streams.numpy("weights graph2gauss"))
        rest, held_out = self.hold_out(graph, validation, streams)
        validate = None
        if held_out is not None:
            pairs = sampled(held_out, streams.numpy("validation sample"))
            validate = partial(validation_scores, encoder, attributes, measure, pairs)
        sampler = HopSampler(rest, self.hops, self.batch_size, streams)

        def loss(step: int) -> Tensor:
            return batch_loss(encoder, attributes, sampler.batch(step).triplets(), self.scaled)

        with using_threads(1):
            self.train(encoder, loss, validate)
            gaussian = encoder.embed(attributes, np.arange(attributes.shape[0]))
        return Embedding(with_unseen(graph.ids, len(gaussian.mean)), gaussian.mean, gaussian.variance, measure.name)


class RowEncoder(nn.Module):
    """Attributes to Gaussians: one hidden layer with a ReLU, as in the authors' code."""

    def __init__(self, attributes: Matrix, hidden: int, dim: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.input = input_layer(InputShape(attributes.shape[1], sp.issparse(attributes)), hidden, generator)
        self.head = GaussianHead(hidden, dim, generator)

    def forward(self, attributes: Matrix, rows: NodeIndex) -> Gaussian:
        """Return the Gaussians of the given rows, as tensors."""
        gaussian: Gaussian = self.head(torch.relu(self.input(attributes, rows)))
        return gaussian

    def embed(self, attributes: Matrix, rows: NodeIndex) -> Gaussian:
        """Return the Gaussians of the given rows, as arrays."""
        with torch.no_grad():
            blocks = [self(attributes, rows[at : at + ENCODE_ROWS]) for at in range(0, len(rows), ENCODE_ROWS)]
        return stacked([Gaussian(block.mean.numpy(), block.variance.numpy()) for block in blocks])


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


def sampled(held_out: HeldOut, generator: np.random.Generator) -> HeldOut:
    """Return at most `MAX_VALIDATION_EDGES` of the held-out edges, and of the non-edges."""
    both = (held_out.edges, held_out.non_edges)
    return HeldOut(*(generator.permutation(pairs)[:MAX_VALIDATION_EDGES] for pairs in both))


def validation_scores(encoder: RowEncoder, attributes: Matrix, measure: Dissimilarity, held_out: HeldOut) -> LinkScores:
    """Return how well the encoder ranks held-out edges above non-edges."""
    nodes, places = np.unique(held_out.pairs(), return_inverse=True)
    gaussians = encoder.embed(attributes, nodes)
    first, second = (gaussians[side] for side in places.reshape(-1, 2).T)
    return link_scores(-measure.direct(first, second), held_out.truth())
