"""How much faster, smaller and better than the authors' algorithm? `python -m benchmarks.reference`

`speed`: edges per second, in turns in one process. `learning`: the AUC of test edges after the same numbers of drawn
edges, and the peak memory of graph, training and embedding, in a process each. The yardstick has no end in view, and is
looked at on its way; ours lets its learning rate fall to 0, and is trained anew to each number.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any

import typer

from benchmarks.common import (
    RESULTS,
    DataDir,
    Report,
    Results,
    Rounds,
    Scale,
    Threads,
    acm_like,
    graph_of,
    in_child,
    in_turn,
    interleaved,
)
from benchmarks.stages import take_steps, trainer_of
from benchmarks.yardstick import BATCH, HIDDEN, Yardstick
from glace.estimators import PublishedGLACE
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.experiments.splits import split_edges
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.model.network import using_threads
from glace.rng import Streams

SIDES = ("yardstick", "glace")
STEPS = 20
"""Steps of ours in a turn: a single one is too short to time beside one of the yardstick, and a few would not show that
batches are prepared beside the step before."""


@dataclass(frozen=True)
class Ours:
    """The options of our side; the model is that of the yardstick."""

    batch_size: int
    negative_pool_size: int
    hidden: int
    n_jobs: int

    def model(self, **options: Any) -> PublishedGLACE:
        """The published model with first-order proximity."""
        return PublishedGLACE(proximity="first", **vars(self), **options)


def main(
    scale: Scale = 1.0,
    batch_size: Annotated[int, typer.Option(help="Edges a step of our side.")] = 512,
    pool: Annotated[int, typer.Option(help="Negatives our batch shares.")] = 256,
    hidden: Annotated[int, typer.Option(help="Width of the hidden layer of both.")] = HIDDEN,
    planted_edges: Annotated[list[int] | None, typer.Option(help="Edges drawn from the planted graph.")] = None,
    edges: Annotated[list[int] | None, typer.Option(help="Edges drawn from the real graph.")] = None,
    dataset: Annotated[str, typer.Option(help="The real graph.")] = "cora-ml",
    ask: Annotated[list[str] | None, typer.Option(help="speed, learning; both by default.")] = None,
    side: Annotated[list[str] | None, typer.Option(help="Who learns: yardstick, glace; both by default.")] = None,
    n_jobs: Threads = 1,
    rounds: Rounds = 5,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Compare the package with the yardstick."""
    ours = Ours(batch_size, pool, hidden, n_jobs)
    report = Report("reference", results, {"scale": scale, **vars(ours)})
    asked = ask or ["speed", "learning"]
    if "speed" in asked:
        compare_speed(report, acm_like(scale), ours, rounds)
    if "learning" in asked:
        where = {"scale": scale, "data_dir": data_dir and str(data_dir)}
        for name, numbers in (("planted", planted_edges or [2048]), (dataset, edges or [16_384, 65_536, 262_144])):
            compare_learning(report, name, numbers, ours, where, side or [*SIDES])


def compare_speed(report: Report, graph: Graph, ours: Ours, rounds: int) -> None:
    """Edges per second of both, in turn."""
    yardstick, trainer, numbers = Yardstick(graph, hidden=ours.hidden), trainer_of(graph, ours.model()), count()

    def step_of_yardstick() -> None:
        with using_threads(ours.n_jobs, dense=True):
            yardstick.step(next(numbers))

    def steps_of_ours() -> None:
        with using_threads(ours.n_jobs):
            take_steps(trainer, STEPS)

    seconds = interleaved({"yardstick": step_of_yardstick, "glace": steps_of_ours}, rounds, "steps in turn")
    speeds = {"yardstick": BATCH / seconds["yardstick"], "glace": STEPS * ours.batch_size / seconds["glace"]}
    report.note(asked="speed", graph=repr(graph), edges_per_second=speeds)
    rows = [(side, speed, speed / speeds["yardstick"]) for side, speed in speeds.items()]
    report.table(f"Training on {graph}", ("side", "edges/s", "times"), rows)


def compare_learning(
    report: Report, name: str, edges: list[int], ours: Ours, where: dict[str, Any], sides: list[str]
) -> None:
    """Test AUC, seconds and peak memory of each side after each of these numbers of edges."""
    rows = []
    for side in in_turn(sides, 1, f"learning from {name}"):
        found = in_child(
            "benchmarks.reference:learned", name=name, side=side, edges=sorted(edges), where=where, options=vars(ours)
        )
        report.note(asked="learning", name=name, side=side, **found)
        rows += [(side, at["edges"], at["seconds"], f"{at['auc']:.4f}", found["peak_mb"]) for at in found["points"]]
    columns = ("side", "edges drawn", "seconds", "test AUC", "peak MB")
    report.table(f"Learning from {name}", columns, rows)


def learned(name: str, side: str, edges: list[int], where: dict[str, Any], options: dict[str, int]) -> dict[str, Any]:
    """Train one side on these numbers of edges of a graph; meant for a process of its own."""
    split, ours = split_edges(graph_of(name, **where), Streams(0).numpy("split")), Ours(**options)
    train = _yardstick if side == "yardstick" else _ours
    with using_threads(ours.n_jobs, dense=True):
        # Compiled code is read from disk first, which is no part of training.
        for _ in train(acm_like(0), [BATCH], ours):
            pass
        points = [
            {"edges": number, "seconds": seconds, "auc": link_prediction(embedding, split.test).auc}
            for number, seconds, embedding in train(split.train, edges, ours)
        ]
    return {"points": points}


Learned = Iterator[tuple[int, float, Embedding]]
"""Edges drawn, seconds of training, and what it has come to, for each of some numbers of edges."""


def _yardstick(graph: Graph, edges: list[int], ours: Ours) -> Learned:
    yardstick, seconds, done = Yardstick(graph, hidden=ours.hidden), 0.0, 0
    for number in edges:
        began = time.perf_counter()
        while done < max(number // BATCH, 1):
            yardstick.step(done)
            done += 1
        seconds += time.perf_counter() - began
        yield number, seconds, yardstick.embedding()


def _ours(graph: Graph, edges: list[int], ours: Ours) -> Learned:
    for number in edges:
        began = time.perf_counter()
        model = ours.model(max_steps=max(number // ours.batch_size, 1), validation_fraction=0.0).fit(graph)
        yield number, time.perf_counter() - began, model.embedding_


if __name__ == "__main__":
    typer.run(main)
