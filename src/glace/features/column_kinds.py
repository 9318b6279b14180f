"""The kinds of table columns (number, category, text, sentence) and how each becomes columns of the matrix."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import FormatError, InputError
from glace.features.columns import RowLocator, is_number, is_text, numbers_or_nan
from glace.features.sentences import SentenceModel
from glace.features.text import TextVocabulary
from glace.ids import ArrowColumn, plain_array
from glace.sparse import Matrix

MAX_DEVIATIONS = 5.0
"""Numbers are clipped at this many standard deviations: an outlier would dominate its row."""

Facts: TypeAlias = dict[str, Any]
"""A column as JSON: its kind and its fields."""


class Cells(NamedTuple):
    """The checked cells of one column of n rows.

    Parameters
    ----------
    values
        Numbers, codes of categories, or texts, as the column's `matrix` takes them.
    missing
        (n,) True where a cell is empty.
    unknown
        The rows, ascending, whose value did not occur in training.
    first
        The first such value.
    """

    values: Any
    missing: npt.NDArray[np.bool_]
    unknown: npt.NDArray[np.int64]
    first: str | None = None


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Number:
    """Numbers, standardized with the mean and the standard deviation of training; a missing one becomes the mean."""

    name: str
    mean: float
    deviation: float
    kind: ClassVar[str] = "number"
    sparse: ClassVar[bool] = False
    shared: ClassVar[bool] = True
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not (np.isfinite(self.mean) and np.isfinite(self.deviation) and self.deviation > 0):
            raise InputError(f"column {self.name!r} needs a finite mean and a deviation above 0")

    @classmethod
    def learn(cls, name: str, column: ArrowColumn, where: RowLocator) -> "Number":
        """Learn mean and deviation from the training table."""
        values = numbers_or_nan(column, name, where)
        values = values[~np.isnan(values)]
        if not len(values):
            raise _no_value(name, where)
        # Compared by value: rounding can give even a constant column a deviation.
        constant = bool(values.min() == values.max())
        return cls(name, float(values[0] if constant else values.mean()), 1.0 if constant else _spread(values))

    def names(self) -> list[str]:
        """Return the name of the column."""
        return [self.name]

    def cells(self, column: ArrowColumn, where: RowLocator) -> Cells:
        """Return numbers, NaN for missing ones."""
        values = numbers_or_nan(column, self.name, where)
        return Cells(values, np.isnan(values), _NONE)

    def matrix(self, cells: Cells) -> Matrix:
        """Return (n, 1) dense."""
        with np.errstate(over="ignore"):  # clipped next
            scaled = np.clip((cells.values - self.mean) / self.deviation, -MAX_DEVIATIONS, MAX_DEVIATIONS)
        return np.where(cells.missing, 0, scaled).astype(np.float32)[:, None]

    @classmethod
    def from_json(cls, facts: Facts) -> "Number":
        """Return the column of these facts."""
        return cls(facts["name"], float(facts["mean"]), float(facts["deviation"]))


def _spread(values: npt.NDArray[np.float64]) -> float:
    """Return the standard deviation, or 1 if it is 0; scaled, because squares of tiny values underflow."""
    scale = float(np.abs(values).max())
    return float((values / scale).std() * scale) or 1.0


@dataclass(frozen=True)
class Category:
    """One-hot encoding of the categories of training; any other category is all zeros."""

    name: str
    values: tuple[str, ...]
    kind: ClassVar[str] = "category"
    sparse: ClassVar[bool] = True
    shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values) or "" in self.values:
            raise InputError(f"column {self.name!r} needs categories that are distinct and have a name")

    @classmethod
    def learn(cls, name: str, column: ArrowColumn, where: RowLocator) -> "Category":
        """Learn the categories from the training table; they are sorted."""
        values = _categories(column, name, where).names
        if not values:
            raise _no_value(name, where)
        return cls(name, values)

    @property
    def width(self) -> int:
        """Number of categories."""
        return len(self.values)

    def names(self) -> list[str]:
        """Return names such as town=Bern."""
        return [f"{self.name}={value}" for value in self.values]

    def cells(self, column: ArrowColumn, where: RowLocator) -> Cells:
        """Return the code of each category, -1 if it is missing or unknown."""
        found = _categories(column, self.name, where)
        place = {value: place for place, value in enumerate(self.values)}
        known = np.array([*(place.get(name, -1) for name in found.names), -1], np.int64)
        codes, missing = known[found.codes], found.codes < 0
        unknown = np.flatnonzero((codes < 0) & ~missing)
        return Cells(codes, missing, unknown, found[int(unknown[0])] if len(unknown) else None)

    def matrix(self, cells: Cells) -> Matrix:
        """Return (n, width) CSR with a 1 for each known category."""
        there = cells.values >= 0
        start = np.concatenate([[0], np.cumsum(there)])
        ones = np.ones(int(start[-1]), np.float32)
        return sp.csr_array((ones, cells.values[there], start), shape=(len(there), self.width))

    @classmethod
    def from_json(cls, facts: Facts) -> "Category":
        """Return the column of these facts."""
        return cls(facts["name"], _strings(facts["values"]))


@dataclass(frozen=True)
class Text:
    """TF-IDF of the words, each row of unit length; an empty or missing text is all zeros."""

    name: str
    vocabulary: TextVocabulary
    kind: ClassVar[str] = "text"
    sparse: ClassVar[bool] = True
    shared: ClassVar[bool] = False

    @classmethod
    def learn(cls, name: str, column: ArrowColumn, where: RowLocator) -> "Text":
        """Learn the vocabulary from the training table."""
        texts = _texts(column, name, cls.kind, where).values
        try:
            return cls(name, TextVocabulary.learn(texts))
        except InputError as problem:
            raise InputError(f"{where.name}, column {name!r}: {problem}") from problem

    @property
    def width(self) -> int:
        """Number of words in the vocabulary."""
        return len(self.vocabulary)

    def names(self) -> list[str]:
        """Return names such as wares:bread."""
        return [f"{self.name}:{word}" for word in self.vocabulary.words]

    def cells(self, column: ArrowColumn, where: RowLocator) -> Cells:
        """Return the texts, "" for missing ones."""
        return _texts(column, self.name, self.kind, where)

    def matrix(self, cells: Cells) -> Matrix:
        """Return (n, width) CSR."""
        return self.vocabulary.attributes(cells.values)

    @classmethod
    def from_json(cls, facts: Facts) -> "Text":
        """Return the column of these facts."""
        words, idf = facts["vocabulary"]["words"], facts["vocabulary"]["idf"]
        return cls(facts["name"], TextVocabulary(_strings(words), np.array(idf, np.float64)))


@dataclass(frozen=True, eq=False)
class Sentence:
    """Texts as unit vectors of a sentence model; the model stays on the machine, outside the pipeline.

    `probe` (width,) is the model's vector of a fixed sentence, which identifies the model.
    """

    name: str
    model: str
    probe: npt.NDArray[np.float32]
    kind: ClassVar[str] = "sentence"
    sparse: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    @classmethod
    def learn(cls, name: str, model: str) -> "Sentence":
        """Load the model; nothing is learned from the texts."""
        return cls(name, model, SentenceModel(model).probe)

    @property
    def width(self) -> int:
        """Length of the model's vectors."""
        return len(self.probe)

    def names(self) -> list[str]:
        """Return names such as abstract[0]."""
        return [f"{self.name}[{place}]" for place in range(self.width)]

    def cells(self, column: ArrowColumn, where: RowLocator) -> Cells:
        """Return the texts, "" for missing ones."""
        return _texts(column, self.name, self.kind, where)

    def matrix(self, cells: Cells) -> Matrix:
        """Return (n, width) dense; an empty or missing text is all zeros."""
        if not cells.values:
            return np.zeros((0, self.width), np.float32)
        return self._encoder.vectors(cells.values)

    @classmethod
    def from_json(cls, facts: Facts) -> "Sentence":
        """Return the column of these facts; the model is loaded when it is needed."""
        probe = np.array(facts["probe"], np.float32)
        if probe.ndim != 1 or not len(probe) or not np.isfinite(probe).all():
            raise FormatError(f"column {facts['name']!r} does not identify its sentence model")
        (model,) = _strings([facts["model"]])
        return cls(facts["name"], model, probe)

    @cached_property
    def _encoder(self) -> SentenceModel:
        found = SentenceModel(self.model)
        found.check(self.probe)
        return found


Column: TypeAlias = Number | Category | Text | Sentence
"""A column of the table, which becomes `width` columns of the matrix.

`cells` checks an Arrow column, `matrix` gives the (n, width) CSR or dense matrix of such cells. If a kind is `shared`,
all columns of the kind together have unit length: each is divided by the root of their number.
"""
COLUMNS: dict[str, type[Column]] = {each.kind: each for each in (Number, Category, Text, Sentence)}


def _categories(column: ArrowColumn, name: str, where: RowLocator) -> Categories:
    """Return the category of each row as text; 1.0 is the category 1, because frames with gaps turn 1 into 1.0."""
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    fits = (is_text, is_number, pa.types.is_temporal, pa.types.is_null)
    if not any(test(plain) for test in fits):
        raise InputError(
            f"{where.name}: column {name!r} is a category, but holds {column.type}; expected text, numbers or dates"
        )
    found = Categories.of(column)
    if not pa.types.is_floating(plain):
        return found
    return Categories(found.codes, tuple(each.removesuffix(".0") for each in found.names))


def _texts(column: ArrowColumn, name: str, kind: str, where: RowLocator) -> Cells:
    if not (is_text(column.type) or pa.types.is_null(column.type)):
        raise InputError(
            f"{where.name}: column {name!r} is a {kind}, but holds {column.type}; expected text, or another kind"
        )
    chunks = [plain_array(chunk) for chunk in column.chunks]
    texts = ["" if text is None else text for chunk in chunks for text in chunk.to_pylist()]
    return Cells(texts, np.array([not text for text in texts], np.bool_), _NONE)


def _no_value(name: str, where: RowLocator) -> InputError:
    return InputError(f"{where.name}: column {name!r} has no value at all; leave it out: {name}=drop")


def _strings(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise FormatError(f"expected a list of texts, not {values!r:.40}")
    return tuple(values)
