"""Sorted entries, both directions of all edges, to the adjacency of a graph folder.

The rules are those of `glace.graph.graph.build`: the weights of repeated edges are summed, and of the two directions of
an undirected edge the larger weight counts.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from glace.blocks import blocks
from glace.graph.graph import CleaningReport
from glace.io.folder import FolderWriter
from glace.sparse import check_sums, index_width_of

Integers = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]


class Entries(NamedTuple):
    """Entries (row, column) of a matrix: sums of weights, and numbers of edges, of an edge and of its reverse."""

    rows: Integers
    columns: Integers
    forward: Weights
    backward: Weights
    edges: Integers
    reverses: Integers

    def part(self, wanted: slice) -> "Entries":
        """Return some of the entries."""
        return Entries._make(column[wanted] for column in self)


def entries_of(rows: Integers, columns: Integers, forward: npt.NDArray[np.bool_], weights: Weights) -> Entries:
    """Return one entry for each edge (`forward`) or reverse of an edge."""
    one = forward.astype(np.int64)
    return Entries(rows, columns, np.where(forward, weights, 0), np.where(forward, 0, weights), one, 1 - one)


def merged(parts: Iterable[Entries]) -> Iterator[Entries]:
    """Merge repeated entries of parts that are sorted, each and all together, by row and column."""
    rest = None
    for part in parts:
        if len(part.rows):
            joined = part if rest is None else Entries._make(map(np.concatenate, zip(rest, part, strict=True)))
            whole = _summed(joined)
            yield whole.part(slice(-1))
            rest = whole.part(slice(-1, None))  # the next part may repeat the last entry
    if rest is not None:
        yield rest


def _summed(entries: Entries) -> Entries:
    """Sum runs of equal entries."""
    rows, columns, *values = entries
    first = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])))
    if len(first) == len(rows):
        return entries
    return Entries(rows[first], columns[first], *(np.add.reduceat(each, first) for each in values))


def write_adjacency(
    writer: FolderWriter, entries: Iterable[Entries], nodes: int, edges: int, directed: bool
) -> CleaningReport:
    """Write `adjacency` and, for a directed graph, `neighbors`; count what was merged.

    Parameters
    ----------
    writer
        Writes the arrays.
    entries
        What `merged` yields for both directions of all edges, without self-loops.
    nodes, edges
        Number of nodes, and of edges with repeated ones: they determine the width of indices.
    directed
        Whether edges have a direction.
    """
    width = index_width_of(nodes, 2 * edges)
    with ExitStack() as opened:
        adjacency = opened.enter_context(_MatrixWriter(writer, "adjacency", nodes, width))
        neighbors = opened.enter_context(_MatrixWriter(writer, "neighbors", nodes, width)) if directed else None
        report = _write_entries(entries, adjacency, neighbors)
    joined = neighbors or adjacency
    return replace(
        report, unequal_directions=report.unequal_directions // 2, isolated_nodes=nodes - joined.rows_with_entries
    )


def _write_entries(
    entries: Iterable[Entries], adjacency: "_MatrixWriter", neighbors: "_MatrixWriter | None"
) -> CleaningReport:
    """Write both matrices, and count what was merged; unequal directions are counted from both ends."""
    report = CleaningReport()
    for part in entries:
        with np.errstate(over="ignore"):  # `check_sums` raises for infinite weights
            forward, backward = part.forward.astype(np.float32), part.backward.astype(np.float32)
            both = forward + backward
        check_sums(forward)
        there = part.edges > 0
        unequal = there & (part.reverses > 0) & (forward != backward)
        if neighbors is None:
            adjacency.append(part.rows, part.columns, np.maximum(forward, backward))
            report = replace(report, unequal_directions=report.unequal_directions + int(unequal.sum()))
        else:
            adjacency.append(part.rows[there], part.columns[there], forward[there])
            neighbors.append(part.rows, part.columns, both)
        duplicates = int(part.edges.sum()) - int(there.sum())
        report = replace(report, duplicate_edges=report.duplicate_edges + duplicates)
    return report


class _MatrixWriter:
    """Writes a CSR matrix of a graph folder in blocks of sorted entries."""

    def __init__(self, writer: FolderWriter, name: str, rows: int, width: type[np.signedinteger[Any]]) -> None:
        self.indptr = writer.stream(f"{name}/indptr", width)
        self.indices = writer.stream(f"{name}/indices", width)
        self.data = writer.stream(f"{name}/data", np.float32)
        self.rows, self.started, self.entries, self.rows_with_entries = rows, 0, 0, 0

    def append(self, rows: Integers, columns: Integers, data: npt.NDArray[np.float32]) -> None:
        if len(rows) == 0:
            return
        for part in blocks(int(rows[-1]) + 1 - self.started):
            wanted = np.arange(self.started + part.start, self.started + part.stop)
            self.indptr.append(self.entries + np.searchsorted(rows, wanted))
        self.rows_with_entries += int((rows[1:] != rows[:-1]).sum()) + int(rows[0] >= self.started)
        self.started, self.entries = int(rows[-1]) + 1, self.entries + len(rows)
        self.indices.append(columns)
        self.data.append(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in blocks(self.rows + 1 - self.started):
            self.indptr.append(np.full(part.stop - part.start, self.entries))
        for stream in (self.indptr, self.indices, self.data):
            stream.close()
