"""The part of the loss that has most terms, and its gradient, in one round through memory."""

from typing import Any

import numpy as np
from numba import prange

from glace.kernels.compile import compiled

BLOCK = 16
"""Rows done by one thread at a time: room for what is made on the way is found once for all of them."""
MOST_FACTORS = 64
"""Numbers up to 2 that are multiplied before their logarithm is taken: float32 holds 2^127."""
LOG2_E, SMALLEST = np.float32(1.4426950408889634), np.float32(-126.0)
# Taylor's coefficients of 2^f, ln(2)^k / k!; for |f| up to 1/2 the error is below 2e-7 of the value.
C1, C2, C3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
C4, C5, C6 = (
    np.float32(0.009618129107628477),
    np.float32(0.0013333558146428),
    np.float32(0.000154035303933816),
)
ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)


@compiled
def log_sigmoids(odds: Any, allowed: Any, scale: Any, losses: Any) -> None:
    """losses[m, b] = -scale * mean of log sigmoid(odds[m, b, k]) over the k that are allowed[b, k].

    `odds` is (members, B, M) and gets the gradient of the losses in place of its values; a row without
    anything allowed has loss and gradient 0. Logarithms are taken of products and exponentials by a polynomial: with
    one library call for each of the terms, this would be a third of a step of training.
    """
    members, rows, width = odds.shape
    for block in prange((members * rows + BLOCK - 1) // BLOCK):
        power, product, total = (
            np.empty(width, np.int32),
            np.empty(width, np.float32),
            np.empty(width, np.float32),
        )
        scaled = power.view(np.float32)
        for r in range(block * BLOCK, min(block * BLOCK + BLOCK, members * rows)):
            m, b = r // rows, r % rows
            count = 0
            for k in range(width):
                count += allowed[b, k]
            factor = scale / np.float32(max(count, 1))
            _exponentials(odds[m, b], power, product)
            for k in range(width):
                x, e = odds[m, b, k], product[k] * scaled[k]
                far = x >= ZERO
                product[k] = ONE + e if allowed[b, k] else ONE
                total[k] = (ZERO if far else x) if allowed[b, k] else ZERO
                # d(-log sigmoid(x)) = -sigmoid(-x)
                odds[m, b, k] = -factor * (e if far else ONE) / (ONE + e) if allowed[b, k] else ZERO
            losses[m, b] = factor * (_log_of_product(product) - _sum(total))


@compiled
def _exponentials(x: Any, power: Any, rest: Any) -> None:
    """exp(-|x|) = rest * the float32 whose bits are `power`; all are (M,)."""
    for k in range(len(x)):
        z = max(-abs(x[k]) * LOG2_E, SMALLEST)
        whole = np.floor(z + HALF)
        f = z - whole
        power[k] = (np.int32(whole) + np.int32(127)) << np.int32(23)
        rest[k] = ONE + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))


@compiled
def _log_of_product(factors: Any) -> Any:
    """Sum of the logarithms of numbers from 1 to 2, which are overwritten: halves are multiplied, not one by one."""
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
def _sum(values: Any) -> Any:
    """The sum of numbers, which are overwritten: halves are added, which is faster and loses fewer digits."""
    length = len(values)
    while length > 1:
        half = (length + 1) // 2
        for k in range(length - half):
            values[k] += values[k + half]
        length = half
    return values[0]
