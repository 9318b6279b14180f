"""Certainty: how often answers about a node are wrong, learned from held-out pairs.

The expected error of a node is the probability that the answer about a pair of the node, edge or non-edge with equal
chance, is on the wrong side of one half. It is a logistic function of what is known about the node: how many edges and
attributes it has, how well its own edges and pairs with random nodes are told apart, and how far its mean is from the
center of all nodes, where an encoder puts nodes that it knows nothing about. A node without edges, such as a new one,
has losses that are not known, which count as the largest, and an intercept of its own.

The weights are fitted to the validation pairs, with Gaussians and a graph that do not know the validation edges. They
are drawn to the mean weights of other graphs, which decide where there are few validation pairs, and keep their signs:
more evidence never makes a node less certain. The certainty is the rank: the share of nodes with a larger error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glace.blocks import blocks
from glace.errors import FormatError
from glace.gaussian.dissimilarity import Gaussian, wide
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut, node_classes, of_same_class
from glace.sparse import nonzeros_per_row
from glace.storage.container import Arrays

EDGES, ATTRIBUTES, OWN_LOSS, RANDOM_LOSS, DISTANCE = range(5)
"""Columns of the features of a node."""
NEW = [ATTRIBUTES, DISTANCE]
"""Features that a node without edges has."""
TYPICAL = np.array([-0.3, -0.1, 0.12, 0.2, -0.3])
"""Weights of standardized features, about the mean of those fitted freely to Cora-ML and DBLP."""
LEAST = np.array([0.3, 0.05, 0.0, 0.0, 0.0])
"""Least size of the weights. Fitted freely, edges and attributes count for little on some graphs, because other
features follow from them. A node that loses half of its edges is then less certain in 75 % of all cases on DBLP, with
these limits in 90 %, and without half of its attributes in 92 %; the ratio of the two halves is 0.31 and 0.29."""
RIDGE = 100.0
"""Strength with which weights are drawn to the typical ones. On small graphs free weights (1) are no better: error of
the more certain half over the less certain one on Cora-ML 0.33 against 0.29, on Citeseer 0.17 against 0.11."""
TYPICAL_ERROR = 0.06
BY_DEGREE = 0.25
"""Share of the non-edges whose ends are drawn by degree. With even ones alone, it is learned that edges have busy ends:
the ratio of the two halves is then 0.56 instead of 0.46 on DBLP if it is measured with non-edges drawn by degree."""
LEAST_SLOPE = 0.25
LARGEST = 2.0
"""Standardized features are clipped here, so that no single one of them makes a node certain. With 4, nodes of one
edge, far from the center, are the most certain ones of DBLP and Pubmed; the two halves differ as much."""
LARGEST_OFFSET = 6.0
MOST_EDGES = 5000
"""Validation edges that the weights are fitted to, at most."""
DRAWS = 5
"""Non-edges per validation edge and end in the fit of the expected error."""
OWN_EDGES = 10
"""Edges of a node, at most, that its loss is the mean of."""
USUAL_EDGES = 3
"""Edges of the usual loss that are added to a node's own: one edge alone says little."""
REFERENCE = 100
"""Random nodes that every node is compared with."""
SAMPLE = 100_000
"""Nodes, evenly spaced, that the center is computed from."""
STEPS = 1000
ROWS = 4096
"""Nodes whose features are computed at a time."""
SMALLEST = 1e-30

Numbers = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Truth = npt.NDArray[np.bool_]
Allocator = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[np.float32]]
"""Allocates an array of the given shape and dtype: `np.empty`, or one on disk."""


def share_below(values: Numbers, quantiles: Numbers) -> Numbers:
    """Return the share of a population below each value, given its quantiles; ties count as not below."""
    distinct, first = np.unique(quantiles, return_index=True)
    return np.interp(values, distinct, np.linspace(0, 1, len(quantiles))[first])


def evenly_spaced(count: int, most: int) -> Positions:
    """Return at most `most` of the positions 0, ..., count - 1, as far apart as possible."""
    return np.arange(0, count, max(-(-count // most), 1))


class Center(NamedTuple):
    """Mean of the means (L,) and of the variances (L,) of all nodes; points have the width 1."""

    mean: Numbers
    width: Numbers

    @classmethod
    def of(cls, nodes: Gaussian) -> "Center":
        """Return the center of some nodes."""
        sample = nodes[evenly_spaced(len(nodes.mean), SAMPLE)]
        mean = np.asarray(sample.mean, dtype=np.float64).mean(axis=0)
        if sample.variance is None:
            return cls(mean, np.ones(len(mean)))
        return cls(mean, np.asarray(sample.variance, dtype=np.float64).mean(axis=0))

    def distance(self, nodes: Gaussian) -> Numbers:
        """Return (n,) the logarithm of the squared distance of the means from the center, in units of the width."""
        gap = np.asarray(nodes.mean, dtype=np.float64) - self.mean
        return np.asarray(np.log((gap * gap / self.width).sum(axis=1) + SMALLEST))


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """What is known about the nodes of a graph, as numbers."""

    embedding: Embedding
    graph: Graph
    center: Center

    def of(self, nodes: Positions) -> Numbers:
        """Return (N, 5) the features of some nodes, in the order of the columns above."""
        parts = [self._block(nodes[rows]) for rows in blocks(len(nodes), ROWS)]
        return np.concatenate(parts) if parts else np.empty((0, len(TYPICAL)))

    def _block(self, nodes: Positions) -> Numbers:
        edges = nonzeros_per_row(self.graph.neighborhoods(), nodes)
        attributes = self.graph.by_type().nonzeros(nodes)
        losses = (self._own_losses(nodes), self._random_losses(nodes))
        distance = self.center.distance(self.embedding.gaussian[nodes])
        return np.column_stack([np.log1p(edges), np.log1p(attributes), *np.log(losses), distance])

    def _own_losses(self, nodes: Positions) -> Numbers:
        """Return (N,) the mean loss of edges of each node, together with some edges of the usual loss."""
        sums, counts = self._losses(nodes)
        return np.asarray((sums + USUAL_EDGES * self._usual_loss) / (counts + USUAL_EDGES)) + 1e-3

    @cached_property
    def _usual_loss(self) -> float:
        sums, counts = self._losses(evenly_spaced(len(self.embedding), 10 * REFERENCE))
        return float(sums.sum() / max(counts.sum(), 1))

    def _losses(self, nodes: Positions) -> tuple[Numbers, Positions]:
        """Return (N,) the sum of the losses of at most `OWN_EDGES` edges of each node, and their number."""
        around = self.graph.neighborhoods()
        counts = nonzeros_per_row(around, nodes).astype(np.int64)
        taken = np.minimum(counts, OWN_EDGES)
        row = np.repeat(np.arange(len(nodes)), taken)
        place = np.arange(len(row)) - np.repeat(np.cumsum(taken) - taken, taken)
        target = around.indices[around.indptr[nodes][row] + place * counts[row] // taken[row]]
        pairs = np.column_stack([nodes[row], target])
        logits = self.logits(pairs)
        if not self.embedding.measure.symmetric:
            logits = np.maximum(logits, self.logits(pairs[:, ::-1]))  # the edge points one way or the other
        return np.bincount(row, np.logaddexp(0, -logits), len(nodes)).astype(np.float64), taken

    def logits(self, pairs: Positions) -> Numbers:
        """Return (P,) the log-odds of an edge of each pair, for as many edges as non-edges."""
        return self.embedding.platt_scaling.logits(self.embedding.dissimilarities_at(pairs))

    def _random_losses(self, nodes: Positions) -> Numbers:
        """Return (N,) the mean loss of pairs of each node with random nodes, as if none of these were an edge."""
        sources = self.embedding.roles_at(nodes)
        distances = sources.scale * self.embedding.measure.all_pairs(wide(sources.source), self._reference)
        return np.asarray(np.logaddexp(0, self.embedding.platt_scaling.logits(distances)).mean(axis=1)) + 1e-3

    @cached_property
    def _reference(self) -> Gaussian:
        return wide(self.embedding.roles_at(evenly_spaced(len(self.embedding), REFERENCE)).target)


class ErrorModel(NamedTuple):
    """Probability that an answer about a node is wrong: a logistic function of F standardized features."""

    center: Numbers
    scale: Numbers
    weights: Numbers
    intercept: Numbers

    def standardized(self, features: Numbers) -> Numbers:
        """Return the features in units of their deviation among random nodes, clipped."""
        return np.clip((features - self.center) / self.scale, -LARGEST, LARGEST)

    def probabilities(self, features: Numbers) -> Numbers:
        """Return (n,) the expected errors of nodes with features (n, F)."""
        from scipy.special import expit

        return np.asarray(expit(self.standardized(features) @ self.weights + self.intercept))


@dataclass(frozen=True, eq=False)
class CertaintyModel:
    """Knows how often answers about nodes are wrong.

    Parameters
    ----------
    center : Center
        The center of all nodes.
    known, new : ErrorModel
        For nodes with edges and for nodes without.
    quantiles : ndarray of float, shape (STEPS + 1,)
        Quantiles of the expected errors of the training nodes, ascending.
    """

    center: Center
    known: ErrorModel
    new: ErrorModel
    quantiles: Numbers

    def expected_errors(self, features: NodeFeatures, allocate: Allocator = np.empty) -> npt.NDArray[np.float32]:
        """Return (n,) the expected errors of all nodes of a graph, in an array from `allocate`."""
        errors = allocate((len(features.embedding),), np.float32)
        for rows in blocks(len(errors), ROWS):
            errors[rows] = self.of_features(features.of(np.arange(rows.start, rows.stop)))
        return errors

    def of_features(self, features: Numbers) -> Numbers:
        """Return (n,) the expected errors of nodes with features (n, 5)."""
        known, new = self.known.probabilities(features), self.new.probabilities(features[:, NEW])
        return np.where(features[:, EDGES] > 0, known, new)

    def expected_errors_of_new(self, nodes: Gaussian, attributes: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
        """Return (n,) the expected errors of new nodes with these numbers of attributes."""
        features = np.column_stack([np.log1p(attributes), self.center.distance(nodes)])
        return self.new.probabilities(features).astype(np.float32)

    def certainty(self, errors: npt.NDArray[np.floating], allocate: Allocator = np.empty) -> npt.NDArray[np.float32]:
        """Return (n,) the share of training nodes with a larger expected error, in an array from `allocate`."""
        ranks = allocate(errors.shape, np.float32)
        for rows in blocks(len(errors), ROWS):
            ranks[rows] = share_below(-np.asarray(errors[rows], np.float64), -self.quantiles[::-1])
        return ranks

    def doubts(self, features: NodeFeatures, nodes: Positions) -> list[str]:
        """Return in words what makes answers about some nodes uncertain: what is worse than for most nodes, or ""."""
        values = features.of(nodes)
        worse = self.known.standardized(values) * np.sign(TYPICAL) > 1
        worse[:, ATTRIBUTES] &= features.graph.has_attributes
        edges = np.rint(np.expm1(values[:, EDGES])).astype(np.int64)
        worse[edges == 0, EDGES], worse[edges == 0, OWN_LOSS] = True, False
        counts = np.column_stack([edges, np.rint(np.expm1(values[:, ATTRIBUTES])).astype(np.int64)])
        return ["; ".join(_doubts(*row)) for row in zip(worse.tolist(), counts.tolist(), strict=True)]

    def to_arrays(self) -> Arrays:
        """Return the arrays for the model file."""
        named = {"center": self.center._asdict(), "known": self.known._asdict(), "new": self.new._asdict()}
        arrays = {f"{name}.{field}": array for name, part in named.items() for field, array in part.items()}
        return {**arrays, "quantiles": self.quantiles}

    @classmethod
    def from_arrays(cls, arrays: Arrays, width: int) -> "CertaintyModel":
        """Return the model of what `to_arrays` gave, for means with `width` dimensions."""
        center = Center(*(arrays[f"center.{name}"] for name in Center._fields))
        known, new = (
            ErrorModel(*(arrays[f"{name}.{field}"] for field in ErrorModel._fields)) for name in ("known", "new")
        )
        parts = [*center, *known, *new, arrays["quantiles"]]
        shapes = [(width,)] * 2 + [(len(TYPICAL),)] * 3 + [()] + [(len(NEW),)] * 3 + [(), (STEPS + 1,)]
        if [part.shape for part in parts] != shapes:
            raise FormatError("the statistics behind the certainty do not fit the embedding")
        scales = [center.width, known.scale, new.scale]
        if not all(np.isfinite(part).all() for part in parts) or not all((each > 0).all() for each in scales):
            raise FormatError("the statistics behind the certainty must be finite, with widths above 0")
        return cls(center, known, new, arrays["quantiles"])


def _doubts(worse: list[bool], counts: list[int]) -> list[str]:
    """Return the doubts about a node with these numbers of edges and attributes; `worse` is by feature."""
    texts = (
        counted(counts[0], "edge"),
        counted(counts[1], "attribute"),
        "its own edges are hard to predict",
        "it is near many nodes",
        "little sets it apart from the average node",
    )
    return [text for text, is_worse in zip(texts, worse, strict=True) if is_worse]


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: no edges, 1 edge, 2 edges."""
    return f"1 {noun}" if number == 1 else f"{f'{number:,}' if number else 'no'} {noun}s"


def quantiles_of(errors: npt.NDArray[np.float32]) -> Numbers:
    """Return the quantiles (STEPS + 1,) of the expected errors of the training nodes."""
    sample = np.asarray(errors[evenly_spaced(len(errors), SAMPLE)], np.float64)
    return np.quantile(sample, np.linspace(0, 1, STEPS + 1))


def typical_certainty(features: NodeFeatures) -> tuple[ErrorModel, ErrorModel]:
    """Return error models of typical weights and a typical error, for a graph without held-out pairs."""
    known = _standard(features.of(evenly_spaced(len(features.embedding), MOST_EDGES)), TYPICAL)
    return known, _without_edges(known)


def fit_certainty(
    features: NodeFeatures, whole: Graph, held_out: HeldOut, as_new: Embedding | None, generator: np.random.Generator
) -> tuple[ErrorModel, ErrorModel]:
    """Learn how often answers are wrong from held-out pairs.

    Parameters
    ----------
    features
        Of a graph, and of Gaussians, that do not know the held-out edges.
    whole
        The graph with the held-out edges.
    held_out
        The pairs, at most `MOST_EDGES` of each kind.
    as_new
        The ends of the held-out edges, as `ends_of` lists them, with the Gaussians that they would have if they were
        new; None if new nodes cannot be embedded.
    generator
        Draws pairs.

    Returns
    -------
    known, new
        The error models of nodes with edges and without.
    """
    edges, even, classes = held_out.edges, held_out.non_edges, node_classes(whole)
    usual = features.of(np.unique(even))
    answers = _weighed(whole, edges, even, _exchanged(edges, classes, generator))
    about = _about_nodes(whole, edges, classes, generator)
    known = _fit_known(features, usual, answers, about)
    new = _without_edges(known)
    return known, new if as_new is None else _fit_new(new, features, as_new, about, ends_of(held_out))


def some_of(held_out: HeldOut, generator: np.random.Generator) -> HeldOut:
    """Return at most `MOST_EDGES` of the edges, and as many non-edges."""
    chosen = generator.permutation(len(held_out.edges))[:MOST_EDGES]
    return HeldOut(held_out.edges[chosen], held_out.non_edges[: len(chosen)])


def ends_of(held_out: HeldOut) -> Positions:
    """Return all nodes that have a held-out edge, ascending."""
    return np.unique(held_out.edges)


class _Answers(NamedTuple):
    """Pairs (P, 2), whether they are edges (P,), and their weights (P,)."""

    pairs: Positions
    truth: Truth
    weight: Numbers


class _About(NamedTuple):
    """Answers about nodes: pairs (P, 2), truth and weight (P,), the node (P,) and its end of the pair (P,), 0 or 1."""

    pairs: Positions
    truth: Truth
    weight: Numbers
    node: Positions
    end: Positions


def _weighed(whole: Graph, edges: Positions, even: Positions, by_degree: Positions) -> _Answers:
    """Return edges and non-edges of equal weight in all."""
    by_degree = by_degree[_no_edges(whole, by_degree)]
    share = BY_DEGREE if len(by_degree) else 0.0
    parts = [(edges, 1.0), (even, 1 - share), (by_degree, share)]
    weight = [np.full(len(part), len(edges) * each / max(len(part), 1)) for part, each in parts]
    truth = np.repeat([True, False], [len(edges), len(even) + len(by_degree)])
    return _Answers(np.concatenate([part for part, _ in parts]), truth, np.concatenate(weight))


def _exchanged(edges: Positions, classes: Positions, generator: np.random.Generator) -> Positions:
    """Return the sources of edges with the targets of others, each of the same type as before."""
    target = edges[:, 1]
    order = np.lexsort((np.arange(len(target)), classes[target]))
    drawn = np.lexsort((generator.random(len(target)), classes[target]))
    exchanged = np.empty_like(target)
    exchanged[order] = target[drawn]
    return np.column_stack([edges[:, 0], exchanged])


def _about_nodes(whole: Graph, edges: Positions, classes: Positions, generator: np.random.Generator) -> _About:
    """Return, for both ends of each edge, the edge and non-edges with random nodes, of equal weight in all."""
    parts = []
    for end in (0, 1):
        kept = np.repeat(edges, DRAWS, axis=0)
        kept[:, 1 - end] = of_same_class(classes, kept[:, 1 - end], generator)
        kept = kept[_no_edges(whole, kept)]
        pairs = np.concatenate([edges, kept])
        truth = np.repeat([True, False], [len(edges), len(kept)])
        weight = np.where(truth, 1.0, len(edges) / max(len(kept), 1))
        parts.append(_About(pairs, truth, weight, pairs[:, end], np.full(len(pairs), end)))
    return _About(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _no_edges(graph: Graph, pairs: Positions) -> Truth:
    """Return (P,) whether each pair has two ends and is no edge."""
    return np.asarray((pairs[:, 0] != pairs[:, 1]) & ~graph.has_edges(pairs))


def _fit_known(features: NodeFeatures, usual: Numbers, answers: _Answers, about: _About) -> ErrorModel:
    """Fit the weights to pairs, whose features are those of both ends added up, then the error of a node to its pairs.

    Fitted to the pairs of single nodes, weights would depend on the error of the other end as well.
    """
    start = _standard(usual, TYPICAL)
    nodes, where = np.unique(np.concatenate([answers.pairs, about.pairs]), return_inverse=True)
    values = start.standardized(features.of(nodes))[where.reshape(-1, 2)]
    logits = features.logits(np.concatenate([answers.pairs, about.pairs]))
    wrong = (logits > 0) != np.concatenate([answers.truth, about.truth])
    count = len(answers.pairs)
    weights, _ = _regression(values[:count].sum(axis=1), wrong[:count], answers.weight, TYPICAL, LEAST)
    own = values[count:][np.arange(len(about.end)), about.end] @ weights
    one = np.ones(1)
    slope, intercept = _regression(own[:, None], wrong[count:], about.weight, one, LEAST_SLOPE * one, ridge=1.0)
    return start._replace(weights=slope * weights, intercept=intercept)


def _without_edges(known: ErrorModel) -> ErrorModel:
    """Return the model of nodes without edges: losses that are not known count as the largest."""
    standard = known.standardized(np.zeros(len(known.weights)))
    standard[[OWN_LOSS, RANDOM_LOSS]] = LARGEST
    missing = [EDGES, OWN_LOSS, RANDOM_LOSS]
    intercept = known.intercept + standard[missing] @ known.weights[missing]
    return ErrorModel(known.center[NEW], known.scale[NEW], known.weights[NEW], np.asarray(intercept))


def _fit_new(
    new: ErrorModel, features: NodeFeatures, embedded: Embedding, about: _About, nodes: Positions
) -> ErrorModel:
    """Raise the errors of nodes without edges to those of pairs with one such node, if they are higher.

    `nodes` are those of `embedded`. Errors are not lowered: a node would become more certain by losing its edges.
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    where = np.searchsorted(nodes, about.node)
    wrong = _new_logits(features.embedding, embedded, about, where) > 0
    wrong ^= about.truth
    attributes = features.graph.by_type().nonzeros(nodes)
    values = np.column_stack([np.log1p(attributes), features.center.distance(embedded.gaussian)])
    logits = (new.standardized(values) @ new.weights + new.intercept)[where]

    def excess(offset: float) -> float:
        return float(about.weight @ (wrong - expit(logits + offset)))

    offset = brentq(excess, 0, LARGEST_OFFSET) if excess(0) > 0 > excess(LARGEST_OFFSET) else 0.0
    return new._replace(intercept=np.asarray(new.intercept + offset))


def _new_logits(known: Embedding, embedded: Embedding, about: _About, where: Positions) -> Numbers:
    """Return the log-odds of pairs of a node that is embedded as a new one with a known node."""
    logits = np.empty(len(where))
    for end in (0, 1):
        here = about.end == end
        new, other = where[here], about.pairs[here, 1 - end]
        if end == 0:
            distances = known.dissimilarities_at(np.column_stack([new, other]), embedded)
        else:
            distances = embedded.dissimilarities_at(np.column_stack([other, new]), known)
        logits[here] = known.platt_scaling.logits(distances)
    return logits


def _standard(features: Numbers, weights: Numbers) -> ErrorModel:
    """Return a model of typical weights and error, for nodes like those with features (n, F)."""
    scale = features.std(axis=0)
    intercept = np.array(np.log(TYPICAL_ERROR / (1 - TYPICAL_ERROR)))
    return ErrorModel(features.mean(axis=0), np.where(scale > 1e-6, scale, 1.0), weights, intercept)


def _regression(
    values: Numbers, wrong: Truth, weight: Numbers, typical: Numbers, least: Numbers, ridge: float = RIDGE
) -> tuple[Numbers, Numbers]:
    """Fit a logistic regression whose weights are drawn to typical ones, keep their signs, and are at least so large.

    Returns
    -------
    weights : ndarray of float, shape (F,)
    intercept : ndarray of float, shape ()
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    start = np.array([*typical, np.log(TYPICAL_ERROR / (1 - TYPICAL_ERROR))])
    penalty = np.array([*np.full(len(typical), ridge), 1.0])

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        logits, gap = values @ parameters[:-1] + parameters[-1], parameters - start
        value = weight @ (np.logaddexp(0, logits) - wrong * logits) + 0.5 * penalty @ gap**2
        slope = weight * (expit(logits) - wrong)
        return float(value), np.array([*(values.T @ slope), slope.sum()]) + penalty * gap

    bounds = [(size, None) if each > 0 else (None, -size) for each, size in zip(typical, least, strict=True)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)]).x
    return found[:-1], np.array(found[-1])
