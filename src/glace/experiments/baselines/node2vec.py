"""DeepWalk and node2vec: a skip-gram model with random walks as sentences and nodes as words.

Both train with negative sampling; DeepWalk was first published with a hierarchical softmax, which later comparisons
have dropped. The walks of a round depend only on the seed and the number of the round.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.experiments.baselines.method import Baseline, refuse_unseen
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.kernels.compile import CSR, FloatArray, IntArray, compiled
from glace.kernels.draws import is_neighbour
from glace.kernels.mixing import GOLDEN, mixed
from glace.options import option
from glace.rng import Streams
from glace.sparse import Matrix

NodeIndex = npt.NDArray[np.int32]
BLOCK = 4096
"""Walks per block."""
Bias = tuple[float, float, float]
TRIES = 16
"""Rejected draws before the whole row is scanned, which bounds the time if weights, p or q are extreme."""
# Typed, because numba converts the sum of an unsigned and a plain integer to a float.
U11, ONE = np.uint64(11), np.uint64(1)


class WalkSampler:
    """Random walks by edge weight, along the direction of the edges, biased as in node2vec.

    `p` and `q` are those of node2vec: the weight of a step back to the previous node is multiplied by 1/p, that of a
    step to a node not joined to the previous one by 1/q. If both are 1, the walk has no memory.
    """

    def __init__(self, graph: Graph, streams: Streams, *, length: int, p: float = 1.0, q: float = 1.0) -> None:
        if graph.adjacency.nnz == 0:
            raise InputError("the graph has no edges; random walks need edges")
        self.adjacency, self.streams, self.length = graph.adjacency, streams, length
        self.csr = (graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data)
        self.bias = (1 / p, 1.0, 1 / q)
        self.starts = np.flatnonzero(np.diff(graph.adjacency.indptr))
        """(S,) the nodes with outgoing edges; each starts one walk per round."""
        self.largest = graph.adjacency.max(axis=1).toarray().astype(np.float64)

    def round(self, number: int) -> Iterator[NodeIndex]:
        """Yield blocks (W, length) with one walk from each start, in random order; -1 after the end of a walk."""
        generator = self.streams.numpy("walks", number)
        order = generator.permutation(self.starts)
        for begin in range(0, len(order), BLOCK):
            starts = order[begin : begin + BLOCK]
            seeds = generator.integers(2**64, size=len(starts), dtype=np.uint64)
            out = np.empty((len(starts), self.length), dtype=np.int32)
            walk(self.csr, self.largest, starts, seeds, self.bias, out)
            yield out


@compiled
def walk(csr: CSR, largest: FloatArray, starts: IntArray, seeds: IntArray, bias: Bias, out: IntArray) -> None:
    """Write the nodes of walk w to out[w], (W, length) int32, from starts[w] on; -1 after its end.

    `largest` (n,) is the largest weight of each row, `seeds` (W,) is uint64: the draws of a walk are splitmix64 of its
    seed, so a walk does not depend on the others. From t via v, a walk continues to x with probability proportional to
    weight[v, x] times bias[0] if x is t, bias[1] if t has an edge to x, else bias[2]: node2vec's (1/p, 1, 1/q). The
    first step has no t and uses the weight alone. A walk ends at a node without outgoing edges.

    One thread makes eight million steps per second, fifty times what training consumes, so the loop is not parallel:
    compiling it in parallel would take longer than walking most graphs.
    """
    indptr, indices, _ = csr
    top = max(bias)
    for w in range(len(starts)):
        out[w, :] = -1
        before, here, draws = -1, starts[w], np.uint64(0)
        out[w, 0] = here
        for step in range(1, out.shape[1]):
            if indptr[here] == indptr[here + 1]:
                break
            place, draws = _next_by_rejection(csr, largest[here] * top, before, here, bias, seeds[w], draws)
            before, here = here, indices[place]
            out[w, step] = here


@compiled
def _next_by_rejection(
    csr: CSR, bound: float, before: int, here: int, bias: Bias, seed: np.uint64, draws: np.uint64
) -> tuple[int, np.uint64]:
    """Return the position in `indices` of the next node, and the number of draws made so far.

    A position is drawn uniformly and accepted with its share of `bound`, which no position exceeds.
    """
    indptr, indices, data = csr
    begin, degree = indptr[here], indptr[here + 1] - indptr[here]
    for _ in range(TRIES):
        place = begin + min(np.int64(_uniform(seed, draws) * degree), degree - 1)
        draws += ONE
        share = data[place] * _bias(indptr, indices, before, indices[place], bias)
        if share >= bound:
            return place, draws
        draws += ONE
        if _uniform(seed, draws - ONE) * bound < share:
            return place, draws
    return _next_by_scan(csr, before, here, bias, _uniform(seed, draws)), draws + ONE


@compiled
def _next_by_scan(csr: CSR, before: int, here: int, bias: Bias, uniform: float) -> int:
    """Return such a position by scanning the row twice: for its sum, and up to the drawn fraction of it."""
    indptr, indices, data = csr
    total = 0.0
    for place in range(indptr[here], indptr[here + 1]):
        total += data[place] * _bias(indptr, indices, before, indices[place], bias)
    left = uniform * total
    for place in range(indptr[here], indptr[here + 1]):
        left -= data[place] * _bias(indptr, indices, before, indices[place], bias)
        if left < 0.0:
            return place
    return int(indptr[here + 1]) - 1


@compiled
def _bias(indptr: IntArray, indices: IntArray, before: int, node: int, bias: Bias) -> float:
    """Return the factor of the weight of a step to `node` after `before`, which is -1 at the start of a walk."""
    if before < 0:
        return bias[1]
    if node == before:
        return bias[0]
    # Equal factors need no search of the row: DeepWalk's walks take half the time.
    if bias[1] == bias[2] or is_neighbour(indptr, indices, before, node):
        return bias[1]
    return bias[2]


@compiled
def _uniform(seed: np.uint64, number: np.uint64) -> float:
    """Return the `number`-th draw of a seed, uniform in [0, 1): splitmix64's output as 53 bits of a float."""
    return np.float64(mixed(seed + (number + ONE) * GOLDEN) >> U11) * 2.0**-53


_log = logging.getLogger("glace")
# gensim truncates sentences and jobs after 10,000 words.
LONGEST = 10_000
LAST_RATE = 1e-4


@dataclass(frozen=True)
class DeepWalk(Baseline):
    """Perozzi et al. 2014: walks without memory.

    Walks of 40 nodes are those of the paper; a window of 5 is half of its own. On Cora-ML's validation edges this loses
    nothing by cosine (AUC 0.920 against 0.923, within the error) and gains much by dot product (0.932 against 0.874),
    which falls with longer training: 0.893, 0.872, 0.863 with 5, 10, 20 walks of 80 and a window of 10. A core trains
    on about 150,000 visits per second: `tokens` bounds the time to a few minutes for graphs of any size.
    """

    name: ClassVar[str] = "deepwalk"
    inductive: ClassVar[bool] = False

    dim: int = option(128, "Dimensions of a point.", at_least=1)
    walks: int = option(10, "Walks from each node.", at_least=1)
    length: int = option(40, "Nodes per walk.", at_least=2, below=LONGEST + 1)
    window: int = option(5, "Largest distance in a walk of two nodes that form a pair.", at_least=1)
    negatives: int = option(5, "Negatives per pair.", at_least=1)
    learning_rate: float = option(0.025, "Learning rate of the first step; it decreases linearly to 0.0001.", above=0)
    tokens: int | None = option(
        20_000_000,
        "Most visits of all walks together. If walks * length * nodes is larger, there are fewer walks from each node, "
        "at least one, and then shorter ones. None sets no limit.",
        at_least=2,
        kind=int,
        optional=True,
    )

    def check_installed(self) -> None:
        """Import gensim."""
        _word2vec()

    def bias(self) -> tuple[float, float]:
        """Return p and q of the walks."""
        return 1.0, 1.0

    def embed(
        self,
        graph: Graph,
        streams: Streams,
        unseen: Matrix | None = None,
        validation: HeldOut | None = None,  # noqa: ARG002 - training has a fixed length
    ) -> Embedding:
        """Return points; a node that no walk visits, such as one without edges, is at 0."""
        refuse_unseen(self.name, unseen)
        p, q = self.bias()
        walks, length = self.affordable(int(np.count_nonzero(np.diff(graph.adjacency.indptr))))
        corpus = Corpus(WalkSampler(graph, streams, length=length, p=p, q=q), walks)
        return Embedding(graph.ids, self._skip_gram(corpus, streams), None, "dot")

    def budget(self, graph: Graph) -> dict[str, object]:
        """Return the walks per node, their length and the visits of all walks, as `tokens` leaves them."""
        starts = int(np.count_nonzero(np.diff(graph.adjacency.indptr)))
        walks, length = self.affordable(starts)
        return {"walks": walks, "length": length, "visits": starts * walks * length}

    def affordable(self, starts: int) -> tuple[int, int]:
        """Return walks per node and their length, reduced if `starts` nodes would exceed `tokens` visits."""
        if self.tokens is None or starts * self.walks * self.length <= self.tokens:
            return self.walks, self.length
        walks = min(self.walks, max(1, self.tokens // (starts * self.length)))
        length = min(self.length, max(2, self.tokens // (starts * walks)))
        _log.info(
            f"{walks} walks of {length} nodes from each of {starts:,}, not {self.walks} of {self.length}, "
            f"to stay within tokens={self.tokens:,}"
        )
        return walks, length

    def _skip_gram(self, corpus: "Corpus", streams: Streams) -> npt.NDArray[np.float32]:
        """Return the trained vectors (n, dim); 0 for a node that no walk visits."""
        visits = corpus.visits()
        model = _word2vec()(
            vector_size=self.dim,
            window=self.window,
            negative=self.negatives,
            alpha=self.learning_rate,
            min_alpha=min(LAST_RATE, self.learning_rate),
            sg=1,
            sample=0,  # a frequent node is a hub, not a stop word
            min_count=1,
            sorted_vocab=0,  # keeps the order of the nodes
            workers=1,  # several would make results irreproducible
            seed=int(streams.numpy("skip-gram").integers(2**31)),
        )
        visited = np.flatnonzero(visits)
        model.build_vocab_from_freq(dict(zip(visited.tolist(), visits[visited].tolist(), strict=True)))
        model.train(corpus, total_words=int(visits.sum()), epochs=1)
        vectors = np.zeros((len(visits), self.dim), dtype=np.float32)
        vectors[visited] = model.wv.vectors
        return vectors


@dataclass(frozen=True)
class Node2Vec(DeepWalk):
    """Grover and Leskovec 2016: DeepWalk with walks whose steps depend on the previous node."""

    name: ClassVar[str] = "node2vec"

    # Of six pairs from 1/4 to 4, among the best on validation edges of Cora-ML and, of two, of DBLP; but only by 0.1 to
    # 0.4 points of AUC, which another seed reverses.
    p: float = option(1.0, "Return: the weight of a step back is multiplied by 1/p.", above=0)
    q: float = option(
        2.0, "In-out: the weight of a step to a node not joined to the previous one is multiplied by 1/q.", above=0
    )

    def bias(self) -> tuple[float, float]:
        """Return the options p and q."""
        return self.p, self.q


@dataclass(frozen=True, eq=False)
class Corpus:
    """The walks of a graph as sentences for gensim. Each iteration draws the same walks again.

    A draw costs 0.1 microseconds per node, training fifty times as much; storing the walks would cost memory.
    """

    sampler: WalkSampler
    rounds: int

    def __iter__(self) -> Iterator[list[int]]:
        for block in self._blocks():
            ends = np.count_nonzero(block >= 0, axis=1).tolist()
            for walk, end in zip(block.tolist(), ends, strict=True):
                yield walk[:end]

    def visits(self) -> npt.NDArray[np.int64]:
        """Return how often each node occurs (n,)."""
        counts = np.zeros(self.sampler.adjacency.shape[0] + 1, dtype=np.int64)
        for block in self._blocks():
            np.add.at(counts, block.ravel(), 1)  # -1 after the end of a walk counts in the last place
        return counts[:-1]

    def _blocks(self) -> Iterator[npt.NDArray[np.int32]]:
        for number in range(self.rounds):
            yield from self.sampler.round(number)


def _word2vec() -> Any:
    try:
        from gensim.models import Word2Vec
    except ImportError as problem:
        raise InputError(
            f"deepwalk and node2vec need gensim: pip install 'glace-graph[baselines]' (Python < 3.14; {problem})"
        ) from problem
    return Word2Vec
