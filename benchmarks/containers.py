"""Does the container of the attributes matter? `python -m benchmarks.containers`

The same values as a dense array and as a sparse matrix: the AUC of held-out edges, the AUC of a tenth of the nodes that
are hidden and embedded from their attributes, and the CPU seconds of both fits. Besides real graphs of words there are
two planted tables: measurements of several scales, and 745 indicators of which a third is set.
"""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, in_turn
from glace.datasets.planted import planted
from glace.datasets.registry import load
from glace.experiments.tasks import Evaluation, evaluate
from glace.graph.graph import Graph
from glace.io.npz import read_npz

TASKS = ("link-prediction", "induction")
CONTAINERS = ("sparse", "dense")
NODES = 2000


def main(
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="A graph of `glace datasets`, an .npz file of --data-dir, `measured` or `indicators`."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Splits and runs.")] = 2,
    steps: Annotated[int | None, typer.Option(help="Steps of each fit; as many as it wants if not given.")] = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Compare dense and sparse containers of the same values."""
    names = dataset or ["cora_planetoid", "citeseer_planetoid", "wordnet-nouns", "measured", "indicators"]
    report = Report("containers", results, {"seeds": seeds, "steps": steps})
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    turns = [(name, seed, container) for name in names for seed in range(seeds) for container in CONTAINERS]
    for name, seed, container in in_turn(turns, 1, "runs"):
        values = measure(contained(graph_of(name, data_dir), container), name, seed, steps)
        report.note(dataset=name, container=container, random_state=seed, **values)
        found.setdefault((name, container), []).append(values)
    columns = ("graph", "container", "AUC of links", "AUC of hidden nodes", "CPU seconds")
    report.table(f"means of {seeds} splits", columns, [_row(*key, runs) for key, runs in found.items()])


def _row(name: str, container: str, runs: list[dict[str, float]]) -> tuple[Any, ...]:
    links, hidden = (np.mean([100 * run[f"{task}_auc"] for run in runs]) for task in TASKS)
    return name, container, f"{links:.2f}", f"{hidden:.2f}", float(np.mean([run["cpu_seconds"] for run in runs]))


def measure(graph: Graph, name: str, seed: int, steps: int | None) -> dict[str, float]:
    """AUC of both tasks, and the CPU seconds of their fits."""
    began, values = time.process_time(), {}
    for task in TASKS:
        record = evaluate(graph, Evaluation(task, name, "glace", seed, {"max_steps": steps}))
        auc: Any = record.values["auc"]
        values[f"{task}_auc"] = float(auc)
    return values | {"cpu_seconds": round(time.process_time() - began, 1)}


def contained(graph: Graph, container: str) -> Graph:
    """The graph made again from its attributes in a container."""
    rows = sp.csr_array(graph.features())
    return graph.with_attributes(rows if container == "sparse" else rows.toarray())


def graph_of(name: str, data_dir: Path | None) -> Graph:
    """A planted graph, an .npz file of the folder, or a graph of the registry."""
    if name in PLANTED:
        graph = planted(NODES, communities=8, degree=6, attributes=100, words=8, mixing=0.2)
        assert graph.labels is not None
        return graph.with_attributes(PLANTED[name](np.asarray(graph.labels.codes), np.random.default_rng(5)))
    file = None if data_dir is None else data_dir / f"{name}.npz"
    return read_npz(file) if file is not None and file.exists() else load(name, data_dir=data_dir)


def measured(communities: Any, generator: np.random.Generator) -> Any:
    """(n, 30) measurements whose columns have scales from 0.01 to 10,000 and centers beside 0."""
    scales = 10 ** generator.uniform(-2, 4, 30)
    centers = generator.normal(size=(communities.max() + 1, 30))
    noise = generator.normal(size=(len(communities), 30))
    return ((0.7 * centers[communities] + noise + 3 * generator.normal(size=30)) * scales).astype(np.float32)


def indicators(communities: Any, generator: np.random.Generator) -> Any:
    """(n, 745) indicators, a third of which is set."""
    shares = 0.2 + 0.4 * generator.beta(2, 4, size=(communities.max() + 1, 745))
    return (generator.random((len(communities), 745)) < shares[communities]).astype(np.float32)


PLANTED = {"measured": measured, "indicators": indicators}

if __name__ == "__main__":
    typer.run(main)
