"""The number of threads, set for a stretch of work and put back after it."""

import contextlib
import os
from collections.abc import Iterator

import torch

from glace.kernels.compile import set_threads


def cores() -> int:
    """Cores that this process may use."""
    of_process = getattr(os, "sched_getaffinity", None)
    return len(of_process(0)) if of_process else os.cpu_count() or 1


@contextlib.contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Run the block with this many threads, in torch and in compiled kernels."""
    before = torch.get_num_threads()
    set_threads(count)
    torch.set_num_threads(count)  # after the kernels' pool, which shares OpenMP's count with torch
    try:
        yield
    finally:
        set_threads(1)
        torch.set_num_threads(before)
