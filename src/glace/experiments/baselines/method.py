"""What every method of embedding is: options, and `embed(graph, streams) -> Embedding`."""

from typing import Any, Protocol, TypeAlias

from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.ids import NodeIds
from glace.rng import Streams

Attributes: TypeAlias = Any
"""A csr_array or an array (R, D) of float32."""


class Method(Protocol):
    """A way to embed a graph, with its options set."""

    @property
    def name(self) -> str:
        """What it is called by."""

    @property
    def inductive(self) -> bool:
        """Whether nodes that had no part in training can be embedded, from their attributes alone."""

    def embed(self, graph: Graph, streams: Streams, unseen: Any = None, validation: HeldOut | None = None) -> Embedding:
        """The graph's nodes in its order, then those of `unseen`, rows of attributes that training never sees.

        A method that is judged while it trains is so by the pairs of `validation`, which are not in the graph,
        or by edges it holds out itself if there are none.
        """


def with_unseen(ids: NodeIds, count: int) -> NodeIds:
    """The ids of a graph, and names for so many nodes that are not in it."""
    if not count:
        return ids
    return NodeIds([*map(str, ids.to_numpy()), *(f"unseen {number}" for number in range(count))])


def refuse_unseen(method: Method, unseen: Any) -> None:
    """Raise for a method that knows nodes by their edges only."""
    if unseen is not None:
        raise InputError(
            f"{method.name} cannot embed nodes it was not trained on: it knows a node by its edges; "
            "choose an inductive method, such as glace or graph2gauss"
        )


def check_unseen(graph: Graph, unseen: Attributes | None) -> None:
    """Raise unless unseen nodes have the attributes that the graph's nodes have."""
    if unseen is None:
        return
    if not graph.has_attributes:
        raise InputError(
            "the graph has no attributes, so nothing is known of a node it does not have; give it attributes, "
            "or embed its own nodes only"
        )
    if unseen.ndim != 2 or unseen.shape[1] != graph.num_attributes:
        raise InputError(
            f"unseen nodes need the {graph.num_attributes:,} attributes of the graph, but have the shape {unseen.shape}"
        )
