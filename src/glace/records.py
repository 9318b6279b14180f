"""One result with its provenance, as JSON: enough to redraw a table or to run the thing again."""

import json
import math
import platform
import shlex
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from glace.storage.files import replacing

PACKAGES = ("glace-graph", "torch", "numpy", "scipy", "numba", "scikit-learn", "pyarrow", "safetensors")


@dataclass(frozen=True)
class Record:
    """`values` are the result, by name; `provenance` says where it comes from."""

    kind: str
    values: dict[str, Any]
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line of JSON; what is not a number is null."""
        content = {"kind": self.kind, **self.values, "provenance": self.provenance}
        return json.dumps(_plain(content), allow_nan=False, ensure_ascii=False)

    def write(self, path: str | Path) -> None:
        """Write it as the only line of a file."""
        with replacing(path) as temporary:
            temporary.write_text(self.to_json() + "\n", encoding="utf-8")


def provenance(**facts: Any) -> dict[str, Any]:
    """The facts given, with versions, machine, command and time."""
    return {
        **facts,
        "command": command_line(),
        "versions": {"python": platform.python_version(), **_versions()},
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command_line() -> str:
    """How this process was called, `python -m glace.cli` as `glace`."""
    program = Path(sys.argv[0]).name
    return shlex.join(["glace" if program == "__main__.py" else program, *sys.argv[1:]])


def memory_mb(field: str) -> float | None:
    """Memory of this process by the name Linux has for it, in megabytes; None on other systems.

    `VmRSS` is what is resident now, `RssAnon` its part that no file holds, `VmHWM` the most that ever was.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines[field].split()[0]) * 1024 / 1e6


def peak_rss_mb() -> float | None:
    """The most memory this process ever held, in megabytes; None on Windows, which does not tell."""
    # What Linux tells by `getrusage` starts with the peak of the process that started this one.
    if (own := memory_mb("VmHWM")) is not None:
        return own
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from a source tree that was not installed
            continue
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
