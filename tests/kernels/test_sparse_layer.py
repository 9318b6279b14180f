"""The compiled sparse layer against scipy and torch."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glace.kernels import sparse_layer
from glace.kernels.compile import set_threads


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    x = sp.random_array((30, 50), density=0.1, rng=rng, format="csr", dtype=np.float32)
    return x, np.array([3, 7, 7, 29, 0]), rng


def test_product_equals_scipy(case):
    x, rows, rng = case
    weight, bias = rng.random((50, 8), dtype=np.float32), rng.random(8, dtype=np.float32)
    out = np.empty((5, 8), dtype=np.float32)
    sparse_layer.product(x.indptr, x.indices, x.data, rows, weight, bias, out)
    np.testing.assert_allclose(out, x[rows].toarray() @ weight + bias, rtol=1e-5)


def test_gradient_of_the_touched_rows_is_the_transposed_product(case):
    x, rows, rng = case
    upstream = rng.random((5, 8), dtype=np.float32)
    slots = np.full(50, -1)
    touched, start, batch_row, value = sparse_layer.by_column(x.indptr, x.indices, x.data, rows, slots)
    gradient = np.empty((len(touched), 8), dtype=np.float32)
    sparse_layer.touched_gradient(start, batch_row, value, upstream, gradient)
    whole = x[rows].toarray().T @ upstream
    np.testing.assert_allclose(gradient, whole[touched], rtol=1e-5)
    assert set(touched) == set(np.flatnonzero(np.abs(x[rows].toarray()).sum(0)))
    assert (slots == -1).all()


def test_adam_rows_equal_torch_when_every_row_is_touched():
    rng = np.random.default_rng(1)
    start = rng.normal(size=(6, 4)).astype(np.float32)
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = torch.optim.Adam([theirs], lr=0.01)
    ours, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, 6):
        gradient = rng.normal(size=(6, 4)).astype(np.float32)
        theirs.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        rate, damping = np.float32(0.01 / (1 - 0.9**step)), np.float32((1 - 0.999**step) ** 0.5)
        betas = np.array([0.9, 0.999], dtype=np.float32)
        sparse_layer.adam_rows(np.arange(6), gradient, ours, first, second, rate, damping, betas)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_adam_leaves_untouched_rows_alone():
    weight, first, second = (np.ones((4, 3), dtype=np.float32) for _ in range(3))
    gradient = np.ones((1, 3), dtype=np.float32)
    betas = np.array([0.9, 0.999], dtype=np.float32)
    sparse_layer.adam_rows(
        np.array([2]), gradient, weight, first, second, np.float32(0.1), np.float32(1), betas
    )
    for array in (weight, first, second):
        assert (array[[0, 1, 3]] == 1).all()
    assert (weight[2] < 1).all()


def test_results_do_not_depend_on_the_number_of_threads(case):
    x, rows, rng = case
    weight, bias = rng.random((50, 8), dtype=np.float32), np.zeros(8, dtype=np.float32)
    results = []
    for threads in (1, 2):
        set_threads(threads)
        out = np.empty((5, 8), dtype=np.float32)
        sparse_layer.product(x.indptr, x.indices, x.data, rows, weight, bias, out)
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])
