"""Platt scaling recovers the scaling that pairs were drawn with, and reliability sees when it is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glace.gaussian.embedding import PlattScaling
from glace.metrics import brier_score, calibration_error, calibration_of, reliability
from glace.training.train import cross_validated_calibration


def drawn(seed, count, scaling):
    """Dissimilarities of pairs, and which of them are edges with the stated scaling."""
    rng = np.random.default_rng(seed)
    dissimilarities = rng.gamma(3.0, 4.0, count)
    return dissimilarities, rng.random(count) < scaling.probabilities(dissimilarities)


@given(st.integers(0, 2**32), st.sampled_from([0.01, 1.0, 1000.0]))
def test_scaling_that_pairs_were_drawn_with_are_found_again(seed, scale):
    true = PlattScaling(9.0, 0.8)
    dissimilarities, truth = drawn(seed, 20_000, true)
    found = PlattScaling.fit(scale * dissimilarities, truth)
    assert found is not None
    assert found.offset / scale == pytest.approx(9.0, rel=0.05)
    assert found.slope * scale == pytest.approx(0.8, rel=0.1)


def test_calibrated_scaling_are_reliable_and_others_are_not():
    dissimilarities, truth = drawn(1, 20_000, PlattScaling(9.0, 0.3))
    known, other = slice(0, 10_000), slice(10_000, None)
    found = PlattScaling.fit(dissimilarities[known], truth[known])
    assert found is not None
    errors = [
        calibration_error(reliability(scaling.probabilities(dissimilarities[other]), truth[other]))
        for scaling in (found, PlattScaling(9.0, 3.0), PlattScaling(3.0, 0.3))
    ]
    assert errors[0] < 0.02
    assert min(errors[1:]) > 0.1


def test_pairs_that_are_separated_perfectly_have_finite_scaling():
    scaling = PlattScaling.fit(np.array([1.0, 2.0, 5.0, 6.0]), np.array([True, True, False, False]))
    assert scaling is not None
    assert 2 < scaling.offset < 5
    assert 0 < scaling.slope < 100
    assert scaling.probabilities(np.array([1.5]))[0] > 0.6


@pytest.mark.parametrize("dissimilarities", [[3.0, 3.0, 3.0, 3.0], [5.0, 6.0, 1.0, 2.0]])
def test_where_nearer_is_not_likelier_there_are_no_scaling(dissimilarities):
    assert PlattScaling.fit(np.array(dissimilarities), np.array([True, True, False, False])) is None


def test_reliability_counts_every_pair_once():
    probabilities = np.array([0.0, 0.05, 0.5, 0.51, 1.0])
    truth = np.array([False, True, True, False, True])
    bins = reliability(probabilities, truth)
    assert [(each.low, each.high, each.pairs) for each in bins] == [(0.0, 0.1, 2), (0.5, 0.6, 2), (0.9, 1.0, 1)]
    assert bins[0].predicted == pytest.approx(0.025)
    assert bins[0].observed == 0.5
    assert calibration_error(bins) == pytest.approx((2 * 0.475 + 2 * 0.005) / 5)
    assert brier_score(probabilities, truth) == pytest.approx((0.95**2 + 0.5**2 + 0.51**2) / 5)


def test_cross_validation_scales_each_pair_by_a_fit_to_the_other_folds():
    dissimilarities, truth = drawn(3, 400, PlattScaling(9.0, 0.3))
    order = np.argsort(~truth, kind="stable")
    dissimilarities, truth = dissimilarities[order], truth[order]
    expected = np.empty(400)
    for fold in range(5):
        rest = [row for row in range(400) if row % 5 != fold]
        scaling = PlattScaling.fit(dissimilarities[rest], truth[rest])
        assert scaling is not None
        expected[fold::5] = scaling.probabilities(dissimilarities[fold::5])
    found = cross_validated_calibration(dissimilarities, truth)
    assert found is not None
    assert found == calibration_of(expected, truth)
    assert found.pairs == 400
    assert found.brier == pytest.approx(((expected - truth) ** 2).mean())
    fitted = PlattScaling.fit(dissimilarities, truth)
    assert fitted is not None
    assert found.brier > brier_score(fitted.probabilities(dissimilarities), truth), "not measured on the fitted pairs"


def test_no_calibration_if_a_fold_cannot_be_fitted():
    assert cross_validated_calibration(np.arange(10.0), np.ones(10, np.bool_)) is None, "only edges"
    truth = np.arange(10) < 5
    assert cross_validated_calibration(np.arange(10.0)[::-1], truth) is None, "edges are less similar"
    one_edge = np.arange(10) == 0
    assert cross_validated_calibration(np.arange(10.0), one_edge) is None, "a fold has the only edge"
    assert cross_validated_calibration(np.arange(10.0), truth) is not None


def test_calibration_as_json_and_back():
    dissimilarities, truth = drawn(4, 200, PlattScaling(9.0, 0.3))
    found = calibration_of(PlattScaling(9.0, 0.3).probabilities(dissimilarities), truth)
    assert type(found).from_json(found.to_json()) == found
