"""Do time and memory of training depend on the size of the graph? `python -m benchmarks.scaling`

Each size trains in a process of its own, sizes in turn: from one row of the table to the next the edges and with them
the nodes grow, the degree, the attributes and the batch size stay. What should not grow is the time of a step and the
memory that training adds to the graph's.

With `--folder` the graphs lie there on disk, are made if they do not, and are mapped: each size is then trained on
`--drawn` edges and all its nodes are embedded. What should not grow then is the memory without the pages of mapped
files.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.common import (
    RESULTS,
    PeakOfOwnMemory,
    Report,
    Results,
    Rounds,
    Threads,
    acm_like,
    in_child,
    in_turn,
    memory_mb,
    settled_mb,
)
from benchmarks.planted_stream import planted_folder
from benchmarks.stages import staged, trainer_of
from glace.datasets.planted import planted
from glace.estimators import GLACE
from glace.experiments.methods import LEARNED
from glace.graph.graph import Graph
from glace.io.folder import read_folder, size_of
from glace.model.network import using_threads
from glace.training.train import initial_options


@dataclass(frozen=True)
class Size:
    """A graph to be trained on; an undirected edge counts once."""

    edges: int
    degree: float = 10.0
    attributes: int = 10_000
    words: int = 20

    @property
    def nodes(self) -> int:
        """How many nodes have so many edges at this degree."""
        return round(2 * self.edges / self.degree)


def graph_of(size: Size) -> Graph:
    """The graph of this size, in memory."""
    return planted(size.nodes, communities=50, degree=size.degree, attributes=size.attributes, words=size.words)


def folder_of(size: Size, folder: Path) -> Path:
    """The graph folder of this size, made if it is not there."""
    path = folder / f"{size.edges}-edges-{size.attributes}-attributes.graph"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wide = size.attributes
        planted_folder(path, size.nodes, size.edges, communities=50, attributes=wide, words=size.words)
    return path


def main(
    edges: Annotated[list[int] | None, typer.Option(help="Edges of the graphs.")] = None,
    method: Annotated[str, typer.Option(help="A method of first-order proximity.")] = "glace",
    batch_size: Annotated[int, typer.Option(help="Edges a step.")] = 512,
    steps: Annotated[int, typer.Option(help="Steps that are timed for each graph.")] = 100,
    folder: Annotated[Path | None, typer.Option(help="Folder for graphs on disk.")] = None,
    drawn: Annotated[int, typer.Option(help="Edges drawn from each graph on disk.")] = 10_000_000,
    degree: Annotated[float, typer.Option(help="Edges a node.")] = 10.0,
    attributes: Annotated[int, typer.Option(help="Attributes.")] = 10_000,
    words: Annotated[int, typer.Option(help="Attributes a node.")] = 20,
    n_jobs: Threads = 1,
    rounds: Rounds = 3,
    results: Results = RESULTS,
) -> None:
    """Train on graphs of every size in turn."""
    options = {"method": method, "batch_size": batch_size, "steps": steps, "n_jobs": n_jobs}
    report = Report("scaling", results, options)
    sizes = [Size(number, degree, attributes, words) for number in edges or [100_000, 1_000_000, 10_000_000]]
    if folder is not None:
        _on_disk(report, sizes, folder, {"drawn": drawn, "method": method, "batch_size": batch_size, "n_jobs": n_jobs})
        return
    found: dict[int, list[dict[str, Any]]] = {}
    for size in in_turn(sizes, rounds, "sizes in turn"):
        number = size.edges
        measured = in_child("benchmarks.scaling:trained", size=vars(size), **options)
        report.note(asked="training", **measured)
        found.setdefault(number, []).append(measured)
    columns = ("edges", "nodes", "ms a step", "s a million edges", "graph MB", "training MB", "peak MB")
    title = f"Training of {method}, batches of {batch_size:,}, n_jobs {n_jobs}"
    report.table(title, columns, [_row(each, batch_size) for each in found.values()])


def _on_disk(report: Report, sizes: list[Size], folder: Path, options: dict[str, Any]) -> None:
    """Train on graphs that are mapped, and embed all their nodes."""
    rows = []
    for size in in_turn(sizes, 1, "graphs on disk"):
        where = {"size": vars(size), "folder": str(folder)}
        drawing = in_child("benchmarks.scaling:drawn_to_disk", **where)
        found = in_child("benchmarks.scaling:fitted", **where, **options)
        report.note(asked="on disk", drawing_mb=drawing["peak_mb"], **found)
        speeds = 1e6 * found["seconds"] / options["drawn"], 1e6 * found["embedding_seconds"] / found["nodes"]
        rows.append([found["edges"], found["nodes"], found["disk_gb"], *speeds, found["own_mb"]])
    million = "s a million edges", "s a million nodes embedded"
    columns = ("edges", "nodes", "GB on disk", *million, "MB without mapped pages")
    title = f"Training of {options['method']} on {options['drawn']:,} drawn edges of graphs on disk"
    report.table(title, columns, rows)


def drawn_to_disk(size: dict[str, Any], folder: str) -> dict[str, Any]:
    """Draw the graph to disk, unless it is there; meant for a process of its own."""
    folder_of(Size(**size), Path(folder))
    return {}


def fitted(size: dict[str, Any], folder: str, drawn: int, method: str, batch_size: int, n_jobs: int) -> dict[str, Any]:
    """Train on a mapped graph and embed its nodes; meant for a process of its own."""
    path, (kind, options) = folder_of(Size(**size), Path(folder)), LEARNED[method]
    first = initial_options(kind(**options).config().model, has_attributes=True)
    model = kind(**options | first | {"batch_size": batch_size, "n_jobs": n_jobs, "max_steps": drawn // batch_size})
    model.fit(acm_like(0))  # compiled code is loaded, which is no part of what is asked
    with PeakOfOwnMemory() as peak:
        graph, began = read_folder(path), time.perf_counter()
        model.set_params(patience=10**6).fit(graph)
        seconds = time.perf_counter() - began
    times = {"seconds": model.history_.seconds, "embedding_seconds": seconds - model.history_.seconds}
    auc = max(look.auc for look in model.history_.validation_points)
    facts = {"nodes": graph.num_nodes, "edges": graph.num_edges, "disk_gb": size_of(path) / 1e9, "auc": auc}
    return {**facts, **times, "own_mb": peak.mb}


def trained(size: dict[str, Any], method: str, batch_size: int, steps: int, n_jobs: int) -> dict[str, Any]:
    """Take steps on a graph of this size; meant for a process of its own."""
    kind, options = LEARNED[method]
    model = kind(**options | {"batch_size": batch_size})
    with using_threads(n_jobs):
        _step_seconds(acm_like(0), model, 5)  # compiled code is loaded, which is no part of what is asked
        libraries = settled_mb()
        graph = graph_of(Size(**size))
        with_graph = settled_mb()
        seconds = _step_seconds(graph, model, steps)
    memory = {"graph_mb": with_graph - libraries, "training_mb": memory_mb("VmHWM") - with_graph}
    return {"edges": graph.num_edges, "nodes": graph.num_nodes, "step_seconds": seconds, **memory}


def _step_seconds(graph: Graph, model: GLACE, steps: int) -> float:
    """Least seconds of a step."""
    taking = staged(trainer_of(graph, model))
    return min(sum(taking.step(number).seconds.values()) for number in range(steps))


def _row(found: list[dict[str, Any]], batch_size: int) -> list[Any]:
    """The least of all turns."""
    least = {name: min(each[name] for each in found) for name in found[0]}
    seconds = least["step_seconds"]
    memory = [float(least[name]) for name in ("graph_mb", "training_mb", "peak_mb")]
    return [found[0]["edges"], found[0]["nodes"], 1e3 * seconds, 1e6 / batch_size * seconds, *memory]


if __name__ == "__main__":
    typer.run(main)
