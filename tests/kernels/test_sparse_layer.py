"""The compiled sparse layer against scipy and torch."""

from typing import Any

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
    sparse_layer.product((x.indptr, x.indices, x.data), rows, weight, bias, out)
    np.testing.assert_allclose(out, x[rows].toarray() @ weight + bias, rtol=1e-5)


def test_product_without_bias_adds_to_what_is_there(case):
    x, rows, rng = case
    weight, out = rng.random((50, 8), dtype=np.float32), rng.random((5, 8), dtype=np.float32)
    wanted = out + x[rows].toarray() @ weight
    sparse_layer.product((x.indptr, x.indices, x.data), rows, weight, np.empty(0, np.float32), out)
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


def test_entries_by_column_are_the_transposed_rows(case):
    x, rows, _ = case
    slots = np.full(50, -1)
    touched, start, batch_row, value = sparse_layer.by_column((x.indptr, x.indices, x.data), rows, slots)
    columns = sp.csr_array((value, batch_row, start), shape=(len(touched), 5)).toarray()
    np.testing.assert_array_equal(columns, x[rows].toarray().T[touched])
    np.testing.assert_array_equal(touched, np.flatnonzero(np.abs(x[rows].toarray()).sum(0)))
    assert (slots == -1).all()


def adam(step):
    rate, damping = np.float32(0.01 / (1 - 0.9**step)), np.float32((1 - 0.999**step) ** 0.5)
    return rate, damping, np.array([0.9, 0.999], dtype=np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_adam_of_touched_rows_is_torchs(threads):
    """Columns of one to nine entries, more of them than one thread takes at a time."""
    rng = np.random.default_rng(1)
    entries = sp.random_array((9, 200), density=0.3, rng=rng, format="csr", dtype=np.float32)
    weight = rng.normal(size=(200, 5)).astype(np.float32)
    theirs = torch.nn.Parameter(torch.from_numpy(weight.copy()))
    optimizer = torch.optim.Adam([theirs], lr=0.01)
    first, second = np.zeros_like(weight), np.zeros_like(weight)
    by_column = sparse_layer.by_column
    columns: Any = by_column((entries.indptr, entries.indices, entries.data), np.arange(9), np.full(200, -1))
    untouched = np.setdiff1d(np.arange(200), columns[0])
    assert len(untouched)
    before = weight[untouched]
    set_threads(threads)
    for step in range(1, 6):
        upstream = rng.normal(size=(9, 5)).astype(np.float32)
        theirs.grad = torch.from_numpy(np.asarray(entries.T @ upstream))
        optimizer.step()
        arguments = [*columns, upstream, weight, first, second, *adam(step)]
        sparse_layer.adam_rows(*arguments)
    set_threads(1)
    np.testing.assert_allclose(weight, theirs.detach().numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(weight[untouched], before)


@pytest.mark.parametrize("hidden", [5, 16, 37])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_step_along_their_gradient_over_its_running_size(hidden, threads):
    rng = np.random.default_rng(1)
    entries = sp.random_array((9, 200), density=0.3, rng=rng, format="csr", dtype=np.float32)
    weight = rng.normal(size=(200, hidden)).astype(np.float32)
    wanted, moments = weight.astype(np.float64), np.zeros((200, 2), np.float32)
    running, touches = np.zeros(200), np.zeros(200)
    set_threads(threads)
    for step in range(1, 6):
        rows = np.arange(9)[step:]
        columns: Any = sparse_layer.by_column((entries.indptr, entries.indices, entries.data), rows, np.full(200, -1))
        upstream = rng.normal(size=(len(rows), hidden)).astype(np.float32)
        arguments = [*columns, upstream, weight, moments, 0.01, 0.999]
        sparse_layer.rmsprop_rows(*arguments)
        for row, gradient in enumerate(entries[rows].toarray().T.astype(np.float64) @ upstream):
            if row in columns[0]:
                touches[row] += 1
                running[row] = 0.999 * running[row] + 0.001 * (gradient**2).mean()
                wanted[row] -= 0.01 * gradient / np.sqrt(running[row] / (1 - 0.999 ** touches[row]))
    set_threads(1)
    assert (touches.min(), touches.max()) == (0, 5)
    np.testing.assert_allclose(weight, wanted, rtol=1e-4, atol=1e-6)


def test_adam_leaves_the_moments_of_untouched_rows_alone():
    weight, first, second = (np.ones((4, 3), dtype=np.float32) for _ in range(3))
    entry = (np.array([2]), np.array([0, 1]), np.array([0], np.int32), np.ones(1, np.float32))
    sparse_layer.adam_rows(*entry, np.ones((1, 3), np.float32), weight, first, second, *adam(1))
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
        sparse_layer.product((x.indptr, x.indices, x.data), rows, weight, bias, out)
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])
