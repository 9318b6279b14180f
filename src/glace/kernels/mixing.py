"""splitmix64 for compiled kernels: a hash from 64-bit integers to pseudo-random ones."""

import numpy as np

from glace.kernels.compile import compiled
from glace.rng import splitmix64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The increment of splitmix64: 2^64 over the golden ratio."""

mixed = compiled(splitmix64)
"""`splitmix64` of one number, to be called from compiled code."""
