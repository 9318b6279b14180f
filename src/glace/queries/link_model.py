"""The link model: a small classifier of pairs of nodes on top of the Gaussians, which ranks missing edges.

The dissimilarity says who is alike. Whether an edge is missing depends on more: on how many edges both ends have, and
on the paths between them. The model is a logistic regression on the features of `PairFeatures`, with squares and
products and a ridge penalty. It is fitted to the validation edges, which neither the network nor the walks have seen,
against all candidates of some random nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glace.errors import FormatError, InputError
from glace.gaussian.search import Positions, Values
from glace.graph.graph import Graph
from glace.queries.coverage import PERCENT, ranks_beyond, set_sizes
from glace.queries.pair_features import ALTERNATING, DEGREES, LARGEST_LOGIT, SIDES, WALKS, Features, PairFeatures
from glace.storage.container import Arrays

SAMPLED_NODES = 1000
"""Random nodes, about, whose candidates are the non-edges of the fit."""
FEWEST_EDGES = 30
"""Validation edges among the candidates below which nothing is learned from them."""
RIDGE = 0.01
"""Inverse strength of the penalty, as scikit-learn's C. With 0.1, MRR of two splits of Cora-ML and two of Citeseer
stays within 0.003; with 0.001 it is lower by 0.006 to 0.011."""
FEW_BELOW = 0.1
"""Share of the held-out edges whose logit is below the one at which the curve of the logit ends in a straight line.
There is little to learn from there, and a square may rise again: pairs of strangers would stand above neighbours."""
LARGEST = 6.0
"""Standardized features are clipped here. With 4, pairs of hubs are all alike: precision@100 on Debian is 0.40 instead
of 0.78, and the same elsewhere; with 8 nothing changes."""
RELATIVE_OFFSET = 0.1
"""A feature z >= 0 enters as log(z + offset); the offset is this share of the median of its positive values."""
POPULARITY = 0.5
"""Weight of the degrees where nothing can be learned."""
FOLDS = 2
BENDS = (0.1, 0.5, 0.8, 0.9)
"""Quantiles of the scores of held-out edges at which the calibration bends."""
HIGHEST = 0.98
LARGEST_PROBABILITY = 0.99
RANKS = 100
"""Ranks that the calibration of lists is computed at."""
LARGEST_SHIFT = 0.25
"""Limit of the shift of log-odds from the graph without the held-out edges to the whole one. On sparse graphs it is 0
to 0.2. Where most of the best candidates are edges, higher scores are no more probable, and a shift that makes up for
them lowers all others: on wordnet-kinds by 0.5, to 0.79 of what is found."""


Truth = npt.NDArray[np.bool_]


class RankingScores(NamedTuple):
    """How high the right answer stands: mean reciprocal rank, and the share of right answers among the first ten."""

    mrr: float
    hits_at_10: float


class Regression(NamedTuple):
    """Scores of F features, the logit first: a quadratic function of their standardized values.

    Attributes
    ----------
    offsets, center, scale : ndarray of float, shape (F,)
        Transformation of each feature: log(z + offset) unless the offset is 0, then standardized and clipped.
    linear : ndarray of float, shape (F,)
        Weights of the transformed features.
    quadratic : ndarray of float, shape (F, F)
        Weights of their squares and products.
    intercept : ndarray of float, shape ()
        Score of average features.
    lowest : ndarray of float, shape ()
        Logit below which the score falls as the logit does.
    """

    offsets: Values
    center: Values
    scale: Values
    linear: Values
    quadratic: Values
    intercept: Values
    lowest: Values

    @classmethod
    def standard(cls, count: int) -> "Regression":
        """Return a regression that leaves features as they are and scores all pairs 0."""
        zero = np.zeros(count)
        parts = zero, zero, np.ones(count), zero, np.zeros((count, count))
        return cls(*parts, intercept=np.array(0.0), lowest=np.array(-LARGEST_LOGIT))

    def logarithms(self, features: Features) -> Values:
        """Return the features, as logarithms where there is an offset."""
        offsets = np.where(self.offsets > 0, self.offsets, 1)
        return np.where(self.offsets > 0, np.log(np.maximum(features, 0) + offsets), features)

    def transformed(self, features: Features) -> Values:
        """Return the standardized features, clipped; the logit is never below the lowest."""
        values = np.clip((self.logarithms(features) - self.center) / self.scale, -LARGEST, LARGEST)
        values[..., 0] = np.maximum(values[..., 0], (self.lowest - self.center[0]) / self.scale[0])
        return values

    def scores(self, features: Features) -> Values:
        """Return scores of features (..., F): the higher, the more probable is an edge."""
        values = self.transformed(features)
        products = np.einsum("...i,...i->...", values @ self.quadratic, values)
        below = np.minimum(features[..., 0] - self.lowest, 0)
        return np.asarray(values @ self.linear + products + self.intercept + below)


@dataclass(frozen=True, eq=False)
class LinkModel:
    """Ranks candidates for missing edges, and says how probable each is.

    Parameters
    ----------
    names : tuple of str
        The features.
    regression : Regression
        Scores of the features.
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
    rank_knots : ndarray of float, shape (2, R), or None
        Calibration of a list of the best candidates of all nodes: logarithms of ranks, and the log-odds there.
    set_sizes : ndarray of int, shape (100,), or None
        How many of the best answers to a node hold the other end of a missing edge with a probability of 1, 2, ...,
        100 %; -1 where that cannot be known.
    """

    names: tuple[str, ...]
    regression: Regression
    knots: Values
    reference_edges: int
    validation: RankingScores | None = None
    gaussian_validation: RankingScores | None = None
    candidate_recall: float | None = None
    rank_knots: Values | None = None
    set_sizes: Positions | None = None

    def scores(self, features: Features) -> Values:
        """Return scores of features (..., F): the higher, the more probable is an edge."""
        return self.regression.scores(features)

    def probabilities(self, scores: Values, missing_edges: float) -> Values:
        """Return the probability that a pair is an edge, if the graph lacks this many edges.

        In the fit, the edges that the graph lacks are among the non-edges. At a score where there are v held-out edges,
        m missing ones and n pairs that are no edges, the odds of the fit are v / (m + n), and the answer is
        m / (m + n): the odds times m / v, which is the ratio of missing to held-out edges everywhere.
        """
        return self._probabilities(self.log_odds(scores), missing_edges)

    def log_odds(self, scores: Values) -> Values:
        """Return the log-odds of a held-out edge at these scores."""
        return np.asarray(np.interp(scores, *self.knots) + np.minimum(scores - self.knots[0, 0], 0))

    def probabilities_in_list(self, scores: Values, missing_edges: float) -> Values:
        """Return the probabilities of the best candidates of all nodes, best first.

        They follow from the ranks: how many edges were found among as many of the best candidates in the fit. Scores
        mean less here. A pair is in the list if it is a candidate of one of its ends, and the higher of two scores
        counts, so the scores of a list are higher than those of the candidates that they were calibrated with.
        """
        if self.rank_knots is None:
            return self.probabilities(scores, missing_edges)
        ranks = np.arange(1, len(scores) + 1)
        return self._probabilities(np.interp(np.log(ranks), *self.rank_knots), missing_edges)

    def _probabilities(self, log_odds: Values, missing_edges: float) -> Values:
        return np.asarray(np.minimum(np.exp(log_odds) * missing_edges / self.reference_edges, LARGEST_PROBABILITY))

    def to_arrays(self) -> Arrays:
        """Return the arrays for the model file."""
        optional = {"rank_knots": self.rank_knots, "set_sizes": self.set_sizes}
        there = {name: array for name, array in optional.items() if array is not None}
        return {**self.regression._asdict(), "knots": self.knots, **there}

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
        names, knots, sizes = tuple(values["names"]), arrays["knots"], arrays.get("set_sizes")
        by_rank = arrays.get("rank_knots")
        regression = Regression(*(arrays[name] for name in Regression._fields))
        expected = [part.shape for part in Regression.standard(len(names))]
        tables = [knots] if by_rank is None else [knots, by_rank]
        fits = [part.shape for part in regression] == expected and all(len(each) == each.ndim == 2 for each in tables)
        finite = all(np.isfinite(part).all() for part in (*regression, *tables))
        fits = fits and (sizes is None or (sizes.shape == (PERCENT,) and sizes.dtype == np.int64))
        if not (fits and finite and values["reference_edges"] > 0):
            raise FormatError("the weights of the link model do not fit its features")
        scores = {name: values[name] for name in ("validation", "gaussian_validation")}
        return cls(
            names,
            regression,
            knots,
            int(values["reference_edges"]),
            **{name: each and RankingScores(*each) for name, each in scores.items()},
            candidate_recall=values["candidate_recall"],
            rank_knots=by_rank,
            set_sizes=sizes,
        )


def missing_edges(known_edges: int, fraction: float) -> float:
    """Return the number of missing edges, if they are this fraction of all edges and the others are known."""
    if not 0 < fraction < 1:
        raise InputError(f"must be above 0 and below 1, not {fraction}", option="missing_edge_fraction")
    return known_edges * fraction / (1 - fraction)


def log_density(graph: Graph, edges: float) -> float:
    """Return the logarithm of the share that this many edges have of all pairs of nodes."""
    pairs = graph.num_nodes * (graph.num_nodes - 1) / (1 if graph.directed else 2)
    return float(np.log(edges / max(pairs, 1)))


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
    amounts: Truth
    """(F,) which features enter as logarithms."""
    missed: Values
    """(M,) ranks of the held-out edges that are no candidates, after all candidates."""


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
    return fit_to_sample(pairs, draw_sample(pairs, held_out, generator), len(held_out))


def fit_to_sample(pairs: PairFeatures, sample: Sample, held_out: int) -> LinkModel | None:
    """Fit the link model to a sample of candidates for this many held-out edges; see `fit_link_model`."""
    if sample.truth.sum() < FEWEST_EDGES:
        return popularity_model(pairs)
    scores = _cross_validated(sample)
    validation, gaussian = ranking_scores(scores, sample), ranking_scores(sample.features[:, 0], sample)
    if validation.mrr <= gaussian.mrr:
        return None
    regression, knots = _fit(sample, np.ones(len(sample.truth), np.bool_)), _calibration(scores, sample)
    model = LinkModel(pairs.names, regression, knots, held_out, validation, gaussian, sample.recall)
    sizes = set_sizes(np.concatenate([held_out_ranks(scores, sample), sample.missed]))
    by_rank = _calibration_by_rank(model, scores, sample, 1.0 if pairs.graph.directed else 0.5)
    return replace(model, rank_knots=by_rank, set_sizes=sizes)


def matched_to(model: LinkModel, pairs: PairFeatures, generator: np.random.Generator) -> LinkModel:
    """Return the model with log-odds for a graph that has its held-out edges back.

    More edges make more and shorter walks, so all scores rise. The held-out edges that are candidates are known in
    number: the probabilities of all candidates must add up to it, as far as a shift of `LARGEST_SHIFT` allows.
    """
    if model.candidate_recall is None:
        return model
    weights = sample_nodes(pairs.degrees, generator)
    sources = np.flatnonzero(weights)
    targets, features = pairs.candidates(sources)
    probabilities = model.probabilities(model.scores(features), model.reference_edges)
    said = float(weights[sources] @ np.where(targets >= 0, probabilities, 0).sum(axis=1))
    expected = model.candidate_recall * model.reference_edges * (1 if pairs.graph.directed else 2)
    shift = np.clip(np.log(expected / said), -LARGEST_SHIFT, LARGEST_SHIFT) if said > 0 else 0.0
    return replace(model, knots=model.knots + np.array([[0.0], [shift]]))


def popularity_model(pairs: PairFeatures) -> LinkModel:
    """Return the model of fixed weights: the logit, plus a share of the logarithms of both degrees.

    The logit holds for as many edges as non-edges; its log-odds are shifted to the density of the graph.
    """
    count = len(pairs.names)
    linear, center = POPULARITY * np.isin(pairs.names, [DEGREES, *SIDES]), np.zeros(count)
    linear[0], center[1] = 1.0, 2 * np.log1p(pairs.degrees).mean()
    # Standardizing is for learned weights; here only clipping must not bite.
    wide = np.full(count, 30.0 / LARGEST)
    regression = Regression.standard(count)._replace(center=center, scale=wide, linear=linear * wide)
    edges = max(pairs.graph.num_edges, 1)
    knots = np.array([[-2.0 * LARGEST, 2.0 * LARGEST]] * 2)
    knots[1] += log_density(pairs.graph, edges)
    return LinkModel(pairs.names, regression, knots, edges)


def sample_nodes(degrees: npt.NDArray[np.integer], generator: np.random.Generator) -> Values:
    """Draw about `SAMPLED_NODES` of n nodes, half of them by degree; return (n,) how many nodes each stands for.

    Nodes that are not drawn have 0. The most probable pairs belong to nodes with many edges. Drawn evenly, there are
    hardly any of them, and nothing beside their held-out edges says how often such a pair is no edge.
    """
    share = 0.5 / len(degrees) + 0.5 * degrees / max(int(degrees.sum()), 1)
    chance = np.minimum(SAMPLED_NODES * share, 1.0) if len(degrees) > SAMPLED_NODES else np.ones(len(degrees))
    return np.asarray((generator.random(len(degrees)) < chance) / chance)


def draw_sample(pairs: PairFeatures, held_out: Positions, generator: np.random.Generator) -> Sample:
    """Compute the features of all candidates of the ends of held-out edges and of random nodes."""
    nodes, weights = len(pairs.embedding), sample_nodes(pairs.degrees, generator)
    edges = held_out if pairs.graph.directed else np.concatenate([held_out, held_out[:, ::-1]])
    sources = np.union1d(edges[:, 0], np.flatnonzero(weights))
    targets, every = pairs.candidates(sources)
    features = every[targets >= 0]
    source, target = np.repeat(sources, (targets >= 0).sum(axis=1)), targets[targets >= 0]
    wanted = np.sort(edges[:, 0] * nodes + edges[:, 1])
    keys = source * nodes + target
    truth = np.isin(keys, wanted)
    weight = np.where(truth, 1.0, weights[source])
    fold = generator.integers(FOLDS, size=nodes)[source]
    # Both directions of an edge are in the same fold, or a fold would be fitted to its own test edges.
    both = np.minimum(source, target)[truth] * nodes + np.maximum(source, target)[truth]
    fold[truth] = np.unique(both, return_inverse=True)[1] % FOLDS
    recall, amounts = float(np.isin(wanted, keys).mean()), np.isin(pairs.names, [*WALKS, ALTERNATING])
    return Sample(source, features, truth, weight, fold, recall, amounts, _missed(pairs, edges, sources, targets))


def _missed(pairs: PairFeatures, edges: Positions, sources: Positions, targets: Positions) -> Values:
    """Return the ranks of those edges that are not among the candidates `targets` (S, C) of their sources (S,)."""
    rows = targets[np.searchsorted(sources, edges[:, 0])]
    missed = np.flatnonzero((rows != edges[:, 1:]).all(axis=1))
    candidates = [each[each >= 0] for each in rows[missed]]
    return ranks_beyond(pairs.embedding, pairs.graph, pairs.types, edges[missed], candidates)


def _cross_validated(sample: Sample) -> Values:
    """Return the scores of all rows, each by a fit to the other folds."""
    scores = np.empty(len(sample.truth))
    for number in range(FOLDS):
        here = sample.fold == number
        scores[here] = _fit(sample, ~here).scores(sample.features[here])
    return scores


def _fit(sample: Sample, rows: Truth) -> Regression:
    """Fit a logistic regression with squares, products and a ridge penalty to some rows of a sample."""
    from sklearn.linear_model import LogisticRegression

    used = rows & (sample.weight > 0)
    features, truth, weight = sample.features[used], sample.truth[used], sample.weight[used]
    scaling = _fit_scaling(features, weight, sample.amounts)
    scaling = scaling._replace(lowest=np.quantile(features[truth, 0], FEW_BELOW))
    values = scaling.transformed(features)
    first, second = np.triu_indices(values.shape[1])
    terms = np.concatenate([values, values[:, first] * values[:, second]], axis=1)
    mean, deviation = terms.mean(axis=0), terms.std(axis=0)
    deviation[deviation == 0] = 1
    # With the same penalty a row, scores of a fit to a part spread as far as those of a fit to all rows.
    ridge = RIDGE * sample.weight.sum() / weight.sum()
    regression = LogisticRegression(C=ridge, max_iter=100, solver="newton-cholesky")
    weights = regression.fit((terms - mean) / deviation, truth, weight).coef_[0] / deviation
    quadratic = np.zeros((values.shape[1],) * 2)
    quadratic[first, second] = weights[values.shape[1] :]
    intercept = np.array(regression.intercept_[0] - weights @ mean)
    return scaling._replace(linear=weights[: values.shape[1]], quadratic=quadratic, intercept=intercept)


def _fit_scaling(features: Features, weight: Values, amounts: Truth) -> Regression:
    """Return a regression without weights yet, which standardizes features like these."""
    scaling = Regression.standard(features.shape[1])._replace(offsets=_offsets(features, amounts))
    values = scaling.logarithms(features)
    center = np.average(values, axis=0, weights=weight)
    scale = np.sqrt(np.average((values - center) ** 2, axis=0, weights=weight))
    return scaling._replace(center=center, scale=np.where(scale > 0, scale, 1))


def _offsets(features: Features, amounts: Truth) -> Values:
    """Return the offset of each feature, 0 for those that are used as they are."""
    found = np.zeros(features.shape[1])
    for column in np.flatnonzero(amounts).tolist():
        positive = features[:, column][features[:, column] > 0]
        found[column] = RELATIVE_OFFSET * np.median(positive) if len(positive) else 1.0
    return found


def held_out_ranks(scores: Values, sample: Sample) -> Values:
    """Return the rank of each held-out edge that is a candidate among those of its source; ties count half."""
    order = np.lexsort((-scores, sample.source))
    start = np.searchsorted(sample.source[order], sample.source[order])
    place = np.asarray(np.arange(len(order)) - start + 1, np.float64)
    rank = np.empty(len(order))
    rank[order] = _with_ties(place, scores[order], sample.source[order])
    return rank[sample.truth]


def ranking_scores(scores: Values, sample: Sample) -> RankingScores:
    """Return how high held-out edges stand among the candidates of their source."""
    ranks = held_out_ranks(scores, sample)
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


def _calibration_by_rank(model: LinkModel, scores: Values, sample: Sample, share: float) -> Values:
    """Return (2, R): logarithms of ranks among all candidates, and the log-odds of the scores there.

    `share` is what a candidate counts: one half if both of its ends can have it.
    """
    order = np.argsort(-scores, kind="stable")
    # The held-out edges do not count: they are known edges of the whole graph, and not in its lists.
    order = order[(sample.weight[order] > 0) & ~sample.truth[order]]
    counts = np.cumsum(share * sample.weight[order])
    ranks = np.geomspace(1, max(counts[-1], 2), RANKS)
    there = scores[order[np.minimum(np.searchsorted(counts, ranks), len(order) - 1)]]
    return np.array([np.log(ranks), model.log_odds(there)])


def _hinges(values: Values, bends: Values) -> Values:
    """Return (n, 1 + B): the values, and how far each lies above each bend."""
    return np.column_stack([values, np.maximum(values[:, None] - bends, 0)])
