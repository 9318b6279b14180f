"""The sparse input layer: rows of X times W, and a step of training on the rows of W that a batch touched.

X is given as whole CSR arrays plus the numbers of the wanted rows, so that nothing is sliced or copied
and the arrays may be mapped from disk. Every output row is written by one thread, in a fixed order of
summation: results do not depend on the number of threads.
"""

from typing import Any

import numpy as np
from numba import prange

from glace.kernels.compile import compiled

BLOCK = 64
"""Rows of W updated by one thread at a time: the room for their gradient is made once for all of them."""
LANES = 16
SWEPT = 16
"""Columns that are passed by in the time that one is sorted in."""
SMALL = 1e-8
"""Keeps a division from being one by 0."""


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

    Column `touched[c]` has the entries start[c] to start[c + 1], in the order of the batch. Columns are sorted: who
    goes through rows of W in the order they lie in memory is faster by a sixth. `slots` is a scratch array of D
    entries, all -1, and is left so: where D is large, the cost is that of the entries.
    """
    total = 0
    for r in range(len(rows)):
        total += indptr[rows[r] + 1] - indptr[rows[r]]
    found = np.empty(min(total, len(slots)), np.int64)
    number = 0
    for r in range(len(rows)):
        for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
            column = indices[p]
            if slots[column] < 0:
                slots[column] = 0
                found[number] = column
                number += 1
            slots[column] += 1
    touched = _sorted(found[:number], slots)
    start = np.zeros(number + 1, np.int64)
    for c in range(number):
        start[c + 1] = start[c] + slots[touched[c]]
        slots[touched[c]] = start[c]
    batch_row, value = np.empty(total, np.int32), np.empty(total, np.float32)
    for r in range(len(rows)):
        for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
            place = slots[indices[p]]
            batch_row[place], value[place] = r, data[p]
            slots[indices[p]] = place + 1
    for c in range(number):
        slots[touched[c]] = -1
    return touched, start, batch_row, value


@compiled
def _sorted(found: Any, slots: Any) -> Any:
    """The found columns, those whose slot is not negative, in order."""
    if len(slots) > SWEPT * len(found):
        return np.sort(found)
    place = 0
    for column in range(len(slots)):
        if slots[column] >= 0:
            found[place] = column
            place += 1
    return found


@compiled
def rmsprop_rows(
    touched: Any,
    start: Any,
    batch_row: Any,
    value: Any,
    upstream: Any,
    weight: Any,
    squares: Any,
    touches: Any,
    rate: Any,
    decay: Any,
) -> None:
    """One step on the touched rows of `weight`, in place: each along its gradient over the size of those so far.

    squares (D,) is the running mean of the gradients' mean square, a number a row, and touches (D,) counts what it is
    made of, so that a row's first step is as long as any. The gradient of row touched[c] is the sum of
    value * upstream[batch_row] over its entries, as `by_column` gives them. It is used while it is in the cache:
    written out, the gradients of all rows would take the way to memory twice.
    """
    for block in prange((len(touched) + BLOCK - 1) // BLOCK):
        gradient, parts = np.empty(weight.shape[1], np.float32), np.empty(LANES, np.float32)
        for c in range(block * BLOCK, min(block * BLOCK + BLOCK, len(touched))):
            _column_gradient(start[c], start[c + 1], batch_row, value, upstream, gradient)
            row = touched[c]
            touches[row] += 1
            squares[row] = decay * squares[row] + (1 - decay) * _mean_square(gradient, parts)
            size = np.sqrt(squares[row] / (1 - decay ** touches[row]))
            factor = np.float32(rate / (size + SMALL))
            for h in range(weight.shape[1]):
                weight[row, h] -= factor * gradient[h]


@compiled
def _mean_square(values: Any, parts: Any) -> Any:
    """Of (H,) values; `parts` is room for the sums of every `LANES`-th, which the processor adds up at once."""
    parts[:] = 0
    whole = len(values) // LANES * LANES
    for begin in range(0, whole, LANES):
        for lane in range(LANES):
            parts[lane] += values[begin + lane] * values[begin + lane]
    total = 0.0
    for lane in range(LANES):
        total += parts[lane]
    for h in range(whole, len(values)):
        total += values[h] * values[h]
    return total / len(values)


@compiled
def adam_rows(
    touched: Any,
    start: Any,
    batch_row: Any,
    value: Any,
    upstream: Any,
    weight: Any,
    first: Any,
    second: Any,
    rate: Any,
    damping: Any,
    betas: Any,
) -> None:
    """One Adam step on the touched rows of `weight` and of both moments, in place.

    Gradients are those of `rmsprop_rows`. Lazy: rows that no batch entry touched keep their moments as they are.
    `rate` and `damping` hold the bias corrections: rate = lr / (1 - b1^t) and damping = sqrt(1 - b2^t).
    """
    b1, b2 = betas[0], betas[1]
    c1, c2 = np.float32(1.0) - b1, np.float32(1.0) - b2
    step, small = rate * damping, np.float32(SMALL) * damping
    for block in prange((len(touched) + BLOCK - 1) // BLOCK):
        gradient = np.empty(weight.shape[1], np.float32)
        for c in range(block * BLOCK, min(block * BLOCK + BLOCK, len(touched))):
            _column_gradient(start[c], start[c + 1], batch_row, value, upstream, gradient)
            row = touched[c]
            for h in range(weight.shape[1]):
                m = b1 * first[row, h] + c1 * gradient[h]
                v = b2 * second[row, h] + c2 * gradient[h] * gradient[h]
                first[row, h] = m
                second[row, h] = v
                weight[row, h] -= step * m / (np.sqrt(v) + small)


@compiled
def _column_gradient(begin: Any, end: Any, batch_row: Any, value: Any, upstream: Any, gradient: Any) -> None:
    """gradient (H,) = sum of value * upstream over the entries from begin to end, at least one."""
    # The first one or two set the sum, so that it need not be cleared: most columns have no more.
    p = begin + 2 - (end - begin) % 2
    i, j, x, y = batch_row[begin], batch_row[p - 1], value[begin], value[p - 1]
    if p == begin + 1:
        y = np.float32(0.0)
    for h in range(len(gradient)):
        gradient[h] = x * upstream[i, h] + y * upstream[j, h]
    for q in range(p, end, 2):
        # Read into locals first: indexing with batch_row[q] inside the loop keeps it from being vectorised.
        i, j, x, y = batch_row[q], batch_row[q + 1], value[q], value[q + 1]
        for h in range(len(gradient)):
            gradient[h] += x * upstream[i, h] + y * upstream[j, h]
