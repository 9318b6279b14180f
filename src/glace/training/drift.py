"""A penalty for nodes that move away from the Gaussians they had before an update."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glace.gaussian.dissimilarity import Gaussian, named
from glace.model.network import Network

Penalty = Callable[[str, Gaussian], Tensor]
"""The penalty of a batch's anchors, given a proximity and their Gaussians (B, dim) in it."""


class DriftPenalty:
    """`weight` times the drift of nodes: KL(now || before), or the squared distance of points.

    `rows` (n,) holds for each node its row in `before`, or -1 if it is new.
    """

    def __init__(self, network: Network, before: Gaussian, rows: npt.NDArray[np.int64], weight: float) -> None:
        self.before, self.rows, self.weight = before, rows, weight
        self.device, dim = network.device, network.config.dim
        # The dimensions of several proximities are side by side.
        self.dims = {proximity: slice(at * dim, (at + 1) * dim) for at, proximity in enumerate(network.proximities)}

    def of(self, anchors: npt.NDArray[np.int64]) -> Penalty:
        """Return the mean penalty of a batch over the anchors that are not new."""
        rows = self.rows[anchors]
        positions = torch.from_numpy(np.flatnonzero(rows >= 0)).to(self.device)
        before = self.before[rows[rows >= 0]]

        def penalty(proximity: str, now: Gaussian) -> Tensor:
            if not len(positions):
                return torch.zeros((), device=self.device)
            total: Tensor = self.weight * drift(self._tensors(before, proximity), now[positions]).mean()
            return total

        return penalty

    def _tensors(self, gaussian: Gaussian, proximity: str) -> Gaussian:
        dims = self.dims[proximity]
        tensors = (
            None if each is None else torch.from_numpy(np.ascontiguousarray(each[:, dims])).to(self.device)
            for each in (gaussian.mean, gaussian.variance)
        )
        return Gaussian(*tensors)


def drift(before: Gaussian, now: Gaussian) -> Any:
    """Return (n,) how far each node moved, for numpy arrays and torch tensors."""
    if before.variance is None:
        gap = now.mean - before.mean
        return (gap * gap).sum(-1)
    return named("kl").direct(before, now)
