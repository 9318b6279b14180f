"""Sets of nodes that hold the other end of a missing edge with a stated probability, by split conformal prediction.

The answers to a node are ranked: first its candidates by the link model, then all other nodes by dissimilarity. Of n
held-out edges and one that is missing, all orders of their ranks are equally probable. So the rank of the missing one
is at most the k-th smallest of the others with probability k / (n + 1). This holds for a random missing edge of the
whole graph, not for each node: the sets of nodes that are hard to predict hold less.
"""

from collections.abc import Iterator

import numpy as np

from glace.blocks import blocks
from glace.errors import InputError
from glace.gaussian.dissimilarity import wide
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions, Values
from glace.graph.graph import Graph
from glace.queries.pair_features import LinkTypes
from glace.sparse import row_of

PERCENT = 100
ROWS = 4096
"""Nodes that others are compared with at a time."""
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
    chosen = np.arange(0, len(edges), step)
    some = edges[chosen]
    limits = embedding.dissimilarities_at(some)
    nearer = np.zeros(len(some))
    for rows, found in dissimilarities_from(embedding, some[:, 0]):
        allowed = types.allowed[types.codes[some[:, 0]]][:, types.codes[rows]]
        nearer += ((found < limits[:, None]) & allowed).sum(axis=1)
    for row, (source, limit) in enumerate(zip(some[:, 0].tolist(), limits.tolist(), strict=True)):
        # What comes before all others, or is known, is not counted by its dissimilarity.
        before = _excluded(graph, source, candidates[chosen[row]])
        near = embedding.dissimilarities_at(np.column_stack([np.full(len(before), source), before])) < limit
        nearer[row] -= (near & types.allowed[types.codes[source]][types.codes[before]]).sum()
    counts = np.array([len(candidates[each]) for each in chosen.tolist()])
    return np.repeat(counts + np.maximum(nearer, 0) + 1, step)[: len(edges)]


def _excluded(graph: Graph, source: int, candidates: Positions) -> Positions:
    """Return the node itself, its neighbours and its candidates."""
    return np.unique(np.concatenate([[source], row_of(graph.neighborhoods(), source), candidates]))


def dissimilarities_from(embedding: Embedding, sources: Positions) -> Iterator[tuple[slice, Values]]:
    """Return blocks of nodes, and the dissimilarities (S, rows) of the nodes of each block from some nodes."""
    roles = embedding.roles_at(sources)
    first = wide(roles.source)
    for rows in blocks(len(embedding), ROWS):
        second = wide(embedding.roles_at(np.arange(rows.start, rows.stop)).target)
        yield rows, roles.scale * embedding.measure.all_pairs(first, second)


def nearest_beyond(
    embedding: Embedding, graph: Graph, types: LinkTypes, source: int, candidates: Positions, count: int
) -> Positions:
    """Return the nodes that come after the candidates of a node, nearest first."""
    among = types.allowed[types.codes[source]][types.codes]
    excluded = [_excluded(graph, source, candidates).tolist()]
    found, _ = embedding.nearest_to(embedding.take(np.array([source])), count, None, excluded, among)
    return np.asarray(found[0][found[0] >= 0])
