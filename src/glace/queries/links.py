"""The most probable missing edges: of one node, of new nodes, or of a whole graph without comparing all pairs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glace.blocks import blocks
from glace.errors import InputError
from glace.gaussian.embedding import Embedding, ids_at
from glace.gaussian.search import Positions, Values, checked_count
from glace.gaussian.tables import Column, Table
from glace.graph.graph import Graph
from glace.ids import NodeId
from glace.queries.approximate import Indices
from glace.queries.coverage import nearest_beyond, set_size
from glace.queries.gaussian_links import BestPairs, likely_links, links_of
from glace.queries.link_model import LinkModel, log_density, missing_edges
from glace.queries.neighbors import names_at
from glace.queries.pair_features import LinkTypes, PairFeatures, link_types, links_of_each, word_names, words_of
from glace.sparse import nonzeros_per_row, row_of

NODES = 2048
"""Nodes whose candidates are scored at once, between two reports of progress."""
MARGIN = 2
"""The best pairs by walks that start at one end are this many times the answers; walks from both ends rank them."""
LOWEST = -1e9
"""Score of a missing candidate."""
REASONS = 3
"""Common neighbours that a reason names."""

Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False, repr=False)
class Links(Table):
    """Missing edges, most probable first.

    Attributes
    ----------
    source, target : ndarray
        Ids of the two nodes.
    source_type, target_type : ndarray, optional
        Their node types, if the graph has types.
    probability : ndarray of float
        The share of such proposals that are right, if the stated fraction of all edges is missing.
    dissimilarity : ndarray of float
        From source to target.
    certainty : ndarray of float, optional
        Mean certainty of the two nodes.
    novel : ndarray of bool, optional
        For new nodes, whether the source is unlike the training graph. The probability is then the density of the
        graph: nothing is known about the source.
    why : ndarray of str, optional
        What speaks for the edge.
    doubt : ndarray of str, optional
        What makes answers about its ends uncertain.
    """

    source: Column
    target: Column
    source_type: Column | None
    target_type: Column | None
    probability: npt.NDArray[np.float64]
    dissimilarity: npt.NDArray[np.float64]
    certainty: npt.NDArray[np.float32] | None
    novel: npt.NDArray[np.bool_] | None = None
    why: Column | None = None
    doubt: Column | None = None

    @property
    def expected_edges(self) -> float:
        """How many of the pairs are expected to be edges, if the stated fraction of all edges is missing."""
        return float(self.probability.sum())


@dataclass(frozen=True)
class LinkOptions:
    """How links are searched.

    Parameters
    ----------
    missing_edge_fraction
        The fraction of all edges that the graph is assumed to lack, which probabilities depend on.
    why
        Whether to say what speaks for each edge.
    approximate
        Search Gaussians with an index; only without a link model.
    expected_precision
        Cut the list where the share of edges that is expected in it falls below this.
    coverage
        Of a node, return as many candidates as hold the other end of a missing edge with this probability.
    """

    missing_edge_fraction: float
    why: bool = False
    approximate: bool = False
    expected_precision: float | None = None
    coverage: float | None = None


def links(
    embedding: Embedding,
    graph: Graph | None,
    model: LinkModel | None,
    options: LinkOptions,
    node: NodeId | None = None,
    k: int = 100,
    node_type: str | None = None,
    progress: Progress | None = None,
) -> Links:
    """Find the k most probable edges that a graph does not have.

    Parameters
    ----------
    embedding : Embedding
        The nodes.
    graph : Graph or None
        Edges and node types of the same nodes in the same order. In a graph with node types, only pairs of types that
        some edge connects are candidates, in the direction of the edge unless the measure is symmetric.
    model : LinkModel or None
        Ranks the candidates; without it the dissimilarity does.
    options : LinkOptions
        How to search.
    node : str or int, optional
        Only edges of this node.
    k : int
        Number of edges.
    node_type : str, optional
        Only edges to nodes of this type or, without `node`, edges with at least one end of this type.
    progress : callable, optional
        Is called with the share of the nodes searched so far.

    Returns
    -------
    Links
        At most k rows, most probable first.
    """
    graph = checked_graph(embedding, graph)
    position = None if node is None else embedding.ids.position(node)
    if options.coverage is not None:
        k = _set_size(model, options.coverage, position)
    missing = missing_edges(graph.num_edges, options.missing_edge_fraction)
    types = link_types(graph, embedding.measure.symmetric, node_type, position)
    if model is None:
        found = _by_gaussians(embedding, graph, position, k, types, options.approximate, progress)
        dissimilarity = embedding.dissimilarities_at(found)
        probability = gaussian_probabilities(embedding, graph, dissimilarity, missing)
    else:
        pairs = PairFeatures(embedding, graph, model.names)
        found, scores = _by_model(pairs, model, position, checked_count(k), types, progress)
        if options.coverage is not None and position is not None and len(found) < k:
            more = nearest_beyond(embedding, graph, types or pairs.types, position, found[:, 1], k - len(found))
            found = np.concatenate([found, np.column_stack([np.full(len(more), position), more])])
            scores = model.scores(pairs.of_pairs(found))
        of_all = position is None and node_type is None
        dissimilarity = embedding.dissimilarities_at(found)
        probability = (model.probabilities_in_list if of_all else model.probabilities)(scores, missing)
    if options.expected_precision is not None:
        kept = _reaching(probability, options.expected_precision)
        found, dissimilarity, probability = found[:kept], dissimilarity[:kept], probability[:kept]
    source, target = found.T
    return Links(
        ids_at(embedding.ids, source),
        ids_at(embedding.ids, target),
        names_at(graph.node_types, source),
        names_at(graph.node_types, target),
        probability,
        dissimilarity,
        None if embedding.certainty is None else embedding.certainty[found].mean(axis=1),
        why=reasons(embedding, graph, found, dissimilarity) if options.why else None,
    )


def _set_size(model: LinkModel | None, coverage: float, position: int | None) -> int:
    """Return the number of candidates of a node for this coverage; raise if it is not known."""
    if position is None:
        raise InputError("is about one node; give its id", option="coverage")
    if model is None:
        raise InputError("needs the link model, and this model has none; leave it out", option="coverage")
    return set_size(model.set_sizes, coverage)


def _reaching(probability: Values, precision: float) -> int:
    """Return the length of the longest list of the first probabilities whose mean is at least `precision`."""
    if not 0 < precision < 1:
        raise InputError(f"must be above 0 and below 1, not {precision}", option="expected_precision")
    means = np.cumsum(probability) / np.arange(1, len(probability) + 1)
    return int((np.flatnonzero(means >= precision)[-1:] + 1).sum())


def checked_graph(embedding: Embedding, graph: Graph | None) -> Graph:
    """Return the graph; raise if there is none, or if its nodes are not those of the embedding."""
    if graph is None:
        raise InputError("the model keeps no edges, as its graph is too large; give the known edges", option=None)
    if graph.ids != embedding.ids:
        raise InputError("the known edges must have the nodes of the model, in the same order")
    return graph


def gaussian_probabilities(embedding: Embedding, graph: Graph, dissimilarity: Values, missing: float) -> Values:
    """Return probabilities by Platt scaling, from as many edges as non-edges to the density of missing edges."""
    from scipy.special import expit

    return np.asarray(expit(embedding.platt_scaling.logits(dissimilarity) + log_density(graph, missing)))


def _by_gaussians(
    embedding: Embedding,
    graph: Graph,
    position: int | None,
    k: int,
    types: LinkTypes | None,
    approximate: bool,
    progress: Progress | None,
) -> Positions:
    known = graph.known_edges(embedding.measure.symmetric)
    search = Indices(embedding).nearest_to if approximate else None
    if position is None:
        return likely_links(embedding, known, k, search, progress, types).positions
    return links_of(embedding, known, position, k, search, types).positions


def _by_model(
    pairs: PairFeatures,
    model: LinkModel,
    position: int | None,
    k: int,
    types: LinkTypes | None,
    progress: Progress | None,
) -> tuple[Positions, Values]:
    """Return the k pairs (P, 2) of the highest scores, and the scores."""
    nodes = np.arange(len(pairs.embedding)) if position is None else np.array([position])
    # From one node, the pairs keep their direction: the node comes first.
    best = BestPairs(MARGIN * k, symmetric=not pairs.graph.directed and position is None)
    for part in blocks(len(nodes), NODES):
        targets, features = pairs.candidates(nodes[part], types)
        best.add(nodes[part], targets, -model.scores(features))
        if progress:
            progress(part.stop / len(nodes))
    scores = model.scores(pairs.of_pairs(best.positions))
    order = np.argsort(-scores, kind="stable")[:k]
    return best.positions[order], scores[order]


def best_links_of_each(
    embedding: Embedding, graph: Graph, model: LinkModel | None, missing_edge_fraction: float, k: int
) -> tuple[Positions, Values]:
    """Return the k most probable missing edges of every node, as `links` finds them for one node.

    Returns
    -------
    positions : ndarray of int, shape (n, k)
        The other ends, most probable first; -1 where a node has fewer candidates.
    probabilities : ndarray of float, shape (n, k)
        Probabilities of the edges; 0 where the position is -1.
    """
    missing = missing_edges(graph.num_edges, missing_edge_fraction)
    types = link_types(graph, embedding.measure.symmetric)
    nodes = np.arange(len(embedding))
    if model is None:
        known = graph.known_edges(embedding.measure.symmetric)
        found, values = links_of_each(embedding, known, nodes, k, types=types)
        probability = gaussian_probabilities(embedding, graph, values, missing)
    else:
        pairs = PairFeatures(embedding, graph, model.names)
        parts = [_best_of_each(pairs, model, nodes[part], k, types) for part in blocks(len(nodes), NODES)]
        found, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
        probability = model.probabilities(scores, missing)
    return found, np.where(found < 0, 0.0, probability)


def _best_of_each(
    pairs: PairFeatures, model: LinkModel, nodes: Positions, k: int, types: LinkTypes | None
) -> tuple[Positions, Values]:
    """Return (N, k) the best candidates of some nodes, and their scores; -1 and a low score where there are fewer."""
    targets, features = pairs.candidates(nodes, types)
    scores = np.where(targets < 0, -np.inf, model.scores(features))
    # As for one node: the order of walks from one end selects, and that of walks from both ends ranks. Ties are in
    # the order of positions.
    kept = np.lexsort((targets, -scores), axis=1)[:, : MARGIN * k]
    targets = np.take_along_axis(targets, kept, axis=1)
    row, rank = np.nonzero(targets >= 0)
    scores = np.full(targets.shape, LOWEST)
    scores[row, rank] = model.scores(pairs.of_pairs(np.column_stack([nodes[row], targets[row, rank]])))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(targets, order, axis=1), np.take_along_axis(scores, order, axis=1)


def reasons(embedding: Embedding, graph: Graph, pairs: Positions, dissimilarity: Values) -> Column:
    """Return in words what speaks for each pair (P, 2): common neighbours and words, likeness, edges of both."""
    around, ids = graph.neighborhoods(), embedding.ids
    words, names = words_of(graph), word_names(graph)
    uses = None if words is None else np.bincount(words.indices, minlength=words.shape[1])
    reference = _random_dissimilarities(embedding)
    found = []
    for (first, second), value in zip(pairs.tolist(), dissimilarity.tolist(), strict=True):
        ends = row_of(around, first), row_of(around, second)
        common = np.intersect1d(*ends)
        # Neighbours with few edges say more, and so do rare words.
        common = common[np.argsort(nonzeros_per_row(around, common), kind="stable")]
        parts = [_listed("common neighbours", [str(ids[each]) for each in common.tolist()])]
        if words is not None and uses is not None:
            shared = np.intersect1d(row_of(words, first), row_of(words, second))
            shared = shared[np.argsort(uses[shared], kind="stable")]
            parts.append(_listed("common words", [name for each in shared.tolist() if (name := names[each])]))
        share = float(np.mean(reference > value))
        parts.append(f"more alike than {100 * min(share, 0.999):.1f} % of random pairs" if share > 0.9 else "")
        parts.append(f"{len(ends[0]):,} and {len(ends[1]):,} edges")
        found.append("; ".join(part for part in parts if part))
    return np.array(found, dtype=object)


def _listed(title: str, names: list[str]) -> str:
    """Return the first names and how many more there are; "" if there are none."""
    more = f" and {len(names) - REASONS:,} more" if len(names) > REASONS else ""
    return f"{title}: {', '.join(names[:REASONS])}{more}" if names else ""


def _random_dissimilarities(embedding: Embedding, count: int = 2000) -> Values:
    """Return the dissimilarities of pairs drawn at random, always the same."""
    drawn = np.random.default_rng(0).integers(0, len(embedding), (count, 2))
    return embedding.dissimilarities_at(drawn[drawn[:, 0] != drawn[:, 1]])
