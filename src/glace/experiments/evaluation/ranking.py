"""Full ranking: how high do hidden edges stand among all pairs of nodes that are not joined in training?

AUC compares edges with random pairs. It does not see the first hundred of five million pairs, which are the ones a user
looks at; these measures do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glace.blocks import blocks
from glace.gaussian.search import Positions, Values
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, hold_out
from glace.queries.pair_features import link_types
from glace.rng import Streams

HIDDEN = 0.1
"""Fraction of the edges that are hidden."""
ENTRIES = 1 << 23
"""Scores computed at once: a block of sources with all nodes, 64 MB."""
FEW, MANY = 100, 1000
"""Lengths of the global lists."""
LOWEST = np.finfo(np.float64).min
"""Score of a pair whose score is not a number; pairs that are no answers have minus infinity."""


@dataclass(frozen=True)
class Ranker:
    """Orders pairs of nodes by how probably they are joined.

    Parameters
    ----------
    scores
        From sources (S,) to scores (S, n) with all nodes, higher for more probable edges; a new array at each call.
    proposals
        From k to the k most probable missing edges (k, 2) of the whole graph, best first; by default the pairs of the
        highest scores.
    """

    scores: Callable[[Positions], Values]
    proposals: Callable[[int], Positions] | None = None


class FullRanking(NamedTuple):
    """Measures of a full ranking, 0 to 1.

    Mean reciprocal rank of the hidden ends, the share of them among the first ten of their node, the mean of that share
    over nodes, and the share of hidden edges among the first 100 and 1,000 proposals for the whole graph. The filtered
    measures leave the other hidden ends of the same node out of the comparison.
    """

    mrr: float
    hits_at_10: float
    recall_at_10: float
    precision_at_100: float
    precision_at_1000: float
    filtered_mrr: float
    filtered_hits_at_10: float


def hidden_tenth(graph: Graph, streams: Streams) -> tuple[Graph, HeldOut]:
    """Return the graph without a tenth of its edges, and these; the same for every method."""
    return hold_out(graph, HIDDEN, streams.numpy("hidden edges"))


def full_ranking(ranker: Ranker, train: Graph, hidden: Positions) -> FullRanking:
    """Rank hidden edges among all pairs that are not joined in training.

    Each end of a hidden edge is ranked among all nodes that the other end has no training edge with; of a directed edge
    only the target. Other hidden ends of the same node are among its competitors. Equal scores share their mean rank.
    If nodes have types, only pairs of types that some training edge connects are compared. Of an undirected pair the
    global list uses the score from the node of the lower position, and of equal scores at the end of the list their
    expected number of hits. Memory is proportional to a block of sources, not to all pairs.

    Parameters
    ----------
    ranker
        Orders the pairs.
    train
        The graph without the hidden edges.
    hidden
        (P, 2) positions of the hidden edges; of an undirected edge the smaller first.

    Returns
    -------
    FullRanking
        The measures.
    """
    queries = hidden if train.directed else np.concatenate([hidden, hidden[:, ::-1]])
    queries = queries[np.argsort(queries[:, 0], kind="stable")]
    sources = np.arange(train.num_nodes) if ranker.proposals is None else np.unique(queries[:, 0])
    best, right, ranks = BestScores(MANY), [np.empty(0)], np.empty((len(queries), 2))
    for part, block in _blocks(ranker, train, sources):
        here = slice(*np.searchsorted(queries[:, 0], [part[0], part[-1] + 1]))
        rows, targets = np.searchsorted(part, queries[here, 0]), queries[here, 1]
        ranks[here] = _ranks(block, rows, targets)
        if ranker.proposals is None:
            _close_lower(block, part, train.directed)
            right.append(block[rows, targets])
            best.add(block)
    if ranker.proposals is None:
        precision = [best.precision(np.concatenate(right), k) for k in (FEW, MANY)]
    else:
        is_right = are_hidden(ranker.proposals(MANY), hidden, train)
        precision = [float(is_right[:k].sum()) / k for k in (FEW, MANY)]
    mrr, hits = (1 / ranks).mean(axis=0).tolist(), (ranks <= 10).mean(axis=0).tolist()
    _, node = np.unique(queries[:, 0], return_inverse=True)
    recall = np.bincount(node, ranks[:, 0] <= 10) / np.bincount(node)
    return FullRanking(mrr[0], hits[0], float(recall.mean()), precision[0], precision[1], mrr[1], hits[1])


def _blocks(ranker: Ranker, train: Graph, sources: Positions) -> Iterator[tuple[Positions, Values]]:
    """Yield some sources and their scores (S, n), minus infinity for pairs that are no answers."""
    types = link_types(train, symmetric=not train.directed)
    for rows in blocks(len(sources), max(ENTRIES // train.num_nodes, 1)):
        part = sources[rows]
        block = np.asarray(ranker.scores(part), np.float64)
        block[np.isnan(block)] = LOWEST
        known = train.adjacency[part].tocoo()
        block[known.row, known.col] = -np.inf
        block[np.arange(len(part)), part] = -np.inf
        if types is not None:
            block[~types.allowed[types.codes[part]][:, types.codes]] = -np.inf
        yield part, block


def _ranks(block: Values, rows: Positions, targets: Positions) -> Values:
    """Return (P, 2) the rank of each target in its row of a block, and the filtered rank; both count from 1.

    `rows` is sorted. Equal scores share their mean rank.
    """
    ranks = np.empty((len(rows), 2))
    for row in np.unique(rows).tolist():
        here = slice(*np.searchsorted(rows, [row, row + 1]))
        scores, own = block[row], block[row, targets[here]]
        higher = [np.count_nonzero(scores > each) + np.count_nonzero(scores == each) / 2 for each in own.tolist()]
        hidden = [np.count_nonzero(own > each) + np.count_nonzero(own == each) / 2 for each in own.tolist()]
        ranks[here, 0] = np.array(higher) + 0.5
        ranks[here, 1] = ranks[here, 0] - np.array(hidden) + 0.5
    return ranks


def _close_lower(block: Values, sources: Positions, directed: bool) -> None:
    """Close the pairs that an undirected graph has in another row already; sources are consecutive."""
    if not directed:
        block[:, : sources[0]] = -np.inf
        block[:, sources[0] : sources[-1] + 1][np.tri(len(sources), dtype=np.bool_)] = -np.inf


def are_hidden(pairs: Positions, hidden: Positions, train: Graph) -> npt.NDArray[np.bool_]:
    """Return which pairs (P, 2) are hidden edges; direction counts if the graph has any."""
    ordered = [each if train.directed else np.sort(each, axis=1) for each in (pairs, hidden)]
    keys = [each[:, 0] * train.num_nodes + each[:, 1] for each in ordered]
    return np.asarray(np.isin(keys[0], keys[1]))


class BestScores:
    """The k highest of the scores so far, without the pairs: those above the k-th, its value, and how many have it."""

    def __init__(self, k: int) -> None:
        self.k, self.above, self.last, self.ties = k, np.empty(0), -np.inf, 0

    def add(self, scores: Values) -> None:
        """Add scores of any shape; minus infinity does not count."""
        if self.last > -np.inf:
            self.ties += int(np.count_nonzero(scores == self.last))
        above = np.concatenate([self.above, scores[scores > self.last]])
        if len(above) >= self.k:
            above = -np.sort(-above)
            self.last = float(above[self.k - 1])
            self.ties = int(np.count_nonzero(above == self.last))
            above = above[above > self.last]
        self.above = above

    def precision(self, right: Values, k: int) -> float:
        """Return the expected share of right answers among the k highest, if equal scores are in random order.

        `right` are the scores of all right answers; k is at most that of the constructor.
        """
        ordered = np.concatenate([-np.sort(-self.above), np.full(min(self.ties, self.k - len(self.above)), self.last)])
        if not len(ordered):
            return 0.0
        last = ordered[min(k, len(ordered)) - 1]
        higher = int(np.count_nonzero(ordered > last))
        ties = self.ties if last == self.last else int(np.count_nonzero(ordered == last))
        share = min((k - higher) / ties, 1.0)
        return float((np.count_nonzero(right > last) + share * np.count_nonzero(right == last)) / k)
