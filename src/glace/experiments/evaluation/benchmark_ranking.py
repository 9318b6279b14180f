"""Benchmark ranking: Hits@K against random non-edges, and MRR against hard negatives, as link predictors are compared.

Hits@K is that of the Open Graph Benchmark. The hard negatives are those of HeaRT (Li et al. 2023): each end of a test
edge is replaced by the nodes that simple heuristics find most probable.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from glace.blocks import blocks
from glace.errors import InputError
from glace.experiments.evaluation.rankers import by_embedding, pagerank, resource_allocation
from glace.experiments.evaluation.ranking import ENTRIES, LOWEST, Ranker
from glace.experiments.splits import Split
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions, Values
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, check_fraction, sample_non_edges
from glace.metrics import link_scores
from glace.rng import Streams

HIDDEN = 0.1
"""Fraction of the edges in the test; half as many are for validation."""
NEGATIVES = 250
"""Hard negatives for each end of a test edge."""

PairScores = Callable[[Positions], Values]
"""From pairs (P, 2) to scores (P,), higher for more probable edges."""


class BenchmarkRanking(NamedTuple):
    """AUC and AP, the shares of test edges above all but K - 1 random non-edges, and the MRR of the hard negatives.

    A share is None if there are less than K non-edges.
    """

    auc: float
    ap: float
    hits_at_20: float | None
    hits_at_50: float | None
    hits_at_100: float | None
    mrr: float


def benchmark_split(graph: Graph, generator: np.random.Generator, hidden: float = HIDDEN) -> Split:
    """Return a uniformly random split; other than in `split_edges`, nodes may lose all their edges.

    Published splits do not keep an edge of every node. To keep them makes the task easier, because the edges of nodes
    of degree one are then never asked for. Both directions of a directed pair go to the same part. Each part has as
    many non-edges as edges.

    Parameters
    ----------
    graph
        The graph to split.
    generator
        Decides the split.
    hidden
        Fraction of unordered pairs in the test. Half as many are for validation.

    Returns
    -------
    Split
        Training graph, validation pairs and test pairs.
    """
    check_fraction(hidden, "of edges to hide")
    edges, weights = graph.edges_and_weights()
    ordered = np.sort(edges, axis=1)
    pairs, pair_of_edge = np.unique(ordered[:, 0] * graph.num_nodes + ordered[:, 1], return_inverse=True)
    wanted = [round(share * len(pairs)) for share in (hidden / 2, hidden)]
    if wanted[0] < 1 or sum(wanted) >= len(pairs):
        raise InputError(
            f"hiding {hidden:.0%} of {len(pairs):,} edges, and half as many for validation, leaves no edge for one of "
            "training, validation and test; hide another share"
        )
    part_of_pair = np.full(len(pairs), -1)
    part_of_pair[generator.permutation(len(pairs))[: sum(wanted)]] = np.repeat([0, 1], wanted)
    part = part_of_pair[pair_of_edge]
    held_out = [edges[part == each] for each in (0, 1)]
    non_edges = sample_non_edges(graph, sum(map(len, held_out)), generator)
    validation, test = map(HeldOut, held_out, np.split(non_edges, [len(held_out[0])]))
    return Split(graph.with_edges(edges[part < 0], weights[part < 0]), validation, test)


def benchmark_ranking(scores: PairScores, test: HeldOut, negatives: Positions) -> BenchmarkRanking:
    """Return the measures of some scores.

    Parameters
    ----------
    scores
        Scores of pairs; a score that is not a number is the lowest.
    test
        Test edges (P, 2) and as many non-edges.
    negatives
        (P, N, 2), the hard negatives of each test edge.

    Returns
    -------
    BenchmarkRanking
        The measures, 0 to 1.
    """
    positive, random = (_finite(scores(pairs)) for pairs in (test.edges, test.non_edges))
    shape = negatives.shape[:2]
    hard = _finite(scores(negatives.reshape(-1, 2))).reshape(shape)
    auc, ap = link_scores(np.concatenate([positive, random]), test.truth())
    few, some, many = (hits_at(k, positive, random) for k in (20, 50, 100))
    return BenchmarkRanking(auc, ap, few, some, many, mean_reciprocal_rank(positive, hard))


def hits_at(k: int, positive: Values, negative: Values) -> float | None:
    """Return the share of positives that are strictly above the k-th highest negative; None if there is no such."""
    if len(negative) < k:
        return None
    return float((positive > np.partition(negative, -k)[-k]).mean())


def mean_reciprocal_rank(positive: Values, negative: Values) -> float:
    """Return the mean of 1 / rank of each positive (P,) among its negatives (P, N); equal scores count half."""
    own = positive[:, None]
    ranks = 1 + (negative > own).sum(axis=1) + (negative == own).sum(axis=1) / 2
    return float((1 / ranks).mean())


def _finite(scores: Values) -> Values:
    return np.where(np.isnan(scores), LOWEST, scores)


def hard_negatives(graph: Graph, split: Split, streams: Streams, count: int = NEGATIVES) -> Positions:
    """Return the hard negatives of each test edge: its two ends replaced by `count` nodes each.

    The nodes for the other end of a node u are ordered by three scores on the training graph: resource allocation,
    personalised PageRank from u, and the cosine of the attributes, if there are any. A node's rank is the best of its
    three ranks. By a single score, nodes with the score 0 share the rank after the last. Equal ranks are in random
    order. Not used are u itself, its neighbours in training and validation, the node that is replaced, and nodes of
    another type than that one. So a negative can be another test edge, as in HeaRT.

    Parameters
    ----------
    graph
        The whole graph; of it only attributes and node types are used.
    split
        Training graph, validation pairs and test pairs.
    streams
        Decides the order of equal ranks; the same for every method.
    count
        Negatives for each end. A node with fewer candidates has some of them twice.

    Returns
    -------
    ndarray of shape (P, 2 count, 2)
        First those with another target, then those with another source.
    """
    edges = split.test.edges
    ends = np.concatenate([edges, edges[:, ::-1]])
    order = np.argsort(ends[:, 0], kind="stable")
    found = np.empty((len(ends), count), dtype=np.int64)
    generator = streams.numpy("hard negatives")
    for rows, ranks in _combined_ranks(graph, split, ends[order], count, generator):
        found[order[rows]] = _first(ranks, count, generator)
    targets, sources = np.split(found, 2)
    other = [np.stack([np.broadcast_to(edges[:, :1], targets.shape), targets], axis=2)]
    other.append(np.stack([sources, np.broadcast_to(edges[:, 1:], sources.shape)], axis=2))
    return np.concatenate(other, axis=1)


def _combined_ranks(
    graph: Graph, split: Split, ends: Positions, count: int, generator: np.random.Generator
) -> Iterator[tuple[slice, Values]]:
    """Yield some of the `ends` (kept node, replaced node) and the ranks (E, n) of all nodes, infinity if not used."""
    size, types = graph.num_nodes, graph.node_types
    known = sp.csr_array(split.train.neighborhoods() != 0) + _matrix(split.validation.edges, size)
    heuristics = [resource_allocation(split.train), pagerank(split.train)]
    heuristics += [_by_attributes(graph)] if graph.has_attributes else []
    for rows in blocks(len(ends), max(ENTRIES // (4 * size), 1)):
        kept, replaced = ends[rows].T
        sources, places = np.unique(kept, return_inverse=True)
        closed = known[sources].toarray() != 0
        closed[np.arange(len(sources)), sources] = True
        ranks = np.full(closed.shape, np.inf)
        for heuristic in heuristics:
            scores = heuristic.scores(sources)
            scores[closed] = 0
            _lower(ranks, scores, count + 1, generator)
        ranks[closed] = np.inf
        ranks = ranks[places]
        ranks[np.arange(len(ranks)), replaced] = np.inf
        if types is not None:
            ranks[types.codes[replaced][:, None] != types.codes] = np.inf
        yield rows, ranks


def _matrix(pairs: Positions, size: int) -> sp.csr_array:
    """Return the symmetric matrix (n, n) that is not 0 at the pairs."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return sp.csr_array((np.ones(len(both)), both.T), shape=(size, size))


def _by_attributes(graph: Graph) -> Ranker:
    """Rank by the cosine of the attributes."""
    from sklearn.preprocessing import normalize

    rows = normalize(graph.features().astype(np.float64))

    def scores(sources: Positions) -> Values:
        found = rows[sources] @ rows.T
        return np.asarray(found.toarray() if sp.issparse(found) else found)

    return Ranker(scores)


def _lower(ranks: Values, scores: Values, depth: int, generator: np.random.Generator) -> None:
    """Lower the ranks (S, n) to those of these scores, where they are lower.

    Scores above 0 have ranks from 1, equal ones in random order; the others share the rank after the last. Ranks are
    exact up to `depth`, further ones are `depth` + 1.
    """
    depth = min(depth, scores.shape[1])
    # A third of the time of numpy's partition, which has no vector instructions for this.
    least = torch.topk(torch.from_numpy(scores), depth).values[:, -1:].numpy()
    row, column = np.nonzero((scores >= least) & (scores > 0))
    order = np.lexsort((generator.random(len(row)), -scores[row, column], row))
    row, column = row[order], column[order]
    counts = np.bincount(row, minlength=len(scores))
    place = 1.0 + np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    np.minimum(ranks, np.minimum(counts, depth)[:, None] + 1.0, out=ranks)
    ranks[row, column] = np.minimum(ranks[row, column], place)


def _first(ranks: Values, count: int, generator: np.random.Generator) -> Positions:
    """Return (E, count) the nodes of the lowest ranks; equal ranks are in random order.

    If a row has too few, its nodes are repeated in turn.
    """
    keys = ranks + generator.random(ranks.shape)  # ranks are whole numbers, so this orders equal ones only
    usable = np.isfinite(keys).sum(axis=1)
    if not usable.all():
        raise InputError("a node with a test edge is joined to all others, so it has no hard negatives; hide less")
    width = min(count, keys.shape[1])
    best = np.argpartition(keys, width - 1, axis=1)[:, :width]
    best = np.take_along_axis(best, np.argsort(np.take_along_axis(keys, best, axis=1), axis=1), axis=1)
    return np.take_along_axis(best, np.arange(count) % usable[:, None], axis=1)


def scores_by_embedding(embedding: Embedding) -> PairScores:
    """Return minus the dissimilarity of pairs."""
    if embedding.variance is None:
        # As matrix products, because raw attributes have thousands of dimensions.
        return scores_by_ranker(by_embedding(embedding), len(embedding))
    return lambda pairs: -embedding.dissimilarities_at(pairs)


def scores_by_ranker(ranker: Ranker, size: int) -> PairScores:
    """Return the scores of pairs by a ranker that does not depend on their direction, such as a heuristic."""

    def scores(pairs: Positions) -> Values:
        # The more frequent node of a pair is its source, so that there are few sources.
        counts = np.bincount(pairs.ravel(), minlength=size)
        turned = np.where((counts[pairs[:, 1]] > counts[pairs[:, 0]])[:, None], pairs[:, ::-1], pairs)
        order = np.argsort(turned[:, 0], kind="stable")
        sources, starts = np.unique(turned[order, 0], return_index=True)
        ends = np.append(starts, len(pairs))
        found = np.empty(len(pairs))
        for rows in blocks(len(sources), max(ENTRIES // size, 1)):
            here = order[ends[rows.start] : ends[rows.stop]]
            block = ranker.scores(sources[rows])
            found[here] = block[np.searchsorted(sources[rows], turned[here, 0]), turned[here, 1]]
        return found

    return scores
