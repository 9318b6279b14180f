"""How much faster is a default fit than with another version? `python -m benchmarks.before_after --before CHECKOUT`

Each fit is a process of its own: it imports the package, holds out a tenth of the edges, trains with the defaults on
the rest, and scores the hidden edges. The two versions take turns. Seconds count from the start of the process to the
end of the fit; processor seconds are those of all threads. CHECKOUT is a clone of the other version; its own
environment `.venv` is used if it has one.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common import FOLDER, RESULTS, DataDir, Report, Results, Rounds, in_turn

GRAPHS = ("cora-ml", "citeseer", "dblp", "pubmed", "wordnet", "debian", "dense-words")
FIT = """
import json, os, sys, time
import numpy as np, scipy.sparse as sp
import glace

def dense_words():
    # 7,650 nodes in 10 communities, 119,000 edges, 745 binary attributes of which a third is set.
    rng, nodes = np.random.default_rng(0), 7650
    community = rng.integers(10, size=nodes)
    members = [np.flatnonzero(community == each) for each in range(10)]
    first = rng.integers(nodes, size=130_000)
    same = np.array([rng.choice(members[community[node]]) for node in first.tolist()])
    second = np.where(rng.random(len(first)) < 0.8, same, rng.integers(nodes, size=len(first)))
    chance = np.clip(rng.normal(0.35, 0.15, (10, 745)), 0.02, 0.98)[community]
    words = (rng.random(chance.shape) < chance).astype(np.float32)
    return glace.from_arrays(np.column_stack([first, second])[first != second], sp.csr_array(words))

name, seed, data_dir, option = sys.argv[1], int(sys.argv[2]), sys.argv[3] or None, json.loads(sys.argv[4])
whole = dense_words() if name == "dense-words" else glace.datasets.load(name, data_dir=data_dir)
graph, hidden = glace.hold_out(whole, 0.1, np.random.default_rng([seed, 1]))
fitted = glace.train(graph, {"random_state": seed, **option})
seconds, processor = time.time() - float(os.environ["BEGAN"]), time.process_time()
scores = [-fitted.embedding.dissimilarities_at(pairs) for pairs in (hidden.edges, hidden.non_edges)]
from sklearn.metrics import roc_auc_score
auc = roc_auc_score(np.repeat([1, 0], [len(each) for each in scores]), np.concatenate(scores))
peak = next((int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")), None)
best = fitted.history.best
print(json.dumps({"seconds": seconds, "processor": processor, "auc": float(auc), "peak_mb": peak,
    "steps": fitted.history.step, "validation_auc": best and best.auc, "options": fitted.selection.options}))
"""

Found = dict[str, Any]


def main(
    before: Annotated[Path, typer.Option(help="Root of a checkout of the other version.")],
    graphs: Annotated[str, typer.Option(help="Names of graphs, separated by commas.")] = ",".join(GRAPHS),
    rounds: Rounds = 3,
    busy: Annotated[int, typer.Option(help="Endless loops that run beside, to see what a busy machine does.")] = 0,
    option: Annotated[str, typer.Option(help="Options of both, as JSON: '{\"max_steps\": 10}'.")] = "{}",
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Fit in turn, one seed per round, and draw the table."""
    report = Report("before_after", results, {"option": option, "busy": busy})
    sides = {"before": before.absolute(), "after": FOLDER.parent}
    units = [(graph, side) for graph in graphs.split(",") for side in sides]
    found: dict[tuple[str, str], list[Found]] = {unit: [] for unit in units}
    folder = "" if data_dir is None else str(data_dir.absolute())
    with endless_loops(busy):
        for number, (graph, side) in enumerate(in_turn(units, rounds, "fits")):
            values = fit(sides[side], graph, number // len(units), folder, option)
            report.note(graph=graph, side=side, random_state=number // len(units), **values)
            found[graph, side].append(values)
    rows = [row(graph, found[graph, "before"], found[graph, "after"]) for graph in graphs.split(",")]
    columns = ["graph", "s before", "s after", "times", "cpu s before", "cpu s after", "AUC before", "AUC after"]
    report.table("Default fits", [*columns, "difference", "MiB before", "MiB after", "steps"], rows)


@contextmanager
def endless_loops(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep this many cores busy by processes of their own."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield loops
    finally:
        for each in loops:
            each.kill()
            each.wait()


def fit(checkout: Path, graph: str, seed: int, data_dir: str, option: str) -> Found:
    """Fit once with the package of a checkout."""
    own = checkout / ".venv" / "bin" / "python"
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "BEGAN": str(time.time())}
    command = [str(own) if own.exists() else sys.executable, "-c", FIT, graph, str(seed), data_dir, option]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if ended.returncode != 0:
        raise RuntimeError(f"{graph} with {checkout}:\n{ended.stderr}")
    values: Found = json.loads(ended.stdout.splitlines()[-1])
    return values


def row(graph: str, before: list[Found], after: list[Found]) -> list[Any]:
    """Return the cells of a graph: least seconds, and mean AUC with the standard error of the paired difference."""
    least = [[min(each[name] for each in side) for side in (before, after)] for name in ("seconds", "processor")]
    aucs = np.array([[each["auc"] for each in side] for side in (before, after)])
    difference = 100 * (aucs[1] - aucs[0])
    error = f" ± {difference.std(ddof=1) / len(difference) ** 0.5:.2f}" if len(difference) > 1 else ""
    peaks = [round(max(each["peak_mb"] or 0 for each in side)) for side in (before, after)]
    steps = round(float(np.mean([each["steps"] for each in after])))
    times, means = f"{least[0][0] / least[0][1]:.1f}", [f"{100 * mean:.2f}" for mean in aucs.mean(axis=1)]
    return [graph, *least[0], times, *least[1], *means, f"{difference.mean():+.2f}{error}", *peaks, steps]


if __name__ == "__main__":
    typer.run(main)
