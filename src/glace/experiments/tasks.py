"""The tasks: evaluate one method on one graph with one seed, and return a record."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from glace.errors import InputError
from glace.experiments.baselines.method import Baseline, RawAttributes
from glace.experiments.code_state import code_state
from glace.experiments.evaluation.benchmark_ranking import (
    HIDDEN,
    benchmark_ranking,
    benchmark_split,
    hard_negatives,
    scores_by_embedding,
    scores_by_ranker,
)
from glace.experiments.evaluation.classes import labelled, node_classification, visualization
from glace.experiments.evaluation.link_prediction import (
    Points,
    link_model_values,
    link_prediction,
    link_values,
    new_link_values,
    pair_values,
)
from glace.experiments.evaluation.rankers import HEURISTICS, by_embedding, by_link_model, link_model_scores
from glace.experiments.evaluation.ranking import full_ranking, hidden_tenth
from glace.experiments.evaluation.uncertainty import uncertainty
from glace.experiments.methods import GAUSSIAN, Heuristic, Learned, Method, Options, Unseen, Values, make, width_option
from glace.experiments.record_file import key_of
from glace.experiments.sparse_points import SparsePoints
from glace.experiments.splits import BALANCED, PROTOCOLS, Split, given_split, hide_nodes, split_edges
from glace.fitted.model import FittedModel
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph, NodeAttributes
from glace.graph.split import HeldOut
from glace.records import Record, peak_rss_mb, provenance
from glace.rng import Streams


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: task, dataset, method, seed and options."""

    task: str
    dataset: str
    method: str
    seed: int = 0
    options: Options | None = None
    split: Path | None = None
    """File with a given split, in place of a random one."""
    hidden_share: float | None = None
    """Fraction of nodes that induction hides, or of edges that benchmark-ranking hides."""
    directed: bool = False
    """Whether the edges of the graph keep their direction."""
    protocol: str | None = None
    """How induction draws its non-edges, one of `PROTOCOLS`; None is the first."""

    def record(self) -> Values:
        """Return the fields of a record that identify the evaluation."""
        return {
            "task": self.task,
            "dataset": self.dataset,
            "method": self.method,
            "seed": self.seed,
            "split": self.split.name if self.split else "random",
            "hidden_share": self.hidden_share,
            "directed": self.directed,
            "protocol": self.protocol,
        }

    def key(self) -> tuple[object, ...]:
        """Return what identifies the evaluation, as `key_of` its record does."""
        return key_of(self.record())

    def text(self) -> str:
        """Describe the evaluation in one line."""
        hidden = "" if self.hidden_share is None else f", {self.hidden_share:.0%} hidden"
        directed = ", directed" * self.directed
        split = f", {self.split.stem}" if self.split else ""
        pairs = f", {self.protocol}" if self.protocol else ""
        return f"{self.task} {self.dataset} {self.method}{split}{hidden}{directed}{pairs}, seed {self.seed}"


class TimedEmbed:
    """Embeds graphs with one method and one seed, and measures the time without that of the evaluation.

    `budget` is the length of the last training as it was, where the options leave it to the graph.
    """

    def __init__(self, method: Method | Heuristic, streams: Streams) -> None:
        self.method, self.streams, self.seconds = method, streams, 0.0
        self.budget: Values = {}

    def __call__(self, graph: Graph, unseen: Unseen | None = None, validation: HeldOut | None = None) -> Embedding:
        """Return the embedding of the graph's nodes, followed by unseen nodes."""
        assert not isinstance(self.method, Heuristic)
        began = time.perf_counter()
        embedding = self.method.embed(graph, self.streams, unseen, validation)
        self.seconds += time.perf_counter() - began
        self.budget = self.method.budget(graph)
        return embedding

    def points(self, graph: Graph, unseen: Unseen | None = None, validation: HeldOut | None = None) -> Points:
        """Return the same, for tasks that can judge sparse points: raw attributes stay as sparse as they are."""
        if not isinstance(self.method, RawAttributes):
            return self(graph, unseen, validation)
        assert not isinstance(unseen, NodeAttributes)
        began = time.perf_counter()
        points = self.method.points(graph, self.streams, unseen)
        self.seconds += time.perf_counter() - began
        return points


def check(wanted: Evaluation) -> Method | Heuristic:
    """Return the method with its options; raises for errors that can be found before a graph is read."""
    if wanted.task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, not {wanted.task!r}")
    if wanted.split is not None and wanted.task not in SPLITTING:
        raise InputError(f"a split applies to {' and '.join(SPLITTING)}, not to {wanted.task}; leave it out")
    if wanted.hidden_share is not None and wanted.task not in HIDING:
        raise InputError(f"a hidden share applies to {' and '.join(HIDING)}, not to {wanted.task}; leave it out")
    if wanted.protocol is not None and wanted.task != "induction":
        raise InputError(f"a protocol applies to induction, not to {wanted.task}; leave it out")
    if wanted.protocol is not None and wanted.protocol not in PROTOCOLS:
        raise InputError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {wanted.protocol!r}")
    if "random_state" in (wanted.options or {}):
        raise InputError(
            "the random state is that of the evaluation, split included; give it there, not among the options"
        )
    if wanted.method in HEURISTICS and wanted.options:
        raise InputError(f"{wanted.method} has no options; leave them out")
    method = Heuristic(wanted.method) if wanted.method in HEURISTICS else make(wanted.method, _options_for(wanted))
    if reason := unsupported(wanted.task, wanted.method):
        raise InputError(reason)
    if isinstance(method, Baseline):
        method.check_installed()
    Streams(wanted.seed)
    return method


def _options_for(wanted: Evaluation) -> Options:
    """Return the given options; a classifier sees as many numbers of every method, unless they say otherwise."""
    given = wanted.options or {}
    return (width_option(wanted.method, given) | given) if wanted.task == "node-classification" else given


def unsupported(task: str, method: str) -> str | None:
    """Return why a method cannot do a task, or None if it can."""
    if method in HEURISTICS:
        tasks = " or ".join(RANKING)
        return None if task in RANKING else f"{method} ranks pairs of nodes and embeds none; its task is {tasks}"
    made = make(method, {})
    if task == "induction" and not made.inductive:
        return f"{method} uses only edges, so it cannot embed nodes outside of the training graph"
    if task == "uncertainty" and method not in GAUSSIAN:
        return f"{method} has points, which have no variance"
    return None


def evaluate(graph: Graph, wanted: Evaluation) -> Record:
    """Run the evaluation on the graph of its dataset, and return its record."""
    method = check(wanted)
    embed = TimedEmbed(method, Streams(wanted.seed))
    values = {
        **wanted.record(),
        "directed": graph.directed,
        "status": "done",
        "reason": None,
        **TASKS[wanted.task](graph, embed, wanted),
        "seconds": round(embed.seconds, 3),
        "peak_rss_mb": peak_rss_mb(),
        **({"budget": embed.budget} if embed.budget else {}),
        **(method.facts() if isinstance(method, Learned) else {"options": _options(method)}),
    }
    return Record("evaluation", values, provenance(dataset=wanted.dataset, data=graph.fingerprint(), **code_state()))


def _options(method: Baseline | Heuristic) -> Options:
    return {} if isinstance(method, Heuristic) else asdict(method)


def _split(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Split:
    """Return the given split, or a random one that is the same for every method."""
    return given_split(graph, wanted.split) if wanted.split else split_edges(graph, embed.streams.numpy("split"))


def _link_prediction(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Values:
    split = _split(graph, embed, wanted)
    values = link_values(embed.points(split.train, validation=split.validation), split)
    if isinstance(embed.method, Learned):
        values["curve"] = embed.method.curve
    fitted = _with_link_model(embed.method)
    return values if fitted is None else values | link_model_values(fitted, split.test)


def _with_link_model(method: Method | Heuristic) -> FittedModel | None:
    """Return the last fitted model of a method, if it has a link model."""
    model = method.model if isinstance(method, Learned) else None
    return None if model is None or model.model_.link_model is None else model.model_


def _ranking(graph: Graph, embed: TimedEmbed, _: Evaluation) -> Values:
    train, hidden = hidden_tenth(graph, embed.streams)
    values: Values = {"hidden_edges": len(hidden.edges)}
    if isinstance(embed.method, Heuristic):
        began = time.perf_counter()
        scores = full_ranking(HEURISTICS[embed.method.name](train), train, hidden.edges)
        embed.seconds = time.perf_counter() - began
        return values | scores._asdict()
    if isinstance(embed.method, Learned):
        embed.method.options = {"purpose": "links"} | embed.method.options
    values |= full_ranking(by_embedding(embed(train)), train, hidden.edges)._asdict()
    fitted = _with_link_model(embed.method)
    if fitted is not None:
        scores = full_ranking(by_link_model(fitted), train, hidden.edges)
        values |= {f"{name}_link_model": value for name, value in scores._asdict().items()}
    return values


def _benchmark_ranking(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Values:
    share = HIDDEN if wanted.hidden_share is None else wanted.hidden_share
    split = benchmark_split(graph, embed.streams.numpy("benchmark split"), share)
    negatives = hard_negatives(graph, split, embed.streams)
    values: Values = {"hidden_share": share, "hidden_edges": len(split.test.edges)}
    if isinstance(embed.method, Heuristic):
        began = time.perf_counter()
        scores = scores_by_ranker(HEURISTICS[embed.method.name](split.train), graph.num_nodes)
        values |= benchmark_ranking(scores, split.test, negatives)._asdict()
        embed.seconds = time.perf_counter() - began
        return values
    embedding = embed(split.train, validation=split.validation)
    found = benchmark_ranking(scores_by_embedding(embedding), split.test, negatives)
    values |= found._asdict()
    fitted = _with_link_model(embed.method)
    if fitted is not None and fitted.link_model is not None:
        found = benchmark_ranking(partial(link_model_scores, fitted, fitted.link_model), split.test, negatives)
        values |= {f"{name}_link_model": value for name, value in found._asdict().items()}
    return values


def _node_classification(graph: Graph, embed: TimedEmbed, _: Evaluation) -> Values:
    labelled(graph.labels, graph.num_nodes)  # raises before the graph is embedded
    found = embed.points(graph)
    features = found.rows if isinstance(found, SparsePoints) else found
    width = _width(found)
    return {"features": width, **node_classification(features, graph.labels, embed.streams).values()}


def _width(found: Points) -> int:
    """Return the numbers per node that a classifier sees."""
    if isinstance(found, SparsePoints):
        return int(found.rows.shape[1])
    return int(found.mean.shape[1]) * (1 if found.variance is None else 2)


def _induction(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Values:
    share = 0.1 if wanted.hidden_share is None else wanted.hidden_share
    supports_types = isinstance(embed.method, Learned)
    if len(graph.by_type().types) > 1 and not supports_types:
        raise InputError(f"{embed.method.name} supports one node type, but the graph has several; choose glace or lace")
    protocol = wanted.protocol or BALANCED
    split = hide_nodes(graph, share, embed.streams.numpy("hidden nodes"), protocol)
    embedding = embed.points(split.visible, unseen=split.hidden if supports_types else split.hidden.matrix)
    truth = split.test.truth()
    facts = {"pairs": len(truth), "edge_share": float(truth.mean()), "hidden_share": share, "protocol": protocol}
    values = facts | pair_values(embedding, split.test)
    fitted = _with_link_model(embed.method)
    if fitted is None or not isinstance(embedding, Embedding):
        return values
    return values | new_link_values(fitted, embedding, split.test)


def _visualization(graph: Graph, embed: TimedEmbed, _: Evaluation) -> Values:
    labelled(graph.labels, graph.num_nodes)  # raises before the graph is embedded
    return visualization(embed(graph), graph.labels, seed=embed.streams.seed).values()


def _uncertainty(graph: Graph, embed: TimedEmbed, wanted: Evaluation) -> Values:
    split = _split(graph, embed, wanted)
    embedding = embed(split.train, validation=split.validation)
    values = uncertainty(embedding, split.train, split.test, embed.streams.numpy("uncertainty"))
    return {**link_prediction(embedding, split.test)._asdict(), **values}


TASKS: dict[str, Callable[[Graph, TimedEmbed, Evaluation], Values]] = {
    "link-prediction": _link_prediction,
    "node-classification": _node_classification,
    "induction": _induction,
    "visualization": _visualization,
    "uncertainty": _uncertainty,
    "ranking": _ranking,
    "benchmark-ranking": _benchmark_ranking,
}
SPLITTING = ("link-prediction", "uncertainty")
"""Tasks that hold out edges."""
HIDING = ("induction", "benchmark-ranking")
"""Tasks with a share of hidden nodes or edges."""
RANKING = ("ranking", "benchmark-ranking")
"""Tasks of heuristics, too."""
