"""Link prediction: do held-out edges score higher than non-edges?"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.experiments.evaluation.rankers import link_model_scores
from glace.experiments.sparse_points import SparsePoints
from glace.experiments.splits import Split, seen_in_reverse
from glace.fitted.model import FittedModel
from glace.gaussian.embedding import UNCALIBRATED, Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import LinkScores, calibration_of, link_scores

Points = Embedding | SparsePoints
"""What is judged; rows are the graph's nodes, in its order."""


def link_prediction(embedding: Points, held_out: HeldOut) -> LinkScores:
    """Return AUC and AP of held-out edges against non-edges; second order compares a node with the other's context."""
    return link_scores(-embedding.dissimilarities_at(held_out.pairs()), held_out.truth())


def without_context(embedding: Points) -> Points:
    """Return the nodes without their contexts: the paper ranks pairs by the embeddings of the nodes themselves."""
    if isinstance(embedding, SparsePoints) or embedding.context is None:
        return embedding
    return replace(embedding, context=None)


def pair_values(embedding: Points, held_out: HeldOut) -> dict[str, float]:
    """Return AUC and AP both ways as fields of a record; without contexts, the two ways are one."""
    alone = link_prediction(without_context(embedding), held_out)
    return _named(link_prediction(embedding, held_out)) | _named(alone, "_without_context")


def cosine_prediction(embedding: Points, held_out: HeldOut) -> LinkScores:
    """Return AUC and AP of points by their cosine instead of their dot product; 0 where a point is 0."""
    if isinstance(embedding, SparsePoints):
        return link_prediction(embedding.normalized(), held_out)
    if embedding.variance is not None:
        raise InputError("the cosine is a measure of points; Gaussians are judged by their dissimilarity")
    first, second = held_out.pairs().T
    unit = [_unit_rows(each.mean.astype(np.float64)) for each in (embedding.roles.source, embedding.roles.target)]
    return link_scores((unit[0][first] * unit[1][second]).sum(axis=1), held_out.truth())


def attribute_prediction(graph: Graph, held_out: HeldOut) -> LinkScores:
    """Return AUC and AP of raw attributes, by the cosine of the two rows."""
    rows = _unit_rows(graph.features())
    pairs = held_out.pairs()
    first, second = rows[pairs[:, 0]], rows[pairs[:, 1]]
    return link_scores(np.asarray((first * second).sum(axis=1)).ravel(), held_out.truth())


def link_values(embedding: Points, split: Split) -> dict[str, object]:
    """Return the fields of a record about an embedding of `split.train`.

    These are test AUC and AP, with contexts and without, and validation AUC; the calibration of its probabilities, if
    it has any; for points also the scores by cosine; and if the reverse of test edges was seen in training, their
    number and the scores without them.
    """
    values: dict[str, object] = {**pair_values(embedding, split.test)}
    values["validation_auc"] = link_prediction(embedding, split.validation).auc
    if isinstance(embedding, Embedding) and embedding.platt_scaling != UNCALIBRATED:
        probabilities = embedding.probabilities(embedding.dissimilarities_at(split.test.pairs()))
        worth = calibration_of(probabilities, split.test.truth())
        values |= {"brier": worth.brier, "calibration_error": worth.error, "reliability": worth.to_json()["bins"]}
    if isinstance(embedding, SparsePoints) or embedding.variance is None:
        values |= _named(cosine_prediction(embedding, split.test), "_cosine")
    values |= direction_values(embedding, split) if split.train.directed else {}
    reverse = seen_in_reverse(split)
    if reverse.any():
        values["reversed_edges"] = int(reverse.sum())
        values |= _named(link_prediction(embedding, split.test.without(reverse)), "_without_reversed")
    return values


def direction_values(embedding: Points, split: Split) -> dict[str, object]:
    """Return the AUC of directed test edges against their reverses, and the number of edges without a reverse edge.

    Empty if all edges have one. Both directions of a pair are in the same part of a split.
    """
    edges, size = split.test.edges, split.train.num_nodes
    one_way = ~np.isin(edges[:, 1] * size + edges[:, 0], edges[:, 0] * size + edges[:, 1])
    one_way &= ~split.train.has_edges(edges[:, ::-1])  # a given split may separate them
    if not one_way.any():
        return {}
    pairs = HeldOut(edges[one_way], edges[one_way][:, ::-1])
    return {"auc_direction": link_prediction(embedding, pairs).auc, "one_way_edges": int(one_way.sum())}


def link_model_values(fitted: FittedModel, held_out: HeldOut) -> dict[str, float]:
    """Return AUC and AP by the link model instead of the dissimilarity, as fields of a record."""
    assert fitted.link_model is not None
    scores = link_model_scores(fitted, fitted.link_model, held_out.pairs())
    return _named(link_scores(scores, held_out.truth()), "_link_model")


def new_link_values(fitted: FittedModel, embedding: Embedding, held_out: HeldOut) -> dict[str, float]:
    """Return AUC and AP of pairs with new nodes by the probability of an edge, as fields of a record.

    `embedding` has the new nodes behind the known ones. Their links follow from the Gaussians and the numbers of edges
    of the known nodes.
    """
    new = embedding.take(np.arange(len(fitted.embedding), len(embedding)))
    probability = fitted.score_positions(held_out.pairs(), new).probability
    assert probability is not None, "the model keeps its graph"
    return _named(link_scores(probability, held_out.truth()), "_link_model")


def _named(scores: LinkScores, suffix: str = "") -> dict[str, float]:
    return {f"{name}{suffix}": value for name, value in scores._asdict().items()}


def _unit_rows(matrix: sp.csr_array | npt.NDArray[np.floating]) -> sp.csr_array | npt.NDArray[np.floating]:
    from sklearn.preprocessing import normalize

    return normalize(matrix)
