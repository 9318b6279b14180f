"""Variational graph auto-encoder (Kipf and Welling, 2016): graph convolutions that reconstruct the edges."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from glace.experiments.baselines.graph_networks import GraphNetwork, GraphNetworkMethod, View, fitting_input
from glace.options import option
from glace.rng import Streams


@dataclass(frozen=True)
class VGAE(GraphNetworkMethod):
    """Two graph convolutions give a Gaussian; its mean is the node's point, the decoder a dot product.

    A step sees all edges and as many drawn pairs that are no edge. A node without edges is convolved with
    itself alone, so that its attributes suffice.
    """

    name: ClassVar[str] = "vgae"

    hidden: int = option(256, "Width of the hidden layer; the paper's is twice `dim`, as here.", at_least=1)
    max_steps: int = option(
        200, "Most steps; each sees all nodes and edges, and takes 3 s for 100,000 nodes.", at_least=1
    )
    validate_every: int = option(5, "Steps between two looks at the held-out edges.", at_least=1)
    # On Pubmed the AUC falls from 0.971 to 0.908 and is back after 11 validation_points, on its way to 0.984.
    patience: int = option(20, "Stop after so many looks without a better AUC.", at_least=1)

    def network(self, library: Any, view: View, streams: Streams) -> GraphNetwork:
        """An untrained auto-encoder."""
        return AutoEncoder(library, view, self, streams)


class AutoEncoder(GraphNetwork):
    """torch_geometric's VGAE over the encoder below."""

    def __init__(self, library: Any, view: View, options: VGAE, streams: Streams) -> None:
        super().__init__()
        self.model = library.VGAE(Convolutions(library, view, options, streams))
        self.streams = streams
        self._seen: tuple[View, Tensor] | None = None

    def loss(self, view: View, step: int) -> Tensor:
        """Mean log loss of the edges and of as many non-edges, and the divergence from the prior a node."""
        z = self.model.encode(view.attributes, self._propagation(view))
        edges = upper_pairs(view.adjacency)
        others = non_edges(view.adjacency, len(edges), self.streams.numpy("negatives", step))
        # The model's own recon_loss has log(sigmoid + 1e-15), which loses the gradient of a pair far off.
        wrong = functional.logsigmoid(products(z, edges)).sum() + functional.logsigmoid(-products(z, others)).sum()
        loss: Tensor = self.model.kl_loss() / view.size - wrong / len(edges)
        return loss

    def points(self, view: View) -> Tensor:
        """(n, dim) means."""
        with torch.no_grad():
            mean: Tensor = self.model.encoder(view.attributes, self._propagation(view))[0]
        return mean

    def _propagation(self, view: View) -> Tensor:
        if self._seen is None or self._seen[0] is not view:
            self._seen = view, propagation(view.adjacency)
        return self._seen[1]


class Convolutions(nn.Module):
    """Attributes to mean and log standard deviation, each (n, dim), by two graph convolutions."""

    def __init__(self, library: Any, view: View, options: VGAE, streams: Streams) -> None:
        super().__init__()
        self.input = fitting_input(view, options.hidden, streams)
        # Mean and deviation side by side: one propagation for both.
        self.output = library.GCNConv(options.hidden, 2 * options.dim, normalize=False)

    def forward(self, attributes: Any, along: Tensor) -> tuple[Tensor, Tensor]:
        """All nodes, with `along` from `propagation`."""
        hidden = torch.relu(along @ self.input(attributes, np.arange(attributes.shape[0])))
        mean, log_deviation = self.output(hidden, along).chunk(2, dim=1)
        return mean, log_deviation


def propagation(adjacency: sp.csr_array) -> Tensor:
    """D^-1/2 (A + I) D^-1/2 with D the row sums of A + I, as a sparse tensor (n, n)."""
    looped = sp.csr_array(adjacency + sp.eye_array(adjacency.shape[0], dtype=np.float32, format="csr"))
    scale = sp.diags_array(1 / np.sqrt(looped.sum(axis=1, dtype=np.float64)))
    scaled = sp.csr_array(scale @ looped @ scale)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(scaled.indptr.astype(np.int64)),
            torch.from_numpy(scaled.indices.astype(np.int64)),
            torch.from_numpy(scaled.data.astype(np.float32)),
            size=scaled.shape,
            check_invariants=True,  # once; torch warns where nothing is said
        )


def upper_pairs(adjacency: sp.csr_array) -> npt.NDArray[np.int64]:
    """(E, 2) of a symmetric matrix, the smaller node first."""
    coo = adjacency.tocoo()
    pairs = np.column_stack([coo.row, coo.col]).astype(np.int64)
    return pairs[pairs[:, 0] < pairs[:, 1]]


def non_edges(adjacency: sp.csr_array, count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """`count` evenly drawn pairs without those that are an edge or a node twice."""
    drawn = generator.integers(adjacency.shape[0], size=(count, 2))
    joined = np.asarray(adjacency[drawn[:, 0], drawn[:, 1]]).ravel() != 0
    return np.asarray(drawn[~joined & (drawn[:, 0] != drawn[:, 1])])


def products(z: Tensor, pairs: npt.NDArray[np.int64]) -> Tensor:
    """(P,) dot products of the rows of z that pairs (P, 2) name."""
    first, second = (functional.embedding(torch.from_numpy(side.copy()), z) for side in pairs.T)
    return (first * second).sum(1)
