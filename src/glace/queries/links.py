"""The most probable missing edges: of one node, or of a whole graph without a look at all its pairs."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Places, Values, checked_count
from glace.ids import NodeId

FIRST_K = 8
"""Answers asked for of each node at first; nodes that may have more among the best are asked again for four times as
many."""
NODES = 4096
"""Nodes asked at a time, between two reports of progress."""

Among = npt.NDArray[np.bool_]
Search = Callable[[Embedding, int, list[Places], Among | None], tuple[Places, Values]]
"""Like `Embedding.nearest_to`: queries, k, what is no answer to each, and (n,) what may be one to all of them."""


class Pairs(NamedTuple):
    """Pairs of positions (P, 2) and how unlike they are (P,), the likeliest edges first."""

    places: Places
    dissimilarities: Values


class Types(NamedTuple):
    """Which types of nodes may be joined: node i is of type `codes[i]` (n,), and of none where that is -1.

    `allowed` (T + 1, T + 1) says whether an edge may lead from the type of the row to that of the column, and `names`
    what they are called; the last is of nodes without one, so that the code -1 leads there.
    """

    codes: npt.NDArray[np.integer]
    names: tuple[str | None, ...]
    allowed: npt.NDArray[np.bool_]

    def leading_to(self, kind: int) -> "Types":
        """Only edges to this type."""
        return self._replace(allowed=self.allowed & (np.arange(len(self.names)) == kind))

    def with_end(self, kind: int) -> "Types":
        """Only edges from or to this type."""
        own = np.arange(len(self.names)) == kind
        return self._replace(allowed=self.allowed & (own | own[:, None]))

    def of(self, nodes: Places) -> list[str | None]:
        """What the types of these nodes are called."""
        return [self.names[code] for code in self.codes[nodes].tolist()]


class Links(NamedTuple):
    """Missing edges by columns: ids, dissimilarity, probability and, if known, certainty, the mean of both ends'.

    Where nodes have types, those of both ends.
    """

    source: list[NodeId]
    target: list[NodeId]
    dissimilarity: npt.NDArray[np.float64]
    probability: npt.NDArray[np.float64]
    certainty: npt.NDArray[np.float32] | None
    source_type: list[str | None] | None = None
    target_type: list[str | None] | None = None

    @classmethod
    def of(cls, embedding: Embedding, pairs: Pairs, types: Types | None = None) -> "Links":
        """From positions."""
        ends = [[embedding.ids[place] for place in column] for column in pairs.places.T.tolist()]
        certainty = None if embedding.certainty is None else embedding.certainty[pairs.places].mean(axis=1)
        far = pairs.dissimilarities
        kinds = (None, None) if types is None else (types.of(column) for column in pairs.places.T)
        return cls(ends[0], ends[1], far, embedding.probabilities(far), certainty, *kinds)


def likely_links(
    embedding: Embedding,
    known: sp.csr_array,
    top: int,
    search: Search | None = None,
    progress: Callable[[float], None] | None = None,
    types: Types | None = None,
) -> Pairs:
    """The `top` most probable edges that are not `known` (n, n), in the whole graph; with `types` those allowed.

    Exact with an exact search, which is the default: a node whose last answer could still be among the best is asked
    for more. Where the measure is symmetric a pair comes once, the smaller position first; equals in the order of
    positions. There, what types are allowed must not depend on the direction.
    """
    assert types is None or not embedding.measure.symmetric or (types.allowed == types.allowed.T).all()
    asked, k, best = (
        np.arange(len(embedding)),
        FIRST_K,
        _Best(checked_count(top), embedding.measure.symmetric),
    )
    done = 0
    while len(asked):
        again = []
        for start in range(0, len(asked), NODES):
            nodes = asked[start : start + NODES]
            places, far = missing(embedding, known, nodes, k, search, types)
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
    embedding: Embedding,
    known: sp.csr_array,
    node: int,
    top: int,
    search: Search | None = None,
    types: Types | None = None,
) -> Pairs:
    """The `top` most probable edges of the node at this position that are not `known`, by the same rules."""
    places, far = missing(embedding, known, np.array([node]), checked_count(top), search, types)
    found = places[0] >= 0
    return Pairs(np.column_stack([np.full(found.sum(), node), places[0][found]]), far[0][found])


def missing(
    embedding: Embedding,
    known: sp.csr_array,
    nodes: Places,
    k: int,
    search: Search | None = None,
    types: Types | None = None,
) -> tuple[Places, Values]:
    """Positions and dissimilarities (N, k) of the likeliest nodes that each is not joined to, as in `nearest_to`."""
    find, k = search or _exact(embedding), min(k, len(embedding))
    exclude = [no_answer(known, node) for node in nodes.tolist()]
    if types is None:
        return find(embedding.take(nodes), k, exclude, None)
    places, far = np.full((len(nodes), k), -1, np.int64), np.full((len(nodes), k), np.inf)
    codes = types.codes[nodes]
    # What may be an answer is the same for all nodes of a type, which are asked at once.
    for code in np.unique(codes).tolist():
        rows, among = np.flatnonzero(codes == code), types.allowed[code][types.codes]
        found, near = find(embedding.take(nodes[rows]), k, [exclude[row] for row in rows], among)
        places[rows, : found.shape[1]], far[rows, : near.shape[1]] = found, near
    return places, far


def no_answer(known: sp.csr_array, node: int) -> Places:
    """The node itself and those it is joined to."""
    return np.append(known.indices[known.indptr[node] : known.indptr[node + 1]], node).astype(np.int64)


def _exact(embedding: Embedding) -> Search:
    return lambda queries, k, exclude, among: embedding.nearest_to(queries, k, exclude=exclude, among=among)


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
