"""Does the right answer stand at the top? `python -m benchmarks.ranking`

A tenth of the edges is hidden. Each hidden end is ranked among all nodes that the other end is not joined to in
training, and the first proposals for the whole graph are compared with the hidden edges: by the Gaussians, by the link
model on top of them, by heuristics of the edges and by other embeddings. Then whether the probabilities that `links`
prints are true, if it is told the fraction of edges that is missing; and what the link model costs.

Each graph, seed and method is a process of its own and a record. What has a record is not repeated: the same command
continues after an interruption and draws the tables of all records. `--again METHOD` repeats a method.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, in_child, in_turn
from benchmarks.ranking_graphs import edge_probabilities, popularity_graph, user_item_graph
from glace import datasets
from glace.experiments.evaluation.rankers import HEURISTICS, by_embedding, by_link_model
from glace.experiments.evaluation.ranking import Ranker, are_hidden, full_ranking, hidden_tenth
from glace.experiments.methods import METHODS, Learned, make
from glace.experiments.report.paper import RANKING_MEASURES
from glace.fitted.model import FittedModel, load
from glace.graph.graph import Graph
from glace.metrics import reliability
from glace.rng import Streams
from glace.training import train as training

POPULARITY, RATED = "planted-popularity", "user-item"
MADE: dict[str, Callable[[], Graph]] = {POPULARITY: popularity_graph, RATED: user_item_graph}
GRAPHS = ("cora-ml", "citeseer", "dblp", "pubmed", "wordnet", "debian", "wordnet-kinds", *MADE)
BEST = "best order"
"""The true probabilities of the planted graph: no method can be better."""
LINKS = "glace"
"""Its record holds two rows: the Gaussians alone, and with the link model."""
DEFAULT = (LINKS, *HEURISTICS, "node2vec", "lace", "vgae")
WITH_MODEL = "glace + link model"
PROPOSALS = 1000
"""Least number of links whose probabilities are checked; at most as many as edges are hidden."""
BINS = 5
GAVE_UP = "not finished within"

Found = dict[str, Any]


def main(
    graphs: Annotated[str, typer.Option(help="Names of graphs, separated by commas.")] = ",".join(GRAPHS),
    methods: Annotated[str, typer.Option(help="Names of methods, separated by commas.")] = ",".join(DEFAULT),
    seeds: Annotated[int, typer.Option(min=1, help="Splits and runs.")] = 3,
    again: Annotated[str, typer.Option(help="Methods to measure again, separated by commas.")] = "",
    option: Annotated[str, typer.Option(help="Options of glace, as 'max_steps=20 hidden=32', for a quick try.")] = "",
    limit_minutes: Annotated[float, typer.Option(help="Give up one measurement after this time.")] = 120,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Rank hidden edges by each method, and draw the tables."""
    report = Report("ranking", results, {"option": option})
    known = {} if option else earlier(results / "ranking.jsonl", names(graphs), set(names(again)))
    units = [
        Unit(graph, seed, method, option, None if data_dir is None else str(data_dir.absolute()))
        for graph in names(graphs)
        for seed in range(seeds)
        for method in (*names(methods), *[BEST] * (graph == POPULARITY))
    ]
    check(units)
    missing = [unit for unit in units if unit.key not in known]
    for unit in in_turn(missing, 1, "graphs, seeds and methods"):
        values = measured(unit, 60 * limit_minutes)
        report.note(graph=unit.graph, random_state=unit.seed, method=unit.method, **values)
        known[unit.key] = values
    found = {unit: known[unit.key] for unit in units}
    for graph in names(graphs):
        show_ranking(graph, {unit: values for unit, values in found.items() if unit.graph == graph}, report)
    ours = [values | {"graph": unit.graph} for unit, values in found.items() if "calibration" in values]
    show_calibration(ours, report)
    show_cost(ours, report)


def names(text: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class Unit:
    """One measurement: a graph, a seed and a method."""

    graph: str
    seed: int
    method: str
    option: str = ""
    data_dir: str | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        """What identifies its record."""
        return self.graph, self.seed, self.method


def check(units: Sequence[Unit]) -> None:
    """Raise for a name that does not exist, before hours of work."""
    known = {"graph": GRAPHS, "method": (*METHODS, *HEURISTICS, BEST)}
    for unit in units:
        for kind, name in (("graph", unit.graph), ("method", unit.method)):
            if name not in known[kind]:
                raise typer.BadParameter(f"there is no {kind} {name!r}; choose from {', '.join(known[kind])}")


def earlier(path: Path, graphs: Sequence[str], again: set[str]) -> dict[tuple[str, int, str], Found]:
    """Read the last record of each measurement with default options that succeeded or took too long.

    Those of graphs that are made here do not count if the graph is made in another way now.
    """
    found: dict[tuple[str, int, str], Found] = {}
    made = {graph: MADE[graph]().fingerprint() for graph in graphs if graph in MADE and path.exists()}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        record = json.loads(line)
        final = record["failed"] is None or record["failed"].startswith(GAVE_UP)
        final &= record.get("data") == made.get(record["graph"], record.get("data"))
        if final and not record["provenance"]["option"] and record["method"] not in again:
            found[record["graph"], record["random_state"], record["method"]] = record
    return found


def measured(unit: Unit, limit_seconds: float) -> Found:
    """Measure in a process of its own; a failure is a result too, so that the others go on."""
    try:
        return in_child("benchmarks.ranking:measure", limit_seconds, **vars(unit)) | {"failed": None}
    except subprocess.TimeoutExpired:
        return {"failed": f"{GAVE_UP} {limit_seconds / 60:g} minutes"}
    except RuntimeError as problem:
        return {"failed": str(problem).strip().splitlines()[-1]}


def measure(graph: str, seed: int, method: str, option: str, data_dir: str | None) -> Found:
    """Hide a tenth of the edges, fit, and rank."""
    whole = MADE[graph]() if graph in MADE else datasets.load(graph, data_dir=data_dir)
    train, hidden = hidden_tenth(whole, Streams(seed))
    facts = {"data": whole.fingerprint(), "nodes": whole.num_nodes, "edges": whole.num_edges}
    began = time.perf_counter()
    if method == LINKS:
        return facts | with_link_model(train, hidden.edges, seed, option)
    if method == BEST:
        chance, _ = edge_probabilities()
        ranker = Ranker(lambda sources: chance[sources])
    elif method in HEURISTICS:
        ranker = HEURISTICS[method](train)
    else:
        ranker = embedding_ranker(method, train, seed)
    seconds = {"fit": time.perf_counter() - began}
    return facts | {"rows": {method: full_ranking(ranker, train, hidden.edges)._asdict()}, "seconds": seconds}


def embedding_ranker(method: str, train: Graph, seed: int) -> Ranker:
    """Fit another method and rank by its dissimilarity."""
    made = make(method, {})
    if isinstance(made, Learned):
        made.options = {"purpose": "links"} | made.options
    return by_embedding(made.embed(train, Streams(seed)))


def with_link_model(train: Graph, hidden: Any, seed: int, option: str) -> Found:
    """Fit glace with the link model: both rows, the calibration of `links`, and what each part costs."""
    config = {"random_state": seed, **dict(part.split("=") for part in option.split())}
    fitted, seconds = timed_fit(train, {name: _number(value) for name, value in config.items()})
    rows = {
        LINKS: full_ranking(by_embedding(fitted.embedding), train, hidden),
        WITH_MODEL: full_ranking(by_link_model(fitted), train, hidden),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.glace"
        fitted.save(path)
        asked = {"model": str(path), "fraction": len(hidden) / (len(hidden) + train.num_edges)}
        answer = in_child("benchmarks.ranking:proposed", k=max(PROPOSALS, len(hidden)), **asked)
    right = are_hidden(np.array(answer["pairs"]), hidden, train)
    model = fitted.link_model
    return {
        "rows": {name: each._asdict() for name, each in rows.items()},
        "seconds": seconds | {"links": answer["seconds"]},
        "links_peak_mb": answer["peak_mb"],
        "calibration": {
            "top": calibration(np.array(answer["probability"][:PROPOSALS]), right[:PROPOSALS]),
            "all": calibration(np.array(answer["probability"]), right),
        },
        "link_model": None if model is None else model.to_json(),
    }


def _number(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value[:1].isdigit() else value


def timed_fit(graph: Graph, options: Found) -> tuple[FittedModel, dict[str, float]]:
    """Fit, and measure the seconds of the whole and of the link model's part."""
    part, whole = {"link model": 0.0}, training._link_model

    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        made = whole(*arguments)
        part["link model"] += time.perf_counter() - began
        return made

    with patch.object(training, "_link_model", timed):
        began = time.perf_counter()
        fitted = training.train(graph, options)
        return fitted, {"fit": time.perf_counter() - began, **part}


def proposed(model: str, fraction: float, k: int) -> Found:
    """Answer as `glace links` does: load a model and search the whole graph; the pairs are positions."""
    fitted = load(model)
    began = time.perf_counter()
    found = fitted.links(k=k, missing_edge_fraction=fraction)
    seconds = time.perf_counter() - began
    ids = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    pairs = fitted.embedding.positions_of(ids).tolist()
    return {"pairs": pairs, "probability": found.probability.tolist(), "seconds": seconds}


def calibration(probability: Any, right: Any) -> Found:
    """Compare what was said with what was found: in all, and in bins of 0.2."""
    bins = reliability(probability, right, BINS)
    return {"links": len(right), "said": float(probability.sum()), "found": int(right.sum()), "bins": bins}


def show_ranking(graph: str, found: dict[Unit, Found], report: Report) -> None:
    """Draw the table of a graph: mean and standard error over seeds."""
    measures, rows = RANKING_MEASURES["ranking"], dict[str, list[dict[str, float]]]()
    for values in found.values():
        for name, row in values.get("rows", {}).items():
            rows.setdefault(name, []).append(row)
    shown = [
        (name, *(_mean([each[field] for each in some if field in each]) for field in measures))
        for name, some in rows.items()
    ]
    report.table(f"{graph}: full ranking of a hidden tenth", ("method", *measures.values()), shown)
    for unit, values in found.items():
        if values["failed"] is not None:
            print(f"{unit.graph}, seed {unit.seed}, {unit.method}: {values['failed']}")


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{error}"


def show_calibration(found: list[Found], report: Report) -> None:
    """Draw what `links` said and what was found, for each graph and over all."""
    edges = [f"{low / BINS:.1f}-{(low + 1) / BINS:.1f}" for low in range(BINS)]
    for part, which in (("top", f"the first {PROPOSALS:,} links"), ("all", "as many links as edges are hidden")):
        graphs = list(dict.fromkeys(each["graph"] for each in found))
        groups = {graph: [each["calibration"][part] for each in found if each["graph"] == graph] for graph in graphs}
        groups["all graphs"] = [each["calibration"][part] for each in found]
        report.table(
            f"Probabilities of {which}: share found (number of links) by probability, and totals over seeds",
            ("graph", *edges, "said", "found", "found / said"),
            [(graph, *_calibration_row(some)) for graph, some in groups.items()] if found else [],
        )


def _calibration_row(some: list[Found]) -> list[Any]:
    cells: list[Any] = []
    for number in range(BINS):
        here = [each for one in some for each in one["bins"] if round(each[0] * BINS) == number]
        links = sum(each[2] for each in here)
        cells.append(f"{sum(each[2] * each[4] for each in here) / links:.2f} ({links:,})" if links else "")
    said, right = sum(each["said"] for each in some), sum(each["found"] for each in some)
    return [*cells, f"{said:,.0f}", right, f"{right / said:.2f}" if said else ""]


def show_cost(found: list[Found], report: Report) -> None:
    """Draw seconds and memory, means over seeds."""
    rows = []
    for graph in dict.fromkeys(each["graph"] for each in found):
        some = [each for each in found if each["graph"] == graph]
        fit, part, links = (
            float(np.mean([each["seconds"][name] for each in some])) for name in ("fit", "link model", "links")
        )
        peak = float(np.mean([each["links_peak_mb"] for each in some]))
        sizes = some[0]["nodes"], some[0]["edges"]
        rows.append((graph, *sizes, fit, part, f"{100 * part / (fit - part):.0f} %", links, round(peak)))
    columns = ("graph", "nodes", "edges", "fit s", "link model s", "added to the fit", "links s", "links peak MB")
    report.table("What the link model costs", columns, rows)


if __name__ == "__main__":
    typer.run(main)
