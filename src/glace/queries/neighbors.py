"""Neighbours of nodes, as a table."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from glace.categories import Categories
from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions
from glace.gaussian.tables import Column, Neighbors
from glace.graph.graph import Graph
from glace.ids import NodeId
from glace.sparse import row_of

Truth = npt.NDArray[np.bool_]


def neighbors(
    embedding: Embedding,
    graph: Graph | None,
    node: NodeId | Sequence[NodeId] | Embedding,
    k: int = 10,
    *,
    dissimilarity: str | None = None,
    exclude_known: bool = False,
    label: str | None = None,
    node_type: str | None = None,
    min_certainty: float = 0.0,
) -> Neighbors:
    """Find the k nodes most similar to each query by exact search: which nodes are like this one?

    Parameters
    ----------
    embedding : Embedding
        The nodes to search.
    graph : Graph or None
        Edges, labels and node types of the same nodes in the same order.
    node : id, sequence of ids, or Embedding
        The queries: nodes of the embedding, which are no answers to themselves, or new nodes of the same model.
    k : int
        Number of answers to each query.
    dissimilarity : str, optional
        Another dissimilarity than the one of the training.
    exclude_known : bool
        Leave out nodes that the query already has an edge to.
    label, node_type : str, optional
        Only nodes with this label, or of this type.
    min_certainty : float
        Only nodes of at least this certainty.

    Returns
    -------
    Neighbors
        At most k rows per query, with labels, types and known edges if there is a graph.
    """
    needs = {"exclude_known": exclude_known, "label": label is not None, "node_type": node_type is not None}
    needed = next((option for option, is_given in needs.items() if is_given), None)
    if graph is None and needed is not None:
        raise InputError("needs the edges, labels and types of the graph, which the model does not keep", needed)
    among = _certain(embedding, min_certainty, None if graph is None else graph.among(label, node_type))
    if isinstance(node, Embedding):
        if exclude_known:
            raise InputError("does not apply to new nodes, which have no edges; leave it out", "exclude_known")
        return _described(embedding.neighbors_of(node, k, dissimilarity, None, among), graph)
    ids = [node] if isinstance(node, str | int | np.integer) else list(node)
    positions = embedding.ids.positions(ids) if len(ids) > 1 else np.array([embedding.ids.position(ids[0])])
    known = [_known_targets(embedding, graph, position) for position in positions.tolist()]
    exclude = [
        [position, *targets] if exclude_known else [position]
        for position, targets in zip(positions.tolist(), known, strict=True)
    ]
    found = embedding.neighbors_of(embedding.take(positions), k, dissimilarity, exclude, among)
    return _described(found, graph, dict(zip(ids, map(set, known), strict=True)))


def _certain(embedding: Embedding, least: float, among: Truth | None) -> Truth | None:
    """Return which of the nodes that may be answers (n,) have at least this certainty; None stands for all nodes."""
    if least == 0:
        return among
    if not 0 < least <= 1:
        raise InputError(f"must be from 0 to 1, not {least}", option="min_certainty")
    if embedding.certainty is None:
        raise InputError("needs certainties, which this embedding does not have; leave it out", "min_certainty")
    certain = np.asarray(embedding.certainty >= least)
    return certain if among is None else certain & among


def _known_targets(embedding: Embedding, graph: Graph | None, position: int) -> list[int]:
    """Positions that the graph has an edge to; in either direction if the measure is symmetric."""
    if graph is None:
        return []
    targets: list[int] = row_of(graph.known_edges(embedding.measure.symmetric), position).tolist()
    return targets


def _described(found: Neighbors, graph: Graph | None, known: dict[NodeId, set[int]] | None = None) -> Neighbors:
    """The answers with labels, node types and known edges, as far as the graph has them."""
    if graph is None:
        return found
    answers = zip(found.query.tolist(), found.position.tolist(), strict=True)
    is_known = None if known is None else np.array([other in known[query] for query, other in answers], np.bool_)
    label, node_type = names_at(graph.labels, found.position), names_at(graph.node_types, found.position)
    return replace(found, label=label, type=node_type, known=is_known)


def names_at(categories: Categories | None, positions: Positions) -> Column | None:
    """Names of the categories of the nodes at these positions, None where a node has none."""
    if categories is None:
        return None
    return np.array([*categories.names, None], dtype=object)[categories.codes[positions]]
