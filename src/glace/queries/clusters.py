"""Clusters of nodes by their Gaussians, named by what distinguishes them.

For diagonal Gaussians the squared 2-Wasserstein distance is the squared Euclidean distance of (mean, deviation), and
the barycenter is the mean of these vectors. k-means on them is therefore k-means of the Gaussians themselves.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.blocks import blocks
from glace.categories import Categories
from glace.errors import InputError
from glace.gaussian.embedding import Embedding, ids_at
from glace.gaussian.search import Positions, Values
from glace.gaussian.tables import Column, Table
from glace.graph.graph import Graph
from glace.queries.neighbors import names_at
from glace.queries.pair_features import word_names, words_of

CANDIDATES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of clusters to choose from."""
NEARLY_BEST = 0.02
"""The fewest clusters are chosen whose quality is at most this far below the best, as it changes little over a wide
range."""
SAMPLE = 20_000
"""Nodes that the clusters are learned from; the others join the nearest one."""
SILHOUETTE_SAMPLE = 2000
EXAMPLES, WORDS = 3, 3
"""Nodes nearest to the center that are shown, and words in a name."""
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class ClusterNodes(Table):
    """The cluster of each node.

    Attributes
    ----------
    id : ndarray
        Id of the node.
    cluster : ndarray of int
        Number of its cluster; 0 is the largest.
    name : ndarray of str
        Name of its cluster.
    """

    id: Column
    cluster: Codes
    name: Column


@dataclass(frozen=True, eq=False, repr=False)
class Clusters(Table):
    """Clusters of nodes, the largest first.

    Attributes
    ----------
    cluster : ndarray of int
        Number of the cluster.
    name : ndarray of str
        What distinguishes it: words or columns; without these the label most of its nodes have, or its central nodes.
    size : ndarray of int
        Number of its nodes.
    edges_inside : ndarray of float, optional
        The share of its nodes' edges that stay inside.
    label : ndarray of str, optional
        The most frequent label, if the graph has labels.
    label_share : ndarray of float, optional
        The share of its labelled nodes that have this label.
    central_node : ndarray
        Id of the node nearest to its center.
    examples : ndarray of str
        Ids of the nodes nearest to its center, in one text.
    modularity : float, optional
        How many more edges stay inside clusters than if edges were drawn at random by degree, as a share; None without
        edges.
    codes : ndarray of int, shape (n,)
        The cluster of each node.
    embedding : Embedding
        The nodes.
    """

    hidden: ClassVar[tuple[str, ...]] = ("modularity", "codes", "embedding")

    cluster: Codes
    name: Column
    size: npt.NDArray[np.int64]
    edges_inside: npt.NDArray[np.float64] | None
    label: Column | None
    label_share: npt.NDArray[np.float64] | None
    central_node: Column
    examples: Column
    modularity: float | None
    codes: Codes
    embedding: Embedding

    def nodes(self) -> ClusterNodes:
        """The cluster of each node, in the order of the nodes."""
        return ClusterNodes(ids_at(self.embedding.ids, np.arange(len(self.codes))), self.codes, self.name[self.codes])

    def categories(self) -> Categories:
        """The clusters as categories of the nodes, whose codes are the numbers of the clusters."""
        return Categories(self.codes, tuple(str(name) for name in self.name))


def clusters(embedding: Embedding, graph: Graph | None, k: int | None = None, random_state: int = 0) -> Clusters:
    """Group the nodes of an embedding by k-means of their Gaussians.

    Parameters
    ----------
    embedding : Embedding
        The nodes.
    graph : Graph or None
        Edges, labels and attributes of the same nodes in the same order, which choose the number and give the names.
    k : int, optional
        Number of clusters. By default the fewest for which the modularity of the edges is within 0.02 of the best;
        without edges, the silhouette decides.
    random_state : int
        Seed of the random starts.

    Returns
    -------
    Clusters
        The largest first.
    """
    vectors = _vectors(embedding)
    if k is not None and not 1 <= k <= len(embedding):
        raise InputError(f"must be from 1 to the number of nodes, {len(embedding):,}, not {k:,}", option="k")
    edges = None if graph is None or graph.num_edges == 0 else graph.neighborhoods()
    numbers = [k] if k is not None else [each for each in CANDIDATES if each <= max(len(embedding) // 2, 1)] or [1]
    found = [_by_size(*_k_means(vectors, each, random_state)) for each in numbers]
    quality = [0.0] if len(found) == 1 else [_quality(vectors, codes, edges) for codes, _ in found]
    codes, centers = found[next(place for place, each in enumerate(quality) if each >= max(quality) - NEARLY_BEST)]
    central = _central(vectors, codes, centers)
    return _table(embedding, graph, edges, codes, central)


def _vectors(embedding: Embedding) -> npt.NDArray[np.float32]:
    """(n, L) means, or (n, 2 L) means and standard deviations."""
    if embedding.variance is None:
        return np.asarray(embedding.mean, np.float32)
    return np.hstack([embedding.mean, np.sqrt(embedding.variance)]).astype(np.float32)


def _k_means(vectors: npt.NDArray[np.float32], k: int, random_state: int) -> tuple[Codes, npt.NDArray[np.float32]]:
    """(n,) the cluster of each row, and (k, L) the centers."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    rows = np.arange(len(vectors))
    if len(rows) > SAMPLE:
        rows = np.sort(np.random.default_rng(random_state).choice(len(rows), SAMPLE, replace=False))
    # One thread: beside other work, the threads of k-means wait for each other most of the time.
    with threadpool_limits(1):
        model = KMeans(k, n_init=1, random_state=random_state).fit(vectors[rows])
        codes = np.concatenate([model.predict(vectors[part]) for part in blocks(len(vectors), SAMPLE)])
    return codes.astype(np.int32), np.asarray(model.cluster_centers_)


def _by_size(codes: Codes, centers: npt.NDArray[np.float32]) -> tuple[Codes, npt.NDArray[np.float32]]:
    """Number the clusters by size; those that no node belongs to are left out."""
    sizes = np.bincount(codes, minlength=len(centers))
    order = np.argsort(-sizes, kind="stable")[: int((sizes > 0).sum())]
    rank = np.zeros(len(centers), np.int32)
    rank[order] = np.arange(len(order))
    return rank[codes], centers[order]


def _quality(vectors: npt.NDArray[np.float32], codes: Codes, edges: sp.csr_array | None) -> float:
    if edges is not None:
        return modularity(edges, codes)
    from sklearn.metrics import silhouette_score

    if codes.max() == 0:
        return -1.0
    return float(silhouette_score(vectors, codes, sample_size=min(SILHOUETTE_SAMPLE, len(codes)), random_state=0))


def modularity(edges: sp.csr_array, codes: Codes) -> float:
    """Newman's modularity of a partition of the nodes of a symmetric adjacency (n, n), with weights."""
    inside = _between(edges, codes)
    total = inside.sum()
    share = inside.sum(axis=1) / total
    return float(np.trace(inside) / total - share @ share)


def _between(edges: sp.csr_array, codes: Codes) -> Values:
    """(C, C) the weight of the edges from each cluster to each other."""
    members = sp.csr_array((np.ones(len(codes)), (np.arange(len(codes)), codes)))
    return np.asarray((members.T @ edges @ members).todense())


def _central(vectors: npt.NDArray[np.float32], codes: Codes, centers: npt.NDArray[np.float32]) -> list[Positions]:
    """The positions of the nodes nearest to the center of each cluster, the nearest first."""
    gap = np.concatenate([((vectors[p] - centers[codes[p]]) ** 2).sum(axis=1) for p in blocks(len(vectors))])
    order = np.lexsort((gap, codes))
    starts = np.searchsorted(codes[order], np.arange(len(centers)))
    return [
        order[start : start + EXAMPLES][codes[order[start : start + EXAMPLES]] == c] for c, start in enumerate(starts)
    ]


def _table(
    embedding: Embedding, graph: Graph | None, edges: sp.csr_array | None, codes: Codes, central: list[Positions]
) -> Clusters:
    count = len(central)
    examples = [", ".join(str(embedding.ids[node]) for node in nodes.tolist()) for nodes in central]
    label, share = (None, None) if graph is None or graph.labels is None else _labels(graph.labels, codes, count)
    words = None if graph is None else _distinguishing(graph, codes, count)
    names = words if words is not None else label if label is not None else examples
    inside = None
    if edges is not None:
        between = _between(edges, codes)
        inside = np.diag(between) / np.maximum(between.sum(axis=1), np.finfo(np.float64).tiny)
    return Clusters(
        np.arange(count, dtype=np.int32),
        np.array([name or shown for name, shown in zip(names, examples, strict=True)], dtype=object),
        np.bincount(codes, minlength=count),
        inside,
        label,
        share,
        ids_at(embedding.ids, np.array([nodes[0] for nodes in central])),
        np.array(examples, dtype=object),
        None if edges is None else modularity(edges, codes),
        codes,
        embedding,
    )


def _labels(labels: Categories, codes: Codes, count: int) -> tuple[Column, Values]:
    """The most frequent label of each cluster, and its share among the labelled nodes; None and 0 if there are none."""
    known = labels.codes >= 0
    table = np.zeros((count, max(len(labels.names), 1)))
    np.add.at(table, (codes[known], labels.codes[known]), 1)
    best, total = table.argmax(axis=1), table.sum(axis=1)
    names = names_at(Categories(np.where(total > 0, best, -1).astype(np.int32), labels.names), np.arange(count))
    assert names is not None
    return names, table.max(axis=1) / np.maximum(total, 1)


def _distinguishing(graph: Graph, codes: Codes, count: int) -> list[str] | None:
    """For each cluster the names of the attributes that tell it from the others; None if attributes have no names."""
    words, names = words_of(graph), word_names(graph)
    if words is not None and any(names):
        return [", ".join(str(names[each]) for each in row) for row in _typical_words(words, names, codes, count)]
    only = graph.by_type().types
    if len(only) == 1 and only[0].attributes is not None and only[0].feature_names and not only[0].sparse:
        return _typical_columns(np.asarray(only[0].attributes), only[0].feature_names, codes, count)
    return None


def _typical_words(words: sp.csr_array, names: list[str | None], codes: Codes, count: int) -> list[list[int]]:
    """The columns with the largest p log(p / q): p is the share of the cluster's nodes that have the word, q of all."""
    has = sp.csr_array((np.ones(words.nnz), words.indices, words.indptr), shape=words.shape)
    members = sp.csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=(count, len(codes)))
    inside = np.asarray((members @ has).todense())
    sizes = np.bincount(codes, minlength=count)[:, None]
    # One node more, which has no word: a word of one node does not name a cluster.
    p, q = inside / (sizes + 1), inside.sum(axis=0) / (len(codes) + 1)
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    gain = np.where(np.array([name is not None for name in names]), p * np.log(ratio), 0.0)
    order = np.argsort(-gain, axis=1, kind="stable")[:, :WORDS]
    return [[each for each in row.tolist() if gain[c, each] > 0] for c, row in enumerate(order)]


def _typical_columns(values: npt.NDArray[np.floating], names: tuple[str, ...], codes: Codes, count: int) -> list[str]:
    """The columns whose mean in a cluster is the most standard deviations from the mean of all, such as "age high"."""
    spread = values.std(axis=0, dtype=np.float64)
    used = np.flatnonzero(spread > 0)
    scaled = (values[:, used] - values[:, used].mean(axis=0)) / spread[used]
    found = []
    for c in range(count):
        mean = scaled[codes == c].mean(axis=0)
        best = np.argsort(-abs(mean), kind="stable")[:WORDS]
        found.append(", ".join(f"{names[used[each]]} {'high' if mean[each] > 0 else 'low'}" for each in best.tolist()))
    return found
