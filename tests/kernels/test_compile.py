"""Threads by what the process may use, and compilation that tells of itself."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from glace import cores as module
from glace.cores import cores
from glace.kernels.compile import by_rows, kernel_threads, on_compilation, set_threads, threads


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("nonsense", 8)],
)
def test_cores_are_those_that_the_container_allows(tmp_path, monkeypatch, limit, wanted):
    (tmp_path / "cpu.max").write_text(limit)
    monkeypatch.setattr(module, "CPU_LIMIT", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores() == wanted


def test_cores_are_those_of_the_affinity_and_of_openmp(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CPU_LIMIT", tmp_path / "missing")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert cores() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert cores() == 2
    with kernel_threads(-1):
        assert threads() == 2
    with kernel_threads(1):
        assert threads() == 1
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(threads).result() == 1


def test_other_threads_have_only_themselves():
    set_threads(2)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(threads).result() == 1
    set_threads(1)


@by_rows(lambda out: len(out), least=2)
def squares(out, begin=0, end=0):
    for row in range(begin, end):
        out[row] = row * row


@pytest.mark.parametrize("rows", [0, 1, 7, 100])
def test_rows_are_divided_among_the_threads(rows):
    for count in (1, 2, 3):
        out = np.full(rows, -1)
        with kernel_threads(count):
            squares(out)
        np.testing.assert_array_equal(out, np.arange(rows) ** 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    """Those of its parent do not exist in it; waiting for them would take forever."""
    with kernel_threads(2):
        squares(np.empty(100, np.int64))
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            out = np.empty(100, np.int64)
            squares(out)
            os._exit(0 if (out == np.arange(100) ** 2).all() else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_compilation_is_heard_of_once():
    @numba.njit  # not cached on disk
    def doubled(values):
        return values + values

    heard: list[int] = []
    with on_compilation(lambda: heard.append(1)):
        assert doubled(np.ones(2, np.float32))[0] == 2
        first = len(heard)
        doubled(np.ones(3, np.float32))
    assert first > 0
    assert len(heard) == first
    doubled(np.ones(2, np.int16))
    assert len(heard) == first, "nobody listens any more"
