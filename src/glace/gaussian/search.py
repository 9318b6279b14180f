"""Exact top-k search: a matrix product in float32 selects candidates, the direct formula in float64 ranks them.

The product of two vectors of F numbers in float32 is wrong by at most F rounding units times the lengths of both. A
node is dropped only if it is too dissimilar even with that error; the few nodes that remain are compared by the direct
formula. The answers are therefore exact, at the cost of a matrix product.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glace.blocks import blocks
from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, wide

BLOCK, QUERIES = 16_384, 256
"""Nodes and queries per matrix product: a block of dissimilarities takes 16 MB."""
DIRECT = 65_536
"""Pairs compared at once by the direct formula."""
KEPT = 2**30
"""Prepared nodes are cached up to this many bytes; beyond, blocks are prepared anew for each search."""
ROUNDING = 2.0**-24
LARGEST = 1e30
"""Products up to this size have sums that fit into float32."""

Positions = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Exclusions = Sequence[Positions | Sequence[int]]
"""For each query, the positions that are no answers."""


class Block(NamedTuple):
    """Prepared nodes: position of the first, rows (b, F) of the product, and the length (b,) of each row."""

    start: int
    rows: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.float32]


class Targets:
    """Nodes to search among by one measure; `scale` is that of `Roles`."""

    def __init__(self, measure: Dissimilarity, nodes: Gaussian, scale: float = 1.0) -> None:
        self.measure, self.nodes, self.scale = measure, nodes, scale
        self._kept: list[Block] | None = None

    def __len__(self) -> int:
        return len(self.nodes.mean)

    def blocks(self) -> Iterator[Block]:
        """Prepare all nodes, block by block; the blocks are cached if they are small enough."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Block] = []
        for part in blocks(len(self), BLOCK):
            right = self.measure.right(wide(self.nodes[part]))
            rows = _rounded(np.column_stack([right.vector, np.ones_like(right.bias), right.bias]))
            block = Block(part.start, rows, _lengths(rows))
            if rows.nbytes * len(self) <= KEPT * len(rows):
                kept.append(block)
            yield block
        if kept:
            self._kept = kept

    def nearest(
        self, queries: Gaussian, k: int, exclude: Exclusions | None = None, among: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Positions, Values]:
        """Positions and dissimilarities (Q, k) of the most similar nodes, with the queries as sources.

        Nodes in `exclude[q]` are no answers to query q, nor are nodes that are False in `among`. Ties are ordered by
        position. Missing answers are -1 and infinity. There are at most as many columns as nodes.
        """
        k = min(checked_count(k), len(self) if among is None else int(among.sum()))
        if k == 0 or not len(queries.mean):
            return np.empty((len(queries.mean), k), dtype=np.int64), np.empty((len(queries.mean), k))
        answers = [
            self._search(queries[rows], k, None if exclude is None else exclude[rows], among)
            for rows in blocks(len(queries.mean), QUERIES)
        ]
        positions, dissimilarities = (np.vstack(column) for column in zip(*answers, strict=True))
        return positions, self.scale * dissimilarities

    def _search(
        self, queries: Gaussian, k: int, exclude: Exclusions | None, among: npt.NDArray[np.bool_] | None
    ) -> tuple[Positions, Values]:
        queries = wide(queries)
        left = self.measure.left(queries)
        rows = _rounded(np.column_stack([left.vector, left.bias, np.ones_like(left.bias)]))
        lengths = _lengths(rows)
        relative_error = (rows.shape[1] + 4) * ROUNDING * lengths
        best = Best(len(rows), k)
        for block in self.blocks():
            excluded = _excluded((len(rows), len(block.rows)), block.start, exclude, among)
            with _allow_overflow():
                values, error = rows @ block.rows.T, relative_error[:, None] * block.lengths
                threshold = best.threshold()
                if np.isinf(threshold).any():
                    upper = np.where(excluded, np.inf, values + error)
                    threshold = np.minimum(threshold, _kth_smallest(upper, k))
                # Written as a negation, so that NaN counts as a candidate.
                candidate = ~(values - error > threshold[:, None])
                if not lengths.max() * block.lengths.max() < LARGEST:
                    candidate |= ~np.isfinite(values)
            query, row = np.nonzero(candidate & ~excluded)
            best.add(query, row + block.start, self._direct(queries, query, row + block.start))
        return best.positions, best.values

    def _direct(self, queries: Gaussian, query: Positions, position: Positions) -> Values:
        """(P,) dissimilarities of pairs of a query and a node by the direct formula."""
        values = np.empty(len(query))
        for part in blocks(len(query), DIRECT):
            values[part] = self.measure.direct(queries[query[part]], wide(self.nodes[position[part]]))
        return values


class Best:
    """The k best answers to each query so far: `positions` and `values` (Q, k), sorted; -1 and infinity for none."""

    def __init__(self, queries: int, k: int) -> None:
        self.positions = np.full((queries, k), -1, dtype=np.int64)
        self.values = np.full((queries, k), np.inf)

    def threshold(self) -> Values:
        """(Q,) dissimilarity above which a node cannot be among the k best."""
        return self.values[:, -1]

    def add(self, query: Positions, position: Positions, value: Values) -> None:
        """Add pairs of a query and a node with their dissimilarity; on a tie the earlier position wins."""
        if not len(query):
            return
        count, k = self.positions.shape
        old = self.positions >= 0
        queries = np.concatenate([np.nonzero(old)[0], query])
        positions, values = np.concatenate([self.positions[old], position]), np.concatenate([self.values[old], value])
        order = np.lexsort((positions, values, queries))
        queries, positions, values = queries[order], positions[order], values[order]
        rank = np.arange(len(queries)) - np.searchsorted(queries, np.arange(count))[queries]
        kept = rank < k
        self.positions[queries[kept], rank[kept]] = positions[kept]
        self.values[queries[kept], rank[kept]] = values[kept]


def checked_count(k: int) -> int:
    """Return k, or raise InputError unless it is a whole number of at least 1."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"must be a whole number of at least 1, not {k!r}", option="k")
    return int(k)


def _allow_overflow() -> np.errstate:
    """Values that overflow float32 get an infinite error, and are then compared by the direct formula."""
    return np.errstate(over="ignore", invalid="ignore")


def _rounded(rows: Values) -> npt.NDArray[np.float32]:
    with _allow_overflow():
        return rows.astype(np.float32)


def _lengths(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    with _allow_overflow():
        return np.asarray(np.sqrt(np.einsum("rf,rf->r", rows, rows)))


def _kth_smallest(values: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.floating]:
    """(Q,) the k-th smallest value of each row; infinity where a row is shorter."""
    if values.shape[1] < k:
        return np.full(len(values), np.inf)
    return np.partition(values, k - 1, axis=1)[:, k - 1]


def _excluded(
    shape: tuple[int, ...], start: int, exclude: Exclusions | None, among: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.bool_]:
    """Which pairs of a block are no answers: (Q, b), or (1, 1) where nothing is excluded."""
    if exclude is None and among is None:
        return np.zeros((1, 1), dtype=np.bool_)
    end = start + shape[1]
    excluded = np.zeros(shape, dtype=np.bool_)
    if among is not None:
        excluded |= ~among[start:end]
    for query, nodes in enumerate([] if exclude is None else exclude):
        here = np.asarray(nodes, dtype=np.int64)
        excluded[query, here[(here >= start) & (here < end)] - start] = True
    return excluded
