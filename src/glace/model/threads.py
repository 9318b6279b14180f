"""Sets the number of threads for a block of code and restores it afterwards."""

import contextlib
import os
from collections.abc import Iterator

import torch

from glace.kernels.compile import set_threads


def cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextlib.contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Run the block with `count` threads, in torch and in the compiled kernels."""
    before = torch.get_num_threads()
    set_threads(count)
    torch.set_num_threads(count)  # after the kernels' pool, which shares OpenMP's thread count with torch
    try:
        yield
    finally:
        set_threads(1)
        torch.set_num_threads(before)
