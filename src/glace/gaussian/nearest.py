"""Exact top-k search in blocks: bounded memory, one matrix product a block."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, Roles

BLOCK = 16_384
"""Nodes compared at a time: with 1,000 queries a block of dissimilarities takes 128 MB."""


def nearest(
    measure: Dissimilarity,
    queries: Roles,
    nodes: Roles,
    k: int,
    exclude: Sequence[int] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Positions and dissimilarities (Q, k) of the nodes nearest to each query, as its source, nearest first.

    `exclude[q]` is a node that is no answer to query q, or -1. Equal dissimilarities are ordered by
    position. Where there are fewer than k nodes, all are returned.
    """
    available = len(nodes.target.mean) - (exclude is not None)
    if not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}")
    k = min(k, available)
    sources = wide(queries.source)
    left = measure.left(sources)
    found = np.empty((len(sources.mean), 0), dtype=np.int64)
    scores = np.empty((len(sources.mean), 0))
    for start in range(0, len(nodes.target.mean), BLOCK):
        block = measure.right(wide(nodes.target[start : start + BLOCK]))
        new = left.vector @ block.vector.T + left.bias[:, None] + block.bias
        _forbid(new, exclude, start)
        places = np.broadcast_to(np.arange(start, start + new.shape[1]), new.shape)
        found, scores = _best(np.hstack([found, places]), np.hstack([scores, new]), k)
    found, exact = _refined(measure, sources, nodes.target, found)
    return found, nodes.scale * exact


def wide(gaussian: Gaussian) -> Gaussian:
    """The same in float64."""
    variance = None if gaussian.variance is None else np.asarray(gaussian.variance, dtype=np.float64)
    return Gaussian(np.asarray(gaussian.mean, dtype=np.float64), variance)


def _forbid(scores: npt.NDArray[np.float64], exclude: Sequence[int] | None, start: int) -> None:
    for query, node in enumerate(exclude or ()):
        if start <= node < start + scores.shape[1]:
            scores[query, node - start] = np.inf


def _best(
    places: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    if scores.shape[1] > k:
        order = np.argpartition(scores, k - 1, axis=1)[:, :k]
        places, scores = np.take_along_axis(places, order, 1), np.take_along_axis(scores, order, 1)
    return places, scores


def _refined(
    measure: Dissimilarity, queries: Gaussian, nodes: Gaussian, found: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The found nodes with their dissimilarities by the direct form, which does not lose digits, in order."""
    found = np.sort(found, axis=1)
    answers = Gaussian(nodes.mean[found], None if nodes.variance is None else nodes.variance[found])
    exact = np.asarray(measure.direct(queries[:, None], wide(answers)))
    order = np.argsort(exact, axis=1, kind="stable")
    return np.take_along_axis(found, order, 1), np.take_along_axis(exact, order, 1)
