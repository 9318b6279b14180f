"""Scores of pairs of nodes, as a table."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glace.gaussian.embedding import Embedding, ids_at
from glace.gaussian.search import Positions
from glace.gaussian.tables import Column, Table
from glace.graph.graph import Graph
from glace.queries.link_model import LinkModel, missing_edges
from glace.queries.links import gaussian_probabilities
from glace.queries.pair_features import PairFeatures


@dataclass(frozen=True, eq=False, repr=False)
class PairScores(Table):
    """Scores of pairs of nodes, from the source to the target.

    Attributes
    ----------
    source, target : ndarray
        Ids of the pair.
    probability : ndarray of float, optional
        Of an edge, as in `Links`; None without a graph, whose density it depends on.
    known : ndarray of bool, optional
        Whether the graph has the edge. The probability is then the one it would have had without it.
    dissimilarity : ndarray of float
        From source to target.
    variance_term : ndarray of float
        The part of the dissimilarity that comes from unequal variances; the rest comes from distance.
    certainty : ndarray of float, optional
        Mean certainty of the two nodes.
    doubt : ndarray of str, optional
        What makes answers about the two nodes uncertain, in words.
    novel : ndarray of bool, optional
        With new nodes, whether one of the pair is unlike the training graph. The probability is then the density of
        the graph.
    """

    source: Column
    target: Column
    probability: npt.NDArray[np.float64] | None
    known: npt.NDArray[np.bool_] | None
    dissimilarity: npt.NDArray[np.float64]
    variance_term: npt.NDArray[np.float64]
    certainty: npt.NDArray[np.float32] | None
    novel: npt.NDArray[np.bool_] | None = None
    doubt: Column | None = None


def pair_scores_at(
    embedding: Embedding,
    pairs: Positions,
    graph: Graph | None = None,
    model: LinkModel | None = None,
    missing_edge_fraction: float = 0.05,
) -> PairScores:
    """Score pairs of positions (P, 2); see `PairScores`."""
    dissimilarity, probability, known = embedding.dissimilarities_at(pairs), None, None
    if graph is not None:
        known = graph.has_edges(pairs)
        missing = missing_edges(graph.num_edges, missing_edge_fraction)
        if model is None:
            probability = gaussian_probabilities(embedding, graph, dissimilarity, missing)
        else:
            features = PairFeatures(embedding, graph, model.names).of_pairs(pairs)
            probability = model.probabilities(model.scores(features), missing)
    return PairScores(
        ids_at(embedding.ids, pairs[:, 0]),
        ids_at(embedding.ids, pairs[:, 1]),
        probability,
        known,
        dissimilarity,
        embedding.variance_terms_at(pairs),
        None if embedding.certainty is None else embedding.certainty[pairs].mean(axis=1),
    )
