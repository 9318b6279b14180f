"""Probable edges of new nodes, which have no edges yet: by the Gaussians and the popularity of the targets."""

import numpy as np
import numpy.typing as npt

from glace.blocks import blocks
from glace.gaussian.dissimilarity import wide
from glace.gaussian.embedding import Embedding, ids_at
from glace.gaussian.search import Positions, Values, checked_count
from glace.graph.graph import Graph
from glace.queries.link_model import POPULARITY, log_density
from glace.queries.links import Links, checked_graph
from glace.queries.neighbors import names_at
from glace.queries.pair_features import LARGEST_LOGIT

SCORES = 1 << 24
"""Scores computed at once: 128 MB."""


def links_of_new_nodes(
    embedding: Embedding,
    graph: Graph | None,
    new: Embedding,
    k: int = 100,
    among: npt.NDArray[np.bool_] | None = None,
    popularity: bool = True,
) -> Links:
    """Find the k most probable edges of each new node.

    A new node has no edges, so that there are no walks from it. Its edges are ranked by the logit of the Gaussians plus
    half the logarithm of the number of edges of the target. The probability holds for a new node with as many edges as
    the nodes of the graph have on average.

    A node that is unlike the training graph has a Gaussian that says nothing about it. It gets the most popular nodes,
    all with the density of the graph as probability.

    Parameters
    ----------
    embedding : Embedding
        The known nodes.
    graph : Graph or None
        Their edges.
    new : Embedding
        The new nodes, embedded by the same model.
    k : int
        Number of edges of each new node.
    among : ndarray of bool, shape (n,), optional
        Only nodes that are True here can be targets.
    popularity : bool
        Whether the numbers of edges count; otherwise the Gaussians alone rank.

    Returns
    -------
    Links
        At most k rows for each new node, in their order; the most probable first.
    """
    from scipy.special import expit

    graph = checked_graph(embedding, graph)
    embedding.check_same_model(new)
    novel = np.zeros(len(new), np.bool_) if new.novel is None else new.novel
    popular = target_popularity(graph) if popularity else np.zeros(len(embedding))
    popular[~(np.ones(len(embedding), np.bool_) if among is None else among)] = -np.inf
    parts = [
        _best(embedding, new.take(np.arange(part.start, part.stop)), novel[part], popular, checked_count(k))
        for part in blocks(len(new), max(SCORES // max(len(embedding), 1), 1))
    ]
    found, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
    source, rank = np.nonzero(scores > -np.inf)
    target = found[source, rank]
    density = log_density(graph, max(graph.num_edges, 1))
    probability = np.where(novel[source], np.exp(min(density, 0.0)), expit(scores[source, rank] + density))
    return Links(
        ids_at(new.ids, source),
        ids_at(embedding.ids, target),
        None,
        names_at(graph.node_types, target),
        probability,
        embedding.dissimilarities_at(np.column_stack([source, target]), new),
        _certainty(embedding, new, source, target),
        None if new.novel is None else novel[source],
    )


def target_popularity(graph: Graph) -> Values:
    """(n,) the weighted logarithm of the number of edges to each node, 0 on average."""
    arriving = graph.adjacency.indices if graph.directed else graph.neighborhoods().indices
    degrees = np.log1p(np.bincount(arriving, minlength=graph.num_nodes))
    return np.asarray(POPULARITY * (degrees - degrees.mean()))


def _best(
    embedding: Embedding, new: Embedding, novel: npt.NDArray[np.bool_], popular: Values, k: int
) -> tuple[Positions, Values]:
    """(Q, k) positions and scores of the best targets of each new node, the best first."""
    roles = embedding.roles
    dissimilarity = roles.scale * embedding.measure.all_pairs(wide(new.roles.source), wide(roles.target))
    logit = np.clip(embedding.platt_scaling.logits(dissimilarity), -LARGEST_LOGIT, LARGEST_LOGIT)
    scores = np.where(novel[:, None], 0.0, logit) + popular
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


def _certainty(
    embedding: Embedding, new: Embedding, source: Positions, target: Positions
) -> npt.NDArray[np.float32] | None:
    if embedding.certainty is None or new.certainty is None:
        return None
    return np.asarray((new.certainty[source] + embedding.certainty[target]) / 2, np.float32)
