"""Synthetic graphs with a known answer: communities that show in the edges and in the attributes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.graph.graph import Graph, build
from glace.graph.node_types import NodeType
from glace.ids import NodeIds
from glace.rng import Streams

# Shape of the Pareto distribution of a node's popularity: finite variance, so degrees are mildly skewed.
POPULARITY_SHAPE = 3.0

# Share of a node's words that come from anywhere instead of from its community's block.
NOISE = 0.5

# Pairs are drawn and repeated ones drawn again; beyond half of all pairs that takes ever more rounds.
FULLEST = 0.5

Pairs = npt.NDArray[np.int64]


def planted(
    nodes: int,
    *,
    communities: int = 8,
    degree: float = 10.0,
    attributes: int = 200,
    words: int = 20,
    mixing: float = 0.1,
    random_state: int = 0,
    directed: bool = False,
) -> Graph:
    """An attributed graph whose labels are the communities it was drawn from.

    Communities have equal sizes, up to one node, and are spread evenly at random over the node numbers.
    There are m = round(nodes * degree / 2) distinct edges without self-loops; round(mixing * m) of them
    join two communities, the others lie within one. Every node has a popularity, Pareto with shape 3
    and minimum 1. An edge's source is drawn by popularity among all nodes, its target by popularity
    among the nodes of the source's community or, for an edge that joins two, among those of the others;
    a pair that is already there is drawn again.

    The columns of the attributes are cut into one block of attributes // communities for each
    community; columns left over belong to none. A node draws `words` columns, each with probability
    1/2 evenly from its community's block, else evenly from all; a value counts how often it was drawn.

    Time and memory grow with nodes * words + m, but for the logarithm of a binary search.
    """
    check_counts(nodes=nodes, communities=communities, attributes=attributes, words=words)
    check_shape(nodes, communities, attributes, degree, mixing)
    streams = Streams(random_state)
    community = streams.numpy("planted communities").permutation(np.arange(nodes) % communities).astype(np.int32)
    people = Population.of(community, streams.numpy("planted popularity"))
    count = round(nodes * degree / 2)
    between = round(mixing * count)
    check_room(np.bincount(community), count - between, between, directed)
    pairs = np.concatenate(
        [
            _distinct_pairs(people, count - between, True, directed, streams.numpy("planted edges", 0)),
            _distinct_pairs(people, between, False, directed, streams.numpy("planted edges", 1)),
        ]
    )
    return build(
        pairs,
        np.ones(len(pairs), dtype=np.float32),
        NodeIds.numbered(nodes),
        [NodeType("", nodes, _attributes(community, communities, attributes, words, streams.numpy("planted words")))],
        directed=directed,
        labels=Categories(community, tuple(str(each) for each in range(communities))),
    )


@dataclass(frozen=True)
class Population:
    """The nodes side by side on a line, by community, each taking as much of it as it is popular."""

    order: npt.NDArray[np.int64]
    """The nodes as they stand on the line."""
    ends: npt.NDArray[np.float64]
    """Where each of them ends."""
    community: npt.NDArray[np.int32]
    borders: npt.NDArray[np.float64]
    """Where each community begins, and the end of the line."""

    @classmethod
    def of(cls, community: npt.NDArray[np.int32], generator: np.random.Generator) -> "Population":
        """Nodes of these communities, their popularity drawn."""
        order = np.argsort(community, kind="stable")
        ends = np.cumsum(1.0 + generator.pareto(POPULARITY_SHAPE, size=len(order)))
        last = np.cumsum(np.bincount(community)) - 1
        return cls(order, ends, community, np.concatenate([[0.0], ends[last]]))

    def anyone(self, count: int, generator: np.random.Generator) -> Pairs:
        """(count,) nodes drawn by popularity among all."""
        return self._at(generator.random(count) * self.borders[-1])

    def fellows(self, nodes: Pairs, generator: np.random.Generator) -> Pairs:
        """For each of these nodes, one drawn by popularity from its own community; it may be itself."""
        group = self.community[nodes]
        begin, end = self.borders[group], self.borders[group + 1]
        return self._at(begin + generator.random(len(nodes)) * (end - begin))

    def strangers(self, nodes: Pairs, generator: np.random.Generator) -> Pairs:
        """For each of these nodes, one drawn by popularity from the other communities."""
        group = self.community[nodes]
        begin, end = self.borders[group], self.borders[group + 1]
        # The line closed to a ring: start behind the own community, go anywhere before its beginning.
        drawn = end + generator.random(len(nodes)) * (self.borders[-1] - (end - begin))
        return self._at(drawn % self.borders[-1])

    def _at(self, places: npt.NDArray[np.float64]) -> Pairs:
        found = np.searchsorted(self.ends, places, side="right")
        return self.order[np.minimum(found, len(self.order) - 1)]


def _distinct_pairs(
    people: Population, count: int, within: bool, directed: bool, generator: np.random.Generator
) -> Pairs:
    """(count, 2) pairs of different nodes, all within communities or all between them."""
    size = np.int64(len(people.order))
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < count:
        sources = people.anyone(count - len(keys), generator)
        targets = (people.fellows if within else people.strangers)(sources, generator)
        fits = (sources != targets) & ((people.community[sources] == people.community[targets]) == within)
        sources, targets = sources[fits], targets[fits]
        if not directed:
            sources, targets = np.minimum(sources, targets), np.maximum(sources, targets)
        keys = _distinct(np.concatenate([keys, sources * size + targets]))
    return np.column_stack([keys // size, keys % size])


def _distinct(keys: Pairs) -> Pairs:
    # np.unique hashes integers, which at millions of keys took 20 times as long as sorting them.
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _attributes(
    community: npt.NDArray[np.int32],
    communities: int,
    width: int,
    words: int,
    generator: np.random.Generator,
) -> sp.csr_array:
    shape = (len(community), words)
    block = width // communities
    own = generator.integers(block, size=shape, dtype=np.int32) + (community * np.int32(block))[:, None]
    anywhere = generator.integers(width, size=shape, dtype=np.int32)
    columns = np.where(generator.random(shape, dtype=np.float32) < NOISE, anywhere, own).ravel()
    starts = np.arange(0, len(columns) + 1, words)
    matrix = sp.csr_array((np.ones(len(columns), dtype=np.float32), columns, starts), shape=(len(community), width))
    matrix.sum_duplicates()
    return matrix


def check_counts(**counts: int) -> None:
    """Raise unless each is a whole number of at least 1."""
    for name, value in counts.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")


def check_shape(nodes: int, communities: int, attributes: int, degree: float, mixing: float) -> None:
    """Raise unless there can be such communities, edges and attributes."""
    if communities > nodes:
        raise InputError(f"{communities:,} communities need at least as many nodes, but there are {nodes:,}")
    if communities > attributes:
        raise InputError(f"{communities:,} communities need an attribute each, but there are {attributes:,}")
    if not 0 < degree < np.inf:
        raise InputError(f"degree must be a finite number above 0, not {degree!r}")
    if not 0 <= mixing <= 1:
        raise InputError(f"mixing must be a number from 0 to 1, not {mixing!r}")
    if mixing > 0 and communities == 1:
        raise InputError("edges between communities need two of them; set mixing=0 or communities=2 or more")


def check_room(sizes: npt.NDArray[np.int64], within: int, between: int, directed: bool) -> None:
    """Raise unless the edges fit into half of the pairs there are, within communities and between."""
    directions = 2 if directed else 1
    inside = directions * int((sizes * (sizes - 1) // 2).sum())
    outside = directions * int(sizes.sum() * (sizes.sum() - 1) // 2) - inside
    for what, wanted, room in (("within", within, inside), ("between", between, outside)):
        if wanted > FULLEST * room:
            raise InputError(
                f"{wanted:,} edges {what} communities are wanted, but there are {room:,} such pairs, of which half "
                "can be used; lower degree, or take more nodes or other communities"
            )
