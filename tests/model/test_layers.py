"""Mean and deviation of columns, in one block and in several; vectors of fixed length."""

import numpy as np
import pytest
import torch

from glace import blocks
from glace.model.layers import LENGTH, column_moments, of_fixed_length


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


def test_rows_keep_their_direction_and_get_one_length():
    x = torch.from_numpy(np.random.default_rng(0).normal(0, np.array([[0.1], [1], [30]]), (3, 16)))
    scaled = of_fixed_length(x)
    torch.testing.assert_close(scaled.norm(dim=1), torch.full((3,), LENGTH * 4, dtype=x.dtype), rtol=1e-4, atol=0)
    torch.testing.assert_close(torch.cosine_similarity(x, scaled), torch.ones(3, dtype=x.dtype))


def test_an_empty_row_stays_empty_and_has_a_finite_gradient():
    x = torch.zeros(2, 8, requires_grad=True)
    of_fixed_length(x).sum().backward()
    assert of_fixed_length(x).abs().max() == 0
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_the_gradient_of_fixed_length_is_the_numerical_one():
    x = torch.from_numpy(np.random.default_rng(1).normal(0, 1, (5, 6))).requires_grad_()
    assert torch.autograd.gradcheck(of_fixed_length, (x,))
