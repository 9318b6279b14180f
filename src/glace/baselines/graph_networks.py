"""What the graph neural networks have in common: what they see of a graph, and how they are trained.

The layers come from torch_geometric. The first one is glace's own input layer, so that attributes stay sparse,
and its rows are trained as GLACE's are. Every network ends in one point a node; an edge is a large dot product.
"""

import contextlib
import importlib
import math
import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.baselines.method import Attributes, with_unseen
from glace.errors import InputError, TrainingDiverged
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.sparse import narrowed
from glace.graph.split import HeldOut, hold_out
from glace.metrics import LinkScores, link_scores
from glace.model.encoders import DenseInput, InputShape, SparseInput, input_layer
from glace.options import Configuration, option
from glace.rng import Streams
from glace.sampling.edges import check_negatives_exist
from glace.training.optimizer import RowwiseAdam
from glace.training.threads import using_threads


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
class GraphNetworkMethod(Configuration):
    """Options that every graph network has; a method adds its own and says how its network is made."""

    name: ClassVar[str]
    inductive: ClassVar[bool] = True

    dim: int = option(128, "Numbers a node.", at_least=1)
    hidden: int = option(256, "Width of the hidden layer.", at_least=1)
    learning_rate: float = option(1e-2, "Adam's step size.", above=0)
    max_steps: int = option(1000, "Most steps.", at_least=1)
    max_seconds: float | None = option(
        None,
        "Stop after this time; the only limit that makes results depend on the clock.",
        above=0,
        kind=float,
        optional=True,
    )
    validation_share: float = option(
        0.05,
        "Share of edges held out for early stopping; 0 trains on all, to the last step.",
        at_least=0,
        below=1,
    )
    validate_every: int = option(50, "Steps between two looks at the held-out edges.", at_least=1)
    patience: int = option(10, "Stop after so many looks without a better AUC.", at_least=1)

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
        rest, held_out = graph, validation
        if validation is None and self.validation_share > 0:
            rest, held_out = hold_out(graph, self.validation_share, streams.numpy("validation"))
        with using_threads(1), seeded(streams):
            training = View.of(rest)
            network = self.network(library, training, streams)
            train(network, training, held_out, self)
            mean = network.points(View.of(graph, unseen)).numpy()
        ids = with_unseen(graph.ids, 0 if unseen is None else unseen.shape[0])
        return Embedding(ids, np.ascontiguousarray(mean), None, "dot")


def fitting_input(view: View, hidden: int, streams: Streams) -> SparseInput | DenseInput:
    """The first layer."""
    return input_layer(view.shape, hidden, streams.numpy("weights"))


@dataclass
class Course:
    """How far training is, and the validation AUC of every look so far."""

    step: int = 0
    seconds: float = 0.0
    looks: list[float] = field(default_factory=list)

    @property
    def since_best(self) -> int:
        """Looks since the best one, the earliest of equals."""
        return len(self.looks) - 1 - int(np.argmax(self.looks)) if self.looks else 0

    def is_over(self, options: GraphNetworkMethod) -> bool:
        """Whether a limit is reached, or patience at its end."""
        late = options.max_seconds is not None and self.seconds >= options.max_seconds
        return late or self.step >= options.max_steps or self.since_best >= options.patience


def train(network: GraphNetwork, view: View, held_out: HeldOut | None, options: GraphNetworkMethod) -> Course:
    """Take steps until a limit is reached or the held-out edges say so; the best weights stay in the network."""
    course, start = Course(), time.perf_counter()
    optimizer = RowwiseAdam(network)
    best: dict[str, Tensor] | None = None
    while not course.is_over(options):
        _step(network, view, optimizer, course.step, options.learning_rate)
        course.step, course.seconds = course.step + 1, time.perf_counter() - start
        is_due = course.step % options.validate_every == 0 or course.is_over(options)
        if held_out is not None and is_due:
            points = network.points(view)
            if not points.isfinite().all():
                raise _diverged("the points are not finite", course.step, options.learning_rate)
            course.looks.append(pair_scores(points.numpy(), held_out).auc)
            if course.since_best == 0:
                best = {name: value.clone() for name, value in network.state_dict().items()}
    if best is not None:
        network.load_state_dict(best)
    return course


def _step(network: GraphNetwork, view: View, optimizer: RowwiseAdam, step: int, learning_rate: float) -> None:
    loss = network.loss(view, step)
    if not math.isfinite(loss.item()):
        raise _diverged(f"the loss is {loss.item()}", step, learning_rate)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step(step + 1, learning_rate)


def _diverged(what: str, step: int, learning_rate: float) -> TrainingDiverged:
    return TrainingDiverged(
        f"{what} at step {step + 1} with learning rate {learning_rate:.2g}; "
        "try a smaller learning rate, or attributes of a smaller scale"
    )


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


def check_unseen(graph: Graph, unseen: Attributes | None) -> None:
    """Raise unless unseen nodes have the attributes that the graph's nodes have."""
    if unseen is None:
        return
    if graph.attributes is None:
        raise InputError(
            "the graph has no attributes, so nothing is known of a node it does not have; give it attributes, "
            "or embed its own nodes only"
        )
    if unseen.ndim != 2 or unseen.shape[1] != graph.num_attributes:
        raise InputError(
            f"unseen nodes need the {graph.num_attributes:,} attributes of the graph, "
            f"but have the shape {unseen.shape}"
        )


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
