"""The embedding: one Gaussian per node with its id. What models make and everything else reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.gaussian import nearest
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, named
from glace.ids import NodeId, NodeIds


class Neighbors(NamedTuple):
    """The nodes nearest to one, nearest first; equals in the order of the nodes."""

    ids: list[NodeId]
    dissimilarities: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Embedding:
    """n Gaussians: `mean` and `variance` (n, L) float32; points (LACE, baselines) have no variance.

    `dissimilarity` names the measure they were trained for, and `offset` is b in the probability of an
    edge, sigmoid(b - dissimilarity).
    """

    ids: NodeIds
    mean: npt.NDArray[np.float32]
    variance: npt.NDArray[np.float32] | None
    dissimilarity: str
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.mean.ndim != 2 or self.mean.shape[0] != len(self.ids):
            raise InputError(f"{len(self.ids):,} ids need a mean of that many rows, not {self.mean.shape}")
        if self.variance is not None and self.variance.shape != self.mean.shape:
            raise InputError(f"the variance has the shape {self.variance.shape}, the mean {self.mean.shape}")
        if self.measure.needs_variance and self.variance is None:
            raise InputError(
                f"{self.dissimilarity} needs variances; points have only the dissimilarity 'dot'"
            )
        if self.variance is not None and not (self.variance > 0).all():
            raise InputError("variances must be above 0")
        if not np.isfinite(self.mean).all() or not np.isfinite(_or_empty(self.variance)).all():
            raise InputError("means and variances must be finite")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        kind = "points" if self.variance is None else "Gaussians"
        return f"Embedding({len(self):,} {kind} of {self.mean.shape[1]} dimensions, {self.dissimilarity})"

    @property
    def measure(self) -> Dissimilarity:
        """The measure the nodes are compared by."""
        return named(self.dissimilarity)

    @property
    def gaussian(self) -> Gaussian:
        """All rows, as the formulas take them."""
        return Gaussian(self.mean, self.variance)

    def take(self, nodes: npt.NDArray[np.integer]) -> "Embedding":
        """The Gaussians at these positions, in that order."""
        rows = self.gaussian[nodes]
        return replace(self, ids=self.ids.take(nodes), mean=rows.mean, variance=rows.variance)

    def neighbors(self, node: NodeId, k: int = 10) -> Neighbors:
        """The k nodes nearest to a node, itself excluded, by exact search over all.

        For the asymmetric `kl` these are the targets an edge from the node would most likely have.
        """
        place = self.ids.position(node)
        rows, dissimilarities = self.nearest_to(self.gaussian[[place]], k, exclude=[place])
        return Neighbors([self.ids[row] for row in rows[0]], dissimilarities[0])

    def nearest_to(
        self, queries: Gaussian, k: int, exclude: Sequence[int] | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Positions (Q, k) and dissimilarities (Q, k) of the nodes nearest to each query Gaussian."""
        return nearest.nearest(self.measure, queries, self.gaussian, k, exclude)

    def dissimilarities(self, pairs: Sequence[tuple[NodeId, NodeId]]) -> npt.NDArray[np.float64]:
        """(P,) of pairs of ids, from the first to the second."""
        first = self.ids.positions([pair[0] for pair in pairs])
        second = self.ids.positions([pair[1] for pair in pairs])
        return self.dissimilarities_at(np.column_stack([first, second]))

    def dissimilarities_at(self, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """(P,) of pairs of positions (P, 2)."""
        return between(self.measure, self.gaussian[pairs[:, 0]], self.gaussian[pairs[:, 1]])

    def probabilities(self, dissimilarities: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """sigmoid(offset - d): the model's odds that a pair is an edge and not a drawn negative."""
        from scipy.special import expit

        return np.asarray(expit(self.offset - dissimilarities))

    def spread(self) -> npt.NDArray[np.float64]:
        """(n,) mean log-variance of each node: the larger, the less certain the model is of its place."""
        if self.variance is None:
            raise InputError("points have no variance; only Gaussians (GLACE) know how certain they are")
        return np.asarray(np.log(self.variance.astype(np.float64)).mean(axis=1))


def between(measure: Dissimilarity, first: Gaussian, second: Gaussian) -> npt.NDArray[np.float64]:
    """The direct form in float64: exact to the last digits that float32 Gaussians have."""
    return np.asarray(measure.direct(nearest.wide(first), nearest.wide(second)))


def _or_empty(array: Any) -> npt.NDArray[Any]:
    return np.empty(0) if array is None else np.asarray(array)
