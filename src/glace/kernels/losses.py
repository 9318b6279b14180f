"""The loss of the negatives and its gradient, in one pass over memory."""

import numpy as np
from numba import prange

from glace.kernels.compile import BoolArray, FloatArray, IntArray, compiled

BLOCK = 16
"""Rows that one thread processes at a time; it allocates its buffers once for all of them."""
MOST_FACTORS = 64
"""Factors up to 2 that are multiplied before the logarithm is taken: float32 holds 2^127."""
LOG2_E, SMALLEST = np.float32(1.4426950408889634), np.float32(-126.0)
# Taylor coefficients of 2^f, ln(2)^k / k!; for |f| up to 1/2 the relative error is below 2e-7.
C1, C2, C3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
C4, C5, C6 = (np.float32(0.009618129107628477), np.float32(0.0013333558146428), np.float32(0.000154035303933816))
ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)


@compiled
def log_sigmoids(logit: FloatArray, allowed: BoolArray, scale: np.float32, losses: FloatArray) -> None:
    """Set losses[m, b] to -scale * mean of log sigmoid(logit[m, b, k]) over the k that are allowed[b, k].

    `logit` is (members, B, M) and is overwritten by the gradient of the losses; a row without an allowed entry has loss
    and gradient 0. Logarithms are taken of products, and exponentials are computed by a polynomial: with one library
    call per term, this would be a third of a training step.
    """
    members, rows, width = logit.shape
    for block in prange((members * rows + BLOCK - 1) // BLOCK):
        power, product, total = (np.empty(width, np.int32), np.empty(width, np.float32), np.empty(width, np.float32))
        scaled = power.view(np.float32)
        for r in range(block * BLOCK, min(block * BLOCK + BLOCK, members * rows)):
            m, b = r // rows, r % rows
            count = 0
            for k in range(width):
                count += allowed[b, k]
            factor = scale / np.float32(max(count, 1))
            _exponentials(logit[m, b], power, product)
            for k in range(width):
                x, e = logit[m, b, k], product[k] * scaled[k]
                positive = x >= ZERO
                product[k] = ONE + e if allowed[b, k] else ONE
                total[k] = (ZERO if positive else x) if allowed[b, k] else ZERO
                # d(-log sigmoid(x)) = -sigmoid(-x)
                logit[m, b, k] = -factor * (e if positive else ONE) / (ONE + e) if allowed[b, k] else ZERO
            losses[m, b] = factor * (_log_of_product(product) - _sum(total))


@compiled
def _exponentials(x: FloatArray, power: IntArray, rest: FloatArray) -> None:
    """Factor exp(-|x|) into `rest` and the float32 whose bits are `power`; all are (M,)."""
    for k in range(len(x)):
        z = max(-abs(x[k]) * LOG2_E, SMALLEST)
        whole = np.floor(z + HALF)
        f = z - whole
        power[k] = (np.int32(whole) + np.int32(127)) << np.int32(23)
        rest[k] = ONE + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))


@compiled
def _log_of_product(factors: FloatArray) -> np.float32:
    """Return the sum of the logarithms of numbers from 1 to 2, which are overwritten: halves are multiplied."""
    length, depth = len(factors), 1
    while depth < MOST_FACTORS and length > 1:
        half = (length + 1) // 2
        for k in range(length - half):
            factors[k] *= factors[k + half]
        length, depth = half, 2 * depth
    total = np.float32(0.0)
    for k in range(length):
        total += np.log(factors[k])
    return total


@compiled
def _sum(values: FloatArray) -> np.float32:
    """Return the sum of numbers, which are overwritten: adding halves is faster and loses fewer digits."""
    length = len(values)
    while length > 1:
        half = (length + 1) // 2
        for k in range(length - half):
            values[k] += values[k + half]
        length = half
    return np.float32(values[0])
