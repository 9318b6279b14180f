"""AUC against counting pairs, and the standard error of a difference against DeLong's formula and a bootstrap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glace.metrics import auc_difference, link_scores


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
