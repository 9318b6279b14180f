"""Validation pairs: edges held out of a graph, in memory or on disk, and random pairs that are not edges."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from glace.blocks import BLOCK, blocks
from glace.errors import InputError
from glace.graph.graph import CleaningReport, Graph, Mapped
from glace.rng import splitmix64
from glace.sparse import assembled, entry_blocks, places_of, read_only
from glace.storage.mapped import scratch

ENTRIES = BLOCK // 4
"""Matrix entries processed at a time; each needs about 100 bytes of temporary memory."""

MAX_ROUNDS = 1000
"""Rounds of drawing; one or two are enough unless nearly every possible pair is an edge."""

Pairs = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.uint64]
Allocator = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]


@dataclass(frozen=True)
class HeldOut:
    """Held-out edges and as many non-edges.

    Parameters
    ----------
    edges
        (P, 2) node numbers of pairs that are edges.
    non_edges
        (P, 2) node numbers of pairs that are not.
    """

    edges: Pairs
    non_edges: Pairs

    def pairs(self) -> Pairs:
        """Return (2P, 2): the edges, then the non-edges."""
        return np.concatenate([self.edges, self.non_edges])

    def truth(self) -> npt.NDArray[np.bool_]:
        """Return (2P,): True for the edges."""
        return np.repeat([True, False], [len(self.edges), len(self.non_edges)])

    def fingerprint(self) -> str:
        """Return a checksum of the pairs."""
        content = [np.ascontiguousarray(pairs, dtype=np.int64) for pairs in (self.edges, self.non_edges)]
        return hashlib.sha256(b"/".join(pairs.tobytes() for pairs in content)).hexdigest()

    def without(self, edges: npt.NDArray[np.bool_]) -> "HeldOut":
        """Return the pairs without the edges marked True in (P,), and without as large a share of the non-edges.

        The non-edges that stay are taken at equal distances, because those of a published split may be sorted.
        """
        kept, count = self.edges[~edges], len(self.non_edges)
        fewer = round(count * len(kept) / max(len(self.edges), 1))
        return HeldOut(kept, self.non_edges[np.arange(fewer) * count // max(fewer, 1)])


def hold_out(
    graph: Graph, fraction: float, generator: np.random.Generator, max_edges: int | None = None
) -> tuple[Graph, HeldOut]:
    """Remove a fraction of the edges from a graph, to validate link prediction with them.

    Every node that has an edge keeps one. The draw is over unordered pairs: if a directed graph has both a->b and
    b->a, they stay or go together, so that no held-out edge can be read off its reverse. A graph in memory and the
    same graph mapped from files give the same result; what remains of a mapped graph is mapped from scratch files.

    Parameters
    ----------
    graph : Graph
        The graph to split.
    fraction : float
        Fraction of the unordered pairs to hold out, above 0 and below 1.
    generator : numpy.random.Generator
        Source of random numbers, such as ``np.random.default_rng(0)``.
    max_edges : int, optional
        Upper limit of unordered pairs to hold out.

    Returns
    -------
    rest : Graph
        The graph without the held-out edges.
    held_out : HeldOut
        These edges, and as many pairs of nodes that are not edges of `graph`. If nodes have types, the ends of a
        non-edge have the types of an edge.

    Raises
    ------
    InputError
        If no edge can be held out, or fewer than asked for.

    Examples
    --------
    >>> import glace, numpy as np
    >>> graph = glace.datasets.planted(200, random_state=0)
    >>> rest, held_out = glace.hold_out(graph, 0.1, np.random.default_rng(0))
    >>> graph.num_edges - rest.num_edges == len(held_out.edges) == len(held_out.non_edges)
    True
    """
    check_fraction(fraction, "to hold out")
    around, allocate = graph.neighborhoods(), _allocator(graph)
    count = int(around.nnz) // 2
    wanted = min(round(fraction * count), count if max_edges is None else max_edges)
    removed, removable = draw_removable(around, wanted, generator, allocate)
    check_enough([fraction], [wanted], count, removable, "another share, or none")
    both = np.concatenate([removed, removed[:, ::-1]])
    edges = both[graph.has_edges(both)] if graph.directed else removed
    return _without_pairs(graph, removed), HeldOut(edges, sample_non_edges(graph, len(edges), generator))


def without_edges(graph: Graph, pairs: npt.NDArray[np.integer]) -> Graph:
    """Return the graph without these edges, in both directions; pairs that are not edges are ignored."""
    here = graph.has_edges(pairs) | graph.has_edges(pairs[:, ::-1])
    return _without_pairs(graph, np.unique(np.sort(pairs[here], axis=1), axis=0))


def check_fraction(fraction: float, use: str) -> None:
    """Raise InputError unless the fraction is above 0 and below 1."""
    if not 0 < fraction < 1:
        raise InputError(f"the share {use} must be above 0 and below 1, not {fraction}")


def check_enough(fractions: Sequence[float], wanted: Sequence[int], pairs: int, removable: int, remedy: str) -> None:
    """Raise InputError unless at least one pair is wanted of each fraction, and so many can be removed."""
    if min(wanted) < 1 or sum(wanted) > removable:
        raise InputError(
            f"cannot hold out {' + '.join(f'{each:.0%}' for each in fractions)} of {pairs:,} edges ({sum(wanted):,}): "
            f"while every node keeps an edge, {removable:,} can go and at least 1 must; hold out {remedy}",
            hint=("validation_fraction", 0) if len(fractions) == 1 else None,
        )


def _allocator(graph: Graph) -> Allocator:
    return np.empty if graph.mapped is None else scratch


def draw_removable(
    neighborhoods: sp.csr_array, wanted: int, generator: np.random.Generator, allocate: Allocator = np.empty
) -> tuple[Pairs, int]:
    """Draw pairs of a symmetric matrix that can be removed while every node keeps one.

    Every node keeps a random pair; of the other pairs each is drawn with the same probability. Pairs are ordered by a
    hash of each: as good as a permutation, without an array to hold it. What nodes keep and what is drawn are two
    orders: in one, a pair could come early only where both nodes have kept theirs already, which hubs have first.

    Returns
    -------
    pairs
        The drawn pairs (smaller, larger), sorted.
    count
        The number of removable pairs.
    """
    keeping, drawing = generator.integers(2**63, size=2).astype(np.uint64)
    kept = _lowest_ranks(neighborhoods, keeping, allocate)
    count, pairs, ranks = 0, np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.uint64)
    limit = np.uint64(2**64 - 1)
    for rows in entry_blocks(neighborhoods, ENTRIES):
        source, target, keys = _entries(neighborhoods, rows)
        own = splitmix64(keys + keeping)
        free = (source < target) & (own > kept[source]) & (own > kept[target])
        count += int(free.sum())
        place = splitmix64(keys + drawing)
        free &= place <= limit
        pairs = np.concatenate([pairs, np.column_stack([source[free], target[free]])])
        ranks = np.concatenate([ranks, place[free]])
        if len(ranks) > 2 * wanted + ENTRIES:
            pairs, ranks = _lowest(pairs, ranks, wanted)
            limit = ranks.max(initial=0)
    pairs, _ = _lowest(pairs, ranks, wanted)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], count


def _lowest_ranks(matrix: sp.csr_array, seed: np.uint64, allocate: Allocator) -> Ranks:
    """Return (n,) the lowest rank among the pairs of each node; arbitrary for a node without pairs."""
    lowest = allocate((matrix.shape[0],), np.uint64)
    for rows in entry_blocks(matrix, ENTRIES):
        starts = matrix.indptr[rows.start : rows.stop + 1].astype(np.int64)
        joined = starts[1:] > starts[:-1]
        if joined.any():
            ranks = splitmix64(_entries(matrix, rows)[2] + seed)
            lowest[rows][joined] = np.minimum.reduceat(ranks, starts[:-1][joined] - starts[0])
    return lowest


def _entries(matrix: sp.csr_array, rows: slice) -> tuple[Pairs, Pairs, Ranks]:
    """Return row, column and a number of the pair, the same in both directions, of the entries of some rows."""
    indptr = matrix.indptr[rows.start : rows.stop + 1].astype(np.int64)
    source = np.repeat(np.arange(rows.start, rows.stop), np.diff(indptr))
    target = matrix.indices[indptr[0] : indptr[-1]].astype(np.int64)
    keys = np.minimum(source, target) * matrix.shape[0] + np.maximum(source, target)
    return source, target, keys.astype(np.uint64)


def _lowest(pairs: Pairs, ranks: Ranks, count: int) -> tuple[Pairs, Ranks]:
    if len(ranks) <= count:
        return pairs, ranks
    chosen = np.argpartition(ranks, count)[:count]
    return pairs[chosen], ranks[chosen]


def _without_pairs(graph: Graph, pairs: Pairs) -> Graph:
    """Return the graph without the edges between these pairs of nodes, in either direction."""
    both, allocate = np.concatenate([pairs, pairs[:, ::-1]]), _allocator(graph)
    adjacency = _without(graph.adjacency, both, allocate)
    mapped = None
    if graph.mapped is not None:
        mapped = Mapped(neighbors=_without(graph.neighborhoods(), both, allocate) if graph.directed else None)
    return replace(graph, adjacency=adjacency, cleaning_report=CleaningReport(), mapped=mapped)


def _without(matrix: sp.csr_array, pairs: Pairs, allocate: Allocator) -> sp.csr_array:
    removed = np.sort(places_of(matrix, pairs))
    removed = removed[np.searchsorted(removed, 0) :]
    indptr = allocate(matrix.indptr.shape, matrix.indptr.dtype)
    narrow = removed.astype(indptr.dtype)  # numpy would copy an array of another type to search in it
    for part in blocks(len(indptr)):
        indptr[part] = matrix.indptr[part] - np.searchsorted(narrow, matrix.indptr[part])
    arrays = (_deleted(array, removed, allocate) for array in (matrix.indices, matrix.data))
    return read_only(assembled(matrix.shape, indptr, *arrays))


def _deleted(array: npt.NDArray[np.generic], places: Pairs, allocate: Allocator) -> npt.NDArray[np.generic]:
    """Return the array without these places, which are sorted."""
    left = allocate((len(array) - len(places),), array.dtype)
    for part in blocks(len(array)):
        begin, end = np.searchsorted(places, [part.start, part.stop])
        left[part.start - begin : part.stop - end] = np.delete(array[part], places[begin:end] - part.start)
    return left


def sample_non_edges(graph: Graph, count: int, generator: np.random.Generator) -> Pairs:
    """Return `count` distinct pairs of different nodes, drawn evenly from those that are not edges.

    If nodes have types, the ends of a pair have the types of a random edge: an edge between a word and a meaning must
    be distinguished from other pairs of a word and a meaning.
    """
    size = graph.num_nodes
    if graph.node_types is not None:
        return _typed_non_edges(graph, np.arange(graph.adjacency.nnz), None, count, generator)

    def draw(number: int) -> Pairs:
        drawn = generator.integers(size, size=(number, 2))
        return drawn if graph.directed else np.sort(drawn, axis=1)

    possible = size * (size - 1) // (1 if graph.directed else 2) - graph.num_edges
    return _non_edges(graph, count, possible, draw, "")


def hidden_non_edges(graph: Graph, visible: int, count: int, generator: np.random.Generator) -> Pairs:
    """Return pairs like `sample_non_edges`, each with at least one of the nodes from number `visible` on."""
    size = graph.num_nodes
    if graph.node_types is not None:
        start = int(graph.adjacency.indptr[visible])
        above = np.flatnonzero(graph.adjacency.indices[:start] >= visible)
        entries = np.concatenate([above, np.arange(start, graph.adjacency.nnz)])
        return _typed_non_edges(graph, entries, visible, count, generator)

    def draw(number: int) -> Pairs:
        # Of two hidden nodes only one order is kept; otherwise such pairs would be drawn twice as often.
        hidden, other = generator.integers(visible, size, number), generator.integers(size, size=number)
        drawn = np.column_stack([other, hidden])[other < hidden]
        turned = graph.directed & (generator.random(len(drawn)) < 0.5)
        return np.where(turned[:, None], drawn[:, ::-1], drawn)

    pairs = size * (size - 1) - visible * (visible - 1)
    touching = graph.num_edges - graph.take(np.arange(visible)).num_edges
    possible = pairs // (1 if graph.directed else 2) - touching
    return _non_edges(graph, count, possible, draw, " and have a hidden node")


def _typed_non_edges(
    graph: Graph, entries: Pairs, visible: int | None, count: int, generator: np.random.Generator
) -> Pairs:
    """Return `count` distinct pairs, made from the edges at these `entries` by replacing both ends.

    A node is replaced by one of its type; if `visible` is given, a node from that number on by another such node.
    """
    classes = node_classes(graph)
    if visible is not None:
        classes = classes * 2 + (np.arange(len(classes)) >= visible)
    replaced = partial(of_same_class, classes, generator=generator)

    def draw(number: int) -> Pairs:
        chosen = entries[generator.integers(len(entries), size=number)]
        places = chosen.astype(graph.adjacency.indptr.dtype)
        sources = np.searchsorted(graph.adjacency.indptr, places, side="right") - 1
        drawn = np.column_stack([replaced(sources), replaced(graph.adjacency.indices[chosen])])
        return drawn if graph.directed else np.sort(drawn, axis=1)

    return _non_edges(graph, count, count, draw, " and have the types of an edge")


def of_same_class(classes: Pairs, nodes: Pairs, generator: np.random.Generator) -> Pairs:
    """Return for each of some nodes a random node of its class; `classes` (n,) are those of all nodes, from 0 on."""
    nodes_by_class, counts = np.argsort(classes, kind="stable"), np.bincount(classes)
    first = np.cumsum(counts) - counts
    own = classes[nodes]
    return np.asarray(nodes_by_class[first[own] + generator.integers(counts[own])])


def node_classes(graph: Graph) -> Pairs:
    """Return (n,) a number for the type of each node; 0 for all nodes if they have no types."""
    if graph.node_types is None:
        return np.zeros(graph.num_nodes, np.int64)
    return np.asarray(graph.node_types.codes.astype(np.int64) + 1)


def _non_edges(graph: Graph, count: int, possible: int, draw: Callable[[int], Pairs], kind: str) -> Pairs:
    """Return `count` distinct pairs from `draw` that are not edges; there are `possible` such pairs."""
    if possible < count:
        raise InputError(f"the graph has only {possible:,} pairs that are not edges{kind}, but {count:,} are needed")
    found, rounds = np.empty((0, 2), dtype=np.int64), 0
    while len(found) < count:
        drawn = draw(2 * count + 16)
        drawn = drawn[(drawn[:, 0] != drawn[:, 1]) & ~graph.has_edges(drawn)]
        found = distinct_pairs(np.concatenate([found, drawn]), graph.num_nodes)
        rounds += 1
        if rounds == MAX_ROUNDS:
            raise InputError(
                f"only {len(found):,} pairs that are not edges{kind} were found in {rounds} rounds of drawing, but "
                f"{count:,} are needed: nearly all such pairs are edges"
            )
    return found[:count]


def distinct_pairs(pairs: Pairs, size: int) -> Pairs:
    """Return the pairs without repetition, in the order of their first occurrence."""
    keys = pc.unique(pa.array(pairs[:, 0] * size + pairs[:, 1])).to_numpy()
    return np.column_stack([keys // size, keys % size])
