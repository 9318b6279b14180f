"""Graph neural networks: VGAE and GraphSAGE, their view of a graph, and their training.

The layers come from torch_geometric, except the first: it is glace's own input layer, so that attributes stay sparse
and its rows are trained as in GLACE. Every network ends in one point per node; an edge is a large dot product.
"""

import contextlib
import importlib
import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from glace.errors import InputError
from glace.experiments.baselines.method import Descent, scaled_attributes, with_unseen
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import LinkScores, link_scores
from glace.model.inputs import InputShape
from glace.model.layers import input_layer
from glace.model.network import using_threads
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import WeightedSampler, check_negatives_exist
from glace.sparse import Matrix, narrowed


@dataclass(frozen=True)
class View:
    """What a network sees: attributes (n, D) and symmetric edge weights (n, n)."""

    attributes: Matrix
    adjacency: sp.csr_array

    @classmethod
    def of(cls, graph: Graph, unseen: Matrix | None = None) -> "View":
        """Return a graph without the direction of its edges, followed by unseen nodes, which have no edges."""
        adjacency = graph.adjacency
        if graph.directed:
            adjacency = narrowed(sp.csr_array(adjacency.maximum(adjacency.T)))
        count = 0 if unseen is None else unseen.shape[0]
        size = graph.num_nodes + count
        padded = np.concatenate([adjacency.indptr, np.repeat(adjacency.indptr[-1:], count)])
        edges = sp.csr_array((adjacency.data, adjacency.indices, padded), shape=(size, size))
        return cls(scaled_attributes(graph, unseen), narrowed(edges))

    @property
    def size(self) -> int:
        """The number of nodes, n."""
        return int(self.adjacency.shape[0])


class GraphNetwork(nn.Module):
    """A network with a loss and a point for every node; its first layer fits the attributes of a view."""

    def __init__(self, view: View, options: "GraphNetworkMethod", streams: Streams) -> None:
        super().__init__()
        self.streams = streams
        shape = InputShape(int(view.attributes.shape[1]), sp.issparse(view.attributes))
        self.input = input_layer(shape, options.hidden, streams.numpy("weights"))

    @abstractmethod
    def loss(self, view: View, step: int) -> Tensor:
        """Return the loss of a step; its random draws depend only on the number of the step."""

    @abstractmethod
    def points(self, view: View) -> Tensor:
        """Return the points of all nodes (n, dim), without gradient."""


@dataclass(frozen=True)
class GraphNetworkMethod(Descent):
    """Options of every graph network; a method adds its own, and names its network."""

    network: ClassVar[type[GraphNetwork]]

    dim: int = option(128, "Dimensions of a point.", at_least=1)
    hidden: int = option(256, "Width of the hidden layer.", at_least=1)

    def check_installed(self) -> None:
        """Import torch_geometric."""
        torch_geometric_nn(self.name)

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return the points of the graph's nodes, then those of `unseen`, from their attributes alone.

        Held-out edges are for early stopping only: the final points use all edges of the graph.
        """
        check_negatives_exist(graph)
        everything = View.of(graph, unseen)
        rest, held_out = self.hold_out(graph, validation, streams)
        with using_threads(1), seeded(streams):
            training = View.of(rest)
            network = self.network(training, self, streams)
            validate = None if held_out is None else partial(validation_scores, network, training, held_out)
            self.train(network, partial(network.loss, training), validate)
            mean = network.points(everything).numpy()
        return Embedding(with_unseen(graph.ids, len(mean)), np.ascontiguousarray(mean), None, "dot")


def validation_scores(network: GraphNetwork, view: View, held_out: HeldOut) -> LinkScores:
    """Return how well dot products rank held-out edges above non-edges; NaN if a point is not finite."""
    points = network.points(view).numpy()
    if not np.isfinite(points).all():
        return LinkScores(math.nan, math.nan)
    first, second = held_out.pairs().T
    return link_scores(np.einsum("pd,pd->p", points[first], points[second]), held_out.truth())


@contextlib.contextmanager
def seeded(streams: Streams) -> Iterator[None]:
    """Seed torch's global generator, which torch_geometric's layers draw from, for the block; then restore it."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(streams.numpy("torch").integers(2**63)))
        yield


def torch_geometric_nn(method: str) -> ModuleType:
    """Import and return torch_geometric.nn; InputError if it is not installed."""
    try:
        # Importing it raises deprecation warnings of torch, which a caller cannot prevent.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("torch_geometric.nn")
    except ImportError as problem:
        raise InputError(
            f"{method} needs torch_geometric, which cannot be imported ({problem}); "
            "pip install 'glace-graph[baselines]'"
        ) from problem


class AutoEncoder(GraphNetwork):
    """Two graph convolutions, the second inside of torch_geometric's VGAE."""

    def __init__(self, view: View, options: "VGAE", streams: Streams) -> None:
        super().__init__(view, options, streams)
        library = torch_geometric_nn(options.name)
        # Mean and deviation in one matrix need only one propagation.
        self.model = library.VGAE(MeanAndDeviation(library.GCNConv(options.hidden, 2 * options.dim, normalize=False)))
        self._seen: tuple[View, Tensor] | None = None

    def loss(self, view: View, step: int) -> Tensor:
        """Return the mean log loss of edges and non-edges, plus the divergence of nodes from the prior.

        The divergence is a mean over nodes and divided by their number once more, as in torch_geometric's example.
        """
        z = self.model.encode(*self._hidden(view))
        edges = upper_pairs(view.adjacency)
        others = non_edges(view.adjacency, len(edges), self.streams.numpy("negatives", step))
        # The model's own recon_loss has log(sigmoid + 1e-15), which loses the gradient of very wrong pairs.
        log_likelihood = functional.logsigmoid(products(z, edges)).sum()
        log_likelihood = log_likelihood + functional.logsigmoid(-products(z, others)).sum()
        loss: Tensor = self.model.kl_loss() / view.size - log_likelihood / len(edges)
        return loss

    def points(self, view: View) -> Tensor:
        """Return the means (n, dim)."""
        with torch.no_grad():
            mean: Tensor = self.model.encoder(*self._hidden(view))[0]
        return mean

    def _hidden(self, view: View) -> tuple[Tensor, Tensor]:
        """Return the output (n, hidden) of the first convolution, and the operator of `propagation`."""
        if self._seen is None or self._seen[0] is not view:
            self._seen = view, propagation(view.adjacency)
        operator = self._seen[1]
        return torch.relu(operator @ self.input(view.attributes, np.arange(view.size))), operator


class MeanAndDeviation(nn.Module):
    """The second convolution, whose output is the mean and the log standard deviation, each (n, dim)."""

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, hidden: Tensor, operator: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation of all nodes; `operator` is that of `propagation`."""
        mean, log_deviation = self.convolution(hidden, operator).chunk(2, dim=1)
        return mean, log_deviation


def propagation(adjacency: sp.csr_array) -> Tensor:
    """Return D^-1/2 (A + I) D^-1/2 as a sparse tensor (n, n); D are the row sums of A + I."""
    looped = sp.csr_array(adjacency + sp.eye_array(adjacency.shape[0], dtype=np.float32, format="csr"))
    scale = sp.diags_array(1 / np.sqrt(looped.sum(axis=1, dtype=np.float64)))
    scaled = sp.csr_array(scale @ looped @ scale)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        indptr, indices = (torch.from_numpy(each.astype(np.int64)) for each in (scaled.indptr, scaled.indices))
        values = torch.from_numpy(scaled.data.astype(np.float32))
        # torch warns unless check_invariants is given.
        return torch.sparse_csr_tensor(indptr, indices, values, size=scaled.shape, check_invariants=True)


def upper_pairs(adjacency: sp.csr_array) -> npt.NDArray[np.int64]:
    """Return the edges (E, 2) of a symmetric matrix, the smaller node first."""
    return np.column_stack(sp.triu(adjacency, 1).coords).astype(np.int64)


def non_edges(adjacency: sp.csr_array, count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw `count` pairs uniformly and return those that are neither edges nor self-loops."""
    drawn = generator.integers(adjacency.shape[0], size=(count, 2))
    is_edge = np.asarray(adjacency[drawn[:, 0], drawn[:, 1]]).ravel() != 0
    return np.asarray(drawn[~is_edge & (drawn[:, 0] != drawn[:, 1])])


def products(z: Tensor, pairs: npt.NDArray[np.int64]) -> Tensor:
    """Return the dot products (P,) of the rows of z at the pairs (P, 2)."""
    first, second = (functional.embedding(torch.from_numpy(side.copy()), z) for side in pairs.T)
    return (first * second).sum(1)


@dataclass(frozen=True)
class VGAE(GraphNetworkMethod):
    """Two graph convolutions give a Gaussian; its mean is the node's point, the decoder a dot product.

    A step uses all edges and as many sampled non-edges. A node without edges is convolved with itself alone, so its
    attributes suffice.
    """

    name: ClassVar[str] = "vgae"
    network: ClassVar[type[GraphNetwork]] = AutoEncoder

    hidden: int = option(256, "Width of the hidden layer; the paper's is twice `dim`, as here.", at_least=1)
    max_steps: int = option(
        200, "Maximum number of steps; each uses all nodes and edges, and takes 3 s for 100,000 nodes.", at_least=1
    )
    validate_every: int = option(5, "Steps between two validations.", at_least=1)
    # On Pubmed the AUC falls from 0.971 to 0.908 and recovers after 11 validations, on its way to 0.984.
    patience: int = option(20, "Stop after this many validations without a better AUC.", at_least=1)


NodeIndex = npt.NDArray[np.int64]

BLOCK = 16_384
"""Nodes per block when all points are computed; bounds the memory of their neighbours."""


class Hop(NamedTuple):
    """The edges of one layer, (2, E): from positions in the distinct `sources` to positions of the computed nodes.

    `own` are the positions of the computed nodes among the sources.
    """

    sources: NodeIndex
    own: NodeIndex
    edges: NodeIndex


class Sage(GraphNetwork):
    """The input layer, then two layers of torch_geometric's SAGEConv; points have length 1.

    The input layer reduces the number of columns. Without it, the first projection would be D x D.
    """

    def __init__(self, view: View, options: "GraphSAGE", streams: Streams) -> None:
        super().__init__(view, options, streams)
        self.options, library = options, torch_geometric_nn(options.name)
        widths = [options.hidden, options.hidden, options.dim]
        self.layers = nn.ModuleList(library.SAGEConv(*ends, aggr="max", project=True) for ends in pairwise(widths))
        degrees = np.asarray(view.adjacency.sum(axis=1), dtype=np.float64)
        self.starts = WeightedSampler((degrees > 0).astype(float))
        self.noise = WeightedSampler(degrees**options.negative_power)
        self.cumulated = np.concatenate([[0.0], np.cumsum(view.adjacency.data, dtype=np.float64)])

    def loss(self, view: View, step: int) -> Tensor:
        """Return the mean over pairs (u, v) of -log sigmoid(s z_u z_v) - Q mean over n of log sigmoid(-s z_u z_n)."""
        anchors, targets = self._pairs(view.adjacency, step)
        negatives = self.noise.draw(self.streams.numpy("negatives", step), self.options.negative_pool_size)
        nodes, places = np.unique(np.concatenate([anchors, targets, negatives]), return_inverse=True)
        z = self._sampled(view, nodes, self.streams.numpy("neighbours", step))
        # functional.embedding gathers rows like indexing, but sums its gradient in a fixed order.
        rows = functional.embedding(torch.from_numpy(places), z)
        anchor, target, noise = torch.split(rows, [len(anchors), len(targets), len(negatives)])
        positive_loss = -functional.logsigmoid(self.options.scale * (anchor * target).sum(1)).mean()
        negative_loss = -functional.logsigmoid(-self.options.scale * anchor @ noise.T).mean()
        return positive_loss + self.options.n_negatives * negative_loss

    def points(self, view: View) -> Tensor:
        """Return the points (n, dim) from all neighbours, layer by layer."""
        with torch.no_grad():
            x: Tensor = self.input(view.attributes, np.arange(view.size))
            for number in range(len(self.layers)):
                blocks = np.split(np.arange(view.size), range(BLOCK, view.size, BLOCK))
                hops = (hop(view.adjacency, block) for block in blocks)
                x = torch.cat([self._layer(number, x[each.sources], each) for each in hops])
        return x

    def _sampled(self, view: View, nodes: NodeIndex, generator: np.random.Generator) -> Tensor:
        """Return the points of these nodes from sampled neighbours of the first and second order."""
        last = hop(view.adjacency, nodes, self.options.first_hop_samples, generator)
        first = hop(view.adjacency, last.sources, self.options.second_hop_samples, generator)
        return self._layer(1, self._layer(0, self.input(view.attributes, first.sources), first), last)

    def _layer(self, number: int, x: Tensor, hop: Hop) -> Tensor:
        own = functional.embedding(torch.from_numpy(hop.own), x)
        out = self.layers[number]((x, own), torch.from_numpy(hop.edges), (len(x), len(own)))
        # The original also normalises the inner layer, which costs a point of validation AUC on Cora-ML.
        return torch.relu(out) if number < len(self.layers) - 1 else functional.normalize(out, dim=1)

    def _pairs(self, adjacency: sp.csr_array, step: int) -> tuple[NodeIndex, NodeIndex]:
        """Return the ends of `batch_size` walks of 1 to `walk_length` edges."""
        generator = self.streams.numpy("walks", step)
        starts = self.starts.draw(generator, self.options.batch_size)
        lengths = generator.integers(1, self.options.walk_length + 1, size=len(starts))
        ends = starts.copy()
        for length in range(self.options.walk_length):
            going = lengths > length
            ends[going] = self._next(adjacency, ends[going], generator)
        return starts, ends

    def _next(self, adjacency: sp.csr_array, nodes: NodeIndex, generator: np.random.Generator) -> NodeIndex:
        """Draw a neighbour of each node by the weight of the edge."""
        begin, end = adjacency.indptr[nodes], adjacency.indptr[nodes + 1]
        low, high = self.cumulated[begin], self.cumulated[end]
        places = np.searchsorted(self.cumulated, low + generator.random(len(nodes)) * (high - low), "right") - 1
        return np.asarray(adjacency.indices[np.clip(places, begin, end - 1)], dtype=np.int64)


@dataclass(frozen=True)
class GraphSAGE(GraphNetworkMethod):
    """Two layers, each from a node's own vector and the maximum over its neighbours' projected vectors."""

    name: ClassVar[str] = "graphsage"
    network: ClassVar[type[GraphNetwork]] = Sage

    hidden: int = option(128, "Width of the input and the hidden layer.", at_least=1)
    learning_rate: float = option(1e-3, "Step size of Adam.", above=0)
    max_steps: int = option(1000, "Maximum number of steps.", at_least=1)
    patience: int = option(5, "Stop after this many validations without a better AUC.", at_least=1)
    batch_size: int = option(256, "Pairs per step, each from one random walk.", at_least=1)
    walk_length: int = option(5, "Longest walk: a pair is the two ends of a walk of 1 to this many edges.", at_least=1)
    n_negatives: int = option(
        1, "Weight of the mean loss of negatives, Q in the paper, whose 20 learned little.", at_least=1
    )
    negative_pool_size: int = option(200, "Negatives drawn per step, shared by all pairs.", at_least=1)
    negative_power: float = option(
        0.0, "Negatives are drawn by degree^power; 0.75 in the paper, 0 is uniform.", at_least=0
    )
    scale: float = option(
        5.0, "Factor of the dot products in the loss; without it, unit vectors keep the sigmoid close to 1/2.", above=0
    )
    first_hop_samples: int = option(25, "Neighbours sampled per node of the batch.", at_least=1)
    second_hop_samples: int = option(10, "Neighbours sampled for each of those.", at_least=1)


def hop(
    adjacency: sp.csr_array, nodes: NodeIndex, most: int | None = None, generator: np.random.Generator | None = None
) -> Hop:
    """Return the edges into these nodes, all of them or at most `most` per node.

    If a node has more, its neighbours are drawn with replacement: for a maximum, that is a smaller sample.
    """
    begin = adjacency.indptr[nodes].astype(np.int64)
    degrees = adjacency.indptr[nodes + 1] - begin
    counts = degrees if most is None else np.minimum(degrees, most)
    rows = np.repeat(np.arange(len(nodes)), counts)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    if generator is not None:
        drawn = (generator.random(len(rows)) * degrees[rows]).astype(np.int64)
        offsets = np.where((degrees > counts)[rows], drawn, offsets)
    neighbours = adjacency.indices[begin[rows] + offsets]
    sources, places = np.unique(np.concatenate([nodes, neighbours]), return_inverse=True)
    return Hop(sources, places[: len(nodes)], np.stack([places[len(nodes) :], rows]))
