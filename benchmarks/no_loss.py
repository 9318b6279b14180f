"""What does the speed cost? `python -m benchmarks.no_loss`

The fast path, with a pool of negatives for the whole batch and the first layer's rows scaled one by one, beside the
plain one: negatives of each edge's own, and torch's Adam on all weights at every step. All else is the same: the model
with the options that trials start with (unless given), the steps, and the split of each seed.
"""

import statistics
import time
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, Threads, graph_of, in_turn
from benchmarks.time_to_quality import Way
from glace.config.config import Config
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.experiments.splits import Split, split_edges
from glace.fitted.state import embed_all
from glace.gaussian.embedding import Embedding
from glace.model.network import using_threads
from glace.rng import Streams
from glace.training.loop import Trainer
from glace.training.optimizer import BETAS, Optimizer
from glace.training.train import INITIAL, training_task

PATHS = ("plain", "fast")


class PlainAdam(Optimizer):
    """torch's Adam on all weights of a network, touched or not."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.adam = torch.optim.Adam(network.parameters(), betas=BETAS)

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        self.adam.zero_grad()

    def step(self, _number: int, learning_rate: float) -> None:
        """Move every weight."""
        for weight in self.adam.param_groups[0]["params"]:
            if weight.grad is not None:
                weight.grad = weight.grad.to_dense()
        self.adam.param_groups[0]["lr"] = learning_rate
        self.adam.step()


def main(
    dataset: Annotated[list[str] | None, typer.Option(help="cora-ml, dblp; `planted` needs no data.")] = None,
    option: Annotated[str, typer.Option(help='"NAME=VALUE ..." of the model.')] = "",
    seeds: Annotated[int, typer.Option(min=2, help="Splits and runs of each path.")] = 5,
    scale: Annotated[float, typer.Option(help="Size of `planted` against the paper's ACM graph.")] = 0.02,
    n_jobs: Threads = 1,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Train both paths on the same splits."""
    options = INITIAL | Way.of(f"glace {option}").options | {"n_jobs": n_jobs}
    report = Report("no_loss", results, {"options": options, "seeds": seeds})
    for name in dataset or ["cora-ml", "dblp"]:
        graph = graph_of(name, scale, data_dir)
        found: dict[str, list[dict[str, float]]] = {path: [] for path in PATHS}
        for seed, path in in_turn([(seed, path) for seed in range(seeds) for path in PATHS], 1, name):
            split = split_edges(graph, Streams(seed).numpy("split"))
            found[path].append(trained(path, split, options | {"random_state": seed}))
            report.note(dataset=name, graph=graph.fingerprint(), path=path, random_state=seed, **found[path][-1])
        show(report, f"{name}, {graph}, {seeds} seeds", found)


def trained(path: str, split: Split, options: dict[str, Any]) -> dict[str, float]:
    """One run to its end: how well it tells test edges, and its seconds."""
    settings = Config.of(options | ({} if path == "fast" else {"negative_sampling": "independent"}))
    began = time.perf_counter()
    with using_threads(settings.run.n_jobs):
        embedding = embedding_of(trainer_of(path, split, settings), split)
    seconds = time.perf_counter() - began
    auc, ap = link_prediction(embedding, split.test)
    return {"auc": auc, "ap": ap, "seconds": seconds}


def embedding_of(trainer: Trainer, split: Split) -> Embedding:
    """Train to the end, and embed the nodes of the training graph."""
    trainer.run()
    own, _ = embed_all(trainer.network, trainer.inputs, np.empty)
    return Embedding(split.train.ids, own.mean, own.variance, trainer.network.measure.name)


def trainer_of(path: str, split: Split, settings: Config) -> Trainer:
    """The run of this path."""
    measure = settings.model.resolved_dissimilarity(split.train.directed, gaussian=True)
    fitting = training_task(split.train, settings, measure, split.validation)
    if path == "fast":
        return fitting.trainer(settings)
    trainer = replace(fitting, compiled=False).trainer(settings)
    trainer.trained = [each._replace(optimizer=PlainAdam(each.branch)) for each in trainer.trained]
    return trainer


def show(report: Report, title: str, found: dict[str, list[dict[str, float]]]) -> None:
    """Mean and spread of both, and of their difference on the same split."""
    rows = []
    for name in ("auc", "ap"):
        values = {path: [100 * run[name] for run in runs] for path, runs in found.items()}
        differences = [fast - plain for plain, fast in zip(values["plain"], values["fast"], strict=True)]
        parts = [values["plain"], values["fast"], differences]
        rows.append((name.upper(), *(f"{statistics.mean(each):.2f} ± {statistics.stdev(each):.2f}" for each in parts)))
    seconds = [min(run["seconds"] for run in found[path]) for path in PATHS]
    rows.append(("seconds", *(f"{each:.0f}" for each in seconds), f"{seconds[0] / seconds[1]:.1f} times"))
    report.table(title, ("", *PATHS, "difference"), rows)


if __name__ == "__main__":
    typer.run(main)
