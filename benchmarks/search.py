"""How fast is search, and what does an index miss? `python -m benchmarks.search`

The k nearest of Gaussians, random ones or those of a model, to some of them: `Embedding.nearest_to`, for one query and
for many at once, against the direct formula over all nodes in numpy, query by query (for many at once it would need
more memory than there is). Both compute in float64; the formula is given its numbers as such, the package converts
them. With `--approximate` also an index, by the number of candidates that it proposes, and the share of the true
answers that it finds.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS, Report, Results, Rounds, Threads, interleaved
from glace.fitted.model import load_embedding
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, wide
from glace.gaussian.embedding import Embedding
from glace.ids import NodeIds
from glace.queries.approximate import Index
from glace.rng import Streams


def main(
    nodes: Annotated[int, typer.Option(help="Gaussians to search among.")] = 117_659,
    dim: Annotated[int, typer.Option(help="Numbers in a mean.")] = 64,
    dissimilarity: Annotated[str, typer.Option(help="How they are compared.")] = "symmetric_kl",
    queries: Annotated[int, typer.Option(help="Queries at once.")] = 1000,
    k: Annotated[int, typer.Option(help="Neighbours wanted.")] = 10,
    model: Annotated[
        Path | None, typer.Option(help="Search among the Gaussians of this model or embedding file.")
    ] = None,
    approximate: Annotated[list[int] | None, typer.Option(help="Candidates of an index, too; may be repeated.")] = None,
    n_jobs: Threads = 1,
    rounds: Rounds = 5,
    results: Results = RESULTS,
) -> None:
    """Compare search with the direct formula."""
    embedding = load_embedding(model) if model else random_gaussians(nodes, dim, dissimilarity)
    nodes, dim, dissimilarity = len(embedding), embedding.mean.shape[1], embedding.dissimilarity
    facts = {"nodes": nodes, "dim": dim, "dissimilarity": dissimilarity, "k": k, "n_jobs": n_jobs}
    report = Report("search", results, facts | {"trained": model is not None})
    with threadpool_limits(n_jobs):
        same, seconds = _compared(embedding, queries, k, rounds)
    took = {f"{name}, {count} at once": each for (name, count), each in seconds.items()}
    report.note(seconds=took, queries=queries, same_answers=same)
    title = f"The {k} nearest of {nodes:,} Gaussians of {dim} dimensions by {dissimilarity}, n_jobs {n_jobs}"
    columns = ("way", "queries at once", "ms a query", "times")
    report.table(f"{title}; same answers: {same}", columns, _rows(seconds))
    if approximate:
        rows = _approximate(embedding, sorted(approximate), queries, k, rounds, n_jobs)
        for row in rows:
            report.note(
                **dict(zip(("candidates", "recall", "ms", "ms_at_once", "times", "times_at_once"), row, strict=True))
            )
        names = ("candidates", f"recall@{k}", "ms, 1 query", f"ms, {queries:,} at once", "times exact", "at once")
        report.table(f"By an index, against exact search: {title}", names, rows)


def _approximate(
    embedding: Embedding, candidates: list[int], queries: int, k: int, rounds: int, n_jobs: int
) -> list[list[Any]]:
    """For each number of candidates: recall, ms a query alone and at once, and both as times of exact search."""
    drawn = Streams(0).numpy("queries").permutation(len(embedding))[:queries]
    many, one, own = embedding.take(drawn), embedding.take(drawn[:1]), drawn[:, None].tolist()
    true, _ = embedding.nearest_to(many, k, exclude=own)
    index = Index(embedding, candidates=candidates[0], n_jobs=n_jobs)
    rows = []
    for count in candidates:
        index.candidates = count
        found, _ = index.nearest_to(many, k, own)
        recall = float(np.mean([np.isin(a, b).mean() for a, b in zip(true, found, strict=True)]))
        ways = {
            "exact": lambda: embedding.nearest_to(one, k, exclude=own[:1]),
            "index": lambda: index.nearest_to(one, k, own[:1]),
            "exact, many": lambda: embedding.nearest_to(many, k, exclude=own),
            "index, many": lambda: index.nearest_to(many, k, own),
        }
        took = {name: 1e3 * seconds for name, seconds in interleaved(ways, rounds, f"{count} candidates").items()}
        alone, at_once = took["index"], took["index, many"] / len(drawn)
        speed = took["exact"] / took["index"], took["exact, many"] / took["index, many"]
        rows.append([count, recall, alone, at_once, *speed])
    return rows


def _compared(embedding: Embedding, queries: int, k: int, rounds: int) -> tuple[bool, dict[tuple[str, int], float]]:
    """Whether both have the same answers, and the seconds of each way by its name and number of queries."""
    one, many = (embedding.take(np.arange(count) % len(embedding)) for count in (1, queries))
    prepared = embedding.measure, wide(embedding.gaussian), wide(one.gaussian), k
    same = bool((direct(*prepared) == embedding.nearest_to(one, k)[0]).all())
    ways = {
        ("direct formula", 1): lambda: direct(*prepared),
        ("glace", 1): lambda: embedding.nearest_to(one, k),
        ("glace", queries): lambda: embedding.nearest_to(many, k),
    }
    return same, interleaved(ways, rounds, "searches in turn")


def random_gaussians(nodes: int, dim: int, dissimilarity: str) -> Embedding:
    """Means normal, variances between 0.1 and 2."""
    generator = Streams(0).numpy("random Gaussians")
    mean = generator.standard_normal((nodes, dim), dtype=np.float32)
    variance = generator.uniform(0.1, 2, (nodes, dim)).astype(np.float32)
    return Embedding(NodeIds.numbered(nodes), mean, variance, dissimilarity)


def direct(measure: Dissimilarity, nodes: Gaussian, query: Gaussian, k: int) -> npt.NDArray[np.int64]:
    """(1, k) positions of the nearest, by the formula over all nodes."""
    far = np.asarray(measure.direct(query, nodes))
    found = np.argpartition(far, k)[:k]
    return found[np.argsort(far[found], kind="stable")][None]


def _rows(seconds: dict[tuple[str, int], float]) -> list[list[Any]]:
    a_query = {way: took / way[1] for way, took in seconds.items()}
    base = next(iter(a_query.values()))
    return [[name, count, 1e3 * took, base / took] for (name, count), took in a_query.items()]


if __name__ == "__main__":
    typer.run(main)
