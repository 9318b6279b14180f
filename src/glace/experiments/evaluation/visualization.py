"""Visualization: the means in two dimensions, and how well the classes separate there."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glace.categories import Categories
from glace.errors import InputError
from glace.experiments.evaluation.labels import labelled
from glace.gaussian.embedding import Embedding
from glace.queries.layout import layout
from glace.rng import Streams

MOST_NODES = 3000
"""Most nodes of a picture: more cannot be seen, and the time of a silhouette grows with their square."""


@dataclass(frozen=True)
class Visualization:
    """`positions` (m, 2) of `nodes` (m,) with their `classes` (m,), codes into `class_names`."""

    nodes: npt.NDArray[np.int64]
    positions: npt.NDArray[np.float64]
    classes: npt.NDArray[np.int32]
    class_names: tuple[str, ...]
    silhouette: float

    def values(self) -> dict[str, object]:
        """Return the fields of a record; positions keep a thousandth of their range, which is all a picture shows."""
        digits = 2 - math.floor(math.log10(max(float(abs(self.positions).max()), 1e-9)))
        return {
            "silhouette": self.silhouette,
            "points": self.positions.round(max(digits, 0)).tolist(),
            "classes": self.classes.tolist(),
            "class_names": list(self.class_names),
        }


def visualization(embedding: Embedding, labels: Categories | None, *, seed: int = 0, n_jobs: int = 1) -> Visualization:
    """Return the t-SNE of the means of at most 3,000 labelled nodes, drawn uniformly; t-SNE does not see the labels."""
    nodes, codes = labelled(labels, len(embedding))
    assert labels is not None
    kept = _sample(len(nodes), seed)
    positions = layout(embedding.take(nodes[kept]), random_state=seed, n_jobs=n_jobs)
    silhouette = separation(positions, codes[kept])
    return Visualization(nodes[kept], positions, codes[kept], labels.names, silhouette)


def separation(positions: npt.NDArray[np.floating], classes: npt.NDArray[np.integer], *, seed: int = 0) -> float:
    """Return the mean silhouette (-1 to 1) of the classes at (m, dimensions) positions, at most 3,000 of them.

    The silhouette of a node is (b - a) / max(a, b): a is its mean distance to the other nodes of its class, b that
    to the nodes of the closest other class. It is 0 for the only node of a class.
    """
    from sklearn.metrics import silhouette_score

    kept = _sample(len(positions), seed)
    found = len(np.unique(classes[kept]))
    if not 2 <= found < len(kept):
        raise InputError(
            f"a silhouette needs at least 2 classes and more nodes than classes, "
            f"not {len(kept):,} nodes of {found:,} classes"
        )
    return float(silhouette_score(positions[kept], classes[kept]))


def _sample(count: int, seed: int) -> npt.NDArray[np.int64]:
    """Return at most `MOST_NODES` of the numbers below `count`, drawn uniformly, ascending."""
    return np.sort(Streams(seed).numpy("visualization").permutation(count)[:MOST_NODES])
