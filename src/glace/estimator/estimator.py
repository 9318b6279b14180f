"""GLACE and LACE: fit on a graph, transform new attributes, save, load."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numba
import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator

from glace.errors import InputError
from glace.estimator.settings import RunConfig, Settings
from glace.files import check_writable
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph, checked_matrix
from glace.graph.split import hold_out
from glace.graph.tables import frame_rows
from glace.graph.text import TextVocabulary
from glace.ids import NodeIds
from glace.model.config import ModelConfig
from glace.model.encoders import InputShape
from glace.model.network import Network
from glace.sampling.config import SamplingConfig
from glace.sampling.edges import EdgeSampler
from glace.training import checkpoint as checkpoints
from glace.training.checkpoint import Checkpoints
from glace.training.config import TrainingConfig
from glace.training.history import History, Listener
from glace.training.loop import Trainer
from glace.training.threads import using_threads
from glace.training.validation import Validation


@dataclass(repr=False, eq=False)
class GLACE(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """One Gaussian per node of an attributed graph.

    The options are explained in docs/parameters.md, and by `glace fit --help`. After `fit` there are
    `embedding_` (the Gaussians of the graph's nodes, in its order), `history_` (looks at held-out edges)
    and `network_`.

    >>> import glace
    >>> graph = glace.datasets.planted(200, communities=4, attributes=80, words=8)
    >>> model = glace.GLACE(dim=8, hidden=32, max_steps=50, threads=1).fit(graph)
    >>> model.embedding_.mean.shape, model.embedding_.variance.shape
    ((200, 8), (200, 8))
    """

    dim: int = ModelConfig.dim
    hidden: int = ModelConfig.hidden
    proximity: str = ModelConfig.proximity
    dissimilarity: str | None = ModelConfig.dissimilarity
    activation: str = ModelConfig.activation
    offset: float | str = ModelConfig.offset
    normalize: bool = ModelConfig.normalize
    batch: int = SamplingConfig.batch
    negatives: int = SamplingConfig.negatives
    negative_sampling: str = SamplingConfig.negative_sampling
    pool: int = SamplingConfig.pool
    negative_power: float = SamplingConfig.negative_power
    learning_rate: float = TrainingConfig.learning_rate
    decay: str = TrainingConfig.decay
    max_steps: int | None = TrainingConfig.max_steps
    max_epochs: float | None = TrainingConfig.max_epochs
    max_seconds: float | None = TrainingConfig.max_seconds
    validation_share: float = TrainingConfig.validation_share
    validate_every: int = TrainingConfig.validate_every
    patience: int = TrainingConfig.patience
    seed: int = RunConfig.seed
    threads: int = RunConfig.threads

    method: ClassVar[str] = "glace"
    gaussian: ClassVar[bool] = True

    def fit(
        self,
        graph: Graph,
        *,
        listener: Listener | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 10.0,
        resume: bool = False,
    ) -> Self:
        """Learn from a graph; `listener` is told of every step.

        With `checkpoint`, the state of the run is written to that file now and then; with `resume`, a run
        goes on from there if the file exists, to the same bits as one that was never interrupted.
        """
        settings = self.settings()
        _check_graph(graph)
        with using_threads(settings.run.threads):
            ordered, back = in_id_order(graph)
            trainer = self._trainer(ordered, settings)
            saving = self._checkpoints(checkpoint, checkpoint_seconds, ordered, settings)
            if saving and resume and saving.path.exists():
                trainer.set_state(checkpoints.load(saving.path, saving.identity))
            self.history_: History = trainer.run(listener, saving)
            self._remember(graph, trainer.network)
            self.embedding_: Embedding = self._embed(ordered.features(), ordered.ids)
        if back is not None:
            self.embedding_ = self.embedding_.take(back)
        return self

    def fit_transform(self, graph: Graph, **options: Any) -> Embedding:
        """Fit, and return the Gaussians of the graph's nodes."""
        return self.fit(graph, **options).embedding_

    def transform(self, attributes: Any, ids: Any = None) -> Embedding:
        """The Gaussians of nodes never seen, from a matrix of the training width, a data frame, or raw texts.

        A frame's columns are taken by their names where the model knows them, and its `id` column as the ids.
        Texts (a sequence of strings) need a model that was fitted on texts. Ids are 0, 1, ... if not given.
        """
        self._check_fitted()
        if hasattr(attributes, "__arrow_c_stream__"):
            own, attributes = frame_rows(attributes, self.attribute_names_)
            ids = own.array if ids is None and own is not None else ids
        matrix = self._as_trained(self._vectors(attributes))
        names = NodeIds.numbered(matrix.shape[0]) if ids is None else NodeIds(ids)
        if len(names) != matrix.shape[0]:
            raise InputError(f"{len(names):,} ids for {matrix.shape[0]:,} rows of attributes; give one a row")
        with using_threads(self.settings().run.threads):
            return self._embed(matrix, names)

    def save(self, path: str | Path, embedding: str = "auto") -> None:
        """Write model and Gaussians to one file; `embedding="beside"` puts the Gaussians into a file beside it.

        `auto` does so where they take more than half a gigabyte.
        """
        from glace.estimator.model_file import save_model

        self._check_fitted()
        save_model(self, path, embedding)

    def settings(self) -> Settings:
        """The options, checked."""
        return Settings.of(self.get_params())

    def _trainer(self, graph: Graph, settings: Settings) -> Trainer:
        attributes, streams = graph.features(), settings.streams
        measure = settings.model.resolved_dissimilarity(graph.directed, self.gaussian)
        validation = None
        if settings.training.validation_share > 0:
            graph, held_out = hold_out(graph, settings.training.validation_share, streams.numpy("validation"))
            validation = Validation.of(held_out, streams.numpy("validation sample"))
        sampler = EdgeSampler(graph, settings.sampling, streams)
        shape = InputShape(attributes.shape[1], sp.issparse(attributes))
        network = Network(shape, settings.model, measure, streams)
        network.standardize(attributes)
        return Trainer(network, attributes, sampler, validation, settings.training)

    def _checkpoints(
        self, path: str | Path | None, seconds: float, graph: Graph, settings: Settings
    ) -> Checkpoints | None:
        if path is None:
            return None
        from glace import __version__

        check_writable(path)
        # All that decides on the bits.
        versions = {"glace": __version__, **{each.__name__: each.__version__ for each in (torch, np, numba)}}
        run = {"method": self.method, "data": graph.fingerprint(), "options": settings.flat()}
        return Checkpoints(Path(path), {**run, "versions": versions}, seconds)

    def _remember(self, graph: Graph, network: Network) -> None:
        """Keep what `transform` and the model file need to know of the graph."""
        self.network_ = network
        self.directed_: bool = graph.directed
        self.width_: int | None = None if graph.attributes is None else graph.num_attributes
        self.vocabulary_: TextVocabulary | None = graph.vocabulary
        self.attribute_names_: tuple[str, ...] | None = graph.attribute_names

    def _embed(self, attributes: Any, ids: NodeIds) -> Embedding:
        own, context = self.network_.embed(attributes, np.arange(attributes.shape[0]))
        measure, offset = self.network_.measure.name, self.network_.offset()
        return Embedding(ids, own.mean, own.variance, measure, offset, context)

    def _check_fitted(self) -> None:
        if not hasattr(self, "network_"):
            raise InputError(
                f"this {type(self).__name__} is not fitted yet; call fit(graph) or glace.load(file)"
            )

    def _vectors(self, attributes: Any) -> Any:
        if not _is_texts(attributes):
            return checked_matrix(attributes)
        if self.vocabulary_ is None:
            raise InputError("the model was not fitted on texts; give a matrix of attributes")
        return self.vocabulary_.attributes(list(attributes))

    def _as_trained(self, matrix: Any) -> Any:
        if self.width_ is None:
            raise InputError(
                "the model was fitted without attributes: a node is known to it by its identity alone, "
                "and new nodes cannot be embedded; fit on a graph with attributes"
            )
        if matrix.shape[1] != self.width_:
            raise InputError(
                f"the model was fitted on {self.width_:,} attributes, but these have {matrix.shape[1]:,}; "
                "give the same columns in the same order"
            )
        if self.network_.shape.sparse:
            return sp.csr_array(matrix)
        return matrix.toarray() if sp.issparse(matrix) else matrix


class LACE(GLACE):
    """The same with a point instead of a Gaussian per node, the paper's LACE: no variance, dot product."""

    method: ClassVar[str] = "lace"
    gaussian: ClassVar[bool] = False


ESTIMATORS: dict[str, type[GLACE]] = {each.method: each for each in (GLACE, LACE)}


def in_id_order(graph: Graph) -> tuple[Graph, Any]:
    """The graph with its nodes sorted by id, and the positions that bring them back; (graph, None) if sorted.

    Training is done in that order: what is drawn for a node then depends on its id, and shuffling the
    rows of the input files changes nothing.
    """
    order = np.argsort(graph.ids.to_numpy(), kind="stable")
    if (order == np.arange(len(order))).all():
        return graph, None
    return graph.take(order), np.argsort(order)


def _check_graph(graph: Any) -> None:
    if not isinstance(graph, Graph):
        raise InputError(
            f"fit takes a Graph, not {type(graph).__name__}; make one with glace.from_arrays, glace.from_tables, "
            "glace.read_tables or glace.datasets.load"
        )


def _is_texts(attributes: Any) -> bool:
    if isinstance(attributes, str):
        raise InputError("give a list of texts, not one string")
    return isinstance(attributes, list | tuple) and all(isinstance(each, str) for each in attributes)
