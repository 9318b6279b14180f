"""The interface of every embedding method, and what the baselines share."""

from typing import Protocol

import numpy as np
import scipy.sparse as sp

from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.node_types import checked_matrix
from glace.graph.split import HeldOut
from glace.ids import NodeIds
from glace.rng import Streams
from glace.sparse import Matrix, narrowed


class Method(Protocol):
    """A way to embed a graph, with its options set."""

    @property
    def name(self) -> str:
        """The name of the method."""

    @property
    def inductive(self) -> bool:
        """Whether the method can embed nodes outside of the training graph, from their attributes alone."""

    def embed(
        self, graph: Graph, streams: Streams, unseen: Matrix | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Return the embedding of the graph's nodes, followed by nodes with the attributes `unseen`.

        Early stopping uses the pairs of `validation`, which are not in the graph, or edges that the method holds out.
        """


def with_unseen(ids: NodeIds, count: int) -> NodeIds:
    """Return the ids of a graph, followed by ids for unseen nodes up to `count` in all."""
    if count == len(ids):
        return ids
    return NodeIds([*map(str, ids.to_numpy()), *(f"unseen {number}" for number in range(count - len(ids)))])


def refuse_unseen(method: Method, unseen: Matrix | None) -> None:
    """Raise if there are unseen nodes, for a method that knows nodes by their edges only."""
    if unseen is not None:
        raise InputError(
            f"{method.name} cannot embed nodes outside of the training graph: it knows a node by its edges; "
            "choose an inductive method, such as glace or graph2gauss"
        )


def all_attributes(graph: Graph, unseen: Matrix | None) -> Matrix:
    """Return the attributes of the graph's nodes and of unseen nodes, which must have the same columns."""
    known = graph.features()
    if unseen is None:
        return known
    if not graph.has_attributes:
        raise InputError(
            "the graph has no attributes, so nothing is known about unseen nodes; give the graph attributes, "
            "or embed only its own nodes"
        )
    if unseen.ndim != 2 or unseen.shape[1] != graph.num_attributes:
        raise InputError(
            f"unseen nodes need the {graph.num_attributes:,} attributes of the graph, but have the shape {unseen.shape}"
        )
    rows = checked_matrix(unseen)
    if sp.issparse(known):
        return narrowed(sp.vstack([known, sp.csr_array(rows)], format="csr"))
    return np.concatenate([known, rows.toarray() if isinstance(rows, sp.csr_array) else rows])


def scaled_attributes(graph: Graph, unseen: Matrix | None) -> Matrix:
    """Return `all_attributes`, sparse rows of length 1, dense columns standardised over the graph's nodes."""
    from sklearn.preprocessing import StandardScaler, normalize

    rows = all_attributes(graph, unseen)
    if sp.issparse(rows):
        return narrowed(sp.csr_array(normalize(rows.astype(np.float32))))
    scaler = StandardScaler().fit(rows[: graph.num_nodes].astype(np.float64))
    return np.asarray(scaler.transform(rows), dtype=np.float32)
