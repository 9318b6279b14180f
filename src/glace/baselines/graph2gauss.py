"""Graph2Gauss (Bojchevski & Guennemann, ICLR 2018): Gaussians that rank nodes by their hops from an anchor."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.baselines.method import Attributes, with_unseen
from glace.errors import InputError, TrainingDiverged
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, named
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph, checked_matrix
from glace.graph.split import HeldOut, hold_out
from glace.metrics import link_scores
from glace.model.encoders import InputShape, NodeNumbers, input_layer
from glace.model.heads import GaussianHead
from glace.options import Configuration, option
from glace.rng import Streams
from glace.sampling.hops import HopSampler, Triplets
from glace.training.optimizer import RowwiseAdam
from glace.training.threads import using_threads

ENCODE_ROWS = 4096
"""Rows encoded at a time where all nodes are."""
MOST_HELD_OUT = 5000
"""Held-out edges looked at, and as many non-edges: enough for an AUC to within 0.3 points on any graph."""

ENERGY = named("kl")
"""E_ij = KL(z_j || z_i), also where edges have no direction: the anchor then stands at either end in turn."""


@dataclass(frozen=True)
class Graph2Gauss(Configuration):
    """The published loss and encoder, with hops sampled batch by batch instead of stored for all pairs.

    A node with k hops from an anchor should have a lower energy than one with more: the loss of a triplet is
    E_near^2 + exp(-E_far). Edges are taken as unweighted, as the authors do.
    """

    dim: int = option(64, "Numbers in a mean, their L.", at_least=1)
    hidden: int = option(512, "Width of the hidden layer.", at_least=1)
    hops: int = option(
        2, "Rings around a node that are told apart, their K; all farther nodes are one.", at_least=1
    )
    scaled: bool = option(
        False,
        "Weigh a triplet by the sizes of its two rings, which makes the loss that of all triplets; "
        "off, as in the authors' code, every pair of rings counts the same.",
    )
    batch: int = option(512, "Anchors a step; each brings a node from every ring.", at_least=1)
    learning_rate: float = option(1e-3, "Adam's step size.", above=0)
    max_steps: int = option(2000, "Most steps.", at_least=1)
    validation_share: float = option(
        0.05,
        "Share of edges held out for early stopping; 0 trains on all, to the last step.",
        at_least=0,
        below=1,
    )
    validate_every: int = option(50, "Steps between two looks at the held-out edges.", at_least=1)
    patience: int = option(10, "Stop after so many looks without a better AUC.", at_least=1)

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
        if validation is None and self.validation_share > 0:
            graph, validation = hold_out(graph, self.validation_share, streams.numpy("validation"))
        sample = streams.numpy("validation sample")
        judge = None if validation is None else Validation.of(validation, measure, sample)
        with using_threads(1):
            self._train(HopSampler(graph, self.hops, self.batch, streams), attributes, encoder, judge)
            parts = [encoder.embed(attributes)] + ([] if new is None else [encoder.embed(scale(new))])
        ids = with_unseen(graph.ids, 0 if new is None else new.shape[0])
        mean, variance = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Embedding(ids, mean, variance, measure.name)

    def _train(
        self, sampler: HopSampler, attributes: Any, encoder: "RowEncoder", validation: "Validation | None"
    ) -> None:
        """Train the encoder in place; it is left with its best weights on held-out edges, or its last ones."""
        best = Best(encoder)
        for step in self._steps(sampler, attributes, encoder):
            if validation is None or (step % self.validate_every and step < self.max_steps):
                continue
            best.offer(validation.auc(encoder, attributes))
            if best.since >= self.patience:
                break
        best.restore()

    def _steps(self, sampler: HopSampler, attributes: Any, encoder: "RowEncoder") -> Iterator[int]:
        """Take the steps one by one, and tell after each how many there were."""
        optimizer = RowwiseAdam(encoder)
        for step in range(self.max_steps):
            triplets = sampler.batch(step).triplets()
            loss = batch_loss(encoder, attributes, triplets, self.scaled)
            if not math.isfinite(loss.item()):
                raise TrainingDiverged(
                    f"the loss is {loss.item()} at step {step + 1} with learning rate {self.learning_rate:.2g}; "
                    "try a smaller learning rate, or attributes of a smaller scale"
                )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step(step + 1, self.learning_rate)
            yield step + 1


class RowEncoder(nn.Module):
    """Attributes to Gaussians: one hidden layer with a ReLU, as in the authors' code."""

    def __init__(self, attributes: Any, hidden: int, dim: int, generator: np.random.Generator) -> None:
        super().__init__()
        shape = InputShape(attributes.shape[1], sp.issparse(attributes))
        self.input = input_layer(shape, hidden, generator)
        self.head = GaussianHead(hidden, dim, generator)

    def forward(self, attributes: Any, rows: NodeNumbers) -> Gaussian:
        """The Gaussians of the wanted rows, as tensors."""
        gaussian: Gaussian = self.head(torch.relu(self.input(attributes, rows)))
        return gaussian

    def embed(self, attributes: Any, rows: NodeNumbers | None = None) -> "Arrays":
        """Mean and variance of the wanted rows, or of all."""
        rows = np.arange(attributes.shape[0]) if rows is None else rows
        with torch.no_grad():
            blocks = [
                self(attributes, rows[start : start + ENCODE_ROWS])
                for start in range(0, len(rows), ENCODE_ROWS)
            ]
        return Arrays(
            *(np.concatenate([getattr(b, part).numpy() for b in blocks]) for part in Arrays._fields)
        )


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
    nodes: NodeNumbers
    places: NodeNumbers
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


class Best:
    """The weights of an encoder at its best look."""

    def __init__(self, encoder: RowEncoder) -> None:
        self.encoder, self.auc, self.since = encoder, -math.inf, 0
        self.weights: dict[str, Tensor] | None = None

    def offer(self, auc: float) -> None:
        """Keep the weights if this is better than every look before; `since` counts looks from the best."""
        self.since += 1
        if auc > self.auc:
            self.auc, self.since = auc, 0
            self.weights = {name: value.clone() for name, value in self.encoder.state_dict().items()}

    def restore(self) -> None:
        """Put the best weights back, if there were any looks."""
        if self.weights is not None:
            self.encoder.load_state_dict(self.weights)


def _scaling(attributes: Any) -> Callable[[Any], Any]:
    """What scales rows of attributes: sparse rows to unit length, dense columns to mean 0 and variance 1 here."""
    from sklearn.preprocessing import StandardScaler, normalize

    scale: Callable[[Any], Any] = normalize
    if not sp.issparse(attributes):
        scale = StandardScaler().fit(attributes).transform
    return scale


def _like(graph: Graph, unseen: Any) -> Any:
    """Attributes of new nodes, checked and stored as the graph's are."""
    if graph.attributes is None:
        raise InputError(
            "the graph has no attributes: a node is known by its identity alone, and nodes that had no part in "
            "training cannot be embedded; give a graph with attributes"
        )
    matrix = checked_matrix(unseen)
    if matrix.shape[1] != graph.num_attributes:
        raise InputError(
            f"the graph has {graph.num_attributes:,} attributes, but the unseen nodes have {matrix.shape[1]:,}; "
            "give the same columns in the same order"
        )
    if sp.issparse(graph.attributes):
        return sp.csr_array(matrix)
    return matrix.toarray() if sp.issparse(matrix) else matrix
