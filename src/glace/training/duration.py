"""Estimates how long training takes, by measuring parts of it on the machine at hand.

Every stage is measured with the code that runs it: some steps of training and of each trial, the embedding of some
nodes, the link model of some held-out edges. docs/parameters.md compares estimates with what fits took.
"""

import time
from collections.abc import Mapping

import numpy as np

from glace.config.config import Config, Method, method_named
from glace.fitted.state import Progress
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.model.network import using_threads
from glace.queries.certainty import Center, NodeFeatures, fit_certainty, some_of
from glace.queries.link_model import SAMPLED_NODES, draw_sample, fit_to_sample
from glace.queries.pair_features import PairFeatures
from glace.training.loop import Trainer, total_steps
from glace.training.train import (
    TRIAL_STEPS,
    TrainingTask,
    calibrate,
    candidate_changes,
    initial_options,
    resolve_config,
    shortened,
    training_task,
    trials_end,
    visible_graph,
)

TOTAL = "time, about"
"""The name of the sum."""
FIRST_STEPS = 10
"""The first steps load kernels, and say how many more are worth measuring."""
STEPS, SECONDS = (20, 100), 3.0
"""Steps that are measured: as many as take about so many seconds, but at least and at most so many."""
TRIAL_SECONDS = 0.5
"""The same for each trial."""
NODES = 20_000
"""Nodes that are embedded, and whose certainty is computed."""
EDGES = 500
"""Held-out edges that the link model is fitted to."""


def estimate_seconds(
    graph: Graph, config: Config | Mapping[str, object] | None = None, method: str = "glace"
) -> dict[str, float]:
    """Estimate how long training takes on this machine: parts of it are run and measured, and nothing is kept.

    Early stopping is not foreseen: a run that stops early takes less.

    Parameters
    ----------
    graph : Graph
        The graph to train on.
    config : Config or mapping, optional
        The configuration, or the options that differ from the defaults of the method.
    method : {"glace", "glace-published", "lace", "lace-published", "line"}
        The method to train.

    Returns
    -------
    dict
        Seconds by stage: preparation, trials, training, what comes after it, and all of it.
    """
    chosen = method_named(method)
    given, modules = resolve_config(config, chosen)
    graph = visible_graph(graph, given, chosen)
    with using_threads(given.run.n_jobs, given.model.has_layers()):
        began = time.perf_counter()
        ordered, _ = graph.in_id_order()
        dissimilarity = given.model.resolved_dissimilarity(graph.directed, chosen.gaussian)
        task = training_task(ordered, given, dissimilarity, None, modules)
        settled = given.replace(**initial_options(given.model, graph.has_attributes))
        holding_out = time.perf_counter() - began
        measured = _Steps.measure(task, settled, SECONDS)
        parts = {
            "preparation": holding_out + measured.loading,
            "trials": _trials(task, settled),
            "training, at most": _training(task, settled, measured),
            "link model and the rest": _after_training(task, ordered, measured.trainer, chosen),
        }
    return {**parts, TOTAL: sum(parts.values())}


class _Steps:
    """Seconds of a step, of a validation, and of loading what the first steps need; and the run they were taken by."""

    def __init__(self, trainer: Trainer, step: float, loading: float) -> None:
        self.trainer, self.step, self.loading = trainer, step, loading
        began = time.perf_counter()
        if trainer.validation is not None:
            trainer.validation.scores(trainer.network, trainer.inputs)
        self.validation = time.perf_counter() - began

    @classmethod
    def measure(cls, task: TrainingTask, config: Config, seconds: float) -> "_Steps":
        """Take first steps and then more, which go through the whole schedule of dropout."""
        began = time.perf_counter()
        _, first = _steps(task, config, FIRST_STEPS)
        both = time.perf_counter() - began
        trainer, step = _steps(task, config, round(min(max(seconds / first, STEPS[0]), STEPS[1])))
        return cls(trainer, step, max(both - FIRST_STEPS * step, 0.0))


def _steps(task: TrainingTask, config: Config, count: int) -> tuple[Trainer, float]:
    """Take so many steps; return the run and the mean seconds of a step, without the first ones."""
    limits = {"max_steps": count, "max_epochs": None, "max_seconds": None, "validate_every": count}
    trainer, noted = task.trainer(config.replace(**limits)), list[tuple[int, float]]()

    def note(progress: Progress) -> None:
        noted.append((progress.step, time.perf_counter()))

    began = time.perf_counter()
    for _ in trainer.validations(note):
        pass
    # Several steps may be noted at once, the last ones after a validation.
    noted = noted[:-1] if len(noted) > 2 else [(0, began), noted[-1]]
    (first, start), (last, end) = noted[0], noted[-1]
    return trainer, (end - start) / (last - first)


def _trials(task: TrainingTask, config: Config) -> float:
    if not trials_end(task):
        return 0.0
    changes = [{}, *({name: value} for name, value in candidate_changes(task.config.model, task.graph.has_attributes))]
    steps, seconds = min(TRIAL_STEPS, config.training.max_steps or TRIAL_STEPS), 0.0
    for change in changes:
        measured = _Steps.measure(task, shortened(config.replace(**change)), TRIAL_SECONDS)
        seconds += steps * measured.step + 2 * measured.validation
    return seconds


def _training(task: TrainingTask, config: Config, measured: _Steps) -> float:
    steps = total_steps(config.training, task.sampler)
    limit = config.training.max_seconds
    seconds = steps * (measured.step + measured.validation / config.training.validate_every)
    return seconds if limit is None else min(seconds, limit)


def _after_training(task: TrainingTask, whole: Graph, trainer: Trainer, method: Method) -> float:
    began = time.perf_counter()
    calibrate(task, trainer)
    calibrating = time.perf_counter() - began
    embedding, seconds = _embedding(task, trainer)
    share = whole.num_nodes / min(NODES, whole.num_nodes)
    # With the validation edges and, unless there are none, without them.
    seconds *= share * (1 if task.held_out is None else 2)
    seconds += calibrating + _certainty(task, whole, embedding)
    return seconds + (_link_model(task, embedding) if method.link_model and task.held_out is not None else 0.0)


def _embedding(task: TrainingTask, trainer: Trainer) -> tuple[Embedding, float]:
    """Embed some nodes; return an embedding of all, in which these are repeated, and the seconds it took."""
    network, count = trainer.network, task.graph.num_nodes
    began = time.perf_counter()
    own, context = network.embed(trainer.inputs, np.arange(min(NODES, count)))
    seconds = time.perf_counter() - began
    places = np.arange(count) % min(NODES, count)
    repeated: list[Gaussian | None] = [None if each is None else each[places] for each in (own, context)]
    assert repeated[0] is not None, "every node has a Gaussian"
    mean, variance = repeated[0].mean, repeated[0].variance
    return Embedding(task.graph.ids, mean, variance, network.measure.name, context=repeated[1]), seconds


def _certainty(task: TrainingTask, whole: Graph, embedding: Embedding) -> float:
    generator, center = np.random.default_rng(0), Center.of(embedding.gaussian)
    features = NodeFeatures(embedding, task.graph, center)
    began = time.perf_counter()
    if task.held_out is not None:
        fit_certainty(features, whole, some_of(task.held_out, generator), None, generator)
    fitting = time.perf_counter() - began
    nodes = np.arange(min(NODES, whole.num_nodes))
    began = time.perf_counter()
    features.of(nodes)
    return fitting + (time.perf_counter() - began) * whole.num_nodes / len(nodes)


def _link_model(task: TrainingTask, embedding: Embedding) -> float:
    """Seconds of the link model: its sample grows with the held-out edges, up to a limit; the rest does not."""
    assert task.held_out is not None, "without held-out edges there is nothing to fit to"
    features, edges = PairFeatures(embedding, task.graph), task.held_out.edges
    draw_sample(features, edges[:1], np.random.default_rng(0))  # loads kernels
    began = time.perf_counter()
    sample = draw_sample(features, edges[:EDGES], np.random.default_rng(0))
    drawing = time.perf_counter() - began
    began = time.perf_counter()
    fit_to_sample(features, sample, len(edges[:EDGES]))
    fitting = time.perf_counter() - began
    sources = np.unique(edges if not task.graph.directed else edges[:, 0])
    all_sources = min(len(sources) + SAMPLED_NODES, task.graph.num_nodes)
    again = min(SAMPLED_NODES, task.graph.num_nodes)  # to match the model to the graph that has all its edges
    return fitting + drawing * (all_sources + again) / len(np.unique(sample.source))
