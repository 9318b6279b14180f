"""How fast is exact search against the formula written down? `python -m benchmarks.search`

The k nearest of random Gaussians to one of them: `Embedding.nearest_to`, for one query and for many at once, against
the direct formula over all nodes in numpy, query by query (for many at once it would need more memory than there is).
Both compute in float64; the formula is given its numbers as such, the package converts them.
"""

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS, Report, Results, Rounds, Threads, interleaved
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian
from glace.gaussian.embedding import Embedding
from glace.gaussian.nearest import wide
from glace.ids import NodeIds
from glace.rng import Streams


def main(
    nodes: Annotated[int, typer.Option(help="Gaussians to search among.")] = 117_659,
    dim: Annotated[int, typer.Option(help="Numbers in a mean.")] = 64,
    dissimilarity: Annotated[str, typer.Option(help="How they are compared.")] = "symmetric_kl",
    queries: Annotated[int, typer.Option(help="Queries at once.")] = 1000,
    k: Annotated[int, typer.Option(help="Neighbours wanted.")] = 10,
    threads: Threads = 1,
    rounds: Rounds = 5,
    results: Results = RESULTS,
) -> None:
    """Compare exact search with the direct formula."""
    facts = {"nodes": nodes, "dim": dim, "dissimilarity": dissimilarity, "k": k, "threads": threads}
    report = Report("search", results, facts)
    embedding = random_gaussians(nodes, dim, dissimilarity)
    with threadpool_limits(threads):
        same, seconds = _compared(embedding, queries, k, rounds)
    took = {f"{name}, {count} at once": each for (name, count), each in seconds.items()}
    report.note(seconds=took, queries=queries, same_answers=same)
    title = (
        f"The {k} nearest of {nodes:,} Gaussians of {dim} dimensions by {dissimilarity}, threads {threads}"
    )
    columns = ("way", "queries at once", "ms a query", "times")
    report.table(f"{title}; same answers: {same}", columns, _rows(seconds))


def _compared(
    embedding: Embedding, queries: int, k: int, rounds: int
) -> tuple[bool, dict[tuple[str, int], float]]:
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
