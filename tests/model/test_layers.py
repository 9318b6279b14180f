"""Mean and deviation of columns, in one block and in several; vectors of bounded length."""

import numpy as np
import pytest
import torch

from glace import blocks
from glace.model.layers import LENGTH, SHORT, column_moments, of_bounded_length


@pytest.mark.parametrize("shape", [(1, 1), (50, 1), (200, 7)])
def test_one_block_has_the_bits_of_numpy(shape):
    matrix = np.random.default_rng(0).normal(3, 2, shape).astype(np.float32)
    mean, deviation = column_moments(matrix)
    np.testing.assert_array_equal(mean, matrix.mean(axis=0, dtype=np.float64))
    np.testing.assert_array_equal(deviation, matrix.std(axis=0, dtype=np.float64))


def test_several_blocks_have_its_numbers(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 40)
    matrix = np.random.default_rng(0).normal(3, 2, (203, 7)).astype(np.float32)
    mean, deviation = column_moments(matrix)
    np.testing.assert_allclose(mean, matrix.mean(axis=0, dtype=np.float64), rtol=1e-14)
    np.testing.assert_allclose(deviation, matrix.std(axis=0, dtype=np.float64), rtol=1e-14)


def test_rows_keep_their_direction_and_long_ones_get_one_length():
    x = torch.from_numpy(np.random.default_rng(0).normal(0, np.array([[0.01], [1], [30]]), (3, 16)))
    bounded = of_bounded_length(x)
    short, *long = (bounded.norm(dim=1) / (LENGTH * 4)).tolist()
    assert long == pytest.approx([1, 1], rel=0.01)
    assert short == pytest.approx(x[0].norm().item() / SHORT, rel=0.05)
    torch.testing.assert_close(torch.cosine_similarity(x, bounded), torch.ones(3, dtype=x.dtype))


def test_an_empty_row_stays_empty_and_has_a_finite_gradient():
    x = torch.zeros(2, 8, requires_grad=True)
    of_bounded_length(x).sum().backward()
    assert of_bounded_length(x).abs().max() == 0
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_an_overflow_is_seen():
    assert torch.isnan(of_bounded_length(torch.full((1, 4), 1e30))).all()


def test_the_gradient_of_bounded_length_is_the_numerical_one():
    x = torch.from_numpy(np.random.default_rng(1).normal(0, 1, (5, 6))).requires_grad_()
    assert torch.autograd.gradcheck(of_bounded_length, (x,))
