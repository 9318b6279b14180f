"""Graph2Gauss (Bojchevski & Guennemann, ICLR 2018): Gaussians that rank nodes by their hops from an anchor."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.experiments.baselines.descent import Descent
from glace.experiments.baselines.hops import HopSampler, Triplets
from glace.experiments.baselines.method import Attributes, check_unseen, with_unseen
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, named
from glace.gaussian.embedding import Embedding
from glace.graph.attributes import checked_matrix
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import link_scores
from glace.model.heads import GaussianHead
from glace.model.input_layers import InputShape, NodeIndex, input_layer
from glace.model.threads import using_threads
from glace.options import option
from glace.rng import Streams

ENCODE_ROWS = 4096
"""Rows encoded at a time where all nodes are."""
MOST_HELD_OUT = 5000
"""Held-out edges looked at, and as many non-edges: enough for an AUC to within 0.3 points on any graph."""

ENERGY = named("kl")
"""E_ij = KL(z_j || z_i), also where edges have no direction: the anchor then stands at either end in turn."""


@dataclass(frozen=True)
class Graph2Gauss(Descent):
    """The published loss and encoder, with hops sampled batch by batch instead of stored for all pairs.

    A node with k hops from an anchor should have a lower energy than one with more: the loss of a triplet is
    E_near^2 + exp(-E_far). Edges are taken as unweighted, as the authors do.
    """

    dim: int = option(64, "Numbers in a mean, their L.", at_least=1)
    hidden: int = option(512, "Width of the hidden layer.", at_least=1)
    hops: int = option(2, "Rings around a node that are told apart, their K; all farther nodes are one.", at_least=1)
    scaled: bool = option(
        False,
        "Weigh a triplet by the sizes of its two rings, which makes the loss that of all triplets; "
        "off, as in the authors' code, every pair of rings counts the same.",
    )
    batch_size: int = option(512, "Anchors a step; each brings a node from every ring.", at_least=1)
    learning_rate: float = option(1e-3, "Adam's step size.", above=0)
    max_steps: int = option(2000, "Most steps.", at_least=1)

    name: ClassVar[str] = "graph2gauss"
    inductive: ClassVar[bool] = True

    def embed(
        self,
        graph: Graph,
        streams: Streams,
        unseen: Attributes | None = None,
        validation: HeldOut | None = None,
    ) -> Embedding:
        """The Gaussians of the graph's nodes, then those of `unseen`, from their attributes alone."""
        measure = named("kl" if graph.directed else "symmetric_kl")
        new = None if unseen is None else _like(graph, unseen)
        scale = _scaling(graph.features())
        attributes = scale(graph.features())
        encoder = RowEncoder(attributes, self.hidden, self.dim, streams.numpy("weights graph2gauss"))
        graph, validation = self.hold_out(graph, validation, streams)
        look = None
        if validation is not None:
            judge = Validation.of(validation, measure, streams.numpy("validation sample"))
            look = partial(judge.auc, encoder, attributes)
        sampler = HopSampler(graph, self.hops, self.batch_size, streams)

        def loss(step: int) -> Tensor:
            return batch_loss(encoder, attributes, sampler.batch(step).triplets(), self.scaled)

        with using_threads(1):
            self.train(encoder, loss, look)
            parts = [encoder.embed(attributes)] + ([] if new is None else [encoder.embed(scale(new))])
        ids = with_unseen(graph.ids, 0 if new is None else new.shape[0])
        mean, variance = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Embedding(ids, mean, variance, measure.name)


class RowEncoder(nn.Module):
    """Attributes to Gaussians: one hidden layer with a ReLU, as in the authors' code."""

    def __init__(self, attributes: Any, hidden: int, dim: int, generator: np.random.Generator) -> None:
        super().__init__()
        shape = InputShape(attributes.shape[1], sp.issparse(attributes))
        self.input = input_layer(shape, hidden, generator)
        self.head = GaussianHead(hidden, dim, generator)

    def forward(self, attributes: Any, rows: NodeIndex) -> Gaussian:
        """The Gaussians of the wanted rows, as tensors."""
        gaussian: Gaussian = self.head(torch.relu(self.input(attributes, rows)))
        return gaussian

    def embed(self, attributes: Any, rows: NodeIndex | None = None) -> "Arrays":
        """Mean and variance of the wanted rows, or of all."""
        rows = np.arange(attributes.shape[0]) if rows is None else rows
        with torch.no_grad():
            blocks = [self(attributes, rows[start : start + ENCODE_ROWS]) for start in range(0, len(rows), ENCODE_ROWS)]
        return Arrays(*(np.concatenate([getattr(b, part).numpy() for b in blocks]) for part in Arrays._fields))


class Arrays(NamedTuple):
    """Gaussians as arrays (R, L)."""

    mean: npt.NDArray[np.float32]
    variance: npt.NDArray[np.float32]


def batch_loss(encoder: RowEncoder, attributes: Any, triplets: Triplets, scaled: bool) -> Tensor:
    """Mean of E_near^2 + exp(-E_far) over the triplets, weighted by what each stands for if `scaled`."""
    # The distinct nodes are encoded once: the sparse input layer takes one use a step.
    nodes, places = np.unique(np.concatenate(triplets[:3]), return_inverse=True)
    gaussians = encoder(attributes, nodes)
    anchor, near, far = (gaussians[torch.from_numpy(part)] for part in places.reshape(3, -1))
    loss = ENERGY.direct(anchor, near) ** 2 + torch.exp(-ENERGY.direct(anchor, far))
    weight = torch.from_numpy((triplets.weight if scaled else np.ones(len(loss))).astype(np.float32))
    total: Tensor = (loss * (weight / weight.sum().clip(1))).sum()
    return total


@dataclass(frozen=True)
class Validation:
    """Held-out pairs as `places` (P, 2) into the distinct `nodes`, and whether each is an edge, `truth` (P,)."""

    measure: Dissimilarity
    nodes: NodeIndex
    places: NodeIndex
    truth: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, held_out: HeldOut, measure: Dissimilarity, generator: np.random.Generator) -> "Validation":
        """At most `MOST_HELD_OUT` of the edges, and of the non-edges."""
        both = (held_out.edges, held_out.non_edges)
        kept = HeldOut(*(generator.permutation(pairs)[:MOST_HELD_OUT] for pairs in both))
        nodes, places = np.unique(kept.pairs(), return_inverse=True)
        return cls(measure, nodes, places.reshape(-1, 2), kept.truth())

    def auc(self, encoder: RowEncoder, attributes: Any) -> float:
        """How well the encoder tells the edges from the non-edges."""
        gaussians = Gaussian(*encoder.embed(attributes, self.nodes))
        first, second = (gaussians[side] for side in self.places.T)
        return link_scores(-self.measure.direct(first, second), self.truth).auc


def _scaling(attributes: Any) -> Callable[[Any], Any]:
    """What scales rows of attributes: sparse rows to unit length, dense columns to mean 0 and variance 1 here."""
    from sklearn.preprocessing import StandardScaler, normalize

    scale: Callable[[Any], Any] = normalize
    if not sp.issparse(attributes):
        scale = StandardScaler().fit(attributes).transform
    return scale


def _like(graph: Graph, unseen: Any) -> Any:
    """Attributes of new nodes, checked and stored as the graph's are."""
    matrix = checked_matrix(unseen)
    check_unseen(graph, matrix)
    if sp.issparse(graph.attributes):
        return sp.csr_array(matrix)
    return matrix.toarray() if sp.issparse(matrix) else matrix
