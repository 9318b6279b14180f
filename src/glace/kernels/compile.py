"""How kernels are compiled, in one place."""

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


class _Threads(threading.local):
    """How many threads kernels may use that are called from this one: a thread beside the main one has itself only."""

    count = 1


_threads = _Threads()


def compiled(function: Function) -> Function:
    """Compile at the first call and keep the result on disk.

    A function with a `prange` loop is compiled twice: with one thread the plain version runs, because the
    parallel one makes its whole pool wait for each other even then, which a busy machine turns into seconds.
    """
    if "prange" not in function.__code__.co_names:
        return cast(Function, _jit(function))
    serial, parallel = _jit(_twin(function, "serial")), _jit(_twin(function, "parallel"), parallel=True)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return (parallel if _threads.count > 1 else serial)(*arguments)

    return cast(Function, call)


def set_threads(count: int) -> None:
    """Let kernels that this thread calls use so many threads, or as many as the machine has if that is fewer."""
    _threads.count = min(count, numba.config.NUMBA_NUM_THREADS)
    if _threads.count > 1:
        numba.set_num_threads(_threads.count)
        _meet(_threads.count)


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _meet(threads: int) -> int:
    """Start the pool now: its first use sets OpenMP's thread count, which torch shares, to that of the machine."""
    total = 0
    for thread in numba.prange(threads):
        total += thread
    return total


def _jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    # numpy's errors: Python's would check every division for zero, and no loop with one would be vectorised.
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Callable[..., Any], numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no folder to keep it in: a read-only installation without a home
        return cast(Callable[..., Any], numba.njit(**options)(function))


def _twin(function: Any, kind: str) -> Any:
    """The same function under another name: numba keeps compiled code on disk by name, not by option."""
    twin = FunctionType(function.__code__, function.__globals__, f"{function.__name__}_{kind}")
    twin.__qualname__, twin.__module__ = twin.__name__, function.__module__
    return twin
