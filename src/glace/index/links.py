"""The most probable missing edges: of one node, or of a whole graph without a look at all its pairs."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.gaussian.embedding import Embedding
from glace.gaussian.nearest import Places, Values, checked_count
from glace.ids import NodeId

FIRST_K = 8
"""Answers asked for of each node at first; nodes that may have more among the best are asked again for four times as
many."""
NODES = 4096
"""Nodes asked at a time, between two reports of progress."""

Search = Callable[[Embedding, int, list[Places]], tuple[Places, Values]]
"""`Embedding.nearest_to` or `Index.nearest_to`: queries, k, and what is no answer to each."""


class Pairs(NamedTuple):
    """Pairs of positions (P, 2) and how unlike they are (P,), the likeliest edges first."""

    places: Places
    dissimilarities: Values


class Links(NamedTuple):
    """Missing edges by columns: ids, dissimilarity, probability and, if known, certainty, the mean of both ends'."""

    source: list[NodeId]
    target: list[NodeId]
    dissimilarity: npt.NDArray[np.float64]
    probability: npt.NDArray[np.float64]
    certainty: npt.NDArray[np.float32] | None

    @classmethod
    def of(cls, embedding: Embedding, pairs: Pairs) -> "Links":
        """From positions."""
        ends = [[embedding.ids[place] for place in column] for column in pairs.places.T.tolist()]
        certainty = None if embedding.certainty is None else embedding.certainty[pairs.places].mean(axis=1)
        far = pairs.dissimilarities
        return cls(ends[0], ends[1], far, embedding.probabilities(far), certainty)


def likely_links(
    embedding: Embedding,
    known: sp.csr_array,
    top: int,
    search: Search | None = None,
    progress: Callable[[float], None] | None = None,
) -> Pairs:
    """The `top` most probable edges that are not `known` (n, n), in the whole graph.

    Exact with an exact search, which is the default: a node whose last answer could still be among the best is asked
    for more. Where the measure is symmetric a pair comes once, the smaller position first; equals in the order of
    positions.
    """
    asked, k, best = (
        np.arange(len(embedding)),
        FIRST_K,
        _Best(checked_count(top), embedding.measure.symmetric),
    )
    done = 0
    find = search or _exact(embedding)
    while len(asked):
        again = []
        for start in range(0, len(asked), NODES):
            nodes = asked[start : start + NODES]
            places, far = find(embedding.take(nodes), k, [no_answer(known, node) for node in nodes])
            best.add(nodes, places, far)
            # A node that has given all it has is not asked again, nor one whose last answer is beyond the best.
            more = (places[:, -1] >= 0) & (places.shape[1] == k) & (far[:, -1] <= best.border())
            again.append((nodes[more], far[more, -1]))
            done += len(nodes)
            if progress:
                progress(min(done / len(embedding), 1.0))
        candidates, last = (np.concatenate(each) for each in zip(*again, strict=True))
        asked, k = candidates[last <= best.border()], 4 * k
    return best.pairs()


def links_of(
    embedding: Embedding, known: sp.csr_array, node: int, top: int, search: Search | None = None
) -> Pairs:
    """The `top` most probable edges of the node at this position that are not `known`, by the same rules."""
    own = embedding.take(np.array([node]))
    places, far = (search or _exact(embedding))(own, checked_count(top), [no_answer(known, node)])
    found = places[0] >= 0
    return Pairs(np.column_stack([np.full(found.sum(), node), places[0][found]]), far[0][found])


def no_answer(known: sp.csr_array, node: int) -> Places:
    """The node itself and those it is joined to."""
    return np.append(known.indices[known.indptr[node] : known.indptr[node + 1]], node).astype(np.int64)


def _exact(embedding: Embedding) -> Search:
    return lambda queries, k, exclude: embedding.nearest_to(queries, k, exclude=exclude)


class _Best:
    """The best pairs so far."""

    def __init__(self, top: int, symmetric: bool) -> None:
        self.top, self.symmetric = top, symmetric
        self.places, self.far = np.empty((0, 2), np.int64), np.empty(0)

    def add(self, nodes: npt.NDArray[np.int64], places: Places, far: Values) -> None:
        if not places.shape[1]:
            return
        row, rank = np.nonzero(places >= 0)
        pairs = np.column_stack([nodes[row], places[row, rank]])
        if self.symmetric:
            pairs = np.sort(pairs, axis=1)
        self._keep(np.concatenate([self.places, pairs]), np.concatenate([self.far, far[row, rank]]))

    def _keep(self, pairs: Places, far: Values) -> None:
        # A pair is found from both its ends, and anew where a node is asked again.
        _, first = np.unique(pairs, axis=0, return_index=True)
        pairs, far = pairs[first], far[first]
        order = np.lexsort((pairs[:, 1], pairs[:, 0], far))[: self.top]
        self.places, self.far = pairs[order], far[order]

    def border(self) -> float:
        """What is further away is not among the best."""
        return float(self.far[-1]) if len(self.far) >= self.top else np.inf

    def pairs(self) -> Pairs:
        return Pairs(self.places, self.far)
