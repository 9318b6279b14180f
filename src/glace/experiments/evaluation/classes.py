"""The tasks about classes: node classification by logistic regression, and pictures of the nodes in the plane."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.queries.layout import layout
from glace.rng import Streams
from glace.sparse import Matrix

Codes = npt.NDArray[np.int32]


def labelled(labels: Categories | None, count: int) -> tuple[npt.NDArray[np.int64], Codes]:
    """Return the numbers (m,) of the labelled ones of `count` nodes, ascending, and their class codes (m,).

    Raises unless there are at least two classes.
    """
    if labels is None:
        raise InputError("the task needs labels, but the graph has none; choose link-prediction or induction")
    if len(labels) != count:
        raise InputError(f"{len(labels):,} labels for {count:,} nodes; give one for each, or none (-1)")
    nodes = np.flatnonzero(labels.codes >= 0)
    classes = len(np.unique(labels.codes[nodes]))
    if classes < 2:
        raise InputError(f"the labels name {classes} classes; at least 2 are needed to tell them apart")
    return nodes, labels.codes[nodes]


SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

# Root mean square length of a row of features. Any fixed length makes one grid of C fit all methods; at this length
# the solver needs few steps: on the words of DBLP, a third to a half of those it needs at length 1.
LENGTH = 8.0
STRENGTHS = tuple(strength / LENGTH**2 for strength in (1, 5, 25, 125, 625))
"""Candidates for C; embeddings are best at the low end, raw attributes at the high end."""
FOLDS = 3
MOST_TO_CHOOSE_BY = 2000
"""Most labels used to choose C: C stands for a prior, which does not depend on the number of labels."""

_SOLVER: dict[str, Any] = {"tol": 1e-3, "max_iter": 1000}

SPARSE_BELOW = 0.2
"""Share of non-zero numbers below which sparse features are faster than dense ones."""


@dataclass(frozen=True)
class ClassScores:
    """F1 scores (0 to 1) by share of labels used for training and by trial: (shares, trials)."""

    shares: tuple[float, ...]
    micro_f1: npt.NDArray[np.float64]
    macro_f1: npt.NDArray[np.float64]

    def values(self) -> dict[str, object]:
        """Return means and trials by share, as the fields of a record."""
        found: dict[str, object] = {}
        for name, scores in (("micro_f1", self.micro_f1), ("macro_f1", self.macro_f1)):
            rows = list(zip(map(str, self.shares), scores.tolist(), strict=True))
            found[name] = {share: float(np.mean(row)) for share, row in rows}
            found[f"{name}_trials"] = dict(rows)
        return found


def node_classification(
    features: Embedding | Matrix,
    labels: Categories | None,
    streams: Streams,
    shares: Sequence[float] = SHARES,
    trials: int = 10,
) -> ClassScores:
    """Train a logistic regression on a share of the labelled nodes and test it on the other labelled nodes.

    `features` are an embedding (see `features_of`) or a matrix with a row for each of the n labels; nodes without a
    label are ignored. A trial puts the labelled nodes into a random order that starts with one node of each class and
    keeps the proportions of the classes in every prefix; the first `share` of it is the training set. The order
    depends only on the labels and the seed, so all methods are tested on the same splits and trials can be compared
    in pairs. C is chosen among `STRENGTHS` by 3-fold cross-validated accuracy within the (first 2,000) training labels.
    """
    from threadpoolctl import threadpool_limits

    matrix = features_of(features) if isinstance(features, Embedding) else features
    nodes, codes = labelled(labels, matrix.shape[0])
    ascending = _checked_shares(shares, codes)
    if trials < 1:
        raise InputError(f"trials must be at least 1, not {trials}")
    rows = scaled(matrix[nodes])
    # The solver's products are so small that threads mostly wait for each other: with two threads on a busy machine of
    # two cores, 3,000 rows of 128 numbers took ten times as long as with one.
    with threadpool_limits(1):
        runs = [_trial(rows, codes, streams.numpy("labels", trial), ascending) for trial in range(trials)]
    micro, macro = np.array(runs).transpose(2, 1, 0)
    return ClassScores(ascending, micro, macro)


def features_of(embedding: Embedding) -> Matrix:
    """Return the means (n, L) of points, or means and log-variances (n, 2L) of Gaussians, with equal weight.

    Points that are mostly zeros, such as raw attributes, become sparse, which is faster.

    The paper gives Gaussians half the dimensions of points, so that a node has the same number of features. The
    log-variances add 0.3 to 1.3 points of micro-F1 on Cora-ML, 0.2 to 0.5 on Citeseer and -0.1 to 0.3 on DBLP, for
    shares from 0.1 to 0.9.
    """
    if embedding.variance is None:
        is_sparse = np.count_nonzero(embedding.mean) < SPARSE_BELOW * embedding.mean.size
        return sp.csr_array(embedding.mean) if is_sparse else embedding.mean
    return np.hstack([scaled(embedding.mean), scaled(np.log(embedding.variance))])


def scaled(features: Matrix) -> Matrix:
    """Return rows of root mean square length `LENGTH`, float32.

    Dense features are centred and share one scale: a scale per column would amplify uninformative columns. Sparse
    features are not centred; each row is scaled to the length.
    """
    if sp.issparse(features):
        from sklearn.preprocessing import normalize

        return sp.csr_array(LENGTH * normalize(features.astype(np.float32)))
    centred = np.asarray(features, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=1).mean())
    return (centred * (LENGTH / length if length > 0 else 0)).astype(np.float32)


def _checked_shares(shares: Sequence[float], codes: Codes) -> tuple[float, ...]:
    """Return the shares, ascending; each must leave a node of every class for training and a node for testing."""
    least, most = len(np.unique(codes)), len(codes) - 1
    for share in shares:
        count = round(share * len(codes)) if 0 < share < 1 else 0
        if not least <= count <= most:
            raise InputError(
                f"a share of {share} of {len(codes):,} labels is {count:,} training labels; choose a share that gives "
                f"between {least:,} (one for each class) and {most:,}"
            )
    return tuple(sorted(shares))


def _trial(
    rows: Matrix, codes: Codes, generator: np.random.Generator, shares: Sequence[float]
) -> list[tuple[float, float]]:
    """Return micro and macro F1 for each share, ascending; each fit starts from the weights of the previous one."""
    from sklearn.linear_model import LogisticRegression

    order = stratified_order(codes, generator)
    rows, codes = rows[order], codes[order]
    chosen: dict[int, float] = {}
    model, scores = LogisticRegression(warm_start=True, **_SOLVER), []
    for share in shares:
        count = round(share * len(codes))
        used = min(count, MOST_TO_CHOOSE_BY)
        if used not in chosen:
            chosen[used] = choose_strength(rows[:used], codes[:used])
        model.set_params(C=chosen[used]).fit(rows[:count], codes[:count])
        scores.append(_f1(codes[count:], model.predict(rows[count:])))
    return scores


def stratified_order(codes: Codes, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return a random order (m,) that starts with one node of each class and keeps the classes' proportions."""
    shuffled = generator.permutation(len(codes))
    place = np.empty(len(codes))
    for code in np.unique(codes):
        members = np.flatnonzero(codes[shuffled] == code)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
        place[members[0]] = 0
    return np.asarray(shuffled[np.argsort(place, kind="stable")])


def choose_strength(rows: Matrix, codes: Codes) -> float:
    """Return the C of the best mean accuracy over the folds, the smallest of equals; classes are shared out evenly."""
    from sklearn.linear_model import LogisticRegressionCV

    fold = np.empty(len(codes), dtype=np.int64)
    fold[np.argsort(codes, kind="stable")] = np.arange(len(codes)) % FOLDS
    folds = [(np.flatnonzero(fold != each), np.flatnonzero(fold == each)) for each in range(FOLDS)]
    usable = [(train, test) for train, test in folds if len(test) and len(np.unique(codes[train])) > 1]
    if not usable:
        return STRENGTHS[0]
    model = LogisticRegressionCV(
        Cs=STRENGTHS, l1_ratios=(0,), cv=usable, scoring="accuracy", refit=False, use_legacy_attributes=False, **_SOLVER
    ).fit(rows, codes)
    return STRENGTHS[int(np.argmax(model.scores_.mean(axis=0)))]


def _f1(truth: Codes, predicted: Codes) -> tuple[float, float]:
    from sklearn.metrics import f1_score

    micro, macro = (f1_score(truth, predicted, average=kind, zero_division=0) for kind in ("micro", "macro"))
    return float(micro), float(macro)


MOST_NODES = 3000
"""Most nodes of a picture: more cannot be seen, and the time of a silhouette grows with their square."""


@dataclass(frozen=True)
class Visualization:
    """`positions` (m, 2) of `nodes` (m,) with their `classes` (m,), codes into `class_names`."""

    nodes: npt.NDArray[np.int64]
    positions: npt.NDArray[np.float64]
    classes: npt.NDArray[np.int32]
    class_names: tuple[str, ...]
    silhouette: float

    def values(self) -> dict[str, object]:
        """Return the fields of a record; positions keep a thousandth of their range, which is all a picture shows."""
        digits = 2 - math.floor(math.log10(max(float(abs(self.positions).max()), 1e-9)))
        return {
            "silhouette": self.silhouette,
            "points": self.positions.round(max(digits, 0)).tolist(),
            "classes": self.classes.tolist(),
            "class_names": list(self.class_names),
        }


def visualization(embedding: Embedding, labels: Categories | None, *, seed: int = 0) -> Visualization:
    """Return the t-SNE of the means of at most 3,000 labelled nodes, drawn uniformly; t-SNE does not see the labels."""
    nodes, codes = labelled(labels, len(embedding))
    assert labels is not None
    kept = _sample(len(nodes), seed)
    positions = layout(embedding.take(nodes[kept]), random_state=seed, n_jobs=1)
    silhouette = separation(positions, codes[kept])
    return Visualization(nodes[kept], positions, codes[kept], labels.names, silhouette)


def separation(positions: npt.NDArray[np.floating], classes: npt.NDArray[np.integer], *, seed: int = 0) -> float:
    """Return the mean silhouette (-1 to 1) of the classes at (m, dimensions) positions, at most 3,000 of them.

    The silhouette of a node is (b - a) / max(a, b): a is its mean distance to the other nodes of its class, b that
    to the nodes of the closest other class. It is 0 for the only node of a class.
    """
    from sklearn.metrics import silhouette_score

    kept = _sample(len(positions), seed)
    found = len(np.unique(classes[kept]))
    if not 2 <= found < len(kept):
        raise InputError(
            f"a silhouette needs at least 2 classes and more nodes than classes, "
            f"not {len(kept):,} nodes of {found:,} classes"
        )
    return float(silhouette_score(positions[kept], classes[kept]))


def _sample(count: int, seed: int) -> npt.NDArray[np.int64]:
    """Return at most `MOST_NODES` of the numbers below `count`, drawn uniformly, ascending."""
    return np.sort(Streams(seed).numpy("visualization").permutation(count)[:MOST_NODES])
