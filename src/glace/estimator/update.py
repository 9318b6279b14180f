"""Going on with a fitted model on a graph that has changed: new nodes, edges or attributes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.gaussian.dissimilarity import Gaussian, named
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.sparse import narrowed
from glace.graph.text import TextVocabulary
from glace.model.network import Network
from glace.rng import Streams

SHARE = 0.1
"""Of the steps of a whole fit, what an update takes where nothing else is said."""
RATE = 0.3
"""Of the learning rate of a whole fit, what an update starts with: high ones first undo what was learned."""
ASKED = 1000
"""Old nodes whose neighbours are compared."""
NEIGHBORS = 10

Columns = npt.NDArray[np.int64]
Weights = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Update:
    """What an update did: how many nodes and attributes came and went, and how far the old nodes moved.

    `moved` is KL(now || before), of points the squared distance, at the median and the ninth tenth of the old nodes;
    `kept_neighbors` the mean share of the ten nearest old nodes that stayed among the ten, of 1,000 nodes at most.
    """

    new_nodes: int
    gone_nodes: int
    new_attributes: int
    steps: int
    seconds: float
    moved_median: float
    moved_most: float
    kept_neighbors: float


@dataclass(frozen=True)
class Aligned:
    """A graph whose first attributes are those the model knows, in its order; `columns` (old width,) where each is.

    Without attributes a node is its own column, and one that is gone is -1.
    """

    graph: Graph
    columns: Columns


def aligned(graph: Graph, model: Any) -> Aligned:
    """The graph with the model's attributes first and new ones after them; by name where both have names."""
    if (graph.attributes is None) != (model.width_ is None):
        kinds = ("without", "with") if model.width_ is None else ("with", "without")
        raise InputError(f"the model was fitted {kinds[0]} attributes, but this graph comes {kinds[1]}")
    if graph.attributes is None:
        return Aligned(graph, graph.in_id_order()[0].ids.find(_in_order(model.embedding_.ids)))
    if sp.issparse(graph.attributes) != model.network_.shape.sparse:
        raise InputError("the attributes must be sparse or dense as those of the training were")
    old, new = (
        _names(model.vocabulary_, model.attribute_names_),
        _names(graph.vocabulary, graph.attribute_names),
    )
    if old is not None and new is not None:
        graph = _by_name(graph, old, new, model.vocabulary_)
    width = int(model.width_)
    if graph.num_attributes < width:
        raise InputError(
            f"the model knows {width:,} attributes, but these are {graph.num_attributes:,}; give all"
        )
    return Aligned(graph, np.arange(width))


def _in_order(ids: Any) -> Any:
    return np.sort(ids.to_numpy())


def _names(vocabulary: TextVocabulary | None, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return names if vocabulary is None else vocabulary.words


def _by_name(
    graph: Graph, old: tuple[str, ...], new: tuple[str, ...], vocabulary: TextVocabulary | None
) -> Graph:
    """The graph with its columns under the old names first, and those that are new after them."""
    known = set(old)
    names = (*old, *(name for name in new if name not in known))
    place = {name: column for column, name in enumerate(names)}
    to = np.array([place[name] for name in new], np.int64)
    if not sp.issparse(graph.attributes):
        dense = np.zeros((graph.num_nodes, len(names)), np.float32)
        dense[:, to] = graph.attributes
        return replace(graph, attributes=dense, attribute_names=names)
    rows = sp.coo_array(graph.attributes)
    values, words = rows.data, graph.vocabulary
    if vocabulary is not None and words is not None:
        # A word weighs what it weighed in training, however often the new texts have it.
        idf = np.concatenate([vocabulary.idf, words.idf[[name not in known for name in new]]])
        values = values * (idf[to] / words.idf)[rows.col]
        words = TextVocabulary(names, idf)
    shape = (graph.num_nodes, len(names))
    moved = sp.csr_array((values.astype(np.float32), (rows.row, to[rows.col])), shape=shape)
    moved.sort_indices()
    given = graph.attribute_names and names
    return replace(graph, attributes=narrowed(moved), attribute_names=given, vocabulary=words)


def widened(old: Network, new: Network, columns: Columns) -> Weights:
    """The weights of the old network in the shape of the new one, whose own stay where the old one has none."""
    found = {name: array.copy() for name, array in new.weights().items()}
    kept = columns >= 0
    for name, array in old.weights().items():
        if not name.endswith("input.weight") and name not in ("shift", "scale"):
            found[name] = array
            continue
        hashed = old.shape.hashed > 0
        parts = 1 if name in ("shift", "scale") else old.shape.columns // old.shape.part
        for part in range(parts):
            before, after = part * old.shape.part, part * new.shape.part
            if hashed:
                found[name][after : after + old.shape.part] = array[before : before + old.shape.part]
            elif len(array):
                found[name][after + columns[kept]] = array[before : before + len(columns)][kept]
    return found


def earlier(before: Embedding, graph: Graph) -> tuple[Gaussian, npt.NDArray[np.bool_]]:
    """The Gaussians nodes of a graph had before, and (n,) which had one; the rest of the rows stand for nothing."""
    places = before.ids.find(graph.ids.array)
    return before.gaussian[np.maximum(places, 0)], places >= 0


def report(before: Embedding, now: Embedding, streams: Streams) -> dict[str, float]:
    """How far nodes of both moved, and how many of their neighbours they kept."""
    places = before.ids.find(now.ids.array)
    both = np.flatnonzero(places >= 0)
    if not len(both):
        return {"moved_median": 0.0, "moved_most": 0.0, "kept_neighbors": 1.0}
    old, new = before.take(places[both]), now.take(both)
    far = _moved(old.gaussian, new.gaussian)
    asked = streams.numpy("asked after the update").permutation(len(both))[:ASKED]
    lists = [
        each.nearest_to(each.take(asked), NEIGHBORS, exclude=asked[:, None].tolist())[0]
        for each in (old, new)
    ]
    shares = (
        [np.isin(one, other).mean() for one, other in zip(*lists, strict=True)] if len(both) > 1 else [1.0]
    )
    return {
        "moved_median": float(np.median(far)),
        "moved_most": float(np.quantile(far, 0.9)),
        "kept_neighbors": float(np.mean(shares)),
    }


def _moved(before: Gaussian, now: Gaussian) -> npt.NDArray[np.float64]:
    if before.variance is None:
        return np.asarray(np.square(now.mean - before.mean, dtype=np.float64).sum(axis=1))
    return np.asarray(named("kl").direct(before, now), dtype=np.float64)
