"""The state of the code that made a record: its commit, and a hash of the source files that results depend on."""

import hashlib
import subprocess
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1]
UNITS = {
    "training": ("config", "sampling", "kernels", "training", "fitted", "rng.py"),
    "models": ("model", "gaussian", "queries", "estimators.py", "experiments/baselines", "experiments/methods.py"),
    "evaluation": (
        "graph",
        "features",
        "metrics.py",
        "values.py",
        "sparse.py",
        "experiments/evaluation",
        "experiments/sparse_points.py",
        "experiments/splits.py",
        "experiments/tasks.py",
    ),
}
"""Files and folders of the package, by the part of an experiment that they compute."""


@cache
def code_state() -> dict[str, object]:
    """Return `commit`, if the package is a clone, and `code`: a hash of each part of `UNITS`."""
    known = commit()
    return ({} if known is None else {"commit": known}) | {"code": code_hashes()}


def code_hashes(source: Path = SOURCE) -> dict[str, str]:
    """Return the first 12 digits of the SHA-256 of the Python files of each part, names included."""
    return {part: _hash(source, places) for part, places in UNITS.items()}


def commit(folder: Path = SOURCE, *places: str) -> str | None:
    """Return the short commit of a package's clone, with a plus if its files were changed since; None if it is none.

    The files are those of the folder, or of other places seen from it. An installed package may lie inside of another
    project's clone, which does not track it.
    """
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = _git(folder, "rev-parse", "--short", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--", *(places or (".",)))
    return None if head is None else head + ("+" if changed else "")


def _hash(source: Path, places: tuple[str, ...]) -> str:
    found = [path for place in places for path in _python_files(source / place)]
    digest = hashlib.sha256()
    for path in sorted(found):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(source).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def _python_files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        told = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()
