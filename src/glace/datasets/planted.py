"""Synthetic graphs with known communities, which show in the edges and in the attributes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.graph.graph import Graph, NodeType, build
from glace.ids import NodeIds
from glace.rng import Streams

# Shape of the Pareto distribution of popularity: the variance is finite, so degrees are mildly skewed.
POPULARITY_SHAPE = 3.0

# Fraction of a node's words that are drawn from all columns instead of its community's block.
NOISE = 0.5

# Duplicate pairs are drawn again; beyond this fraction of all pairs, that takes too many rounds.
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
    """Draw an attributed graph with planted communities, which are its labels.

    There are m = round(nodes * degree / 2) distinct edges without self-loops. Every node has a popularity (Pareto with
    shape 3 and minimum 1). The source of an edge is drawn by popularity from all nodes; its target is drawn by
    popularity from the same community or, for round(mixing * m) of the edges, from the other communities.

    The columns of the attributes are divided into one block of attributes // communities for each community. A node
    draws `words` columns, each with probability 1/2 from its community's block, else from all; a value is the number
    of times a column was drawn. Time and memory are proportional to nodes * words + m, up to a logarithm.

    Parameters
    ----------
    nodes
        Number of nodes.
    communities
        Number of communities, of equal size up to one node.
    degree
        Mean number of edges per node.
    attributes
        Number of attribute columns.
    words
        Number of columns that a node draws.
    mixing
        Fraction of the edges that join two communities, from 0 to 1.
    random_state
        Seed of all draws.
    directed
        Whether edges have a direction.

    Returns
    -------
    Graph
        The graph; `graph.labels` are the communities.

    Raises
    ------
    InputError
        If a number is out of range, or there are too few pairs of nodes for so many edges.

    Examples
    --------
    >>> from glace import datasets
    >>> datasets.planted(200, communities=4).num_edges
    1000
    """
    check_counts(nodes=nodes, communities=communities, attributes=attributes, words=words)
    check_shape(nodes, communities, attributes, degree, mixing)
    streams = Streams(random_state)
    community = streams.numpy("planted communities").permutation(np.arange(nodes) % communities).astype(np.int32)
    population = Population.of(community, streams.numpy("planted popularity"))
    count = round(nodes * degree / 2)
    between = round(mixing * count)
    check_room(np.bincount(community), count - between, between, directed)
    pairs = np.concatenate(
        [
            _distinct_pairs(population, count - between, True, directed, streams.numpy("planted edges", 0)),
            _distinct_pairs(population, between, False, directed, streams.numpy("planted edges", 1)),
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
    """The nodes on a line, sorted by community, each with an interval as long as its popularity."""

    order: npt.NDArray[np.int64]
    """The nodes in the order of their intervals."""
    ends: npt.NDArray[np.float64]
    """The end of each interval."""
    community: npt.NDArray[np.int32]
    borders: npt.NDArray[np.float64]
    """The start of each community, and the end of the line."""

    @classmethod
    def of(cls, community: npt.NDArray[np.int32], generator: np.random.Generator) -> "Population":
        """Draw the popularity of nodes with these communities."""
        order = np.argsort(community, kind="stable")
        ends = np.cumsum(1.0 + generator.pareto(POPULARITY_SHAPE, size=len(order)))
        last = np.cumsum(np.bincount(community)) - 1
        return cls(order, ends, community, np.concatenate([[0.0], ends[last]]))

    def any_node(self, count: int, generator: np.random.Generator) -> Pairs:
        """Draw `count` nodes by popularity."""
        return self._at(generator.random(count) * self.borders[-1])

    def partners(self, nodes: Pairs, within: bool, generator: np.random.Generator) -> Pairs:
        """Draw a node by popularity from the community of each node, maybe the node itself, or from the others."""
        group, length = self.community[nodes], self.borders[-1]
        begin, end = self.borders[group], self.borders[group + 1]
        if not within:
            # Treat the line as a ring: from the end of the own community to its start.
            begin, end = end, begin + length
        return self._at((begin + generator.random(len(nodes)) * (end - begin)) % length)

    def _at(self, places: npt.NDArray[np.float64]) -> Pairs:
        found = np.searchsorted(self.ends, places, side="right")
        return self.order[np.minimum(found, len(self.order) - 1)]


def _distinct_pairs(
    population: Population, count: int, within: bool, directed: bool, generator: np.random.Generator
) -> Pairs:
    """Draw `count` distinct pairs (count, 2) of different nodes, all within or all between communities."""
    size = np.int64(len(population.order))
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < count:
        sources = population.any_node(count - len(keys), generator)
        targets = population.partners(sources, within, generator)
        fits = (sources != targets) & ((population.community[sources] == population.community[targets]) == within)
        sources, targets = sources[fits], targets[fits]
        if not directed:
            sources, targets = np.minimum(sources, targets), np.maximum(sources, targets)
        keys = _distinct(np.concatenate([keys, sources * size + targets]))
    return np.column_stack([keys // size, keys % size])


def _distinct(keys: Pairs) -> Pairs:
    # np.unique hashes integers, which took 20 times as long as sorting for millions of keys.
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _attributes(
    community: npt.NDArray[np.int32], communities: int, width: int, words: int, generator: np.random.Generator
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
    """Raise unless each count is a whole number of at least 1."""
    for name, value in counts.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")


def check_shape(nodes: int, communities: int, attributes: int, degree: float, mixing: float) -> None:
    """Raise unless communities, edges and attributes of these numbers are possible."""
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
    """Raise unless the edges fit into half of the pairs within communities, and between them."""
    directions = 2 if directed else 1
    inside = directions * int((sizes * (sizes - 1) // 2).sum())
    outside = directions * int(sizes.sum() * (sizes.sum() - 1) // 2) - inside
    for what, wanted, room in (("within", within, inside), ("between", between, outside)):
        if wanted > FULLEST * room:
            raise InputError(
                f"{wanted:,} edges {what} communities do not fit into half of the {room:,} pairs; lower the degree, or "
                "use more nodes or other communities"
            )
