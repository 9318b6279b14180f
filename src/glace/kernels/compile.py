"""Compilation of the CPU kernels with Numba, and the types of their arrays."""

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from glace.cores import cores

IntArray = npt.NDArray[np.integer]
FloatArray = npt.NDArray[np.floating]
BoolArray = npt.NDArray[np.bool_]
CSR = tuple[IntArray, IntArray, FloatArray]
"""indptr, indices and data of a sparse matrix."""

PARTS = 4
"""Parts that each thread processes: with more than one, a thread that is done early takes from the others."""
Function = TypeVar("Function", bound=Callable[..., Any])


class _Threads(threading.local):
    """Number of threads that kernels called from the current thread may use; helper threads have only themselves."""

    count = 1


_threads = _Threads()


def compiled(function: Function, **more: object) -> Function:
    """Compile a function at its first call and cache the result on disk."""
    import numba

    # Python's error model would check every division for zero, which prevents vectorization.
    options = {"nogil": True, "error_model": "numpy", **more}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no cache folder: a read-only installation without a home
        return cast(Function, numba.njit(**options)(function))


def compiled_sum(function: Function) -> Function:
    """Compile a function whose sums may be taken in any order, which vectorizes them; it is the same in every call."""
    return compiled(function, fastmath={"reassoc", "contract"})


def helper(function: Function) -> Function:
    """Mark a function of a module whose kernels are interpreted for small tasks; it is compiled when they are."""
    _helpers.add(function)
    return function


_helpers: set[object] = set()
_compiling = threading.Lock()


def _compiled_with_helpers(function: Function) -> Function:
    """Compile a function, and the helpers of its module first, which take the places of the interpreted ones."""
    names = function.__globals__
    with _compiling:
        for name in [name for name, value in names.items() if isinstance(value, FunctionType) and value in _helpers]:
            names[name] = compiled(names[name])
    return compiled(function)


def by_rows(
    count: Callable[..., int], least: int = 64, small: Callable[..., bool] | None = None
) -> Callable[[Function], Function]:
    """Compile a function whose last two parameters are the first row and the end of the rows that it processes.

    Callers leave these two out: the rows are divided among the threads. `count` returns their number, given the other
    arguments. Fewer than `least` rows per thread are not worth waking one. A thread that waits sleeps. Those of OpenMP
    spin, which on a busy machine takes ten times as long as the work.

    A task that is `small`, given the arguments, is interpreted unless Numba is loaded already: loading it takes longer
    than a question about one node may take.
    """

    def decorate(function: Function) -> Function:
        made = functools.cache(lambda: _compiled_with_helpers(function))
        if small is None:
            made()

        @functools.wraps(function)
        def call(*arguments: Any) -> None:
            rows = count(*arguments)
            if small is not None and "numba" not in sys.modules and small(*arguments):
                with np.errstate(all="ignore"):
                    function(*arguments, 0, rows)
                return
            kernel = made()
            workers = min(threads(), rows // least)
            if workers < 2:
                kernel(*arguments, 0, rows)
                return
            ends = np.linspace(0, rows, PARTS * workers + 1).astype(int).tolist()
            parts = [_pool(workers).submit(kernel, *arguments, *part) for part in itertools.pairwise(ends)]
            for part in parts:
                part.result()

        return cast(Function, call)

    return decorate


def thread_pool() -> ThreadPoolExecutor | None:
    """Return the threads that kernels called from the current thread may use; None if it is the only one."""
    return _pool(threads()) if threads() > 1 else None


@functools.cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "glace")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork: a child would wait for them forever
    os.register_at_fork(after_in_child=_pool.cache_clear)


def set_threads(count: int) -> None:
    """Set the number of threads for kernels called from the current thread; -1 means one for each core."""
    _threads.count = cores() if count < 0 else count


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Set the number of threads for kernels called from the current thread, and restore it at the end."""
    before = _threads.count
    set_threads(count)
    try:
        yield
    finally:
        _threads.count = before


@contextmanager
def on_compilation(call: Callable[[], object]) -> Iterator[None]:
    """Call a function whenever a kernel is compiled within the block, and not found in the cache on disk."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, _event: object) -> None:
            call()

        def on_end(self, _event: object) -> None:
            pass

    listener = Listener()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)


def threads() -> int:
    """Return the number of threads that kernels called from the current thread use."""
    return _threads.count
