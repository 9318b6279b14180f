"""The tables and figures of the paper as lists of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glace.errors import InputError
from glace.experiments.methods import METHODS
from glace.experiments.record_file import key_of
from glace.experiments.tasks import SPLITTING, Evaluation

CITATIONS = ("cora-ml", "citeseer", "dblp", "pubmed")
LARGER = ("wordnet", "debian")
PLAIN = tuple(name for name in METHODS if not name.endswith(("-first", "-second")))


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: its task, and the default datasets, methods, seeds and hidden shares."""

    task: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    hidden_shares: tuple[float | None, ...] = (None,)


EXPERIMENTS = {
    "table-2": Experiment("link-prediction", (*CITATIONS, *LARGER), METHODS, 3),
    "table-3": Experiment(
        "induction",
        CITATIONS,
        ("attributes", "graphsage", "graph2gauss", "lace", "glace-published", "glace"),
        3,
        (0.1, 0.5),
    ),
    "figure-1": Experiment("node-classification", CITATIONS, PLAIN, 1),
    "figure-2": Experiment("convergence", (*CITATIONS, *LARGER), ("line", "lace", "glace-published", "glace"), 1),
    "figure-3": Experiment(
        "visualization",
        CITATIONS,
        tuple(name for name in PLAIN if name != "deepwalk"),  # its picture is that of node2vec
        1,
    ),
    "uncertainty": Experiment("uncertainty", CITATIONS, ("graph2gauss", "glace-published", "glace"), 1),
}


@dataclass(frozen=True)
class Run:
    """One evaluation of one dataset."""

    dataset: str
    evaluation: Evaluation

    def record(self) -> dict[str, object]:
        """Return the fields of a record that identify the run."""
        wanted = self.evaluation
        return {
            "task": wanted.task,
            "dataset": self.dataset,
            "method": wanted.method,
            "seed": wanted.seed,
            "split": wanted.split.name if wanted.split else "random",
            "hidden_share": wanted.hidden_share,
        }

    def key(self) -> tuple[object, ...]:
        """Return what identifies the run, as `key_of` its record does."""
        return key_of(self.record())

    def text(self) -> str:
        """Describe the run in one line."""
        share = self.evaluation.hidden_share
        hidden = "" if share is None else f", {share:.0%} hidden"
        return f"{self.evaluation.task} {self.dataset} {self.evaluation.method}{hidden}, seed {self.evaluation.seed}"


def runs(
    names: Sequence[str],
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    split: Path | None = None,
) -> list[Run]:
    """Return the runs of these experiments without repetition; arguments replace the defaults of each experiment."""
    _check(names, methods, seeds)
    found: dict[tuple[object, ...], Run] = {}
    # Seeds are the outer loop: an interrupted grid then has some runs of every kind.
    for seed in range(seeds or max(EXPERIMENTS[name].seeds for name in names)):
        for name in names:
            experiment = EXPERIMENTS[name]
            if seeds is None and seed >= experiment.seeds:
                continue
            for run in _of(experiment, datasets, methods, seed, split):
                found.setdefault(run.key(), run)
    return list(found.values())


def _of(
    experiment: Experiment, datasets: Sequence[str] | None, methods: Sequence[str] | None, seed: int, split: Path | None
) -> list[Run]:
    used = split if experiment.task in SPLITTING else None
    return [
        Run(dataset, Evaluation(experiment.task, method, seed, None, used, share))
        for dataset in datasets or experiment.datasets
        for method in methods or experiment.methods
        for share in experiment.hidden_shares
    ]


def _check(names: Sequence[str], methods: Sequence[str] | None, seeds: int | None) -> None:
    for kind, given, known in (("experiment", names, EXPERIMENTS), ("method", methods or (), METHODS)):
        for each in given:
            if each not in known:
                raise InputError(f"there is no {kind} {each!r}; choose from {', '.join(known)}")
    if seeds is not None and seeds < 1:
        raise InputError(f"the number of seeds must be at least 1, not {seeds}")
