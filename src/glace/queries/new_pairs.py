"""Scores of pairs of nodes of which some are new, so that they have no edges yet."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from glace.errors import InputError
from glace.gaussian.embedding import Embedding, ids_at, stacked
from glace.gaussian.search import Positions, Values
from glace.gaussian.tables import Column
from glace.graph.graph import Graph
from glace.ids import NodeId, NodeIds
from glace.queries.link_model import LinkModel, log_density
from glace.queries.new_links import target_popularity
from glace.queries.pair_features import LARGEST_LOGIT
from glace.queries.pair_scores import PairScores, pair_scores_at


def joined_ids(known: NodeIds, new: NodeIds) -> NodeIds:
    """Return the ids of known nodes and, behind them, those of new ones; as text if only one of them are integers."""
    arrays = [known.array, new.array]
    if known.are_strings != new.are_strings:
        arrays = [each.cast(pa.large_string()) for each in arrays]
    shared = pc.index_in(arrays[1], value_set=arrays[0]).is_valid()
    first = pc.index(shared, True).as_py()
    if first >= 0:
        raise InputError(
            f"{new[first]!r} is the id of a known node and of a new one; give the new nodes other ids, in their table "
            "or with model.transform(rows, ids=[...])"
        )
    return NodeIds(pa.concat_arrays(arrays))


def positions_of(pairs: Sequence[tuple[NodeId, NodeId]], known: NodeIds, new: NodeIds) -> Positions:
    """Return (P, 2) the position of each end: among the known nodes or, behind them, among the new ones."""
    if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
        raise InputError("give a list of pairs of ids: [(source, target), ...]")
    ids = joined_ids(known, new)
    as_text = known.are_strings != new.are_strings
    return ids.positions([str(end) if as_text else end for pair in pairs for end in pair]).reshape(-1, 2)


def new_pair_scores(
    embedding: Embedding,
    new: Embedding,
    positions: Positions,
    graph: Graph | None = None,
    model: LinkModel | None = None,
    missing_edge_fraction: float = 0.05,
) -> PairScores:
    """Score pairs (P, 2) of nodes of `embedding` and of new nodes, whose positions follow those of the known ones.

    Two known nodes are scored as `pair_scores_at` does. The probability of a pair with a new node is that of
    `links_of_new_nodes`: by the Gaussians and by the number of edges of the known node, for a new node with as many
    edges as the nodes of the graph have on average.
    """
    is_new = positions >= len(embedding)
    used, compact = np.unique(positions[~is_new], return_inverse=True)
    # Only the known nodes that the pairs name are copied.
    both = stacked(embedding.take(used), new, NodeIds.numbered(len(used) + len(new)))
    places = np.where(is_new, positions - len(embedding) + len(used), 0)
    places[~is_new] = compact
    assert both.novel is not None, "stacked embeddings have it"
    novel = np.asarray(both.novel[places].any(axis=1))
    source, target = (_ids_at(embedding.ids, new.ids, side) for side in positions.T)
    scores = replace(pair_scores_at(both, places), source=source, target=target)
    if graph is None:
        return replace(scores, novel=novel)
    probability = _probabilities(embedding, graph, scores.dissimilarity, positions, novel)
    known, old = np.zeros(len(positions), np.bool_), ~is_new.any(axis=1)
    if old.any():
        among_known = pair_scores_at(embedding, positions[old], graph, model, missing_edge_fraction)
        probability[old], known[old] = among_known.probability, among_known.known
    return replace(scores, probability=probability, known=known, novel=novel)


def _ids_at(known: NodeIds, new: NodeIds, positions: Positions) -> Column:
    """A column of ids; as text if those of known and of new nodes are of different kinds, and it has both."""
    is_new = positions >= len(known)
    if is_new.all() or not is_new.any():
        return ids_at(new, positions - len(known)) if is_new.any() else ids_at(known, positions)
    return ids_at(joined_ids(known, new), positions)


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
