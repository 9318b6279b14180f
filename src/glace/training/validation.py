"""How well held-out edges are told from non-edges, at the cost of their own nodes only."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.gaussian.dissimilarity import roles
from glace.graph.split import HeldOut
from glace.model.network import Network

MOST_PAIRS = 20_000
"""Held-out pairs looked at: with so many the AUC's standard error is below 0.002, whatever the graph's size."""


@dataclass(frozen=True)
class Validation:
    """Held-out pairs, prepared: `places` (P, 2) into the distinct `nodes`, `truth` (P,)."""

    nodes: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    truth: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, held_out: HeldOut) -> "Validation":
        """The first of the held-out pairs, half of them edges; they come in random order."""
        most = MOST_PAIRS // 2
        kept = HeldOut(held_out.edges[:most], held_out.non_edges[:most])
        nodes, places = np.unique(kept.pairs(), return_inverse=True)
        return cls(nodes, places.reshape(-1, 2), kept.truth())

    def scores(self, network: Network, attributes: Any) -> tuple[float, float]:
        """AUC and average precision of the network's dissimilarities."""
        from sklearn.metrics import average_precision_score, roc_auc_score

        judged = roles(network.measure, *network.embed(attributes, self.nodes))
        near = -network.measure.direct(judged.source[self.places[:, 0]], judged.target[self.places[:, 1]])
        if not np.isfinite(near).all():
            return 0.0, 0.0
        return float(roc_auc_score(self.truth, near)), float(average_precision_score(self.truth, near))
