"""Methods by name, and the tasks: evaluate one method on one graph with one seed, and return a record."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from glace.errors import InputError
from glace.estimators import GLACE, LACE, LINE, PublishedGLACE
from glace.experiments.baselines.graph2gauss import Graph2Gauss
from glace.experiments.baselines.graph_networks import VGAE, GraphSAGE
from glace.experiments.baselines.method import Baseline, Method, RawAttributes, refuse_unseen, with_unseen
from glace.experiments.baselines.node2vec import DeepWalk, Node2Vec
from glace.experiments.evaluation.classes import node_classification, visualization
from glace.experiments.evaluation.link_prediction import link_prediction, link_values
from glace.experiments.evaluation.uncertainty import uncertainty
from glace.experiments.splits import Split, given_split, hide_nodes, split_edges
from glace.fitted.state import Listener, Progress
from glace.gaussian.dissimilarity import stacked
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph, NodeAttributes
from glace.graph.split import HeldOut
from glace.records import Record, peak_rss_mb, provenance
from glace.rng import Streams
from glace.sparse import Matrix

Options = dict[str, Any]
"""Values of any type by the name of the option; the method checks them."""
Values = dict[str, object]
Unseen = Matrix | NodeAttributes
"""Attributes of unseen nodes; the baselines take a matrix."""

_BASELINES = (RawAttributes, DeepWalk, Node2Vec, VGAE, GraphSAGE, Graph2Gauss)
BASELINES: dict[str, type[Baseline]] = {each.name: each for each in _BASELINES}

# The paper gives every method 128 numbers per node: a point of 128 dimensions, or a Gaussian of 64.
_POINT: Options = {"dim": 128}
_TWO_POINTS: Options = {"dim": 64, "proximity": "both"}
LEARNED: dict[str, tuple[type[GLACE], Options]] = {
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
            refuse_unseen(self, unseen)
        self.curve = []
        # Tasks with validation pairs are about links, the others about nodes.
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

    def facts(self) -> Values:
        """Return the fields of a record about the fit."""
        if self.model is None or self.model.history_.best is None:
            return {}
        history = self.model.history_
        assert history.best is not None
        steps = {"steps": history.step, "best_step": history.best.step}
        return {**steps, "choice": asdict(self.model.selection_)}


def make(name: str, options: Options) -> Method:
    """Return the method of this name with the given options."""
    if name in LEARNED:
        estimator, own = LEARNED[name]
        _check_known(name, estimator, options)
        return Learned(name, estimator, own | options)
    if name not in BASELINES:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {name!r}")
    _check_known(name, BASELINES[name], options)
    return BASELINES[name](**options)


def _check_known(name: str, kind: type[GLACE | Baseline], options: Options) -> None:
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


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: task, method, seed and options."""

    task: str
    method: str
    seed: int = 0
    options: Options | None = None
    split: Path | None = None
    """File with a given split, in place of a random one."""
    hidden_share: float | None = None
    """Fraction of nodes that induction hides."""


class TimedEmbed:
    """Embeds graphs with one method and one seed, and measures the time without that of the evaluation."""

    def __init__(self, method: Method, streams: Streams) -> None:
        self.method, self.streams, self.seconds = method, streams, 0.0

    def __call__(self, graph: Graph, unseen: Unseen | None = None, validation: HeldOut | None = None) -> Embedding:
        """Return the embedding of the graph's nodes, followed by unseen nodes."""
        began = time.perf_counter()
        embedding = self.method.embed(graph, self.streams, unseen, validation)
        self.seconds += time.perf_counter() - began
        return embedding


def check(wanted: Evaluation) -> Method:
    """Return the method with its options; raises for errors that can be found before a graph is read."""
    if wanted.task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, not {wanted.task!r}")
    if wanted.split is not None and wanted.task not in SPLITTING:
        raise InputError(f"a split applies to {' and '.join(SPLITTING)}, not to {wanted.task}; leave it out")
    if wanted.hidden_share is not None and wanted.task != "induction":
        raise InputError(f"a share of hidden nodes applies to induction, not to {wanted.task}; leave it out")
    if "random_state" in (wanted.options or {}):
        raise InputError(
            "the random state is that of the evaluation, split included; give it there, not among the options"
        )
    method = make(wanted.method, wanted.options or {})
    reason = unsupported(wanted.task, wanted.method)
    if reason:
        raise InputError(reason)
    Streams(wanted.seed)
    return method


def unsupported(task: str, method: str) -> str | None:
    """Return why a method cannot do a task, or None if it can."""
    made = make(method, {})
    if task == "induction" and not made.inductive:
        return f"{method} knows a node by its edges and cannot embed one it was not trained on"
    if task == "uncertainty" and method not in GAUSSIAN:
        return f"{method} has points, which have no variance"
    if task == "convergence" and not isinstance(made, Learned):
        return f"{method} keeps no record of its training; glace, lace and line do"
    return None


def evaluate(graph: Graph, dataset: str, wanted: Evaluation) -> Record:
    """Run the evaluation and return its record."""
    method, streams = check(wanted), Streams(wanted.seed)
    embed = TimedEmbed(method, streams)
    values = TASKS[wanted.task](graph, embed, wanted)
    result = {
        "task": wanted.task,
        "dataset": dataset,
        "method": wanted.method,
        "seed": wanted.seed,
        "status": "done",
        "reason": None,
        **values,
        "seconds": round(embed.seconds, 3),
        "peak_rss_mb": peak_rss_mb(),
        "options": _options(method),
        **(method.facts() if isinstance(method, Learned) else {}),
    }
    return Record("evaluation", result, provenance(dataset=dataset, data=graph.fingerprint()))


def _options(method: Method) -> Values:
    if isinstance(method, Learned):
        assert method.model is not None, "a task fits its method"
        return method.model.config_.to_dict()
    assert isinstance(method, Baseline)
    return asdict(method)


def _split(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> tuple[str, Split]:
    """Return the name of the split, and the given or random split; it is the same for every method."""
    if wanted.split is not None:
        return wanted.split.name, given_split(graph, wanted.split)
    return "random", split_edges(graph, embed.streams.numpy("split"))


def _link_prediction(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Values:
    name, split = _split(graph, embed, wanted)
    return {"split": name, **link_values(embed(split.train, validation=split.validation), split)}


def _node_classification(graph: Graph, embed: TimedEmbed, _: Evaluation) -> Values:
    _check_labels(graph)
    return dict(node_classification(embed(graph), graph.labels, embed.streams).values())


def _induction(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Values:
    share = 0.1 if wanted.hidden_share is None else wanted.hidden_share
    supports_types = isinstance(embed.method, Learned)
    if len(graph.by_type().types) > 1 and not supports_types:
        raise InputError(f"{embed.method.name} supports one node type, but the graph has several; choose glace or lace")
    split = hide_nodes(graph, share, embed.streams.numpy("hidden nodes"))
    embedding = embed(split.visible, unseen=split.hidden if supports_types else split.hidden.matrix)
    scores = link_prediction(embedding, split.test)
    return {"pairs": len(split.test.pairs()), "hidden_share": share, **scores._asdict()}


def _convergence(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Values:
    assert isinstance(embed.method, Learned)
    name, split = _split(graph, embed, wanted)
    embed(split.train, validation=split.validation)
    return {"split": name, "curve": embed.method.curve}


def _visualization(graph: Graph, embed: TimedEmbed, _: Evaluation) -> Values:
    _check_labels(graph)
    return visualization(embed(graph), graph.labels, seed=embed.streams.seed).values()


def _uncertainty(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Values:
    name, split = _split(graph, embed, wanted)
    embedding = embed(split.train, validation=split.validation)
    values = uncertainty(embedding, split.train, split.test, embed.streams.numpy("uncertainty"))
    return {"split": name, **link_prediction(embedding, split.test)._asdict(), **values}


def _check_labels(graph: Graph) -> None:
    if graph.labels is None:
        raise InputError("the task needs labels, but the graph has none; choose link-prediction or induction")


TASKS: dict[str, Callable[[Graph, TimedEmbed, Evaluation], Values]] = {
    "link-prediction": _link_prediction,
    "node-classification": _node_classification,
    "induction": _induction,
    "convergence": _convergence,
    "visualization": _visualization,
    "uncertainty": _uncertainty,
}
SPLITTING = ("link-prediction", "convergence", "uncertainty")
"""Tasks that hold out edges."""
