"""Approximate search: an index of the means proposes candidates, and the exact measure ranks them.

An index over the vectors of the dot-product form would be the obvious choice, but it finds next to nothing: the lengths
of these vectors differ by orders of magnitude, and the longest are in every answer. Instead the means are indexed, each
dimension divided by the typical width of the Gaussians there: two means are then close where the measure is small.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.blocks import blocks
from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, wide
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Best, Exclusions, Positions, Values, checked_count
from glace.rng import Streams

LINKS, BREADTH = 32, 100
"""HNSW's M and efConstruction: links per node of the index, and candidates per node while it is built."""
QUERIES = 256
"""Queries at a time: with 200 candidates of 64 dimensions each, 26 MB."""
LENGTHENED = 1.0001
Points = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Recall:
    """The share of the true `k` nearest nodes that the index found for `queries` nodes of the embedding."""

    k: int
    queries: int
    share: float


class Index:
    """An embedding prepared for approximate search; built from the arrays each time, never read from a file.

    `candidates` are proposed for each query, at least `k` of them: more candidates find more and take longer.
    `among` (n,) is True where a node can be an answer. Other nodes are not indexed, because a node type that lies apart
    would hardly be proposed among them. `recall` is measured when the index is built.
    """

    def __init__(
        self,
        embedding: Embedding,
        dissimilarity: str | None = None,
        candidates: int = 50,
        random_state: int = 0,
        n_jobs: int = 1,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        if candidates < 1:
            raise InputError(f"must be at least 1, not {candidates}", option="candidates")
        self.among = np.ones(len(embedding), np.bool_) if among is None else among
        self.nodes = np.flatnonzero(self.among)
        if not len(self.nodes):
            raise InputError("an index needs at least one node, but `among` is False for all")
        self.embedding, self.candidates, self.n_jobs = embedding, candidates, n_jobs
        self.measure = embedding.measure_of(dissimilarity)
        self.roles = embedding.roles_by(self.measure)
        targets = self.roles.target if among is None else self.roles.target[self.nodes]
        self._space = Space.of(self.measure, targets)
        self._index = self._built(self._space.targets(targets))
        self.recall = self._recall(Streams(random_state).numpy("recall of the index"))

    def _built(self, points: Points) -> Any:
        faiss = _faiss()
        index = faiss.IndexHNSWFlat(points.shape[1], LINKS)
        index.hnsw.efConstruction = BREADTH
        with _threads(self.n_jobs):
            index.add(points)
        return index

    def nearest_to(
        self, queries: Embedding, k: int = 10, exclude: Exclusions | None = None
    ) -> tuple[Positions, Values]:
        """Positions and dissimilarities (Q, k) as from `Embedding.nearest_to`; a few answers may be missed."""
        k, source = checked_count(k), queries.roles_by(self.measure).source
        answers = [
            self._search(source[rows], k, [] if exclude is None else exclude[rows])
            for rows in blocks(len(queries), QUERIES)
        ]
        positions, values = (np.vstack(column) for column in zip(*answers, strict=True))
        return positions, self.roles.scale * values

    def _search(self, queries: Gaussian, k: int, exclude: Exclusions) -> tuple[Positions, Values]:
        count = max(self.candidates, k) + max(map(len, exclude), default=0)
        proposed = self._proposed(queries, min(count, len(self.nodes)))
        for row, excluded in zip(proposed, exclude, strict=False):
            row[np.isin(row, np.asarray(excluded, dtype=np.int64))] = -1
        query, rank = np.nonzero(proposed >= 0)
        position = proposed[query, rank]
        best = Best(len(proposed), min(k, len(self.nodes)))
        dissimilarity = self.measure.direct(wide(queries)[query], wide(self.roles.target[position]))
        best.add(query, position, np.asarray(dissimilarity))
        return best.positions, best.values

    def _proposed(self, queries: Gaussian, count: int) -> Positions:
        parameters = _faiss().SearchParametersHNSW(efSearch=count)
        with _threads(self.n_jobs):
            _, found = self._index.search(self._space.queries(queries), count, params=parameters)
        return np.where(found >= 0, self.nodes[found], -1)

    def _recall(self, generator: np.random.Generator, queries: int = 200, k: int = 10) -> Recall:
        nodes = generator.permutation(len(self.embedding))[:queries]
        sample, own = self.embedding.take(nodes), nodes[:, None].tolist()
        k = max(min(k, len(self.nodes) - 1), 1)
        true, _ = self.embedding.nearest_to(sample, k, self.measure.name, own, self.among)
        found, _ = self.nearest_to(sample, k, own)
        hits = [len(np.intersect1d(a, b)) for a, b in zip(true, found, strict=True)]
        return Recall(k, len(nodes), float(np.mean(hits)) / k)


class Indices:
    """One index for each set of nodes to search among, built on first use."""

    def __init__(self, embedding: Embedding) -> None:
        self.embedding = embedding
        self._built: dict[bytes, Index] = {}

    def nearest_to(
        self, queries: Embedding, k: int, exclude: Exclusions, among: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Positions, Values]:
        """As `Index.nearest_to`, among the nodes that are True in `among` (n,), or among all nodes."""
        if among is not None and not among.any():
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
        key = b"" if among is None else np.packbits(among).tobytes()
        if key not in self._built:
            self._built[key] = Index(self.embedding, among=among)
        return self._built[key].nearest_to(queries, k, exclude)


@dataclass(frozen=True)
class Space:
    """Maps nodes to points whose Euclidean distance follows the measure.

    Means are multiplied by `factor` (L,). One more dimension, in which queries are 0, can say more about targets: for a
    dot product, it gives all of them the same `length`, so that the nearest target is the one with the largest product;
    for the expected distance it adds their `width`, the sum of their variances.
    """

    factor: npt.NDArray[np.float32]
    length: float | None = None
    width: bool = False

    @classmethod
    def of(cls, measure: Dissimilarity, nodes: Gaussian) -> "Space":
        """The space for these nodes as targets."""
        ones = np.ones(nodes.mean.shape[1], np.float32)
        if not measure.needs_variance:
            return cls(ones, LENGTHENED * float(np.linalg.norm(nodes.mean, axis=1).max(initial=0.0)))
        if measure.name in ("wasserstein2", "expected"):
            return cls(ones, width=measure.name == "expected")
        precision = (1 / np.asarray(nodes.variance, dtype=np.float64)).mean(axis=0)
        return cls(np.sqrt(precision).astype(np.float32))

    def targets(self, nodes: Gaussian) -> Points:
        """(n, dimensions) points of nodes that can be answers."""
        points = self.queries(nodes)
        if self.length is not None:
            squared = (points.astype(np.float64) ** 2).sum(axis=1)
            points[:, -1] = np.sqrt(np.maximum(self.length**2 - squared, 0))
        if self.width:
            points[:, -1] = np.sqrt(np.asarray(nodes.variance, dtype=np.float64).sum(axis=1))
        return points

    def queries(self, nodes: Gaussian) -> Points:
        """(Q, dimensions) points of queries."""
        points = np.asarray(nodes.mean, dtype=np.float32) * self.factor
        more = self.width or self.length is not None
        return np.ascontiguousarray(np.pad(points, ((0, 0), (0, int(more)))))


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let faiss use this number of threads meanwhile; with one thread, the same input gives the same index."""
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as problem:
        raise InputError("approximate search needs faiss: pip install 'glace-graph[search]'") from problem
    return faiss
