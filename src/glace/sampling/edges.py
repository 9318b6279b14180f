"""Training batches: edges drawn in proportion to their weights, and negatives from a noise distribution.

The batch of a step depends only on the seed and the step's number; its cost does not depend on the size of the graph.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
Allowed = npt.NDArray[np.bool_]
MAX_REDRAWS = 8
"""How often a forbidden independent negative is drawn again before the loss leaves it out."""
MAX_BUCKETS = 1 << 20
"""Limits the guide table of weighted draws to 8 MB; a larger one is no faster."""


@dataclass(frozen=True)
class Batch:
    """The node numbers of one training step.

    Parameters
    ----------
    anchors, targets
        (B,) the ends of each edge.
    negatives
        (M,) shared by all anchors, or (B, K) with row b for anchor b.
    allowed
        (B, M) or (B, K); False where a negative is the anchor itself or one of its neighbours.
    """

    anchors: NodeIndex
    targets: NodeIndex
    negatives: NodeIndex
    allowed: Allowed

    def distinct(self) -> tuple[NodeIndex, "Batch"]:
        """Return the nodes of the batch, sorted and each once, and the batch with positions among them."""
        groups = self.anchors, self.targets, self.negatives
        nodes, positions = np.unique(np.concatenate([group.ravel() for group in groups]), return_inverse=True)
        parts = np.split(positions, np.cumsum([group.size for group in groups])[:-1])
        return nodes, Batch(parts[0], parts[1], parts[2].reshape(self.negatives.shape), self.allowed)


class EdgeSampler:
    """Draws the batches of a graph."""

    def __init__(self, graph: Graph, config: SamplingConfig, streams: Streams) -> None:
        check_negatives_exist(graph)
        self.config, self.streams, self.adjacency = config, streams, graph.adjacency
        self.positives = WeightedSampler(graph.adjacency.data, scratch if graph.mapped else np.empty)
        self.negatives = NegativeSampler(_noise_weights(graph, config.negative_power), _type_codes(graph))

    @property
    def steps_per_epoch(self) -> float:
        """Steps that draw as many edges as the graph has; an undirected edge counts in both directions."""
        return self.positives.count / self.config.batch_size

    def batch(self, step: int) -> Batch:
        """Return the batch of this step."""
        entries = self.positives.draw(self.streams.numpy("positives", step), self.config.batch_size)
        # In indptr's own type: numpy would copy an array of another type to search in it.
        places = entries.astype(self.adjacency.indptr.dtype)
        anchors = np.searchsorted(self.adjacency.indptr, places, side="right").astype(np.int64) - 1
        targets = self.adjacency.indices[entries].astype(np.int64)
        generator = self.streams.numpy("negatives", step)
        shared = self.config.negative_sampling == "shared"
        negatives, allowed = (self._pool if shared else self._independent)(anchors, targets, generator)
        return Batch(anchors, targets, negatives, allowed)

    def _pool(
        self, anchors: NodeIndex, targets: NodeIndex, generator: np.random.Generator
    ) -> tuple[NodeIndex, Allowed]:
        pool = np.sort(self.negatives.pool(targets, self.config.negative_pool_size, generator))
        allowed = np.empty((len(anchors), len(pool)), dtype=np.bool_)
        draws.allowed_pool(self.adjacency.indptr, self.adjacency.indices, anchors, pool, allowed)
        self.negatives.forbid_other_types(targets, pool, allowed)
        return pool, allowed

    def _independent(
        self, anchors: NodeIndex, targets: NodeIndex, generator: np.random.Generator
    ) -> tuple[NodeIndex, Allowed]:
        replaced = np.repeat(targets[:, None], self.config.n_negatives, axis=1)
        negatives = self.negatives.like(replaced, generator)
        allowed = self._allowed(anchors, negatives)
        for _ in range(MAX_REDRAWS):
            if allowed.all():
                break
            negatives[~allowed] = self.negatives.like(replaced[~allowed], generator)
            allowed = self._allowed(anchors, negatives)
        return negatives, allowed

    def _allowed(self, anchors: NodeIndex, negatives: NodeIndex) -> Allowed:
        allowed = np.empty(negatives.shape, dtype=np.bool_)
        draws.allowed_pairs(self.adjacency.indptr, self.adjacency.indices, anchors, negatives, allowed)
        return allowed


class NegativeSampler:
    """Draws negatives in proportion to (n,) weights, each of the node type of the target it replaces.

    Between words and their meanings, an edge must be distinguished from a pair of a word and another meaning, not from
    two words. `type_codes` (n,) number the types; None means one type, without an array per node.
    """

    def __init__(self, weights: npt.NDArray[np.floating], type_codes: NodeIndex | None = None) -> None:
        self.type_codes = type_codes
        if type_codes is None:
            self.samplers: list[WeightedSampler | None] = [WeightedSampler(weights)]
            return
        self.nodes = [np.flatnonzero(type_codes == code) for code in range(int(type_codes.max()) + 1)]
        self.samplers = [WeightedSampler(_positive(weights[nodes])) if len(nodes) else None for nodes in self.nodes]

    def pool(self, targets: NodeIndex, size: int, generator: np.random.Generator) -> NodeIndex:
        """Return about `size` negatives; types are as frequent as among the targets, and none of theirs is absent."""
        if self.type_codes is None:
            return self._draw(0, size, generator)
        counts = np.bincount(self.type_codes[targets], minlength=len(self.samplers))
        wanted = np.maximum(np.round(counts * (size / len(targets))), counts > 0).astype(np.int64)
        return np.concatenate([self._draw(code, int(count), generator) for code, count in enumerate(wanted)])

    def like(self, targets: NodeIndex, generator: np.random.Generator) -> NodeIndex:
        """Return one negative for each target, in the shape of the targets."""
        if self.type_codes is None:
            return self._draw(0, targets.size, generator).reshape(targets.shape)
        codes, found = self.type_codes[targets], np.empty(targets.shape, np.int64)
        for code in range(len(self.samplers)):
            here = codes == code
            found[here] = self._draw(code, int(here.sum()), generator)
        return found

    def forbid_other_types(self, targets: NodeIndex, pool: NodeIndex, allowed: Allowed) -> None:
        """Set `allowed` (B, M) to False where a negative has another type than the target."""
        if self.type_codes is not None:
            allowed &= self.type_codes[targets][:, None] == self.type_codes[pool]

    def _draw(self, code: int, count: int, generator: np.random.Generator) -> NodeIndex:
        sampler = self.samplers[code]
        if sampler is None or count == 0:
            return np.empty(0, np.int64)
        drawn = sampler.draw(generator, count)
        return drawn if self.type_codes is None else self.nodes[code][drawn]


def _positive(weights: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return the weights, or equal ones if all are 0: in a directed graph, a type may have no outgoing edges."""
    return weights if weights.any() else np.ones_like(weights)


class WeightedSampler:
    """Draws indices 0 to n - 1 in proportion to n weights, by binary search in their cumulative sums.

    A guide table says where in the sums each of up to `MAX_BUCKETS` equal intervals begins, so that a draw searches
    a few sums only. `allocate` makes the array of the sums; equal weights need none.
    """

    def __init__(
        self,
        weights: npt.NDArray[np.floating],
        allocate: Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]] = np.empty,
    ) -> None:
        self.count = len(weights)
        self.equal = all(bool((block == weights[0]).all()) for block in row_blocks(weights))
        if self.equal:
            return
        self.sums, self.total = allocate((self.count,), np.float64), 0.0
        for part in blocks(self.count):
            self.sums[part] = self.total + np.cumsum(weights[part], dtype=np.float64)
            self.total = float(self.sums[part.stop - 1])
        self.buckets = min(self.count, MAX_BUCKETS)
        edges = np.arange(self.buckets + 1) * (self.total / self.buckets)
        last = np.searchsorted(self.sums, self.total)  # of the indices with a weight above 0
        self.guide = np.minimum(np.searchsorted(self.sums, edges, side="right"), last)

    def draw(self, generator: np.random.Generator, size: int) -> NodeIndex:
        """Return `size` indices, drawn independently."""
        if self.equal:
            return generator.integers(self.count, size=size)
        uniform = generator.random(size)
        bucket, wanted = (uniform * self.buckets).astype(np.int64), uniform * self.total
        low, high = self.guide[bucket], self.guide[bucket + 1]
        while (low < high).any():
            middle = (low + high) // 2
            beyond = self.sums[middle] <= wanted
            low, high = np.where(beyond, np.minimum(middle + 1, high), low), np.where(beyond, high, middle)
        return low


def check_negatives_exist(graph: Graph) -> None:
    """Raise InputError unless some node has an edge to a node of a type, and none to another node of that type."""
    if graph.num_nodes < 2:
        raise InputError(f"the graph has {graph.num_nodes} node; training needs at least 2 and an edge")
    if graph.adjacency.nnz == 0:
        raise InputError("the graph has no edges; training needs some to learn from")
    codes = _type_codes(graph)
    if not any(_some_joined_in_part(graph.adjacency, part, codes) for part in blocks(graph.num_nodes)):
        others = "all others" if codes is None else "all nodes of the same type as its neighbours"
        raise InputError(
            f"every node with an edge has edges to {others}, as in a complete graph: no negatives can be "
            "drawn, and nothing can be learned from edges that are always there"
        )


def _some_joined_in_part(adjacency: sp.csr_array, part: slice, codes: NodeIndex | None) -> bool:
    """Return whether some of these nodes has edges to some, but not all, of the other nodes of a type."""
    size = adjacency.shape[0]
    of_type = np.array([size]) if codes is None else np.bincount(codes)
    ends = adjacency.indptr[part.start : part.stop + 1]
    targets = adjacency.indices[ends[0] : ends[-1]]
    row = np.repeat(np.arange(part.stop - part.start), np.diff(ends))
    cells = row if codes is None else row * len(of_type) + codes[targets]
    joined = np.bincount(cells, minlength=(part.stop - part.start) * len(of_type)).reshape(-1, len(of_type))
    own = 1 if codes is None else codes[part][:, None] == np.arange(len(of_type))
    return bool(((joined > 0) & (joined < of_type - own)).any())


def _type_codes(graph: Graph) -> NodeIndex | None:
    """Return the type of each node, where nodes without a type form a type of their own; None without node types."""
    return None if graph.node_types is None else graph.node_types.codes.astype(np.int64) + 1


def _noise_weights(graph: Graph, power: float) -> npt.NDArray[np.float64]:
    if power == 0:  # a view of a single number, whatever the number of nodes
        return np.broadcast_to(np.float64(1), graph.num_nodes)
    degrees = np.asarray(graph.adjacency.sum(axis=1), dtype=np.float64)
    return np.asarray(degrees**power)
