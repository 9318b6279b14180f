"""Positions of the means in two dimensions: t-SNE preserves neighbourhoods, PCA preserves distances."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.gaussian.embedding import Embedding

LAYOUTS = ("tsne", "pca")

# The Fourier transform method of t-SNE has a fixed cost: on one core it takes 4 s for 50 points and 10 s for 3,000. The
# Barnes-Hut tree takes 0.05 s and 6 s, but is slower from about 6,000 points on.
FFT_FROM = 5000
# Half of openTSNE's default iterations: with 9,000 nodes, more iterations make no visible difference.
EARLY, LATE = 125, 250
EXAGGERATION = 12
PERPLEXITY, LARGE_PERPLEXITY = 30.0, 10.0
"""The second is that of maps with FFT_FROM points and more: 30 neighbours of each point are found and used instead of
90, which took most of the time. On the demo's nouns as many of the ten nearest neighbours stay so on the map, 66 %; 15
neighbours with equal weights keep 60 %."""
NEIGHBORS_DONE = 0.3
"""Fraction of the work, about, that is done when the neighbours are known."""
BETWEEN_REPORTS = 5
MOVING = "moving nodes"

Progress = Callable[[float, str], None]
"""Takes the share that is done, and what is being done."""


def layout(
    embedding: Embedding, *, random_state: int = 0, n_jobs: int = 1, progress: Progress | None = None
) -> npt.NDArray[np.float64]:
    """(n, 2) positions of the means by t-SNE; the same random_state and n_jobs give the same picture."""
    try:
        from openTSNE import TSNEEmbedding, initialization
    except ImportError as problem:
        raise InputError(f"a map needs openTSNE: pip install 'glace-graph[plots]' ({problem})") from problem
    report = progress or (lambda _done, _what: None)
    report(0.0, "finding neighbours")
    points = embedding.mean.astype(np.float64)
    affinities = _affinities(points, random_state, n_jobs)
    report(NEIGHBORS_DONE, MOVING)
    start = initialization.pca(points, random_state=random_state)
    method = "bh" if len(points) < FFT_FROM else "fft"
    found = TSNEEmbedding(start, affinities, negative_gradient_method=method, n_jobs=n_jobs, random_state=random_state)
    reporting: dict[str, Any] = {"callbacks": [_callback(report)], "callbacks_every_iters": BETWEEN_REPORTS}
    found.optimize(EARLY, exaggeration=EXAGGERATION, momentum=0.8, inplace=True, **reporting)
    found.optimize(LATE, momentum=0.8, inplace=True, **reporting)
    return np.asarray(found)


def _affinities(points: npt.NDArray[np.float64], random_state: int, n_jobs: int) -> Any:
    """Which points attract each other, and how much, in the form of openTSNE."""
    from openTSNE import affinity

    most = PERPLEXITY if len(points) < FFT_FROM else LARGE_PERPLEXITY
    perplexity = min(most, max((len(points) - 1) / 3, 1.0))
    return affinity.PerplexityBasedNN(points, perplexity=perplexity, random_state=random_state, n_jobs=n_jobs)


def principal(embedding: Embedding) -> npt.NDArray[np.float64]:
    """(n, 2) positions of the means along their two principal axes."""
    mean = embedding.mean.astype(np.float64)
    return np.asarray((mean - mean.mean(axis=0)) @ main_axes(mean))


def main_axes(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(L, 2) the two directions in which points (n, L) vary most; the largest component of each is positive."""
    gaps = points - points.mean(axis=0)
    _, vectors = np.linalg.eigh(gaps.T @ gaps)
    axes = np.zeros((points.shape[1], 2))
    axes[:, : min(2, points.shape[1])] = vectors[:, ::-1][:, :2]
    largest = axes[abs(axes).argmax(axis=0), [0, 1]]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0))


def _callback(progress: Progress) -> Callable[..., None]:
    """A callback for openTSNE that reports the share of the work that is done."""
    calls = itertools.count(1)

    def report(*_state: object) -> None:
        done = min(next(calls) * BETWEEN_REPORTS / (EARLY + LATE), 1.0)
        progress(NEIGHBORS_DONE + (1 - NEIGHBORS_DONE) * done, MOVING)

    return report
