"""The loss of edges and negatives, and its gradient.

Gaussians come from the outputs of a head; negatives are compared by the dot-product form of the dissimilarity, as a
matrix product between the kernels. `symmetric` chooses between the symmetric KL and KL. The formulas are those of
`glace.gaussian.dissimilarity`, written with their gradients, row by row: a batch passes through memory once, and not
once per term.
"""

import numpy as np

from glace.kernels.compile import BoolArray, FloatArray, IntArray, by_rows, compiled

MOST_FACTORS = 64
"""Factors up to 2 that are multiplied before the logarithm is taken: float32 holds 2^127."""
LOG2_E, SMALLEST = np.float32(1.4426950408889634), np.float32(-126.0)
# Taylor coefficients of 2^f, ln(2)^k / k!; for |f| up to 1/2 the relative error is below 2e-7.
C1, C2, C3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
C4, C5, C6 = (np.float32(0.009618129107628477), np.float32(0.0013333558146428), np.float32(0.000154035303933816))
ZERO, QUARTER, HALF, ONE = np.float32(0.0), np.float32(0.25), np.float32(0.5), np.float32(1.0)


@by_rows(lambda logit, *_: len(logit), least=256)
def log_sigmoids(
    logit: FloatArray, allowed: BoolArray, scale: np.float32, losses: FloatArray, begin: int = 0, end: int = 0
) -> None:
    """Set losses[b] to -scale * mean of log sigmoid(logit[b, k]) over the k that are allowed[b, k].

    `logit` is (B, M) and is overwritten by the gradient of the losses; a row without an allowed entry has loss
    and gradient 0. Logarithms are taken of products, and exponentials are computed by a polynomial: with one library
    call per term, this would be a third of a training step.
    """
    width = logit.shape[1]
    power, product, total = np.empty(width, np.int32), np.empty(width, np.float32), np.empty(width, np.float32)
    scaled = power.view(np.float32)
    for b in range(begin, end):
        count = 0
        for k in range(width):
            count += allowed[b, k]
        factor = scale / np.float32(max(count, 1))
        _exponentials(logit[b], power, product)
        for k in range(width):
            x, e = logit[b, k], product[k] * scaled[k]
            positive = x >= ZERO
            product[k] = ONE + e if allowed[b, k] else ONE
            total[k] = (ZERO if positive else x) if allowed[b, k] else ZERO
            # d(-log sigmoid(x)) = -sigmoid(-x)
            logit[b, k] = -factor * (e if positive else ONE) / (ONE + e) if allowed[b, k] else ZERO
        losses[b] = factor * (_log_of_product(product) - _sum(total))


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


@compiled
def gaussians(raw: FloatArray, floor: np.float32, mean: FloatArray, variance: FloatArray) -> None:
    """Set mean (R, L) to the first L columns of raw (R, 2 L), and variance to ELU + 1 + floor of the others."""
    size = mean.shape[1]
    power, rest = np.empty(size, np.int32), np.empty(size, np.float32)
    scaled = power.view(np.float32)
    for r in range(len(raw)):
        # exp(-|x|), which is exp(x) where it is used; the compiler vectorizes it, but not np.exp.
        _exponentials(raw[r, size:], power, rest)
        for k in range(size):
            x = raw[r, size + k]
            mean[r, k] = raw[r, k]
            variance[r, k] = (x + ONE if x > ZERO else rest[k] * scaled[k]) + floor


@compiled
def raw_gradient(
    raw: FloatArray, floor: np.float32, variance: FloatArray, of_mean: FloatArray, of_variance: FloatArray
) -> FloatArray:
    """Return the gradient (R, 2 L) of raw from those of mean and variance."""
    size, found = of_mean.shape[1], np.empty(raw.shape, np.float32)
    for r in range(len(raw)):
        for k in range(size):
            found[r, k] = of_mean[r, k]
            # The derivative of ELU is 1 above 0 and exp(x) below, which is the variance without its floor.
            slope = ONE if raw[r, size + k] > 0 else variance[r, k] - floor
            found[r, size + k] = of_variance[r, k] * slope
    return found


@compiled
def left(mean: FloatArray, variance: FloatArray, rows: IntArray, offset: np.float32, symmetric: bool) -> FloatArray:
    """Return the left factors (B, F + 2) of these rows, so that left @ right.T is d - offset."""
    size = mean.shape[1]
    width = (4 if symmetric else 2) * size
    out = np.empty((len(rows), width + 2), np.float32)
    for b in range(len(rows)):
        total = np.float32(0.0)
        for k in range(size):
            m, v = mean[rows[b], k], variance[rows[b], k]
            p = ONE / v
            if symmetric:
                out[b, k], out[b, size + k] = QUARTER * p, QUARTER * (v + m * m)
                out[b, 2 * size + k], out[b, 3 * size + k] = -HALF * m * p, -HALF * m
                total += QUARTER * (m * m * p - ONE)
            else:
                out[b, k], out[b, size + k] = HALF * p, -m * p
                total += HALF * (m * m * p + np.log(v) - ONE)
        out[b, width], out[b, width + 1] = total - offset, ONE
    return out


@compiled
def right(mean: FloatArray, variance: FloatArray, rows: IntArray, symmetric: bool) -> FloatArray:
    """Return the right factors (M, F + 2) of these rows."""
    size = mean.shape[1]
    width = (4 if symmetric else 2) * size
    out = np.empty((len(rows), width + 2), np.float32)
    for b in range(len(rows)):
        total = np.float32(0.0)
        for k in range(size):
            m, v = mean[rows[b], k], variance[rows[b], k]
            if symmetric:
                p = ONE / v
                out[b, k], out[b, size + k] = v + m * m, p
                out[b, 2 * size + k], out[b, 3 * size + k] = m, m * p
                total += QUARTER * (m * m * p - ONE)
            else:
                out[b, k], out[b, size + k] = v + m * m, m
                total -= HALF * np.log(v)
        out[b, width], out[b, width + 1] = ONE, total
    return out


@compiled
def add_left_gradient(
    mean: FloatArray,
    variance: FloatArray,
    rows: IntArray,
    upstream: FloatArray,
    symmetric: bool,
    of_mean: FloatArray,
    of_variance: FloatArray,
) -> None:
    """Add the gradient of `left` to those of mean and variance (R, L), given that of the factors (B, F + 2)."""
    size = mean.shape[1]
    width = upstream.shape[1] - 2
    for b in range(len(rows)):
        row, g = rows[b], upstream[b, width]
        for k in range(size):
            m, p = mean[row, k], ONE / variance[row, k]
            g1, g2 = upstream[b, k], upstream[b, size + k]
            if symmetric:
                g3, g4 = upstream[b, 2 * size + k], upstream[b, 3 * size + k]
                of_mean[row, k] += HALF * (g2 * m - g3 * p - g4 + g * m * p)
                of_variance[row, k] += QUARTER * (g2 - p * p * (g1 - (m + m) * g3 + g * m * m))
            else:
                of_mean[row, k] += p * (g * m - g2)
                of_variance[row, k] += HALF * p * (g + p * ((m + m) * g2 - g1 - g * m * m))


@compiled
def add_right_gradient(
    mean: FloatArray,
    variance: FloatArray,
    rows: IntArray,
    upstream: FloatArray,
    symmetric: bool,
    of_mean: FloatArray,
    of_variance: FloatArray,
) -> None:
    """Add the gradient of `right` to those of mean and variance (R, L), given that of the factors (M, F + 2)."""
    size = mean.shape[1]
    width = upstream.shape[1] - 2
    for b in range(len(rows)):
        row, g = rows[b], upstream[b, width + 1]
        for k in range(size):
            m, p = mean[row, k], ONE / variance[row, k]
            g1, g2 = upstream[b, k], upstream[b, size + k]
            if symmetric:
                g3, g4 = upstream[b, 2 * size + k], upstream[b, 3 * size + k]
                of_mean[row, k] += (m + m) * g1 + g3 + p * (g4 + HALF * g * m)
                of_variance[row, k] += g1 - p * p * (g2 + g4 * m + QUARTER * g * m * m)
            else:
                of_mean[row, k] += (m + m) * g1 + g2
                of_variance[row, k] += g1 - HALF * g * p


@compiled
def edges(
    mean: FloatArray,
    variance: FloatArray,
    anchors: IntArray,
    targets: IntArray,
    offset: float,
    symmetric: bool,
    of_mean: FloatArray,
    of_variance: FloatArray,
) -> tuple[float, float]:
    """Return the mean of -log sigmoid(offset - d) over edges and the gradient of the offset; add those of the rows.

    d is computed from differences, which is accurate for close Gaussians too.
    """
    size, loss, of_offset = mean.shape[1], 0.0, 0.0
    share = 1.0 / len(anchors)
    for b in range(len(anchors)):
        i, j = anchors[b], targets[b]
        total = np.float32(0.0)
        for k in range(size):
            v, w, gap = variance[i, k], variance[j, k], mean[j, k] - mean[i, k]
            if symmetric:
                total += QUARTER * (gap * gap * (v + w) + (v - w) * (v - w)) / (v * w)
            else:
                total += HALF * (gap * gap / v + w / v - ONE - np.log(w / v))
        logit = offset - total
        chance = 1.0 / (1.0 + np.exp(logit))
        loss += share * (np.log1p(np.exp(-abs(logit))) + max(-logit, 0.0))
        of_offset -= share * chance
        g = np.float32(share * chance)
        for k in range(size):
            p, q = ONE / variance[i, k], ONE / variance[j, k]
            gap = mean[j, k] - mean[i, k]
            if symmetric:
                pull = HALF * g * gap * (p + q)
                of_variance[i, k] += QUARTER * g * (q - p * p * (gap * gap + variance[j, k]))
                of_variance[j, k] += QUARTER * g * (p - q * q * (gap * gap + variance[i, k]))
            else:
                pull = g * gap * p
                of_variance[i, k] += HALF * g * p * (ONE - p * (gap * gap + variance[j, k]))
                of_variance[j, k] += HALF * g * (p - q)
            of_mean[j, k] += pull
            of_mean[i, k] -= pull
    return loss, of_offset
