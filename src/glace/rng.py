"""One seed, many named streams of random numbers.

A draw depends on (seed, purpose, item) and on nothing else: not on the order of calls, the number of
threads or what was drawn before. A resumed run therefore needs no generator state, only its step number.
"""

import zlib
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from glace.errors import InputError

Bits = TypeVar("Bits", np.uint64, npt.NDArray[np.uint64])


@dataclass(frozen=True)
class Streams:
    """The random streams of one seed."""

    seed: int

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int | np.integer) or isinstance(self.seed, bool) or self.seed < 0:
            raise InputError(f"seed must be a whole number of at least 0, not {self.seed!r}")

    def numpy(self, purpose: str, item: int = 0) -> np.random.Generator:
        """A fresh generator for the `item`-th use of `purpose`, such as `numpy("negatives", step)`."""
        return np.random.default_rng([int(self.seed), zlib.crc32(purpose.encode()), item])


def splitmix64(keys: Bits) -> Bits:
    """Hash 64-bit integers to pseudo-random ones by the finalizer of splitmix64, a bijection.

    Takes arrays of any shape; `glace.kernels.mixing` compiles it for single numbers.
    """
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
