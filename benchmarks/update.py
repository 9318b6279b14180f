"""What does an update save, and what does it cost? `python -m benchmarks.update`

A tenth of the nodes arrive later. A model fitted on the other nodes is updated with the whole graph except a fifth of
the new nodes' edges, and compared with a new fit on the same graph. The score is the AUC of the held-out edges against
as many non-edges of new nodes.
"""

import time
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, Scale, Threads, graph_of, in_turn
from glace.estimators import GLACE
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.rng import Streams
from glace.training.update import compare, update

NEW, HELD_OUT = 0.1, 0.2


def main(
    dataset: Annotated[str, typer.Option(help="The graph; `planted` needs no data.")] = "cora-ml",
    drift_penalty: Annotated[list[float] | None, typer.Option(help="Penalties to try; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Choices of the new nodes.")] = 3,
    steps: Annotated[int | None, typer.Option(help="Steps of each fit; as many as it wants if not given.")] = None,
    scale: Scale = 0.02,
    n_jobs: Threads = 1,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Compare updates with a new fit."""
    report = Report("update", results, {"dataset": dataset, "n_jobs": n_jobs})
    graph, penalties = graph_of(dataset, scale, data_dir), drift_penalty or [0.0, 0.1, 1.0]
    found: dict[str, list[dict[str, float]]] = {}
    for seed in in_turn(list(range(seeds)), 1, "choices of new nodes"):
        for name, values in compared(graph, penalties, {"random_state": seed, "max_steps": steps, "n_jobs": n_jobs}):
            report.note(random_state=seed, way=name, **values)
            found.setdefault(name, []).append(values)
    columns = ("AUC of new edges", "seconds", "kept neighbours", "moved (median)")
    rows = [(name, *(f"{np.mean([run[key] for run in runs]):.4g}" for key in KEYS)) for name, runs in found.items()]
    report.table(f"{dataset}, {graph}: means of {seeds} choices", ("", *columns), rows)


KEYS = ("auc", "seconds", "kept", "moved")


def compared(graph: Graph, penalties: list[float], options: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    """A new fit, then an update with each penalty."""
    generator = Streams(options["random_state"]).numpy("new nodes")
    is_new = np.zeros(graph.num_nodes, np.bool_)
    is_new[generator.permutation(graph.num_nodes)[: round(NEW * graph.num_nodes)]] = True
    later, held_out = parted(graph, is_new, generator)
    began = time.perf_counter()
    anew = GLACE(**options).fit(later)
    seconds = time.perf_counter() - began
    nothing = {"kept": float("nan"), "moved": float("nan")}
    found = [("new fit", {"auc": link_prediction(anew.embedding_, held_out).auc, "seconds": seconds, **nothing})]
    for penalty in penalties:
        model = GLACE(**options).fit(graph.take(np.flatnonzero(~is_new)))
        began = time.perf_counter()
        before = model.model_
        after = update(before, later, drift_penalty=penalty)
        seconds, report = time.perf_counter() - began, compare(before, after)
        auc = link_prediction(after.embedding, held_out).auc
        values = {"auc": auc, "seconds": seconds, "kept": report.kept_neighbors, "moved": report.drift_median}
        found.append((f"updated, drift penalty {penalty:g}", values))
    return found


def parted(graph: Graph, is_new: Any, generator: np.random.Generator) -> tuple[Graph, HeldOut]:
    """The graph without some edges of new nodes, and these with as many pairs of a new node that are no edges."""
    edges, weights = graph.edges_and_weights()
    of_new = np.flatnonzero(is_new[edges].any(axis=1))
    gone = np.zeros(len(edges), np.bool_)
    gone[generator.permutation(of_new)[: round(HELD_OUT * len(of_new))]] = True
    new = np.flatnonzero(is_new)
    pairs = np.column_stack(
        [generator.choice(new, 10 * gone.sum()), generator.integers(graph.num_nodes, size=10 * gone.sum())]
    )
    apart = pairs[(pairs[:, 0] != pairs[:, 1]) & ~graph.has_edges(pairs) & ~graph.has_edges(pairs[:, ::-1])]
    return graph.with_edges(edges[~gone], weights[~gone]), HeldOut(edges[gone], apart[: gone.sum()])


if __name__ == "__main__":
    typer.run(main)
