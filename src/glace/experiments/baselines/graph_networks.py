"""What the graph neural networks have in common: what they see of a graph, and how they are trained.

The layers come from torch_geometric. The first one is glace's own input layer, so that attributes stay sparse,
and its rows are trained as GLACE's are. Every network ends in one point a node; an edge is a large dot product.
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
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.errors import InputError
from glace.experiments.baselines.descent import Descent
from glace.experiments.baselines.method import Attributes, check_unseen, with_unseen
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import LinkScores, link_scores
from glace.model.input_layers import InputLayer, InputShape, input_layer
from glace.model.threads import using_threads
from glace.options import option
from glace.rng import Streams
from glace.sampling.edges import check_negatives_exist
from glace.sparse import narrowed


@dataclass(frozen=True)
class View:
    """What a network sees: attributes (n, D), and symmetric weights of edges (n, n), both directions in it."""

    attributes: Attributes
    adjacency: sp.csr_array

    @classmethod
    def of(cls, graph: Graph, unseen: Attributes | None = None) -> "View":
        """A graph, its directions forgotten, and behind its nodes the unseen ones, which have no edges."""
        adjacency = graph.adjacency
        if graph.directed:
            adjacency = narrowed(sp.csr_array(adjacency.maximum(adjacency.T)))
        count = 0 if unseen is None else unseen.shape[0]
        size = graph.num_nodes + count
        padded = np.concatenate([adjacency.indptr, np.repeat(adjacency.indptr[-1:], count)])
        edges = sp.csr_array((adjacency.data, adjacency.indices, padded), shape=(size, size))
        return cls(_attributes(graph.features(), unseen), narrowed(edges))

    @property
    def size(self) -> int:
        """Number of nodes, n."""
        return int(self.adjacency.shape[0])

    @property
    def shape(self) -> InputShape:
        """What the attributes look like to an input layer."""
        return InputShape(int(self.attributes.shape[1]), sp.issparse(self.attributes))


class GraphNetwork(nn.Module):
    """A network that gives every node a point, and knows how wrong it is on the edges it is trained on."""

    @abstractmethod
    def loss(self, view: View, step: int) -> Tensor:
        """The loss of this step; what is drawn for it depends on the step's number only."""

    @abstractmethod
    def points(self, view: View) -> Tensor:
        """(n, dim) of all nodes, without a gradient."""


@dataclass(frozen=True)
class GraphNetworkMethod(Descent):
    """Options that every graph network has; a method adds its own and says how its network is made."""

    name: ClassVar[str]
    inductive: ClassVar[bool] = True

    dim: int = option(128, "Numbers a node.", at_least=1)
    hidden: int = option(256, "Width of the hidden layer.", at_least=1)

    @abstractmethod
    def network(self, library: Any, view: View, streams: Streams) -> GraphNetwork:
        """An untrained network for the attributes of this view; `library` is torch_geometric.nn."""

    def embed(
        self,
        graph: Graph,
        streams: Streams,
        unseen: Attributes | None = None,
        validation: HeldOut | None = None,
    ) -> Embedding:
        """The points of the graph's nodes, then of the unseen ones, known by their attributes alone.

        The held-out edges choose the weights only: the points are made from all edges of the graph.
        """
        library = torch_geometric_nn(self.name)
        check_negatives_exist(graph)
        check_unseen(graph, unseen)
        rest, held_out = self.hold_out(graph, validation, streams)
        with using_threads(1), seeded(streams):
            training = View.of(rest)
            network = self.network(library, training, streams)
            look = None if held_out is None else partial(_auc, network, training, held_out)
            self.train(network, partial(network.loss, training), look)
            mean = network.points(View.of(graph, unseen)).numpy()
        ids = with_unseen(graph.ids, 0 if unseen is None else unseen.shape[0])
        return Embedding(ids, np.ascontiguousarray(mean), None, "dot")


def fitting_input(view: View, hidden: int, streams: Streams) -> InputLayer:
    """The first layer."""
    return input_layer(view.shape, hidden, streams.numpy("weights"))


def _auc(network: GraphNetwork, view: View, held_out: HeldOut) -> float:
    points = network.points(view)
    return pair_scores(points.numpy(), held_out).auc if points.isfinite().all() else math.nan


def pair_scores(points: npt.NDArray[np.float32], held_out: HeldOut) -> LinkScores:
    """How well the dot products of points (n, dim) tell held-out edges from non-edges."""
    first, second = held_out.pairs().T
    return link_scores(np.einsum("pd,pd->p", points[first], points[second]), held_out.truth())


@contextlib.contextmanager
def seeded(streams: Streams) -> Iterator[None]:
    """Run the block with torch's own generator, which its layers draw from, at a seed of ours; then put it back."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(streams.numpy("torch").integers(2**63)))
        yield


def torch_geometric_nn(method: str) -> Any:
    """torch_geometric.nn; InputError if it is not installed."""
    try:
        # Importing it compiles some of its own code by ways that torch calls outdated: nothing a caller can change.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("torch_geometric.nn")
    except ImportError as problem:
        raise InputError(
            f"{method} needs torch_geometric, which cannot be imported ({problem}); "
            "pip install 'glace-graph[baselines]'"
        ) from problem


def _attributes(known: Attributes, unseen: Attributes | None) -> Attributes:
    """The rows of both: sparse ones of length 1, dense columns of mean 0 and variance 1 over the known rows."""
    if sp.issparse(known):
        from sklearn.preprocessing import normalize

        rows = known if unseen is None else sp.vstack([known, sp.csr_array(unseen)], format="csr")
        return narrowed(sp.csr_array(normalize(rows.astype(np.float32))))
    deviation = np.std(known, axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1  # a constant column
    below = [] if unseen is None else [unseen.toarray() if sp.issparse(unseen) else unseen]
    scaled = (np.concatenate([known, *below]) - np.mean(known, axis=0, dtype=np.float64)) / deviation
    return scaled.astype(np.float32)
