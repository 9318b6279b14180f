"""Sentence models installed on this machine: texts to dense vectors, without any download."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.errors import InputError

PROBE = "A small red fox sells fresh bread in the old town."
"""Encoded to identify a model: another model under the same name gives another vector."""
MAX_DIFFERENCE = 1e-3
"""Largest difference between unit vectors of one model on two machines, which round differently."""

Vectors = npt.NDArray[np.float32]


class SentenceModel:
    """A model of sentence-transformers, by its local name or path."""

    def __init__(self, name: str) -> None:
        self.name, self._model = name, _loaded(name)
        self.probe = self.vectors([PROBE])[0]

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return (len(texts), width) unit vectors; an empty text is all zeros."""
        found = np.array(self._model.encode(list(texts), show_progress_bar=False), dtype=np.float32)
        if found.ndim != 2 or not np.isfinite(found).all():
            raise InputError(f"the sentence model {self.name!r} gives vectors that are not finite numbers")
        found[[not text for text in texts]] = 0
        # In double precision, because squares of 32-bit numbers can overflow.
        length = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
        return np.asarray(found / np.where(length == 0, 1, length), dtype=np.float32)

    def check(self, probe: Vectors) -> None:
        """Raise InputError unless this model encodes `PROBE` as the model of the training did."""
        if self.probe.shape != probe.shape or np.abs(self.probe - probe).max() > MAX_DIFFERENCE:
            raise InputError(
                f"the sentence model {self.name!r} on this machine is not the one of the training: it gives other "
                "vectors; put that one there"
            )


def _loaded(name: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as problem:
        raise InputError(
            "columns of sentences need sentence-transformers: pip install 'glace-graph[sentences]'"
        ) from problem
    try:
        return SentenceTransformer(name, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError) as problem:
        raise InputError(
            f"no sentence model {name!r} on this machine, or it cannot be read, and glace downloads none; give the "
            "path of its folder, or get it first with sentence_transformers.SentenceTransformer(NAME)"
        ) from problem
