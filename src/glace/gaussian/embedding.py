"""The embedding: one Gaussian per node, with its id. Models produce it, everything else reads it."""

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from glace.blocks import blocks, row_blocks
from glace.errors import InputError
from glace.gaussian.dissimilarity import Dissimilarity, Gaussian, Roles, concatenated, named, roles, wide
from glace.gaussian.search import DIRECT, Exclusions, Positions, Targets, Values
from glace.gaussian.tables import Column, Neighbors
from glace.ids import NodeId, NodeIds

if TYPE_CHECKING:
    import pandas

FORMAT_VERSION = 2
METADATA = b"glace"
MATRICES = ("mean", "variance", "context_mean", "context_variance")
SHARES = ("expected_error", "certainty")


class PlattScaling(NamedTuple):
    """The probability of an edge at a dissimilarity d: sigmoid(slope * (offset - d))."""

    offset: float
    slope: float = 1.0

    @classmethod
    def fit(cls, dissimilarities: npt.NDArray[np.floating], truth: npt.NDArray[np.bool_]) -> "PlattScaling | None":
        """Fit to known pairs, half of them edges; None if smaller dissimilarities are not more probable.

        Uses Platt's target smoothing: with hard targets, pairs that a threshold separates perfectly would need an
        infinite slope.
        """
        from sklearn.linear_model import LogisticRegression

        # In standard units, so that the optimizer does not depend on the scale of the measure.
        center, width = float(dissimilarities.mean()), float(dissimilarities.std())
        if not width > 0:
            return None
        score = (center - dissimilarities) / width
        smoothing = np.where(truth, 1 / (truth.sum() + 2), 1 / ((~truth).sum() + 2))
        fit = LogisticRegression(C=np.inf, max_iter=1000).fit(
            np.concatenate([score, score])[:, None],
            np.concatenate([truth, ~truth]),
            np.concatenate([1 - smoothing, smoothing]),
        )
        slope, intercept = float(fit.coef_[0, 0]), float(fit.intercept_[0])
        return cls(center + width * intercept / slope, slope / width) if slope > 0 else None

    def probabilities(self, dissimilarities: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Probabilities of an edge, for a population with as many edges as non-edges."""
        from scipy.special import expit

        return np.asarray(expit(self.logits(dissimilarities)))

    def logits(self, dissimilarities: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Log-odds of an edge, for the same population."""
        return np.asarray(self.slope * (self.offset - np.asarray(dissimilarities, np.float64)))


UNCALIBRATED = PlattScaling(0.0)
"""The scaling of embeddings that have not been calibrated."""


@dataclass(frozen=True, eq=False, repr=False)
class Embedding:
    """One Gaussian, or one point, per node.

    Parameters
    ----------
    ids : NodeIds
        The ids of the n nodes.
    mean : ndarray of float32, shape (n, L)
        Means of the Gaussians.
    variance : ndarray of float32, shape (n, L), or None
        Diagonal variances; None for points (LACE, some baselines).
    dissimilarity : str
        The name of the measure that the nodes were trained with, as the option `dissimilarity` takes it.
    platt_scaling : PlattScaling
        Turns a dissimilarity into the probability of an edge.
    context : Gaussian, optional
        The second Gaussian of each node, as the neighbour of others. Second-order proximity has it, and compares
        node i of an edge with the context of node j.
    expected_error : ndarray of float32, shape (n,), optional
        The probability that an answer about a pair of the node, edge or non-edge with equal chance, is on the wrong
        side of one half.
    certainty : ndarray of float32, shape (n,), optional
        Its rank: the share of training nodes with a larger expected error, 0 to 1.
    novel : ndarray of bool, shape (n,), optional
        Whether each of some new nodes is unlike the training graph, so that its Gaussian says nothing about it.

    Examples
    --------
    >>> import glace, numpy as np
    >>> from glace.ids import NodeIds
    >>> mean = np.array([[0, 0], [0, 1], [3, 0]], np.float32)
    >>> embedding = glace.Embedding(NodeIds(["a", "b", "c"]), mean, np.ones_like(mean), "symmetric_kl")
    >>> embedding
    Embedding(3 Gaussians with 2 dimensions, symmetric_kl)
    >>> embedding.neighbors("a").id.tolist()
    ['b', 'c']
    >>> embedding["c"].mean.tolist(), len(embedding[["c", "a"]]), np.asarray(embedding).shape
    ([3.0, 0.0], 2, (3, 2))
    """

    ids: NodeIds
    mean: npt.NDArray[np.float32]
    variance: npt.NDArray[np.float32] | None
    dissimilarity: str
    platt_scaling: PlattScaling = UNCALIBRATED
    context: Gaussian | None = None
    expected_error: npt.NDArray[np.float32] | None = None
    certainty: npt.NDArray[np.float32] | None = None
    novel: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if self.mean.ndim != 2 or self.mean.shape[0] != len(self.ids):
            raise InputError(f"{len(self.ids):,} ids need a mean with as many rows, not the shape {self.mean.shape}")
        if not (np.isfinite(self.platt_scaling).all() and self.platt_scaling.slope > 0):
            raise InputError(f"must be finite, with a slope above 0, not {self.platt_scaling}", option="platt_scaling")
        gaussians = [self.gaussian] if self.context is None else [self.gaussian, self.context]
        if self.measure.needs_variance and any(each.variance is None for each in gaussians):
            raise InputError(f"{self.dissimilarity} needs variances; points have only the dissimilarity 'dot'")
        for name, matrix in self.matrices().items():
            if matrix.shape != self.mean.shape:
                raise InputError(f"{name} has the shape {matrix.shape}, but mean has {self.mean.shape}")
            lowest = 0 if name.endswith("variance") else -np.inf
            if not all(((block > lowest) & (block < np.inf)).all() for block in row_blocks(matrix)):
                raise InputError("means and variances must be finite, and variances above 0")
        if self.novel is not None and (self.novel.dtype != np.bool_ or self.novel.shape != (len(self.ids),)):
            raise InputError(f"must be an array of {len(self.ids):,} booleans, one per node", option="novel")
        for name, shares in self.shares().items():
            if shares.shape != (len(self.ids),):
                raise InputError(f"must be {len(self.ids):,} numbers, not of the shape {shares.shape}", option=name)
            if not all(((part >= 0) & (part <= 1)).all() for part in row_blocks(shares)):
                raise InputError("must be from 0 to 1", option=name)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self.ids)

    def __contains__(self, node: object) -> bool:
        return node in self.ids

    @overload
    def __getitem__(self, node: NodeId) -> Gaussian: ...

    @overload
    def __getitem__(self, node: list[str] | list[int]) -> "Embedding": ...

    def __getitem__(self, node: NodeId | list[str] | list[int]) -> "Gaussian | Embedding":
        if isinstance(node, str | int | np.integer):
            return self.gaussian[self.ids.position(node)]
        return self.take(self.ids.positions(list(node)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[np.generic]:
        return np.array(self.mean, dtype=dtype, copy=copy)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes and of dimensions, (n, L)."""
        return int(self.mean.shape[0]), int(self.mean.shape[1])

    def __repr__(self) -> str:
        noun = "points" if self.variance is None else "Gaussians"
        return f"Embedding({len(self):,} {noun} with {self.mean.shape[1]} dimensions, {self.dissimilarity})"

    def _repr_html_(self) -> str:
        start = self.take(np.arange(min(len(self), 5))).to_pandas()
        return f"<p>{html.escape(repr(self))}</p>{start.to_html(max_cols=8, border=0)}"

    @property
    def measure(self) -> Dissimilarity:
        """The measure that the nodes were trained with."""
        return named(self.dissimilarity)

    @property
    def gaussian(self) -> Gaussian:
        """Means and variances of all nodes."""
        return Gaussian(self.mean, self.variance)

    @property
    def roles(self) -> Roles:
        """All nodes as sources and as targets of edges."""
        return roles(self.measure, self.gaussian, self.context)

    def take(self, positions: npt.NDArray[np.integer]) -> "Embedding":
        """Return the embedding of some of the nodes.

        Parameters
        ----------
        positions : ndarray of int
            Positions of the nodes, from 0; the result has their order.

        Returns
        -------
        Embedding
            One row per position.
        """
        own, context = self.gaussian[positions], None if self.context is None else self.context[positions]
        return replace(
            self,
            ids=self.ids.take(positions),
            mean=own.mean,
            variance=own.variance,
            context=context,
            expected_error=None if self.expected_error is None else self.expected_error[positions],
            certainty=None if self.certainty is None else self.certainty[positions],
            novel=None if self.novel is None else self.novel[positions],
        )

    def neighbors(
        self,
        node: NodeId,
        k: int = 10,
        dissimilarity: str | None = None,
        exclude: Sequence[NodeId] = (),
        among: npt.NDArray[np.bool_] | None = None,
    ) -> Neighbors:
        """Find the k nodes most similar to a node by exact search.

        Answers the question which nodes are like this one, not which edge is missing: `FittedModel.links` does that.
        Contexts are left aside.

        Parameters
        ----------
        node : str or int
            Id of a node; it is not among its own neighbours.
        k : int
            Number of neighbours.
        dissimilarity : str, optional
            Another dissimilarity than the one of the training.
        exclude : sequence of ids
            Nodes to leave out.
        among : ndarray of bool, shape (n,), optional
            Only nodes that are True here can be answers, such as `graph.has_type("word")`.

        Returns
        -------
        Neighbors
            At most k rows, most similar first, with columns such as `id` and `dissimilarity`; `to_pandas()` makes a
            data frame.
        """
        position = self.ids.position(node)
        excluded = [position, *self.ids.positions(list(exclude)).tolist()]
        return self.neighbors_of(self.take(np.array([position])), k, dissimilarity, [excluded], among)

    def neighbors_of(
        self,
        queries: "Embedding",
        k: int = 10,
        dissimilarity: str | None = None,
        exclude: Exclusions | None = None,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> Neighbors:
        """Find the k nodes most similar to each node of another embedding, as a table.

        Parameters
        ----------
        queries : Embedding
            Q nodes, embedded by the same model, such as new nodes.
        k : int
            Number of answers to each query.
        dissimilarity : str, optional
            Another dissimilarity than the one of the training.
        exclude : sequence of Q sequences of int, optional
            Positions that are no answers to each query.
        among : ndarray of bool, shape (n,), optional
            Only nodes that are True here can be answers.

        Returns
        -------
        Neighbors
            At most k rows per query, in the order of the queries.
        """
        self.check_same_model(queries)
        compared, asked = self._own, queries._own
        positions, dissimilarities = compared.nearest_to(asked, k, dissimilarity, exclude, among)
        query, rank = np.nonzero(positions >= 0)
        position = positions[query, rank]
        pairs, trained = np.column_stack([query, position]), dissimilarity in (None, self.dissimilarity)
        return Neighbors(
            query=ids_at(queries.ids, query),
            id=ids_at(self.ids, position),
            dissimilarity=dissimilarities[query, rank],
            variance_term=compared.variance_terms_at(pairs, asked) if trained else None,
            certainty=None if self.certainty is None else self.certainty[position],
            novel=None if queries.novel is None else queries.novel[query],
            position=position,
        )

    def nearest_to(
        self,
        queries: "Embedding",
        k: int = 10,
        dissimilarity: str | None = None,
        exclude: Exclusions | None = None,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Positions, Values]:
        """Find the k nodes of the smallest dissimilarity from each node of another embedding, as positions.

        Nodes are compared as source and target of an edge. With a context, that is another question than `neighbors`.

        Parameters
        ----------
        queries : Embedding
            Q nodes, embedded by the same model.
        k : int
            Number of answers to each query.
        dissimilarity : str, optional
            Another dissimilarity than the one of the training.
        exclude : sequence of Q sequences of int, optional
            Positions that are no answers to each query.
        among : ndarray of bool, shape (n,), optional
            Only nodes that are True here can be answers.

        Returns
        -------
        positions : ndarray of int, shape (Q, k)
            Most similar first, ties in the order of positions; -1 where a query has fewer than k answers.
        dissimilarities : ndarray of float, shape (Q, k)
            Infinity where the position is -1.
        """
        self.check_same_model(queries)
        if among is not None and (among.dtype != np.bool_ or among.shape != (len(self),)):
            raise InputError(f"must be an array of {len(self):,} booleans, one per node", option="among")
        chosen = self.measure_of(dissimilarity)
        source = queries.roles_by(chosen).source
        return self._targets(chosen).nearest(source, k, exclude, among)

    def check_same_model(self, queries: "Embedding") -> None:
        """Raise if another embedding cannot be from the same model.

        Parameters
        ----------
        queries : Embedding
            Nodes to compare with these.

        Raises
        ------
        InputError
            If the dimensions differ, or only one of the two has a context.
        """
        if queries.mean.shape[1] != self.mean.shape[1] or (queries.context is None) != (self.context is None):
            raise InputError(f"{queries!r} and {self!r} come from different models")

    @cached_property
    def _own(self) -> "Embedding":
        """The same nodes without their contexts."""
        return self if self.context is None else replace(self, context=None)

    def measure_of(self, name: str | None) -> Dissimilarity:
        """Return a measure by its name.

        Parameters
        ----------
        name : str or None
            A name that the option `dissimilarity` takes; None for the measure of the training.

        Returns
        -------
        Dissimilarity
            The measure.

        Raises
        ------
        InputError
            If the measure needs variances and the nodes are points.
        """
        measure = self.measure if name is None else named(name)
        if measure.needs_variance and self.variance is None:
            raise InputError(f"{measure.name} needs variances, but these are points; use the measure `dot`")
        return measure

    def roles_at(self, positions: npt.NDArray[np.integer]) -> Roles:
        """Return what stands for some of the nodes as sources and as targets of edges.

        Parameters
        ----------
        positions : ndarray of int
            Positions of the nodes, from 0; they may repeat.

        Returns
        -------
        Roles
            The Gaussians of these nodes alone: nothing of the size of the embedding is copied.
        """
        context = None if self.context is None else self.context[positions]
        return roles(self.measure, self.gaussian[positions], context)

    def roles_by(self, measure: Dissimilarity) -> Roles:
        """Return what stands for each node as the source and as the target of a comparison.

        Parameters
        ----------
        measure : Dissimilarity
            The measure to compare with.

        Returns
        -------
        Roles
            The Gaussians of all nodes as sources and as targets.
        """
        own = self.gaussian if measure.needs_variance else Gaussian(self.mean, None)
        return roles(measure, own, self.context)

    def _targets(self, measure: Dissimilarity) -> Targets:
        if measure.name not in self._prepared:
            compared = self.roles_by(measure)
            self._prepared[measure.name] = Targets(measure, compared.target, compared.scale)
        return self._prepared[measure.name]

    @cached_property
    def _prepared(self) -> dict[str, Targets]:
        return {}

    def dissimilarities(self, pairs: Sequence[tuple[NodeId, NodeId]]) -> Values:
        """Return the dissimilarities of pairs of nodes.

        Parameters
        ----------
        pairs : sequence of (id, id)
            P pairs of source and target.

        Returns
        -------
        ndarray of float, shape (P,)
            The dissimilarity of each pair, in the measure of the training.

        Raises
        ------
        InputError
            If an id is unknown.

        Examples
        --------
        >>> import glace, numpy as np
        >>> from glace.ids import NodeIds
        >>> mean = np.array([[0, 0], [0, 1], [3, 0]], np.float32)
        >>> embedding = glace.Embedding(NodeIds(["a", "b", "c"]), mean, np.ones_like(mean), "wasserstein2")
        >>> embedding.dissimilarities([("a", "b"), ("a", "c")]).tolist()
        [1.0, 9.0]
        """
        return self.dissimilarities_at(self.positions_of(pairs))

    def positions_of(self, pairs: Sequence[tuple[NodeId, NodeId]]) -> Positions:
        """Return the positions of pairs of nodes.

        Parameters
        ----------
        pairs : sequence of (id, id)
            P pairs of source and target.

        Returns
        -------
        ndarray of int, shape (P, 2)
            The position of each id.

        Raises
        ------
        InputError
            If an id is unknown.
        """
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise InputError("give a list of pairs of ids: [(source, target), ...]")
        first, second = (self.ids.positions([pair[side] for pair in pairs]) for side in (0, 1))
        return np.column_stack([first, second])

    def dissimilarities_at(self, pairs: npt.NDArray[np.integer], sources: "Embedding | None" = None) -> Values:
        """Return the dissimilarities of pairs of positions, in float64 by the direct formula.

        Parameters
        ----------
        pairs : ndarray of int, shape (P, 2)
            Positions of source and target.
        sources : Embedding, optional
            The embedding that the sources belong to, such as that of new nodes; by default this one.

        Returns
        -------
        ndarray of float, shape (P,)
            The dissimilarity of each pair, in the measure of the training.
        """
        return self._compare_at(pairs, self if sources is None else sources, centered=False)

    def variance_terms_at(self, pairs: npt.NDArray[np.integer], sources: "Embedding | None" = None) -> Values:
        """Return the part of each dissimilarity that comes from unequal variances; the rest comes from distance.

        Parameters
        ----------
        pairs : ndarray of int, shape (P, 2)
            Positions of source and target.
        sources : Embedding, optional
            The embedding that the sources belong to; by default this one.

        Returns
        -------
        ndarray of float, shape (P,)
            The dissimilarity that each pair would have if both means were equal; 0 for points.
        """
        if self.variance is None:
            return np.zeros(len(pairs))
        return self._compare_at(pairs, self if sources is None else sources, centered=True)

    def _compare_at(self, pairs: npt.NDArray[np.integer], sources: "Embedding", centered: bool) -> Values:
        values = np.empty(len(pairs))
        for part in blocks(len(pairs), DIRECT):
            source, first = np.unique(pairs[part, 0], return_inverse=True)
            target, second = np.unique(pairs[part, 1], return_inverse=True)
            ends = sources.take(source), self.take(target)
            sides = [each._centered().roles if centered else each.roles for each in ends]
            direct = self.measure.direct(wide(sides[0].source)[first], wide(sides[1].target)[second])
            values[part] = sides[0].scale * direct
        return values

    def _centered(self) -> "Embedding":
        """The same Gaussians with all means at 0."""
        context = self.context and Gaussian(np.zeros_like(self.context.mean), self.context.variance)
        return replace(self, mean=np.zeros_like(self.mean), context=context)

    def probabilities(self, dissimilarities: npt.NDArray[np.floating]) -> Values:
        """Return the probabilities of an edge at some dissimilarities.

        Parameters
        ----------
        dissimilarities : ndarray of float
            Dissimilarities in the measure of the training.

        Returns
        -------
        ndarray of float
            Probabilities in the same shape, for a population with as many edges as non-edges; docs/concepts.md tells
            how they are calibrated.
        """
        return self.platt_scaling.probabilities(dissimilarities)

    def mean_log_variance(self) -> Values:
        """Return the mean log-variance (n,) of each node, the width of its Gaussian; it is not the certainty."""
        if self.variance is None:
            raise InputError("points have no variance; train Gaussians (GLACE) instead")
        return np.asarray(np.log(self.variance.astype(np.float64)).mean(axis=1))

    def shares(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return the numbers from 0 to 1 that each node has, by name: expected error and certainty, if known."""
        values = zip(SHARES, (self.expected_error, self.certainty), strict=True)
        return {name: shares for name, shares in values if shares is not None}

    def matrices(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return the matrices (n, L) that exist, by name: mean, variance, context_mean, context_variance."""
        context = self.context or Gaussian(None, None)
        values = zip(MATRICES, (self.mean, self.variance, context.mean, context.variance), strict=True)
        return {name: matrix for name, matrix in values if matrix is not None}

    def _per_node(self) -> dict[str, Column]:
        """The arrays (n,) that exist, by name."""
        values: dict[str, Column | None] = {**self.shares(), "novel": self.novel}
        return {name: column for name, column in values.items() if column is not None}

    def to_arrow(self, types: pa.StringArray | None = None) -> pa.Table:
        """Return the embedding as an Arrow table.

        Parameters
        ----------
        types : pyarrow.StringArray, optional
            Node types, to be written in a column after the ids.

        Returns
        -------
        pyarrow.Table
            Columns id, type, expected_error, certainty, novel, mean, variance, context_mean, context_variance, as far
            as they exist.
            A row of a matrix is a list of fixed size. The metadata holds the dissimilarity and the calibration.
        """
        columns = {"id": self.ids.array} | ({} if types is None else {"type": types})
        columns |= {name: pa.array(column) for name, column in self._per_node().items()}
        columns |= {name: _lists(matrix) for name, matrix in self.matrices().items()}
        facts = {"dissimilarity": self.dissimilarity, **self.platt_scaling._asdict(), "format_version": FORMAT_VERSION}
        return pa.table(columns).replace_schema_metadata({METADATA: json.dumps(facts)})

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the embedding as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row per node, indexed by id, with the columns expected_error, certainty, novel, mean_0, mean_1, ...,
            variance_0, ..., as far as they exist.
        """
        return self.flat_table(slice(None)).to_pandas().set_index("id")

    def flat_table(self, rows: slice, types: pa.StringArray | None = None) -> pa.Table:
        """Return some rows as an Arrow table with one column per dimension.

        Parameters
        ----------
        rows : slice
            The rows to return.
        types : pyarrow.StringArray, optional
            Node types of all rows, to be written in a column after the ids.

        Returns
        -------
        pyarrow.Table
            Columns id, type, expected_error, certainty, novel, mean_0, mean_1, ..., variance_0, ..., as far as they
            exist.
        """
        columns = {"id": self.ids.array[rows]} | ({} if types is None else {"type": types[rows]})
        columns |= {name: pa.array(column[rows]) for name, column in self._per_node().items()}
        for name, matrix in self.matrices().items():
            columns |= {f"{name}_{column}": pa.array(matrix[rows, column]) for column in range(matrix.shape[1])}
        return pa.table(columns)


def stacked(first: Embedding, second: Embedding, ids: NodeIds | None = None) -> Embedding:
    """The nodes of two embeddings of one model as one embedding, with these ids; by default with their own.

    A node that is not marked as novel counts as not novel; expected errors and certainties are kept if both have them.
    """
    first.check_same_model(second)
    own = concatenated([first.gaussian, second.gaussian], axis=0)
    context = None
    if first.context is not None and second.context is not None:
        context = concatenated([first.context, second.context], axis=0)
    novel = [np.zeros(len(each), np.bool_) if each.novel is None else each.novel for each in (first, second)]
    one, other = first.shares(), second.shares()
    joined = {name: np.concatenate([one[name], other[name]]) for name in SHARES if name in one and name in other}
    return replace(
        first,
        ids=NodeIds(pa.concat_arrays([first.ids.array, second.ids.array])) if ids is None else ids,
        mean=own.mean,
        variance=own.variance,
        context=context,
        novel=np.concatenate(novel),
        expected_error=joined.get("expected_error"),
        certainty=joined.get("certainty"),
    )


def ids_at(ids: NodeIds, positions: Positions) -> Column:
    """Ids at these positions, which may repeat."""
    values: Column = ids.array.take(pa.array(positions)).to_numpy(zero_copy_only=False)
    return values


def _lists(matrix: npt.NDArray[np.float32]) -> pa.Array:
    values = pa.array(np.ascontiguousarray(matrix, dtype=np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(values, matrix.shape[1])
