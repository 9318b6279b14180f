"""Are strange nodes noticed? `python -m benchmarks.novelty`

A tenth of the nodes is hidden, and the rest fitted with the defaults. Strange nodes are compared with the hidden ones:

- random attributes: as many as a hidden node has, drawn evenly;
- shuffled attributes: those of other hidden nodes, as often as they occur;
- another graph: nodes of WordNet shown to the model of Debian, and the other way, with the words that both have;
- `measured`, a planted graph with ten measurements a node: values of the nodes exchanged within each column, and values
  that are three times as large.

Of each kind: the AUROC against hidden nodes of the novelty, of the Mahalanobis distance and of the mean distance to the
ten nearest training nodes, both in the space of the means; and the share that is warned of.
"""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, Scale, Threads, graph_of, in_turn
from glace.datasets.planted import planted
from glace.datasets.registry import load
from glace.estimators import GLACE
from glace.experiments.splits import hide_nodes
from glace.fitted.model import FittedModel
from glace.fitted.state import embed_all
from glace.graph.arrays import from_arrays
from glace.graph.graph import Graph
from glace.metrics import link_scores
from glace.rng import Streams
from glace.sparse import Matrix, nonzeros_per_row

HIDDEN = 0.1
NEAREST = 10
TRAINING_NODES = 3000
"""Training nodes, at most, that densities are computed from."""
LARGER = 3.0
OTHER = {"debian": "wordnet", "wordnet": "debian"}
Rows = npt.NDArray[np.float64]


def main(
    dataset: Annotated[list[str] | None, typer.Option(help="cora-ml, ...; `planted`, `measured`: no data.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Splits and runs.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Steps of each run; as many as it wants if not given.")] = None,
    scale: Scale = 0.02,
    n_jobs: Threads = 1,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Compare strange nodes with hidden ones."""
    report = Report("novelty", results, {"seeds": seeds, "steps": steps, "n_jobs": n_jobs})
    names = dataset or ["cora-ml", "dblp", "citeseer", "measured"]
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for name, seed in in_turn([(name, seed) for name in names for seed in range(seeds)], 1, "graphs"):
        graph = _measured() if name == "measured" else graph_of(name, scale, data_dir)
        other = load(OTHER[name], data_dir=data_dir) if name in OTHER else None
        options = {"random_state": seed, "max_steps": steps, "n_jobs": n_jobs, "purpose": "nodes"}
        for kind, values in compared(graph, other, options).items():
            report.note(dataset=name, random_state=seed, kind=kind, **values)
            found.setdefault((name, kind), []).append(values)
    columns = list(next(iter(found.values()))[0])
    rows = [
        (*key, *(f"{np.mean([run[column] for run in runs]):.3f}" for column in columns)) for key, runs in found.items()
    ]
    report.table("Means over seeds", ("graph", "kind", *columns), rows)


def compared(graph: Graph, other: Graph | None, options: dict[str, Any]) -> dict[str, dict[str, float]]:
    """How novel each kind of strange nodes is beside hidden ones."""
    hidden = hide_nodes(graph, HIDDEN, Streams(options["random_state"]).numpy("hidden nodes"))
    model = GLACE(**options).fit(hidden.visible).model_
    real = hidden.hidden.side_by_side()
    real = real[nonzeros_per_row(real) > 0]
    kinds = {name: change(real) for name, change in (COUNTED if sp.issparse(real) else MEASURED).items()}
    if other is not None:
        kinds["another graph"] = _in_words_of(graph, other)[: real.shape[0]]
    density, usual = Density(model, hidden.visible), Scores(model, real)
    return {name: _beside(usual, Scores(model, rows), density) for name, rows in kinds.items()}


class Scores:
    """Novelty, warnings and means of some nodes."""

    def __init__(self, model: FittedModel, rows: Matrix) -> None:
        novelty = model.novelty(rows)
        self.rank, self.warned = novelty.rank, novelty.is_high()
        self.mean = _means(model, rows)


class Density:
    """How far means are from those of training nodes that are embedded from their attributes."""

    def __init__(self, model: FittedModel, graph: Graph) -> None:
        rows = graph.features()
        self.nodes = _means(model, rows[Streams(0).numpy("training nodes").permutation(rows.shape[0])[:TRAINING_NODES]])
        self.center = self.nodes.mean(axis=0)
        self.precision = np.linalg.pinv(np.cov(self.nodes.T))

    def mahalanobis(self, means: Rows) -> Rows:
        """Squared distances from the center, in units of the covariance."""
        gap = means - self.center
        return np.asarray(np.einsum("ij,jk,ik->i", gap, self.precision, gap))

    def nearest(self, means: Rows) -> Rows:
        """Mean distances to the nearest nodes."""
        from scipy.spatial.distance import cdist

        return np.asarray(np.sort(cdist(means, self.nodes), axis=1)[:, :NEAREST].mean(axis=1))


def _means(model: FittedModel, rows: Matrix) -> Rows:
    found, _ = embed_all(model.network, model.network.inputs_of(0, rows), np.empty)
    return np.asarray(found.mean, np.float64)


def _beside(usual: Scores, strange: Scores, density: Density) -> dict[str, float]:
    truth = np.repeat([False, True], [len(usual.rank), len(strange.rank)])
    by: dict[str, Callable[[Scores], Rows]] = {
        "novelty": lambda each: each.rank,
        "Mahalanobis": lambda each: density.mahalanobis(each.mean),
        "nearest": lambda each: density.nearest(each.mean),
    }
    aurocs = {
        f"AUROC by {name}": link_scores(np.concatenate([score(usual), score(strange)]), truth).auc
        for name, score in by.items()
    }
    return aurocs | {"warned of": float(strange.warned.mean()), "hidden warned of": float(usual.warned.mean())}


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


def _exchanged(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Values exchanged between nodes, in each column by itself."""
    return Streams(0).numpy("exchanged values").permuted(rows, axis=0)


def _larger(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Values as far from the means of their columns as `LARGER` times before."""
    center = rows.mean(axis=0)
    return np.asarray(center + LARGER * (rows - center), np.float32)


COUNTED: dict[str, Callable[[Any], Matrix]] = {"random attributes": _random, "shuffled attributes": _shuffled}
MEASURED: dict[str, Callable[[Any], Matrix]] = {"exchanged values": _exchanged, "larger values": _larger}


def _in_words_of(graph: Graph, other: Graph) -> sp.csr_array:
    """The nodes of another graph in random order, with those of their words that the graph has; none without any."""
    (own,), (theirs,) = graph.by_type().types, other.by_type().types
    assert own.feature_names is not None
    assert theirs.feature_names is not None
    place = {name: column for column, name in enumerate(own.feature_names)}
    entries = sp.coo_array(other.features())
    columns = np.array([place.get(name, -1) for name in theirs.feature_names])[entries.col]
    kept = columns >= 0
    shape = other.num_nodes, len(own.feature_names)
    rows = sp.csr_array((np.ones(kept.sum(), np.float32), (entries.row[kept], columns[kept])), shape=shape)
    rows = rows[np.diff(rows.indptr) > 0]
    return sp.csr_array(rows[Streams(0).numpy("other nodes").permutation(rows.shape[0])])


def _measured() -> Graph:
    """A planted graph whose nodes have ten measurements, which depend on the community and on each other."""
    graph, generator = planted(2000), Streams(0).numpy("measurements")
    assert graph.labels is not None
    centers, mixed = generator.normal(size=(8, 10)), generator.normal(size=(10, 10))
    noise = generator.normal(size=(graph.num_nodes, 10)) @ mixed
    return from_arrays(graph.edges(), (centers[graph.labels.codes] + 0.3 * noise).astype(np.float32))


if __name__ == "__main__":
    typer.run(main)
