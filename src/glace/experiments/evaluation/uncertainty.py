"""Uncertainty: does the variance say where an embedding errs, and what does it go with?

A node's spread is the mean logarithm of its variances, `Embedding.spread`; a pair's is the mean of its two nodes'.
Certainty, where an embedding has it, is asked the same. Everything here is plain numbers for a record: columns of
equal length by name, the first of them what the others are drawn over, or single numbers by name.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import link_scores

PARTS = 10
"""Parts of equal size the pairs are cut into by their spread, and that are left out one after the other."""
STEPS = 20
"""Steps in which dimensions are dropped."""
RANDOM_ORDERS = 5
"""Random orders of dropping; the control is their mean."""
TOLERANCE = 0.005
"""AUC that may be lost for a dimension to count as dispensable: half a point."""

Columns = dict[str, list[float]]


def uncertainty(
    embedding: Embedding, graph: Graph, held_out: HeldOut, generator: np.random.Generator
) -> dict[str, Any]:
    """All measures of this file of a Gaussian embedding of `graph`, the training graph, judged on held-out pairs."""
    curves = dropped_dimensions(embedding, held_out, generator)
    certain = {} if embedding.certainty is None else certainty_scores(embedding, held_out, generator)
    return {
        "by_spread": scores_by_spread(embedding, held_out, generator),
        "without_most_uncertain": scores_without_most_uncertain(embedding, held_out, generator),
        **certain,
        "spread_correlation": spread_correlations(embedding, graph),
        "auc_without_dimensions": curves,
        "droppable_share": droppable_shares(curves),
    }


def scores_by_spread(embedding: Embedding, held_out: HeldOut, generator: np.random.Generator) -> Columns:
    """AUC and AP within each tenth of the pairs, from the narrowest to the widest, among its own pairs.

    If the variance marks errors, scores fall from the first tenth to the last. `edge_share` is the share of
    edges in a tenth, which AP depends on. A tenth without edges or without non-edges is left out.
    """
    order, nearness, spread = _by_spread(embedding, held_out, generator)
    truth = held_out.truth()
    columns: Columns = {name: [] for name in ("tenth", "auc", "ap", "edge_share", "spread")}
    for number, part in enumerate(np.array_split(order, PARTS), start=1):
        if _has_both(truth[part]):
            scores = link_scores(nearness[part], truth[part])
            row = (float(number), *scores, float(truth[part].mean()), float(spread[part].mean()))
            _add_row(columns, row)
    return columns


def scores_without_most_uncertain(embedding: Embedding, held_out: HeldOut, generator: np.random.Generator) -> Columns:
    """AUC and AP of the pairs that are left when the widest 0, 10, ... 90 % are left out.

    If the variance marks errors, scores rise; random left-out pairs would change nothing.
    """
    order, nearness, _ = _by_spread(embedding, held_out, generator)
    return _without_last(order, nearness, held_out.truth())


def certainty_scores(embedding: Embedding, held_out: HeldOut, generator: np.random.Generator) -> dict[str, Any]:
    """The same by certainty in place of the spread, and 1 - AUC of the more and the less certain half of the pairs.

    A pair is as certain as its two nodes are on average; an answer is as certain as its probability is far from 1/2.
    """
    assert embedding.certainty is not None
    pairs, truth = held_out.pairs(), held_out.truth()
    far = embedding.dissimilarities_at(pairs)
    doubts = {
        "nodes": -embedding.certainty[pairs].mean(axis=1),
        "answers": -abs(embedding.probabilities(far) - 0.5),
    }
    orders = {name: _narrow_first(doubt, generator) for name, doubt in doubts.items()}
    halves = {}
    for name, order in orders.items():
        for kind, half in zip(("certain", "uncertain"), np.array_split(order, 2), strict=True):
            if _has_both(truth[half]):
                halves[f"{kind}_{name}"] = 1 - link_scores(-far[half], truth[half]).auc
    return {
        "without_least_certain": _without_last(orders["nodes"], -far, truth),
        "without_least_certain_answers": _without_last(orders["answers"], -far, truth),
        "error_of_halves": halves,
    }


def _without_last(
    order: npt.NDArray[np.int64], nearness: npt.NDArray[np.float64], truth: npt.NDArray[np.bool_]
) -> Columns:
    """AUC and AP of the pairs that are left when the last 0, 10, ... 90 % of an order are left out."""
    columns: Columns = {name: [] for name in ("left_out", "auc", "ap")}
    for number in range(PARTS):
        left = order[: round(len(order) * (1 - number / PARTS))]
        if _has_both(truth[left]):
            _add_row(columns, (number / PARTS, *link_scores(nearness[left], truth[left])))
    return columns


def spread_correlations(embedding: Embedding, graph: Graph) -> dict[str, float]:
    """Spearman's rank correlation, -1 to 1, of the nodes' spread with what could make a node uncertain.

    `degree`, without regard to direction (ranks of a degree are those of its logarithm); `attributes`, the
    number of a node's attributes that are not 0; and, if the graph has labels, the diversity of the
    neighbours of each node that has labelled ones: `classes` counts their classes and `class_entropy` is
    the entropy of these, `_in_2_hops` the same of all that 1 or 2 steps lead to, but for the node itself.
    There a node counts once for each way that leads to it. NaN where either side does not vary.
    """
    spread = embedding.mean_log_variance()
    if len(spread) != graph.num_nodes:
        raise InputError(f"{len(spread):,} Gaussians for a graph of {graph.num_nodes:,} nodes; give one for each")
    links = _links(graph)
    found = {"degree": rank_correlation(spread, links.sum(axis=1))}
    if graph.has_attributes:
        found["attributes"] = rank_correlation(spread, graph.by_type().nonzeros(slice(None)))
    if graph.labels is not None:
        for suffix, counts in _class_counts(links, graph.labels).items():
            some = counts.sum(axis=1) > 0
            found[f"classes{suffix}"] = rank_correlation(spread[some], (counts[some] > 0).sum(axis=1))
            found[f"class_entropy{suffix}"] = rank_correlation(spread[some], _entropy(counts[some]))
    return found


def dropped_dimensions(embedding: Embedding, held_out: HeldOut, generator: np.random.Generator) -> Columns:
    """AUC of what is left after a share of the dimensions is dropped, the widest first.

    Dimensions are ranked by their variance, the mean over nodes. If the variance says which dimensions hold
    little, `widest_first` stays high longer than the controls, `narrowest_first` and `at_random`.
    """
    if embedding.variance is None:
        raise InputError("points have no variance to rank their dimensions by; give Gaussians")
    widest_first = np.argsort(-embedding.variance.astype(np.float64).mean(axis=0), kind="stable")
    width = len(widest_first)
    counts = np.unique(np.arange(min(STEPS, width)) * width // min(STEPS, width))
    contributions, truth = _contributions(embedding, held_out), held_out.truth()
    random_orders = [generator.permutation(width) for _ in range(RANDOM_ORDERS)]
    orders = (widest_first, widest_first[::-1], *random_orders)
    widest, narrowest, *at_random = (_auc_after(contributions, truth, order, counts) for order in orders)
    return {
        "dropped": (counts / width).tolist(),
        "widest_first": widest,
        "narrowest_first": narrowest,
        "at_random": np.mean(at_random, axis=0).tolist(),
    }


def droppable_shares(curves: Columns) -> dict[str, float]:
    """For each curve of `dropped_dimensions` the largest share up to which AUC stays within half a point."""
    shares = curves["dropped"]
    return {
        name: max(share for share, kept in zip(shares, _kept_so_far(curve), strict=True) if kept)
        for name, curve in curves.items()
        if name != "dropped"
    }


def rank_correlation(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> float:
    """Spearman's, with ties at their mean rank; NaN if either does not vary or there are fewer than 2."""
    from scipy.stats import spearmanr

    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(spearmanr(first, second).statistic)


def _by_spread(
    embedding: Embedding, held_out: HeldOut, generator: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """An order (P,) of the pairs from narrow to wide; how near each is; and its spread."""
    pairs = held_out.pairs()
    spread = embedding.mean_log_variance()[pairs].mean(axis=1)
    return _narrow_first(spread, generator), -embedding.dissimilarities_at(pairs), spread


def _narrow_first(doubt: npt.NDArray[np.floating], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """An order (P,) of the pairs from the least doubtful to the most."""
    # Pairs come edges first; equals must not stay so, or the order of equals would tell edges from non-edges.
    shuffled = generator.permutation(len(doubt))
    return np.asarray(shuffled[np.argsort(doubt[shuffled], kind="stable")])


def _has_both(truth: npt.NDArray[np.bool_]) -> bool:
    return bool(truth.any() and not truth.all())


def _add_row(columns: Columns, row: tuple[float, ...]) -> None:
    for column, value in zip(columns.values(), row, strict=True):
        column.append(value)


def _links(graph: Graph) -> sp.csr_array:
    """(n, n) 1 where two nodes are joined in either direction."""
    either = sp.csr_array(graph.adjacency + graph.adjacency.T)
    either.data = np.ones(either.nnz)
    return either


def _class_counts(links: sp.csr_array, labels: Categories) -> dict[str, npt.NDArray[np.float64]]:
    """(n, classes) how many ways of 1 step, and of 1 or 2 steps, lead from a node to others of each class."""
    own = np.zeros((links.shape[0], len(labels.names)))
    known = np.flatnonzero(labels.codes >= 0)
    own[known, labels.codes[known]] = 1
    one = links @ own
    back = links.sum(axis=1)[:, None] * own  # from each neighbour one way leads back to the node itself
    return {"": one, "_in_2_hops": one + links @ one - back}


def _entropy(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    from scipy.special import entr

    return np.asarray(entr(counts / counts.sum(axis=1, keepdims=True)).sum(axis=1))


def _contributions(embedding: Embedding, held_out: HeldOut) -> npt.NDArray[np.float64]:
    """(P, L) what each dimension adds to the dissimilarity of each pair: all measures are sums over dimensions."""
    each = [_only(embedding, np.array([dimension])) for dimension in range(embedding.mean.shape[1])]
    return np.column_stack([one.dissimilarities_at(held_out.pairs()) for one in each])


def _auc_after(
    contributions: npt.NDArray[np.float64],
    truth: npt.NDArray[np.bool_],
    order: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> list[float]:
    """AUC after the first so many dimensions of the order are dropped, for each count."""
    left = contributions[:, order[::-1]].cumsum(axis=1)[:, ::-1]
    return [link_scores(-left[:, count], truth).auc for count in counts]


def _only(embedding: Embedding, dimensions: npt.NDArray[np.int64]) -> Embedding:
    own = _columns(embedding.gaussian, dimensions)
    context = None if embedding.context is None else _columns(embedding.context, dimensions)
    return replace(embedding, mean=own.mean, variance=own.variance, context=context)


def _columns(gaussian: Gaussian, dimensions: npt.NDArray[np.int64]) -> Gaussian:
    assert gaussian.variance is not None
    return Gaussian(gaussian.mean[:, dimensions], gaussian.variance[:, dimensions])


def _kept_so_far(curve: list[float]) -> npt.NDArray[np.bool_]:
    return np.logical_and.accumulate(np.array(curve) >= curve[0] - TOLERANCE)
