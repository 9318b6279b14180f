"""Estimators in the manner of scikit-learn: thin shells around `train`, `update` and `FittedModel`."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from glace.config.config import METHODS, STAGES, Config, ModelConfig, RunConfig, SamplingConfig, TrainingConfig
from glace.fitted.model import FittedModel
from glace.fitted.new_nodes import NewAttributes
from glace.fitted.state import History, Listener, Selection
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.ids import NodeId
from glace.metrics import link_scores
from glace.model.network import AnyEncoder
from glace.options import Limits, limits_of
from glace.training.train import resolve_config, train
from glace.training.update import update

E = TypeVar("E", bound="GLACE")


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
    limits = {name: each for stage in STAGES for name, each in limits_of(stage).items()}
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
class GLACE(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """One Gaussian per node of an attributed graph: a mean and a diagonal variance.

    The Gaussian is computed from a node's attributes and, if that helps, those of its neighbours, so that new nodes can
    be embedded too. The options whose value is "auto" are selected for each graph by short trials on held-out edges.
    `fit` takes a `Graph`; make one with `glace.from_tables`, `glace.read_tables` or `glace.from_arrays`.

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
    >>> len(estimator.embedding_.neighbors(0, k=5))
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
        return resolve_config(options, METHODS[self.method], encoder)[0]

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
        """Train on a graph; see `glace.train`.

        Parameters
        ----------
        graph : Graph
            The graph to train on.
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
            graph,
            self.config(),
            method=self.method,
            encoder=self.encoder,
            validation=validation,
            listener=listener,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            resume=resume,
        )
        return self

    def fit_transform(self, graph: Graph) -> Embedding:
        """Train on a graph and return the Gaussians of its nodes.

        Parameters
        ----------
        graph : Graph
            The graph to train on.

        Returns
        -------
        Embedding
            One Gaussian per node.
        """
        return self.fit(graph).embedding_

    def transform(
        self, attributes: NewAttributes, ids: Sequence[NodeId] | None = None, node_type: str | None = None
    ) -> Embedding:
        """Compute the Gaussians of new nodes from their attributes; see `FittedModel.transform`.

        Parameters
        ----------
        attributes : array, sparse matrix, data frame, sequence of str, or NodeAttributes
            One row per new node.
        ids : sequence of int or str, optional
            Ids of the new nodes; 0, 1, ... by default.
        node_type : str, optional
            Type of the nodes; required if the model has several node types.

        Returns
        -------
        Embedding
            One Gaussian per row.
        """
        return self._fitted().transform(attributes, ids, node_type, self.n_jobs)

    def update(self, graph: Graph, *, drift_penalty: float = 0.1, max_steps: int | None = None) -> Self:
        """Continue training on a graph that has changed; see `glace.update`.

        Parameters
        ----------
        graph : Graph
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

    def score(self, held_out: HeldOut) -> float:
        """Return the AUC of held-out edges against non-edges.

        Parameters
        ----------
        held_out : HeldOut
            Pairs of positions of training nodes, as `glace.hold_out` returns them.

        Returns
        -------
        float
            The area under the ROC curve, 0.5 for random scores.
        """
        return link_scores(-self.embedding_.dissimilarities_at(held_out.pairs()), held_out.truth()).auc

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

    def _fitted(self) -> FittedModel:
        check_is_fitted(self, "model_", msg="This %(name)s is not fitted yet; call fit(graph) first")
        return self.model_


_SUMMARY, _, _rest = (GLACE.__doc__ or "").partition("    Attributes\n")
_SECTIONS = f"    Attributes\n{_rest}"
GLACE.__doc__ = f"{_SUMMARY.rstrip()}\n{_parameters(GLACE)}\n{_SECTIONS}"


@_estimator("glace-published")
class PublishedGLACE(GLACE):
    """GLACE as the paper and its authors' code have it: attributes alone, both proximities, no offset."""


@_estimator("lace")
class LACE(GLACE):
    """The paper's LACE: a point instead of a Gaussian per node, compared by dot product."""


@_estimator("line")
class LINE(LACE):
    """LINE: points learned from edges alone, without attributes."""


ESTIMATORS: dict[str, type[GLACE]] = {each.method: each for each in (GLACE, PublishedGLACE, LACE, LINE)}
