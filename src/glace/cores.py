"""The number of cores that this process may use."""

import math
import os
from pathlib import Path

CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def cores() -> int:
    """Return the number of cores that this process may use: by affinity, by the limit of a container, by OpenMP's."""
    affinity = getattr(os, "sched_getaffinity", None)
    limits = [len(affinity(0)) if affinity else os.cpu_count() or 1, _container_limit()]
    if os.environ.get("OMP_NUM_THREADS", "").isdecimal():
        limits.append(int(os.environ["OMP_NUM_THREADS"]))
    return max(int(min(limits)), 1)


def shares_of_cores(parts: int) -> list[set[int]]:
    """Return `parts` disjoint sets of this process's cores; none for one part, or if there are fewer cores than parts.

    A thread that takes such a set with `os.sched_setaffinity` passes it on to the processes that it starts.
    """
    if parts == 1 or not hasattr(os, "sched_getaffinity"):
        return []
    own = sorted(os.sched_getaffinity(0))
    return [set(own[part::parts]) for part in range(parts)] if len(own) >= parts else []


def _container_limit() -> float:
    """Return the cores that a Linux container may use, from the microseconds per period in its control group."""
    try:
        quota, period = CPU_LIMIT.read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no control groups here, or no limit ("max")
        return math.inf
