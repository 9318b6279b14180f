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


def _container_limit() -> float:
    """Return the cores that a Linux container may use, from the microseconds per period in its control group."""
    try:
        quota, period = CPU_LIMIT.read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no control groups here, or no limit ("max")
        return math.inf
