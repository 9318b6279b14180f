"""How long until the answer is good? `python -m benchmarks.time_to_quality`

Every method trains with its defaults on the same split, judged by the same validation edges. The clock runs from the
start of the fit, with all that belongs to it: trials of options and the looks at the validation edges. A trial's
weights are a model too, so an AUC that a trial has reached counts as reached. No time is finer than the looks are:
"glace validate_every=10" looks more often than every 100 steps. Rounds repeat the same runs, methods in turn; seconds
are the least.
"""

import time
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, Rounds, Threads, acm_like, graph_of, in_turn
from benchmarks.yardstick import Yardstick
from glace.experiments.baselines.method import Descent
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.experiments.methods import LEARNED, Learned, make
from glace.experiments.splits import Split, split_edges
from glace.gaussian.embedding import Embedding
from glace.metrics import LinkScores
from glace.model.network import using_threads
from glace.options import number_or_word
from glace.rng import Streams

SHARES = (0.9, 0.95, 0.97, 0.99, 0.999)
GOALS = (0.9, 0.95, 0.97, 0.98)
METHODS = ("line", "graph2gauss", "lace", "glace-published", "glace")
YARDSTICK = "yardstick"
LOOK_EVERY, PATIENCE = 100, 10
"""Steps of the yardstick between validations, and validations without a better AUC that end it."""

Curve = list[tuple[float, float]]
"""(seconds since the start, validation AUC) of each look."""


@dataclass(frozen=True)
class Way:
    """A method with some of its options set."""

    method: str
    options: dict[str, Any]

    @classmethod
    def of(cls, text: str) -> "Way":
        """From "METHOD NAME=VALUE ..."; values are numbers where they look so."""
        method, *options = text.split()
        return cls(
            method, {name: number_or_word(value) for name, _, value in (each.partition("=") for each in options)}
        )

    @property
    def text(self) -> str:
        """Back to one line."""
        return " ".join([self.method, *(f"{name}={value}" for name, value in self.options.items())])


def main(
    dataset: Annotated[
        list[str] | None, typer.Option(help="cora-ml, dblp, wordnet, debian; `planted` needs no data.")
    ] = None,
    way: Annotated[list[str] | None, typer.Option(help='"METHOD OPTION=VALUE ...", or `yardstick`.')] = None,
    scale: Annotated[float, typer.Option(help="Size of `planted` against the paper's ACM graph.")] = 0.02,
    n_jobs: Threads = 1,
    rounds: Rounds = 3,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Train every method on every graph, and tell when it was how good."""
    report = Report("time_to_quality", results, {"n_jobs": n_jobs, "rounds": rounds})
    for name in dataset or ["cora-ml", "dblp", "wordnet", "debian"]:
        graph = graph_of(name, scale, data_dir)
        split = split_edges(graph, Streams(0).numpy("split"))
        ways = [Way.of(each) for each in way or [*METHODS, *[YARDSTICK] * (name == "cora-ml")]]
        for each in ways:  # compiled code is read from disk before the clock runs
            _run(each, split_edges(acm_like(0), Streams(0).numpy("split")), n_jobs, brief=True)
        found: dict[str, list[dict[str, Any]]] = {}
        for each in in_turn(ways, rounds, f"methods in turn on {name}"):
            run = _run(each, split, n_jobs)
            report.note(dataset=name, graph=graph.fingerprint(), way=each.text, **run)
            found.setdefault(each.text, []).append(run)
        show(report, f"{name}, {graph}", found)


def _run(way: Way, split: Split, n_jobs: int, brief: bool = False) -> dict[str, Any]:
    """The curve of one run, its seconds in all, and how good it is in the end."""
    began = time.perf_counter()
    with using_threads(n_jobs, dense=True):
        if way.method == YARDSTICK:
            embedding, curve = _yardstick(split, brief)
        else:
            embedding, curve = _method(way, split, n_jobs, brief)
    seconds = time.perf_counter() - began
    test = link_prediction(embedding, split.test).auc
    return {"seconds": seconds, "validation_auc": max(auc for _, auc in curve), "auc": test, "curve": curve}


def _method(way: Way, split: Split, n_jobs: int, brief: bool) -> tuple[Embedding, Curve]:
    shorter: dict[str, Any] = {"max_steps": 2} if brief else {}
    own: dict[str, Any] = {"n_jobs": n_jobs} if way.method in LEARNED else {}
    method = make(way.method, own | way.options | shorter)
    curve: Curve = [] if isinstance(method, Learned) else watched(method)
    embedding = method.embed(split.train, Streams(0), validation=split.validation)
    if isinstance(method, Learned):
        curve += [(seconds, auc) for seconds, auc in method.curve]
    return embedding, curve


def watched(method: Any) -> Curve:
    """Return a list that fills with [seconds, AUC] of each validation while a baseline trains."""
    assert isinstance(method, Descent), f"{method.name} does not train step by step"
    curve: Curve = []
    began, train = time.perf_counter(), method.train

    def train_and_note(network: Any, loss: Any, validate: Any) -> Any:
        def validate_and_note() -> LinkScores:
            scores: LinkScores = validate()
            curve.append((time.perf_counter() - began, scores.auc))
            return scores

        return train(network, loss, validate_and_note)

    vars(method)["train"] = train_and_note
    return curve


def _yardstick(split: Split, brief: bool) -> tuple[Embedding, Curve]:
    """Train until `PATIENCE` validations found nothing better; the best weights count."""
    began = time.perf_counter()
    yardstick, curve, best, number = Yardstick(split.train), Curve(), None, 0
    while _since_best(curve) < PATIENCE and not (brief and curve):
        for _ in range(2 if brief else LOOK_EVERY):
            yardstick.step(number)
            number += 1
        embedding = yardstick.embedding()
        curve.append((time.perf_counter() - began, link_prediction(embedding, split.validation).auc))
        best = embedding if best is None or _since_best(curve) == 0 else best
    assert best is not None
    return best, curve


def _since_best(curve: Curve) -> int:
    return 0 if not curve else len(curve) - 1 - max(range(len(curve)), key=lambda place: curve[place][1])


def seconds_to(runs: list[dict[str, Any]], goal: float) -> float | None:
    """Least over the runs of when the validation AUC was first at the goal or above; None if never."""
    first = [next((seconds for seconds, auc in run["curve"] if auc >= goal), None) for run in runs]
    return min((seconds for seconds in first if seconds is not None), default=None)


def show(report: Report, title: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """The table of the runs of each way on one graph; the last column is what the yardstick comes to, if it ran."""
    plateau = [runs[0]["validation_auc"] for runs in [found.get(YARDSTICK)] if runs]
    names = [*(f"{100 * share:g} %" for share in SHARES), *(f"{goal:g}" for goal in GOALS)]
    columns = ["way", "test AUC", "its best", "seconds", *names, *["yardstick's best"] * len(plateau)]
    rows = []
    for name, runs in found.items():
        best = runs[0]["validation_auc"]
        goals = [*(share * best for share in SHARES), *GOALS, *plateau]
        own = [f"{runs[0]['auc']:.4f}", f"{best:.4f}", min(run["seconds"] for run in runs)]
        rows.append([name, *own, *(seconds_to(runs, goal) for goal in goals)])
    report.table(f"{title}: seconds until shares of its own best, and until AUCs", columns, rows)


if __name__ == "__main__":
    typer.run(main)
