"""Numbers that look random and are a function of what they are made of: splitmix64."""

from typing import Any

import numpy as np

from glace.kernels.compile import compiled

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@compiled
def mixed(x: Any) -> Any:
    """64 bits of which each depends on all of x: splitmix64's finalizer."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
