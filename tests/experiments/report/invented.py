"""Records of runs that never were, of every task and status."""

import json
from pathlib import Path
from typing import Any

import numpy as np

PROVENANCE = {
    "command": "glace reproduce --seeds 3 -o results",
    "versions": {"python": "3.12.1", "torch": "2.6.0"},
    "machine": {"system": "Linux", "processor": "x86_64"},
    "time": "2026-01-02T03:04:05+00:00",
    "data": "0123abcd",
    "commit": "c0ffee1",
    "code": {"training": "1111", "models": "2222", "evaluation": "3333"},
    "parallel_runs": 1,
    "load_before": 0.5,
}
SHARES = [f"0.{tenth}" for tenth in range(1, 10)]


def record(task: str, dataset: str = "dblp", method: str = "glace", seed: int = 0, **values: Any) -> dict[str, Any]:
    """A record of one run, done unless said otherwise."""
    common = {"status": "done", "reason": None, "seconds": 10.0 + seed, "peak_rss_mb": 500.0, "options": {"dim": 64}}
    names = {"kind": "evaluation", "task": task, "dataset": dataset, "method": method, "seed": seed}
    return names | common | {"provenance": PROVENANCE} | values


def links(
    dataset: str = "dblp", method: str = "glace", seed: int = 0, auc: float | None = 0.99, **values: Any
) -> dict[str, Any]:
    scores = {"auc": auc, "ap": auc, "auc_cosine": None, "ap_cosine": None, "split": "random"}
    scores |= {"auc_without_context": auc, "ap_without_context": auc}
    return record("link-prediction", dataset, method, seed, **(scores | {"validation_auc": auc} | values))


def classes(dataset: str, method: str, seed: int, level: float) -> dict[str, Any]:
    rng = np.random.default_rng([seed, round(1000 * level)])
    values: dict[str, Any] = {}
    for name, lower in (("micro_f1", 0.0), ("macro_f1", 0.05)):
        trials = {share: (level - lower + 0.1 * float(share) + 0.01 * rng.random(10)).tolist() for share in SHARES}
        values[name] = {share: float(np.mean(each)) for share, each in trials.items()}
        values[f"{name}_trials"] = trials
    return record("node-classification", dataset, method, seed, **values)


def curve(best: float, pace: float) -> list[list[float]]:
    """[seconds, validation AUC] in the course of training."""
    seconds = [0.0, *(0.5 * 1.6**step for step in range(14))]
    return [[each, 0.5 + (best - 0.5) * (1 - float(np.exp(-each / pace)))] for each in seconds]


def cloud(
    dataset: str, method: str, apart: float, names: tuple[str, ...] = ("theory", "practice", "rest")
) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    codes = rng.integers(len(names), size=90)
    points = rng.normal(size=(90, 2)) + apart * np.column_stack([np.cos(2 * codes), np.sin(2 * codes)])
    values = {"points": points.round(3).tolist(), "classes": codes.tolist(), "class_names": list(names)}
    return record("visualization", dataset, method, silhouette=0.1 * apart - 0.05, **values)


def _certain(shares: list[float], falling: list[float]) -> dict[str, Any]:
    columns = {"left_out": shares, "auc": falling[::-1], "ap": falling[::-1]}
    halves = {"certain_nodes": 0.01, "uncertain_nodes": 0.03, "certain_answers": 0.001, "uncertain_answers": 0.05}
    return {"without_least_certain": columns, "without_least_certain_answers": columns, "error_of_halves": halves}


def certainty(dataset: str, method: str, seed: int = 0) -> dict[str, Any]:
    tenths, shares = [float(part) for part in range(1, 11)], [part / 10 for part in range(10)]
    falling = [0.99 - 0.01 * part - 0.002 * seed for part in range(10)]
    return record(
        "uncertainty",
        dataset,
        method,
        seed,
        by_spread={"tenth": tenths, "auc": falling, "ap": falling, "edge_share": shares, "spread": shares},
        without_most_uncertain={"left_out": shares, "auc": falling[::-1], "ap": falling[::-1]},
        spread_correlation={"degree": -0.25, "attributes": 0.4, "class_entropy_in_2_hops": None},
        auc_without_dimensions={"dropped": shares, "widest_first": falling, "at_random": falling},
        droppable_share={"widest_first": 0.7, "at_random": 0.2},
        **({} if method == "graph2gauss" else _certain(shares, falling)),
    )


def benchmark(dataset: str, method: str, seed: int = 0, level: float = 0.9, **values: Any) -> dict[str, Any]:
    scores = {"hits_at_20": level - 0.2, "hits_at_50": level - 0.1, "hits_at_100": level, "mrr": level - 0.7}
    more = {"auc": 0.97, "ap": 0.97, "hidden_share": 0.1, "hidden_edges": 500}
    return record("benchmark-ranking", dataset, method, seed, **(scores | more | values))


def hidden(dataset: str, method: str, share: float, level: float, protocol: str) -> dict[str, Any]:
    second = {"auc_without_context": level - 0.01, "ap_without_context": level - 0.11}
    scores: dict[str, Any] = {"auc": level, "ap": level - 0.1, **second}
    return record("induction", dataset, method, hidden_share=share, protocol=protocol, pairs=99, **scores)


def everything() -> list[dict[str, Any]]:
    """Some runs of every task, on datasets of the paper and others, not all of them done."""
    levels = {"attributes": 0.8, "node2vec": 0.88, "lace-published-first": 0.94, "glace-published": 0.97, "glace": 0.98}
    found: list[dict[str, Any]] = []
    for dataset in ("cora-ml", "dblp"):
        for method, level in levels.items():
            cosine = None if "gla" in method else level + 0.01
            for seed in range(2):
                more = {"auc_cosine": cosine, "ap_cosine": cosine, "curve": curve(level, 30 * (1.05 - level))}
                found.append(links(dataset, method, seed, level + 0.004 * seed, **more))
                found.append(classes(dataset, method, seed, level - 0.2))
            found.append(cloud(dataset, method, 10 * level - 7))
    for share in (0.1, 0.5):
        for method, level in (("graph2gauss", 0.9), ("glace", 0.95)):
            found.append(hidden("pubmed", method, share, level, "balanced"))
            found.append(hidden("pubmed", method, share, level - 0.2, "graph2gauss"))
    refusal: dict[str, Any] = {"status": "unsupported", "reason": "uses only edges", "auc": None}
    found.append(record("induction", "pubmed", "node2vec", hidden_share=0.1, **refusal))
    given: dict[str, Any] = {
        "split": "cora_ml_split.npz",
        "reversed_edges": 42,
        "auc_without_reversed": 0.97,
        "ap_without_reversed": 0.96,
    }
    found.append(links("cora-ml", "glace", **given))
    found.append(links("acm", "glace", 0, 0.98))
    found.append(links("acm", "graphsage", 0, status="timeout", reason="5 hours", seconds=18000.0))
    found.append(certainty("cora-ml", "glace"))
    by_model: dict[str, Any] = {"hits_at_20_link_model": 0.8, "hits_at_50_link_model": 0.9, "auc_link_model": 0.96}
    by_model |= {"hits_at_100_link_model": 0.95, "mrr_link_model": 0.25}
    for share in (0.1, 0.2):
        found.append(benchmark("cora-planetoid", "adamic-adar", 0, 0.75, hidden_share=share))
        found.append(benchmark("cora-planetoid", "glace", 0, 0.9, hidden_share=share, **by_model))
    return found


def write(folder: Path, records: list[dict[str, Any]], ending: str = "\n") -> Path:
    text = "\n".join(json.dumps(each) for each in records) + ending
    (folder / "records.jsonl").write_text(text, encoding="utf-8")
    return folder
