"""GLACE as its authors compute it, in plain torch: what the package is measured against.

Each batch of 128 edges encodes ALL nodes (the whole X times W, both heads), looks up those it needs, draws K = 5
negatives for each edge by degree^0.75, and takes a step of Adam, 1e-3, on all weights. First-order proximity with
KL. Batches are drawn by compiled code, which costs the yardstick nothing. Rows of X have unit length, as the package
has them.
"""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize
from torch import Tensor, nn
from torch.nn import functional

from glace.config.config import SamplingConfig
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.model.layers import xavier_uniform
from glace.rng import Streams
from glace.sampling.edges import Batch, EdgeSampler

BATCH, NEGATIVES, POWER = 128, 5, 0.75
HIDDEN, DIM, LEARNING_RATE = 512, 64, 1e-3


class Yardstick(nn.Module):
    """The encoder of all nodes of a graph and its optimizer; `step` takes the steps by their numbers from 0.

    `floor` is added to every variance: hardly anything in the authors' code.
    """

    def __init__(
        self, graph: Graph, *, hidden: int = HIDDEN, dim: int = DIM, seed: int = 0, floor: float = 1e-14
    ) -> None:
        super().__init__()
        streams, self.graph, self.floor = Streams(seed), graph, floor
        self.attributes = _tensor(sp.csr_array(normalize(graph.features())))
        generator = streams.numpy("yardstick weights")
        self.source = nn.Parameter(xavier_uniform(graph.num_attributes, hidden, generator))
        self.source_bias = nn.Parameter(torch.zeros(hidden))
        self.mean, self.variance = (_linear(hidden, dim, generator) for _ in range(2))
        config = SamplingConfig(
            batch_size=BATCH, n_negatives=NEGATIVES, negative_power=POWER, negative_sampling="independent"
        )
        self.sampler = EdgeSampler(graph, config, streams)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=LEARNING_RATE)

    def forward(self) -> Gaussian:
        """The Gaussians of all nodes."""
        u = torch.relu(self.attributes @ self.source + self.source_bias)
        return Gaussian(self.mean(u), functional.elu(self.variance(u)) + 1 + self.floor)

    def loss(self, batch: Batch) -> Tensor:
        """Eq. 13 of the paper, the mean over the edges; theirs is K + 1 times less, which Adam does not see."""
        z = self()
        anchor, target = (z[torch.from_numpy(nodes)] for nodes in (batch.anchors, batch.targets))
        near = symmetric_kl(anchor, target)
        far = symmetric_kl(anchor[:, None], z[torch.from_numpy(batch.negatives)])
        pushed = functional.logsigmoid(far) * torch.from_numpy(batch.allowed)
        return -(functional.logsigmoid(-near) + pushed.sum(1)).mean()

    def step(self, number: int) -> float:
        """One step of Adam; the loss before it."""
        loss = self.loss(self.sampler.batch(number))
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return float(loss.detach())

    def embedding(self) -> Embedding:
        """The Gaussians of all nodes, as everything else takes them."""
        with torch.no_grad():
            z = self()
        return Embedding(self.graph.ids, z.mean.numpy(), z.variance.numpy(), "symmetric_kl")


def symmetric_kl(first: Gaussian, second: Gaussian) -> Tensor:
    """Eq. 4 of the paper, term by term: the mean of KL(first || second) and KL(second || first)."""
    total: Tensor = 0.5 * (_kl(first, second) + _kl(second, first))
    return total


def _kl(first: Gaussian, second: Gaussian) -> Any:
    """KL(second || first)."""
    ratio = _variance(second) / _variance(first)
    gap = (first.mean - second.mean) ** 2 / _variance(first)
    return 0.5 * (ratio + gap - 1 - torch.log(ratio)).sum(-1)


def _variance(gaussian: Gaussian) -> Tensor:
    assert isinstance(gaussian.variance, Tensor)
    return gaussian.variance


def _tensor(matrix: sp.csr_array) -> Tensor:
    start, column, value = (torch.from_numpy(np.array(part)) for part in (matrix.indptr, matrix.indices, matrix.data))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(start, column, value, matrix.shape, check_invariants=False)


def _linear(width: int, out: int, generator: np.random.Generator) -> nn.Linear:
    layer = nn.Linear(width, out)
    layer.weight.data = xavier_uniform(width, out, generator).T.contiguous()
    nn.init.zeros_(layer.bias)
    return layer
