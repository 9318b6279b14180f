"""Planted graphs of any size, written to disk in a stream: memory grows with the nodes, not with edges or words."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import planted_kernels as kernels
from benchmarks.buckets import Buckets
from glace.blocks import BLOCK, blocks
from glace.datasets.planted import NOISE, Population, check_counts, check_room, check_shape
from glace.graph.graph import CleaningReport, Graph
from glace.io.folder import FolderWriter, read_folder, writing
from glace.rng import Streams
from glace.sparse import index_width_of
from glace.storage.container import pack_strings

SPARE = 0.01
"""Share of pairs drawn beyond those wanted, since some come twice."""

Progress = Callable[[float], None]


def planted_folder(
    path: str | Path,
    nodes: int,
    edges: int,
    *,
    communities: int = 8,
    attributes: int = 200,
    words: int = 20,
    mixing: float = 0.1,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Graph:
    """A graph folder of a planted graph with this many undirected edges, and that graph, mapped.

    Communities, popularity and words are as `planted` draws them, but for one thing: each edge joins two
    communities with probability `mixing`, so their share is not exact. A pair drawn again is replaced by
    another. About 40 bytes a node are held in memory; `progress` is told the share that is done.
    """
    check_counts(nodes=nodes, edges=edges, communities=communities, attributes=attributes, words=words)
    check_shape(nodes, communities, attributes, 2 * edges / nodes, mixing)
    streams = Streams(random_state)
    places = np.arange(nodes, dtype=np.int32) % np.int32(communities)
    community = streams.numpy("planted communities").permutation(places)
    check_room(np.bincount(community), round((1 - mixing) * edges), round(mixing * edges), False)
    tell = progress or (lambda _: None)
    with writing(path) as writer:
        _write_words(writer, community, (communities, attributes, words), _number(streams, "planted words"))
        tell(0.3)
        drawn = _Drawn(writer.folder / "pairs", community, mixing, streams)
        drawn.draw(edges)
        tell(0.6)
        isolated = _write_edges(writer, drawn, nodes, edges)
        tell(0.9)
        names = [str(each) for each in range(communities)]
        writer.put({"labels/codes": community, **pack_strings("labels/names", names)})
        only_type = {"name": "", "count": nodes, "width": attributes, "sparse": True, "scaling": "unit"}
        metadata = {"nodes": nodes, "directed": False, "types": [only_type]}
        writer.finish(metadata, CleaningReport(isolated_nodes=isolated))
    return read_folder(path)


class _Drawn:
    """Distinct pairs (smaller, larger), as keys smaller * n + larger, sorted; on disk."""

    def __init__(self, folder: Path, community: npt.NDArray[np.int32], mixing: float, streams: Streams) -> None:
        self.folder, self.mixing, self.seed = folder, mixing, _number(streams, "planted edges")
        self.line = _line(Population.of(community, streams.numpy("planted popularity")))
        self.nodes, self.distinct, self.draws = len(community), 0, 0

    def draw(self, wanted: int) -> None:
        """Draw until there are at least as many distinct pairs as wanted."""
        self.buckets = Buckets(self.folder, self.nodes, wanted, np.int64)
        while self.distinct < wanted:
            missing = wanted - self.distinct
            self._spill(missing + round(SPARE * missing) + 16)
            self.distinct = sum(self._tidied(number) for number in range(self.buckets.count))

    def _spill(self, count: int) -> None:
        for part in blocks(count, BLOCK):
            keys = np.empty(part.stop - part.start, dtype=np.int64)
            kernels.pairs(self.seed, self.draws + part.start, self.line, self.mixing, keys)
            self.buckets.put(keys // self.nodes, keys)
        self.draws += count

    def _tidied(self, number: int) -> int:
        keys = np.sort(self.buckets.get(number))
        keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
        self.buckets.replace(number, keys)
        return len(keys)

    def kept(self, wanted: int) -> Iterator[npt.NDArray[np.int64]]:
        """As many of the pairs as wanted, in order; those left out lie evenly among them."""
        rank = 0
        for *_, keys in self.buckets:
            # Of D ranks, rank r stays if the multiple of wanted / D below it grows there.
            ranks = np.arange(rank, rank + len(keys) + 1) * wanted // self.distinct
            rank += len(keys)
            yield keys[ranks[1:] > ranks[:-1]]


def _number(streams: Streams, purpose: str) -> int:
    return int(streams.numpy(purpose).integers(2**62))


def _line(population: Population) -> tuple[Any, ...]:
    order = population.order.astype(np.int32)
    return population.ends, kernels.guide(population.ends), order, population.community, population.borders


def _write_edges(writer: FolderWriter, drawn: _Drawn, nodes: int, edges: int) -> int:
    """Write both directions of each pair, and return the number of nodes that have none."""
    both = Buckets(writer.folder / "edges", nodes, 2 * edges, np.int64)
    for keys in drawn.kept(edges):
        for part in blocks(len(keys)):
            small, large = np.divmod(keys[part], nodes)
            both.put(small, keys[part])
            both.put(large, large * nodes + small)
    drawn.buckets.remove()
    width, isolated, entries = index_width_of(nodes, 2 * edges), 0, 0
    with (
        writer.stream("adjacency/indptr", width) as indptr,
        writer.stream("adjacency/indices", width) as indices,
        writer.stream("adjacency/data", np.float32) as weights,
    ):
        indptr.append([0])
        for first, end, keys in both:
            keys.sort()
            rows, columns = np.divmod(keys, nodes)
            sizes = np.bincount(rows - first, minlength=end - first)
            indptr.append(entries + np.cumsum(sizes))
            indices.append(columns)
            weights.append(np.ones(len(keys), dtype=np.float32))
            entries, isolated = entries + len(keys), isolated + int((sizes == 0).sum())
    both.remove()
    return isolated


def _write_words(
    writer: FolderWriter, community: npt.NDArray[np.int32], sizes: tuple[int, int, int], random_state: int
) -> None:
    communities, width, words = sizes
    rows = max(BLOCK // words, 1)
    columns = np.empty((rows, words), dtype=np.int32)
    row_sizes, distinct = np.empty(rows, np.int64), np.empty(rows * words, np.int32)
    counts = np.empty(rows * words, np.float32)
    kind, entries = index_width_of(width, len(community) * words), 0
    with (
        writer.stream("types/0/attributes/indptr", kind) as indptr,
        writer.stream("types/0/attributes/indices", kind) as indices,
        writer.stream("types/0/attributes/data", np.float32) as data,
    ):
        indptr.append([0])
        for part in blocks(len(community), rows):
            here = columns[: part.stop - part.start]
            kernels.words(random_state, part.start, community[part], width, width // communities, NOISE, here)
            found = kernels.counted(here, row_sizes, distinct, counts)
            indptr.append(entries + np.cumsum(row_sizes[: len(here)]))
            indices.append(distinct[:found])
            data.append(counts[:found])
            entries += found
