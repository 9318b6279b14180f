"""Networks from rows of a matrix to Gaussians or points, and their validation."""

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.experiments.baselines.method import MAX_VALIDATION_EDGES
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, concatenated
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import LinkScores, link_scores
from glace.model.inputs import InputShape
from glace.model.layers import GaussianHead, input_layer
from glace.model.network import ENCODE_ROWS
from glace.rng import Streams
from glace.sparse import Matrix, narrowed

NodeIndex = npt.NDArray[np.int64]


class Encoder(nn.Module):
    """Rows of a matrix, such as attributes or edges, to Gaussians or points."""

    @abstractmethod
    def forward(self, matrix: Matrix, rows: NodeIndex) -> Gaussian:
        """Return the Gaussians of the given rows, as tensors; points have no variance."""

    def embed(self, matrix: Matrix, rows: NodeIndex) -> Gaussian:
        """Return the same as arrays, without gradient."""
        with torch.no_grad():
            parts = [self(matrix, rows[at : at + ENCODE_ROWS]) for at in range(0, len(rows), ENCODE_ROWS)]
        arrays = [
            Gaussian(part.mean.numpy(), None if part.variance is None else part.variance.numpy()) for part in parts
        ]
        return concatenated(arrays, axis=0)


class RowEncoder(Encoder):
    """One hidden layer with a ReLU, then a mean and a variance."""

    def __init__(
        self, matrix: Matrix, hidden: int, dim: int, generator: np.random.Generator, fan_in: int | None = None
    ) -> None:
        super().__init__()
        shape = InputShape(matrix.shape[1], sp.issparse(matrix))
        self.input = input_layer(shape, hidden, generator, fan_in=fan_in)
        self.head = GaussianHead(hidden, dim, generator)

    def forward(self, matrix: Matrix, rows: NodeIndex) -> Gaussian:
        """Return the Gaussians of the given rows, as tensors."""
        return self.head.gaussian(self.head.raw(torch.relu(self.input(matrix, rows))))


def validator(
    encoder: Encoder, matrix: Matrix, measure: Dissimilarity, held_out: HeldOut | None, streams: Streams
) -> Callable[[], LinkScores] | None:
    """Return what validates an encoder by some held-out pairs: at most so many of the edges, and of the non-edges."""
    if held_out is None:
        return None
    generator, both = streams.numpy("validation sample"), (held_out.edges, held_out.non_edges)
    pairs = HeldOut(*(generator.permutation(each)[:MAX_VALIDATION_EDGES] for each in both))
    return partial(validation_scores, encoder, matrix, measure, pairs)


def validation_scores(encoder: Encoder, matrix: Matrix, measure: Dissimilarity, held_out: HeldOut) -> LinkScores:
    """Return how well the encoder ranks held-out edges above non-edges; NaN if a dissimilarity is not finite."""
    nodes, places = np.unique(held_out.pairs(), return_inverse=True)
    gaussians = encoder.embed(matrix, nodes)
    first, second = (gaussians[side] for side in places.reshape(-1, 2).T)
    dissimilarities = measure.direct(first, second)
    if not np.isfinite(dissimilarities).all():
        return LinkScores(math.nan, math.nan)
    return link_scores(-dissimilarities, held_out.truth())


def identity(size: int) -> sp.csr_array:
    """Return the identity (n, n): its rows through a sparse input layer are a table with a trained row per node."""
    return narrowed(sp.eye_array(size, dtype=np.float32, format="csr"))


def neighbor_rows(graph: Graph) -> sp.csr_array:
    """Return the edge weights (n, n) without direction, each row divided by its sum; rows of isolated nodes are 0."""
    around = graph.neighborhoods()
    sums = np.asarray(around.sum(axis=1), dtype=np.float64)
    scale = sp.diags_array(np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0))
    return narrowed(sp.csr_array(scale @ around).astype(np.float32))


def entries(matrix: sp.csr_array, rows: NodeIndex) -> tuple[NodeIndex, NodeIndex, Tensor]:
    """Return the entries of some rows: position among these rows, column, and value."""
    part = matrix[rows]
    position = np.repeat(np.arange(len(rows)), np.diff(part.indptr))
    return position, part.indices.astype(np.int64), torch.from_numpy(part.data.astype(np.float32))
