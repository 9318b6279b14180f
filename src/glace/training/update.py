"""Updating a fitted model to a graph that has changed: new nodes, edges or attributes."""

from dataclasses import dataclass, replace

import numpy as np

from glace.config.config import Config, method_named
from glace.errors import InputError
from glace.fitted.model import FittedModel
from glace.fitted.state import Listener
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, without_edges
from glace.ids import NodeIds
from glace.model.network import using_threads
from glace.training.alignment import aligned, widened
from glace.training.drift import DriftPenalty, drift
from glace.training.loop import DEFAULT_STEPS, TrainingTask, total_steps, training_task
from glace.training.train import TrainedRun, assemble, check_graph, visible_graph

STEPS_FRACTION = 0.1
"""Length of an update as a fraction of a whole training run."""
RATE_FRACTION = 0.3
"""Learning rate of an update as a fraction of the original one: a high rate first undoes what was learned."""
COMPARED_NODES, COMPARED_NEIGHBORS = 1000, 10


def update(
    fitted: FittedModel,
    graph: Graph,
    *,
    drift_penalty: float = 0.1,
    max_steps: int | None = None,
    n_jobs: int | None = None,
    listener: Listener | None = None,
) -> FittedModel:
    """Continue training on a graph that has changed, while old nodes stay close to their Gaussians.

    The selected options and the validation edges of the model are kept.

    Parameters
    ----------
    fitted : FittedModel
        The model to start from. It is not changed.
    graph : Graph
        The whole new graph: old nodes and edges that still exist, and new ones. It may have attributes that the model
        does not know; it must have all that the model knows.
    drift_penalty : float
        Weight of the penalty for old nodes that move; 0 turns it off.
    max_steps : int, optional
        Number of steps; by default a tenth of those of a whole run.
    n_jobs : int, optional
        Number of threads; that of the training by default.
    listener : callable, optional
        Called with a `Progress` after every step.

    Returns
    -------
    FittedModel
        A new model for the new graph. `compare(fitted, updated)` tells how far old nodes moved.

    Raises
    ------
    InputError
        If the graph does not fit the model.

    Examples
    --------
    >>> import glace
    >>> graph = glace.datasets.planted(200, communities=4, attributes=80, words=8)
    >>> fitted = glace.train(graph.take(range(180)), {"dim": 8, "hidden": 32, "max_steps": 50})
    >>> updated = glace.update(fitted, graph)
    >>> glace.compare(fitted, updated).new_nodes
    20
    """
    check_graph(graph)
    _check_options(drift_penalty, max_steps)
    if graph.directed != fitted.directed:
        raise InputError(f"the graph must be {'directed' if fitted.directed else 'undirected'}, as in training")
    config = fitted.config if n_jobs is None else fitted.config.replace(n_jobs=n_jobs)
    method = method_named(fitted.method)
    fitted.embedding.ids.find(graph.ids.array)  # ids of another type raise here
    changed = aligned(visible_graph(graph, config, method), fitted)
    with using_threads(config.run.n_jobs):
        ordered, positions = changed.graph.in_id_order()
        task = _task(fitted, ordered, config)
        # Without early stopping: the old validation edges cannot tell what is best for new nodes.
        trainer = replace(task, validation=None).trainer(config.replace(**_short_run(task, max_steps)))
        trainer.network.set_weights(widened(fitted.network, trainer.network, changed.columns))
        if drift_penalty > 0:
            rows = fitted.embedding.ids.find(ordered.ids.array)
            trainer.drift_penalty = DriftPenalty(trainer.network, fitted.embedding.gaussian, rows, drift_penalty)
        trainer.run(listener)
        run = TrainedRun(changed.graph, ordered, positions, task, trainer)
        return assemble(run, method, config, fitted.selection, before=fitted)


def _check_options(drift_penalty: float, max_steps: int | None) -> None:
    is_number = isinstance(drift_penalty, int | float | np.number)
    if not is_number or not (np.isfinite(drift_penalty) and drift_penalty >= 0):
        raise InputError(f"must be a finite number of at least 0, not {drift_penalty!r}", option="drift_penalty")
    if max_steps is not None and (not isinstance(max_steps, int | np.integer) or max_steps < 1):
        raise InputError(f"must be a whole number of at least 1, not {max_steps!r}", option="max_steps")


def _task(fitted: FittedModel, graph: Graph, config: Config) -> TrainingTask:
    """Return the task with the validation pairs of the fitted model, as far as they apply to the new graph.

    Other edges cannot serve for validation, because the model was trained on them.
    """
    dissimilarity = fitted.embedding.dissimilarity
    modules = {each.name: each.module for each in fitted.network.types if each.module is not None}
    validation = None
    if fitted.validation is not None:
        validation = same_pairs(fitted.validation, fitted.embedding.ids, graph)
    if validation is None or not len(validation.edges) or not len(validation.non_edges):
        return training_task(graph, config.replace(validation_fraction=0.0), dissimilarity, None, modules)
    return training_task(without_edges(graph, validation.edges), config, dissimilarity, validation, modules)


def same_pairs(validation: HeldOut, ids: NodeIds, graph: Graph) -> HeldOut:
    """Return the pairs with the positions of their nodes in another graph, without those that do not apply there."""
    positions = graph.ids.find(ids.array)
    edges, non_edges = (
        pairs[(pairs >= 0).all(axis=1)] for pairs in (positions[validation.edges], positions[validation.non_edges])
    )
    return HeldOut(edges, non_edges[~graph.has_edges(non_edges)])


def _short_run(task: TrainingTask, max_steps: int | None) -> dict[str, float | None]:
    """Return the options of the run."""
    training = task.config.training
    whole = min(total_steps(training, task.sampler), DEFAULT_STEPS)
    return {
        "max_steps": max_steps or max(round(whole * STEPS_FRACTION), 1),
        "max_epochs": None,
        "max_seconds": None,
        "learning_rate": training.learning_rate * RATE_FRACTION,
    }


@dataclass(frozen=True)
class DriftReport:
    """How two models differ in the nodes that both have.

    Parameters
    ----------
    new_nodes, removed_nodes : int
        Number of nodes that only the later, or only the earlier model has.
    new_attributes : int
        Number of attributes that only the later model has.
    drift_median, drift_90 : float
        Median and 90th percentile over nodes of KL(after || before), or of the squared distance of points.
    kept_neighbors : float
        Mean fraction of a node's ten nearest neighbours that it kept, among nodes that both models have.
    """

    new_nodes: int
    removed_nodes: int
    new_attributes: int
    drift_median: float
    drift_90: float
    kept_neighbors: float


def compare(before: FittedModel, after: FittedModel) -> DriftReport:
    """Measure how far nodes moved between two models, on a sample of 1,000 nodes that both have.

    Parameters
    ----------
    before, after : FittedModel
        A model, and the model that `update` made from it.

    Returns
    -------
    DriftReport
        Counts of new and removed nodes, and the drift of the others.
    """
    old, new = before.embedding, after.embedding
    rows = old.ids.find(new.ids.array)
    common = np.flatnonzero(rows >= 0)
    widths = [sum(each.width or 0 for each in model.node_types) for model in (before, after)]
    counts = len(new) - len(common), len(old) - len(common), widths[1] - widths[0]
    if len(common) < 2:
        return DriftReport(*counts, drift_median=0.0, drift_90=0.0, kept_neighbors=1.0)
    sample = np.sort(after.config.streams.numpy("compared nodes").permutation(common)[:COMPARED_NODES])
    old_sample, new_sample = old.take(rows[sample]), new.take(sample)
    moved = drift(old_sample.gaussian, new_sample.gaussian)
    in_both = np.zeros(len(old), np.bool_)
    in_both[rows[common]] = True
    old_lists, _ = old.nearest_to(old_sample, COMPARED_NEIGHBORS, exclude=rows[sample][:, None].tolist(), among=in_both)
    new_lists, _ = new.nearest_to(new_sample, COMPARED_NEIGHBORS, exclude=sample[:, None].tolist(), among=rows >= 0)
    kept = [
        np.isin(first[first >= 0], rows[second[second >= 0]]).mean()
        for first, second in zip(old_lists, new_lists, strict=True)
    ]
    return DriftReport(*counts, float(np.median(moved)), float(np.quantile(moved, 0.9)), float(np.mean(kept)))
