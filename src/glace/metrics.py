"""Figures of merit that both training and evaluation use."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class LinkScores(NamedTuple):
    """Area under the ROC curve and average precision, 0 to 1; a blind guess has 0.5."""

    auc: float
    ap: float


def link_scores(nearness: npt.NDArray[Any], truth: npt.NDArray[np.bool_]) -> LinkScores:
    """Of a score that should be higher where truth is True; ties count half in AUC."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    return LinkScores(float(roc_auc_score(truth, nearness)), float(average_precision_score(truth, nearness)))
