"""GLACE as its authors' program computes it, in plain torch; the program is https://github.com/bhagya-hettige/GLACE.

A batch is 128 edges, drawn by weight and turned round at random, each with five nodes drawn by degree^0.75 that are not
joined to its source; the source itself may be among them. The graph is undirected whatever its file says. Adam with a
constant rate of 0.001 changes all weights in every step. Weights and biases start Xavier-uniform, attributes are used
as they are, and a variance is ELU + 1 + 1e-14. The loss is the mean over the 128 * 6 pairs.

The program trains 100,000 batches, prints the validation AUC every 50 batches and leaves it to its user when to stop.
Here the best of these embeddings is kept, and training ends when `patience` of them bring no better one.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from glace.experiments.baselines.encoders import Encoder, validator
from glace.experiments.baselines.method import Descent, all_attributes, with_unseen
from glace.gaussian.dissimilarity import Gaussian, named
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.model.layers import dense_rows, xavier_uniform
from glace.model.network import gathered, using_threads
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import check_negatives_exist
from glace.sparse import Matrix

NodeIndex = npt.NDArray[np.int64]
MEASURE = named("symmetric_kl")
FLOOR = 1e-14
"""Added to every variance, as in the program."""


@dataclass(frozen=True)
class GLACEAsCoded(Descent):
    """The authors' program with its default options: first-order proximity."""

    name: ClassVar[str] = "glace-as-coded"
    gaussian: ClassVar[bool] = True

    dim: int = option(64, "Dimensions of a mean.", at_least=1)
    hidden: int = option(512, "Width of the hidden layer, which a ReLU follows.", at_least=1)
    batch_size: int = option(128, "Edges per step.", at_least=1)
    n_negatives: int = option(5, "Negatives per edge, drawn independently.", at_least=1)
    negative_power: float = option(0.75, "Negatives are drawn by degree^power.", at_least=0)
    learning_rate: float = option(1e-3, "Step size of Adam, the same in every step.", above=0)
    max_steps: int = option(100_000, "Maximum number of steps.", at_least=1)
    patience: int = option(100, "Stop after this many validations without a better AUC.", at_least=1)

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return the Gaussians of the graph's nodes, then those of `unseen`, from their attributes alone."""
        check_negatives_exist(graph)
        attributes = all_attributes(graph, unseen)
        encoder = PlainEncoder(attributes.shape[1], self.hidden, self.dim, streams.numpy("weights as coded"))
        rest, held_out = self.hold_out(graph, validation, streams)
        sampler = PairSampler(rest, self, streams)

        def loss(step: int) -> Tensor:
            return batch_loss(encoder, attributes, *sampler.batch(step))

        with using_threads(1):
            self.train(encoder, loss, validator(encoder, attributes, MEASURE, held_out, streams))
            gaussian = encoder.embed(attributes, np.arange(attributes.shape[0]))
        return Embedding(with_unseen(graph.ids, len(gaussian.mean)), gaussian.mean, gaussian.variance, MEASURE.name)


class PairSampler:
    """Draws batches of edges with negatives; a batch depends only on the seed and the number of its step."""

    def __init__(self, graph: Graph, options: GLACEAsCoded, streams: Streams) -> None:
        self.size, self.negatives, self.streams = options.batch_size, options.n_negatives, streams
        self.adjacency = graph.neighborhoods()
        upper = sp.triu(self.adjacency, 1)
        self.edges = np.column_stack(upper.coords).astype(np.int64)
        self.edge_bounds = np.cumsum(upper.data, dtype=np.float64)
        degrees = np.asarray(self.adjacency.sum(axis=1, dtype=np.float64)).ravel()
        # A node without edges is never drawn, even by the power 0.
        self.node_bounds = np.cumsum(np.where(degrees > 0, degrees**options.negative_power, 0))

    def batch(self, step: int) -> tuple[NodeIndex, NodeIndex]:
        """Return the sources (B,) and their targets (B, 1 + K): the other end of an edge, then the negatives."""
        generator = self.streams.numpy("pairs as coded", step)
        drawn = self.edges[_drawn(self.edge_bounds, generator, (self.size,))]
        turned = generator.random(self.size) > 0.5
        source, target = np.where(turned[:, None], drawn[:, ::-1], drawn).T
        negatives = _drawn(self.node_bounds, generator, (self.size, self.negatives))
        while (rows := np.flatnonzero((joined := self._are_joined(source, negatives)).any(axis=1))).size:
            again = _drawn(self.node_bounds, generator, (len(rows), self.negatives))
            negatives[rows] = np.where(joined[rows], again, negatives[rows])
        return source, np.column_stack([target, negatives])

    def _are_joined(self, source: NodeIndex, others: NodeIndex) -> npt.NDArray[np.bool_]:
        sources = np.repeat(source, others.shape[1])
        return np.asarray(self.adjacency[sources, others.ravel()] != 0).reshape(others.shape)


def _drawn(bounds: npt.NDArray[np.float64], generator: np.random.Generator, shape: tuple[int, ...]) -> NodeIndex:
    """Draw positions with probabilities whose cumulative sums are proportional to `bounds`."""
    places = np.searchsorted(bounds, generator.random(shape) * bounds[-1], side="right")
    return np.asarray(np.minimum(places, len(bounds) - 1), dtype=np.int64)


class PlainEncoder(Encoder):
    """Attributes to Gaussians, without anything that the package adds: all weights are ordinary parameters."""

    def __init__(self, width: int, hidden: int, dim: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.weight, self.bias = _layer(width, hidden, generator)
        self.mean_weight, self.mean_bias = _layer(hidden, dim, generator)
        self.variance_weight, self.variance_bias = _layer(hidden, dim, generator)

    def forward(self, attributes: Matrix, rows: NodeIndex) -> Gaussian:
        """Return the Gaussians of the given rows, as tensors."""
        u = torch.relu(_product(attributes, rows, self.weight) + self.bias)
        mean = u @ self.mean_weight + self.mean_bias
        return Gaussian(mean, functional.elu(u @ self.variance_weight + self.variance_bias) + 1 + FLOOR)


def batch_loss(encoder: PlainEncoder, attributes: Matrix, source: NodeIndex, targets: NodeIndex) -> Tensor:
    """Return the mean of -log sigmoid(-d) over edges and -log sigmoid(d) over negatives, all with equal weight.

    `targets` is (B, 1 + K), the edge first. Only the distinct nodes are encoded, which changes nothing.
    """
    nodes, places = np.unique(np.column_stack([source, targets]), return_inverse=True)
    gaussians = encoder(attributes, nodes)
    # numpy 2.0 alone gives the places another shape.
    at = places.reshape(len(source), -1)
    dissimilarity = MEASURE.direct(gathered(gaussians, at[:, :1]), gathered(gaussians, at[:, 1:]))
    sign = torch.ones(targets.shape[1])
    sign[0] = -1
    return -functional.logsigmoid(sign * dissimilarity).mean()


def _layer(width: int, out: int, generator: np.random.Generator) -> tuple[nn.Parameter, nn.Parameter]:
    """Return weights and biases, both Xavier-uniform; the bias counts `out` as inputs and as outputs."""
    bias = xavier_uniform(1, out, generator, fan_in=out)[0]
    return nn.Parameter(xavier_uniform(width, out, generator)), nn.Parameter(bias.clone())


def _product(attributes: Matrix, rows: NodeIndex, weight: Tensor) -> Tensor:
    """Return the wanted rows of the attributes times the weight, with a dense gradient of all of the weight."""
    if isinstance(attributes, np.ndarray):
        return dense_rows(attributes, rows) @ weight
    wanted = attributes[rows]
    columns, starts = (torch.from_numpy(each.astype(np.int64)) for each in (wanted.indices, wanted.indptr[:-1]))
    values = torch.from_numpy(wanted.data.astype(np.float32))
    return functional.embedding_bag(columns, weight, starts, mode="sum", per_sample_weights=values)
