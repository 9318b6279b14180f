"""Splits of experiments: edges for validation and test, splits from files, and hidden nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.errors import FormatError, InputError
from glace.graph.graph import Graph
from glace.graph.node_types import NodeAttributes
from glace.graph.split import (
    HeldOut,
    Pairs,
    check_enough,
    check_fraction,
    distinct_pairs,
    hidden_non_edges,
    sample_non_edges,
)
from glace.storage.archive import read_arrays
from glace.storage.files import existing

SPLIT_MEMBERS = ("train_edges", "val_edges", "val_ground_truth", "test_edges", "test_ground_truth")


@dataclass(frozen=True)
class Split:
    """The graph to train on, the pairs to choose options and a moment to stop by, and the pairs to judge by."""

    train: Graph
    validation: HeldOut
    test: HeldOut


@dataclass(frozen=True)
class Induction:
    """A graph without some of its nodes, and the pairs that join these to it or to each other.

    Pairs number the nodes as an embedding of `visible` with `hidden` appended does: first the visible
    nodes, then the hidden ones. Row i of that embedding is node `order[i]` of the whole graph.
    """

    visible: Graph
    hidden: NodeAttributes
    """Attributes of the H hidden nodes."""
    test: HeldOut
    order: npt.NDArray[np.int64]


def split_edges(
    graph: Graph, generator: np.random.Generator, validation_fraction: float = 0.05, test_share: float = 0.15
) -> Split:
    """Edges drawn evenly for validation and for the test, the rest for training.

    Shares count unordered pairs of nodes; a->b and b->a of a directed graph go to one part, together. Every
    node that has an edge has one in the training graph. Each part has as many non-edges as edges, drawn
    evenly among all pairs that are no edge of the whole graph: pairs without order, or with it if the
    graph is directed. No non-edge is in both parts.
    """
    check_fraction(validation_fraction, "for validation")
    check_fraction(test_share, "for the test")
    train, (validation, test) = _parted(graph, [validation_fraction, test_share], generator, "other shares")
    return Split(train, validation, test)


def _parted(
    graph: Graph, shares: Sequence[float], generator: np.random.Generator, instead: str
) -> tuple[Graph, list[HeldOut]]:
    """The graph without these shares of its edges, and each share with its own non-edges."""
    edges, weights = graph.edges_and_weights()
    pair_of_edge, pairs = _unordered(edges, graph.num_nodes)
    order = generator.permutation(len(pairs))
    removable = order[~_needed(pairs[order], graph.num_nodes)]
    wanted = [round(share * len(pairs)) for share in shares]
    check_enough(shares, wanted, len(pairs), len(removable), instead)
    part_of_pair = np.full(len(pairs), -1)
    part_of_pair[removable[: sum(wanted)]] = np.repeat(np.arange(len(shares)), wanted)
    part = part_of_pair[pair_of_edge]
    gone = [edges[part == each] for each in range(len(shares))]
    counts = [len(each) for each in gone]
    apart = np.split(sample_non_edges(graph, sum(counts), generator), np.cumsum(counts)[:-1])
    rest = graph.with_edges(edges[part < 0], weights[part < 0])
    return rest, [HeldOut(*each) for each in zip(gone, apart, strict=True)]


def _unordered(edges: Pairs, size: int) -> tuple[npt.NDArray[np.int64], Pairs]:
    """For each edge the number of its pair, and the pairs, (smaller, larger) and sorted, each once."""
    ordered = np.sort(edges, axis=1)
    of_edge = ordered[:, 0] * size + ordered[:, 1]
    if (of_edge[1:] > of_edge[:-1]).all():  # so it is for every undirected graph: nothing to sort
        return np.arange(len(edges)), ordered
    keys, pair_of_edge = np.unique(of_edge, return_inverse=True)
    return pair_of_edge, np.column_stack([keys // size, keys % size])


def _needed(pairs: Pairs, size: int) -> npt.NDArray[np.bool_]:
    """Which pairs, in their order, are the first one of at least one of their two nodes."""
    first = np.full(size, len(pairs))
    for side in (0, 1):
        np.minimum.at(first, pairs[:, side], np.arange(len(pairs)))
    needed = np.zeros(len(pairs) + 1, dtype=bool)
    needed[first] = True
    return needed[:-1]


def reversed_in_training(train: Graph, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """(P,) which pairs are, in this or the other direction, an edge of the training graph.

    Such a pair is no prediction where direction is not modelled. A directed split has them: a->b may be
    for the test while b->a is for training.
    """
    return train.has_edges(pairs) | train.has_edges(pairs[:, ::-1])


def given_split(graph: Graph, path: str | Path) -> Split:
    """A split somebody else made of this graph, from an .npz file.

    Its members are `train_edges` (E, 2), `val_edges` and `test_edges` (P, 2), all node numbers from 0, and
    `val_ground_truth` and `test_ground_truth` (P,), 1 where the pair is an edge and 0 where it is none. All
    edges must be edges of the graph, which gives nodes, attributes and weights. The training graph has
    the graph's `directed`; if that is False, a pair and its reverse are one edge, see `reversed_in_training`.
    """
    source = existing(path, "a split in an .npz file")
    members = read_arrays(source, SPLIT_MEMBERS)
    try:
        listed = _pairs(members, "train_edges", graph)
        train = _with_only(graph, _edges_of(graph, listed, "train_edges", np.ones(len(listed), dtype=bool)))
        return Split(train, *(_judged(graph, members, part) for part in ("val", "test")))
    except (InputError, FormatError) as problem:
        raise type(problem)(f"{source.name}: {problem}") from problem


def _judged(graph: Graph, members: dict[str, npt.NDArray[Any]], part: str) -> HeldOut:
    name = f"{part}_edges"
    pairs = _pairs(members, name, graph)
    truth = _truth(members, f"{part}_ground_truth", len(pairs))
    return HeldOut(_edges_of(graph, pairs, name, truth == 1), pairs[truth == 0])


def _whole_numbers(members: dict[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    if name not in members:
        raise InputError(f"no member {name}; wanted {', '.join(SPLIT_MEMBERS)}")
    array = members[name]
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} holds {array.dtype}; wanted whole numbers")
    return array


def _pairs(members: dict[str, npt.NDArray[Any]], name: str, graph: Graph) -> Pairs:
    pairs = _whole_numbers(members, name)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"{name} has the shape {pairs.shape}; wanted rows of two node numbers")
    outside = (pairs < 0) | (pairs >= graph.num_nodes)
    _refuse(np.asarray(outside.any(axis=1)), pairs, name, f"wanted node numbers from 0 to {graph.num_nodes - 1:,}")
    pairs = pairs.astype(np.int64)
    _refuse(np.asarray(pairs[:, 0] == pairs[:, 1]), pairs, name, "wanted two different nodes")
    return pairs


def _truth(members: dict[str, npt.NDArray[Any]], name: str, count: int) -> npt.NDArray[Any]:
    truth = _whole_numbers(members, name)
    if truth.shape != (count,):
        raise InputError(f"{name} has the shape {truth.shape}; wanted ({count},), one number for each pair")
    _refuse(~np.isin(truth, (0, 1)), truth, name, "wanted 1 for an edge and 0 for none")
    if not (truth == 1).any() or not (truth == 0).any():
        raise InputError(f"{name} must have both 1 and 0: edges to be told from pairs that are none")
    return truth


def _edges_of(graph: Graph, pairs: Pairs, name: str, among: npt.NDArray[np.bool_]) -> Pairs:
    """The pairs where `among`, (P,), which all are edges of the graph."""
    strange = np.asarray(among & ~graph.has_edges(pairs))
    _refuse(strange, pairs, name, "no edge of the graph; is the split one of it?")
    return np.asarray(pairs[among])


def _refuse(bad: npt.NDArray[np.bool_], rows: npt.NDArray[Any], name: str, wanted: str) -> None:
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise InputError(f"{name}: row {first + 1} is {rows[first].tolist()}; {wanted}")


def _with_only(graph: Graph, pairs: Pairs) -> Graph:
    """The graph with these of its edges, each once even if it is listed again or both ways."""
    one_way = pairs if graph.directed else np.sort(pairs, axis=1)
    edges = distinct_pairs(one_way, graph.num_nodes)
    return graph.with_edges(edges, np.asarray(graph.adjacency[edges[:, 0], edges[:, 1]]).ravel())


def hide_nodes(graph: Graph, share: float, generator: np.random.Generator) -> Induction:
    """Hide a `share` of the nodes, to be embedded from their attributes alone by what the others taught.

    1. round(share * n) nodes are drawn evenly and hidden; of nodes with types, among the n that have attributes. The
       visible graph is that of the other nodes with the edges among them; a visible node that lost all its edges stays.
    2. The edges to predict are all edges of the graph with at least one hidden node.
    3. As many non-edges are drawn evenly, without repetition, among all pairs of different nodes with at
       least one hidden node that are no edge of the graph: pairs without order, or with it if it is directed.
       Where nodes have types, such pairs are made of the edges to predict, by other nodes of the same types.
    """
    check_fraction(share, "of nodes to hide")
    if not graph.has_attributes:
        raise InputError("a hidden node is embedded from its attributes, but the graph has none")
    order, visible = _hidden_last(_described(graph), share, generator)
    whole, kept = graph.take(order), graph.take(order[:visible])
    edges = whole.edges()
    judged = edges[edges.max(axis=1) >= visible]
    if len(judged) == 0 or kept.num_edges == 0:
        raise InputError(
            f"hiding {len(order) - visible:,} of {len(order):,} nodes leaves {kept.num_edges:,} edges to train on "
            f"and {len(judged):,} to predict; wanted at least 1 of each; hide another share"
        )
    apart = hidden_non_edges(whole, visible, len(judged), generator)
    return Induction(kept, graph.by_type().take(order[visible:]), HeldOut(judged, apart), order)


def _described(graph: Graph) -> npt.NDArray[np.bool_]:
    """(n,) whether a node has attributes; one of a type without has none to be embedded from."""
    types = graph.by_type()
    has = np.array([each.width is not None for each in types.types])
    return np.asarray(has[types.locate(np.arange(graph.num_nodes))[0]])


def _hidden_last(described: npt.NDArray[np.bool_], share: float, generator: np.random.Generator) -> tuple[Pairs, int]:
    """The nodes, visible ones first and both kinds in their order; and how many are visible.

    So many of the nodes that are `described`, (n,), are hidden.
    """
    able = np.flatnonzero(described)
    hidden = np.zeros(len(described), dtype=bool)
    hidden[able[generator.permutation(len(able))[: round(share * len(able))]]] = True
    return np.concatenate([np.flatnonzero(~hidden), np.flatnonzero(hidden)]), int((~hidden).sum())
