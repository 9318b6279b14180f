"""How well held-out edges are told from non-edges, at the cost of their own nodes only."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glace.gaussian.dissimilarity import roles
from glace.graph.split import HeldOut
from glace.model.inputs import InputMask, NodeInputs
from glace.model.network import Network

MOST_PAIRS = 6_000
"""Held-out pairs looked at. With so many an AUC of 0.99 has a standard error of 0.001."""
MOST_NEIGHBORS = 20
"""Neighbours that the mean of a node in such a pair is taken over: of a hub's thousands, more would tell no more."""


@dataclass(frozen=True)
class Validation:
    """Held-out pairs, prepared: `places` (P, 2) into the distinct `nodes`, `truth` (P,)."""

    nodes: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    truth: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, held_out: HeldOut, generator: np.random.Generator) -> "Validation":
        """At most `MOST_PAIRS` of the held-out pairs, drawn evenly, half of them edges."""
        most = MOST_PAIRS // 2
        kept = HeldOut(*(generator.permutation(pairs)[:most] for pairs in (held_out.edges, held_out.non_edges)))
        nodes, places = np.unique(kept.pairs(), return_inverse=True)
        return cls(nodes, places.reshape(-1, 2), kept.truth())

    def near(self, network: Network, inputs: NodeInputs) -> npt.NDArray[np.float64]:
        """(P,) minus the dissimilarity of each pair; FloatingPointError if any is not finite."""
        mask = InputMask(0, 0.0, 0.0, np.empty((0, 2), np.int64), MOST_NEIGHBORS)
        judged = roles(network.measure, *network.embed(inputs, self.nodes, mask))
        with np.errstate(over="ignore", invalid="ignore"):
            near = -network.measure.direct(judged.source[self.places[:, 0]], judged.target[self.places[:, 1]])
        if not np.isfinite(near).all():
            raise FloatingPointError
        return np.asarray(near)
