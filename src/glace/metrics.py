"""Metrics of link prediction: AUC and average precision of scores, reliability of probabilities."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.floating]
Truth = npt.NDArray[np.bool_]


class LinkScores(NamedTuple):
    """Area under the ROC curve and average precision, 0 to 1; random guesses have an AUC of 0.5."""

    auc: float
    ap: float


def link_scores(scores: Scores, truth: Truth) -> LinkScores:
    """AUC and average precision of scores that should be higher where `truth` is True; ties count half in AUC."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    return LinkScores(float(roc_auc_score(truth, scores)), float(average_precision_score(truth, scores)))


def auc_difference(first: Scores, second: Scores, truth: Truth) -> tuple[float, float]:
    """AUC of the first scores minus AUC of the second on the same pairs, and DeLong's standard error of it."""
    changes = [a - b for a, b in zip(_placements(first, truth), _placements(second, truth), strict=True)]
    variance = sum(change.var(ddof=1) / len(change) if len(change) > 1 else 0.0 for change in changes)
    return float(changes[0].mean()), float(np.sqrt(variance))


def _placements(scores: Scores, truth: Truth) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """For each edge the share of non-edges below it, for each non-edge the share of edges above; ties count half."""
    edges, others = scores[truth], scores[~truth]
    below = _rank(others, edges) / len(others)
    above = 1 - _rank(edges, others) / len(edges)
    return below, above


def _rank(among: Scores, values: Scores) -> npt.NDArray[np.float64]:
    ordered = np.sort(among)
    left, right = np.searchsorted(ordered, values, side="left"), np.searchsorted(ordered, values, side="right")
    return np.asarray((left + right) / 2)


class ReliabilityBin(NamedTuple):
    """Pairs with a probability from `low` to `high`: how many, their mean probability, and their share of edges."""

    low: float
    high: float
    pairs: int
    predicted: float
    observed: float


def reliability(probabilities: Scores, truth: Truth, bins: int = 10) -> list[ReliabilityBin]:
    """The reliability diagram: bins of equal width over the probabilities, without empty ones."""
    bin_of = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    diagram = []
    for number in np.unique(bin_of).tolist():
        here = bin_of == number
        predicted, observed = float(probabilities[here].mean()), float(truth[here].mean())
        diagram.append(ReliabilityBin(number / bins, (number + 1) / bins, int(here.sum()), predicted, observed))
    return diagram


def calibration_error(bins: list[ReliabilityBin]) -> float:
    """The expected calibration error: mean absolute difference of predicted and observed, weighted by pairs."""
    return sum(each.pairs * abs(each.predicted - each.observed) for each in bins) / sum(each.pairs for each in bins)


def brier_score(probabilities: Scores, truth: Truth) -> float:
    """The mean squared error of probabilities: 0 is perfect, a constant 1/2 has 0.25."""
    return float(((probabilities - truth) ** 2).mean())


class Calibration(NamedTuple):
    """Quality of the probabilities of `pairs` known pairs: Brier score, expected calibration error, and bins."""

    pairs: int
    brier: float
    error: float
    bins: list[ReliabilityBin]

    def to_json(self) -> dict[str, object]:
        """The figures as plain values."""
        return {**self._asdict(), "bins": [list(each) for each in self.bins]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Calibration":
        """The figures that `to_json` gave."""
        bins = [ReliabilityBin(*each) for each in values["bins"]]
        return cls(int(values["pairs"]), float(values["brier"]), float(values["error"]), bins)


def calibration_of(probabilities: Scores, truth: Truth) -> Calibration:
    """Quality of the probabilities of known pairs."""
    bins = reliability(probabilities, truth)
    return Calibration(len(truth), brier_score(probabilities, truth), calibration_error(bins), bins)
