"""SDNE (Wang, Cui & Zhu, KDD 2016): an auto-encoder of the neighbours of a node, whose code is the node's point."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from glace.config.config import SamplingConfig
from glace.experiments.baselines.encoders import Encoder, NodeIndex, identity, validator
from glace.experiments.baselines.method import Descent, refuse_unseen
from glace.gaussian.dissimilarity import Gaussian, named
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.model.inputs import InputShape
from glace.model.layers import Linear, input_layer
from glace.model.network import using_threads
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import EdgeSampler
from glace.sparse import Matrix, narrowed


@dataclass(frozen=True)
class SDNE(Descent):
    """Reconstructs the neighbours of a node (second order), and draws the points of neighbours together (first order).

    The loss of the paper: the squared errors of a row of the adjacency, those of its edges `beta` squared as large, and
    `alpha` times the squared distances of neighbours. Columns without an edge are sampled, so that a step does not
    depend on the size of the graph. Early stopping replaces weight decay, and there is no pretraining.
    """

    dim: int = option(128, "Dimensions of a point.", at_least=1)
    hidden: int = option(256, "Width of the hidden layers of encoder and decoder.", at_least=1)
    alpha: float = option(0.1, "Weight of the distances of neighbours.", at_least=0)
    beta: float = option(10.0, "Factor of the error at an edge; 1 at a column without an edge.", above=0)
    batch_size: int = option(256, "Edges per step; the rows of their ends are reconstructed.", at_least=1)
    columns: int = option(512, "Columns drawn per step to represent those without an edge.", at_least=1)
    learning_rate: float = option(1e-3, "Step size of Adam.", above=0)
    max_steps: int = option(3000, "Maximum number of steps.", at_least=1)

    name: ClassVar[str] = "sdne"
    inductive: ClassVar[bool] = False

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return points from all edges of the graph; held-out ones are for early stopping only."""
        refuse_unseen(self.name, unseen)
        rest, held_out = self.hold_out(graph, validation, streams)
        network = AutoEncoder(rest, self, streams)
        with using_threads(1):
            validate = validator(network, network.rows, named("dot"), held_out, streams)
            self.train(network, network.loss, validate)
            mean = network.embed(adjacency_rows(graph), np.arange(graph.num_nodes)).mean
        return Embedding(graph.ids, np.ascontiguousarray(mean), None, "dot")


def adjacency_rows(graph: Graph) -> sp.csr_array:
    """Return the edge weights (n, n) without direction, divided by the largest."""
    around = graph.neighborhoods()
    return narrowed((around / max(float(around.max()), 1e-30)).astype(np.float32))


class AutoEncoder(Encoder):
    """From a row of the adjacency over a hidden layer to a point, and back."""

    def __init__(self, graph: Graph, options: SDNE, streams: Streams) -> None:
        super().__init__()
        self.options, self.streams, generator = options, streams, streams.numpy("weights sdne")
        sampling = SamplingConfig(batch_size=options.batch_size, n_negatives=1, negative_pool_size=1)
        self.sampler = EdgeSampler(graph, sampling, streams)
        self.rows, self.identity = adjacency_rows(graph), identity(graph.num_nodes)
        shape, hidden = InputShape(graph.num_nodes, True), options.hidden
        # Rows have few entries: bounds for all n columns would start with numbers close to 0.
        self.input = input_layer(shape, hidden, generator, fan_in=hidden)
        self.inner, self.outer = Linear(hidden, options.dim, generator), Linear(options.dim, hidden, generator)
        self.output = input_layer(shape, hidden, generator, fan_in=hidden)
        density = max(self.rows.nnz, 1) / graph.num_nodes**2
        self.bias = nn.Parameter(torch.tensor(math.log(density)))

    def forward(self, matrix: Matrix, rows: NodeIndex) -> Gaussian:
        """Return the points of the given rows, each coordinate between -1 and 1."""
        return Gaussian(torch.tanh(self.inner(torch.tanh(self.input(matrix, rows)))), None)

    def reconstructed(self, points: Tensor, columns: NodeIndex) -> Tensor:
        """Return the reconstruction (R, C) of some columns, between 0 and 1."""
        weights = self.output(self.identity, columns)
        return torch.sigmoid(torch.tanh(self.outer(points)) @ weights.T + self.bias)

    def loss(self, step: int) -> Tensor:
        """Return the mean error of the rows, plus alpha times the mean of the distances of a node's neighbours."""
        batch = self.sampler.batch(step)
        nodes, places = np.unique(np.concatenate([batch.anchors, batch.targets]), return_inverse=True)
        points = self(self.rows, nodes).mean
        pool = self.streams.numpy("columns", step).integers(self.rows.shape[1], size=self.options.columns)
        first, second = (functional.embedding(torch.from_numpy(side), points) for side in places.reshape(2, -1))
        degree = float(self.rows.nnz / self.rows.shape[0])
        distances: Tensor = (first - second).square().sum(1).mean()
        return self._error(points, nodes, pool) + self.options.alpha * degree * distances

    def _error(self, points: Tensor, nodes: NodeIndex, pool: NodeIndex) -> Tensor:
        """Return the mean over rows of the squared errors of all columns, estimated from a uniformly drawn pool."""
        part = self.rows[nodes]
        columns = np.unique(np.concatenate([part.indices, pool]))
        truth = torch.from_numpy(part[:, columns].toarray())
        # A column without an edge counts as often as it was drawn, and stands for n / pool columns.
        drawn = np.bincount(np.searchsorted(columns, pool), minlength=len(columns))
        absent = torch.from_numpy((drawn * (self.rows.shape[1] / len(pool))).astype(np.float32))
        weight = torch.where(truth > 0, self.options.beta**2, absent)
        errors = (self.reconstructed(points, columns) - truth).square()
        return (weight * errors).sum(1).mean()
