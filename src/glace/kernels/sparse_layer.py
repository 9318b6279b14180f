"""The sparse input layer: rows of X times W, and an optimizer step on the rows of W that a batch touched.

X is passed as whole CSR arrays plus the indices of the wanted rows, so that nothing is sliced or copied and the arrays
may be memory-mapped. Every output row is written by one thread, in a fixed order of summation: results do not depend on
the number of threads.
"""

import numpy as np

from glace.kernels.compile import CSR, FloatArray, IntArray, by_rows, compiled, compiled_sum
from glace.kernels.prefetch import prefetch_row

SCAN_COST = 16
"""Columns that can be scanned in the time it takes to sort one."""
ENTRIES_AHEAD, COLUMNS_AHEAD = 24, 8
"""How far ahead of its use a row of W is fetched: entries of X in a product, columns in an optimizer step."""
IN_CACHE = 2**18
"""Weights that stay in a core's own cache, so that fetching them ahead would only take time."""
SMALL = 1e-8
"""Added to denominators to avoid a division by 0."""
ByColumn = tuple[IntArray, IntArray, IntArray, FloatArray]
"""Touched columns, the start of each one's entries, and the batch row and value of each entry."""


@by_rows(lambda _matrix, rows, *_: len(rows))
def product(
    matrix: CSR, rows: IntArray, weight: FloatArray, bias: FloatArray, out: FloatArray, begin: int = 0, end: int = 0
) -> None:
    """Set out[r] to bias + X[rows[r]] W, shape (R, H); W is (D, H). With an empty bias, add X[rows[r]] W to out[r]."""
    indptr, indices, data = matrix
    known = len(indices) if weight.size > IN_CACHE else 0
    for r in range(begin, end):
        for h in range(len(bias)):
            out[r, h] = bias[h]
        first, last = indptr[rows[r]], indptr[rows[r] + 1]
        fours = first + (last - first) // 4 * 4
        # Four entries at a time, so that the sum is read and written once for all of them.
        for p in range(first, fours, 4):
            for q in range(p + ENTRIES_AHEAD, min(p + ENTRIES_AHEAD + 4, known)):
                prefetch_row(weight, indices[q])
            a, b, c, d = indices[p], indices[p + 1], indices[p + 2], indices[p + 3]
            x, y, z, w = data[p], data[p + 1], data[p + 2], data[p + 3]
            for h in range(out.shape[1]):
                out[r, h] += (x * weight[a, h] + y * weight[b, h]) + (z * weight[c, h] + w * weight[d, h])
        for p in range(fours, last):
            if p + ENTRIES_AHEAD < known:
                prefetch_row(weight, indices[p + ENTRIES_AHEAD])
            column, value = indices[p], data[p]
            for h in range(out.shape[1]):
                out[r, h] += value * weight[column, h]


def by_column(matrix: CSR, rows: IntArray, slots: IntArray) -> ByColumn:
    """Transpose the wanted rows of X: (touched columns, start, batch row, value).

    Column `touched[c]` has the entries start[c] to start[c + 1], in the order of the batch. Columns are sorted, because
    updating the rows of W in the order of memory is faster by a sixth. `slots` is a scratch array of D entries, all -1
    before and after, so that the cost does not depend on D where D is large.
    """
    found = _count_entries(matrix, rows, slots)
    scan = len(slots) <= SCAN_COST * len(found)
    touched = np.flatnonzero(slots >= 0) if scan else np.sort(found)
    return (touched, *_transposed(matrix, rows, touched, slots))


@compiled
def _count_entries(matrix: CSR, rows: IntArray, slots: IntArray) -> IntArray:
    """Return the columns that occur in the wanted rows, and set their slots to the number of entries."""
    indptr, indices, _ = matrix
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
    return found[:number]


@compiled
def _transposed(
    matrix: CSR, rows: IntArray, touched: IntArray, slots: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the start, batch rows and values of the touched columns, whose slots hold their numbers of entries."""
    indptr, indices, data = matrix
    start = np.zeros(len(touched) + 1, np.int64)
    for c in range(len(touched)):
        start[c + 1] = start[c] + slots[touched[c]]
        slots[touched[c]] = start[c]
    batch_row, value = np.empty(start[-1], np.int32), np.empty(start[-1], np.float32)
    for r in range(len(rows)):
        for p in range(indptr[rows[r]], indptr[rows[r] + 1]):
            place = slots[indices[p]]
            batch_row[place], value[place] = r, data[p]
            slots[indices[p]] = place + 1
    for c in range(len(touched)):
        slots[touched[c]] = -1
    return start, batch_row, value


@by_rows(lambda touched, *_: len(touched))
def rmsprop_rows(
    touched: IntArray,
    start: IntArray,
    batch_row: IntArray,
    value: FloatArray,
    upstream: FloatArray,
    weight: FloatArray,
    running: FloatArray,
    rate: float,
    decay: float,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Take one RMSprop step on the touched rows of `weight`, in place, with one running mean of squares per row.

    running (D, 2) holds the running sum of each row's mean squared gradients, and the running sum of their weights,
    by which it is divided. The gradient of row touched[c] is the sum of value * upstream[batch_row] over its entries,
    as `by_column` returns them. It is used while it is in the cache; materialized, the gradients of all rows would
    travel to memory and back.
    """
    gradient = np.empty(weight.shape[1], np.float32)
    for c in range(begin, end):
        if c + COLUMNS_AHEAD < len(touched):
            prefetch_row(weight, touched[c + COLUMNS_AHEAD])
        _column_gradient(start[c], start[c + 1], batch_row, value, upstream, gradient)
        row = touched[c]
        running[row, 0] = decay * running[row, 0] + (1 - decay) * _mean_square(gradient)
        running[row, 1] = decay * running[row, 1] + (1 - decay)
        factor = np.float32(rate / (np.sqrt(running[row, 0] / running[row, 1]) + SMALL))
        for h in range(weight.shape[1]):
            weight[row, h] -= factor * gradient[h]


@compiled_sum
def _mean_square(values: FloatArray) -> np.float32:
    """Return the mean square of (H,) values."""
    total = np.float32(0.0)
    for h in range(len(values)):
        total += values[h] * values[h]
    return total / np.float32(len(values))


@by_rows(lambda touched, *_: len(touched))
def adam_rows(
    touched: IntArray,
    start: IntArray,
    batch_row: IntArray,
    value: FloatArray,
    upstream: FloatArray,
    weight: FloatArray,
    first: FloatArray,
    second: FloatArray,
    rate: np.float32,
    damping: np.float32,
    betas: FloatArray,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Take one lazy Adam step on the touched rows of `weight` and of both moments, in place.

    Gradients are those of `rmsprop_rows`. Rows that no batch entry touched keep their moments.
    `rate` and `damping` contain the bias corrections: rate = lr / (1 - b1^t) and damping = sqrt(1 - b2^t).
    """
    b1, b2 = betas[0], betas[1]
    c1, c2 = np.float32(1.0) - b1, np.float32(1.0) - b2
    step, small = rate * damping, np.float32(SMALL) * damping
    gradient = np.empty(weight.shape[1], np.float32)
    for c in range(begin, end):
        _column_gradient(start[c], start[c + 1], batch_row, value, upstream, gradient)
        row = touched[c]
        for h in range(weight.shape[1]):
            m = b1 * first[row, h] + c1 * gradient[h]
            v = b2 * second[row, h] + c2 * gradient[h] * gradient[h]
            first[row, h] = m
            second[row, h] = v
            weight[row, h] -= step * m / (np.sqrt(v) + small)


@compiled
def _column_gradient(
    begin: int, end: int, batch_row: IntArray, value: FloatArray, upstream: FloatArray, gradient: FloatArray
) -> None:
    """Set gradient (H,) to the sum of value * upstream over the entries from begin to end, at least one."""
    # The first one or two entries overwrite the sum, so that it need not be cleared: most columns have no more.
    p = begin + 2 - (end - begin) % 2
    i, j, x, y = batch_row[begin], batch_row[p - 1], value[begin], value[p - 1]
    if p == begin + 1:
        y = np.float32(0.0)
    for h in range(len(gradient)):
        gradient[h] = x * upstream[i, h] + y * upstream[j, h]
    for q in range(p, end, 2):
        # Read into locals first: indexing with batch_row[q] inside the loop would prevent vectorization.
        i, j, x, y = batch_row[q], batch_row[q + 1], value[q], value[q + 1]
        for h in range(len(gradient)):
            gradient[h] += x * upstream[i, h] + y * upstream[j, h]
