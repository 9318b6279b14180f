"""Points whose coordinates are mostly 0, such as raw attributes: scored like an embedding, without a dense matrix."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import blocks
from glace.ids import NodeIds

PAIRS = 65_536
"""Pairs scored at a time."""


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """One point per node: the ids of n nodes, and their coordinates (n, D) as rows of a sparse matrix."""

    ids: NodeIds
    rows: sp.csr_array

    def __len__(self) -> int:
        return len(self.ids)

    def dissimilarities_at(self, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Return minus the dot products (P,) of pairs (P, 2) of positions, in float64."""
        values = np.empty(len(pairs))
        rows = self.rows.astype(np.float64)
        for part in blocks(len(pairs), PAIRS):
            first, second = (rows[side] for side in pairs[part].T)
            values[part] = -np.asarray((first * second).sum(axis=1)).ravel()
        return values

    def normalized(self) -> "SparsePoints":
        """Return the same points at length 1; a point at 0 stays there."""
        from sklearn.preprocessing import normalize

        return SparsePoints(self.ids, sp.csr_array(normalize(self.rows.astype(np.float64))))
