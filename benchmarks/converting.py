"""How long does converting a table of edges take, and how much memory? `python -m benchmarks.converting`

Random edges, ten a node, in one Parquet file. Their ids are strings of 16 letters, as hashes are, or the integers 0 to
n - 1. Each conversion runs in a process of its own. With `--before`, the folder of another version's checkout, that
version converts the same files in turn.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.common import FOLDER, RESULTS, Report, Results, Rounds, in_turn

ROWS = 1_000_000
"""Edges drawn at a time."""
LETTERS = np.frombuffer(b"0123456789abcdef", np.uint8)
CONVERT = """
import json, sys, threading, time
import glace
from glace.records import memory_mb

began, own, over = time.perf_counter(), [0.0], threading.Event()

def look():
    while not over.wait(0.05):
        own[0] = max(own[0], memory_mb("RssAnon") or 0)

watch = threading.Thread(target=look, daemon=True)
watch.start()
graph = glace.convert_tables(sys.argv[1], sys.argv[2])
seconds, processor = time.perf_counter() - began, time.process_time()
over.set()
watch.join()
found = {"seconds": seconds, "processor": processor, "peak_mb": memory_mb("VmHWM"), "own_mb": own[0]}
print(json.dumps(found | {"graph": graph.fingerprint()}))
"""


def write_edges(path: Path, edges: int, strings: bool) -> None:
    """Write random edges: nodes with small numbers have more of them; every node has at least one."""
    generator, nodes = np.random.default_rng(0), edges // 10
    kind = pa.string() if strings else pa.int64()
    with pq.ParquetWriter(path, pa.schema({"source": kind, "target": kind})) as writer:
        for first in range(0, edges, ROWS):
            count = min(ROWS, edges - first)
            drawn = (nodes * generator.random(count) ** 2).astype(np.int64)
            ends = np.arange(first, first + count) % nodes, drawn
            columns = [_names(end) if strings else pa.array(end) for end in ends]
            writer.write_table(pa.table(columns, ["source", "target"]))


def _names(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return a string of 16 letters for each number."""
    hashed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    digits = (hashed[:, None] >> np.arange(60, -4, -4).astype(np.uint64)) & np.uint64(15)
    ends = np.arange(0, 16 * len(numbers) + 1, 16, dtype=np.int32)
    letters = LETTERS[digits.astype(np.int64)]
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(letters))


def converted(checkout: Path, edges: Path, output: Path) -> dict[str, Any]:
    """Seconds and megabytes of a conversion by the version in a checkout."""
    path = os.pathsep.join([str(checkout / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", CONVERT, str(edges), str(output)]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main(
    edges: Annotated[list[int] | None, typer.Option(help="Edges of the tables.")] = None,
    before: Annotated[Path | None, typer.Option(help="Checkout of another version.")] = None,
    integers: Annotated[bool, typer.Option("--integers", help="Ids are 0 to n - 1 instead of strings.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Folder that keeps the tables; a temporary one by default.")
    ] = None,
    only_before: Annotated[bool, typer.Option("--only-before", help="Leave this version out.")] = False,
    rounds: Rounds = 1,
    results: Results = RESULTS,
) -> None:
    """Convert tables of each size, by this version and another in turn."""
    report = Report("converting", results, {"ids": "integers" if integers else "strings"})
    sides = ({} if before is None else {"before": before}) | ({} if only_before else {"now": FOLDER.parent})
    best: dict[tuple[int, str], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(dir=folder) as work:
        for size in edges or [10_000_000]:
            table = (folder or Path(work)) / f"{size}-{report.facts['ids']}.parquet"
            if not table.exists():
                write_edges(table, size, not integers)
            for side in in_turn(list(sides), rounds, f"{size:,} edges"):
                found = converted(sides[side], table, Path(work) / "converted.graph")
                report.note(edges=size, side=side, **found)
                old = best.get((size, side))
                best[size, side] = found if old is None or found["seconds"] < old["seconds"] else old
    columns = ["edges", "side", "s", "cpu s", "MB", "MB without mapped files", "graph"]
    lines = [
        (size, side, each["seconds"], each["processor"], each["peak_mb"], each["own_mb"], each["graph"][:12])
        for (size, side), each in best.items()
    ]
    report.table(f"ids are {report.facts['ids']}", columns, lines)


if __name__ == "__main__":
    typer.run(main)
