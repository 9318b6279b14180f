"""Calibration: Platt scaling turns dissimilarities into probabilities, and reliability says how good these are."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glace.gaussian.embedding import PlattScaling

Values = npt.NDArray[np.floating]
Truth = npt.NDArray[np.bool_]


def fit_platt_scaling(dissimilarities: Values, truth: Truth) -> PlattScaling | None:
    """Fit Platt scaling to known pairs, half of them edges; None if smaller dissimilarities are not more probable.

    Uses Platt's target smoothing: with hard targets, pairs that a threshold separates perfectly would need an infinite
    slope.
    """
    from sklearn.linear_model import LogisticRegression

    # In standard units, so that the optimizer does not depend on the scale of the measure.
    center, width = float(dissimilarities.mean()), float(dissimilarities.std())
    if not width > 0:
        return None
    score = (center - dissimilarities) / width
    smoothing = np.where(truth, 1 / (truth.sum() + 2), 1 / ((~truth).sum() + 2))
    fit = LogisticRegression(C=np.inf, max_iter=1000).fit(
        np.concatenate([score, score])[:, None],
        np.concatenate([truth, ~truth]),
        np.concatenate([1 - smoothing, smoothing]),
    )
    slope, intercept = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    return PlattScaling(center + width * intercept / slope, slope / width) if slope > 0 else None


class ReliabilityBin(NamedTuple):
    """Pairs with a probability from `low` to `high`: how many, their mean probability, and their share of edges."""

    low: float
    high: float
    pairs: int
    predicted: float
    observed: float


def reliability(probabilities: Values, truth: Truth, bins: int = 10) -> list[ReliabilityBin]:
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


def brier_score(probabilities: Values, truth: Truth) -> float:
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


def calibration_of(probabilities: Values, truth: Truth) -> Calibration:
    """Quality of the probabilities of known pairs."""
    bins = reliability(probabilities, truth)
    return Calibration(len(truth), brier_score(probabilities, truth), calibration_error(bins), bins)


def cross_validated_calibration(dissimilarities: Values, truth: Truth, folds: int = 5) -> Calibration | None:
    """Quality of Platt scaling, cross-validated: the pairs of each fold are scaled by a fit to the others.

    A fold takes every fifth pair, so pairs should be sorted by truth. None if a fold cannot be fitted.
    """
    fold, probabilities = np.arange(len(truth)) % folds, np.empty(len(truth))
    for number in range(folds):
        here = fold == number
        if len({*truth[~here].tolist()}) < 2:
            return None
        scaling = fit_platt_scaling(dissimilarities[~here], truth[~here])
        if scaling is None:
            return None
        probabilities[here] = scaling.probabilities(dissimilarities[here])
    return calibration_of(probabilities, truth)
