"""Estimators in the manner of scikit-learn: thin shells around `train`, `update` and `FittedModel`."""

import logging
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from glace.config.config import METHODS, STAGES, Config, ModelConfig, RunConfig, SamplingConfig, TrainingConfig
from glace.fitted.graphs import held_out_auc
from glace.fitted.model import FittedModel
from glace.fitted.new_nodes import NewAttributes
from glace.fitted.state import History, Listener, Progress, Selection
from glace.gaussian.embedding import Embedding
from glace.gaussian.tables import Neighbors
from glace.graph.graph import Graph
from glace.graph.interop import AnyGraph, as_graph, is_foreign
from glace.graph.split import HeldOut
from glace.ids import NodeId
from glace.model.network import AnyEncoder
from glace.options import Limits, limits_of
from glace.queries.clusters import Clusters
from glace.queries.links import Links
from glace.queries.novelty import Novelty
from glace.queries.pair_scores import PairScores
from glace.training.train import resolve_config, train
from glace.training.update import update

E = TypeVar("E", bound="GLACE")
_log = logging.getLogger("glace")
VERBOSE = Limits("Log the progress of `fit` to the logger `glace`, at level INFO.", kind=bool)
LOG_EVERY = 0.1
"""Fraction of the work between two log lines."""


def _estimator(method: str) -> Callable[[type[E]], type[E]]:
    """Make a class the estimator of a method: its default options, and their descriptions in the docstring."""

    def decorate(cls: type[E]) -> type[E]:
        defaults = METHODS[method].defaults
        cls.__annotations__ = {name: GLACE.__annotations__[name] for name in defaults}
        for name, value in [*defaults.items(), ("method", method)]:
            setattr(cls, name, value)
        summary = cls.__doc__  # the decorator would make up one
        made = dataclass(repr=False, eq=False)(cls)
        made.__doc__ = f"{summary}\n{_parameters(made)}\n{_SECTIONS}"
        return made

    return decorate


def _parameters(estimator: "type[GLACE]") -> str:
    """Return the Parameters section of a docstring, from the declarations of the options."""
    limits = {name: each for stage in STAGES for name, each in limits_of(stage).items()} | {"verbose": VERBOSE}
    lines = []
    for each in fields(estimator):
        text = limits[each.name].help + (_ENCODER_HELP if each.name == "encoder" else "")
        lines += [f"    {each.name} : {_type_text(limits[each.name], each)}, default={each.default!r}"]
        lines += textwrap.wrap(text, 112, initial_indent=" " * 8, subsequent_indent=" " * 8, break_on_hyphens=False)
    return "\n".join(["", "    Parameters", "    ----------", *lines, ""])


_ENCODER_HELP = (
    " Or an object such as `glace.MLP(layers=[64, 48])`, a `torch.nn.Module`, or a dict of these by node type."
)


def _type_text(limits: Limits, each: "Field[object]") -> str:
    """Return the type of an option as numpydoc writes it, such as "{'first', 'second', 'both'}"."""
    if each.name == "encoder":
        return "str, MLP, Image, Identity, torch.nn.Module or dict"
    choices = f"{{{', '.join(map(repr, limits.choices))}}}" if limits.choices else ""
    names = [] if limits.kind is str else [limits.kind.__name__]
    return " or ".join([*names, *filter(None, [choices]), *(["None"] if limits.optional else [])])


@dataclass(repr=False, eq=False)
class GLACE(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """One Gaussian per node of an attributed graph: a mean and a diagonal variance.

    The Gaussian is computed from a node's attributes and, if that helps, those of its neighbours, so that new nodes can
    be embedded too. On a graph with 500 held-out edges or more, two short trials tell whether neighbours help.
    `fit` takes a `Graph`, a networkx graph or PyTorch Geometric data; make a `Graph` with `glace.from_tables`,
    `glace.read_tables` or `glace.from_arrays`. Where scikit-learn has a matrix X, such as in a `Pipeline` or in
    `GridSearchCV`, the estimator takes a graph: its nodes are the samples, and the means are the features.

    Attributes
    ----------
    model_ : FittedModel
        The trained model; it answers questions about links, neighbours and new nodes.
    embedding_ : Embedding
        The Gaussians (or points) of the training nodes.
    config_ : Config
        The configuration of the training, with the selected options in place of `auto`.
    selection_ : Selection
        The options that were selected by trials.
    history_ : History
        Validation results and training time.
    n_features_in_ : int or None
        Number of attributes; None without attributes, or if node types have attributes of their own.
    feature_names_in_ : tuple of str or None
        Names of the attributes, if they are known.

    Examples
    --------
    >>> import glace
    >>> graph = glace.datasets.planted(200, communities=4, attributes=80, words=8)
    >>> estimator = glace.GLACE(dim=8, hidden=32, max_steps=50).fit(graph)
    >>> estimator.embedding_.mean.shape
    (200, 8)
    >>> len(estimator.neighbors(0, k=5))
    5
    >>> estimator.transform(graph.attributes[:2]).variance.shape  # of new nodes, from their attributes
    (2, 8)
    """

    dim: int = ModelConfig.dim
    hidden: int = ModelConfig.hidden
    ensemble_size: int = ModelConfig.ensemble_size
    proximity: str = ModelConfig.proximity
    dissimilarity: str | None = ModelConfig.dissimilarity
    activation: str = ModelConfig.activation
    hidden_length: str = ModelConfig.hidden_length
    neighbor_features: str = ModelConfig.neighbor_features
    neighbor_dropout: float = ModelConfig.neighbor_dropout
    dropout: float | str = ModelConfig.dropout
    purpose: str = ModelConfig.purpose
    offset: float | str = ModelConfig.offset
    n_hashed_features: int | None = ModelConfig.n_hashed_features
    encoder: "AnyEncoder" = ModelConfig.encoder
    scaling: str = ModelConfig.scaling
    batch_size: int = SamplingConfig.batch_size
    n_negatives: int = SamplingConfig.n_negatives
    negative_sampling: str = SamplingConfig.negative_sampling
    negative_pool_size: int = SamplingConfig.negative_pool_size
    negative_power: float = SamplingConfig.negative_power
    weights: str = SamplingConfig.weights
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
    sync: str = RunConfig.sync
    sync_every: int = RunConfig.sync_every
    rank_timeout: float = RunConfig.rank_timeout
    verbose: bool = False

    method: ClassVar[str] = "glace"

    def config(self) -> Config:
        """Return the parameters as a checked configuration.

        Returns
        -------
        Config
            The configuration that `fit` trains with; options may be `auto`.

        Raises
        ------
        InputError
            If a parameter has an invalid value.
        """
        options = {**self.get_params(deep=False)}
        encoder = options.pop("encoder")
        del options["verbose"]
        return resolve_config(options, METHODS[self.method], encoder)[0]

    def fit(
        self,
        graph: AnyGraph,
        y: object = None,  # noqa: ARG002 - scikit-learn passes it
        *,
        validation: HeldOut | None = None,
        listener: Listener | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 10.0,
        resume: bool = False,
    ) -> Self:
        """Train on a graph; see `glace.train`.

        Parameters
        ----------
        graph : Graph, networkx.Graph, or torch_geometric Data or HeteroData
            The graph to train on.
        y : object
            Ignored: nothing is learned from labels. scikit-learn passes it.
        validation : HeldOut, optional
            Held-out edges and non-edges for early stopping, as `glace.hold_out` returns them; they must not be edges of
            `graph`. By default a fraction of the edges is held out.
        listener : callable, optional
            Called after every step with a `Progress`: step, fraction done, loss, validation AUC and others.
        checkpoint : str or Path, optional
            File to which the state of the run is written from time to time.
        checkpoint_seconds : float
            Seconds between two checkpoints.
        resume : bool
            Continue from `checkpoint` if that file exists.

        Returns
        -------
        GLACE
            The estimator itself.
        """
        self.model_: FittedModel = train(
            as_graph(graph),
            self.config(),
            method=self.method,
            encoder=self.encoder,
            validation=validation,
            listener=_logging(listener) if self.verbose else listener,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            resume=resume,
        )
        if self.verbose:
            best = self.history_.best
            auc = "" if best is None else f", validation AUC {best.auc:.4f}"
            _log.info("done: %r, %s steps in %.1f s%s", self.model_, self.history_.step, self.history_.seconds, auc)
        return self

    def fit_transform(self, graph: AnyGraph, y: object = None) -> Embedding:  # noqa: ARG002
        """Train on a graph and return the Gaussians of its nodes.

        Parameters
        ----------
        graph : Graph, networkx.Graph, or torch_geometric Data or HeteroData
            The graph to train on.
        y : object
            Ignored, as by `fit`.

        Returns
        -------
        Embedding
            One Gaussian per node; as an array, their means.
        """
        return self.fit(graph).embedding_

    def transform(
        self, attributes: NewAttributes | AnyGraph, ids: Sequence[NodeId] | None = None, node_type: str | None = None
    ) -> Embedding:
        """Compute the Gaussians of new nodes from their attributes; see `FittedModel.transform`.

        Parameters
        ----------
        attributes : array, sparse matrix, data frame, sequence of str, NodeAttributes or graph
            One row per new node. Of a graph, nodes that were trained on keep their Gaussians.
        ids : sequence of int or str, optional
            Ids of the new nodes; 0, 1, ... by default.
        node_type : str, optional
            Type of the nodes; required if the model has several node types.

        Returns
        -------
        Embedding
            One Gaussian per row; as an array, their means.
        """
        fitted = self._fitted()
        given = as_graph(attributes) if is_foreign(attributes) else cast("NewAttributes | Graph", attributes)
        return fitted.transform(given, ids, node_type, self.n_jobs)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the columns that `transform` gives to other estimators: mean_0, mean_1, ...

        Parameters
        ----------
        input_features : object
            Ignored; scikit-learn passes it.

        Returns
        -------
        ndarray of str
            One name per dimension of the means.
        """
        return np.array([f"mean_{place}" for place in range(self.embedding_.mean.shape[1])], dtype=object)

    def neighbors(self, node: NodeId | Sequence[NodeId] | Embedding, k: int = 10, **options: Any) -> Neighbors:
        """Find the nodes that are most like a node; see `FittedModel.neighbors`.

        Parameters
        ----------
        node : int, str, sequence of these, or Embedding
            Ids of known nodes, or new nodes that `transform` embedded.
        k : int
            Number of neighbours.
        **options
            The other options of `FittedModel.neighbors`.

        Returns
        -------
        Neighbors
            Columns such as `id` and `dissimilarity`, nearest first.
        """
        return self._fitted().neighbors(node, k, **options)

    def links(self, node: NodeId | Embedding | None = None, k: int = 100, **options: Any) -> Links:
        """Find the most probable edges that the graph does not have; see `FittedModel.links`.

        Parameters
        ----------
        node : int, str or Embedding, optional
            Only edges of this node, or of new nodes; by default edges of the whole graph.
        k : int
            Number of edges.
        **options
            The other options of `FittedModel.links`.

        Returns
        -------
        Links
            Columns such as `source`, `target` and `probability`, most probable first.
        """
        return self._fitted().links(node, k, **options)

    def score_pairs(
        self,
        pairs: Sequence[tuple[NodeId, NodeId]],
        new: NewAttributes | Embedding | None = None,
        *,
        missing_edge_fraction: float | None = None,
    ) -> PairScores:
        """Compute the probability of an edge for pairs of nodes, known or new; see `FittedModel.score_pairs`.

        Parameters
        ----------
        pairs : sequence of (source, target)
            Ids of the nodes.
        new : array, sparse matrix, data frame, sequence of str, or Embedding, optional
            New nodes that pairs may name.
        missing_edge_fraction : float, optional
            As for `FittedModel.links`.

        Returns
        -------
        PairScores
            One row per pair.
        """
        return self._fitted().score_pairs(pairs, new, missing_edge_fraction=missing_edge_fraction)

    def clusters(self, k: int | None = None, *, graph: Graph | None = None) -> Clusters:
        """Group the nodes by their Gaussians, and name the groups; see `FittedModel.clusters`.

        Parameters
        ----------
        k : int, optional
            Number of clusters; chosen by the edges by default.
        graph : Graph, optional
            The training graph with its attributes, to name clusters by columns of numbers.

        Returns
        -------
        Clusters
            The largest first, with columns such as `name`, `size` and `examples`.
        """
        return self._fitted().clusters(k, graph=graph)

    def novelty(self, attributes: NewAttributes, node_type: str | None = None) -> Novelty:
        """Compute how unlike the training nodes new nodes are; see `FittedModel.novelty`.

        Parameters
        ----------
        attributes : array, sparse matrix, data frame or sequence of str
            One row per new node.
        node_type : str, optional
            Type of the nodes; required if the model has several node types.

        Returns
        -------
        Novelty
            The fraction of unseen attributes and the novelty rank of each node.
        """
        return self._fitted().novelty(attributes, node_type, self.n_jobs)

    def update(self, graph: AnyGraph, *, drift_penalty: float = 0.1, max_steps: int | None = None) -> Self:
        """Continue training on a graph that has changed; see `glace.update`.

        Parameters
        ----------
        graph : Graph, networkx.Graph, or torch_geometric Data or HeteroData
            The whole new graph.
        drift_penalty : float
            Weight of the penalty for old nodes that move; 0 turns it off.
        max_steps : int, optional
            Number of steps; by default a tenth of those of a whole run.

        Returns
        -------
        GLACE
            The estimator itself, with a new `model_`.
        """
        fitted = self._fitted()
        self.model_ = update(fitted, graph, drift_penalty=drift_penalty, max_steps=max_steps, n_jobs=self.n_jobs)
        return self

    def score(self, graph: AnyGraph, y: object = None) -> float:  # noqa: ARG002
        """Return how well edges that were not trained on are told from random pairs, as AUC.

        Nodes that were not trained on, such as those of a fold of cross-validation, are embedded from their attributes.

        Parameters
        ----------
        graph : Graph, networkx.Graph, or torch_geometric Data or HeteroData
            Its edges that training did not see are scored against as many random pairs of its nodes. If it has no
            other edges than the training graph, the validation edges, which training held out, are scored instead.
        y : object
            Ignored; scikit-learn passes it.

        Returns
        -------
        float
            The area under the ROC curve, 0.5 for random scores.
        """
        return held_out_auc(self._fitted(), as_graph(graph), self.random_state)

    def save(self, path: str | Path) -> None:
        """Write the trained model to a file, which `glace.load` reads; see `FittedModel.save`.

        Parameters
        ----------
        path : str or Path
            The file to write, such as `model.glace`.
        """
        self._fitted().save(path)

    @property
    def embedding_(self) -> Embedding:
        """The Gaussians of the training nodes."""
        return self._fitted().embedding

    @property
    def config_(self) -> Config:
        """The configuration of the training, with the selected options."""
        return self._fitted().config

    @property
    def selection_(self) -> Selection:
        """The options that were selected by trials."""
        return self._fitted().selection

    @property
    def history_(self) -> History:
        """Validation results and training time."""
        return self._fitted().history

    @property
    def n_features_in_(self) -> int | None:
        """Number of attributes."""
        return self._fitted().n_features

    @property
    def feature_names_in_(self) -> tuple[str, ...] | None:
        """Names of the attributes, if they are known."""
        return self._fitted().feature_names

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn should know: the estimator takes graphs instead of matrices, and needs no labels."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = False
        tags.no_validation = True
        tags.transformer_tags.preserves_dtype = []  # means are float32, whatever the attributes are
        return tags

    def _fitted(self) -> FittedModel:
        check_is_fitted(self, "model_", msg="This %(name)s is not fitted yet; call fit(graph) first")
        return self.model_


def _logging(listener: Listener | None) -> Listener:
    """Return a listener that also logs each stage, and its progress from time to time.

    If nobody has configured logging, a handler that writes to standard error is added: whoever says `verbose` wants to
    see something.
    """
    if not _log.hasHandlers():
        _log.addHandler(logging.StreamHandler())
    if not _log.isEnabledFor(logging.INFO):
        _log.setLevel(logging.INFO)
    logged = [("", -1.0)]

    def report(progress: Progress) -> None:
        stage, done = logged[-1]
        if progress.stage != stage or progress.done >= done + LOG_EVERY:
            logged[:] = [(progress.stage, progress.done)]
            auc = "" if progress.validation_auc is None else f", validation AUC {progress.validation_auc:.4f}"
            _log.info("%s: %.0f %% done, step %s%s", progress.stage, 100 * progress.done, f"{progress.step:,}", auc)
        if listener is not None:
            listener(progress)

    return report


_SUMMARY, _, _rest = (GLACE.__doc__ or "").partition("    Attributes\n")
_SECTIONS = f"    Attributes\n{_rest}"
GLACE.__doc__ = f"{_SUMMARY.rstrip()}\n{_parameters(GLACE)}\n{_SECTIONS}"


@_estimator("glace-published")
class PublishedGLACE(GLACE):
    """GLACE as the paper and its authors' code have it: attributes alone, both proximities, no offset."""


@_estimator("lace")
class LACE(GLACE):
    """GLACE with a point instead of a Gaussian per node, by dot product; everything else is the same."""


@_estimator("lace-published")
class PublishedLACE(GLACE):
    """The paper's LACE: points, with everything else as in `PublishedGLACE`."""


@_estimator("line")
class LINE(LACE):
    """LINE: points learned from edges alone, without attributes."""


ESTIMATORS: dict[str, type[GLACE]] = {each.method: each for each in (GLACE, PublishedGLACE, LACE, PublishedLACE, LINE)}
