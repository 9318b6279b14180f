"""Scores of pairs of nodes of which some are new, so that they have no edges yet."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from glace.errors import InputError
from glace.gaussian.embedding import Embedding, stacked
from glace.gaussian.search import Positions, Values
from glace.gaussian.tables import Column
from glace.graph.graph import Graph
from glace.ids import NodeId, NodeIds
from glace.queries.link_model import LinkModel, log_density
from glace.queries.new_links import target_popularity
from glace.queries.pair_features import LARGEST_LOGIT
from glace.queries.pair_scores import PairScores, pair_scores_at


def new_pair_scores(
    embedding: Embedding,
    new: Embedding,
    pairs: Sequence[tuple[NodeId, NodeId]],
    graph: Graph | None = None,
    model: LinkModel | None = None,
    missing_edge_fraction: float = 0.05,
) -> PairScores:
    """Score pairs of ids, each of a node of `embedding` or of a new node.

    Two known nodes are scored as `pair_scores_at` does. The probability of a pair with a new node is that of
    `links_of_new_nodes`: by the Gaussians and by the number of edges of the known node, for a new node with as many
    edges as the nodes of the graph have on average.
    """
    positions = _positions(embedding.ids, new.ids, pairs)
    is_new = positions >= len(embedding)
    used, compact = np.unique(positions[~is_new], return_inverse=True)
    # Only the known nodes that the pairs name are copied.
    both = stacked(embedding.take(used), new, NodeIds.numbered(len(used) + len(new)))
    places = np.where(is_new, positions - len(embedding) + len(used), 0)
    places[~is_new] = compact
    assert both.novel is not None, "stacked embeddings have it"
    novel = np.asarray(both.novel[places].any(axis=1))
    source, target = (_ids_of([pair[side] for pair in pairs]) for side in (0, 1))
    scores = replace(pair_scores_at(both, places), source=source, target=target)
    if graph is None:
        return replace(scores, novel=novel)
    probability = _probabilities(embedding, graph, scores.dissimilarity, positions, novel)
    known, old = np.zeros(len(pairs), np.bool_), ~is_new.any(axis=1)
    if old.any():
        among_known = pair_scores_at(embedding, positions[old], graph, model, missing_edge_fraction)
        probability[old], known[old] = among_known.probability, among_known.known
    return replace(scores, probability=probability, known=known, novel=novel)


def _ids_of(ids: list[NodeId]) -> Column:
    """A column of ids; as text if those of known and of new nodes are of different kinds."""
    is_mixed = len({isinstance(each, str) for each in ids}) > 1
    if not is_mixed and ids and not isinstance(ids[0], str):
        return np.array(ids, np.int64)
    return np.array([str(each) for each in ids], dtype=object)


def _positions(known: NodeIds, new: NodeIds, pairs: Sequence[tuple[NodeId, NodeId]]) -> Positions:
    """(P, 2) the position of each end: among the known nodes or, behind them, among the new ones."""
    if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
        raise InputError("give a list of pairs of ids: [(source, target), ...]")
    ends = [end for pair in pairs for end in pair]
    same_kind = known.are_strings == new.are_strings
    shared = np.flatnonzero(known.find(new.array) >= 0 if same_kind else np.empty(0))
    if len(shared):
        raise InputError(
            f"{new[int(shared[0])]!r} is the id of a known node and of a new one; give the new nodes other ids, as in "
            "model.transform(rows, ids=[...])"
        )
    added = [new.position(end) if end in new else -1 for end in ends]
    old = known.positions([end for end, place in zip(ends, added, strict=True) if place < 0])
    found = np.array(added, np.int64) + len(known)
    found[np.array(added) < 0] = old
    return found.reshape(-1, 2)


def _probabilities(
    embedding: Embedding, graph: Graph, dissimilarity: Values, positions: Positions, novel: npt.NDArray[np.bool_]
) -> Values:
    """(P,) probabilities of pairs with a new node; the known end counts by its edges, whichever end it is."""
    from scipy.special import expit

    popularity = np.append(target_popularity(graph), 0.0)  # that of a new node is the mean
    known = np.minimum(positions, len(embedding))
    popular = popularity[known[:, 1]] if graph.directed else popularity[known].sum(axis=1)
    logit = np.clip(embedding.platt_scaling.logits(dissimilarity), -LARGEST_LOGIT, LARGEST_LOGIT)
    density = log_density(graph, max(graph.num_edges, 1))
    return np.asarray(np.where(novel, np.exp(min(density, 0.0)), expit(logit + popular + density)))
