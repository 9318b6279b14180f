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
    """Random number generators that depend only on a seed, a purpose and an item.

    What is drawn for one purpose does not change what is drawn for another, in whatever order.

    Parameters
    ----------
    seed : int
        At least 0.

    Examples
    --------
    >>> import glace
    >>> first, again = (glace.Streams(7).numpy("negatives", 3) for _ in range(2))
    >>> bool(first.random() == again.random())
    True
    """

    seed: int

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int | np.integer) or isinstance(self.seed, bool) or self.seed < 0:
            raise InputError(f"must be a whole number of at least 0, not {self.seed!r}", option="seed")

    def numpy(self, purpose: str, item: int = 0) -> np.random.Generator:
        """Return a new generator for a purpose.

        Parameters
        ----------
        purpose
            What the numbers are for, such as "negatives".
        item
            The number of the draw, such as the training step.

        Returns
        -------
        numpy.random.Generator
            A generator that depends on seed, purpose and item alone.
        """
        return np.random.default_rng([int(self.seed), zlib.crc32(purpose.encode()), item])


def splitmix64(keys: Bits) -> Bits:
    """Hash 64-bit integers to pseudo-random ones by the finalizer of splitmix64, a bijection.

    Takes arrays of any shape; `glace.kernels.mixing` compiles it for single numbers.
    """
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
