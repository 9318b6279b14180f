"""The compiled loss against torch in double precision."""

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from glace.kernels.compile import set_threads
from glace.kernels.losses import log_sigmoids


def compiled(odds, allowed, scale=5.0):
    gradient, losses = odds.copy(), np.empty(len(odds), np.float32)
    log_sigmoids(gradient, allowed, np.float32(scale), losses)
    return losses, gradient


@pytest.mark.parametrize("width", [1, 2, 7, 64, 65, 300])
@pytest.mark.parametrize("spread", [0.01, 3.0, 200.0])
def test_losses_and_gradient_are_those_of_torch(width, spread):
    rng = np.random.default_rng(width)
    odds = (spread * rng.standard_normal((20, width))).astype(np.float32)
    allowed = rng.random((20, width)) < 0.8
    losses, gradient = compiled(odds, allowed)
    exact = torch.from_numpy(odds).double().requires_grad_()
    share = torch.from_numpy(allowed / np.maximum(allowed.sum(1, keepdims=True), 1))
    wanted = -5.0 * (share * logsigmoid(exact)).sum(-1)
    wanted.sum().backward()
    np.testing.assert_allclose(losses, wanted.detach(), rtol=2e-6, atol=1e-6)
    assert exact.grad is not None
    np.testing.assert_allclose(gradient, exact.grad, rtol=2e-5, atol=1e-7)


def test_nothing_allowed_is_no_loss():
    losses, gradient = compiled(np.full((2, 3), 4.0, np.float32), np.zeros((2, 3), dtype=bool))
    assert not losses.any()
    assert not gradient.any()


@pytest.mark.parametrize(("value", "is_finite"), [(np.inf, True), (-np.inf, False), (np.nan, False)])
def test_what_is_not_finite_shows_in_the_loss(value, is_finite):
    """Infinitely far from a negative is as it should be; infinitely near, or nowhere, is not."""
    odds = np.zeros((1, 4), np.float32)
    odds[0, 1] = value
    losses, _ = compiled(odds, np.ones((1, 4), dtype=bool))
    assert np.isfinite(losses).all() == is_finite


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    odds, allowed = rng.standard_normal((40, 30), dtype=np.float32), rng.random((40, 30)) < 0.9
    alone = compiled(odds, allowed)
    set_threads(2)
    together = compiled(odds, allowed)
    set_threads(1)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
