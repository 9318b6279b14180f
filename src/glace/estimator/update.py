"""Going on with a fitted model on a graph that has changed: new nodes, edges or attributes."""

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.estimator.fitting import Fitting
from glace.estimator.settings import Settings
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.recipe import Recipe
from glace.graph.recipe_columns import Text
from glace.graph.sparse import narrowed
from glace.graph.split import HeldOut, without_edges
from glace.graph.text import TextVocabulary
from glace.ids import NodeIds
from glace.model.network import Network
from glace.rng import Streams
from glace.training.history import Listener
from glace.training.loop import DEFAULT_STEPS, total_steps
from glace.training.stay import Stay, moved
from glace.training.threads import using_threads

if TYPE_CHECKING:
    from glace.estimator.estimator import GLACE

SHARE = 0.1
"""Of the steps of a whole fit, what an update takes where nothing else is said."""
RATE = 0.3
"""Of the learning rate of a whole fit, what an update starts with: high ones first undo what was learned."""
ASKED = 1000
"""Old nodes whose neighbours are compared."""
NEIGHBORS = 10
MIXED = "mixed columns"

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


def checked_stay(stay: float) -> float:
    """A weight of the penalty that makes sense."""
    if not isinstance(stay, int | float | np.number) or not (np.isfinite(stay) and stay >= 0):
        raise InputError(f"stay must be a finite number of at least 0, not {stay!r}")
    return float(stay)


def checked_steps(steps: int | None) -> int | None:
    """A number of steps that makes sense, or none."""
    if steps is not None and (not isinstance(steps, int | np.integer) or steps < 1):
        raise InputError(f"steps must be a whole number of at least 1, not {steps!r}")
    return steps


def updated(
    model: "GLACE", graph: Graph, stay: float, steps: int | None, listener: Listener | None
) -> Update:
    """Go on with the graph; the model is changed in place."""
    if graph.directed != model.directed_:
        raise InputError("the graph must be directed or undirected as that of the training was")
    began, before, old = time.perf_counter(), model.embedding_, model.network_
    changed, came = aligned(graph, model), before.ids.find(graph.ids.array) < 0
    settings = model.settings().changed(model.choice_.options)
    with using_threads(settings.run.threads):
        ordered, back = changed.graph.in_id_order()
        fitting = _fitting(model, ordered, settings)
        # To the last step: what was held out of the old graph cannot tell what is best for the new nodes.
        trainer = replace(fitting, validation=None).trainer(settings.changed(_short(fitting, steps)))
        trainer.network.set_weights(widened(old, trainer.network, changed.columns))
        if stay > 0:
            trainer.stay = Stay(trainer.network, before.gaussian, before.ids.find(ordered.ids.array), stay)
        model.history_ = trainer.run(listener)
        model._conclude(changed.graph, ordered, back, fitting, trainer)
    return Update(
        new_nodes=int(came.sum()),
        gone_nodes=len(before) - int((~came).sum()),
        new_attributes=0 if model.width_ is None else model.width_ - len(changed.columns),
        steps=model.history_.step,
        seconds=round(time.perf_counter() - began, 2),
        **report(before, model.embedding_, settings.streams),
    )


def _fitting(model: "GLACE", graph: Graph, settings: Settings) -> Fitting:
    """Judged by what was held out before, which is held out again; by nothing, where that is not known.

    Other edges would not do: the model was trained on them.
    """
    held_out = (
        None if model.held_out_ is None else held_out_again(model.held_out_, model.embedding_.ids, graph)
    )
    if held_out is None or not len(held_out.edges) or not len(held_out.non_edges):
        return Fitting.of(
            graph, settings.changed({"validation_share": 0.0}), model.network_.measure.name, None
        )
    return Fitting.of(without_edges(graph, held_out.edges), settings, model.network_.measure.name, held_out)


def held_out_again(held_out: HeldOut, ids: NodeIds, graph: Graph) -> HeldOut:
    """The same pairs at the places of their nodes in another graph, as far as these are there and are no edges now."""
    place = graph.ids.find(ids.array)
    edges, non_edges = (
        pairs[(pairs >= 0).all(axis=1)] for pairs in (place[held_out.edges], place[held_out.non_edges])
    )
    return HeldOut(edges, non_edges[~graph.has_edges(non_edges)])


def _short(fitting: Fitting, steps: int | None) -> dict[str, Any]:
    """The options of a short run."""
    training = fitting.settings.training
    whole = min(total_steps(training, fitting.sampler), DEFAULT_STEPS)
    return {
        "max_steps": steps or max(round(whole * SHARE), 1),
        "max_epochs": None,
        "max_seconds": None,
        "learning_rate": training.learning_rate * RATE,
    }


@dataclass(frozen=True)
class Aligned:
    """A graph whose first attributes are those the model knows, in its order; `columns` (old width,) where each is.

    Without attributes a node is its own column, and one that is gone is -1.
    """

    graph: Graph
    columns: Columns


def aligned(graph: Graph, model: "GLACE") -> Aligned:
    """The graph with the model's attributes first and new ones after them; by name where both have names."""
    if (graph.attributes is None) != (model.width_ is None):
        kinds = ("without", "with") if model.width_ is None else ("with", "without")
        raise InputError(f"the model was fitted {kinds[0]} attributes, but this graph comes {kinds[1]}")
    if graph.attributes is None:
        return Aligned(graph, graph.in_id_order()[0].ids.find(_in_order(model.embedding_.ids)))
    _check_kind(graph, model)
    old = _names(model.recipe_, model.attribute_names_)
    new = _names(graph.recipe, graph.attribute_names)
    if old is not None and old != new:
        graph = _named_as(graph, old) if new is None else _by_name(graph, old, new, model.recipe_)
    width = model.width_ or 0
    if graph.num_attributes < width:
        raise InputError(
            f"the model knows {width:,} attributes, but these are {graph.num_attributes:,}; give all"
        )
    return Aligned(graph, np.arange(width))


def _check_kind(graph: Graph, model: "GLACE") -> None:
    kinds = [_kind(each) for each in (model.recipe_, graph.recipe)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"the model was fitted on {kinds[0]}, but this graph has {kinds[1]}; give it as that"
        )
    if kinds[0] == MIXED and not (model.recipe_ and model.recipe_.same_as(graph.recipe)):
        raise InputError(
            "the attributes of this graph come from another recipe than the model's; make it with that one: "
            "from_tables(..., recipe=model.recipe_), or give `glace update` the tables"
        )
    if sp.issparse(graph.attributes) != model.network_.shape.sparse:
        raise InputError("the attributes must be sparse or dense as those of the training were")


def _kind(recipe: Recipe | None) -> str:
    if recipe is None:
        return "attributes"
    return MIXED if recipe.vocabulary is None else "texts"


def _in_order(ids: Any) -> Any:
    return np.sort(ids.to_numpy())


def _named_as(graph: Graph, names: tuple[str, ...]) -> Graph:
    """Columns without names are taken for those of the model, and must be as many."""
    if graph.num_attributes != len(names):
        raise InputError(
            f"the model's {len(names):,} attributes have names, and these {graph.num_attributes:,} do not; name them"
        )
    return replace(graph, attribute_names=names)


def _names(recipe: Recipe | None, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Of attributes or words; mixed columns have those of the model anyhow."""
    if recipe is None or recipe.vocabulary is None:
        return names
    return recipe.vocabulary.words


def _by_name(graph: Graph, old: tuple[str, ...], new: tuple[str, ...], recipe: Recipe | None) -> Graph:
    """The graph with its columns under the old names first, and those that are new after them."""
    if graph.mapped:
        raise InputError("the attributes of a graph folder must be those of the model, in the same order")
    known = set(old)
    names = (*old, *(name for name in new if name not in known))
    place = {name: column for column, name in enumerate(names)}
    to = np.array([place[name] for name in new], np.int64)
    if not sp.issparse(graph.attributes):
        dense = np.zeros((graph.num_nodes, len(names)), np.float32)
        dense[:, to] = graph.attributes
        return replace(graph, attributes=dense, attribute_names=names)
    rows = sp.coo_array(graph.attributes)
    values, wider = rows.data, graph.recipe
    if recipe is not None and wider is not None:
        was, now = recipe.vocabulary, wider.vocabulary
        assert was is not None
        assert now is not None
        # A word weighs what it weighed in training, however often the new texts have it.
        idf = np.concatenate([was.idf, now.idf[[name not in known for name in new]]])
        values = values * (idf[to] / now.idf)[rows.col]
        wider = replace(recipe, columns=(Text(recipe.columns[0].name, TextVocabulary(names, idf)),))
    shape = (graph.num_nodes, len(names))
    moved = sp.csr_array((values.astype(np.float32), (rows.row, to[rows.col])), shape=shape)
    moved.sort_indices()
    if wider is not None:
        moved = _of_unit_length(moved)
    given = graph.attribute_names and names
    return replace(graph, attributes=narrowed(moved), attribute_names=given, recipe=wider)


def _of_unit_length(rows: sp.csr_array) -> sp.csr_array:
    from sklearn.preprocessing import normalize

    return sp.csr_array(normalize(rows))


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


def report(before: Embedding, now: Embedding, streams: Streams) -> dict[str, float]:
    """How far nodes of both moved, and how many of their neighbours they kept; of a thousand, and among all."""
    places = before.ids.find(now.ids.array)
    both = np.flatnonzero(places >= 0)
    if len(both) < 2:
        return {"moved_median": 0.0, "moved_most": 0.0, "kept_neighbors": 1.0}
    asked = np.sort(streams.numpy("asked after the update").permutation(both)[:ASKED])
    old, new = before.take(places[asked]), now.take(asked)
    far = moved(old.gaussian, new.gaussian)
    # Neighbours are sought among the nodes that were there and still are.
    was = np.zeros(len(before), np.bool_)
    was[places[both]] = True
    lists = [
        before.nearest_to(old, NEIGHBORS, exclude=places[asked][:, None].tolist(), among=was)[0],
        now.nearest_to(new, NEIGHBORS, exclude=asked[:, None].tolist(), among=places >= 0)[0],
    ]
    kept = [
        np.isin(one[one >= 0], places[other[other >= 0]]).mean() for one, other in zip(*lists, strict=True)
    ]
    return {
        "moved_median": float(np.median(far)),
        "moved_most": float(np.quantile(far, 0.9)),
        "kept_neighbors": float(np.mean(kept)),
    }
