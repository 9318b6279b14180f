"""Positions and clusters of the nodes on the map, computed once and cached beside the model file."""

import contextlib
import hashlib
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from glace.blocks import row_blocks
from glace.categories import Categories
from glace.errors import GlaceError, InputError
from glace.fitted.model import FittedModel
from glace.gaussian.embedding import Embedding
from glace.queries.layout import LAYOUTS, Progress, layout, principal
from glace.storage.archive import read_arrays
from glace.storage.files import replacing

Positions = npt.NDArray[np.float32]


def map_of(
    embedding: Embedding, model: Path, kind: str = "tsne", *, n_jobs: int = 1, progress: Progress | None = None
) -> Positions:
    """(n, 2) positions by t-SNE or PCA, from the cache if it fits the embedding; otherwise computed and cached."""
    if kind not in LAYOUTS:
        raise InputError(f"must be {' or '.join(LAYOUTS)}, not {kind!r}", option="layout")
    digest, path = _digest(embedding), Path(f"{model}.{kind}.npz")
    cached = _cached(path, digest, len(embedding))
    if cached is not None:
        return cached
    # t-SNE needs at least three nodes with two dimensions, not all equal.
    if kind == "pca" or len(embedding) < 3 or embedding.mean.shape[1] < 2 or np.ptp(embedding.mean, axis=0).max() == 0:
        positions = principal(embedding).astype(np.float32)
    else:
        positions = layout(embedding, n_jobs=n_jobs, progress=progress).astype(np.float32)
    # In a folder that cannot be written, the map is computed again the next time.
    with contextlib.suppress(InputError), replacing(path) as temporary, temporary.open("wb") as sink:
        np.savez(sink, allow_pickle=False, positions=positions, digest=np.array(digest))
    return positions


def clusters_of(model: FittedModel, path: Path) -> Categories:
    """The clusters of a model, from the cache if it fits the embedding; otherwise computed and cached."""
    digest, cache = _digest(model.embedding), Path(f"{path}.clusters.npz")
    try:
        arrays = read_arrays(cache, ("codes", "names", "digest"))
        codes, names = arrays["codes"], json.loads(arrays["names"].tobytes())
        if str(arrays["digest"]) == digest and codes.shape == (len(model.embedding),) and codes.dtype == np.int32:
            return Categories(codes, tuple(map(str, names)))
    except (OSError, KeyError, ValueError, GlaceError):
        pass
    found = model.clusters().categories()
    names = np.frombuffer(json.dumps(found.names).encode(), np.uint8)
    with contextlib.suppress(InputError), replacing(cache) as temporary, temporary.open("wb") as sink:
        np.savez(sink, allow_pickle=False, codes=found.codes, names=names, digest=np.array(digest))
    return found


def _digest(embedding: Embedding) -> str:
    digest = hashlib.sha256()
    for part in row_blocks(embedding.mean):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _cached(path: Path, digest: str, nodes: int) -> Positions | None:
    """The positions in a file, if it exists and was made for these means."""
    try:
        arrays = read_arrays(path, ("positions", "digest"))
        positions: Positions = arrays["positions"]
        fits = positions.shape == (nodes, 2) and positions.dtype == np.float32 and np.isfinite(positions).all()
        return positions if fits and str(arrays["digest"]) == digest else None
    except (OSError, KeyError, ValueError, GlaceError):
        return None
