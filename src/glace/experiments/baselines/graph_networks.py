"""What the graph neural networks share: their view of a graph, and their training.

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
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.errors import InputError
from glace.experiments.baselines.descent import Descent
from glace.experiments.baselines.method import scaled_attributes, with_unseen
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import LinkScores, link_scores
from glace.model.inputs import InputShape
from glace.model.layers import InputLayer, input_layer
from glace.model.network import using_threads
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import check_negatives_exist
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

    @property
    def shape(self) -> InputShape:
        """Width and storage of the attributes."""
        return InputShape(int(self.attributes.shape[1]), sp.issparse(self.attributes))


class GraphNetwork(nn.Module):
    """A network with a loss and a point for every node."""

    @abstractmethod
    def loss(self, view: View, step: int) -> Tensor:
        """Return the loss of a step; its random draws depend only on the number of the step."""

    @abstractmethod
    def points(self, view: View) -> Tensor:
        """Return the points of all nodes (n, dim), without gradient."""


@dataclass(frozen=True)
class GraphNetworkMethod(Descent):
    """Options of every graph network; a method adds its own, and makes its network."""

    name: ClassVar[str]
    inductive: ClassVar[bool] = True

    dim: int = option(128, "Dimensions of a point.", at_least=1)
    hidden: int = option(256, "Width of the hidden layer.", at_least=1)

    @abstractmethod
    def network(self, library: Any, view: View, streams: Streams) -> GraphNetwork:
        """Return an untrained network for the attributes of a view; `library` is torch_geometric.nn."""

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return the points of the graph's nodes, then those of `unseen`, from their attributes alone.

        Held-out edges are for early stopping only: the final points use all edges of the graph.
        """
        library = torch_geometric_nn(self.name)
        check_negatives_exist(graph)
        everything = View.of(graph, unseen)
        rest, held_out = self.hold_out(graph, validation, streams)
        with using_threads(1), seeded(streams):
            training = View.of(rest)
            network = self.network(library, training, streams)
            validate = None if held_out is None else partial(validation_scores, network, training, held_out)
            self.train(network, partial(network.loss, training), validate)
            mean = network.points(everything).numpy()
        return Embedding(with_unseen(graph.ids, len(mean)), np.ascontiguousarray(mean), None, "dot")


def fitting_input(view: View, hidden: int, streams: Streams) -> InputLayer:
    """Return the first layer, for the attributes of a view."""
    return input_layer(view.shape, hidden, streams.numpy("weights"))


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


def torch_geometric_nn(method: str) -> Any:
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
