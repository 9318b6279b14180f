"""Positions of the means in two dimensions: t-SNE preserves neighbourhoods, PCA preserves distances."""

import itertools
from collections.abc import Callable

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
BETWEEN_REPORTS = 5

Progress = Callable[[float], None]


def layout(
    embedding: Embedding, *, random_state: int = 0, n_jobs: int = 1, progress: Progress | None = None
) -> npt.NDArray[np.float64]:
    """(n, 2) positions of the means by t-SNE; the same random_state and n_jobs give the same picture."""
    try:
        from openTSNE import TSNE
    except ImportError as problem:
        raise InputError(f"a map needs openTSNE: pip install 'glace-graph[plots]' ({problem})") from problem
    perplexity = min(30.0, max((len(embedding) - 1) / 3, 1.0))
    tsne = TSNE(
        perplexity=perplexity,
        early_exaggeration_iter=EARLY,
        n_iter=LATE,
        random_state=random_state,
        n_jobs=n_jobs,
        negative_gradient_method="bh" if len(embedding) < FFT_FROM else "fft",
        callbacks=None if progress is None else [_callback(progress)],
        callbacks_every_iters=BETWEEN_REPORTS,
    )
    return np.asarray(tsne.fit(embedding.mean.astype(np.float64)))


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
    """A callback for openTSNE that reports the share of all iterations that are done."""
    calls = itertools.count(1)  # openTSNE's own count starts again in its second stage
    return lambda *_state: progress(min(next(calls) * BETWEEN_REPORTS / (EARLY + LATE), 1.0))
