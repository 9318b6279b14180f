"""AUC against counting pairs, and the standard error of a difference against DeLong's formula and a bootstrap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glace.metrics import (
    PlattScaling,
    auc_difference,
    brier_score,
    calibrated,
    calibration_error,
    link_scores,
    reliability,
)


def counted_auc(scores, truth):
    """The share of (edge, non-edge) pairs where the edge scores higher; ties count half."""
    edges, others = scores[truth][:, None], scores[~truth][None, :]
    return float(((edges > others) + 0.5 * (edges == others)).mean())


def delong(first, second, truth):
    """The standard error of AUC(first) - AUC(second), DeLong and others 1988, with the matrices of pairs."""
    psi = [
        (s[truth][:, None] > s[~truth][None, :]) + 0.5 * (s[truth][:, None] == s[~truth][None, :])
        for s in (first, second)
    ]
    by_edge = np.cov([each.mean(axis=1) for each in psi])
    by_other = np.cov([each.mean(axis=0) for each in psi])
    whole = by_edge / truth.sum() + by_other / (~truth).sum()
    return float(np.sqrt(whole[0, 0] + whole[1, 1] - 2 * whole[0, 1]))


def drawn(seed, edges=60, others=80, signal=1.0, ties=False):
    """Scores of two judges that agree in part."""
    rng = np.random.default_rng(seed)
    truth = np.repeat([True, False], [edges, others])
    common = rng.normal(size=edges + others) + signal * truth
    first, second = (common + rng.normal(size=len(truth)) for _ in range(2))
    return (np.round(first), np.round(second), truth) if ties else (first, second, truth)


@given(st.integers(0, 2**32), st.booleans())
def test_the_difference_and_its_error_are_delongs(seed, ties):
    first, second, truth = drawn(seed, ties=ties)
    difference, error = auc_difference(first, second, truth)
    wanted = counted_auc(first, truth) - counted_auc(second, truth)
    assert difference == pytest.approx(wanted, abs=1e-12)
    assert difference == pytest.approx(link_scores(first, truth).auc - link_scores(second, truth).auc, abs=1e-9)
    assert error == pytest.approx(delong(first, second, truth), rel=1e-9)


def test_the_error_is_what_other_draws_show():
    """Of the same two judges on 400 other draws of pairs, the differences vary by the error that one draw tells."""
    found = [auc_difference(*drawn(seed)) for seed in range(400)]
    seen = np.std([difference for difference, _ in found])
    assert np.mean([error for _, error in found]) == pytest.approx(seen, rel=0.1)


def test_equal_scores_do_not_differ_and_order_gives_the_sign():
    first, second, truth = drawn(0)
    assert auc_difference(first, first, truth) == (0, 0)
    assert auc_difference(first, 3 * first + 7, truth) == (0, 0), "only the order of scores counts"
    there, back = auc_difference(first, second, truth), auc_difference(second, first, truth)
    assert there == pytest.approx((-back[0], back[1]))
    perfect = truth.astype(float)
    assert auc_difference(perfect, second, truth)[0] > 0
    assert auc_difference(perfect, -perfect, truth) == (1, 0)


def test_a_judge_that_agrees_has_a_smaller_error_than_a_stranger():
    first, second, truth = drawn(1)
    stranger = np.concatenate([np.random.default_rng(5).permutation(second[part]) for part in (truth, ~truth)])
    assert auc_difference(first, second, truth)[1] < auc_difference(first, stranger, truth)[1]


def test_one_edge_and_one_non_edge_are_enough():
    truth = np.array([True, False])
    assert auc_difference(np.array([2.0, 1.0]), np.array([1.0, 2.0]), truth) == (1, 0)


def test_ties_count_half():
    assert link_scores(np.zeros(4), np.array([True, False, True, False])).auc == 0.5


def told(seed, count, odds):
    """Dissimilarities of pairs, and which of them are edges with the stated odds."""
    rng = np.random.default_rng(seed)
    far = rng.gamma(3.0, 4.0, count)
    return far, rng.random(count) < odds.probabilities(far)


@given(st.integers(0, 2**32), st.sampled_from([0.01, 1.0, 1000.0]))
def test_odds_that_pairs_were_drawn_with_are_found_again(seed, scale):
    true = PlattScaling(9.0, 0.8)
    far, truth = told(seed, 20_000, true)
    found = calibrated(scale * far, truth)
    assert found is not None
    assert found.offset / scale == pytest.approx(9.0, rel=0.05)
    assert found.slope * scale == pytest.approx(0.8, rel=0.1)


def test_calibrated_odds_are_reliable_and_others_are_not():
    far, truth = told(1, 20_000, PlattScaling(9.0, 0.3))
    known, other = slice(0, 10_000), slice(10_000, None)
    found = calibrated(far[known], truth[known])
    assert found is not None
    errors = [
        calibration_error(reliability(odds.probabilities(far[other]), truth[other]))
        for odds in (found, PlattScaling(9.0, 3.0), PlattScaling(3.0, 0.3))
    ]
    assert errors[0] < 0.02
    assert min(errors[1:]) > 0.1


def test_pairs_that_are_told_apart_without_a_fault_have_finite_odds():
    odds = calibrated(np.array([1.0, 2.0, 5.0, 6.0]), np.array([True, True, False, False]))
    assert odds is not None
    assert 2 < odds.offset < 5
    assert 0 < odds.slope < 100
    assert odds.probabilities(np.array([1.5]))[0] > 0.6


@pytest.mark.parametrize("far", [[3.0, 3.0, 3.0, 3.0], [5.0, 6.0, 1.0, 2.0]])
def test_where_nearer_is_not_likelier_there_are_no_odds(far):
    assert calibrated(np.array(far), np.array([True, True, False, False])) is None


def test_reliability_counts_every_pair_once():
    probabilities = np.array([0.0, 0.05, 0.5, 0.51, 1.0])
    truth = np.array([False, True, True, False, True])
    bins = reliability(probabilities, truth)
    assert [(each.low, each.high, each.pairs) for each in bins] == [
        (0.0, 0.1, 2),
        (0.5, 0.6, 2),
        (0.9, 1.0, 1),
    ]
    assert bins[0].said == pytest.approx(0.025)
    assert bins[0].true == 0.5
    assert calibration_error(bins) == pytest.approx((2 * 0.475 + 2 * 0.005) / 5)
    assert brier_score(probabilities, truth) == pytest.approx((0.95**2 + 0.5**2 + 0.51**2) / 5)
