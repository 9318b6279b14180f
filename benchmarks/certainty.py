"""Does certainty mean something? `python -m benchmarks.certainty`

A tenth of the edges is hidden, and the rest fitted with the defaults. Of each graph: errors of the pairs of the more
certain half of nodes over those of the other half, with non-edges drawn evenly and by degree; whether certainty and the
logit tell right answers from wrong ones; expected and found errors of nodes, edges among candidates and in lists, and
coverage of sets; and the share of nodes that become less certain when evidence of them is removed.
"""

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, Scale, Threads, graph_of, in_turn
from glace.estimators import GLACE
from glace.experiments.evaluation.uncertainty import certainty_scores
from glace.fitted.model import FittedModel
from glace.fitted.state import embed_all
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph, NodeAttributes, NodeType
from glace.graph.split import HeldOut, hold_out
from glace.ids import NodeIds
from glace.metrics import link_scores
from glace.queries.certainty import NodeFeatures
from glace.queries.pair_features import PairFeatures
from glace.rng import Streams
from glace.sparse import narrowed

HIDDEN = 0.1
PARTS = 10
COVERED = 500
"""Ends of hidden edges, at most, whose sets are looked at."""
SAMPLED = 1000
"""Nodes, and hidden edges, at most, whose candidates are looked at."""
REMOVED = {
    "half of the attributes": (0.5, 0),
    "all attributes": (1, 0),
    "half of the edges": (0, 0.5),
    "all edges": (0, 1),
}


def main(
    dataset: Annotated[list[str] | None, typer.Option(help="cora-ml, ...; `planted` needs no data.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Splits and runs.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Steps of each run; as many as it wants if not given.")] = None,
    dissimilarity: Annotated[str | None, typer.Option(help="Dissimilarity of the Gaussians.")] = None,
    scale: Scale = 0.02,
    n_jobs: Threads = 1,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Measure certainty and calibration."""
    report = Report(
        "certainty", results, {"seeds": seeds, "steps": steps, "n_jobs": n_jobs, "dissimilarity": dissimilarity}
    )
    names = dataset or ["cora-ml", "dblp", "pubmed"]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for name, seed in in_turn([(name, seed) for name in names for seed in range(seeds)], 1, "graphs"):
        graph = graph_of(name, scale, data_dir)
        options = {"random_state": seed, "max_steps": steps, "n_jobs": n_jobs, "dissimilarity": dissimilarity}
        values = links(graph, options)
        report.note(dataset=name, random_state=seed, **values)
        found[name].append(values)
    columns = list(next(iter(found.values()))[0])
    rows = [(name, *(_mean(runs, column) for column in columns)) for name, runs in found.items()]
    transposed = [(column, *(row[1 + place] for row in rows)) for place, column in enumerate(columns)]
    report.table("Means over seeds", ("", *names), transposed)


def _mean(runs: list[dict[str, Any]], name: str) -> str:
    return f"{np.mean([run[name] for run in runs]):.4f}"


def links(graph: Graph, options: dict[str, Any]) -> dict[str, float]:
    """What is certain of known nodes and their links."""
    train, hidden = hold_out(graph, HIDDEN, Streams(options["random_state"]).numpy("hidden edges"))
    model = GLACE(**options).fit(train)
    pairs, generator = hidden.pairs(), Streams(0).numpy("pairs")
    by_degree = _by_degree(graph, hidden.edges, generator)
    logits = model.embedding_.platt_scaling.logits(model.embedding_.dissimilarities_at(pairs))
    wrong = (logits > 0) != hidden.truth()
    certain = _of_pairs(model.embedding_, pairs)
    return {
        "test AUC": link_values_auc(model.embedding_, hidden),
        **{f"{name}, non-edges drawn evenly": value for name, value in halves(model.embedding_, hidden).items()},
        **{
            f"{name}, non-edges by degree": value
            for name, value in halves(model.embedding_, HeldOut(hidden.edges, by_degree)).items()
        },
        "AUROC of right answers by nodes": _auroc(certain, ~wrong),
        "AUROC of right answers by logit": _auroc(abs(logits), ~wrong),
        **by_variance(model.embedding_, hidden),
        "risk in any order": float(wrong.mean()),
        "risk over coverage by nodes": _mean_risk(certain, wrong),
        "risk over coverage by logit": _mean_risk(abs(logits), wrong),
        **errors_of_nodes(model.embedding_, graph, hidden, generator),
        **candidates(model.model_, hidden, generator),
        **lists(model.model_, hidden),
        **coverage(model.model_, hidden, generator),
        **removed(model, train),
    }


def link_values_auc(embedding: Embedding, pairs: HeldOut) -> float:
    """AUC of the Gaussians."""
    return link_scores(-embedding.dissimilarities_at(pairs.pairs()), pairs.truth()).auc


def halves(embedding: Embedding, pairs: HeldOut) -> dict[str, float]:
    """1 - AUC, and the share of wrong answers, of the more certain half of the pairs over that of the other half."""
    found: Any = certainty_scores(embedding, pairs, Streams(0).numpy("halves"))["error_of_halves"]
    logits = embedding.platt_scaling.logits(embedding.dissimilarities_at(pairs.pairs()))
    wrong, certain = (logits > 0) != pairs.truth(), _of_pairs(embedding, pairs.pairs())
    order = np.argsort(-certain, kind="stable")
    more, less = (float(wrong[part].mean()) for part in np.array_split(order, 2))
    return {
        "1 - AUC of certain over uncertain nodes": found["certain_nodes"] / found["uncertain_nodes"],
        "wrong answers of certain over uncertain nodes": more / less,
    }


def by_variance(embedding: Embedding, pairs: HeldOut) -> dict[str, float]:
    """Whether the variance marks errors: alone, and as what makes a logit smaller if both nodes are drawn at random.

    Of two draws, the dissimilarity has a variance. The moderated logit is divided by sqrt(1 + pi/8 of the variance of
    the logit), as in MacKay's approximation: wide nodes give answers near one half.
    """
    if embedding.variance is None:
        return {}
    both, truth = pairs.pairs(), pairs.truth()
    distances, width = embedding.dissimilarities_at(both), -embedding.mean_log_variance()[both].mean(axis=1)
    logits = embedding.platt_scaling.logits(distances)
    right = (logits > 0) == truth
    narrow, wide = np.array_split(np.argsort(-width, kind="stable"), 2)
    errors = [1 - link_scores(-distances[part], truth[part]).auc for part in (narrow, wide)]
    found = {
        "AUROC of right answers by narrowness": _auroc(width, right),
        "1 - AUC of narrow over wide nodes": errors[0] / errors[1],
    }
    if embedding.dissimilarity == "symmetric_kl":
        moderated = logits / np.sqrt(1 + np.pi / 8 * embedding.platt_scaling.slope**2 * _spread(embedding, both))
        found["AUROC of right answers by moderated logit"] = _auroc(abs(moderated), right)
    return found


def _spread(embedding: Embedding, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Variance of the symmetric KL dissimilarity of each pair, if its means are draws from both Gaussians."""
    assert embedding.variance is not None
    first, second = (embedding.variance[pairs[:, end]].astype(np.float64) for end in (0, 1))
    gap = embedding.mean[pairs[:, 0]].astype(np.float64) - embedding.mean[pairs[:, 1]]
    weight, total = (first + second) / (4 * first * second), first + second
    return np.asarray((weight**2 * (2 * total**2 + 4 * gap**2 * total)).sum(axis=1))


def _of_pairs(embedding: Embedding, pairs: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    assert embedding.certainty is not None
    return np.asarray(embedding.certainty[pairs].mean(axis=1))


def _by_degree(graph: Graph, edges: npt.NDArray[np.int64], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """As many non-edges as edges, whose ends are drawn by their number of edges."""
    ends = graph.edges().ravel()
    drawn = generator.choice(ends, (4 * len(edges), 2))
    return np.asarray(drawn[(drawn[:, 0] != drawn[:, 1]) & ~graph.has_edges(drawn)][: len(edges)])


def _auroc(scores: npt.NDArray[Any], truth: npt.NDArray[np.bool_]) -> float:
    return link_scores(scores, truth).auc


def _mean_risk(certain: npt.NDArray[Any], wrong: npt.NDArray[np.bool_]) -> float:
    """Mean share of wrong answers among the most certain ones, over all numbers of these."""
    order = np.argsort(-certain, kind="stable")
    return float((np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)).mean())


def errors_of_nodes(
    embedding: Embedding, graph: Graph, hidden: HeldOut, generator: np.random.Generator
) -> dict[str, float]:
    """Expected and found share of wrong answers about nodes: a hidden edge and a non-edge of each end."""
    assert embedding.expected_error is not None
    edges = np.concatenate([hidden.edges, hidden.edges[:, ::-1]])
    others = np.column_stack([edges[:, 0], generator.integers(graph.num_nodes, size=len(edges))])
    others = others[(others[:, 0] != others[:, 1]) & ~graph.has_edges(others)]
    pairs, truth = np.concatenate([edges, others]), np.repeat([True, False], [len(edges), len(others)])
    logits = embedding.platt_scaling.logits(embedding.dissimilarities_at(pairs))
    wrong, said = (logits > 0) != truth, embedding.expected_error[pairs[:, 0]]
    parts = np.array_split(np.argsort(said, kind="stable"), PARTS)
    gaps = [abs(float(said[part].mean() - wrong[part].mean())) for part in parts]
    return {
        "expected error": float(said.mean()),
        "found error": float(wrong.mean()),
        "gap by tenths of nodes": float(np.mean(gaps)),
        "largest gap": max(gaps),
    }


def candidates(model: FittedModel, hidden: HeldOut, generator: np.random.Generator) -> dict[str, float]:
    """How far the link model's probabilities are from what is found, on as many hidden edges as other candidates."""
    link, graph = model.link_model, model.graph
    if link is None or graph is None or not link.candidate_recall:
        return {}
    pairs, count = PairFeatures(model.embedding, graph, link.names), len(model.embedding)
    nodes = generator.permutation(count)[:SAMPLED]
    sources = np.union1d(nodes, hidden.edges[:SAMPLED].ravel())
    targets, features = pairs.candidates(sources)
    row, place = np.nonzero(targets >= 0)
    found = np.column_stack([sources[row], targets[row, place]])
    scores = link.scores(features[row, place])
    keys = {*map(tuple, hidden.edges.tolist()), *map(tuple, hidden.edges[:, ::-1].tolist())}
    truth = np.array([pair in keys for pair in map(tuple, found.tolist())])
    others = np.flatnonzero(~truth & np.isin(found[:, 0], nodes))
    edges = np.flatnonzero(truth)
    # The odds are those of an edge among all candidates; here there are as many edges as others.
    both = len(others) / len(nodes) * count / (link.candidate_recall * (1 if graph.directed else 2))
    drawn = np.concatenate([edges, generator.choice(others, len(edges))])
    odds = np.exp(link.log_odds(scores[drawn])) / link.reference_edges * both
    said = odds / (1 + odds)
    parts = np.array_split(np.argsort(said, kind="stable"), PARTS)
    gaps = [abs(float(said[part].mean() - truth[drawn][part].mean())) for part in parts]
    return {"gap by tenths of candidates": float(np.mean(gaps))}


def lists(model: FittedModel, hidden: HeldOut) -> dict[str, float]:
    """Expected and found number of edges in lists as long as a quarter of the hidden edges, as all, and four times."""
    assert model.graph is not None
    missing = len(hidden.edges)
    fraction = missing / (model.graph.num_edges + missing)
    proposed = model.links(k=4 * missing, missing_edge_fraction=fraction)
    pairs = model.embedding.positions_of(list(zip(proposed.source.tolist(), proposed.target.tolist(), strict=True)))
    keys = {frozenset(pair) for pair in hidden.edges.tolist()}
    right = np.array([frozenset(pair) in keys for pair in pairs.tolist()])
    found = {}
    for name, length in (("M/4", missing // 4), ("M", missing), ("4M", 4 * missing)):
        found[f"expected edges among {name} links"] = float(proposed.probability[:length].sum())
        found[f"found edges among {name} links"] = float(right[:length].sum())
    return found


def coverage(model: FittedModel, hidden: HeldOut, generator: np.random.Generator) -> dict[str, float]:
    """Share of hidden edges that are in the set of their first end, and the sizes of the sets."""
    ends = np.concatenate([hidden.edges, hidden.edges[:, ::-1]])
    ends = ends[generator.permutation(len(ends))[:COVERED]]
    ids, found = model.embedding.ids, {}
    for wanted in (0.8, 0.9):
        sets = [set(model.links(ids[source], coverage=wanted).target.tolist()) for source in ends[:, 0].tolist()]
        held = [ids[target] in each for target, each in zip(ends[:, 1].tolist(), sets, strict=True)]
        found[f"coverage, {wanted} wanted"] = float(np.mean(held))
        found[f"nodes in a set of {wanted}"] = float(np.median([len(each) for each in sets]))
    return found


def removed(model: GLACE, graph: Graph) -> dict[str, float]:
    """The share of nodes that are less certain without some of their evidence, of those that have it."""
    ordered, _ = graph.in_id_order()
    if not ordered.has_attributes or ordered.node_types is not None:
        return {}
    whole = sp.csr_array(ordered.attributes), ordered.neighborhoods()
    before, generator = without(model, ordered, *whole), Streams(0).numpy("removed")
    found = {}
    for what, shares in REMOVED.items():
        less = [thinned(matrix, share, generator) for matrix, share in zip(whole, shares, strict=True)]
        touched = np.any([np.diff(a.indptr) < np.diff(b.indptr) for a, b in zip(less, whole, strict=True)], axis=0)
        for name, old, new in zip(("less certain", "wider"), before, without(model, ordered, *less), strict=True):
            found[f"{name} without {what}"] = float((new > old)[touched].mean())
    return found


def without(model: GLACE, graph: Graph, own: sp.csr_array, edges: sp.csr_array) -> tuple[npt.NDArray[Any], ...]:
    """Expected errors (n,) and log-variances (n,) of nodes that have these attributes and edges, among neighbours that
    are as they were."""
    count, fitted = graph.num_nodes, model.model_
    rows = narrowed(sp.csr_array(sp.vstack([sp.csr_array(graph.attributes), own], dtype=np.float32)))
    none = sp.csr_array((count, count), dtype=np.float32)
    joined = narrowed(sp.csr_array(sp.block_array([[graph.neighborhoods(), none], [edges, none]]), dtype=np.float32))
    joined.sort_indices()
    nodes, context = embed_all(fitted.network, fitted.network.inputs([rows], joined), np.empty)
    ids, center = NodeIds.numbered(2 * count), fitted.certainty_model.center
    both = replace(
        fitted.embedding, ids=ids, mean=nodes.mean, variance=nodes.variance, context=context, expected_error=None,
        certainty=None,
    )  # fmt: skip
    doubled = replace(
        graph, ids=ids, adjacency=joined, node_attributes=NodeAttributes((NodeType("", 2 * count, rows),)), labels=None
    )
    first = np.arange(count)
    original = NodeFeatures(both.take(first), graph, center)
    features = NodeFeatures(both, doubled, center)
    vars(features).update(_reference=original._reference, _usual_loss=original._usual_loss)
    width = np.zeros(count) if both.variance is None else both.mean_log_variance()[count:]
    return fitted.certainty_model.of_features(features.of(count + first)), width


def thinned(matrix: sp.csr_array, share: float, generator: np.random.Generator) -> sp.csr_array:
    """Without a share of the entries, drawn one by one."""
    entries = sp.coo_array(matrix)
    kept = generator.random(entries.nnz) >= share
    some = (entries.data[kept], (entries.row[kept], entries.col[kept]))
    return sp.csr_array(some, shape=matrix.shape)


if __name__ == "__main__":
    typer.run(main)
