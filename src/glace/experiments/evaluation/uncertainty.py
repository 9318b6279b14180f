"""Uncertainty: does the variance mark errors, and what does it correlate with?

The spread of a node is the mean logarithm of its variances; the spread of a pair is the mean over its two nodes. The
certainty of an embedding, if it has one, is measured in the same way. Results are plain numbers for a record: columns
of equal length by name, the first of them the x axis, or single numbers by name.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.metrics import LinkScores, link_scores

PARTS = 10
"""Number of equal parts that the pairs are divided into by their spread."""
STEPS = 20
"""Number of steps in which dimensions are dropped."""
RANDOM_ORDERS = 5
"""Number of random orders of dropping; the control is their mean."""
TOLERANCE = 0.005
"""Loss of AUC up to which dimensions count as dispensable: half a point."""

Columns = dict[str, list[float]]
Key = TypeVar("Key")


def uncertainty(
    embedding: Embedding, graph: Graph, held_out: HeldOut, generator: np.random.Generator
) -> dict[str, object]:
    """Return all measures of a Gaussian embedding of `graph`, the training graph, on held-out pairs."""
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
    """Return AUC and AP within each tenth of the pairs, from the smallest spread to the largest.

    If the variance marks errors, scores fall from the first tenth to the last. `edge_share` is the fraction of edges in
    a tenth, which AP depends on. A tenth without edges or without non-edges is left out.
    """
    order, scores_of_pairs, spread = _by_spread(embedding, held_out, generator)
    truth = held_out.truth()
    parts = {float(number): part for number, part in enumerate(np.array_split(order, PARTS), start=1)}
    found = _scores(parts, scores_of_pairs, truth)
    return _columns("tenth", found) | {
        "edge_share": [float(truth[parts[tenth]].mean()) for tenth in found],
        "spread": [float(spread[parts[tenth]].mean()) for tenth in found],
    }


def scores_without_most_uncertain(embedding: Embedding, held_out: HeldOut, generator: np.random.Generator) -> Columns:
    """Return AUC and AP of the remaining pairs when 0, 10, ... 90 % with the largest spread are left out.

    If the variance marks errors, scores rise; leaving out random pairs would change nothing.
    """
    order, scores_of_pairs, _ = _by_spread(embedding, held_out, generator)
    return _without_last(order, scores_of_pairs, held_out.truth())


def certainty_scores(embedding: Embedding, held_out: HeldOut, generator: np.random.Generator) -> dict[str, object]:
    """Return the same by certainty instead of spread, and 1 - AUC of the more and the less certain half of the pairs.

    The certainty of a pair is the mean of its two nodes; that of an answer is the distance of its probability from 1/2.
    """
    assert embedding.certainty is not None
    pairs, truth = held_out.pairs(), held_out.truth()
    dissimilarities = embedding.dissimilarities_at(pairs)
    doubts = {
        "nodes": -embedding.certainty[pairs].mean(axis=1),
        "answers": -abs(embedding.probabilities(dissimilarities) - 0.5),
    }
    orders = {name: _certain_first(doubt, generator) for name, doubt in doubts.items()}
    halves: dict[str, float] = {}
    for name, order in orders.items():
        parts = dict(zip(("certain", "uncertain"), np.array_split(order, 2), strict=True))
        halves |= {f"{kind}_{name}": 1 - each.auc for kind, each in _scores(parts, -dissimilarities, truth).items()}
    return {
        "without_least_certain": _without_last(orders["nodes"], -dissimilarities, truth),
        "without_least_certain_answers": _without_last(orders["answers"], -dissimilarities, truth),
        "error_of_halves": halves,
    }


def _without_last(
    order: npt.NDArray[np.int64], scores_of_pairs: npt.NDArray[np.float64], truth: npt.NDArray[np.bool_]
) -> Columns:
    """Return AUC and AP of the remaining pairs when the last 0, 10, ... 90 % of an order are left out."""
    parts = {number / PARTS: order[: round(len(order) * (1 - number / PARTS))] for number in range(PARTS)}
    return _columns("left_out", _scores(parts, scores_of_pairs, truth))


def spread_correlations(embedding: Embedding, graph: Graph) -> dict[str, float]:
    """Return Spearman's rank correlation (-1 to 1) of the nodes' spread with possible causes of uncertainty.

    These are `degree`, ignoring direction; `attributes`, the number of non-zero attributes; and, if the graph has
    labels, the diversity of the labelled neighbours of a node: `classes` is their number of classes and `class_entropy`
    the entropy of these. `_in_2_hops` is the same for all nodes within 2 hops except the node itself, each counted once
    per path. NaN if either side is constant.
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
    """Return the AUC after a fraction of the dimensions is dropped, those of the largest mean variance first.

    If the variance says which dimensions carry little, `widest_first` stays high longer than the controls
    `narrowest_first` and `at_random`.
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
    """Return the largest fraction up to which each curve of `dropped_dimensions` loses at most half a point."""
    dropped = curves["dropped"]
    near = {name: np.array(curve) >= curve[0] - TOLERANCE for name, curve in curves.items() if name != "dropped"}
    return {name: dropped[np.logical_and.accumulate(each).sum() - 1] for name, each in near.items()}


def rank_correlation(first: npt.NDArray[np.number], second: npt.NDArray[np.number]) -> float:
    """Return Spearman's correlation, ties at their mean rank; NaN for constants or fewer than 2 values."""
    from scipy.stats import spearmanr

    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(spearmanr(first, second).statistic)


def _by_spread(
    embedding: Embedding, held_out: HeldOut, generator: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the order (P,) of the pairs by spread, their scores, and their spread."""
    pairs = held_out.pairs()
    spread = embedding.mean_log_variance()[pairs].mean(axis=1)
    return _certain_first(spread, generator), -embedding.dissimilarities_at(pairs), spread


def _certain_first(doubt: npt.NDArray[np.floating], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the order (P,) of the pairs from the most certain to the least."""
    # Pairs come edges first: without the shuffle, the order of ties would reveal the edges.
    shuffled = generator.permutation(len(doubt))
    return np.asarray(shuffled[np.argsort(doubt[shuffled], kind="stable")])


def _scores(
    parts: Mapping[Key, npt.NDArray[np.int64]], scores_of_pairs: npt.NDArray[np.float64], truth: npt.NDArray[np.bool_]
) -> dict[Key, LinkScores]:
    """Return AUC and AP within each part of the pairs; a part without edges or without non-edges is left out."""
    both = {key: part for key, part in parts.items() if truth[part].any() and not truth[part].all()}
    return {key: link_scores(scores_of_pairs[part], truth[part]) for key, part in both.items()}


def _columns(x: str, found: Mapping[float, LinkScores]) -> Columns:
    return {x: list(found), "auc": [each.auc for each in found.values()], "ap": [each.ap for each in found.values()]}


def _links(graph: Graph) -> sp.csr_array:
    """Return (n, n) with 1 where an edge joins two nodes in either direction."""
    return sp.csr_array(graph.neighborhoods() != 0, dtype=np.float64)


def _class_counts(links: sp.csr_array, labels: Categories) -> dict[str, npt.NDArray[np.float64]]:
    """Return (n, classes) the number of paths of length 1, and of at most 2, from a node to others of each class."""
    own = np.zeros((links.shape[0], len(labels.names)))
    known = np.flatnonzero(labels.codes >= 0)
    own[known, labels.codes[known]] = 1
    one = links @ own
    back = links.sum(axis=1)[:, None] * own  # each neighbour has one path back to the node itself
    return {"": one, "_in_2_hops": one + links @ one - back}


def _entropy(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    from scipy.special import entr

    return np.asarray(entr(counts / counts.sum(axis=1, keepdims=True)).sum(axis=1))


def _contributions(embedding: Embedding, held_out: HeldOut) -> npt.NDArray[np.float64]:
    """Return (P, L) each dimension's part of the dissimilarity of each pair: all measures are sums over dimensions."""
    columns = []
    for dimension in range(embedding.mean.shape[1]):
        own = embedding.gaussian[:, [dimension]]
        context = None if embedding.context is None else embedding.context[:, [dimension]]
        one = replace(embedding, mean=own.mean, variance=own.variance, context=context)
        columns.append(one.dissimilarities_at(held_out.pairs()))
    return np.column_stack(columns)


def _auc_after(
    contributions: npt.NDArray[np.float64],
    truth: npt.NDArray[np.bool_],
    order: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> list[float]:
    """Return the AUC after the first `count` dimensions of an order are dropped, for each count."""
    left = contributions[:, order[::-1]].cumsum(axis=1)[:, ::-1]
    return [link_scores(-left[:, count], truth).auc for count in counts]
