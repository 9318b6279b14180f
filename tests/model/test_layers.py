"""Mean and deviation of columns, in one block and in several."""

import numpy as np
import pytest

from glace import blocks
from glace.model.layers import column_moments


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
