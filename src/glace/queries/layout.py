"""The means in two dimensions: by t-SNE, which keeps neighbours together, or by PCA, which keeps distances."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.gaussian.embedding import Embedding

LAYOUTS = ("tsne", "pca")

# Forces between all points by the fast Fourier transform have a fixed cost: on one core 50 points take 4 s and 3,000
# take 10 s; those by a tree 0.05 s and 6 s, but from some 6,000 points on they are the slower ones.
FFT_FROM = 5000
# Half of openTSNE's usual iterations: at 9,000 nodes the picture no longer changes to the eye.
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
        callbacks=None if progress is None else [_Told(progress)],
        callbacks_every_iters=BETWEEN_REPORTS,
    )
    return np.asarray(tsne.fit(embedding.mean.astype(np.float64)))


def principal(embedding: Embedding) -> npt.NDArray[np.float64]:
    """(n, 2) positions of the means along their two principal axes."""
    mean = embedding.mean.astype(np.float64)
    return np.asarray((mean - mean.mean(axis=0)) @ main_axes(mean))


def main_axes(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(L, 2) the two directions in which points (n, L) vary most; signs are such that the largest part is positive."""
    gaps = points - points.mean(axis=0)
    _, vectors = np.linalg.eigh(gaps.T @ gaps)
    axes = np.zeros((points.shape[1], 2))
    axes[:, : min(2, points.shape[1])] = vectors[:, ::-1][:, :2]
    largest = axes[abs(axes).argmax(axis=0), [0, 1]]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0))


class _Told:
    """Tells the share of all iterations that is behind; each of the two stages counts its own from 1."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.done = progress, 0

    def __call__(self, *_state: object) -> None:
        self.done += BETWEEN_REPORTS
        self.progress(min(self.done / (EARLY + LATE), 1.0))
