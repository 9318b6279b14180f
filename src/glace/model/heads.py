"""Heads: from hidden numbers to a Gaussian or a point."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from glace.gaussian.dissimilarity import Gaussian
from glace.model.input_layers import xavier_uniform

VARIANCE_FLOOR = 1e-2
"""Added to every variance. ELU + 1 comes arbitrarily close to 0, and between close and very narrow Gaussians the
dot-product form of KL loses its digits in float32; see docs/concepts.md."""


class Linear(nn.Module):
    """x W + b with W (width, out), initialized Xavier-uniform from the given generator."""

    def __init__(self, width: int, out: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(xavier_uniform(width, out, generator))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x: Tensor) -> Tensor:
        """Return (R, out)."""
        return torch.addmm(self.bias, x, self.weight)


class GaussianHead(nn.Module):
    """mean = W_mu u + b_mu; variance = ELU(W_sigma u + b_sigma) + 1 + floor (Eq. 2 and 3 of the paper)."""

    def __init__(self, hidden: int, dim: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.mean = Linear(hidden, dim, generator)
        self.variance = Linear(hidden, dim, generator)

    def forward(self, u: Tensor) -> Gaussian:
        """Return one Gaussian per row of u."""
        return Gaussian(self.mean(u), (functional.elu(self.variance(u)) + 1) + VARIANCE_FLOOR)


class PointHead(nn.Module):
    """One point per node, as in the paper's LACE."""

    def __init__(self, hidden: int, dim: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.mean = Linear(hidden, dim, generator)

    def forward(self, u: Tensor) -> Gaussian:
        """Return one point per row of u."""
        return Gaussian(self.mean(u), None)
