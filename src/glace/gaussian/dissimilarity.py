"""Dissimilarities of diagonal Gaussians, written once for numpy arrays and torch tensors.

Each measure has two forms. `direct` compares matching rows and is accurate even for nearly equal and for
very narrow Gaussians. `left` and `right` write the measure as a dot product,

    d(i, j) = <left(i), right(j)> + left_bias(i) + right_bias(j),

so that all pairs of two blocks are one matrix product. That form subtracts large terms from each
other, and its error is about the machine epsilon times sum((mean^2 + variance) / variance), see
docs/concepts.md for figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from glace.errors import InputError

Array = Any
"""A numpy array or a torch tensor; the formulas use only operations of both."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Rows of diagonal Gaussians: `mean` and `variance` of shape (..., L); points have no variance."""

    mean: Array
    variance: Array | None

    def __getitem__(self, rows: Any) -> "Gaussian":
        return Gaussian(self.mean[rows], None if self.variance is None else self.variance[rows])


def wide(gaussian: Gaussian) -> Gaussian:
    """The same Gaussians in float64."""
    variance = None if gaussian.variance is None else np.asarray(gaussian.variance, dtype=np.float64)
    return Gaussian(np.asarray(gaussian.mean, dtype=np.float64), variance)


@dataclass(frozen=True, slots=True)
class Roles:
    """The same nodes as source and as target of an edge: d(i, j) = scale * direct(source[i], target[j])."""

    source: Gaussian
    target: Gaussian
    scale: float = 1.0


class Factor(NamedTuple):
    """One side of the dot-product form: `vector` (n, F) and `bias` (n,)."""

    vector: Array
    bias: Array


@dataclass(frozen=True)
class Dissimilarity:
    """One measure in its two forms; i is the first argument, the source of a directed edge."""

    name: str
    direct: Callable[[Gaussian, Gaussian], Array]
    left: Callable[[Gaussian], Factor]
    right: Callable[[Gaussian], Factor]
    symmetric: bool = True
    needs_variance: bool = True

    def all_pairs(self, first: Gaussian, second: Gaussian) -> Array:
        """(..., n, m) dissimilarities of every row of `first` to every row of `second`."""
        return products(self.left(first), self.right(second))


def products(left: Factor, right: Factor) -> Array:
    """(..., n, m): the dot-product form for every row of `left` with every row of `right`."""
    library = _library(left.vector)
    # The biases are columns of the product: adding them afterwards would pass through memory twice more.
    biases = [left.bias[..., None], right.bias[..., None]]
    one = [library.ones_like(bias) for bias in biases]
    rows = library.concatenate([left.vector, biases[0], one[0]], -1)
    columns = library.concatenate([right.vector, one[1], biases[1]], -1)
    return rows @ columns.swapaxes(-1, -2)


def roles(measure: Dissimilarity, own: Gaussian, context: Gaussian | None) -> Roles:
    """The Gaussians that stand for nodes as source and as target of an edge.

    Second-order training compares a node with the context of the other, so edges are scored that way too; for a
    symmetric measure by the mean of both directions. Measures are sums over dimensions, so this mean is half of the
    measure of the concatenated Gaussians.
    """
    if context is None:
        return Roles(own, own)
    if not measure.symmetric:
        return Roles(own, context)
    return Roles(concatenated([own, context]), concatenated([context, own]), 0.5)


def concatenated(parts: Sequence[Gaussian], axis: int = -1) -> Gaussian:
    """Gaussians with all dimensions of the parts, or, for axis 0, with the rows of all parts."""
    if len(parts) == 1:
        return parts[0]
    library = _library(parts[0].mean)
    means, variances = [part.mean for part in parts], [part.variance for part in parts]
    variance = None if variances[0] is None else library.concatenate(variances, axis)
    return Gaussian(library.concatenate(means, axis), variance)


def named(name: str) -> Dissimilarity:
    """The measure of this name."""
    if name not in MEASURES:
        raise InputError(f"unknown dissimilarity {name!r}; known: {', '.join(MEASURES)}")
    return MEASURES[name]


def _library(array: Array) -> Any:
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def _variance(gaussian: Gaussian) -> Array:
    assert gaussian.variance is not None, "points have no variance; use dot"
    return gaussian.variance


def _log_excess(narrow: Array, wide: Array) -> Array:
    """t - log(1 + t) with 1 + t = narrow / wide, accurate for ratios close to 1, to 0 and to infinity."""
    library = _library(narrow)
    t = (narrow - wide) / wide
    s = t.clip(-0.01, 0.01)  # the values that `where` does not use must not overflow either
    series = s * s * (0.5 - s * (1 / 3 - s * (0.25 - s * (0.2 - s / 6))))
    # Below 0.01, the first omitted term of the series is under 1e-10 of the sum; above, at most 2.5 digits are lost.
    small = abs(t) < 0.01
    # log1p is accurate for ratios close to 1, log for ratios close to 0, where t is rounded to -1.
    log_ratio = library.where(t < -0.5, library.log(narrow / wide), library.log1p(t.clip(-0.9)))
    return library.where(small, series, t - log_ratio)


def _kl(first: Gaussian, second: Gaussian) -> Array:
    """KL(second || first), the paper's d(z_i, z_j) for a directed edge from i to j."""
    wide, narrow = _variance(first), _variance(second)
    gap = second.mean - first.mean
    return 0.5 * (gap * gap / wide + _log_excess(narrow, wide)).sum(-1)


def _kl_left(first: Gaussian) -> Factor:
    library, precision = _library(first.mean), 1 / _variance(first)
    vector = library.concatenate([0.5 * precision, -first.mean * precision], -1)
    return Factor(vector, 0.5 * (first.mean**2 * precision - library.log(precision) - 1).sum(-1))


def _kl_right(second: Gaussian) -> Factor:
    library, variance = _library(second.mean), _variance(second)
    vector = library.concatenate([variance + second.mean**2, second.mean], -1)
    return Factor(vector, -0.5 * library.log(variance).sum(-1))


def _symmetric_kl(first: Gaussian, second: Gaussian) -> Array:
    """Mean of both directions, Eq. 4: 1/4 sum[(gap^2 (v_i + v_j) + (v_i - v_j)^2) / (v_i v_j)]; logarithms cancel."""
    v, w = _variance(first), _variance(second)
    gap, spread = first.mean - second.mean, v - w
    return 0.25 * ((gap * gap * (v + w) + spread * spread) / (v * w)).sum(-1)


def _symmetric_kl_left(first: Gaussian) -> Factor:
    library, precision = _library(first.mean), 1 / _variance(first)
    moment = _variance(first) + first.mean**2
    parts = [0.25 * precision, 0.25 * moment, -0.5 * first.mean * precision, -0.5 * first.mean]
    return Factor(library.concatenate(parts, -1), 0.25 * (first.mean**2 * precision - 1).sum(-1))


def _symmetric_kl_right(second: Gaussian) -> Factor:
    library, precision = _library(second.mean), 1 / _variance(second)
    moment = _variance(second) + second.mean**2
    parts = [moment, precision, second.mean, second.mean * precision]
    return Factor(library.concatenate(parts, -1), 0.25 * (second.mean**2 * precision - 1).sum(-1))


def _wasserstein2(first: Gaussian, second: Gaussian) -> Array:
    """Squared 2-Wasserstein distance; for diagonal covariances, the squared distance of (mean, deviation)."""
    gap = first.mean - second.mean
    deviation = _variance(first) ** 0.5, _variance(second) ** 0.5
    # The difference of two roots, computed from the difference of the variances, is accurate for similar variances.
    spread = (_variance(first) - _variance(second)) / (deviation[0] + deviation[1])
    return (gap * gap + spread * spread).sum(-1)


def _wasserstein_side(scale: float, gaussian: Gaussian) -> Factor:
    library, variance = _library(gaussian.mean), _variance(gaussian)
    vector = library.concatenate([gaussian.mean, variance**0.5], -1)
    return Factor(scale * vector, (gaussian.mean**2 + variance).sum(-1))


def _expected(first: Gaussian, second: Gaussian) -> Array:
    """Expected squared distance of a draw from each: width adds to the distance, also to a node's own."""
    gap = first.mean - second.mean
    return (gap * gap + _variance(first) + _variance(second)).sum(-1)


def _expected_side(scale: float, gaussian: Gaussian) -> Factor:
    return Factor(scale * gaussian.mean, (gaussian.mean**2 + _variance(gaussian)).sum(-1))


def _dot(first: Gaussian, second: Gaussian) -> Array:
    return -(first.mean * second.mean).sum(-1)


def _dot_side(scale: float, gaussian: Gaussian) -> Factor:
    return Factor(scale * gaussian.mean, 0.0 * gaussian.mean[..., 0])


MEASURES = {
    measure.name: measure
    for measure in (
        Dissimilarity("kl", _kl, _kl_left, _kl_right, symmetric=False),
        Dissimilarity("symmetric_kl", _symmetric_kl, _symmetric_kl_left, _symmetric_kl_right),
        Dissimilarity("wasserstein2", _wasserstein2, partial(_wasserstein_side, 1.0), partial(_wasserstein_side, -2.0)),
        Dissimilarity("expected", _expected, partial(_expected_side, 1.0), partial(_expected_side, -2.0)),
        Dissimilarity("dot", _dot, partial(_dot_side, 1.0), partial(_dot_side, -1.0), needs_variance=False),
    )
}
"""All measures by name: `kl` for directed graphs, `symmetric_kl` for undirected graphs, `dot` for points."""
