"""Estimates how long training takes, by measuring some steps of it on the machine at hand."""

import time
from collections.abc import Callable, Mapping

import numpy as np

from glace.config.config import Config, Method, method_named
from glace.fitted.state import Progress, embed_all, graph_inputs
from glace.gaussian.embedding import Embedding
from glace.gaussian.search import Positions
from glace.graph.graph import Graph
from glace.model.network import using_threads
from glace.queries.link_model import SAMPLED_NODES
from glace.queries.pair_features import PairFeatures
from glace.training.loop import Trainer, total_steps
from glace.training.train import (
    TRIAL_STEPS,
    TrainingTask,
    candidate_changes,
    initial_options,
    resolve_config,
    shortened,
    training_task,
    trials_end,
    visible_graph,
)

STEPS = 30
"""Steps that are measured."""
WARM_UP = 5
"""The first steps load kernels; they are not measured."""
SOURCES = 400
"""Nodes whose candidates are measured for the link model."""
LINK_MODEL = 1.6
"""Time of the link model relative to finding the candidates of its sample and their features. A rough value: on Cora-ML
the link model takes less than half of what this foretells, 1.4 of 13 seconds in all."""


def estimate_seconds(
    graph: Graph, config: Config | Mapping[str, object] | None = None, method: str = "glace"
) -> dict[str, float]:
    """Estimate how long training takes on this machine: some steps are taken and measured, and nothing is kept.

    Early stopping is not foreseen: a run that stops early takes less.

    Parameters
    ----------
    graph : Graph
        The graph to train on.
    config : Config or mapping, optional
        The configuration, or the options that differ from the defaults of the method.
    method : {"glace", "glace-published", "lace", "line"}
        The method to train.

    Returns
    -------
    dict
        Seconds by stage: trials, training, what comes after it, and all of it.
    """
    chosen = method_named(method)
    given, modules = resolve_config(config, chosen)
    graph = visible_graph(graph, given, chosen)
    with using_threads(given.run.n_jobs, given.model.has_layers()):
        ordered, _ = graph.in_id_order()
        dissimilarity = given.model.resolved_dissimilarity(graph.directed, chosen.gaussian)
        began = time.perf_counter()
        task = training_task(ordered, given, dissimilarity, None, modules)
        preparing = time.perf_counter() - began
        settled = given.replace(**initial_options(given.model, graph.has_attributes))
        trials = _trials(task, settled)
        training = _training(task, settled)
        after = _after_training(task, settled, chosen)
    parts = {"trials": preparing + trials, "training, at most": training, "link model and the rest": after}
    return {**parts, "time, about": sum(parts.values())}


def _trials(task: TrainingTask, config: Config) -> float:
    if not trials_end(task):
        return 0.0
    count = 1 + len(candidate_changes(task.config.model, task.graph.has_attributes))
    step, validation = _measured(task, shortened(config))
    steps = min(TRIAL_STEPS, config.training.max_steps or TRIAL_STEPS)
    return count * (steps * step + 2 * validation)


def _training(task: TrainingTask, config: Config) -> float:
    step, validation = _measured(task, config)
    steps = total_steps(config.training, task.sampler)
    limit = config.training.max_seconds
    seconds = steps * (step + validation / config.training.validate_every)
    return seconds if limit is None else min(seconds, limit)


def _measured(task: TrainingTask, config: Config) -> tuple[float, float]:
    """Seconds of a step, and of a validation."""
    limits = {"max_steps": STEPS, "max_epochs": None, "max_seconds": None, "validate_every": STEPS}
    trainer, times = task.trainer(config.replace(**limits)), list[float]()
    for _ in trainer.validations(_noting(times)):
        pass
    steps = np.diff(times)[WARM_UP:-1]
    began = time.perf_counter()
    _validate(trainer)
    return float(steps.mean()), time.perf_counter() - began


def _noting(times: list[float]) -> Callable[[Progress], None]:
    return lambda _: times.append(time.perf_counter())


def _validate(trainer: Trainer) -> None:
    if trainer.validation is not None:
        trainer.validation.scores(trainer.network, trainer.inputs)


def _after_training(task: TrainingTask, config: Config, method: Method) -> float:
    network, graph = task.network(config), task.graph
    began = time.perf_counter()
    own, context = embed_all(network, graph_inputs(network, graph), np.empty)
    embedding = 3 * (time.perf_counter() - began)  # with and without the validation edges, and reference nodes
    if not method.link_model or task.held_out is None:
        return embedding
    found = Embedding(graph.ids, own.mean, own.variance, network.measure.name, context=context)
    features = PairFeatures(found, graph)
    sources = np.random.default_rng(0).choice(graph.num_nodes, min(SOURCES, graph.num_nodes), replace=False)
    features.candidates(sources[:8])  # loads kernels
    few, all_of_them = (_seconds(features, part) for part in (sources[: len(sources) // 4], sources))
    each = max(all_of_them - few, 0.0) / (0.75 * len(sources))
    sampled = min(2 * len(task.held_out.edges), graph.num_nodes) + 2 * min(SAMPLED_NODES, graph.num_nodes)
    return embedding + few + LINK_MODEL * sampled * each


def _seconds(features: PairFeatures, sources: Positions) -> float:
    began = time.perf_counter()
    features.candidates(sources)
    return time.perf_counter() - began
