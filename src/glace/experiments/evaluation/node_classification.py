"""Node classification: what a plain classifier on top of the embedding learns from a few labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.experiments.evaluation.labels import labelled
from glace.gaussian.embedding import Embedding
from glace.rng import Streams

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

# Root mean square length of a row of features. Any fixed length makes one grid of C fit all methods; at this one the
# solver needs few steps: on the words of DBLP a third to a half of those it needs at length 1.
LENGTH = 8.0
STRENGTHS = tuple(strength / LENGTH**2 for strength in (1, 5, 25, 125, 625))
"""Values of C to choose from; embeddings are best near the low end, raw attributes near the high end."""
FOLDS = 3
MOST_TO_CHOOSE_BY = 2000
"""Labels the choice of C looks at; it stands for a prior, which does not depend on how many there are."""

Features = Any
"""(n, width) numbers, dense or CSR."""
Codes = npt.NDArray[np.int32]


SPARSE_BELOW = 0.2
"""Share of numbers that are not 0 below which sparse features are faster than dense ones."""


@dataclass(frozen=True)
class ClassScores:
    """F1 scores, 0 to 1, by share of the labels that were given and by trial: (shares, trials)."""

    shares: tuple[float, ...]
    micro_f1: npt.NDArray[np.float64]
    macro_f1: npt.NDArray[np.float64]

    def values(self) -> dict[str, dict[str, Any]]:
        """Means and trials by share, under the names records have."""
        found: dict[str, dict[str, Any]] = {}
        for name, scores in (("micro_f1", self.micro_f1), ("macro_f1", self.macro_f1)):
            rows = list(zip(map(str, self.shares), scores.tolist(), strict=True))
            found[name] = {share: float(np.mean(row)) for share, row in rows}
            found[f"{name}_trials"] = dict(rows)
        return found


def node_classification(
    features: Embedding | Features,
    labels: Categories | None,
    streams: Streams,
    shares: Sequence[float] = SHARES,
    trials: int = 10,
) -> ClassScores:
    """Logistic regression trained on a share of the labelled nodes, judged on the other labelled ones.

    `features` are an embedding (see `features_of`) or rows of numbers, one for each of the n labels; nodes
    without a label have no part. A trial puts the labelled nodes into a random order in which every
    beginning has the classes in their proportion, and starts with one node of each; the first `share`
    of it is for training. The order depends on the labels and the seed only, so all methods are judged
    on the same splits and trials can be compared in pairs. C is chosen among `STRENGTHS` by the accuracy
    in 3-fold cross-validation within the (first 2,000) training labels.
    """
    from threadpoolctl import threadpool_limits

    matrix = features_of(features) if isinstance(features, Embedding) else features
    nodes, codes = labelled(labels, matrix.shape[0])
    ascending = _checked_shares(shares, codes)
    if trials < 1:
        raise InputError(f"trials must be at least 1, not {trials}")
    rows = scaled(matrix[nodes])
    # The solver's products are so small that threads mostly wait for each other: with two on a busy machine of two
    # cores, 3,000 rows of 128 numbers took ten times as long as with one.
    with threadpool_limits(1):
        runs = [_trial(rows, codes, streams.numpy("labels", trial), ascending) for trial in range(trials)]
    micro, macro = np.array(runs).transpose(2, 1, 0)
    return ClassScores(ascending, micro, macro)


def paired_t_test(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """p, two-sided, of trials of two methods on the same splits, (trials,) each; 1 if all are equal."""
    from scipy.stats import ttest_rel

    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.ndim != 1 or one.shape != other.shape or len(one) < 2:
        raise InputError(
            f"a paired test needs two rows of as many trials, 2 at least, not {one.shape} and {other.shape}"
        )
    difference = one - other
    if np.ptp(difference) == 0:  # no variance to divide by
        return float(difference[0] == 0)
    return float(ttest_rel(one, other).pvalue)


def features_of(embedding: Embedding) -> Features:
    """(n, L) means of points, (n, 2L) means and log-variances of Gaussians, each half of equal weight.

    Points that are mostly zeros, such as raw attributes, are made sparse: most of the work is for nothing else.

    The paper gives Gaussians half the dimensions of points for a fair comparison, so that a node has as
    many numbers. The second half adds 0.3 to 1.3 points of micro-F1 on Cora-ML, 0.2 to 0.5 on Citeseer and
    -0.1 to 0.3 on DBLP, for shares from 0.1 to 0.9.
    """
    if embedding.variance is None:
        is_sparse = np.count_nonzero(embedding.mean) < SPARSE_BELOW * embedding.mean.size
        return sp.csr_array(embedding.mean) if is_sparse else embedding.mean
    return np.hstack([scaled(embedding.mean), scaled(np.log(embedding.variance))])


def scaled(features: Features) -> Features:
    """Rows of root mean square length `LENGTH`, float32; angles are kept.

    Dense features are centred and have one scale in all columns: one for each would blow up columns that
    hardly say anything. Sparse ones cannot be centred; each of their rows gets the length.
    """
    if sp.issparse(features):
        from sklearn.preprocessing import normalize

        return sp.csr_array(LENGTH * normalize(features.astype(np.float32)))
    centred = np.asarray(features, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=1).mean())
    return (centred * (LENGTH / length if length > 0 else 0)).astype(np.float32)


def _checked_shares(shares: Sequence[float], codes: Codes) -> tuple[float, ...]:
    """The shares, ascending; each must leave a node of every class to train on and some node to judge."""
    least, most = len(np.unique(codes)), len(codes) - 1
    for share in shares:
        count = round(share * len(codes)) if 0 < share < 1 else 0
        if not least <= count <= most:
            raise InputError(
                f"a share of {share} of {len(codes):,} labels gives {count:,} to train on; wanted between {least:,}, "
                f"one for each class, and {most:,}; choose another share"
            )
    return tuple(sorted(shares))


def _trial(
    rows: Features, codes: Codes, generator: np.random.Generator, shares: Sequence[float]
) -> list[tuple[float, float]]:
    """Micro and macro F1 for each share, ascending; each fit starts where the one before ended."""
    order = stratified_order(codes, generator)
    rows, codes = rows[order], codes[order]
    chosen: dict[int, float] = {}
    model, scores = _classifier(), []
    for share in shares:
        count = round(share * len(codes))
        looked_at = min(count, MOST_TO_CHOOSE_BY)
        if looked_at not in chosen:
            chosen[looked_at] = choose_strength(rows[:looked_at], codes[:looked_at])
        model.set_params(C=chosen[looked_at]).fit(rows[:count], codes[:count])
        scores.append(_f1(codes[count:], model.predict(rows[count:])))
    return scores


def stratified_order(codes: Codes, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """(m,) a random order: first one node of each class, then such that classes keep their proportion."""
    shuffled = generator.permutation(len(codes))
    place = np.empty(len(codes))
    for code in np.unique(codes):
        members = np.flatnonzero(codes[shuffled] == code)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
        place[members[0]] = 0
    return np.asarray(shuffled[np.argsort(place, kind="stable")])


def choose_strength(rows: Features, codes: Codes) -> float:
    """The C of best mean accuracy over the folds, the smallest of equals; every third row is one fold."""
    fold = np.arange(len(codes)) % FOLDS
    accuracy = np.zeros(len(STRENGTHS))
    for each in range(FOLDS):
        train, held_out = np.flatnonzero(fold != each), np.flatnonzero(fold == each)
        if len(held_out) and len(np.unique(codes[train])) > 1:
            accuracy += _path(rows[train], codes[train], rows[held_out], codes[held_out])
    return STRENGTHS[int(np.argmax(accuracy))]


def _path(rows: Features, codes: Codes, judged_rows: Features, judged_codes: Codes) -> list[float]:
    """Accuracy for each C, ascending; each fit starts where the one before ended."""
    model = _classifier()
    return [
        float((model.set_params(C=strength).fit(rows, codes).predict(judged_rows) == judged_codes).mean())
        for strength in STRENGTHS
    ]


def _classifier() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(tol=1e-3, max_iter=1000, warm_start=True)


def _f1(truth: Codes, predicted: Codes) -> tuple[float, float]:
    from sklearn.metrics import f1_score

    micro, macro = (f1_score(truth, predicted, average=kind, zero_division=0) for kind in ("micro", "macro"))
    return float(micro), float(macro)
