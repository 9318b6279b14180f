"""The number of threads, set for a stretch of work and put back after it."""

import contextlib
from collections.abc import Iterator

import torch

from glace.errors import InputError
from glace.kernels.compile import set_threads


@contextlib.contextmanager
def using_threads(count: int | None) -> Iterator[int]:
    """Run the block with this many threads, None for as many as torch would use; gives the number."""
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise InputError(f"threads must be a whole number of at least 1 or None, not {count!r}")
    before = torch.get_num_threads()
    threads = before if count is None else count
    torch.set_num_threads(threads)
    set_threads(threads)
    try:
        yield threads
    finally:
        torch.set_num_threads(before)
        set_threads(before)
