"""Going on with a fitted model on a graph that has changed: new nodes, edges or attributes."""

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glace.config.config import Config
from glace.errors import InputError
from glace.fitted.history import Listener
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, without_edges
from glace.ids import NodeIds
from glace.rng import Streams
from glace.training.alignment import aligned, widened
from glace.training.drift import DriftPenalty, moved
from glace.training.loop import DEFAULT_STEPS, total_steps
from glace.training.task import TrainingTask
from glace.training.threads import using_threads

if TYPE_CHECKING:
    from glace.estimators.glace import GLACE

SHARE = 0.1
"""Of the steps of a whole fit, what an update takes where nothing else is said."""
RATE = 0.3
"""Of the learning rate of a whole fit, what an update starts with: high ones first undo what was learned."""
ASKED = 1000
"""Old nodes whose neighbours are compared."""
NEIGHBORS = 10


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


def checked_drift_penalty(stay: float) -> float:
    """A weight of the penalty that makes sense."""
    if not isinstance(stay, int | float | np.number) or not (np.isfinite(stay) and stay >= 0):
        raise InputError(f"must be a finite number of at least 0, not {stay!r}", option="stay")
    return float(stay)


def checked_steps(steps: int | None) -> int | None:
    """A number of steps that makes sense, or none."""
    if steps is not None and (not isinstance(steps, int | np.integer) or steps < 1):
        raise InputError(f"must be a whole number of at least 1, not {steps!r}", option="steps")
    return steps


def updated(model: "GLACE", graph: Graph, stay: float, steps: int | None, listener: Listener | None) -> Update:
    """Go on with the graph; the model is changed in place."""
    if graph.directed != model.directed_:
        raise InputError("the graph must be directed or undirected as that of the training was")
    began, before, old = time.perf_counter(), model.embedding_, model.network_
    # The network stays what it is, whatever was set since.
    settings = replace(model.settings(), model=model.config_.model).replace(**model.selection_.options)
    graph = model._as_fitted(graph)
    changed, came = aligned(graph, model), before.ids.find(graph.ids.array) < 0
    with using_threads(settings.run.n_jobs):
        ordered, back = changed.graph.in_id_order()
        fitting = _fitting(model, ordered, settings)
        # To the last step: what was held out of the old graph cannot tell what is best for the new nodes.
        trainer = replace(fitting, validation=None).trainer(settings.replace(**_short(fitting, steps)))
        trainer.network.set_weights(widened(old, trainer.network, changed.columns))
        if stay > 0:
            trainer.stay = DriftPenalty(trainer.network, before.gaussian, before.ids.find(ordered.ids.array), stay)
        model.history_ = trainer.run(listener)
        model._conclude(changed.graph, ordered, back, fitting, trainer)
    return Update(
        new_nodes=int(came.sum()),
        gone_nodes=len(before) - int((~came).sum()),
        new_attributes=changed.new_attributes(),
        steps=model.history_.step,
        seconds=round(time.perf_counter() - began, 2),
        **report(before, model.embedding_, settings.streams),
    )


def _fitting(model: "GLACE", graph: Graph, settings: Config) -> TrainingTask:
    """TrialResult by what was held out before, which is held out again; by nothing, where that is not known.

    Other edges would not do: the model was trained on them.
    """
    held_out = None if model.held_out_ is None else held_out_again(model.held_out_, model.embedding_.ids, graph)
    if held_out is None or not len(held_out.edges) or not len(held_out.non_edges):
        return model._fitting(graph, settings.replace(validation_fraction=0.0), None)
    return model._fitting(without_edges(graph, held_out.edges), settings, held_out)


def held_out_again(held_out: HeldOut, ids: NodeIds, graph: Graph) -> HeldOut:
    """The same pairs at the places of their nodes in another graph, as far as these are there and are no edges now."""
    place = graph.ids.find(ids.array)
    edges, non_edges = (pairs[(pairs >= 0).all(axis=1)] for pairs in (place[held_out.edges], place[held_out.non_edges]))
    return HeldOut(edges, non_edges[~graph.has_edges(non_edges)])


def _short(fitting: TrainingTask, steps: int | None) -> dict[str, Any]:
    """The options of a short run."""
    training = fitting.settings.training
    whole = min(total_steps(training, fitting.sampler), DEFAULT_STEPS)
    return {
        "max_steps": steps or max(round(whole * SHARE), 1),
        "max_epochs": None,
        "max_seconds": None,
        "learning_rate": training.learning_rate * RATE,
    }


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
    kept = [np.isin(one[one >= 0], places[other[other >= 0]]).mean() for one, other in zip(*lists, strict=True)]
    return {
        "moved_median": float(np.median(far)),
        "moved_most": float(np.quantile(far, 0.9)),
        "kept_neighbors": float(np.mean(kept)),
    }
