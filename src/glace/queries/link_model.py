"""The link model: a small classifier of pairs of nodes on top of the Gaussians, which ranks missing edges.

The dissimilarity says who is alike. Whether an edge is missing depends on more: on how many edges both ends have, and
on the paths between them. The model is a logistic regression on the features of `PairFeatures`, with squares and
products and a ridge penalty. It is fitted to the validation edges, which neither the network nor the walks have seen,
against all candidates of some random nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glace.errors import FormatError, InputError
from glace.gaussian.search import Positions, Values
from glace.graph.graph import Graph
from glace.queries.pair_features import Features, PairFeatures
from glace.storage.container import Arrays

SAMPLED_NODES = 1000
"""Random nodes whose candidates are the non-edges of the fit."""
FEWEST_EDGES = 30
"""Validation edges among the candidates below which nothing is learned from them."""
RIDGE = 0.01
"""Inverse strength of the penalty, as scikit-learn's C. From 0.001 to 0.1 the ranking of four graphs hardly changes."""
LARGEST = 4.0
"""Standardized features are clipped here."""
RELATIVE_OFFSET = 0.1
"""A feature z >= 0 enters as log(z + offset); the offset is this share of the median of its positive values."""
POPULARITY = 0.5
"""Weight of the degrees where nothing can be learned."""
FOLDS = 2
BENDS = (0.1, 0.5, 0.8, 0.9)
"""Quantiles of the scores of held-out edges at which the calibration bends."""
HIGHEST = 0.98
LARGEST_PROBABILITY = 0.99

Truth = npt.NDArray[np.bool_]


class RankingScores(NamedTuple):
    """How high the right answer stands: mean reciprocal rank, and the share of right answers among the first ten."""

    mrr: float
    hits_at_10: float


@dataclass(frozen=True, eq=False)
class LinkModel:
    """Log-odds of a missing edge, from the features of a pair.

    Parameters
    ----------
    names : tuple of str
        The features.
    offsets, center, scale : ndarray of float, shape (F,)
        Transformation of each feature: log(z + offset) unless the offset is 0, then standardized and clipped.
    linear : ndarray of float, shape (F,)
        Weights of the transformed features.
    quadratic : ndarray of float, shape (F, F)
        Weights of their squares and products.
    knots : ndarray of float, shape (2, K)
        Calibration: scores, ascending, and the log-odds they stand for, interpolated linearly.
    reference_edges : int
        Number of missing edges for which the log-odds hold: that of the edges held out for the fit.
    validation : RankingScores or None
        Cross-validated ranking of the validation edges among the candidates; None if nothing was learned.
    gaussian_validation : RankingScores or None
        The same for the Gaussians alone.
    candidate_recall : float or None
        Share of the validation edges that are among the candidates.
    """

    names: tuple[str, ...]
    offsets: Values
    center: Values
    scale: Values
    linear: Values
    quadratic: Values
    knots: Values
    reference_edges: int
    validation: RankingScores | None = None
    gaussian_validation: RankingScores | None = None
    candidate_recall: float | None = None

    @property
    def learned(self) -> bool:
        """Whether the weights were fitted to validation edges."""
        return self.validation is not None

    def scores(self, features: Features) -> Values:
        """Return scores of features (..., F): the higher, the more probable is an edge."""
        values = transformed(features, self.offsets, self.center, self.scale)
        return np.asarray(values @ self.linear + np.einsum("...i,...i->...", values @ self.quadratic, values))

    def probabilities(self, scores: Values, missing_edges: float) -> Values:
        """Return the probability that a pair is an edge, if the graph lacks this many edges.

        In the fit, the edges that the graph lacks are among the non-edges. At a score where there are v held-out edges,
        m missing ones and n pairs that are no edges, the odds of the fit are v / (m + n), and the answer is
        m / (m + n): the odds times m / v, which is the ratio of missing to held-out edges everywhere.
        """
        odds = np.exp(np.interp(scores, *self.knots) + np.minimum(scores - self.knots[0, 0], 0))
        return np.asarray(np.minimum(odds * missing_edges / self.reference_edges, LARGEST_PROBABILITY))

    def to_arrays(self) -> Arrays:
        """Return the arrays for the model file."""
        return {name: getattr(self, name) for name in ARRAYS}

    def to_json(self) -> dict[str, object]:
        """Return everything else for the model file, as plain values."""
        return {
            "names": list(self.names),
            "reference_edges": self.reference_edges,
            "validation": self.validation and list(self.validation),
            "gaussian_validation": self.gaussian_validation and list(self.gaussian_validation),
            "candidate_recall": self.candidate_recall,
        }

    @classmethod
    def from_parts(cls, values: Mapping[str, Any], arrays: Arrays) -> "LinkModel":
        """Return the model of what `to_json` and `to_arrays` gave."""
        names = tuple(values["names"])
        shapes = [(len(names),)] * 4 + [(len(names),) * 2]
        parts = [arrays[name] for name in ARRAYS]
        fits = [part.shape for part in parts[:-1]] == shapes and parts[-1].ndim == 2 and len(parts[-1]) == 2
        if not fits or not all(np.isfinite(part).all() for part in parts) or not values["reference_edges"] > 0:
            raise FormatError("the weights of the link model do not fit its features")
        return cls(
            names,
            **dict(zip(ARRAYS, parts, strict=True)),
            reference_edges=int(values["reference_edges"]),
            validation=values["validation"] and RankingScores(*values["validation"]),
            gaussian_validation=values["gaussian_validation"] and RankingScores(*values["gaussian_validation"]),
            candidate_recall=values["candidate_recall"],
        )


ARRAYS = ("offsets", "center", "scale", "linear", "quadratic", "knots")


def missing_edges(known_edges: int, fraction: float) -> float:
    """Return the number of missing edges, if they are this fraction of all edges and the others are known."""
    if not 0 < fraction < 1:
        raise InputError(f"must be above 0 and below 1, not {fraction}", option="missing_edge_fraction")
    return known_edges * fraction / (1 - fraction)


def log_density(graph: Graph, edges: float) -> float:
    """Return the logarithm of the share that this many edges have of all pairs of nodes."""
    pairs = graph.num_nodes * (graph.num_nodes - 1) / (1 if graph.directed else 2)
    return float(np.log(edges / max(pairs, 1)))


def transformed(features: Features, offsets: Values, center: Values, scale: Values) -> Values:
    """Return standardized features: logarithms where there is an offset, clipped."""
    logarithms = np.log(np.maximum(features, 0) + np.where(offsets > 0, offsets, 1))
    return np.clip((np.where(offsets > 0, logarithms, features) - center) / scale, -LARGEST, LARGEST)


class Sample(NamedTuple):
    """Candidates to fit to: source (R,), features (R, F), whether it is a held-out edge (R,), weight (R,), fold (R,).

    Weights are 1 for held-out edges; those of non-edges add up to the number of all candidates of the graph, and are 0
    for candidates of nodes that were not sampled.
    """

    source: Positions
    features: Features
    truth: Truth
    weight: Values
    fold: Positions
    recall: float
    plain: int
    """Number of leading features that are used as they are: the logit and the degrees, which are logarithms already."""


def fit_link_model(pairs: PairFeatures, held_out: Positions, generator: np.random.Generator) -> LinkModel | None:
    """Fit the link model to held-out edges.

    Parameters
    ----------
    pairs
        Features on the graph without the held-out edges, with Gaussians that were computed without them.
    held_out
        Node numbers (P, 2) of the held-out edges.
    generator
        Draws the nodes whose candidates are the non-edges.

    Returns
    -------
    LinkModel or None
        None if the cross-validated ranking of the held-out edges is not better than that of the Gaussians alone.
        Without enough held-out edges among the candidates, a model of fixed weights.
    """
    sample = draw_sample(pairs, held_out, generator)
    if sample.truth.sum() < FEWEST_EDGES:
        return popularity_model(pairs)
    scores = _cross_validated(sample)
    validation = ranking_scores(scores, sample)
    gaussian = ranking_scores(sample.features[:, 0], sample)
    if validation.mrr <= gaussian.mrr:
        return None
    offsets, center, scale, linear, quadratic, intercept = _fit(sample, np.ones(len(sample.truth), np.bool_))
    knots = _calibration(scores, sample)
    # The scores of the model have no intercept, those that were calibrated have.
    knots[0] -= intercept
    return LinkModel(
        pairs.names,
        offsets,
        center,
        scale,
        linear,
        quadratic,
        knots,
        len(held_out),
        validation,
        gaussian,
        sample.recall,
    )


def popularity_model(pairs: PairFeatures) -> LinkModel:
    """Return the model of fixed weights: the logit, plus a share of the logarithms of both degrees.

    The logit holds for as many edges as non-edges; its log-odds are shifted to the density of the graph.
    """
    count = len(pairs.names)
    linear = np.zeros(count)
    linear[0], linear[1 : plain_columns(pairs.names)] = 1.0, POPULARITY
    center = np.zeros(count)
    center[1] = 2 * np.log1p(pairs.degrees).mean()
    knots = np.array([[-2.0 * LARGEST, 2.0 * LARGEST]] * 2)
    edges = max(pairs.graph.num_edges, 1)
    knots[1] += log_density(pairs.graph, edges)
    # Standardizing is for the learned weights; here only clipping must not bite.
    wide = np.full(count, 30.0 / LARGEST)
    return LinkModel(pairs.names, np.zeros(count), center, wide, linear * wide, np.zeros((count, count)), knots, edges)


def draw_sample(pairs: PairFeatures, held_out: Positions, generator: np.random.Generator) -> Sample:
    """Compute the features of all candidates of the ends of held-out edges and of `SAMPLED_NODES` random nodes."""
    nodes = len(pairs.embedding)
    random = generator.permutation(nodes)[:SAMPLED_NODES]
    edges = held_out if pairs.graph.directed else np.concatenate([held_out, held_out[:, ::-1]])
    sources = np.union1d(edges[:, 0], random)
    targets = pairs.candidates(sources)
    features = pairs.of_candidates(sources, targets)[targets >= 0]
    source, target = np.repeat(sources, (targets >= 0).sum(axis=1)), targets[targets >= 0]
    wanted = np.sort(edges[:, 0] * nodes + edges[:, 1])
    keys = source * nodes + target
    truth = np.isin(keys, wanted)
    weight = np.where(truth, 1.0, np.isin(source, random) * (nodes / len(random)))
    fold = generator.integers(FOLDS, size=nodes)[source]
    # Both directions of an edge are in the same fold, or a fold would be fitted to its own test edges.
    both = np.minimum(source, target)[truth] * nodes + np.maximum(source, target)[truth]
    fold[truth] = np.unique(both, return_inverse=True)[1] % FOLDS
    return Sample(
        source, features, truth, weight, fold, float(np.isin(wanted, keys).mean()), plain_columns(pairs.names)
    )


def _cross_validated(sample: Sample) -> Values:
    """Return the scores of all rows, each by a fit to the other folds."""
    scores = np.empty(len(sample.truth))
    for number in range(FOLDS):
        here = sample.fold == number
        offsets, center, scale, linear, quadratic, intercept = _fit(sample, ~here)
        values = transformed(sample.features[here], offsets, center, scale)
        scores[here] = values @ linear + ((values @ quadratic) * values).sum(axis=1) + intercept
    return scores


def _fit(sample: Sample, rows: Truth) -> tuple[Values, Values, Values, Values, Values, float]:
    """Fit to some rows of a sample; return offsets, center, scale, linear and quadratic weights, and the intercept."""
    from sklearn.linear_model import LogisticRegression

    used = rows & (sample.weight > 0)
    features, truth, weight = sample.features[used], sample.truth[used], sample.weight[used]
    offsets = _offsets(features, sample.plain)
    plain = np.where(offsets > 0, np.log(np.maximum(features, 0) + np.where(offsets > 0, offsets, 1)), features)
    center = np.average(plain, axis=0, weights=weight)
    scale = np.sqrt(np.average((plain - center) ** 2, axis=0, weights=weight))
    scale = np.where(scale > 0, scale, 1)
    values = transformed(features, offsets, center, scale)
    first, second = np.triu_indices(values.shape[1])
    terms = np.concatenate([values, values[:, first] * values[:, second]], axis=1)
    mean, deviation = terms.mean(axis=0), terms.std(axis=0)
    deviation[deviation == 0] = 1
    # With the same penalty a row, scores of a fit to a part spread as far as those of a fit to all rows.
    ridge = RIDGE * sample.weight.sum() / weight.sum()
    regression = LogisticRegression(C=ridge, max_iter=100, solver="newton-cholesky")
    weights = regression.fit((terms - mean) / deviation, truth, weight).coef_[0] / deviation
    intercept = float(regression.intercept_[0] - weights @ mean)
    quadratic = np.zeros((values.shape[1],) * 2)
    quadratic[first, second] = weights[values.shape[1] :]
    return offsets, center, scale, weights[: values.shape[1]], quadratic, intercept


def plain_columns(names: Sequence[str]) -> int:
    """Return the number of features before those of walks."""
    return names.index("adamic_adar")


def _offsets(features: Features, plain: int) -> Values:
    """Return the offset of each feature, 0 for the plain ones."""
    found = np.zeros(features.shape[1])
    for column in range(plain, len(found)):
        positive = features[:, column][features[:, column] > 0]
        found[column] = RELATIVE_OFFSET * np.median(positive) if len(positive) else 1.0
    return found


def ranking_scores(scores: Values, sample: Sample) -> RankingScores:
    """Return the ranking of held-out edges among the candidates of their source; ties count half."""
    order = np.lexsort((-scores, sample.source))
    start = np.searchsorted(sample.source[order], sample.source[order])
    place = np.asarray(np.arange(len(order)) - start + 1, np.float64)
    rank = np.empty(len(order))
    rank[order] = _with_ties(place, scores[order], sample.source[order])
    ranks = rank[sample.truth]
    # Edges that are no candidates count as not found.
    share = sample.recall
    return RankingScores(float(share * (1 / ranks).mean()), float(share * (ranks <= 10).mean()))


def _with_ties(place: Values, scores: Values, source: Positions) -> Values:
    """Return the mean place of equal scores of one source; all arrays are sorted by source and score."""
    new = np.concatenate([[True], (source[1:] != source[:-1]) | (scores[1:] != scores[:-1])])
    group = np.cumsum(new) - 1
    return np.asarray((np.bincount(group, place) / np.bincount(group))[group])


def _calibration(scores: Values, sample: Sample) -> Values:
    """Return knots (2, K): cross-validated scores, and the log-odds of a held-out edge there.

    The log-odds are piecewise linear in the score, with bends at quantiles of the scores of held-out edges. A straight
    line (Platt scaling) would be ruled by the many candidates at the bottom and be too sure of the few at the top.
    """
    from sklearn.isotonic import isotonic_regression
    from sklearn.linear_model import LogisticRegression

    used = sample.weight > 0
    values, truth, weight = scores[used], sample.truth[used], sample.weight[used]
    bends = np.unique(np.quantile(values[truth], BENDS))
    fit = LogisticRegression(C=np.inf, max_iter=200, solver="newton-cholesky")
    fit.fit(_hinges(values, bends), truth, weight)
    # Above nearly all held-out edges nothing was measured: there the log-odds stay as they are.
    knots = np.array([values.min(), *bends, np.quantile(values[truth], HIGHEST)])
    # Hardly any pair is at the lowest score: where the line falls from there, it must not lift all others.
    reliable = np.array([1e-3, *np.ones(len(bends) + 1)])
    return np.array([knots, isotonic_regression(fit.decision_function(_hinges(knots, bends)), sample_weight=reliable)])


def _hinges(values: Values, bends: Values) -> Values:
    """Return (n, 1 + B): the values, and how far each lies above each bend."""
    return np.column_stack([values, np.maximum(values[:, None] - bends, 0)])
