"""Link prediction: are held-out edges nearer than pairs that are no edges?"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut


class LinkScores(NamedTuple):
    """Area under the ROC curve and average precision, 0 to 1; a blind guess has 0.5."""

    auc: float
    ap: float


def link_prediction(embedding: Embedding, held_out: HeldOut) -> LinkScores:
    """How well the embedding tells held-out edges from non-edges; rows are the graph's nodes, in its order."""
    return scores_of(-embedding.dissimilarities_at(held_out.pairs()), held_out.truth())


def attribute_prediction(graph: Graph, held_out: HeldOut) -> LinkScores:
    """The same by the raw attributes alone: cosine of the two nodes' rows."""
    rows = _unit_rows(graph.features())
    pairs = held_out.pairs()
    first, second = rows[pairs[:, 0]], rows[pairs[:, 1]]
    products = first.multiply(second).sum(axis=1) if sp.issparse(rows) else (first * second).sum(axis=1)
    return scores_of(np.asarray(products).ravel(), held_out.truth())


def scores_of(nearness: npt.NDArray[Any], truth: npt.NDArray[np.bool_]) -> LinkScores:
    """AUC and average precision of a score that should be higher where truth is True; ties count half in AUC."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    return LinkScores(float(roc_auc_score(truth, nearness)), float(average_precision_score(truth, nearness)))


def _unit_rows(matrix: Any) -> Any:
    from sklearn.preprocessing import normalize

    return normalize(matrix)
