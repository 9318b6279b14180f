"""The embedding: one Gaussian per node with its id. What models make and everything else reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glace.blocks import row_blocks
from glace.errors import InputError
from glace.gaussian import search as nearest
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, Roles, named, roles
from glace.ids import NodeId, NodeIds
from glace.metrics import UNCALIBRATED, PlattScaling

NEARNESS = ("edge", "similarity")


class Neighbors(NamedTuple):
    """The nodes nearest to one, nearest first; equals in the order of the nodes."""

    ids: list[NodeId]
    dissimilarities: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Embedding:
    """n Gaussians: `mean` and `variance` (n, L) float32; points (LACE, baselines) have no variance.

    `dissimilarity` names the measure they were trained for, and `odds` tells the probability of an edge from it,
    sigmoid(slope * (offset - dissimilarity)). `context`, of the same shape, is what a node is as the neighbour of
    others; second-order proximity has it, and judges an edge from i to j by i and the context of j. `certainty`
    (n,), if known, is the share of the training nodes whose place is less certain than a node's.
    """

    ids: NodeIds
    mean: npt.NDArray[np.float32]
    variance: npt.NDArray[np.float32] | None
    dissimilarity: str
    odds: PlattScaling = UNCALIBRATED
    context: Gaussian | None = None
    certainty: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.mean.ndim != 2 or self.mean.shape[0] != len(self.ids):
            raise InputError(f"{len(self.ids):,} ids need a mean of that many rows, not {self.mean.shape}")
        if not (np.isfinite(self.odds).all() and self.odds.slope > 0):
            raise InputError(f"the odds must be finite and their slope above 0, not {tuple(self.odds)}")
        _check(self.gaussian, self.mean.shape, self.measure)
        if self.context is not None:
            _check(self.context, self.mean.shape, self.measure)
        if self.certainty is not None:
            _check_certainty(self.certainty, len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        kind = "points" if self.variance is None else "Gaussians"
        return f"Embedding({len(self):,} {kind} of {self.mean.shape[1]} dimensions, {self.dissimilarity})"

    @property
    def measure(self) -> Dissimilarity:
        """The measure the nodes are compared by."""
        return named(self.dissimilarity)

    @property
    def gaussian(self) -> Gaussian:
        """All rows, as the formulas take them."""
        return Gaussian(self.mean, self.variance)

    @property
    def roles(self) -> Roles:
        """All nodes as sources and as targets of edges."""
        return roles(self.measure, self.gaussian, self.context)

    def take(self, nodes: npt.NDArray[np.integer]) -> "Embedding":
        """The Gaussians at these positions, in that order."""
        own, context = self.gaussian[nodes], None if self.context is None else self.context[nodes]
        certainty = None if self.certainty is None else self.certainty[nodes]
        return replace(
            self,
            ids=self.ids.take(nodes),
            mean=own.mean,
            variance=own.variance,
            context=context,
            certainty=certainty,
        )

    def neighbors(
        self,
        node: NodeId,
        k: int = 10,
        by: str = "edge",
        measure: str | None = None,
        exclude: Sequence[NodeId] = (),
        among: npt.NDArray[np.bool_] | None = None,
    ) -> Neighbors:
        """The k nodes nearest to a node, itself and those to `exclude` left out, by exact search; see `nearest_to`.

        Those of one type or label: `among=model.graph_.has_type("word")`, and `has_label` likewise.
        """
        place = self.ids.position(node)
        left_out = [place, *self.ids.positions(list(exclude)).tolist()]
        rows, near = self.nearest_to(self.take(np.array([place])), k, by, measure, [left_out], among)
        found = rows[0] >= 0
        return Neighbors([self.ids[row] for row in rows[0][found]], near[0][found])

    def nearest_to(
        self,
        queries: "Embedding",
        k: int = 10,
        by: str = "edge",
        measure: str | None = None,
        exclude: Sequence[nearest.Places | Sequence[int]] | None = None,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Positions (Q, k) and dissimilarities (Q, k) of the nodes nearest to each node of another embedding.

        By `edge` these are the likely targets of an edge from the node, by `similarity` the nodes whose own
        Gaussian is like its own. The two differ for second-order proximity only, which has a context. `measure`
        is the one they were trained for, unless another is named. The positions `exclude[q]` are no answer to
        query q, and `among` (n,) is True where a node may be an answer. Where there are fewer than k, -1 and
        infinity stand for the rest. Equally near nodes come in the order of their positions.
        """
        if queries.mean.shape[1] != self.mean.shape[1] or (queries.context is None) != (self.context is None):
            raise InputError(f"{queries!r} and {self!r} are not of one model")
        if among is not None and (among.dtype != np.bool_ or among.shape != (len(self),)):
            raise InputError(f"among must be {len(self):,} times True or False, one a node")
        chosen = self.measure_of(measure)
        source = queries.roles_by(chosen, by).source
        return self._targets(chosen, by).nearest(source, k, exclude, among)

    def measure_of(self, name: str | None) -> Dissimilarity:
        """The measure of this name, or the one the nodes were trained for; points have no other."""
        measure = self.measure if name is None else named(name)
        if measure.needs_variance and self.variance is None:
            raise InputError(f"{measure.name} needs variances, and these are points; they have `dot` only")
        return measure

    def roles_by(self, measure: Dissimilarity, by: str) -> Roles:
        """All nodes as what they are in an `edge`, or each as itself, for `similarity`."""
        if by not in NEARNESS:
            raise InputError(f"must be {' or '.join(NEARNESS)}, not {by!r}", option="by")
        own = self.gaussian if measure.needs_variance else Gaussian(self.mean, None)
        if by == "similarity":
            return Roles(own, own)
        return roles(measure, own, self.context)

    def _targets(self, measure: Dissimilarity, by: str) -> nearest.Targets:
        """What is searched, prepared at the first search."""
        if (measure.name, by) not in self._prepared:
            judged = self.roles_by(measure, by)
            self._prepared[measure.name, by] = nearest.Targets(measure, judged.target, judged.scale)
        return self._prepared[measure.name, by]

    @cached_property
    def _prepared(self) -> dict[tuple[str, str], nearest.Targets]:
        return {}

    def dissimilarities(self, pairs: Sequence[tuple[NodeId, NodeId]]) -> npt.NDArray[np.float64]:
        """(P,) of pairs of ids, from the first to the second."""
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise InputError("give a list of pairs of ids: [(source, target), ...]")
        first = self.ids.positions([pair[0] for pair in pairs])
        second = self.ids.positions([pair[1] for pair in pairs])
        return self.dissimilarities_at(np.column_stack([first, second]))

    def dissimilarities_at(self, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """(P,) of pairs of positions (P, 2), by the direct form in float64."""
        nodes, places = np.unique(pairs, return_inverse=True)
        judged, (first, second) = self.take(nodes).roles, places.reshape(-1, 2).T
        direct = self.measure.direct(nearest.wide(judged.source[first]), nearest.wide(judged.target[second]))
        return np.asarray(judged.scale * direct)

    def variance_terms_at(self, pairs: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """(P,) what of `dissimilarities_at` comes from unequal variances; the rest comes from distance."""
        if self.variance is None:
            return np.zeros(len(pairs))
        nodes, places = np.unique(pairs, return_inverse=True)
        some = self.take(nodes)
        still = replace(some, mean=np.zeros_like(some.mean), context=_centered(some.context))
        return still.dissimilarities_at(places.reshape(-1, 2))

    def probabilities(self, dissimilarities: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """That a pair is an edge, where edges and other pairs are equally many; see docs/concepts.md."""
        return self.odds.probabilities(dissimilarities)

    def spread(self) -> npt.NDArray[np.float64]:
        """(n,) mean log-variance of each node, the width of its Gaussian; see docs/concepts.md for what it says."""
        if self.variance is None:
            raise InputError("points have no variance; only Gaussians (GLACE) know how certain they are")
        return np.asarray(np.log(self.variance.astype(np.float64)).mean(axis=1))


def _check_certainty(ranks: npt.NDArray[np.float32], count: int) -> None:
    if ranks.shape != (count,):
        raise InputError(f"{count:,} ids need as many certainties, not {ranks.shape}")
    if not all(((part >= 0) & (part <= 1)).all() for part in row_blocks(ranks)):
        raise InputError("certainties must be from 0 to 1")


def _centered(gaussian: Gaussian | None) -> Gaussian | None:
    return None if gaussian is None else Gaussian(np.zeros_like(gaussian.mean), gaussian.variance)


def _check(gaussian: Gaussian, shape: tuple[int, ...], measure: Dissimilarity) -> None:
    mean, variance = gaussian.mean, gaussian.variance
    if mean.shape != shape:
        raise InputError(f"the context has the shape {mean.shape}, the mean {shape}")
    if variance is None and measure.needs_variance:
        raise InputError(f"{measure.name} needs variances; points have only the dissimilarity 'dot'")
    if variance is not None and variance.shape != shape:
        raise InputError(f"the variance has the shape {variance.shape}, the mean {shape}")
    if variance is not None and not all((block > 0).all() for block in row_blocks(variance)):
        raise InputError("variances must be above 0")
    parts = [mean] if variance is None else [mean, variance]
    if not all(np.isfinite(block).all() for part in parts for block in row_blocks(part)):
        raise InputError("means and variances must be finite")
