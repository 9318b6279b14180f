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


class PlattScaling(NamedTuple):
    """The probability of an edge at a dissimilarity d: sigmoid(slope * (offset - d))."""

    offset: float
    slope: float = 1.0

    def probabilities(self, dissimilarities: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Of an edge, against a pair that is none, where both are equally many."""
        from scipy.special import expit

        return np.asarray(expit(self.slope * (self.offset - dissimilarities)))


UNCALIBRATED = PlattScaling(0.0)
"""Of embeddings nobody has calibrated."""


def calibrated(dissimilarities: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_]) -> PlattScaling | None:
    """The odds that fit known pairs best, half of them edges (Platt's scaling); None if nearer is not likelier.

    Edges count as edges for all but one part in their number plus two, and so do the others: pairs that a threshold
    tells apart without a fault would else ask for an infinite slope.
    """
    from sklearn.linear_model import LogisticRegression

    # In standard units: the search for the best fit does not depend on the scale of the measure.
    center, width = float(dissimilarities.mean()), float(dissimilarities.std())
    if not width > 0:
        return None
    near = (center - dissimilarities) / width
    doubt = np.where(truth, 1 / (truth.sum() + 2), 1 / ((~truth).sum() + 2))
    fit = LogisticRegression(C=np.inf, max_iter=1000).fit(
        np.concatenate([near, near])[:, None],
        np.concatenate([truth, ~truth]),
        np.concatenate([1 - doubt, doubt]),
    )
    slope, intercept = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    return PlattScaling(center + width * intercept / slope, slope / width) if slope > 0 else None


class Bin(NamedTuple):
    """Pairs whose probability lies in one part of the range: how many, what was said of them, and what was true."""

    low: float
    high: float
    pairs: int
    said: float
    true: float


def reliability(probabilities: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_], bins: int = 10) -> list[Bin]:
    """Pairs by equal parts of the range of probabilities; parts that have none are left out."""
    place = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    found = []
    for part in np.unique(place).tolist():
        here = place == part
        said, true = float(probabilities[here].mean()), float(truth[here].mean())
        found.append(Bin(part / bins, (part + 1) / bins, int(here.sum()), said, true))
    return found


def calibration_error(bins: list[Bin]) -> float:
    """The mean difference of what was said and what was true, over pairs: the expected calibration error."""
    return sum(each.pairs * abs(each.said - each.true) for each in bins) / sum(each.pairs for each in bins)


class Calibration(NamedTuple):
    """What probabilities are worth: those of `pairs` known pairs, each said by odds that were fitted to others."""

    pairs: int
    brier: float
    error: float
    bins: list[Bin]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**self._asdict(), "bins": [list(each) for each in self.bins]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Calibration":
        """Back from `to_json`."""
        bins = [Bin(*each) for each in values["bins"]]
        return cls(int(values["pairs"]), float(values["brier"]), float(values["error"]), bins)


def judged(probabilities: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_]) -> Calibration:
    """What these probabilities of known pairs are worth."""
    bins = reliability(probabilities, truth)
    return Calibration(len(truth), brier_score(probabilities, truth), calibration_error(bins), bins)


def cross_calibrated(
    dissimilarities: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_], folds: int = 5
) -> Calibration | None:
    """What the odds of `calibrated` are worth: each fifth of the pairs is judged by odds of the others.

    Pairs of one kind should stand together, as each fifth takes every fifth pair. None where any of the fits is.
    """
    fold, said = np.arange(len(truth)) % folds, np.empty(len(truth))
    for each in range(folds):
        here = fold == each
        if len({*truth[~here].tolist()}) < 2:
            return None
        odds = calibrated(dissimilarities[~here], truth[~here])
        if odds is None:
            return None
        said[here] = odds.probabilities(dissimilarities[here])
    return judged(said, truth)


def brier_score(probabilities: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_]) -> float:
    """The mean square of probability minus truth: 0 is perfect, 0.25 what a constant 1/2 has."""
    return float(((probabilities - truth) ** 2).mean())


def auc_difference(
    first: npt.NDArray[np.floating], second: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """AUC of the first scores minus that of the second on the same pairs, and its standard error (DeLong's)."""
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


def _rank(among: npt.NDArray[np.floating], of: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    ordered = np.sort(among)
    sides = [np.searchsorted(ordered, of, side=side) for side in ("left", "right")]
    return np.asarray((sides[0] + sides[1]) / 2)
