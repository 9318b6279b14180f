"""Keeps what a question does not need out of its process: a second of imports is longer than most answers take."""

import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path

from glace.storage.files import existing

EMBEDDINGS = (".parquet", ".arrow", ".npz")
enabled = False
"""Whether this process runs one command and ends; the command line sets it."""
STARTED = time.perf_counter()


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not needed", name=fullname)


def seconds_since_start() -> float | None:
    """How long this process has been running, or nearly; None if it runs other things than one command."""
    return time.perf_counter() - STARTED if enabled else None


def check_model(path: Path | str) -> None:
    """Raise at once if there is no file of a model, or of an embedding, before anything slow is imported."""
    existing(path, "an embedding file" if Path(path).suffix in EMBEDDINGS else "a glace-model file")


def skip_pandas() -> None:
    """Let pyarrow look for pandas, and not find it: it would import it only to ask whether a list is a data frame."""
    if not enabled or "pandas" in sys.modules:
        return
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
