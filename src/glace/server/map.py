"""Where the nodes stand on the map: worked out once, kept beside the model file."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.blocks import row_blocks
from glace.errors import GlaceError, InputError
from glace.gaussian.embedding import Embedding
from glace.queries.layout import LAYOUTS, layout, principal
from glace.storage.archive import read_arrays
from glace.storage.files import replacing

Positions = npt.NDArray[np.float32]


def map_of(
    embedding: Embedding,
    model: Path,
    kind: str = "tsne",
    *,
    n_jobs: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Positions:
    """(n, 2) by t-SNE or PCA, from the file beside the model if it was made for this embedding, else made and kept."""
    if kind not in LAYOUTS:
        raise InputError(f"must be {' or '.join(LAYOUTS)}, not {kind!r}", option="layout")
    digest, path = _digest(embedding), Path(f"{model}.{kind}.npz")
    kept = _kept(path, digest, len(embedding))
    if kept is not None:
        return kept
    # t-SNE takes at least three nodes of two dimensions, not all at one place.
    if kind == "pca" or len(embedding) < 3 or embedding.mean.shape[1] < 2 or np.ptp(embedding.mean, axis=0).max() == 0:
        made = principal(embedding)
    else:
        made = layout(embedding, n_jobs=n_jobs, progress=progress)
    positions = made.astype(np.float32)
    _keep(path, digest, positions)
    return positions


def _digest(embedding: Embedding) -> str:
    digest = hashlib.sha256()
    for part in row_blocks(embedding.mean):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _kept(path: Path, digest: str, nodes: int) -> Positions | None:
    """What a file holds, if it is there and was made for these means."""
    try:
        arrays = read_arrays(path, ("positions", "digest"))
        positions: Any = arrays["positions"]
        fits = positions.shape == (nodes, 2) and positions.dtype == np.float32 and np.isfinite(positions).all()
        return positions if fits and str(arrays["digest"]) == digest else None
    except (OSError, KeyError, ValueError, GlaceError):
        return None


def _keep(path: Path, digest: str, positions: Positions) -> None:
    try:
        with replacing(path) as temporary, temporary.open("wb") as sink:
            np.savez(sink, allow_pickle=False, positions=positions, digest=np.array(digest))
    except InputError:
        return  # where nothing can be written, it is worked out again the next time
