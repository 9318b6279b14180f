"""Does certainty mean something? `python -m benchmarks.certainty`

Of each graph: 1 - AUC of held-out pairs in the more and in the less certain half, by the certainty of their nodes and
of the answers; what the probabilities are worth; the share of nodes that become less certain when evidence of them is
removed; and, with a tenth of the nodes hidden, how much stranger than these nodes of random attributes are.
"""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, Scale, Threads, graph_of, in_turn
from glace.estimators import GLACE
from glace.experiments.evaluation.link_prediction import link_values
from glace.experiments.evaluation.uncertainty import certainty_scores
from glace.experiments.splits import hide_nodes, split_edges
from glace.fitted.state import embed_all
from glace.graph.graph import Graph
from glace.queries.certainty import HIGH, evidence
from glace.rng import Streams
from glace.sparse import narrowed

HIDDEN = 0.1
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
    scale: Scale = 0.02,
    n_jobs: Threads = 1,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Measure certainty, calibration and novelty."""
    report = Report("certainty", results, {"seeds": seeds, "steps": steps, "n_jobs": n_jobs})
    names = dataset or ["cora-ml", "dblp", "pubmed"]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for name, seed in in_turn([(name, seed) for name in names for seed in range(seeds)], 1, "graphs"):
        graph, options = (graph_of(name, scale, data_dir), {"random_state": seed, "max_steps": steps, "n_jobs": n_jobs})
        values = {**links(graph, options), **novelty(graph, options)}
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
    split = split_edges(graph, Streams(options["random_state"]).numpy("split"))
    model = GLACE(**options).fit(split.train, validation=split.validation)
    values = link_values(model.embedding_, split)
    halves: Any = certainty_scores(model.embedding_, split.test, Streams(0).numpy("halves"))["error_of_halves"]
    errors = {f"error of the {name.replace('_', ' ')}": value for name, value in halves.items()}
    ratios = {
        f"ratio by {what}": halves[f"certain_{what}"] / halves[f"uncertain_{what}"] for what in ("nodes", "answers")
    }
    return {
        "test AUC": values["auc"],
        **errors,
        **ratios,
        "calibration error": values["calibration_error"],
        "Brier score": values["brier"],
        **removed(model, split.train),
    }


def removed(model: GLACE, graph: Graph) -> dict[str, float]:
    """The share of nodes that are less certain without some of their evidence, of those that have it."""
    ordered, _ = graph.in_id_order()
    whole = sp.csr_array(ordered.attributes), ordered.neighborhoods()
    before, generator = certainty_of(model, *whole, *whole), Streams(0).numpy("removed")
    found = {}
    for what, shares in REMOVED.items():
        less = [thinned(matrix, share, generator) for matrix, share in zip(whole, shares, strict=True)]
        touched = np.any([np.diff(a.indptr) < np.diff(b.indptr) for a, b in zip(less, whole, strict=True)], axis=0)
        touched &= before > before.min()  # the least certain cannot be less so
        found[f"less certain without {what}"] = float((certainty_of(model, *whole, *less) < before)[touched].mean())
    return found


def certainty_of(
    model: GLACE, attributes: sp.csr_array, around: sp.csr_array, own: sp.csr_array, edges: sp.csr_array
) -> npt.NDArray[Any]:
    """(n,) of nodes that have these attributes and edges, among neighbours that are as they were."""
    count = attributes.shape[0]
    rows = narrowed(sp.csr_array(sp.vstack([attributes, own], dtype=np.float32)))
    none = sp.csr_array((count, count), dtype=np.float32)
    joined = narrowed(sp.csr_array(sp.block_array([[around, none], [edges, none]]), dtype=np.float32))
    joined.sort_indices()
    nodes, _ = embed_all(model.model_.network, model.model_.network.inputs([rows], joined), np.empty)
    known = evidence(np.diff(own.indptr), np.diff(edges.indptr))
    assert model.model_.certainty_model is not None
    return model.model_.certainty_model.certainty(nodes[count:], lambda part: known[part])


def thinned(matrix: sp.csr_array, share: float, generator: np.random.Generator) -> sp.csr_array:
    """Without a share of the entries, drawn one by one."""
    entries = sp.coo_array(matrix)
    kept = generator.random(entries.nnz) >= share
    some = (entries.data[kept], (entries.row[kept], entries.col[kept]))
    return sp.csr_array(some, shape=matrix.shape)


def novelty(graph: Graph, options: dict[str, Any]) -> dict[str, float]:
    """How strange nodes of random attributes are beside hidden nodes of the graph."""
    hidden = hide_nodes(graph, HIDDEN, Streams(options["random_state"]).numpy("hidden nodes"))
    model = GLACE(**options | {"purpose": "nodes"}).fit(hidden.visible)
    real = sp.csr_array(hidden.hidden.side_by_side())
    real = sp.csr_array(real[np.diff(real.indptr) > 0])
    ranks = {name: _ranks(model, rows(real)) for name, rows in KINDS.items()}
    border = np.quantile(ranks["hidden"], 0.95)
    above = {
        f"{name} above 95 % of hidden nodes": float((each > border).mean())
        for name, each in ranks.items()
        if name != "hidden"
    }
    warned = {f"{name} warned of": float((each > HIGH).mean()) for name, each in ranks.items()}
    return above | warned


def _ranks(model: GLACE, rows: sp.csr_array) -> npt.NDArray[np.float64]:
    return model.model_.novelty(rows).rank


def _random(rows: sp.csr_array) -> sp.csr_array:
    """As many attributes for each node, drawn evenly."""
    drawn, generator = rows.copy(), Streams(0).numpy("random attributes")
    for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        drawn.indices[start:end] = np.sort(generator.choice(rows.shape[1], end - start, replace=False))
    return drawn


def _shuffled(rows: sp.csr_array) -> sp.csr_array:
    """As many attributes for each node, drawn as often as they occur."""
    drawn = rows.copy()
    drawn.indices = Streams(0).numpy("shuffled attributes").permutation(rows.indices)
    drawn.sum_duplicates()
    return drawn


KINDS: dict[str, Callable[[sp.csr_array], sp.csr_array]] = {
    "hidden": lambda rows: rows,
    "random attributes": _random,
    "shuffled attributes": _shuffled,
}


if __name__ == "__main__":
    typer.run(main)
