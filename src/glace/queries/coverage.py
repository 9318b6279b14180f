"""Sets of nodes that hold the other end of a missing edge with a stated probability, by split conformal prediction.

The answers to a node are ranked: first its candidates by the link model, then all other nodes by dissimilarity. Of n
held-out edges and one that is missing, all orders of their ranks are equally probable. So the rank of the missing one
is at most the k-th smallest of the others with probability k / (n + 1). This holds for a random missing edge of the
whole graph, not for each node: the sets of nodes that are hard to predict hold less.
"""

import numpy as np

from glace.blocks import BLOCK, blocks
from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions, Values
from glace.graph.graph import Graph
from glace.queries.pair_features import LinkTypes
from glace.sparse import row_of

PERCENT = 100
COMPARED = 20_000_000
"""Dissimilarities that are computed, at most, to rank held-out edges that are no candidates."""


def set_sizes(ranks: Values) -> Positions:
    """Return (100,) the sizes of sets that hold a missing edge with a probability of 1, 2, ..., 100 %.

    `ranks` are those of the held-out edges. Sizes are -1 where there are too few of them.
    """
    place = -(-np.arange(1, PERCENT + 1) * (len(ranks) + 1) // PERCENT)  # rounded up
    found = np.sort(np.ceil(ranks)).astype(np.int64)
    return np.where(place <= len(found), found[np.minimum(place, len(found)) - 1], -1)


def set_size(sizes: Positions | None, coverage: float) -> int:
    """Return the size of a set with this coverage, of those that `set_sizes` gave; raise if it is not known."""
    if not 0 < coverage < 1:
        raise InputError(f"must be above 0 and below 1, not {coverage}", option="coverage")
    if sizes is None:
        raise InputError(
            "needs a link model that was fitted to held-out edges, and this one was not; leave it out, or fit with a "
            "larger validation_fraction",
            option="coverage",
        )
    size = int(sizes[int(np.ceil(PERCENT * coverage - 1e-9)) - 1])
    if size < 0:
        raise InputError(
            f"{coverage} cannot be promised with so few held-out edges; ask for less, or fit with a larger "
            "validation_fraction",
            option="coverage",
        )
    return size


def ranks_beyond(
    embedding: Embedding, graph: Graph, types: LinkTypes, edges: Positions, candidates: list[Positions]
) -> Values:
    """Return the ranks of edges whose targets are not among the candidates of their sources.

    Parameters
    ----------
    embedding, graph, types
        The nodes, their known edges, and which types an edge may connect.
    edges
        (M, 2) source and target.
    candidates
        The candidates of the source of each edge.

    Returns
    -------
    ndarray of float, shape (M,)
        Ranks. If there are many edges, those of a sample stand for all.
    """
    step = max(-(-len(edges) * len(embedding) // COMPARED), 1)
    chosen, ranks = np.arange(0, len(edges), step), np.empty(0)
    for part in blocks(len(chosen), max(BLOCK // len(embedding), 1)):
        some = chosen[part]
        found = dissimilarities_from(embedding, edges[some, 0])
        rows = zip(found, edges[some].tolist(), (candidates[each] for each in some.tolist()), strict=True)
        ranks = np.append(ranks, [_rank_beyond(row, edge, graph, types, known) for row, edge, known in rows])
    return np.repeat(ranks, step)[: len(edges)]


def _rank_beyond(found: Values, edge: list[int], graph: Graph, types: LinkTypes, candidates: Positions) -> float:
    """Return the rank of one edge; `found` (n,) are the dissimilarities of all nodes from its source."""
    source, target = edge
    nearer = found < found[target]
    nearer &= types.allowed[types.codes[source]][types.codes]
    nearer[[source, *row_of(graph.neighborhoods(), source).tolist(), *candidates.tolist()]] = False
    return float(len(candidates) + nearer.sum() + 1)


def dissimilarities_from(embedding: Embedding, sources: Positions) -> Values:
    """Return (S, n) the dissimilarities of all nodes from some."""
    roles = embedding.roles
    return np.asarray(roles.scale * embedding.measure.all_pairs(roles.source[sources], roles.target))


def nearest_beyond(
    embedding: Embedding, graph: Graph, types: LinkTypes, source: int, candidates: Positions, count: int
) -> Positions:
    """Return the nodes that come after the candidates of a node, nearest first."""
    found = dissimilarities_from(embedding, np.array([source]))[0]
    found[~types.allowed[types.codes[source]][types.codes]] = np.inf
    found[[source, *row_of(graph.neighborhoods(), source).tolist(), *candidates.tolist()]] = np.inf
    order = np.argsort(found, kind="stable")[:count]
    return np.asarray(order[np.isfinite(found[order])])
