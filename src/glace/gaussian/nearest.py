"""Exact top-k search in blocks: bounded memory, one matrix product a block."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, Roles

BLOCK, QUERIES = 16_384, 256
"""Nodes and queries compared at a time: a block of dissimilarities takes 32 MB."""
SPARE = 16
TIE = 1e-9
"""Relative difference that counts as equal when candidates are chosen; the direct form then decides."""


def nearest(
    measure: Dissimilarity,
    queries: Roles,
    nodes: Roles,
    k: int,
    exclude: Sequence[int] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Positions and dissimilarities (Q, k) of the nodes nearest to each query, as its source, nearest first.

    `exclude[q]` is a node that is no answer to query q. Equal dissimilarities are ordered by position.
    Where there are fewer than k nodes, all are returned.
    """
    if not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}")
    k = min(int(k), len(nodes.target.mean) - (exclude is not None))
    answers = [
        _nearest_block(
            measure, queries.source[rows], nodes.target, k, None if exclude is None else exclude[rows]
        )
        for rows in (slice(start, start + QUERIES) for start in range(0, len(queries.source.mean), QUERIES))
    ]
    if not answers:
        return np.empty((0, k), dtype=np.int64), np.empty((0, k))
    return np.vstack([found for found, _ in answers]), nodes.scale * np.vstack([near for _, near in answers])


def _nearest_block(
    measure: Dissimilarity, queries: Gaussian, nodes: Gaussian, k: int, exclude: Sequence[int] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    queries = wide(queries)
    left = measure.left(queries)
    # A few more candidates than asked for: the dot product's rounding may swap those at the border.
    kept = min(k + SPARE, len(nodes.mean))
    found = np.empty((len(queries.mean), 0), dtype=np.int64)
    scores = np.empty((len(queries.mean), 0))
    for start in range(0, len(nodes.mean), BLOCK):
        block = measure.right(wide(nodes[start : start + BLOCK]))
        new = left.vector @ block.vector.T + left.bias[:, None] + block.bias
        _forbid(new, exclude, start)
        places = np.broadcast_to(np.arange(start, start + new.shape[1]), new.shape)
        found, scores = _best(np.hstack([found, places]), np.hstack([scores, new]), kept)
    found = np.where(np.isinf(scores), -1, found)
    return _refined(measure, queries, nodes, found, k)


def wide(gaussian: Gaussian) -> Gaussian:
    """The same in float64."""
    variance = None if gaussian.variance is None else np.asarray(gaussian.variance, dtype=np.float64)
    return Gaussian(np.asarray(gaussian.mean, dtype=np.float64), variance)


def _forbid(scores: npt.NDArray[np.float64], exclude: Sequence[int] | None, start: int) -> None:
    for query, node in enumerate([] if exclude is None else exclude):
        if start <= node < start + scores.shape[1]:
            scores[query, node - start] = np.inf


def _best(
    places: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], kept: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The `kept` smallest scores of each row; of equals at the border, those that stand first."""
    if scores.shape[1] <= kept:
        return places, scores
    border = np.partition(scores, kept - 1, axis=1)[:, kept - 1 : kept]
    # Equal nodes differ by rounding only: the border is a little wide, and within it the order of places decides.
    margin = TIE * (1 + np.abs(border))
    rank = (scores >= border - margin).astype(np.int8) + (scores > border + margin)
    order = np.argsort(rank, axis=1, kind="stable")[:, :kept]
    return np.take_along_axis(places, order, 1), np.take_along_axis(scores, order, 1)


def _refined(
    measure: Dissimilarity, queries: Gaussian, nodes: Gaussian, found: npt.NDArray[np.int64], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The k nearest of the found nodes by the direct form, which does not lose digits; -1 is no node."""
    found = np.sort(found, axis=1)
    answers = Gaussian(nodes.mean[found], None if nodes.variance is None else nodes.variance[found])
    exact = np.asarray(measure.direct(queries[:, None], wide(answers)))
    exact[found < 0] = np.inf
    order = np.argsort(exact, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, order, 1), np.take_along_axis(exact, order, 1)
