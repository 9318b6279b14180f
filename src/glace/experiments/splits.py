"""Splits of experiments: edges for validation and test, splits from files, and hidden nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from glace.errors import FormatError, InputError
from glace.graph.graph import Graph, NodeAttributes
from glace.graph.split import (
    HeldOut,
    Pairs,
    check_enough,
    check_fraction,
    distinct_pairs,
    draw_removable,
    hidden_non_edges,
    sample_non_edges,
)
from glace.storage.archive import read_arrays
from glace.storage.files import existing

SPLIT_MEMBERS = ("train_edges", "val_edges", "val_ground_truth", "test_edges", "test_ground_truth")
NOT_AN_EDGE = "not an edge of the graph; is the split one of this graph?"

Numbers = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Split:
    """The graph to train on, and the pairs for validation and for the test."""

    train: Graph
    validation: HeldOut
    test: HeldOut


@dataclass(frozen=True)
class Induction:
    """A graph without some of its nodes, and test pairs with at least one of these hidden nodes.

    Pairs number the nodes like an embedding of `visible` followed by `hidden`. Row i of that embedding is node
    `order[i]` of the whole graph. `hidden` are the attributes of the hidden nodes.
    """

    visible: Graph
    hidden: NodeAttributes
    test: HeldOut
    order: npt.NDArray[np.int64]


def split_edges(
    graph: Graph, generator: np.random.Generator, validation_fraction: float = 0.05, test_share: float = 0.15
) -> Split:
    """Return a split with randomly drawn edges for validation and test, and the other edges for training.

    Fractions are of unordered pairs; a->b and b->a of a directed graph go to the same part. Every node that has an edge
    keeps a random one in the training graph; the others are drawn with equal probability. Each part has as many
    non-edges as edges, drawn uniformly from the pairs that are no edge of the whole graph, with direction if the graph
    is directed. The parts share no non-edge.
    """
    check_fraction(validation_fraction, "for validation")
    check_fraction(test_share, "for the test")
    shares = [validation_fraction, test_share]
    neighborhoods = graph.neighborhoods()
    count = neighborhoods.nnz // 2
    wanted = [round(share * count) for share in shares]
    drawn, removable = draw_removable(neighborhoods, sum(wanted), generator)
    check_enough(shares, wanted, count, removable, "other shares")
    edges, weights = graph.edges_and_weights()
    # Both directions of a pair have the same key.
    keys, of_edges = (np.sort(pairs, axis=1) @ [graph.num_nodes, 1] for pairs in (drawn, edges))
    place = np.searchsorted(keys, of_edges)
    is_drawn = np.append(keys, -1)[place] == of_edges
    parts = generator.permutation(np.repeat([0, 1], wanted))
    part = np.where(is_drawn, np.append(parts, -1)[place], -1)
    held_out = [edges[part == each] for each in (0, 1)]
    non_edges = sample_non_edges(graph, sum(map(len, held_out)), generator)
    validation, test = map(HeldOut, held_out, np.split(non_edges, [len(held_out[0])]))
    return Split(graph.with_edges(edges[part < 0], weights[part < 0]), validation, test)


def seen_in_reverse(split: Split) -> npt.NDArray[np.bool_]:
    """Return which test edges (P,) are, in either direction, an edge of the training graph or a validation edge.

    A method that ignores direction knows such a pair already. In a directed split, a->b may be a test edge while b->a
    is a training edge.
    """
    test, train = split.test.edges, split.train
    of_test, of_validation = (np.sort(each, axis=1) @ [train.num_nodes, 1] for each in (test, split.validation.edges))
    return train.has_edges(test) | train.has_edges(test[:, ::-1]) | np.isin(of_test, of_validation)


def given_split(graph: Graph, path: str | Path) -> Split:
    """Read a published split of this graph from an .npz file.

    Its members are `train_edges` (E, 2), `val_edges` and `test_edges` (P, 2), all node numbers from 0, and
    `val_ground_truth` and `test_ground_truth` (P,), 1 for an edge and 0 for a non-edge. All edges must be edges of the
    graph, which provides nodes, attributes and weights. If the graph is undirected, a pair and its reverse are one
    edge; see `seen_in_reverse`.
    """
    source = existing(path, "a split in an .npz file")
    members = read_arrays(source, SPLIT_MEMBERS)
    try:
        train = _pairs(members, "train_edges", graph)
        _refuse(~graph.has_edges(train), train, "train_edges", NOT_AN_EDGE)
        return Split(_with_only(graph, train), *(_held_out(graph, members, part) for part in ("val", "test")))
    except (InputError, FormatError) as problem:
        raise type(problem)(f"{source.name}: {problem}") from problem


def _held_out(graph: Graph, members: Mapping[str, Numbers], part: str) -> HeldOut:
    pairs, name = _pairs(members, f"{part}_edges", graph), f"{part}_ground_truth"
    truth = _whole_numbers(members, name)
    if truth.shape != (len(pairs),):
        raise InputError(f"{name} has the shape {truth.shape}, but needs ({len(pairs)},), one number for each pair")
    _refuse(~np.isin(truth, (0, 1)), truth, name, "expected 1 for an edge and 0 for a non-edge")
    if not (truth == 1).any() or not (truth == 0).any():
        raise InputError(f"{name} must contain both 1 and 0, edges and non-edges")
    _refuse((truth == 1) & ~graph.has_edges(pairs), pairs, f"{part}_edges", NOT_AN_EDGE)
    return HeldOut(pairs[truth == 1], pairs[truth == 0])


def _whole_numbers(members: Mapping[str, Numbers], name: str) -> Numbers:
    if name not in members:
        raise InputError(f"no member {name}; expected {', '.join(SPLIT_MEMBERS)}")
    if members[name].dtype.kind not in "iu":
        raise InputError(f"{name} holds {members[name].dtype}; expected whole numbers")
    return members[name]


def _pairs(members: Mapping[str, Numbers], name: str, graph: Graph) -> Pairs:
    pairs = _whole_numbers(members, name)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"{name} has the shape {pairs.shape}; expected rows of two node numbers")
    outside = np.asarray(((pairs < 0) | (pairs >= graph.num_nodes)).any(axis=1))
    _refuse(outside, pairs, name, f"expected node numbers from 0 to {graph.num_nodes - 1:,}")
    _refuse(pairs[:, 0] == pairs[:, 1], pairs, name, "expected two different nodes")
    return pairs.astype(np.int64)


def _refuse(bad: npt.NDArray[np.bool_], rows: Numbers, name: str, problem: str) -> None:
    """Raise for the first row that is `bad`."""
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise InputError(f"{name}: row {first + 1} is {rows[first].tolist()}; {problem}")


def _with_only(graph: Graph, pairs: Pairs) -> Graph:
    """Return the graph with only these edges, each once even if it is listed twice or in both directions."""
    edges = distinct_pairs(pairs if graph.directed else np.sort(pairs, axis=1), graph.num_nodes)
    return graph.with_edges(edges, np.asarray(graph.adjacency[edges[:, 0], edges[:, 1]]).ravel())


BALANCED, GRAPH2GAUSS = PROTOCOLS = ("balanced", "graph2gauss")
"""Ways to draw the non-edges that the edges of hidden nodes are compared with; see `hide_nodes`."""


def hide_nodes(graph: Graph, share: float, generator: np.random.Generator, protocol: str = BALANCED) -> Induction:
    """Hide a fraction of the nodes, which are then embedded from their attributes alone.

    1. round(share * n) of the n nodes with attributes are drawn uniformly and hidden. The visible graph has the other
       nodes and the edges among them; a visible node that lost all its edges stays.
    2. The edges to predict are all edges of the graph with at least one hidden node.
    3. As many non-edges are drawn uniformly without repetition from the pairs with at least one hidden node, with
       direction if the graph is directed. If there are several node types, non-edges are made from the edges to
       predict by replacing nodes with others of the same types.

    The protocol `graph2gauss` does as the authors' code of Graph2Gauss: nodes that lose all their edges are hidden too,
    and the non-edges are drawn node by node, as many as the node has edges, for the nodes of 1. twice. (The code adds
    all nodes without visible edges to the hidden ones, which are among them.) A third to a quarter of the pairs are
    edges then, which lowers AP and not AUC. Unlike there, a node is not paired with itself.
    """
    check_fraction(share, "of nodes to hide")
    if not graph.has_attributes:
        raise InputError("a hidden node is embedded from its attributes, but the graph has none")
    drawn = _hidden(graph, share, generator)
    lost = _lost(graph, drawn) if protocol == GRAPH2GAUSS else np.zeros_like(drawn)
    order, visible = np.argsort(drawn | lost, kind="stable"), int((~drawn & ~lost).sum())
    whole, kept = graph.take(order), graph.take(order[:visible])
    edges = whole.edges()
    test = edges[edges.max(axis=1) >= visible]
    if len(test) == 0 or kept.num_edges == 0:
        raise InputError(
            f"hiding {len(order) - visible:,} of {len(order):,} nodes leaves {kept.num_edges:,} edges for training "
            f"and {len(test):,} to predict, but at least 1 of each is needed; hide another share"
        )
    if protocol == GRAPH2GAUSS:
        places = np.arange(visible, len(order))
        non_edges = _non_neighbors(whole, np.concatenate([places[drawn[order[places]]], places]), generator)
    else:
        non_edges = hidden_non_edges(whole, visible, len(test), generator)
    return Induction(kept, graph.by_type().take(order[visible:]), HeldOut(test, non_edges), order)


def _hidden(graph: Graph, share: float, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return which nodes (n,) are drawn to be hidden, among those with attributes."""
    types = graph.by_type()
    has_attributes = np.array([each.width is not None for each in types.types])
    type_codes, _ = types.locate(np.arange(graph.num_nodes))
    candidates = np.flatnonzero(has_attributes[type_codes])
    hidden = np.zeros(graph.num_nodes, dtype=bool)
    hidden[candidates[generator.permutation(len(candidates))[: round(share * len(candidates))]]] = True
    return hidden


def _lost(graph: Graph, hidden: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which of the other nodes (n,) have no edge to another of them."""
    if graph.node_types is not None:
        raise InputError(f"the protocol {GRAPH2GAUSS} supports one node type, but the graph has several")
    visible_edges = graph.neighborhoods() @ (~hidden).astype(np.float64)
    return np.asarray(~hidden & (visible_edges == 0))


def _non_neighbors(graph: Graph, nodes: npt.NDArray[np.int64], generator: np.random.Generator) -> Pairs:
    """Return pairs of each of the nodes, which may repeat, with as many distinct other nodes as it has edges."""
    around, size = graph.neighborhoods(), graph.num_nodes
    counts = np.diff(graph.adjacency.indptr) + (np.bincount(graph.adjacency.indices, minlength=size) * graph.directed)
    found = []
    for node in nodes.tolist():
        joined = np.append(around.indices[around.indptr[node] : around.indptr[node + 1]], node)
        others = _outside(joined, size, int(counts[node]), generator)
        found.append(np.column_stack([np.full(len(others), node), others]))
    return np.concatenate(found).astype(np.int64)


def _outside(taken: Numbers, size: int, count: int, generator: np.random.Generator) -> Numbers:
    """Draw `count` distinct numbers below `size` that are not taken, or all if there are not more."""
    free = size - len(taken)
    if 4 * count > free:
        return generator.permutation(np.setdiff1d(np.arange(size), taken))[:count]
    # Few are wanted: the first distinct ones of many uniform draws are as good, and need no list of all numbers.
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < count:
        drawn = np.concatenate([drawn, generator.integers(size, size=2 * count)])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        drawn = drawn[~np.isin(drawn, taken)]
    return drawn[:count]
