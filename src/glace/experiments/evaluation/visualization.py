"""Visualization: the means in two dimensions, and how far apart the classes lie there."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.categories import Categories
from glace.errors import InputError
from glace.experiments.evaluation.labels import labelled
from glace.gaussian.embedding import Embedding
from glace.queries.layout import layout
from glace.rng import Streams

MOST_NODES = 3000
"""Nodes in a picture: more do not show, and a silhouette takes the square of their number."""


@dataclass(frozen=True)
class Visualization:
    """`positions` (m, 2) of `nodes` (m,) with their `classes` (m,), codes into `class_names`."""

    nodes: npt.NDArray[np.int64]
    positions: npt.NDArray[np.float64]
    classes: npt.NDArray[np.int32]
    class_names: tuple[str, ...]
    silhouette: float

    def values(self) -> dict[str, Any]:
        """Under the names records have; positions to three digits after the point."""
        return {
            "silhouette": self.silhouette,
            "points": self.positions.round(3).tolist(),
            "classes": self.classes.tolist(),
            "class_names": list(self.class_names),
        }


def visualization(embedding: Embedding, labels: Categories | None, *, seed: int = 0, threads: int = 1) -> Visualization:
    """t-SNE of the means of the labelled nodes, at most 3,000 of them drawn evenly; the labels only colour it."""
    nodes, codes = labelled(labels, len(embedding))
    assert labels is not None
    kept = _sample(len(nodes), seed)
    positions = layout(embedding.take(nodes[kept]), random_state=seed, n_jobs=threads)
    silhouette = separation(positions, codes[kept])
    return Visualization(nodes[kept], positions, codes[kept], labels.names, silhouette)


def separation(positions: npt.NDArray[np.floating], classes: npt.NDArray[np.integer], *, seed: int = 0) -> float:
    """Mean silhouette of the classes, -1 to 1, of (m, dimensions) positions; of 3,000 drawn evenly if there are more.

    A node's silhouette is (b - a) / max(a, b), with a the mean distance to the other nodes of its class and b
    that to the nodes of the nearest other class; 0 for the only node of a class.
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
    """At most `MOST_NODES` of so many numbers from 0, ascending."""
    return np.sort(Streams(seed).numpy("visualization").permutation(count)[:MOST_NODES])
