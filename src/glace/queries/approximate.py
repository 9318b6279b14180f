"""Approximate search: a graph over the means proposes candidates, the exact measure judges them.

An index over the vectors of the dot-product form would be the obvious way, and finds next to nothing: the vectors'
lengths differ by orders of magnitude, and the longest are in every answer. The means, each dimension divided by the
width that Gaussians commonly have there, are near where the measure is small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Best, Positions, Values, checked_count, wide
from glace.rng import Streams

LINKS, BREADTH = 32, 100
"""Links of a node in the index, and candidates looked through for each while it is built."""
QUERIES = 256
"""Queries at a time: with 200 candidates of 64 dimensions each, 26 MB."""
LENGTHENED = 1.0001


@dataclass(frozen=True)
class Recall:
    """The share of the true `k` nearest that the index found for `queries` nodes of the embedding."""

    k: int
    queries: int
    share: float


class Index:
    """An embedding prepared for approximate search; made anew from the arrays each time, never read from a file.

    `candidates` are proposed for each answer, at least `k` of them and by default 50: more find more and take longer.
    `among` (n,) is True where a node may be an answer; the others are not in the index, as a type that lies apart would
    else be drowned by the rest. `recall` is measured when the index is made.
    """

    def __init__(
        self,
        embedding: Embedding,
        by: str = "edge",
        measure: str | None = None,
        candidates: int = 50,
        random_state: int = 0,
        n_jobs: int = 1,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        if candidates < 1:
            raise InputError(f"candidates must be at least 1, not {candidates}")
        self.among = np.ones(len(embedding), np.bool_) if among is None else among
        self.nodes = np.flatnonzero(self.among)
        if not len(self.nodes):
            raise InputError("an index needs at least one node to find; `among` has none")
        self.embedding, self.by, self.candidates, self.n_jobs = embedding, by, candidates, n_jobs
        self.measure = embedding.measure_of(measure)
        self.roles = embedding.roles_by(self.measure, by)
        targets = self.roles.target if among is None else self.roles.target[self.nodes]
        self._space = Space.of(self.measure, targets)
        self._graph = self._built(self._space.targets(targets))
        self.recall = self._recall(Streams(random_state).numpy("recall of the index"))

    def _built(self, points: npt.NDArray[np.float32]) -> Any:
        faiss = _faiss()
        graph = faiss.IndexHNSWFlat(points.shape[1], LINKS)
        graph.hnsw.efConstruction = BREADTH
        with _Threads(faiss, self.n_jobs):
            graph.add(points)
        return graph

    def nearest_to(
        self, queries: Embedding, k: int = 10, exclude: Sequence[Positions | Sequence[int]] | None = None
    ) -> tuple[Positions, Values]:
        """Positions and dissimilarities (Q, k) as `Embedding.nearest_to` gives them, but for what was not found."""
        k, source = checked_count(k), queries.roles_by(self.measure, self.by).source
        parts = [
            self._found(source[part], k, None if exclude is None else exclude[part])
            for part in (slice(at, at + QUERIES) for at in range(0, len(queries), QUERIES))
        ]
        places, values = (np.vstack(each) for each in zip(*parts, strict=True))
        return places, self.roles.scale * values

    def _found(
        self, queries: Gaussian, k: int, exclude: Sequence[Positions | Sequence[int]] | None
    ) -> tuple[Positions, Values]:
        left_out = [] if exclude is None else [np.asarray(each, dtype=np.int64) for each in exclude]
        wanted = max(self.candidates, k) + max((len(each) for each in left_out), default=0)
        proposed = self._proposed(queries, min(wanted, len(self.nodes)))
        for row, each in zip(proposed, left_out, strict=False):
            row[np.isin(row, each)] = -1
        query, rank = np.nonzero(proposed >= 0)
        place = proposed[query, rank]
        best = Best(len(proposed), min(k, len(self.nodes)))
        own, others = wide(queries), wide(self.roles.target[place])
        best.add(query, place, np.asarray(self.measure.direct(own[query], others)))
        return best.positions, best.values

    def _proposed(self, queries: Gaussian, count: int) -> Positions:
        faiss = _faiss()
        wanted = faiss.SearchParametersHNSW(efSearch=count)
        with _Threads(faiss, self.n_jobs):
            _, found = self._graph.search(self._space.queries(queries), count, params=wanted)
        return np.where(found >= 0, self.nodes[found], -1)

    def _recall(self, generator: np.random.Generator, queries: int = 200, k: int = 10) -> Recall:
        nodes = generator.permutation(len(self.embedding))[:queries]
        sample, own = self.embedding.take(nodes), nodes[:, None].tolist()
        k = max(min(k, len(self.nodes) - 1), 1)
        true, _ = self.embedding.nearest_to(sample, k, self.by, self.measure.name, own, self.among)
        found, _ = self.nearest_to(sample, k, own)
        hits = [len(np.intersect1d(a, b)) for a, b in zip(true, found, strict=True)]
        return Recall(k, len(nodes), float(np.mean(hits)) / k)


class Indices:
    """An index for each set of nodes that are searched among, made when it is first asked for."""

    def __init__(self, embedding: Embedding) -> None:
        self.embedding = embedding
        self._made: dict[bytes, Index] = {}

    def nearest_to(
        self,
        queries: Embedding,
        k: int,
        exclude: Sequence[Positions | Sequence[int]],
        among: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Positions, Values]:
        """As `Index.nearest_to`, among the nodes that are True in `among` (n,), or among all."""
        if among is not None and not among.any():
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
        key = b"" if among is None else np.packbits(among).tobytes()
        if key not in self._made:
            self._made[key] = Index(self.embedding, among=among)
        return self._made[key].nearest_to(queries, k, exclude)


@dataclass(frozen=True)
class Space:
    """Where nodes are points whose distance follows the measure: `factor` for each dimension.

    For points with a dot product a dimension more makes all targets equally long (`length`): the nearest is then the
    one with the largest product.
    """

    factor: npt.NDArray[np.float32]
    length: float | None

    @classmethod
    def of(cls, measure: Dissimilarity, nodes: Gaussian) -> "Space":
        """The space for nodes as targets."""
        if not measure.needs_variance:
            longest = float(np.linalg.norm(nodes.mean, axis=1).max(initial=0.0))
            return cls(np.ones(nodes.mean.shape[1], np.float32), longest * LENGTHENED)
        if measure.name == "wasserstein2":
            return cls(np.ones(nodes.mean.shape[1], np.float32), None)
        precision = (1 / np.asarray(nodes.variance, dtype=np.float64)).mean(axis=0)
        return cls(np.sqrt(precision).astype(np.float32), None)

    def targets(self, nodes: Gaussian) -> npt.NDArray[np.float32]:
        """(n, dimensions) points of nodes that may be answers."""
        points = np.asarray(nodes.mean, dtype=np.float32) * self.factor
        if self.length is None:
            return np.ascontiguousarray(points)
        rest = np.sqrt(np.maximum(self.length**2 - (points.astype(np.float64) ** 2).sum(axis=1), 0))
        return np.column_stack([points, rest.astype(np.float32)])

    def queries(self, nodes: Gaussian) -> npt.NDArray[np.float32]:
        """(Q, dimensions) points of nodes that are asked about."""
        points = np.asarray(nodes.mean, dtype=np.float32) * self.factor
        if self.length is None:
            return np.ascontiguousarray(points)
        return np.column_stack([points, np.zeros(len(points), np.float32)])


class _Threads:
    """faiss with so many threads, for a stretch: with one, the same input gives the same index."""

    def __init__(self, faiss: Any, count: int) -> None:
        self.faiss, self.count = faiss, count

    def __enter__(self) -> None:
        self.before = self.faiss.omp_get_max_threads()
        self.faiss.omp_set_num_threads(self.count)

    def __exit__(self, *problem: object) -> None:
        self.faiss.omp_set_num_threads(self.before)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as problem:
        raise InputError(
            "approximate search needs the library faiss; install it with: pip install 'glace-graph[search]'"
        ) from problem
    return faiss
