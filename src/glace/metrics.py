"""Ranking metrics of link prediction, used by training and by experiments."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class LinkScores(NamedTuple):
    """Area under the ROC curve and average precision, 0 to 1; random guesses have an AUC of 0.5."""

    auc: float
    ap: float


def link_scores(scores: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_]) -> LinkScores:
    """AUC and average precision of scores that should be higher where `truth` is True; ties count half in AUC."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    return LinkScores(float(roc_auc_score(truth, scores)), float(average_precision_score(truth, scores)))


def auc_difference(
    first: npt.NDArray[np.floating], second: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """AUC of the first scores minus AUC of the second on the same pairs, and DeLong's standard error of it."""
    changes = [a - b for a, b in zip(_placements(first, truth), _placements(second, truth), strict=True)]
    variance = sum(change.var(ddof=1) / len(change) if len(change) > 1 else 0.0 for change in changes)
    return float(changes[0].mean()), float(np.sqrt(variance))


def _placements(
    scores: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """For each edge the share of non-edges below it, for each non-edge the share of edges above; ties count half."""
    edges, others = scores[truth], scores[~truth]
    below = _rank(others, edges) / len(others)
    above = 1 - _rank(edges, others) / len(edges)
    return below, above


def _rank(among: npt.NDArray[np.floating], values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    ordered = np.sort(among)
    left, right = np.searchsorted(ordered, values, side="left"), np.searchsorted(ordered, values, side="right")
    return np.asarray((left + right) / 2)
