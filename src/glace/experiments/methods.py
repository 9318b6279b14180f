"""The methods by name: the baselines, and the learned methods as this package trains them."""

import time
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from glace.config.config import method_named
from glace.errors import InputError
from glace.estimators import GLACE, LACE, LINE, PublishedGLACE, PublishedLACE
from glace.experiments.baselines.as_coded import GLACEAsCoded
from glace.experiments.baselines.dvne import DVNE
from glace.experiments.baselines.graph2gauss import Graph2Gauss
from glace.experiments.baselines.graph_networks import VGAE, GraphSAGE
from glace.experiments.baselines.method import Baseline, RawAttributes, refuse_unseen, with_unseen
from glace.experiments.baselines.node2vec import DeepWalk, Node2Vec
from glace.experiments.baselines.sdne import SDNE
from glace.experiments.baselines.word2gauss import Word2Gauss
from glace.experiments.evaluation.rankers import HEURISTICS
from glace.fitted.state import Listener, Progress
from glace.gaussian.dissimilarity import concatenated
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph, NodeAttributes
from glace.graph.split import HeldOut
from glace.rng import Streams
from glace.sparse import Matrix

Options = dict[str, Any]
"""Values of any type by the name of the option; the method checks them."""
Values = dict[str, object]
"""Fields of a record by name."""
Unseen = Matrix | NodeAttributes
"""Attributes of unseen nodes; the baselines take a matrix."""

_BASELINES = (RawAttributes, DeepWalk, Node2Vec, SDNE, VGAE, GraphSAGE, Graph2Gauss, DVNE, Word2Gauss, GLACEAsCoded)
BASELINES: dict[str, type[Baseline]] = {each.name: each for each in _BASELINES}

# The paper gives every method 128 numbers per node: a point of 128 dimensions, or a Gaussian of 64.
# GLACE and LACE as published have as many for each proximity, so that the two differ in nothing but the variance.
WIDTH = 128
_POINT: Options = {"dim": WIDTH}
_FIRST, _SECOND, _BOTH = ({"proximity": proximity} for proximity in ("first", "second", "both"))
LEARNED: dict[str, tuple[type[GLACE], Options]] = {
    "line": (LINE, {"dim": WIDTH // 2} | _BOTH),
    "line-first": (LINE, _POINT | _FIRST),
    "line-second": (LINE, _POINT | _SECOND),
    "lace-published": (PublishedLACE, _POINT | _BOTH),
    "lace-published-first": (PublishedLACE, _POINT | _FIRST),
    "lace-published-second": (PublishedLACE, _POINT | _SECOND),
    "lace": (LACE, _POINT),
    "lace-second": (LACE, _POINT | _SECOND),
    "glace-published": (PublishedGLACE, _BOTH),
    "glace-published-first": (PublishedGLACE, _FIRST),
    "glace-published-second": (PublishedGLACE, _SECOND),
    "glace": (GLACE, {}),
    "glace-second": (GLACE, _SECOND),
    "glace-wasserstein2": (GLACE, {"dissimilarity": "wasserstein2"}),
    "glace-symmetric-kl": (GLACE, {"dissimilarity": "symmetric_kl"}),
    "glace-kl": (GLACE, {"dissimilarity": "kl"}),
}
METHODS = (*BASELINES, *LEARNED)
GAUSSIAN = (
    *(name for name, kind in BASELINES.items() if kind.gaussian),
    *(name for name, (kind, _) in LEARNED.items() if method_named(kind.method).gaussian),
)


class Learned:
    """An estimator as a method; `model` is the last one fitted."""

    def __init__(self, name: str, estimator: type[GLACE], options: Options) -> None:
        self.name, self.estimator, self.options = name, estimator, options
        self.inductive = estimator is not LINE
        self.model: GLACE | None = None
        self.curve: list[list[float]] = []
        """[seconds since the start, best validation AUC so far] for each improvement."""
        estimator(**options).config()  # raises for a wrong option before a graph is read

    def embed(
        self, graph: Graph, streams: Streams, unseen: Unseen | None = None, validation: HeldOut | None = None
    ) -> Embedding:
        """Fit the estimator and return its embedding, followed by that of the unseen nodes."""
        if not self.inductive:
            refuse_unseen(self.name, unseen)
        self.curve = []
        # Tasks with validation pairs are about links, the others about nodes; ranking says so itself.
        purpose: Options = {"purpose": "nodes" if validation is None else "links"}
        model = self.estimator(**purpose | self.options | {"random_state": streams.seed})
        self.model = model.fit(graph, validation=validation, listener=self._listener())
        if unseen is None:
            return self.model.embedding_
        return _joined(self.model.embedding_, self.model.transform(unseen))

    def _listener(self) -> Listener:
        began = time.perf_counter()

        def listen(progress: Progress) -> None:
            auc = progress.validation_auc
            if auc is not None and (not self.curve or auc > self.curve[-1][1]):
                self.curve.append([round(time.perf_counter() - began, 3), auc])

        return listen

    def budget(self, graph: Graph) -> Values:
        """Return how long the last fit was: steps, edges drawn, and epochs over the edges of `graph`."""
        assert self.model is not None, "a task fits its method"
        steps = self.model.history_.step
        edges = steps * self.model.config_.sampling.batch_size
        return {"steps": steps, "edges": edges, "epochs": round(edges / max(graph.adjacency.nnz, 1), 2)}

    def facts(self) -> Values:
        """Return the fields of a record about the fit."""
        assert self.model is not None, "a task fits its method"
        facts: Values = {"options": self.model.config_.to_dict()}
        history = self.model.history_
        if history.best is not None:
            facts |= {"steps": history.step, "best_step": history.best.step, "choice": asdict(self.model.selection_)}
        return facts


Method = Baseline | Learned


@dataclass(frozen=True)
class Heuristic:
    """A ranker of missing edges that has no embedding and no options."""

    name: str


def make(name: str, options: Options) -> Method:
    """Return the method of this name with the given options."""
    if name not in METHODS:
        known = ", ".join(METHODS)
        raise InputError(f"method must be one of {known} or, for ranking, {', '.join(HEURISTICS)}, not {name!r}")
    kind, own = LEARNED[name] if name in LEARNED else (BASELINES[name], {})
    names = [each.name for each in fields(kind)]
    unknown = sorted(set(options) - set(names))
    if unknown:
        raise InputError(f"{name} has no option {unknown[0]!r}; it has {', '.join(names)}")
    return Learned(name, kind, own | options) if issubclass(kind, GLACE) else kind(**options)


def width_option(name: str, options: Options) -> Options:
    """Return the dimensions that give a node of a learned method `WIDTH` numbers in all; nothing for a baseline.

    A Gaussian has two numbers per dimension, and two proximities have their dimensions side by side.
    """
    if name not in LEARNED:
        return {}
    kind, own = LEARNED[name]
    both = (own | options).get("proximity", kind.proximity) == "both"
    return {"dim": WIDTH // ((2 if both else 1) * (2 if name in GAUSSIAN else 1))}


def _joined(known: Embedding, unseen: Embedding) -> Embedding:
    own = concatenated([known.gaussian, unseen.gaussian], axis=0)
    context = None
    if known.context is not None and unseen.context is not None:
        context = concatenated([known.context, unseen.context], axis=0)
    certainty = None
    if known.certainty is not None and unseen.certainty is not None:
        certainty = np.concatenate([known.certainty, unseen.certainty])
    ids = with_unseen(known.ids, len(own.mean))
    return Embedding(ids, own.mean, own.variance, known.dissimilarity, known.platt_scaling, context, certainty)
