"""Batches of edges: positives in proportion to their weight, negatives from a noise distribution.

The batch of a step depends on the seed and the step's number only, and its cost not on the size of the graph.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import blocks, row_blocks
from glace.config.config import SamplingConfig
from glace.errors import InputError
from glace.graph.graph import Graph
from glace.kernels import draws
from glace.rng import Streams
from glace.storage.mapped import scratch

NodeIndex = npt.NDArray[np.int64]
REDRAWS = 8
"""How often a forbidden independent negative is drawn again before it is left out of the loss."""


@dataclass(frozen=True)
class Batch:
    """Node numbers of one step. An edge runs from `anchors[b]` to `targets[b]`.

    `negatives` is (M,), shared by all anchors, or (B, K), row b for anchor b; `allowed` is (B, M) or
    (B, K) and False where a negative is the anchor itself or a true neighbour of it.
    """

    anchors: NodeIndex
    targets: NodeIndex
    negatives: NodeIndex
    allowed: npt.NDArray[np.bool_]

    def distinct(self) -> tuple[NodeIndex, "Batch"]:
        """The nodes of the batch, sorted and each once, and the batch with their places in place of their numbers."""
        groups = self.anchors, self.targets, self.negatives
        nodes, places = np.unique(np.concatenate([group.ravel() for group in groups]), return_inverse=True)
        parts = np.split(places, np.cumsum([group.size for group in groups])[:-1])
        return nodes, Batch(parts[0], parts[1], parts[2].reshape(self.negatives.shape), self.allowed)


class EdgeSampler:
    """Draws the batches of a graph."""

    def __init__(self, graph: Graph, config: SamplingConfig, streams: Streams) -> None:
        check_negatives_exist(graph)
        self.config, self.streams = config, streams
        self.adjacency = graph.adjacency
        kind = MappedWeightedSampler if graph.mapped else WeightedSampler
        self.positives = kind(graph.adjacency.data)
        weights = _noise_weights(graph, config.negative_power)
        self.noise = (
            NegativeSampler(weights)
            if graph.node_types is None
            else TypedNegativeSampler(weights, graph.node_types.codes)
        )

    def batch(self, step: int) -> Batch:
        """The batch of this step."""
        entries = self.positives.draw(self.streams.numpy("positives", step), self.config.batch_size)
        # As what indptr is: of another type, numpy would copy all of that.
        places = entries.astype(self.adjacency.indptr.dtype)
        anchors = np.searchsorted(self.adjacency.indptr, places, side="right").astype(np.int64) - 1
        targets = self.adjacency.indices[entries].astype(np.int64)
        generator = self.streams.numpy("negatives", step)
        shared = self.config.negative_sampling == "shared"
        negatives, allowed = (self._pool if shared else self._independent)(anchors, targets, generator)
        return Batch(anchors, targets, negatives, allowed)

    def _pool(
        self, anchors: NodeIndex, targets: NodeIndex, generator: np.random.Generator
    ) -> tuple[NodeIndex, npt.NDArray[np.bool_]]:
        pool = np.sort(self.noise.pool(targets, self.config.negative_pool_size, generator))
        allowed = np.empty((len(anchors), len(pool)), dtype=np.bool_)
        draws.allowed_pool(self.adjacency.indptr, self.adjacency.indices, anchors, pool, allowed)
        self.noise.forbid_others(targets, pool, allowed)
        return pool, allowed

    def _independent(
        self, anchors: NodeIndex, targets: NodeIndex, generator: np.random.Generator
    ) -> tuple[NodeIndex, npt.NDArray[np.bool_]]:
        replaced = np.repeat(targets[:, None], self.config.n_negatives, axis=1)
        negatives, shape = self.noise.like(replaced, generator), replaced.shape
        allowed = np.empty(shape, dtype=np.bool_)
        for _ in range(REDRAWS):
            draws.allowed_pairs(self.adjacency.indptr, self.adjacency.indices, anchors, negatives, allowed)
            if allowed.all():
                break
            negatives[~allowed] = self.noise.like(replaced[~allowed], generator)
        else:
            draws.allowed_pairs(self.adjacency.indptr, self.adjacency.indices, anchors, negatives, allowed)
        return negatives, allowed


class NegativeSampler:
    """Negatives from all nodes, in proportion to weights."""

    def __init__(self, weights: npt.NDArray[np.floating]) -> None:
        self.draws = WeightedSampler(weights)

    def pool(self, _targets: NodeIndex, size: int, generator: np.random.Generator) -> NodeIndex:
        """(M,) for edges that have these targets."""
        return self.draws.draw(generator, size)

    def like(self, targets: NodeIndex, generator: np.random.Generator) -> NodeIndex:
        """One in place of each target, in their shape."""
        return self.draws.draw(generator, targets.size).reshape(targets.shape)

    def forbid_others(self, targets: NodeIndex, pool: NodeIndex, allowed: npt.NDArray[np.bool_]) -> None:
        """Strike out what may not replace a target; here, nothing."""


class TypedNegativeSampler:
    """The same where nodes have types: a negative has the type of the node it replaces.

    An edge between a word and its meaning is told from a pair of a word and another meaning, not from a pair of words,
    which no one asks about. Nodes without a type have one of their own.
    """

    def __init__(self, weights: npt.NDArray[np.floating], codes: npt.NDArray[np.integer]) -> None:
        self.types = codes.astype(np.int64) + 1
        self.nodes = [np.flatnonzero(self.types == each) for each in range(int(self.types.max()) + 1)]
        self.draws = [WeightedSampler(_positive(weights[nodes])) if len(nodes) else None for nodes in self.nodes]

    def pool(self, targets: NodeIndex, size: int, generator: np.random.Generator) -> NodeIndex:
        """(M,) in which types are as common as among the targets, and each of theirs occurs."""
        counts = np.bincount(self.types[targets], minlength=len(self.nodes))
        wanted = np.maximum(np.round(counts * (size / len(targets))), counts > 0).astype(np.int64)
        return np.concatenate([self._draw(kind, int(count), generator) for kind, count in enumerate(wanted)])

    def like(self, targets: NodeIndex, generator: np.random.Generator) -> NodeIndex:
        """One of the same type in place of each target, in their shape."""
        types, found = self.types[targets], np.empty(targets.shape, np.int64)
        for kind in range(len(self.nodes)):
            mine = types == kind
            found[mine] = self._draw(kind, int(mine.sum()), generator)
        return found

    def forbid_others(self, targets: NodeIndex, pool: NodeIndex, allowed: npt.NDArray[np.bool_]) -> None:
        """Strike out what is of another type than the target."""
        allowed &= self.types[targets][:, None] == self.types[pool]

    def _draw(self, kind: int, count: int, generator: np.random.Generator) -> NodeIndex:
        draws = self.draws[kind]
        if draws is None or count == 0:
            return np.empty(0, np.int64)
        return self.nodes[kind][draws.draw(generator, count)]


def _positive(weights: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """The weights, or even ones where all are 0: of a directed graph, a type may have no edges that go out."""
    return weights if weights.any() else np.ones_like(weights)


class WeightedSampler:
    """Draws of places 0 to n - 1 in proportion to n weights, each in constant time."""

    def __init__(self, weights: npt.NDArray[np.floating]) -> None:
        self.count = len(weights)
        # Most graphs have no weights: no table is needed, nor its 16 bytes an edge.
        self.even = all(bool((block == weights[0]).all()) for block in row_blocks(weights))
        if not self.even:
            self._prepare(weights)

    def draw(self, generator: np.random.Generator, size: int) -> NodeIndex:
        """`size` places, drawn independently."""
        return generator.integers(self.count, size=size) if self.even else self._weighted(generator, size)

    def _prepare(self, weights: npt.NDArray[np.floating]) -> None:
        self.threshold, self.alias = draws.alias_table(weights.astype(np.float64))

    def _weighted(self, generator: np.random.Generator, size: int) -> NodeIndex:
        places = generator.integers(self.count, size=size)
        keep = generator.random(size) < self.threshold[places]
        return np.where(keep, places, self.alias[places])


class MappedWeightedSampler(WeightedSampler):
    """The same for more weights than memory holds: by binary search in running sums, which lie in a scratch file."""

    def _prepare(self, weights: npt.NDArray[np.floating]) -> None:
        self.sums, total = scratch((len(weights),), np.float64), 0.0
        for part in blocks(len(weights)):
            self.sums[part] = total + np.cumsum(weights[part], dtype=np.float64)
            total = float(self.sums[part.stop - 1])

    def _weighted(self, generator: np.random.Generator, size: int) -> NodeIndex:
        places = np.searchsorted(self.sums, generator.random(size) * self.sums[-1], side="right")
        return np.asarray(np.minimum(places, self.count - 1))


def check_negatives_exist(graph: Graph) -> None:
    """Raise unless some node has both an edge and a node it is not joined to."""
    if graph.num_nodes < 2:
        raise InputError(f"the graph has {graph.num_nodes} node; training needs at least 2 and an edge")
    if graph.adjacency.nnz == 0:
        raise InputError("the graph has no edges; training needs some to learn from")
    if graph.node_types is not None:
        some = _some_of_a_type(graph.adjacency, graph.node_types.codes.astype(np.int64) + 1)
    else:
        some = any(
            _some_between(graph.adjacency.indptr[part.start : part.stop + 1], graph.num_nodes - 1)
            for part in blocks(graph.num_nodes)
        )
    if not some:
        others = "all others" if graph.node_types is None else "all nodes of the same type as its neighbours"
        raise InputError(
            f"every node with an edge is joined to {others}, as in a complete graph: no negatives can be "
            "drawn, and nothing can be learned from edges that are always there"
        )


def _some_of_a_type(adjacency: sp.csr_array, types: NodeIndex) -> bool:
    """Whether some node is joined to some, but not all, of the other nodes of a type."""
    of_type = np.bincount(types)
    for part in blocks(adjacency.shape[0]):
        begin, end = adjacency.indptr[part.start], adjacency.indptr[part.stop]
        row = np.repeat(np.arange(part.stop - part.start), np.diff(adjacency.indptr[part.start : part.stop + 1]))
        cells = row * len(of_type) + types[adjacency.indices[begin:end]]
        joined = np.bincount(cells, minlength=(part.stop - part.start) * len(of_type)).reshape(-1, len(of_type))
        most = of_type - (types[part][:, None] == np.arange(len(of_type)))
        if ((joined > 0) & (joined < most)).any():
            return True
    return False


def _some_between(indptr: npt.NDArray[np.integer], most: int) -> bool:
    """Whether some row has entries, but fewer than the most it can have."""
    degrees = np.diff(indptr)
    return bool(((degrees > 0) & (degrees < most)).any())


def _noise_weights(graph: Graph, power: float) -> npt.NDArray[np.float64]:
    if power == 0:  # a view of a single number, whatever the number of nodes
        return np.broadcast_to(np.float64(1), graph.num_nodes)
    degrees = np.asarray(graph.adjacency.sum(axis=1), dtype=np.float64)
    return np.asarray(degrees**power)
