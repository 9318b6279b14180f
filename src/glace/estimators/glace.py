"""GLACE and LACE: fit on a graph, transform new attributes, save, load."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numba
import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator

from glace.config.config import Config, ModelConfig, RunConfig, SamplingConfig, TrainingConfig
from glace.errors import InputError
from glace.features.pipeline import FeaturePipeline
from glace.features.rows import frame_rows
from glace.fitted.embed import embed_all
from glace.fitted.history import History, Listener
from glace.fitted.new_nodes import are_texts, chosen_type, rows_as_trained, rows_by_type
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding, PlattScaling
from glace.graph.graph import Graph
from glace.graph.node_types import NodeAttributes, NodeType
from glace.graph.split import HeldOut
from glace.ids import NodeId, NodeIds
from glace.model.custom_encoders import Encoder, fingerprint, split_modules
from glace.model.inputs import NodeInputs
from glace.model.network import Network
from glace.queries.calibration import Calibration
from glace.queries.certainty import (
    Allocator,
    CertaintyModel,
    EvidenceCounts,
    attribute_evidence,
    graph_evidence,
)
from glace.queries.links import Links, links
from glace.queries.novelty import Novelty, NoveltyModel, reference_rows
from glace.storage.files import check_writable
from glace.storage.mapped import scratch
from glace.training import checkpoint as checkpoints
from glace.training.checkpoint import Checkpoints, State
from glace.training.loop import Trainer
from glace.training.selection import Selection
from glace.training.task import TrainingTask, inputs_of, with_identities
from glace.training.threads import using_threads
from glace.training.update import Update, checked_drift_penalty, checked_steps, updated


@dataclass(repr=False, eq=False)
class GLACE(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """One Gaussian per node of an attributed graph.

    The options are explained in docs/parameters.md, and by `glace fit --help`. After `fit` there are
    `embedding_` (the Gaussians of the graph's nodes, in its order), `history_` (looks at held-out edges),
    `selection_` (what was decided for the options left to `auto`), `calibration_` (what its probabilities are
    worth), `pipeline_` (how columns became attributes, where they were texts or of several kinds), `graph_` (the edges
    and labels, unless they lie on disk) and `network_`. Nodes of `embedding_` and of `transform` have a certainty, and
    `novelty` tells whether new ones are like those of the graph.

    >>> import glace
    >>> graph = glace.datasets.planted(200, communities=4, attributes=80, words=8)
    >>> model = glace.GLACE(dim=8, hidden=32, max_steps=50, n_jobs=1).fit(graph)
    >>> model.embedding_.mean.shape, model.embedding_.variance.shape
    ((200, 8), (200, 8))
    """

    dim: int = ModelConfig.dim
    hidden: int = ModelConfig.hidden
    ensemble_size: int = ModelConfig.ensemble_size
    proximity: str = ModelConfig.proximity
    dissimilarity: str | None = ModelConfig.dissimilarity
    activation: str = ModelConfig.activation
    neighbor_features: str = ModelConfig.neighbor_features
    neighbor_dropout: float = ModelConfig.neighbor_dropout
    dropout: float | str = ModelConfig.dropout
    purpose: str = ModelConfig.purpose
    offset: float | str = ModelConfig.offset
    n_hashed_features: int | None = ModelConfig.n_hashed_features
    encoder: Encoder = ModelConfig.encoder
    normalize: bool = ModelConfig.normalize
    batch_size: int = SamplingConfig.batch_size
    n_negatives: int = SamplingConfig.n_negatives
    negative_sampling: str = SamplingConfig.negative_sampling
    negative_pool_size: int = SamplingConfig.negative_pool_size
    negative_power: float = SamplingConfig.negative_power
    learning_rate: float = TrainingConfig.learning_rate
    lr_schedule: str = TrainingConfig.lr_schedule
    max_steps: int | None = TrainingConfig.max_steps
    max_epochs: float | None = TrainingConfig.max_epochs
    max_seconds: float | None = TrainingConfig.max_seconds
    validation_fraction: float = TrainingConfig.validation_fraction
    validate_every: int = TrainingConfig.validate_every
    patience: int = TrainingConfig.patience
    random_state: int = RunConfig.random_state
    n_jobs: int = RunConfig.n_jobs
    device: str = RunConfig.device

    method: ClassVar[str] = "glace"
    gaussian: ClassVar[bool] = True

    def fit(
        self,
        graph: Graph,
        *,
        validation: HeldOut | None = None,
        listener: Listener | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 10.0,
        resume: bool = False,
    ) -> Self:
        """Learn from a graph; `listener` is told of every step.

        With `validation`, pairs that are not in the graph, training is judged by these, and no edges are held
        out. Options that are `auto` are settled first, by short trials; `selection_` tells what was chosen.
        With `checkpoint`, the state of the run is written to that file now and then; with `resume`, a run
        goes on from there if the file exists, to the same bits as one that was never interrupted.
        """
        settings = self.settings()
        check_graph(graph)
        graph = self._as_fitted(graph)
        with using_threads(settings.run.n_jobs):
            # In the order of ids: what is drawn for a node then depends on its id, and shuffling the rows of the
            # input files changes nothing.
            ordered, back = graph.in_id_order()
            saving = self._checkpoints(checkpoint, checkpoint_seconds, ordered, validation, settings)
            before, notes = None, dict[str, Any]()
            if saving and resume and saving.path.exists():
                before, notes = checkpoints.load(saving.path, saving.identity)
            fitting = self._fitting(ordered, settings, _moved(validation, back))
            trainer = self._begun(fitting, listener) if before is None else self._resumed(fitting, before, notes)
            if saving:
                saving.notes = self.selection_.to_json()
            self.history_: History = trainer.run(listener, saving)
            self.config_: Config = settings
            self._conclude(graph, ordered, back, fitting, trainer)
        return self

    def update(
        self,
        graph: Graph,
        *,
        stay: float = 0.1,
        steps: int | None = None,
        listener: Listener | None = None,
    ) -> Update:
        """Go on with a graph that has changed: other nodes, edges, or attributes in addition to those known.

        The graph is whole, with the old nodes that are still there. What was chosen for the old one stays chosen, and
        what was held out of it is held out again. `stay` weighs the penalty for old nodes that move, 0 is none; `steps`
        is a tenth of those of a fit if not given. The report tells how far the old nodes moved.
        """
        self._check_fitted()
        check_graph(graph)
        return updated(self, graph, checked_drift_penalty(stay), checked_steps(steps), listener)

    def _conclude(self, graph: Graph, ordered: Graph, back: Any, fitting: TrainingTask, trainer: Trainer) -> None:
        """Keep what training came to, and embed all nodes."""
        self._remember(graph, trainer.network)
        if fitting.validation is not None or not hasattr(self, "platt_scaling_"):
            odds, calibration = fitting.odds(trainer)
            self.platt_scaling_: PlattScaling = odds
            self.calibration_: Calibration | None = calibration
        self.held_out_: HeldOut | None = _moved(fitting.held_out, None if back is None else np.argsort(back))
        room = scratch if graph.mapped else np.empty
        nodes = embed_all(trainer.network, inputs_of(trainer.network, ordered), room)
        known = graph_evidence(ordered)
        self.certainty_model_: CertaintyModel | None = CertaintyModel.fit(nodes[0], known)
        embedding = self._embedding(ordered.ids, *nodes, known, room)
        self.embedding_: Embedding = embedding if back is None else embedding.take(back)
        self.novelty_models_: tuple[NoveltyModel | None, ...] = tuple(
            self._novelty_model(trainer.network, kind, part.attributes, fitting.settings.streams)
            for kind, part in enumerate(ordered.by_type().types)
        )

    def _novelty_model(self, network: Network, kind: int, matrix: Any, streams: Any) -> NoveltyModel | None:
        if matrix is None or matrix.shape[0] == 0:
            return None
        rows = reference_rows(matrix, streams.numpy("common nodes", kind))
        own, _ = embed_all(network, network.inputs_of(kind, rows), np.empty)
        assert self.certainty_model_ is not None
        return NoveltyModel.fit(matrix, _scaled(network, kind, rows), own, self.certainty_model_)

    def fit_transform(self, graph: Graph, **options: Any) -> Embedding:
        """Fit, and return the Gaussians of the graph's nodes."""
        return self.fit(graph, **options).embedding_

    def transform(self, attributes: Any, ids: Any = None, node_type: str | None = None) -> Embedding:
        """The Gaussians of nodes never seen, from a matrix of the training width, a data frame, or raw texts.

        Where nodes have types with attributes of their own, `node_type` says which these are of. A frame's columns
        are taken by their names where the model knows them, and its `id` column as the ids. Mixed columns go the way
        of the training, `pipeline_`; `pipeline_.counts(frame)` tells what is missing or was never seen. Texts (a sequence
        of strings) need a model that was fitted on texts. Ids are 0, 1, ... if not given.
        """
        self._check_fitted()
        if isinstance(attributes, NodeAttributes):
            return self._transform_types(attributes, ids)
        kind, part = chosen_type(self.types_, node_type)
        if hasattr(attributes, "__arrow_c_stream__"):
            own, attributes, _ = frame_rows(attributes, part.feature_names, part.pipeline)
            ids = own.array if ids is None else ids
        matrix = rows_as_trained(attributes, part)
        new = NodeAttributes((NodeType("", matrix.shape[0], matrix),))
        return self._transformed(self.network_.inputs_of(kind, matrix), new, ids)

    def _transform_types(self, attributes: NodeAttributes, ids: Any) -> Embedding:
        """Nodes of several types at once."""
        matrices = rows_by_type(attributes, self.types_)
        inputs = self.network_.inputs(matrices, None, attributes.type_codes, attributes.rows)
        return self._transformed(inputs, attributes, ids)

    def _transformed(self, inputs: NodeInputs, attributes: NodeAttributes, ids: Any) -> Embedding:
        names = NodeIds.numbered(len(inputs)) if ids is None else NodeIds(ids)
        if len(names) != len(inputs):
            raise InputError(f"{len(names):,} ids for {len(inputs):,} rows of attributes; give one a row")
        with using_threads(self.settings().run.n_jobs):
            nodes = embed_all(self.network_, inputs, np.empty)
            return self._embedding(names, *nodes, attribute_evidence(attributes), np.empty)

    def novelty(self, attributes: Any, node_type: str | None = None) -> Novelty:
        """How unlike the nodes of the training graph these are; `attributes` as `transform` takes them."""
        self._check_fitted()
        kind, part = chosen_type(self.types_, node_type)
        if hasattr(attributes, "__arrow_c_stream__"):
            attributes = frame_rows(attributes, part.feature_names, part.pipeline).values
        texts = attributes if are_texts(attributes) else None
        matrix, common = rows_as_trained(attributes, part), self.novelty_models_[kind]
        if common is None or self.certainty_model_ is None:
            raise InputError("the model does not know what is common: it was saved by an older glace; fit it anew")
        with using_threads(self.settings().run.n_jobs):
            own, _ = embed_all(self.network_, self.network_.inputs_of(kind, matrix), np.empty)
            found = common.novelty(matrix, _scaled(self.network_, kind, matrix), own, self.certainty_model_)
        vocabulary = None if part.pipeline is None else part.pipeline.vocabulary
        if texts is None or vocabulary is None:
            return found
        return found._replace(unseen=np.array(vocabulary.unknown_shares(list(texts))))

    def links(
        self,
        node: NodeId | None = None,
        k: int = 100,
        *,
        node_type: str | None = None,
        known: Graph | None = None,
        approximate: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> Links:
        """The most probable edges that the graph does not have, of one node or of all nodes, likeliest first.

        Where nodes have types, pairs of types that no edge joins are left out; the types of both ends must then be
        those of some edge, in its direction if the measure has one. `node_type` asks for edges of the node to nodes of
        this type only, or for those of the whole graph that have an end of it. Found by exact search, or with
        `approximate` by an index, for each type one. `known` are the edges there are, of the same nodes in the same
        order, where the model does not keep them: after a fit on a graph folder.
        """
        self._check_fitted()
        graph = self.graph_ if known is None else known
        return links(self.embedding_, graph, node, k, node_type=node_type, approximate=approximate, progress=progress)

    def save(self, path: str | Path, embedding: str = "auto") -> None:
        """Write model and Gaussians to one file; `embedding="beside"` puts the Gaussians into a file beside it.

        `auto` does so where they take more than half a gigabyte, or lie on disk as after a fit on a graph folder.
        """
        from glace.fitted.file import save_model

        self._check_fitted()
        save_model(self, path, embedding)

    def settings(self) -> Config:
        """The options, checked."""
        return Config.of(self.get_params() | {"encoder": split_modules(self.encoder)[0]})

    @property
    def n_features_in_(self) -> int | None:
        """How many attributes nodes have; None where they have none, or where types have their own (`types_`)."""
        return self.types_[0].width if len(self.types_) == 1 else None

    @property
    def judges_novelty(self) -> bool:
        """Whether it knows what is common among its nodes; models without attributes and those of old do not."""
        return any(common is not None for common in self.novelty_models_)

    @property
    def pipeline_(self) -> FeaturePipeline | None:
        """How columns of a table became these attributes, where they did."""
        return self.types_[0].pipeline if len(self.types_) == 1 else None

    @property
    def feature_names_in_(self) -> tuple[str, ...] | None:
        """What these attributes are called, where they came with names."""
        return self.types_[0].feature_names if len(self.types_) == 1 else None

    def _as_fitted(self, graph: Graph) -> Graph:
        """The graph as far as it is looked at: without attributes that the encoder leaves out."""
        return with_identities(graph, self.settings().model)

    def _fitting(self, graph: Graph, settings: Config, validation: HeldOut | None) -> TrainingTask:
        measure = settings.model.resolved_dissimilarity(graph.directed, self.gaussian)
        return TrainingTask.of(graph, settings, measure, validation, split_modules(self.encoder)[1])

    def _begun(self, fitting: TrainingTask, listener: Listener | None) -> Trainer:
        began = time.perf_counter()
        choice, trial = fitting.choose(listener)
        self.selection_: Selection = choice
        trainer = fitting.trainer(fitting.settings.replace(**self.selection_.options))
        if trial is not None:
            trainer.start_from(trial.weights, time.perf_counter() - began)
        return trainer

    def _resumed(self, fitting: TrainingTask, state: State, notes: dict[str, Any]) -> Trainer:
        self.selection_ = Selection.from_json(notes)
        trainer = fitting.trainer(fitting.settings.replace(**self.selection_.options))
        trainer.set_state(state)
        return trainer

    def _checkpoints(
        self,
        path: str | Path | None,
        seconds: float,
        graph: Graph,
        validation: HeldOut | None,
        settings: Config,
    ) -> Checkpoints | None:
        if path is None:
            return None
        from glace import __version__

        check_writable(path)
        # All that decides on the bits.
        versions = {"glace": __version__, **{each.__name__: each.__version__ for each in (torch, np, numba)}}
        judged_by = None if validation is None else validation.fingerprint()
        data = {"data": graph.fingerprint(), "validation": judged_by}
        run = {"method": self.method, **data, "options": settings.to_dict()}
        modules = split_modules(self.encoder)[1]
        if modules:
            run["modules"] = {name: fingerprint(module) for name, module in modules.items()}
        return Checkpoints(Path(path), {**run, "versions": versions}, seconds)

    def _remember(self, graph: Graph, network: Network) -> None:
        """Keep what `transform` and the model file need to know of the graph."""
        self.network_ = network
        self.directed_: bool = graph.directed
        self.types_: tuple[NodeType, ...] = tuple(each.without_rows() for each in graph.by_type().types)
        # A graph on disk may have more edges than memory holds.
        self.graph_: Graph | None = None if graph.mapped else graph.without_attributes()

    def _embedding(
        self, ids: NodeIds, own: Gaussian, context: Gaussian | None, known: EvidenceCounts, room: Allocator
    ) -> Embedding:
        certainty = None if self.certainty_model_ is None else self.certainty_model_.certainty(own, known, room)
        measure = self.network_.measure.name
        return Embedding(ids, own.mean, own.variance, measure, self.platt_scaling_, context, certainty)

    def _check_fitted(self) -> None:
        if not hasattr(self, "embedding_"):
            raise InputError(f"this {type(self).__name__} is not fitted yet; call fit(graph) or glace.load(file)")

    def type_of(self, node_type: str | None = None) -> NodeType:
        """What is known of the attributes of a type of nodes, or of all where these are of one."""
        self._check_fitted()
        return chosen_type(self.types_, node_type)[1]


def _moved(held_out: HeldOut | None, places: Any) -> HeldOut | None:
    """Pairs of nodes at the places they are at after `Graph.in_id_order`."""
    if held_out is None or places is None:
        return held_out
    return HeldOut(places[held_out.edges], places[held_out.non_edges])


def check_graph(graph: Any) -> None:
    """Raise unless it is a graph."""
    if not isinstance(graph, Graph):
        raise InputError(
            f"fit takes a Graph, not {type(graph).__name__}; make one with glace.from_arrays, glace.from_tables, "
            "glace.read_tables or glace.datasets.load"
        )


def _scaled(network: Network, kind: int, matrix: Any) -> Any:
    """Dense attributes as the network standardizes them; sparse ones as they are."""
    return matrix if sp.issparse(matrix) else network.scaled(kind, matrix)
