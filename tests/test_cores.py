"""Cores that a process may use, and how they are shared among threads."""

import os

import pytest

from glace.cores import cores, shares_of_cores

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system cannot assign cores")


@needs_affinity
@pytest.mark.parametrize(("parts", "wanted"), [(1, []), (2, [{1, 5}, {3, 8}]), (3, [{1, 8}, {3}, {5}]), (5, [])])
def test_cores_are_dealt_out_evenly(monkeypatch, parts, wanted):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 8, 1, 3})
    assert shares_of_cores(parts) == wanted


def test_no_shares_where_the_system_cannot_assign_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert shares_of_cores(2) == []
    assert cores() >= 1
