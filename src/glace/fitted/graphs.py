"""A fitted model asked about a whole graph, with nodes that it knows and nodes that it does not."""

from typing import TYPE_CHECKING

import numpy as np

from glace.errors import InputError
from glace.gaussian.embedding import Embedding, stacked
from glace.graph.graph import Graph
from glace.graph.split import sample_non_edges
from glace.metrics import link_scores

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel


def embed_graph(model: "FittedModel", graph: Graph, n_jobs: int | None = None) -> Embedding:
    """Return the embedding of the nodes of a graph: known nodes keep theirs, others are embedded from their attributes.

    Nodes are recognised by their ids.
    """
    positions = model.embedding.ids.find(graph.ids.array)
    new = np.flatnonzero(positions < 0)
    if not len(new):
        return model.embedding.take(positions)
    _check_names(model, graph)
    described = graph.by_type().take(new)
    added = model.transform(described, graph.ids.take(new)[:], n_jobs=n_jobs)
    known = np.flatnonzero(positions >= 0)
    if not len(known):
        return added
    both = stacked(model.embedding.take(positions[known]), added)
    return both.take(np.argsort(np.concatenate([known, new])))


def held_out_auc(model: "FittedModel", graph: Graph, random_state: int = 0) -> float:
    """Return the AUC of the edges of a graph that training did not see, against as many random pairs.

    If the graph has no other edges than the training graph, it is the best AUC of the validation edges.
    """
    known = model.embedding.ids.find(graph.ids.array)
    pairs = graph.edges()
    unseen = np.ones(len(pairs), np.bool_)
    inside = (known[pairs] >= 0).all(axis=1)
    if inside.any():
        if model.graph is None:
            raise InputError("the model keeps no edges, as its graph is too large: it cannot tell which edges are new")
        unseen[inside] = ~model.graph.has_edges(known[pairs[inside]])
    if not unseen.any():
        best = model.history.best
        if best is None:
            raise InputError(
                "all edges of this graph were trained on and none was held out; score a graph with other edges, or "
                "train with validation_fraction above 0"
            )
        return best.auc
    edges = pairs[unseen]
    non_edges = sample_non_edges(graph, len(edges), np.random.default_rng(random_state))
    dissimilarity = embed_graph(model, graph).dissimilarities_at(np.concatenate([edges, non_edges]))
    return link_scores(-dissimilarity, np.arange(2 * len(edges)) < len(edges)).auc


def _check_names(model: "FittedModel", graph: Graph) -> None:
    """Raise if the attributes of the graph have other names than those of the training graph."""
    for schema, given in zip(model.node_types, graph.by_type().types, strict=False):
        if None not in (schema.feature_names, given.feature_names) and schema.feature_names != given.feature_names:
            raise InputError(
                "the attributes of this graph are not those of the training graph; make both graphs with the same "
                "columns and vocabulary, or give transform the rows of the new nodes"
            )
