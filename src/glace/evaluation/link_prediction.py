"""Link prediction: are held-out edges nearer than pairs that are no edges?"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import LinkScores, link_scores


def link_prediction(embedding: Embedding, held_out: HeldOut) -> LinkScores:
    """How well the embedding tells held-out edges from non-edges; rows are the graph's nodes, in its order."""
    return link_scores(-embedding.dissimilarities_at(held_out.pairs()), held_out.truth())


def attribute_prediction(graph: Graph, held_out: HeldOut) -> LinkScores:
    """The same by the raw attributes alone: cosine of the two nodes' rows."""
    rows = _unit_rows(graph.features())
    pairs = held_out.pairs()
    first, second = rows[pairs[:, 0]], rows[pairs[:, 1]]
    products = first.multiply(second).sum(axis=1) if sp.issparse(rows) else (first * second).sum(axis=1)
    return link_scores(np.asarray(products).ravel(), held_out.truth())


def _unit_rows(matrix: Any) -> Any:
    from sklearn.preprocessing import normalize

    return normalize(matrix)
