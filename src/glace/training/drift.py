"""A penalty that keeps nodes near the Gaussians they had before."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glace.gaussian.dissimilarity import Gaussian, named
from glace.model.network import Network

Penalty = Callable[[str, Gaussian], Tensor]
"""What the anchors of a batch pay, for one proximity and their Gaussians (B, dim) in it."""


class DriftPenalty:
    """`weight` times how far nodes are from where they were: KL(now || before), of points the squared distance.

    `before` are the Gaussians of before, and `places` (n,) which of them is that of a node; -1 if it had none.
    """

    def __init__(self, network: Network, before: Gaussian, places: npt.NDArray[np.int64], weight: float) -> None:
        self.before, self.places, self.weight = before, places, weight
        self.device, dim = network.device, network.config.dim
        # The parts of several proximities stand side by side.
        self.dims = {part: slice(at * dim, (at + 1) * dim) for at, part in enumerate(network.parts)}

    def of(self, anchors: npt.NDArray[np.int64]) -> Penalty:
        """For a batch with these anchors, mean over those that were known."""
        rows = self.places[anchors]
        places = torch.from_numpy(np.flatnonzero(rows >= 0)).to(self.device)
        before = self.before[rows[rows >= 0]]

        def penalty(part: str, now: Gaussian) -> Tensor:
            if not len(places):
                return torch.zeros((), device=self.device)
            total: Tensor = self.weight * moved(self._tensors(before, part), now[places]).mean()
            return total

        return penalty

    def _tensors(self, gaussian: Gaussian, part: str) -> Gaussian:
        dims = self.dims[part]
        parts = (
            None if each is None else torch.from_numpy(np.ascontiguousarray(each[:, dims])).to(self.device)
            for each in (gaussian.mean, gaussian.variance)
        )
        return Gaussian(*parts)


def moved(before: Gaussian, now: Gaussian) -> Any:
    """(n,) how far each is from where it was, for numpy arrays and torch tensors."""
    if before.variance is None:
        gap = now.mean - before.mean
        return (gap * gap).sum(-1)
    return named("kl").direct(before, now)
