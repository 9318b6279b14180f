"""DeepWalk and node2vec: random walks read as sentences, nodes as their words, by a skip-gram model.

Both here train with negative sampling; DeepWalk's first publication had a hierarchical softmax instead, which
the comparisons since then have dropped.
"""

import logging
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.experiments.baselines.method import refuse_unseen
from glace.experiments.baselines.walks import WalkSampler
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.options import Configuration, option
from glace.rng import Streams

_log = logging.getLogger("glace")
# gensim cuts what is beyond 10,000 words off a sentence and off a job.
LONGEST = 10_000
LAST_RATE = 1e-4


@dataclass(frozen=True)
class WalkMethod(Configuration):
    """What DeepWalk and node2vec share: all but the bias of the walks.

    Walks of 40 nodes and a window of 5 are half of what the publications have. On Cora-ML's validation edges that
    loses nothing by cosine (AUC 0.920 for 0.923, within the error) and wins much by the dot product (0.932 for
    0.874), which falls as training goes on: 0.893, 0.872, 0.863 with 5, 10, 20 walks of 80 and a window of 10.
    A core trains on some 150,000 visits a second: `tokens` keeps it at a few minutes, however large the graph.
    """

    name: ClassVar[str]
    inductive: ClassVar[bool] = False

    dim: int = option(128, "Numbers a node.", at_least=1)
    walks: int = option(10, "Walks from each node.", at_least=1)
    length: int = option(40, "Nodes of a walk.", at_least=2, below=LONGEST + 1)
    window: int = option(5, "How far apart in a walk two nodes may be to count as a pair.", at_least=1)
    negatives: int = option(5, "Negatives a pair.", at_least=1)
    learning_rate: float = option(0.025, "Rate of the first step; falls evenly to 0.0001.", above=0)
    tokens: int | None = option(
        20_000_000,
        "The most nodes that all walks together may visit. Where walks * length * nodes is more, there are fewer "
        "walks from each node, at least one, and then shorter ones. None sets no bound.",
        at_least=2,
        kind=int,
        optional=True,
    )

    @abstractmethod
    def bias(self) -> tuple[float, float]:
        """p and q of the walks."""

    def embed(
        self,
        graph: Graph,
        streams: Streams,
        unseen: Any = None,
        validation: HeldOut | None = None,  # noqa: ARG002 - training has a fixed length
    ) -> Embedding:
        """Points; a node that no walk visits, such as one without edges, is at 0."""
        refuse_unseen(self, unseen)
        p, q = self.bias()
        walks, length = self.affordable(int(np.count_nonzero(np.diff(graph.adjacency.indptr))))
        corpus = Corpus(WalkSampler(graph, streams, length=length, p=p, q=q), walks)
        return Embedding(graph.ids, self._skip_gram(corpus, streams), None, "dot")

    def affordable(self, starts: int) -> tuple[int, int]:
        """(walks, length) for a graph of so many nodes to start from: as set, or less to stay within `tokens`."""
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
        """(n, dim): the trained vectors, 0 for a node that no walk visits."""
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
            sorted_vocab=0,  # keeps the rows in the order of the nodes
            workers=1,  # more would write over each other's updates, another result each time
            seed=int(streams.numpy("skip-gram").integers(2**31)),
        )
        visited = np.flatnonzero(visits)
        model.build_vocab_from_freq(dict(zip(visited.tolist(), visits[visited].tolist(), strict=True)))
        model.train(corpus, total_words=int(visits.sum()), epochs=1)
        vectors = np.zeros((len(visits), self.dim), dtype=np.float32)
        vectors[visited] = model.wv.vectors
        return vectors


@dataclass(frozen=True)
class DeepWalk(WalkMethod):
    """Perozzi and others 2014: walks that choose among the edges of the present node by weight alone."""

    name: ClassVar[str] = "deepwalk"

    def bias(self) -> tuple[float, float]:
        """None."""
        return 1.0, 1.0


@dataclass(frozen=True)
class Node2Vec(WalkMethod):
    """Grover and Leskovec 2016: walks that also look at where they came from."""

    name: ClassVar[str] = "node2vec"

    # Of six pairs from 1/4 to 4, among the best on validation edges of Cora-ML and, of two tried there, of DBLP; but
    # by 0.1 to 0.4 points of AUC, which another seed turns round.
    p: float = option(1.0, "Return: a step back is 1/p times as likely as by its weight.", above=0)
    q: float = option(
        2.0,
        "In-out: a step to a node not joined to the last one is 1/q times as likely as by its weight.",
        above=0,
    )

    def bias(self) -> tuple[float, float]:
        """As set."""
        return self.p, self.q


@dataclass(frozen=True, eq=False)
class Corpus:
    """The walks of a graph as gensim wants them, sentences of words. Each iteration draws the same ones again.

    That costs a tenth of a microsecond a node, training on it fifty times as much; keeping them would cost memory.
    """

    sampler: WalkSampler
    rounds: int

    def __iter__(self) -> Iterator[list[int]]:
        for block in self._blocks():
            ends = np.count_nonzero(block >= 0, axis=1).tolist()
            for walk, end in zip(block.tolist(), ends, strict=True):
                yield walk[:end]

    def visits(self) -> npt.NDArray[np.int64]:
        """(n,) how often each node occurs."""
        counts = np.zeros(self.sampler.adjacency.shape[0] + 1, dtype=np.int64)
        for block in self._blocks():
            np.add.at(counts, block.ravel(), 1)  # a -1 behind the end of a walk counts in the last place
        return counts[:-1]

    def _blocks(self) -> Iterator[npt.NDArray[np.int32]]:
        for number in range(self.rounds):
            yield from self.sampler.round(number)


def _word2vec() -> Any:
    try:
        from gensim.models import Word2Vec
    except ImportError as problem:
        raise InputError(
            f"deepwalk and node2vec need gensim: pip install 'glace-graph[baselines]' ({problem})"
        ) from problem
    return Word2Vec
