"""Compilation of the CPU kernels with Numba, and the types of their arrays."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer]
FloatArray = npt.NDArray[np.floating]
BoolArray = npt.NDArray[np.bool_]
CSR = tuple[IntArray, IntArray, FloatArray]
"""indptr, indices and data of a sparse matrix."""

Function = TypeVar("Function", bound=Callable[..., Any])


class _Threads(threading.local):
    """Number of threads that kernels called from the current thread may use; helper threads have only themselves."""

    count = 1


_threads = _Threads()


def compiled(function: Function) -> Function:
    """Compile a function at its first call and cache the result on disk.

    A function with a `prange` loop is compiled twice. With one thread the serial version runs, because the parallel
    one synchronizes its whole thread pool even then, which can take seconds on a busy machine.
    """
    if "prange" not in function.__code__.co_names:
        return cast(Function, _jit(function))
    serial, parallel = _jit(_copy(function, "serial")), _jit(_copy(function, "parallel"), parallel=True)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return (parallel if _threads.count > 1 else serial)(*arguments)

    return cast(Function, call)


def set_threads(count: int) -> None:
    """Set the number of threads for kernels called from the current thread; at most as many as the machine has."""
    _threads.count = min(count, numba.config.NUMBA_NUM_THREADS)
    if _threads.count > 1:
        numba.set_num_threads(_threads.count)
        _start_pool(_threads.count)


def _jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    # Python's error model would check every division for zero, which prevents vectorization.
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Callable[..., Any], numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no cache folder: a read-only installation without a home
        return cast(Callable[..., Any], numba.njit(**options)(function))


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Set the number of threads for kernels called from the current thread, and restore it at the end."""
    before = _threads.count
    set_threads(count)
    try:
        yield
    finally:
        _threads.count = before


def threads() -> int:
    """Return the number of threads that kernels called from the current thread use."""
    return _threads.count


@functools.partial(_jit, parallel=True)
def _start_pool(threads: int) -> int:
    """Start the thread pool now: its first use resets OpenMP's thread count, which torch shares."""
    total = 0
    for thread in numba.prange(threads):
        total += thread
    return total


def _copy(function: Callable[..., Any], suffix: str) -> FunctionType:
    """Copy a function under another name: Numba's disk cache distinguishes names, not options."""
    copy = FunctionType(function.__code__, function.__globals__, f"{function.__name__}_{suffix}")
    copy.__qualname__, copy.__module__ = copy.__name__, function.__module__
    return copy
