"""Pairs of nodes for the link model: which are candidates, and their features.

The features are the logit of the Gaussians, degrees, short random walks, common words, and the types of the two nodes.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import BLOCK, blocks
from glace.errors import InputError
from glace.gaussian.dissimilarity import wide
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions, Values
from glace.graph.graph import Graph
from glace.kernels import walks
from glace.sparse import Matrix, entry_blocks, nonzeros_per_row, row_of
from glace.storage.mapped import scratch

WALK_K = 50
"""Candidates that each of the three orders of `walk_candidates` contributes."""
FEW = 20
"""A node with fewer candidates from walks also gets the nearest Gaussians and the nodes with the most edges."""
POPULAR = 20
SMALLEST = 1e-5, 1e-4
"""Limits of the landing probability per edge below which a walk is not followed. With 1e-3, MRR on Pubmed falls from
0.174 to 0.154; with 1e-5 it stays, and the work grows tenfold on graphs with hubs."""
SHARE = 0.25
"""The smallest probability is this share of what a walk brings to a node in a graph where all degrees are the mean."""
VISITS = 1e9
"""Edges that the third steps of walks from all nodes may visit. In a dense graph they need more than those of a sparse
one: with 1e-4 instead of 1e-5, Hits@10 of users and items (mean degree 76) falls from 0.22 to 0.20."""
LAST_STEP = 10
"""The fourth step has a larger cut-off: it reaches the most nodes and says the least about each."""
MOST_TYPE_PAIRS = 6
"""With more pairs of node types, weights are the same for all of them: the products of features would be too many."""
LARGEST_LOGIT = 30.0

Features = npt.NDArray[np.float64]
Joined = npt.NDArray[np.bool_] | bool
Among = npt.NDArray[np.bool_]
Search = Callable[[Embedding, int, list[Positions], Among | None], tuple[Positions, Values]]
"""Like `Embedding.nearest_to`: queries, k, excluded positions for each query, and which nodes (n,) can be answers."""
DEGREES = "degrees"
SIDES = "first_degree", "second_degree"
"""Where a pair has an orientation, the degrees of the two ends are features of their own."""
WALKS = "adamic_adar", "two_steps", "three_steps", "four_steps", "three_paths"
ALTERNATING = "alternating_steps"
"""Walks of three edges of a directed graph, forth, back and forth: u -> a <- b -> v."""
WORDS = "common_words"
"""Cosine of the attributes, where they are words or other counted things. The Gaussians know them too, but not exactly:
with this feature MRR rises from 0.284 to 0.292 on Cora-ML and from 0.264 to 0.273 on Debian."""
TYPES = "types "
"""The feature of a pair of types has a name that starts with this."""


class LinkTypes(NamedTuple):
    """Which node types edges may connect: node i has the type `codes[i]` (n,), the last one if it has none.

    `allowed` (T + 1, T + 1) says whether an edge may lead from the type of the row to that of the column.
    """

    codes: npt.NDArray[np.integer]
    names: tuple[str | None, ...]
    allowed: npt.NDArray[np.bool_]

    def leading_to(self, code: int) -> "LinkTypes":
        """Only edges to this type."""
        return self._replace(allowed=self.allowed & (np.arange(len(self.names)) == code))

    def with_end(self, code: int) -> "LinkTypes":
        """Only edges from or to this type."""
        own = np.arange(len(self.names)) == code
        return self._replace(allowed=self.allowed & (own | own[:, None]))


def untyped(nodes: int) -> LinkTypes:
    """Return the types of a graph without node types: any node may have an edge to any other."""
    return LinkTypes(np.zeros(nodes, np.int64), (None,), np.ones((1, 1), np.bool_))


def link_types(
    graph: Graph, symmetric: bool, node_type: str | None = None, position: int | None = None
) -> LinkTypes | None:
    """The pairs of node types that edges of the graph connect; None if nodes have no types.

    With `node_type`, only edges from the node at `position` to that type or, without a position, edges with an end of
    that type.
    """
    if graph.node_types is None:
        if node_type is not None:
            raise InputError(f"no type {node_type!r}; the graph has none")
        return None
    joined = graph.joined_types(symmetric)
    assert joined is not None
    types = LinkTypes(graph.node_types.codes.astype(np.int64) % len(joined), (*graph.node_types.names, None), joined)
    if node_type is None:
        return types
    code = graph.node_types.code_of(node_type, "type")
    if position is None:
        types = types.with_end(code)
        if not types.allowed.any():
            raise InputError(f"no node of type {node_type!r} has an edge, so no links are proposed")
        return types
    types, own = types.leading_to(code), types.codes[position]
    if not types.allowed[own].any():
        source = "nodes without a type" if types.names[own] is None else f"type {types.names[own]!r}"
        raise InputError(
            f"no edge leads from {source} to type {node_type!r}, so no such links are proposed; leave the type out to "
            "see other links of this node"
        )
    return types


def feature_names(graph: Graph, types: LinkTypes) -> tuple[str, ...]:
    """Return the names of the features that suit a graph.

    Some pairs have an orientation: from source to target in a directed graph; otherwise, if both nodes have different
    types, from the type that is first in the graph to the other. Where edges join several pairs of types, each pair of
    types has a feature that is 1 for its pairs and else 0: the products with it give each pair of types weights of its
    own.
    """
    oriented = graph.directed or graph.node_types is not None
    pairs = np.argwhere(types.allowed if graph.directed else np.triu(types.allowed | types.allowed.T)).tolist()
    several = 1 < len(pairs) <= MOST_TYPE_PAIRS
    return (
        "logit",
        *(SIDES if oriented else (DEGREES,)),
        *WALKS,
        *([ALTERNATING] if graph.directed else []),
        *([WORDS] if any(each.has_words for each in graph.by_type().types) else []),
        *(_type_pair(types, *pair) for pair in pairs if several),
    )


def _type_pair(types: LinkTypes, first: int, second: int) -> str:
    return f"{TYPES}{types.names[first]!r}, {types.names[second]!r}"


def words_of(graph: Graph) -> sp.csr_array | None:
    """Return (n, columns) the attributes that are words or other counted things; each node type has its own columns.

    The rows of types without words are empty. None if no type has any.
    """
    attributes = graph.by_type()
    if not any(each.has_words for each in attributes.types):
        return None
    matrices: list[Matrix] = [
        sp.csr_array((each.count, 0)) if each.attributes is None or not each.has_words else each.attributes
        for each in attributes.types
    ]
    return sp.csr_array(attributes.side_by_side(matrices))


def word_names(graph: Graph) -> list[str | None]:
    """Return the names of the columns of `words_of`, None where they have none."""
    found: list[str | None] = []
    for each in graph.by_type().types:
        if each.has_words:
            found.extend(each.feature_names or [None] * (each.width or 0))
    return found


class PairFeatures:
    """Computes the features of pairs of nodes of a graph and an embedding, whose nodes must be the same.

    Parameters
    ----------
    embedding
        The Gaussians of the nodes.
    graph
        The edges that walks may use. To learn from held-out edges, it must be the graph without them.
    names
        The features, as a link model has them; by default those that suit the graph.
    """

    def __init__(self, embedding: Embedding, graph: Graph, names: Sequence[str] | None = None) -> None:
        self.embedding, self.graph = embedding, graph
        self.around = graph.neighborhoods()
        self.types = link_types(graph, embedding.measure.symmetric) or untyped(graph.num_nodes)
        self.names = feature_names(graph, self.types) if names is None else tuple(names)

    @cached_property
    def degrees(self) -> npt.NDArray[np.integer]:
        """(n,) the number of neighbours of each node."""
        return np.asarray(np.diff(self.around.indptr))

    @cached_property
    def cutoffs(self) -> Values:
        """(3,) the landing probability per edge below which the second, third and fourth step is not made.

        In a graph of degree 66 two steps bring 1/66^2 to a node, and 1e-3 would end all walks; three steps bring
        1/66^3. A third step needs the second step to its end, so that both have the same cut-off.
        """
        mean = max(self.around.nnz, 1) / max(self.graph.num_nodes, 1)
        two_steps = float(np.clip(SHARE / mean**2, *SMALLEST))
        affordable = max(self.graph.num_nodes / VISITS, SMALLEST[0])
        three_steps = min(two_steps, max(SHARE / mean**3, affordable))
        return np.array([three_steps, three_steps, LAST_STEP * two_steps])

    def candidates(self, sources: Positions, types: LinkTypes | None = None) -> tuple[Positions, Features]:
        """Return (S, C) nodes that each source may have a missing edge to, -1 where there are fewer, and features.

        The features are those of `of_candidates`; the walks that find the candidates give theirs along.
        """
        types = self.types if types is None else types
        arguments = sources, types.codes, types.allowed, WALK_K, self.cutoffs
        found = np.empty((len(sources), 3 * WALK_K), np.int64)
        walked = np.zeros((*found.shape, walks.COLUMNS))
        walks.walk_candidates(self.around.indptr, self.around.indices, *arguments, found, walked)
        few = np.flatnonzero((found >= 0).sum(axis=1) < FEW)
        if len(few):
            # Where few candidates are found, all that walks reach are among them: the others have no walks.
            _add_more(found, few, self._candidates_without_walks(sources[few], types))
        return found, self.of_candidates(sources, found, walked)

    def _candidates_without_walks(self, sources: Positions, types: LinkTypes) -> Positions:
        nearest = links_of_each(self.embedding, self.around, sources, WALK_K, types=types)[0]
        return np.concatenate([nearest, self._popular(sources, types)], axis=1)

    def _popular(self, sources: Positions, types: LinkTypes) -> Positions:
        """Return (S, POPULAR) the nodes with the most edges among those that `types` allows, -1 for known edges."""
        found = np.full((len(sources), POPULAR), -1, np.int64)
        by_degree, codes = np.argsort(-self.degrees, kind="stable"), types.codes[sources]
        for code in np.unique(codes).tolist():
            rows = np.flatnonzero(codes == code)
            popular = by_degree[types.allowed[code][types.codes[by_degree]]][:POPULAR]
            known = self.around[sources[rows]][:, popular].toarray() > 0
            found[rows, : len(popular)] = np.where(known | (popular == sources[rows, None]), -1, popular)
        return found

    def of_candidates(self, sources: Positions, targets: Positions, walked: Features | None = None) -> Features:
        """Return (S, C, F) features of sources (S,) with targets (S, C); those of targets that are -1 mean nothing.

        `walked` (S, C, 5) are the features of walks, if they are known.
        """
        products = np.zeros(targets.shape, np.float32)
        walks.row_products(*self._factors, sources, targets, products)
        if walked is None:
            walked = self._walk_features(self.around, sources, targets)
        columns = [self._logit(products), *self._degree_features(sources[:, None], targets), walked]
        if self._cover is not None:
            shifted = np.where(targets < 0, -1, targets + self.graph.num_nodes)
            columns.append(self._walk_features(self._cover, sources, shifted)[..., walks.THREE])
        columns.extend(self._word_features(sources, targets))
        columns.extend(self._type_features(sources[:, None], targets))
        return np.concatenate([each if each.ndim == 3 else each[..., None] for each in columns], axis=-1)

    def of_pairs(self, pairs: Positions) -> Features:
        """Return (P, F) features of pairs (P, 2), computed as if the two were not joined by an edge."""
        pairs = np.ascontiguousarray(pairs, np.int64)
        logit = self._logit(self.embedding.dissimilarities_at(pairs))
        degrees = self._degree_features(pairs[:, 0], pairs[:, 1], self.graph.has_edges(pairs))
        columns = [logit, *degrees, *self._pair_walks(self.around, pairs).T]
        if self._cover is not None:
            columns.append(self._pair_walks(self._cover, pairs + np.array([0, self.graph.num_nodes]))[:, walks.THREE])
        columns.extend(each[:, 0] for each in self._word_features(pairs[:, 0], pairs[:, 1:]))
        columns.extend(self._type_features(pairs[:, 0], pairs[:, 1]))
        return np.column_stack(columns)

    def _walk_features(self, adjacency: sp.csr_array, sources: Positions, targets: Positions) -> Features:
        """Return (S, C, 5) the features of walks from sources (S,) to targets (S, C)."""
        found = np.zeros((*targets.shape, walks.COLUMNS))
        walks.walk_values(adjacency.indptr, adjacency.indices, sources, targets, self.cutoffs, found)
        return found

    def _pair_walks(self, adjacency: sp.csr_array, pairs: Positions) -> Features:
        """Return (P, 5) the mean of walks from both ends of pairs (P, 2)."""
        found = np.zeros((len(pairs), walks.COLUMNS))
        for start, end in ((0, 1), (1, 0)):
            order = np.argsort(pairs[:, start], kind="stable")
            ends, values = pairs[order], np.empty_like(found)
            matrix = adjacency.indptr, adjacency.indices
            walks.pair_walks(*matrix, ends[:, start], ends[:, end], self.cutoffs, values)
            found[order] += values / 2
        return found

    def _degree_features(self, sources: Positions, targets: Positions, joined: Joined = False) -> list[Values]:
        """Return the logarithms of the numbers of edges, less one where the two are `joined`."""
        if self.graph.directed:
            out, into = nonzeros_per_row(self.graph.adjacency, sources), self._in_degrees[targets]
            return list(np.broadcast_arrays(np.log1p(out - joined), np.log1p(into - joined)))
        source, target = (np.log1p(self.degrees[each] - joined) for each in (sources, targets))
        if DEGREES in self.names:
            return [source + target]
        turned = np.sign(self.types.codes[sources] - self.types.codes[targets])
        # Of two nodes of one type none is the first: each side has the mean.
        mean, half = (source + target) / 2, (source - target) / 2
        return [mean - turned * half, mean + turned * half]

    def _word_features(self, sources: Positions, targets: Positions) -> list[Values]:
        """Return the cosines (S, K) of the words of sources (S,) and targets (S, K), if words are a feature."""
        if WORDS not in self.names:
            return []
        words, lengths = self._words
        found = np.zeros(targets.shape)
        walks.sparse_products(words.indptr, words.indices, words.data, sources, targets, found)
        return [found / (lengths[sources, None] * lengths[targets])]

    @cached_property
    def _words(self) -> tuple[sp.csr_array, Values]:
        """The words (n, D) of all nodes, and the length of each row; 1 for a node without any."""
        words = words_of(self.graph)
        if words is None:
            raise InputError("the link model compares attributes, which this graph lacks; give the graph of the fit")
        lengths = np.ones(words.shape[0])
        for rows in entry_blocks(words):
            entries = slice(int(words.indptr[rows.start]), int(words.indptr[rows.stop]))
            row = np.repeat(np.arange(rows.stop - rows.start), np.diff(words.indptr[rows.start : rows.stop + 1]))
            square = np.bincount(row, words.data[entries].astype(np.float64) ** 2, rows.stop - rows.start)
            lengths[rows] = np.sqrt(np.where(square > 0, square, 1))
        return words, lengths

    def _type_features(self, sources: Positions, targets: Positions) -> list[Values]:
        """Return for each pair of types among the features whether the pairs of nodes have these types, 0 or 1."""
        column = self._type_columns[self.types.codes[sources], self.types.codes[targets]]
        numbers = [number for number, name in enumerate(self.names) if name.startswith(TYPES)]
        return [np.asarray(column == number, np.float64) for number in numbers]

    @cached_property
    def _type_columns(self) -> npt.NDArray[np.integer]:
        """(T + 1, T + 1) the number of the feature of each pair of types, -1 if it has none."""
        count = len(self.types.names)
        found = np.full((count, count), -1)
        for first, second in np.ndindex(count, count):
            name = _type_pair(self.types, first, second)
            if name in self.names:
                found[first, second] = self.names.index(name)
                if not self.graph.directed:
                    found[second, first] = found[first, second]
        return found

    @cached_property
    def _in_degrees(self) -> npt.NDArray[np.integer]:
        return np.bincount(self.graph.adjacency.indices, minlength=self.graph.num_nodes)

    @cached_property
    def _cover(self) -> sp.csr_array | None:
        """The bipartite double cover of a directed graph: an edge u -> v joins u as source and n + v as target.

        Walks of three steps on it go forth, back and forth again, from a source to a target.
        """
        if not self.graph.directed:
            return None
        forth = sp.csr_array(self.graph.adjacency)
        return sp.csr_array(sp.block_array([[None, forth], [forth.T, None]]))

    @cached_property
    def _factors(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Rows (n, F + 2) of sources and of targets whose products are the dissimilarities."""
        roles, measure = self.embedding.roles, self.embedding.measure
        shape = len(self.embedding), measure.left(wide(roles.source[:1])).vector.shape[1] + 2
        allocate = scratch if self.graph.mapped else np.empty
        sources, targets = allocate(shape, np.float32), allocate(shape, np.float32)
        # In blocks, as they are float64 on the way.
        for rows in blocks(shape[0], max(BLOCK // shape[1], 1)):
            left, right = measure.left(wide(roles.source[rows])), measure.right(wide(roles.target[rows]))
            one = np.ones(len(left.bias))
            with np.errstate(over="ignore"):
                sources[rows] = roles.scale * np.column_stack([left.vector, left.bias, one])
                targets[rows] = np.column_stack([right.vector, one, right.bias])
        return sources, targets

    def _logit(self, dissimilarities: npt.NDArray[np.floating]) -> Values:
        logit = self.embedding.platt_scaling.logits(dissimilarities)
        return np.clip(np.nan_to_num(logit, nan=-LARGEST_LOGIT), -LARGEST_LOGIT, LARGEST_LOGIT)


def _add_more(found: Positions, rows: Positions, more: Positions) -> None:
    """Add candidates (R, M) to some rows of candidates (S, C), behind those that are there, each node once per row."""
    for row, others in zip(rows.tolist(), more, strict=True):
        count = int((found[row] >= 0).sum())
        new = np.setdiff1d(others[others >= 0], found[row])[: found.shape[1] - count]
        found[row, count : count + len(new)] = new


def links_of_each(
    embedding: Embedding,
    known: sp.csr_array,
    nodes: Positions,
    k: int,
    search: Search | None = None,
    types: LinkTypes | None = None,
) -> tuple[Positions, Values]:
    """Positions and dissimilarities (N, k) of the most probable missing edges of each node, as in `nearest_to`."""
    find, k = search or _exact(embedding), min(k, len(embedding))
    exclude = [_no_answers(known, node) for node in nodes.tolist()]
    if types is None:
        return find(embedding.take(nodes), k, exclude, None)
    positions, values = np.full((len(nodes), k), -1, np.int64), np.full((len(nodes), k), np.inf)
    codes = types.codes[nodes]
    # All nodes of a type have the same possible answers, so they are searched together.
    for code in np.unique(codes).tolist():
        rows, among = np.flatnonzero(codes == code), types.allowed[code][types.codes]
        found = find(embedding.take(nodes[rows]), k, [exclude[row] for row in rows], among)
        positions[rows, : found[0].shape[1]], values[rows, : found[1].shape[1]] = found
    return positions, values


def _no_answers(known: sp.csr_array, node: int) -> Positions:
    """The node itself and the nodes it has an edge to."""
    return np.append(row_of(known, node), node)


def _exact(embedding: Embedding) -> Search:
    return lambda queries, k, exclude, among: embedding.nearest_to(queries, k, exclude=exclude, among=among)
