"""All methods by name: the baselines, and the estimators of the package."""

import time
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from glace.errors import InputError
from glace.estimators import GLACE, LACE, LINE, PublishedGLACE
from glace.experiments.baselines.attributes import RawAttributes
from glace.experiments.baselines.graph2gauss import Graph2Gauss
from glace.experiments.baselines.graphsage import GraphSAGE
from glace.experiments.baselines.method import Method, refuse_unseen, with_unseen
from glace.experiments.baselines.node2vec import DeepWalk, Node2Vec
from glace.experiments.baselines.vgae import VGAE
from glace.fitted.state import Listener, Progress
from glace.gaussian.dissimilarity import stacked
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.rng import Streams

BASELINES: dict[str, Any] = {
    each.name: each for each in (RawAttributes, DeepWalk, Node2Vec, VGAE, GraphSAGE, Graph2Gauss)
}

# The paper gives every method 128 numbers per node: a point of 128 dimensions, or a Gaussian of 64.
_POINT: dict[str, Any] = {"dim": 128}
_TWO_POINTS: dict[str, Any] = {"dim": 64, "proximity": "both"}
LEARNED: dict[str, tuple[type[GLACE], dict[str, Any]]] = {
    "line": (LINE, _TWO_POINTS),
    "line-first": (LINE, _POINT | {"proximity": "first"}),
    "line-second": (LINE, _POINT | {"proximity": "second"}),
    "lace": (LACE, _TWO_POINTS),
    "lace-first": (LACE, _POINT | {"proximity": "first"}),
    "lace-second": (LACE, _POINT | {"proximity": "second"}),
    "glace-published": (PublishedGLACE, {"proximity": "both"}),
    "glace-published-first": (PublishedGLACE, {"proximity": "first"}),
    "glace-published-second": (PublishedGLACE, {"proximity": "second"}),
    "glace": (GLACE, {}),
}
METHODS = (*BASELINES, *LEARNED)
GAUSSIAN = tuple(name for name in METHODS if name.startswith("glace") or name == "graph2gauss")


class Learned:
    """An estimator as a method; `model` is the last one fitted."""

    def __init__(self, name: str, estimator: type[GLACE], options: dict[str, Any]) -> None:
        self.name, self.estimator, self.options = name, estimator, options
        self.inductive = estimator is not LINE
        self.model: GLACE | None = None
        self.curve: list[list[float]] = []
        """[seconds since the start, best validation AUC so far] for each improvement."""
        estimator(**options).config()  # raises for a wrong option before a graph is read

    def embed(self, graph: Graph, streams: Streams, unseen: Any = None, validation: HeldOut | None = None) -> Embedding:
        """Fit the estimator and return its embedding, followed by that of the unseen nodes."""
        if not self.inductive:
            refuse_unseen(self, unseen)
        self.curve = []
        # Tasks with validation pairs are about links, the others about nodes.
        purpose = {"purpose": "nodes" if validation is None else "links"}
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

    def facts(self) -> dict[str, Any]:
        """Return the fields of a record about the fit."""
        if self.model is None or self.model.history_.best is None:
            return {}
        history = self.model.history_
        assert history.best is not None
        steps = {"steps": history.step, "best_step": history.best.step}
        return {**steps, "choice": asdict(self.model.selection_)}


def make(name: str, options: dict[str, Any]) -> Method:
    """Return the method of this name with the given options."""
    if name in LEARNED:
        estimator, own = LEARNED[name]
        _check_known(name, estimator, options)
        return Learned(name, estimator, own | options)
    if name not in BASELINES:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {name!r}")
    _check_known(name, BASELINES[name], options)
    method: Method = BASELINES[name](**options)
    return method


def _check_known(name: str, kind: Any, options: dict[str, Any]) -> None:
    known = [each.name for each in fields(kind)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"{name} has no option {unknown[0]!r}; it has {', '.join(known)}")


def _joined(known: Embedding, unseen: Embedding) -> Embedding:
    own = stacked([known.gaussian, unseen.gaussian])
    context = None
    if known.context is not None and unseen.context is not None:
        context = stacked([known.context, unseen.context])
    certainty = None
    if known.certainty is not None and unseen.certainty is not None:
        certainty = np.concatenate([known.certainty, unseen.certainty])
    ids = with_unseen(known.ids, len(own.mean))
    return Embedding(ids, own.mean, own.variance, known.dissimilarity, known.platt_scaling, context, certainty)
