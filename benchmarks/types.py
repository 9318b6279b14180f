"""What are types of nodes worth? `python -m benchmarks.types`

A graph of two types, things and the kinds they are of, is learned with its types and as if its nodes were of one: all
attributes in one matrix, side by side or, as both are words, in the columns of one vocabulary. The latter is tried with
several options. What it can see of its own are edges against pairs of any nodes; all are judged by the same edges
against pairs of a thing and a kind. Then a tenth of the nodes of both types is hidden, and embedded from attributes.
"""

from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

from benchmarks.common import RESULTS, Report, Results, Threads, in_turn
from glace.datasets.registry import load
from glace.estimators import GLACE
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.experiments.splits import Induction, Split, hide_nodes, split_edges
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, sample_non_edges
from glace.rng import Streams

HIDDEN = 0.1
TYPED = "with types"
AUTO = "one type"
OPTIONS: dict[str, dict[str, Any]] = {
    AUTO: {},
    "one type, negatives by degree": {"negative_power": 0.75},
    "one type, no neighbours": {"neighbor_features": "none", "dropout": 0.0},
    "one type, no neighbours, negatives by degree": {
        "neighbor_features": "none",
        "dropout": 0.0,
        "negative_power": 0.75,
    },
    "one type, no dropout": {"neighbor_features": "mean", "dropout": 0.0},
    "one type, dropout": {"neighbor_features": "mean", "dropout": 0.5},
}
VOCABULARY = "one type, one vocabulary"


def main(
    dim: Annotated[int, typer.Option(min=1, help="Dimensions; 2 are a map.")] = 2,
    seeds: Annotated[int, typer.Option(min=1, help="Splits and runs.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Most steps of each run.")] = 1000,
    n_jobs: Threads = 1,
    auto: Annotated[bool, typer.Option("--auto", help="One type with its own choice of options only.")] = False,
    results: Results = RESULTS,
) -> None:
    """Compare nodes with types with nodes of one."""
    size = {"dim": dim, "ensemble_size": min(dim, 4) if dim > 4 else 1, "max_steps": steps, "n_jobs": n_jobs}
    report = Report("types", results, {"dim": dim, "seeds": seeds, "steps": steps, "n_jobs": n_jobs})
    graph = load("wordnet-kinds")
    names = [TYPED, AUTO] if auto else [TYPED, *OPTIONS, VOCABULARY]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for seed, name in in_turn([(seed, name) for seed in range(seeds) for name in names], 1, "runs"):
        values = links(graph, name, seed, {**size, "random_state": seed})
        report.note(treatment=name, random_state=seed, **values)
        found[name].append(values)
    report.table(
        "AUC of held-out edges, means over seeds",
        ("", "against pairs of the edges' types", "by seed", "as it was judged in training"),
        [_row(name, runs) for name, runs in found.items()],
    )
    report.table("What types add", ("over", "points", "by seed"), gains(found))
    hidden(graph, seeds, size, report)


def _row(name: str, runs: list[dict[str, float]]) -> tuple[str, ...]:
    test = [100 * run["auc"] for run in runs]
    own = np.mean([100 * run["own_auc"] for run in runs])
    return name, f"{np.mean(test):.2f}", " ".join(f"{each:.2f}" for each in test), f"{own:.2f}"


def gains(found: dict[str, list[dict[str, float]]]) -> list[tuple[str, str, str]]:
    """By how much types are above nodes of one type: by its own choice, the best as it sees it, the best of all."""
    typed = np.array([run["auc"] for run in found[TYPED]])
    others = {name: runs for name, runs in found.items() if name != TYPED}
    auc = np.array([[run["auc"] for run in runs] for runs in others.values()])
    own = np.array([[run["own_auc"] for run in runs] for runs in others.values()])
    seeds = np.arange(len(typed))
    rivals = {
        "one type": np.array([run["auc"] for run in found[AUTO]]),
        "the options that one type is best with as it is judged in training": auc[own.argmax(axis=0), seeds],
        "the options that one type is best with on the very pairs of the test": auc.max(axis=0),
    }
    return [
        (name, f"{100 * (typed - rival).mean():.2f}", " ".join(f"{100 * each:.2f}" for each in typed - rival))
        for name, rival in rivals.items()
    ]


def links(graph: Graph, name: str, seed: int, options: dict[str, Any]) -> dict[str, float]:
    """AUC of the test's pairs, and of those that training was judged by."""
    split = split_edges(graph, Streams(seed).numpy("split"))
    train, validation = treated(graph, split, name, seed)
    model = GLACE(**options, **OPTIONS.get(name, {})).fit(train, validation=validation)
    assert model.history_.best is not None
    return {
        "auc": link_prediction(model.embedding_, split.test).auc,
        "own_auc": model.history_.best.auc,
        "seconds": round(model.history_.seconds, 1),
    }


def treated(graph: Graph, split: Split, name: str, seed: int) -> tuple[Graph, HeldOut]:
    """What is trained on and judged by: who knows no types has pairs of any nodes to tell edges from."""
    if name == TYPED:
        return split.train, split.validation
    edges = split.validation.edges
    single = graph.of_one_type()
    apart = sample_non_edges(single, len(edges), Streams(seed).numpy("pairs of any nodes"))
    train = one_vocabulary(split.train) if name == VOCABULARY else split.train.of_one_type()
    return train, HeldOut(edges, apart)


def one_vocabulary(graph: Graph) -> Graph:
    """The graph of one type in which equal words are the same column."""
    words = [
        part.pipeline.vocabulary.words for part in graph.by_type().types if part.pipeline and part.pipeline.vocabulary
    ]
    both = sorted({word for some in words for word in some})
    place = {word: column for column, word in enumerate(both)}
    columns = np.array([place[word] for some in words for word in some])
    rows = sp.coo_array(graph.features())
    shape = (graph.num_nodes, len(both))
    joined = sp.csr_array((rows.data, (rows.row, columns[rows.col])), shape=shape, dtype=np.float32)
    return graph.of_one_type().with_attributes(joined)


def hidden(graph: Graph, seeds: int, size: dict[str, Any], report: Report) -> None:
    """AUC of the pairs of hidden nodes of each type, embedded from attributes alone."""
    assert graph.node_types is not None
    found: dict[tuple[str, str], list[float]] = {}
    for seed in in_turn(range(seeds), 1, "hidden nodes"):
        part = hide_nodes(graph, HIDDEN, Streams(seed).numpy("hidden nodes"))
        for treatment in (TYPED, AUTO):
            embedding = unseen(part, treatment, {**size, "random_state": seed, "purpose": "nodes"})
            for code, name in enumerate(graph.node_types.names):
                auc = link_prediction(embedding, of_type(part, graph.node_types.codes, code)).auc
                report.note(treatment=treatment, random_state=seed, hidden=name, auc=auc)
                found.setdefault((treatment, name), []).append(100 * auc)
    rows = [
        (f"{treatment}, a hidden {name}", f"{np.mean(each):.2f}", " ".join(f"{auc:.2f}" for auc in each))
        for (treatment, name), each in found.items()
    ]
    report.table("AUC of pairs with a node never seen", ("", "mean", "by seed"), rows)


def unseen(part: Induction, treatment: str, options: dict[str, Any]) -> Embedding:
    """The visible nodes, then the hidden ones by their attributes."""
    if treatment == TYPED:
        model = GLACE(**options).fit(part.visible)
        new = model.transform(part.hidden)
    else:
        model = GLACE(**options).fit(part.visible.of_one_type())
        new = model.transform(part.hidden.side_by_side())
    known = model.embedding_
    assert known.variance is not None
    assert new.variance is not None
    means, variances = np.vstack([known.mean, new.mean]), np.vstack([known.variance, new.variance])
    ids = part.visible.ids.numbered(len(means))
    return Embedding(ids, means, variances, known.dissimilarity, known.platt_scaling)


def of_type(part: Induction, codes: Any, code: int) -> HeldOut:
    """The pairs in which a node of this type is hidden."""

    def kept(pairs: Any) -> Any:
        is_one = (pairs >= part.visible.num_nodes) & (codes[part.order[pairs]] == code)
        return pairs[is_one.any(axis=1)]

    return HeldOut(kept(part.test.edges), kept(part.test.non_edges))


if __name__ == "__main__":
    typer.run(main)
