"""Exact top-k search: a matrix product in float32 says who may be near, the formula in float64 who is.

A product of F numbers in float32 is wrong by at most F units of rounding of the lengths of both vectors. A node
is left out only if it is too far even so; the others, a few for each query, are compared by the direct form. The
answers are therefore those of the direct form over all nodes, in the time of the product.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Factor, Gaussian

BLOCK, QUERIES = 16_384, 256
"""Nodes and queries compared at a time: a block of dissimilarities takes 16 MB."""
DIRECT = 65_536
"""Pairs compared by the direct form at a time."""
KEPT = 2**30
"""Bytes of prepared nodes that are kept for the next search; of more, blocks are prepared anew each time."""
ROUNDING = 2.0**-24
LARGEST = 1e30
"""Products up to this size have sums that float32 can hold."""

Places = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


class Block(NamedTuple):
    """Some nodes as one side of the product: where they begin, (b, F) rows, and the length of each."""

    start: int
    rows: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.float32]


class Targets:
    """Nodes to be searched among, by one measure; `scale` is that of `Roles`."""

    def __init__(self, measure: Dissimilarity, nodes: Gaussian, scale: float = 1.0) -> None:
        self.measure, self.nodes, self.scale = measure, nodes, scale
        self._kept: list[Block] | None = None

    def __len__(self) -> int:
        return len(self.nodes.mean)

    def blocks(self) -> Iterator[Block]:
        """All nodes, prepared; kept for the next time if they are not too many."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Block] = []
        for start in range(0, len(self), BLOCK):
            right = self.measure.right(wide(self.nodes[start : start + BLOCK]))
            rows = _rounded(np.column_stack([right.vector, np.ones_like(right.bias), right.bias]))
            block = Block(start, rows, _lengths(rows))
            if rows.nbytes * len(self) <= KEPT * len(rows):
                kept.append(block)
            yield block
        if kept:
            self._kept = kept

    def nearest(
        self,
        queries: Gaussian,
        k: int,
        exclude: Sequence[Places | Sequence[int]] | None = None,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Places, Values]:
        """Positions and dissimilarities (Q, k) of the nodes nearest to each query, as its source, nearest first.

        The nodes `exclude[q]` are no answer to query q, and none is that is False in `among`. Equal dissimilarities
        are ordered by position. Where a query has fewer than k answers, -1 and infinity stand for the rest; there
        are no more columns than nodes.
        """
        k = min(checked_count(k), len(self) if among is None else int(among.sum()))
        if k == 0 or not len(queries.mean):
            return np.empty((len(queries.mean), k), dtype=np.int64), np.empty((len(queries.mean), k))
        answers = [
            self._search(queries[rows], k, None if exclude is None else exclude[rows], among)
            for rows in (slice(start, start + QUERIES) for start in range(0, len(queries.mean), QUERIES))
        ]
        places, near = (np.vstack(part) for part in zip(*answers, strict=True))
        return places, self.scale * near

    def _search(
        self,
        queries: Gaussian,
        k: int,
        exclude: Sequence[Places | Sequence[int]] | None,
        among: npt.NDArray[np.bool_] | None,
    ) -> tuple[Places, Values]:
        queries = wide(queries)
        rows = _queries(self.measure.left(queries))
        lengths = _lengths(rows)
        reach = (rows.shape[1] + 4) * ROUNDING * lengths
        best = Best(len(rows), k)
        for block in self.blocks():
            left_out = _left_out((len(rows), len(block.rows)), block.start, exclude, among)
            with _overflowing():
                scores, error = rows @ block.rows.T, reach[:, None] * block.lengths
                border = best.border()
                if best.is_open():
                    border = np.minimum(border, _kth_smallest(np.where(left_out, np.inf, scores + error), k))
                # Not "nearer than the border" but "not known to be beyond it": no number is looked at too.
                may_be = ~(scores - error > border[:, None])
                if not lengths.max() * block.lengths.max() < LARGEST:
                    may_be |= ~np.isfinite(scores)
            query, place = np.nonzero(may_be & ~left_out)
            best.add(query, place + block.start, self._directly(queries, query, place + block.start))
        return best.places, best.values

    def _directly(self, queries: Gaussian, query: Places, place: Places) -> Values:
        """(P,) dissimilarities of pairs of a query and a node, by the formula."""
        values = np.empty(len(query))
        for at in range(0, len(query), DIRECT):
            part = slice(at, at + DIRECT)
            values[part] = self.measure.direct(queries[query[part]], wide(self.nodes[place[part]]))
        return values


class Best:
    """The k nearest of each query so far: `places` and `values` (Q, k), in order; -1 and infinity where none is yet."""

    def __init__(self, queries: int, k: int) -> None:
        self.places = np.full((queries, k), -1, dtype=np.int64)
        self.values = np.full((queries, k), np.inf)

    def border(self) -> Values:
        """(Q,) what a node must be nearer than."""
        return self.values[:, -1]

    def is_open(self) -> bool:
        """Whether a query still takes any node."""
        return bool(np.isinf(self.border()).any())

    def add(self, query: Places, place: Places, value: Values) -> None:
        """Take in pairs of a query and a node; a later node does not displace an earlier one that is as near."""
        if not len(query):
            return
        count, k = self.places.shape
        old = self.places >= 0
        queries = np.concatenate([np.nonzero(old)[0], query])
        places, values = np.concatenate([self.places[old], place]), np.concatenate([self.values[old], value])
        order = np.lexsort((places, values, queries))
        queries, places, values = queries[order], places[order], values[order]
        rank = np.arange(len(queries)) - np.searchsorted(queries, np.arange(count))[queries]
        kept = rank < k
        self.places[queries[kept], rank[kept]] = places[kept]
        self.values[queries[kept], rank[kept]] = values[kept]


def checked_count(k: int) -> int:
    """A number of answers that can be asked for."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"must be a whole number of at least 1, not {k!r}", option="k")
    return int(k)


def wide(gaussian: Gaussian) -> Gaussian:
    """The same in float64."""
    variance = None if gaussian.variance is None else np.asarray(gaussian.variance, dtype=np.float64)
    return Gaussian(np.asarray(gaussian.mean, dtype=np.float64), variance)


def _overflowing() -> np.errstate:
    """What is too large for float32 has an infinite error, and is compared by the direct form."""
    return np.errstate(over="ignore", invalid="ignore")


def _queries(left: Factor) -> npt.NDArray[np.float32]:
    return _rounded(np.column_stack([left.vector, left.bias, np.ones_like(left.bias)]))


def _rounded(rows: Values) -> npt.NDArray[np.float32]:
    with _overflowing():
        return rows.astype(np.float32)


def _lengths(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    with _overflowing():
        return np.asarray(np.sqrt(np.einsum("rf,rf->r", rows, rows)))


def _kth_smallest(values: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.floating]:
    """(Q,) of each row; infinity where a row is shorter."""
    if values.shape[1] < k:
        return np.full(len(values), np.inf)
    return np.partition(values, k - 1, axis=1)[:, k - 1]


def _left_out(
    shape: tuple[int, ...],
    start: int,
    exclude: Sequence[Places | Sequence[int]] | None,
    among: npt.NDArray[np.bool_] | None,
) -> npt.NDArray[np.bool_]:
    """Pairs of a block that are no answers: (Q, b), or (1, 1) where that does not depend on the pair."""
    if exclude is None and among is None:
        return np.zeros((1, 1), dtype=np.bool_)
    end = start + shape[1]
    out = np.zeros(shape, dtype=np.bool_)
    if among is not None:
        out |= ~among[start:end]
    for query, nodes in enumerate([] if exclude is None else exclude):
        here = np.asarray(nodes, dtype=np.int64)
        out[query, here[(here >= start) & (here < end)] - start] = True
    return out
