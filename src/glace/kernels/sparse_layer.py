"""The sparse input layer: rows of X times W, and Adam on the rows of W that a batch touched.

X is given as whole CSR arrays plus the numbers of the wanted rows, so that nothing is sliced or copied
and the arrays may be mapped from disk. Every output row is written by one thread, in a fixed order of
summation: results do not depend on the number of threads.
"""

from typing import Any

import numpy as np
from numba import prange

from glace.kernels.compile import compiled


@compiled
def product(indptr: Any, indices: Any, data: Any, rows: Any, weight: Any, bias: Any, out: Any) -> None:
    """out[r] = bias + X[rows[r]] W, shapes (R, H); W is (D, H)."""
    for r in prange(len(rows)):
        for h in range(out.shape[1]):
            out[r, h] = bias[h]
        begin, end = indptr[rows[r]], indptr[rows[r] + 1]
        fours = begin + (end - begin) // 4 * 4
        # Four entries at a time: the sum is read and written once for all of them.
        for p in range(begin, fours, 4):
            a, b, c, d = indices[p], indices[p + 1], indices[p + 2], indices[p + 3]
            x, y, z, w = data[p], data[p + 1], data[p + 2], data[p + 3]
            for h in range(out.shape[1]):
                out[r, h] += (x * weight[a, h] + y * weight[b, h]) + (z * weight[c, h] + w * weight[d, h])
        for p in range(fours, end):
            column, value = indices[p], data[p]
            for h in range(out.shape[1]):
                out[r, h] += value * weight[column, h]


@compiled
def by_column(indptr: Any, indices: Any, data: Any, rows: Any, slots: Any) -> Any:
    """The wanted rows of X turned into columns: (touched columns, start, batch row, value).

    Column `touched[c]` has the entries start[c] to start[c + 1], in the order of the batch. `slots` is a
    scratch array of D entries, all -1, and is left so: the cost is that of the entries, not of D.
    """
    total = 0
    for r in range(len(rows)):
        total += indptr[rows[r] + 1] - indptr[rows[r]]
    touched = np.empty(min(total, len(slots)), np.int64)
    counts = np.zeros(len(touched) + 1, np.int64)
    number = 0
    for r in range(len(rows)):
        for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
            column = indices[p]
            if slots[column] < 0:
                slots[column] = number
                touched[number] = column
                number += 1
            counts[slots[column] + 1] += 1
    start = np.cumsum(counts[: number + 1])
    place = start[:number].copy()
    batch_row = np.empty(total, np.int32)
    value = np.empty(total, np.float32)
    for r in range(len(rows)):
        for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
            slot = slots[indices[p]]
            batch_row[place[slot]] = r
            value[place[slot]] = data[p]
            place[slot] += 1
    for c in range(number):
        slots[touched[c]] = -1
    return touched[:number], start, batch_row, value


@compiled
def touched_gradient(start: Any, batch_row: Any, value: Any, upstream: Any, gradient: Any) -> None:
    """gradient[c] = sum of value * upstream over the entries of the c-th touched column; (C, H)."""
    for c in prange(len(gradient)):
        gradient[c, :] = 0.0
        fours = start[c] + (start[c + 1] - start[c]) // 4 * 4
        for p in range(start[c], fours, 4):
            # Read into locals first: indexing with batch_row[p] inside the loop keeps it from being vectorised.
            i, j, k, m = batch_row[p], batch_row[p + 1], batch_row[p + 2], batch_row[p + 3]
            x, y, z, w = value[p], value[p + 1], value[p + 2], value[p + 3]
            for h in range(gradient.shape[1]):
                gradient[c, h] += (x * upstream[i, h] + y * upstream[j, h]) + (
                    z * upstream[k, h] + w * upstream[m, h]
                )
        for p in range(fours, start[c + 1]):
            row, factor = batch_row[p], value[p]
            for h in range(gradient.shape[1]):
                gradient[c, h] += factor * upstream[row, h]


@compiled
def adam_rows(
    touched: Any, gradient: Any, weight: Any, first: Any, second: Any, rate: Any, damping: Any, betas: Any
) -> None:
    """One Adam step on the touched rows of `weight` and of both moments, in place.

    Lazy: rows that no batch entry touched keep their moments as they are. `rate` and `damping` hold the
    bias corrections: rate = lr / (1 - b1^t) and damping = sqrt(1 - b2^t).
    """
    b1, b2 = betas[0], betas[1]
    for c in prange(len(touched)):
        row = touched[c]
        for h in range(weight.shape[1]):
            g = gradient[c, h]
            m = b1 * first[row, h] + (np.float32(1.0) - b1) * g
            v = b2 * second[row, h] + (np.float32(1.0) - b2) * g * g
            first[row, h] = m
            second[row, h] = v
            weight[row, h] -= rate * m / (np.sqrt(v) / damping + np.float32(1e-8))
