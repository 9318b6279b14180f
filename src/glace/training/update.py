"""Updating a fitted model to a graph that has changed: new nodes, edges or attributes."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from glace.config.config import Config, method_named
from glace.errors import InputError
from glace.features.column_kinds import Text
from glace.features.pipeline import FeaturePipeline
from glace.features.text import TextVocabulary
from glace.fitted.model import FittedModel
from glace.fitted.state import Listener
from glace.gaussian.dissimilarity import Gaussian, named
from glace.graph.graph import Graph, NodeType
from glace.graph.split import HeldOut, without_edges
from glace.ids import NodeIds
from glace.model.network import Network, Penalty, using_threads
from glace.sparse import narrowed
from glace.storage.container import Arrays
from glace.training.loop import DEFAULT_STEPS, total_steps
from glace.training.train import TrainedRun, TrainingTask, assemble, checked_graph, training_task, visible_graph

if TYPE_CHECKING:
    from glace.graph.interop import AnyGraph

STEPS_FRACTION = 0.1
"""Length of an update as a fraction of a whole training run."""
RATE_FRACTION = 0.3
"""Learning rate of an update as a fraction of the original one: a high rate first undoes what was learned."""
COMPARED_NODES, COMPARED_NEIGHBORS = 1000, 10
MIXED = "mixed columns"
Columns = npt.NDArray[np.int64]


def update(
    fitted: FittedModel,
    graph: "AnyGraph",
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
    graph : Graph, networkx.Graph, or torch_geometric Data or HeteroData
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
    graph = checked_graph(graph)
    _check_options(drift_penalty, max_steps)
    if graph.directed != fitted.directed:
        was, now = ("directed", "undirected") if fitted.directed else ("undirected", "directed")
        advice = "read them with" if fitted.directed else "leave out"
        raise InputError(
            f"the model was trained on {was} edges, but these are {now}; {advice} this option", hint=("directed", True)
        )
    config = fitted.config if n_jobs is None else fitted.config.replace(n_jobs=n_jobs)
    method = method_named(fitted.method)
    fitted.embedding.ids.find(graph.ids.array)  # ids of another type raise here
    changed = aligned(visible_graph(graph, config, method), fitted)
    with using_threads(config.run.n_jobs, config.model.has_layers()):
        ordered, positions = changed.graph.in_id_order()
        task = _task(fitted, ordered, config)
        # Without early stopping: the old validation edges cannot tell what is best for new nodes.
        trainer = replace(task, validation=None).trainer(config.replace(**_short_run(task, max_steps)))
        trainer.network.set_weights(widened(fitted.network, trainer.network, changed.columns))
        if drift_penalty > 0:
            rows = fitted.embedding.ids.find(ordered.ids.array)
            trainer.penalty_of = DriftPenalty(trainer.network, fitted.embedding.gaussian, rows, drift_penalty).of
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


def _short_run(task: TrainingTask, max_steps: int | None) -> dict[str, float | str | None]:
    """Return the options of the run."""
    training = task.config.training
    whole = min(total_steps(training, task.sampler), DEFAULT_STEPS[1])
    dropout = task.config.model.dropout
    return {
        # An update goes on where annealing ended.
        "dropout": 0.0 if dropout == "annealed" else dropout,
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


@dataclass(frozen=True)
class Aligned:
    """A graph whose first attributes are those of the model, in the model's order.

    `columns` holds, for each node type, the new column (old width,) of each old attribute. Without attributes every
    node is its own column, and a removed node is -1.
    """

    graph: Graph
    columns: tuple[Columns, ...]


def aligned(graph: Graph, fitted: FittedModel) -> Aligned:
    """Return the graph with the model's attributes first and new ones after them, matched by name if possible."""
    given, known = graph.by_type().types, fitted.node_types
    if [each.name for each in given] != [each.name for each in known]:
        expected, found = (", ".join(each.name or "one type" for each in types) for types in (known, given))
        raise InputError(f"the model's node types with attributes are {expected}, but the graph's are {found}")
    types = tuple(_aligned(each, schema, graph.mapped is not None) for each, schema in zip(given, known, strict=True))
    whole = graph.with_types(types)
    columns = (
        _node_columns(whole, fitted, code) if each.width is None else np.arange(schema.width or 0)
        for code, (each, schema) in enumerate(zip(types, known, strict=True))
    )
    return Aligned(whole, tuple(columns))


def _node_columns(graph: Graph, fitted: FittedModel, code: int) -> Columns:
    """Return the row of each old node of a type among its new nodes, both sorted by id as for training."""
    ordered, _ = graph.in_id_order()
    old, types = np.asarray(fitted.embedding.ids.to_numpy()), ordered.by_type()
    if len(types.types) == 1:
        return ordered.ids.find(np.sort(old))
    assert fitted.graph is not None, "a graph with several node types is in memory"
    assert fitted.graph.node_types is not None
    positions = ordered.ids.find(np.sort(old[fitted.graph.node_types.codes == code]))
    codes, rows = types.locate(positions)
    return np.where((positions >= 0) & (codes == code), rows, -1)


def _aligned(node_type: NodeType, schema: NodeType, mapped: bool) -> NodeType:
    """Return the attributes of a node type in the order of the model's schema."""
    if (node_type.width is None) != (schema.width is None):
        had, has = ("without", "with") if schema.width is None else ("with", "without")
        which = f" of type {node_type.name!r}" if node_type.name else ""
        raise InputError(f"the model was trained {had} attributes{which}, but the graph comes {has} them")
    if node_type.width is None or schema.width is None:
        return node_type
    _check_same_kind(node_type, schema)
    if mapped and node_type.sparse != schema.sparse:
        raise InputError(
            f"the attributes of a graph folder stay as they are stored, {node_type.storage}, but the model was trained "
            f"on {schema.storage} ones; give the tables instead"
        )
    node_type = node_type.like(schema)
    old, new = _names(schema), _names(node_type)
    if old is not None and new is None:
        if node_type.width != len(old):
            mismatch = f"the model's {len(old):,} attributes have names, but the graph's {node_type.width:,} have none"
            raise InputError(f"{mismatch}; name them")
        node_type = replace(node_type, feature_names=old)
    elif old is not None and new is not None and old != new:
        node_type = _by_name(node_type, schema, old, new, mapped)
    if (node_type.width or 0) < schema.width:
        raise InputError(
            f"the model knows {schema.width:,} attributes, but the graph has {node_type.width:,}; give all of them"
        )
    return node_type


def _check_same_kind(node_type: NodeType, schema: NodeType) -> None:
    expected, found = _kind(schema.pipeline), _kind(node_type.pipeline)
    if expected != found:
        raise InputError(f"the model was trained on {expected}, but the graph has {found}; give {expected}")
    if expected == MIXED and not (schema.pipeline and schema.pipeline.same_as(node_type.pipeline)):
        raise InputError(
            "the attributes of the graph come from another feature pipeline than the model's; use the model's: "
            "from_tables(..., pipeline=fitted.pipeline), or give the tables to `glace update`"
        )


def _kind(pipeline: FeaturePipeline | None) -> str:
    if pipeline is None:
        return "attributes"
    return MIXED if pipeline.vocabulary is None else "texts"


def _names(node_type: NodeType) -> tuple[str, ...] | None:
    """Return the words of texts, or the names of attributes."""
    if node_type.pipeline is None or node_type.pipeline.vocabulary is None:
        return node_type.feature_names
    return node_type.pipeline.vocabulary.words


def _by_name(
    node_type: NodeType, schema: NodeType, old: tuple[str, ...], new: tuple[str, ...], mapped: bool
) -> NodeType:
    """Return the attributes with the columns of the old names first and new ones after them."""
    if mapped:
        raise InputError("the attributes of a graph folder must be those of the model, in the same order")
    known = set(old)
    names = (*old, *(name for name in new if name not in known))
    column_of = {name: column for column, name in enumerate(names)}
    moved_to = np.array([column_of[name] for name in new], np.int64)
    entries = sp.coo_array(node_type.attributes)
    values, pipeline = entries.data, node_type.pipeline
    if schema.pipeline is not None and pipeline is not None:
        pipeline, weights = _wider(schema.pipeline, pipeline, names)
        values = values * weights[entries.col]
    shape = (node_type.count, len(names))
    rows = sp.csr_array((values.astype(np.float32), (entries.row, moved_to[entries.col])), shape=shape)
    rows.sort_indices()
    if pipeline is not None:
        from sklearn.preprocessing import normalize

        rows = sp.csr_array(normalize(rows))
    feature_names = node_type.feature_names and names
    moved = replace(node_type, attributes=narrowed(rows), feature_names=feature_names, pipeline=pipeline)
    return moved.like(schema)


def _wider(
    old: FeaturePipeline, new: FeaturePipeline, words: tuple[str, ...]
) -> tuple[FeaturePipeline, npt.NDArray[np.float64]]:
    """Return the old text pipeline with new words added, and the factors that turn new weights into old ones.

    A word keeps the inverse document frequency it had in training, whatever its frequency in the new texts.
    """
    was, now = old.vocabulary, new.vocabulary
    assert was is not None
    assert now is not None
    before, after = dict(zip(was.words, was.idf, strict=True)), dict(zip(now.words, now.idf, strict=True))
    idf = np.array([before[word] if word in before else after[word] for word in words])
    kept = dict(zip(words, idf, strict=True))
    factors = np.array([kept[word] for word in now.words]) / now.idf
    return replace(old, columns=(Text(old.columns[0].name, TextVocabulary(words, idf)),)), factors


def widened(old: Network, new: Network, columns: tuple[Columns, ...]) -> Arrays:
    """Return the old weights in the shape of the new network; where there are none, the new network's own.

    `columns` are those of `Aligned`.
    """
    found = {name: array.copy() for name, array in new.weights().items()}
    by_column = old.column_weights()
    for name, array in old.weights().items():
        code = by_column.get(name)
        if code is None or not len(array) or old.types[code].shape.hashed:
            found[name] = array
            continue
        kept = columns[code] >= 0
        found[name][columns[code][kept]] = array[: len(columns[code])][kept]
    return found


class DriftPenalty:
    """`weight` times the drift of nodes: KL(now || before), or the squared distance of points.

    `rows` (n,) holds for each node its row in `before`, or -1 if it is new.
    """

    def __init__(self, network: Network, before: Gaussian, rows: npt.NDArray[np.int64], weight: float) -> None:
        self.before, self.rows, self.weight = before, rows, weight
        self.device, dim = network.device, network.config.dim
        # The dimensions of several proximities are side by side.
        self.first = {proximity: at * dim for at, proximity in enumerate(network.proximities)}

    def of(self, anchors: npt.NDArray[np.int64]) -> Penalty:
        """Return the mean penalty of a batch over the anchors that are not new."""
        rows = self.rows[anchors]
        positions = torch.from_numpy(np.flatnonzero(rows >= 0)).to(self.device)
        before = self.before[rows[rows >= 0]]

        def penalty(proximity: str, now: Gaussian, dims: slice) -> Tensor:
            if not len(positions):
                return torch.zeros((), device=self.device)
            total: Tensor = self.weight * drift(self._tensors(before, proximity, dims), now[positions]).mean()
            return total

        return penalty

    def _tensors(self, gaussian: Gaussian, proximity: str, part: slice) -> Gaussian:
        dims = slice(self.first[proximity] + part.start, self.first[proximity] + part.stop)
        tensors = (
            None if each is None else torch.from_numpy(np.ascontiguousarray(each[:, dims])).to(self.device)
            for each in (gaussian.mean, gaussian.variance)
        )
        return Gaussian(*tensors)


def drift(before: Gaussian, now: Gaussian) -> Any:
    """Return (n,) how far each node moved, for numpy arrays and torch tensors."""
    if before.variance is None:
        gap = now.mean - before.mean
        return (gap * gap).sum(-1)
    return named("kl").direct(before, now)
