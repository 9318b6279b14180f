"""Rankers of missing edges: embeddings, the link model, and heuristics of the edges alone."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from glace.blocks import blocks
from glace.experiments.evaluation.ranking import ENTRIES, Ranker
from glace.fitted.model import FittedModel
from glace.gaussian.dissimilarity import wide
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions, Values
from glace.graph.graph import Graph
from glace.kernels.compile import kernel_threads
from glace.queries.link_model import POPULARITY, LinkModel
from glace.queries.pair_features import PairFeatures

RESTART = 0.2
HOPS = 6
"""Longest walk of PageRank; the longer ones have a quarter of the weight and hardly an order of their own."""
NEAREST = 100
"""Nodes that item-kNN compares with each node; on user-item graphs better than 20, and than all."""
BELOW = -1e6
"""Added to the score of a pair that is no candidate of the link model, so that all candidates are above it."""


def by_embedding(embedding: Embedding) -> Ranker:
    """Rank by the dissimilarity from the source to the target."""
    roles, measure = embedding.roles, embedding.measure
    left, right = measure.left(wide(roles.source)), measure.right(wide(roles.target))

    def scores(sources: Positions) -> Values:
        found = left.vector[sources] @ right.vector.T
        found += left.bias[sources, None]
        found += right.bias
        found *= -roles.scale
        return np.asarray(found)

    return Ranker(scores)


def by_link_model(fitted: FittedModel) -> Ranker:
    """Rank as `FittedModel.links` does: candidates by the link model, the others below them by logit and degree.

    Without a link model, by the Gaussians alone.
    """
    assert fitted.graph is not None
    gaussians, model = by_embedding(fitted.embedding), fitted.link_model

    def proposals(k: int) -> Positions:
        found = fitted.links(k=k)
        return fitted.embedding.positions_of(list(zip(found.source.tolist(), found.target.tolist(), strict=True)))

    if model is None:
        return Ranker(gaussians.scores, proposals)
    pairs, slope = PairFeatures(fitted.embedding, fitted.graph, model.names), fitted.embedding.platt_scaling.slope
    popularity = POPULARITY * np.log1p(pairs.degrees) + BELOW

    def scores(sources: Positions) -> Values:
        block: Values = slope * gaussians.scores(sources) + popularity
        with kernel_threads(fitted.config.run.n_jobs):
            targets, features = pairs.candidates(sources)
            found = model.scores(features)
        row, column = np.nonzero(targets >= 0)
        block[row, targets[row, column]] = found[row, column]
        return block

    return Ranker(scores, proposals)


def link_model_scores(fitted: FittedModel, model: LinkModel, pairs: Positions) -> Values:
    """Return the scores of pairs (P, 2) by the link model."""
    assert fitted.graph is not None
    with kernel_threads(fitted.config.run.n_jobs):
        return model.scores(PairFeatures(fitted.embedding, fitted.graph, model.names).of_pairs(pairs))


def adamic_adar(graph: Graph) -> Ranker:
    """Common neighbours, each counting 1 / log of its degree."""
    edges, degrees = _edges(graph)
    # A node with one edge is a common neighbour of no pair.
    return _common(edges, 1 / np.log(np.maximum(degrees, 2)))


def resource_allocation(graph: Graph) -> Ranker:
    """Common neighbours, each counting 1 / its degree."""
    edges, degrees = _edges(graph)
    return _common(edges, 1 / np.maximum(degrees, 1))


def three_paths(graph: Graph) -> Ranker:
    """Paths of three edges, each counting 1 / sqrt of the product of the degrees of its two inner nodes."""
    edges, degrees = _edges(graph)
    inner = _scaled(edges, degrees)

    def scores(sources: Positions) -> Values:
        return np.ascontiguousarray((edges @ _dense((edges[sources] @ inner).T)).T)

    return Ranker(scores)


def pagerank(graph: Graph) -> Ranker:
    """Personalised PageRank, made symmetric: times the degree of the source, which keeps the order of its targets.

    Times sqrt(degree of the source / degree of the target) is symmetric too, but ranks far worse.
    """
    edges, degrees = _edges(graph)
    step = _scaled(edges, degrees)

    def scores(sources: Positions) -> Values:
        walk = _dense((step[sources] @ step).T)
        total = RESTART * (1 - RESTART) ** 2 * walk
        for hop in range(3, HOPS + 1):
            walk = step @ walk
            total += RESTART * (1 - RESTART) ** hop * walk
        return np.ascontiguousarray(total.T) * np.sqrt(np.outer(degrees[sources], degrees))

    return Ranker(scores)


def degree(graph: Graph) -> Ranker:
    """Popularity: the product of both degrees."""
    _, degrees = _edges(graph)
    return Ranker(lambda sources: np.outer(degrees[sources], degrees))


def item_knn(graph: Graph) -> Ranker:
    """Item-kNN: the sum of the cosines of the target with those neighbours of the source that are nearest to it.

    The cosine is that of two rows of the adjacency; the nearest are `NEAREST` nodes. From a user of a user-item graph
    these are the items that the same users have as the user's own items.
    """
    edges, degrees = _edges(graph)
    unit = sp.csr_array(sp.diags_array(1 / np.sqrt(np.maximum(degrees, 1))) @ edges)
    size = graph.num_nodes
    found = [_nearest(unit, rows) for rows in blocks(size, max(ENTRIES // size, 1))]
    nearest = sp.csr_array(sp.vstack(found).T)
    return Ranker(lambda sources: np.asarray((edges[sources] @ nearest).toarray()))


def _nearest(unit: sp.csr_array, rows: slice) -> sp.csr_array:
    """Return (R, n) the cosines of some rows with the `NEAREST` most similar rows, without the row itself."""
    cosines = (unit[rows] @ unit.T).toarray()
    cosines[np.arange(len(cosines)), np.arange(rows.start, rows.stop)] = 0
    if cosines.shape[1] > NEAREST:
        least = np.partition(cosines, -NEAREST, axis=1)[:, -NEAREST, None]
        cosines[cosines < least] = 0
    return sp.csr_array(cosines)


HEURISTICS: dict[str, Callable[[Graph], Ranker]] = {
    "adamic-adar": adamic_adar,
    "resource-allocation": resource_allocation,
    "3-paths": three_paths,
    "pagerank": pagerank,
    "degree": degree,
    "item-knn": item_knn,
}


def _edges(graph: Graph) -> tuple[sp.csr_array, Values]:
    """Return the symmetric adjacency (n, n) of zeros and ones, and the degrees (n,)."""
    edges = sp.csr_array(graph.neighborhoods() != 0, dtype=np.float64)
    return edges, np.diff(edges.indptr).astype(np.float64)


def _scaled(edges: sp.csr_array, degrees: Values) -> sp.csr_array:
    """Return D^-1/2 A D^-1/2."""
    root = sp.diags_array(1 / np.sqrt(np.maximum(degrees, 1)))
    return sp.csr_array(root @ edges @ root)


def _common(edges: sp.csr_array, weight: Values) -> Ranker:
    weighted = sp.csr_array(sp.diags_array(weight) @ edges)
    return Ranker(lambda sources: np.asarray((edges[sources] @ weighted).toarray()))


def _dense(block: sp.sparray) -> Values:
    return np.ascontiguousarray(block.toarray())
