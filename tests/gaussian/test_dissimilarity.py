"""Every measure against an oracle: torch.distributions, and mpmath where float64 itself is too coarse."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Independent, Normal, kl_divergence

from glace.config.config import GAUSSIAN_DISSIMILARITIES, POINT_DISSIMILARITIES
from glace.errors import InputError
from glace.gaussian.dissimilarity import MEASURES, Gaussian, named

GAUSSIAN_MEASURES = [name for name, measure in MEASURES.items() if measure.needs_variance]


def spread_out(rng, rows=6, dim=16):
    return Gaussian(rng.normal(size=(rows, dim)) * 3, np.exp(rng.normal(size=(rows, dim))))


def nearly_equal(rng, rows=6, dim=16):
    """Rows that differ from each other by a thousandth."""
    mean, variance = rng.normal(size=dim), np.exp(rng.normal(size=dim))
    close = 1 + 1e-3 * rng.normal(size=(2, rows, dim))
    return Gaussian(mean * close[0], variance * close[1])


def narrow(rng, rows=6, dim=16):
    return Gaussian(rng.normal(size=(rows, dim)), 1e-6 * np.exp(rng.normal(size=(rows, dim))))


FAMILIES = [spread_out, nearly_equal, narrow]


ORACLES = {
    "kl": lambda m, v, n, w: ((m - n) ** 2 / v + w / v - 1 - mpmath.log(w / v)) / 2,
    "symmetric_kl": lambda m, v, n, w: ((m - n) ** 2 * (1 / v + 1 / w) + v / w + w / v - 2) / 4,
    "wasserstein2": lambda m, v, n, w: (m - n) ** 2 + (mpmath.sqrt(v) - mpmath.sqrt(w)) ** 2,
    "expected": lambda m, v, n, w: (m - n) ** 2 + v + w,
}
"""One dimension of each measure: mean and variance of the first Gaussian, then of the second."""


def oracle(name, first, second):
    """The measure of one row each, in 50 digits."""
    with mpmath.workdps(50):
        dimensions = zip(first.mean, first.variance, second.mean, second.variance, strict=True)
        return float(sum(ORACLES[name](*(mpmath.mpf(float(x)) for x in each)) for each in dimensions))


def test_every_measure_can_be_chosen_and_has_an_oracle():
    points = [name for name in MEASURES if name not in GAUSSIAN_MEASURES]
    assert sorted(GAUSSIAN_DISSIMILARITIES) == sorted(GAUSSIAN_MEASURES) == sorted(ORACLES)
    assert sorted(POINT_DISSIMILARITIES) == sorted(points)


def table(name, first, second):
    rows, columns = range(len(first.mean)), range(len(second.mean))
    return np.array([[oracle(name, first[i], second[j]) for j in columns] for i in rows])


def distinct_pairs(values):
    return values[~np.eye(len(values), dtype=bool)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", GAUSSIAN_MEASURES)
def test_direct_form_agrees_with_the_oracle_to_1e_9(name, family):
    rows = family(np.random.default_rng(1))
    direct = named(name).direct(rows[:, None], rows[None, :])
    np.testing.assert_allclose(distinct_pairs(direct), distinct_pairs(table(name, rows, rows)), rtol=1e-9, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", GAUSSIAN_MEASURES)
def test_dot_product_form_agrees_with_the_oracle_to_1e_5(name, family):
    rows = family(np.random.default_rng(2))
    pairs = named(name).all_pairs(rows, rows)
    np.testing.assert_allclose(distinct_pairs(pairs), distinct_pairs(table(name, rows, rows)), rtol=1e-5, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", GAUSSIAN_MEASURES)
def test_error_of_the_dot_product_form_stays_within_the_stated_bound(name, family):
    """docs/concepts.md: epsilon times a small factor times the sum of (mean^2 + variance) / variance."""
    rows = family(np.random.default_rng(3))
    moment, precision = rows.mean**2 + rows.variance, 1 / rows.variance
    scale = (moment @ precision.T + (moment @ precision.T).T + 4 * (rows.mean**2 * precision).sum(1)) + moment.sum()
    for dtype in (np.float64, np.float32):
        cast = Gaussian(rows.mean.astype(dtype), rows.variance.astype(dtype))
        exact = table(name, cast, cast)
        error = np.abs(named(name).all_pairs(cast, cast) - exact)
        assert (error <= 4 * np.finfo(dtype).eps * scale).all()


@pytest.mark.parametrize("family", [spread_out, nearly_equal])
def test_direct_form_in_float32_agrees_to_1e_5_of_what_float32_can_hold(family):
    """torch trains in float32: its rows, taken as exact, give the oracle's value."""
    rows = family(np.random.default_rng(4))
    cast = Gaussian(rows.mean.astype(np.float32), rows.variance.astype(np.float32))
    tensors = Gaussian(torch.from_numpy(cast.mean), torch.from_numpy(cast.variance))
    for name in GAUSSIAN_MEASURES:
        direct = named(name).direct(tensors[:, None], tensors[None, :]).numpy()
        np.testing.assert_allclose(distinct_pairs(direct), distinct_pairs(table(name, cast, cast)), rtol=1e-5, atol=0)


@pytest.mark.parametrize("wide", [1e4, 1e6, 1e30])
def test_kl_of_very_different_widths_in_float32(wide):
    first = Gaussian(np.zeros((1, 1), np.float32), np.full((1, 1), wide, np.float32))
    second = Gaussian(np.zeros((1, 1), np.float32), np.full((1, 1), 1e-2, np.float32))
    for one, other in ((first, second), (second, first)):
        found = named("kl").direct(one, other)[0]
        assert found == pytest.approx(oracle("kl", one[0], other[0]), rel=1e-5)


def test_kl_agrees_with_torch_distributions():
    rng = np.random.default_rng(5)
    first, second = spread_out(rng), spread_out(rng)
    p, q = (
        Independent(Normal(torch.from_numpy(g.mean), torch.from_numpy(g.variance).sqrt()), 1) for g in (first, second)
    )
    np.testing.assert_allclose(named("kl").direct(first, second), kl_divergence(q, p).numpy(), rtol=1e-12)
    both = (kl_divergence(q, p) + kl_divergence(p, q)) / 2
    np.testing.assert_allclose(named("symmetric_kl").direct(first, second), both.numpy(), rtol=1e-12)


def test_kl_direction_is_that_of_the_paper():
    """d(z_i, z_j) = KL(z_j || z_i): a narrow node inside a wide one is near from the wide one's side."""
    wide = Gaussian(np.zeros((1, 1)), np.full((1, 1), 100.0))
    thin = Gaussian(np.zeros((1, 1)), np.full((1, 1), 1.0))
    assert named("kl").direct(wide, thin)[0] < named("kl").direct(thin, wide)[0]


@given(st.integers(0, 10_000), st.sampled_from(GAUSSIAN_MEASURES))
def test_measures_are_zero_only_between_equals_and_symmetric_if_they_say_so(seed, name):
    rows = spread_out(np.random.default_rng(seed), rows=3, dim=4)
    values = named(name).direct(rows[:, None], rows[None, :])
    # Two draws of the same Gaussian are apart.
    own = 2 * rows.variance.sum(axis=1) if name == "expected" else np.zeros(3)
    np.testing.assert_array_equal(np.diag(values), own)
    assert (distinct_pairs(values) > 0).all()
    if named(name).symmetric:
        np.testing.assert_allclose(values, values.T, rtol=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_torch_and_numpy_give_the_same(name):
    rows = spread_out(np.random.default_rng(6))
    tensors = Gaussian(torch.from_numpy(rows.mean), torch.from_numpy(rows.variance))
    measure = named(name)
    np.testing.assert_allclose(
        measure.all_pairs(tensors, tensors).numpy(), measure.all_pairs(rows, rows), rtol=1e-12, atol=1e-11
    )
    np.testing.assert_allclose(measure.direct(tensors, tensors).numpy(), measure.direct(rows, rows), atol=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_gradients_are_right(name):
    rng = np.random.default_rng(7)
    inputs = [torch.tensor(rng.normal(size=(3, 4)), requires_grad=True) for _ in range(2)]
    inputs += [torch.tensor(np.exp(rng.normal(size=(3, 4))), requires_grad=True) for _ in range(2)]

    def both_forms(m, n, v, w):
        first, second = Gaussian(m, v), Gaussian(n, w)
        return named(name).direct(first, second), named(name).all_pairs(first, second)

    assert torch.autograd.gradcheck(both_forms, inputs)


def test_concatenated_gaussians_have_the_sum_of_the_parts_kl():
    rng = np.random.default_rng(8)
    a, b, c, d = (spread_out(rng) for _ in range(4))
    joined = [Gaussian(np.hstack([x.mean, y.mean]), np.hstack([x.variance, y.variance])) for x, y in ((a, b), (c, d))]
    parts = named("kl").direct(a, c) + named("kl").direct(b, d)
    np.testing.assert_allclose(named("kl").direct(*joined), parts, rtol=1e-12)


def test_unknown_measure_names_the_known_ones():
    with pytest.raises(InputError, match="unknown dissimilarity 'cosine'; known: kl, symmetric_kl"):
        named("cosine")
