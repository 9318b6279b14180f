"""Results as JSON records with their provenance: enough to redraw a table, or to repeat the run."""

import json
import math
import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

PACKAGES = ("glace-graph", "torch", "numpy", "scipy", "numba", "scikit-learn", "pyarrow", "safetensors")


@dataclass(frozen=True)
class Record:
    """One result: `values` by name, and the `provenance` that says where they come from."""

    kind: str
    values: Mapping[str, object]
    provenance: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the record as one line of JSON; NaN and infinity become null."""
        content = {"kind": self.kind, **self.values, "provenance": self.provenance}
        return json.dumps(_plain(content), allow_nan=False, ensure_ascii=False)


def provenance(**facts: object) -> dict[str, object]:
    """Return `facts` together with the versions, machine, command line and time of this process."""
    versions = {package: version for package in PACKAGES if (version := _version(package))}
    return {
        **facts,
        "command": command_line(),
        "versions": {"python": platform.python_version(), **versions},
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command_line() -> str:
    """Return the command line of this process, with `python -m glace` spelled `glace`."""
    program = Path(sys.argv[0]).name
    return shlex.join(["glace" if program == "__main__.py" else program, *sys.argv[1:]])


_PLACES = ("--data-dir",)
_FILES = ("--split", "-o", "--output")


def without_places(command: str) -> str:
    """Return a command without the folders of this machine: no data folder, and of files and outputs only the name."""
    kept: list[str] = []
    arguments = iter(shlex.split(command))
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in (*_PLACES, *_FILES):
            value = value if equals else next(arguments, "")
            kept += [name, Path(value).name] if name in _FILES else []
        else:
            kept.append(argument)
    return shlex.join(kept)


def memory_mb(field: str) -> float | None:
    """Return a field of Linux's /proc/self/status in megabytes, or None on other systems.

    `VmRSS` is the resident memory now, `RssAnon` its part that is not backed by a file, `VmHWM` the peak.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines[field].split()[0]) * 1024 / 1e6


def peak_rss_mb() -> float | None:
    """Return the peak resident memory of this process in megabytes, or None on Windows."""
    # On Linux, getrusage starts at the peak of the parent process, so read VmHWM there.
    if (own := memory_mb("VmHWM")) is not None:
        return own
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # a source tree that is not installed
        return None


def _plain(value: object) -> object:
    """Convert arrays, numpy scalars, tuples and mappings to plain JSON values."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
