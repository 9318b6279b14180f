"""Do time and memory of training depend on the size of the graph? `python -m benchmarks.scaling`

Each size trains in a process of its own, sizes in turn: from one row of the table to the next the edges and with them
the nodes grow, the degree, the attributes and the batch stay. What should not grow is the time of a step and the
memory that training adds to the graph's.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from benchmarks.common import (
    RESULTS,
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
from benchmarks.stages import staged, trainer_of
from glace.datasets.planted import planted
from glace.estimator.estimator import GLACE
from glace.experiment.methods import LEARNED
from glace.graph.graph import Graph
from glace.training.threads import using_threads


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
    """The graph of this size, in memory. A graph that is mapped from disk is to be opened here."""
    return planted(
        size.nodes, communities=50, degree=size.degree, attributes=size.attributes, words=size.words
    )


def main(
    edges: Annotated[list[int] | None, typer.Option(help="Edges of the graphs.")] = None,
    method: Annotated[str, typer.Option(help="A method of first-order proximity.")] = "glace",
    batch: Annotated[int, typer.Option(help="Edges a step.")] = 512,
    steps: Annotated[int, typer.Option(help="Steps that are timed for each graph.")] = 100,
    threads: Threads = 1,
    rounds: Rounds = 3,
    results: Results = RESULTS,
) -> None:
    """Train on graphs of every size in turn."""
    options = {"method": method, "batch": batch, "steps": steps, "threads": threads}
    report = Report("scaling", results, options)
    found: dict[int, list[dict[str, Any]]] = {}
    for number in in_turn(edges or [100_000, 1_000_000, 10_000_000], rounds, "sizes in turn"):
        measured = in_child("benchmarks.scaling:trained", edges=number, **options)
        report.note(asked="training", **measured)
        found.setdefault(number, []).append(measured)
    columns = ("edges", "nodes", "ms a step", "s a million edges", "graph MB", "training MB", "peak MB")
    title = f"Training of {method}, batches of {batch:,}, threads {threads}"
    report.table(title, columns, [_row(each, batch) for each in found.values()])


def trained(edges: int, method: str, batch: int, steps: int, threads: int) -> dict[str, Any]:
    """Take steps on a graph of so many edges; meant for a process of its own."""
    size, (kind, options) = Size(edges), LEARNED[method]
    model = kind(**options | {"batch": batch})
    with using_threads(threads):
        _step_seconds(acm_like(0), model, 5)  # compiled code is loaded, which is no part of what is asked
        libraries = settled_mb()
        graph = graph_of(size)
        with_graph = settled_mb()
        seconds = _step_seconds(graph, model, steps)
    memory = {"graph_mb": with_graph - libraries, "training_mb": memory_mb("VmHWM") - with_graph}
    return {"edges": graph.num_edges, "nodes": graph.num_nodes, "step_seconds": seconds, **memory}


def _step_seconds(graph: Graph, model: GLACE, steps: int) -> float:
    """Least seconds of a step."""
    taking = staged(trainer_of(graph, model))
    return min(sum(taking.step(number).seconds.values()) for number in range(steps))


def _row(found: list[dict[str, Any]], batch: int) -> list[Any]:
    """The least of all turns."""
    least = {name: min(each[name] for each in found) for name in found[0]}
    seconds = least["step_seconds"]
    memory = [float(least[name]) for name in ("graph_mb", "training_mb", "peak_mb")]
    return [found[0]["edges"], found[0]["nodes"], 1e3 * seconds, 1e6 / batch * seconds, *memory]


if __name__ == "__main__":
    typer.run(main)
