"""How kernels are compiled, in one place."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile at the first call and keep the result on disk; loops over `prange` use all set threads."""
    options = {"nopython": True, "parallel": "prange" in function.__code__.co_names, "nogil": True}
    try:
        return cast(Function, numba.jit(cache=True, **options)(function))
    except RuntimeError:  # no folder to keep it in: a read-only installation without a home
        return cast(Function, numba.jit(**options)(function))


def set_threads(count: int) -> None:
    """Let kernels use this many threads, or as many as the machine has if that is fewer."""
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
