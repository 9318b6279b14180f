"""What is the variance worth? `python -m benchmarks.variance`

GLACE beside the same model with every variance held at 1. The symmetric KL is then half of the squared distance of two
means, so that nothing but the variance differs: LACE also has another measure, the dot product. With 128 dimensions
instead of 64, a node has as many numbers as with a variance. Everything else is the same: the options with which trials
start, the initial means, the batches, and the split of each seed.
"""

import statistics
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from benchmarks.common import RESULTS, DataDir, Report, Results, Threads, graph_of, in_turn
from benchmarks.no_loss import embedding_of, trainer_of
from benchmarks.time_to_quality import Way
from glace.config.config import Config
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.experiments.splits import Split, split_edges
from glace.model.layers import GaussianHead
from glace.model.network import Network, using_threads
from glace.rng import Streams
from glace.training.train import INITIAL

WAYS = {"learned": 1, "held at 1": 1, "held at 1, twice the dimensions": 2}
"""What becomes of the variance, and how often the dimensions are taken."""


def main(
    dataset: Annotated[
        list[str] | None, typer.Option(help="cora-ml, citeseer, dblp, pubmed; `planted` needs no data.")
    ] = None,
    option: Annotated[str, typer.Option(help='"NAME=VALUE ..." of the model.')] = "",
    seeds: Annotated[int, typer.Option(min=2, help="Splits and runs of each way.")] = 3,
    scale: Annotated[float, typer.Option(help="Size of `planted` against the paper's ACM graph.")] = 0.02,
    n_jobs: Threads = 1,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Train with and without a variance on the same splits."""
    options = INITIAL | Way.of(f"glace {option}").options | {"n_jobs": n_jobs}
    report = Report("variance", results, {"options": options, "seeds": seeds})
    rows = []
    for name in dataset or ["cora-ml", "citeseer", "dblp", "pubmed"]:
        graph = graph_of(name, scale, data_dir)
        found: dict[str, list[float]] = {way: [] for way in WAYS}
        for seed, way in in_turn([(seed, way) for seed in range(seeds) for way in WAYS], 1, name):
            split = split_edges(graph, Streams(seed).numpy("split"))
            scores = trained(way, split, options | {"random_state": seed})
            found[way].append(100 * scores["auc"])
            report.note(dataset=name, graph=graph.fingerprint(), way=way, random_state=seed, **scores)
        rows.append((name, *(f"{statistics.mean(each):.2f} ± {statistics.stdev(each):.2f}" for each in found.values())))
    report.table(f"AUC of links by what becomes of the variance, {seeds} splits", ("", *WAYS), rows)


def trained(way: str, split: Split, options: dict[str, Any]) -> dict[str, float]:
    """One run to its end: how well it tells test edges."""
    settings = Config.of(options)
    if WAYS[way] != 1:
        settings = Config.of(options | {"dim": WAYS[way] * settings.model.dim})
    with using_threads(settings.run.n_jobs):
        trainer = trainer_of("fast", split, settings)
        if way != "learned":
            hold_variance(trainer.network)
        embedding = embedding_of(trainer, split)
    auc, ap = link_prediction(embedding, split.test)
    return {"auc": auc, "ap": ap}


def hold_variance(network: Network) -> None:
    """Let every variance stay what weights of zero give: 1, plus the floor."""
    for head in network.modules():
        if isinstance(head, GaussianHead):
            with torch.no_grad():
                head.weight[:, head.dim :] = 0

            def without_variance(gradient: Tensor, dim: int = head.dim) -> Tensor:
                return torch.cat([gradient[..., :dim], torch.zeros_like(gradient[..., dim:])], -1)

            head.weight.register_hook(without_variance)  # type: ignore[no-untyped-call]
            head.bias.register_hook(without_variance)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    typer.run(main)
