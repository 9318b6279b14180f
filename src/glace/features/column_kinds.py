"""One column of a table and how its values become columns of the attribute matrix: the parts of a pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import FormatError, InputError
from glace.features.columns import RowLocator, is_number, is_text, numbers_or_nan
from glace.features.sentences import SentenceModel
from glace.features.text import TextVocabulary
from glace.ids import plain_array

FARTHEST = 5.0
"""Deviations from the mean at which numbers are cut off: one outlier would else drown the rest of its row."""

Matrix: TypeAlias = sp.csr_array | npt.NDArray[np.float32]


class Cells(NamedTuple):
    """The checked values of one column of a table, of n rows.

    `values` are what `matrix` takes; `missing` (n,) tells where there is none; `unknown` are the rows, ascending, with
    a value that was never seen in training, and `first` is the first such value.
    """

    values: Any
    missing: npt.NDArray[np.bool_]
    unknown: npt.NDArray[np.int64]
    first: str | None = None


class Column(Protocol):
    """A column of the table by its `name`, which becomes `width` columns of the matrix."""

    kind: ClassVar[str]
    sparse: ClassVar[bool]
    shared: ClassVar[bool]
    """Whether the columns of this kind have unit length together, each divided by the root of their number."""

    @property
    def name(self) -> str:
        """What the column of the table is called."""

    @property
    def width(self) -> int:
        """How many columns of the matrix it becomes."""

    def names(self) -> list[str]:
        """What these are called."""

    def cells(self, column: Any, where: RowLocator) -> Cells:
        """The values of an Arrow column, checked."""

    def matrix(self, cells: Cells) -> Matrix:
        """(n, width) of such values, CSR or dense."""

    def to_json(self) -> dict[str, Any]:
        """All there is to know, as plain data."""


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Number:
    """Numbers, less their mean and divided by their deviation in training; one that is missing is the mean."""

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
    def learn(cls, name: str, column: Any, where: RowLocator) -> "Number":
        """From the values of training."""
        values = numbers_or_nan(column, name, where)
        values = values[~np.isnan(values)]
        if not len(values):
            raise _no_value(name, where)
        # A constant column is told by its values: rounding gives even that a deviation.
        constant = bool(values.min() == values.max())
        return cls(name, float(values[0] if constant else values.mean()), 1.0 if constant else _spread(values))

    def names(self) -> list[str]:
        """The name of the column."""
        return [self.name]

    def cells(self, column: Any, where: RowLocator) -> Cells:
        """Numbers, NaN where missing."""
        values = numbers_or_nan(column, self.name, where)
        return Cells(values, np.isnan(values), _NONE)

    def matrix(self, cells: Cells) -> Matrix:
        """(n, 1) dense."""
        with np.errstate(over="ignore"):  # what is too large is cut off
            scaled = np.clip((cells.values - self.mean) / self.deviation, -FARTHEST, FARTHEST)
        return np.where(cells.missing, 0, scaled).astype(np.float32)[:, None]

    def to_json(self) -> dict[str, Any]:
        """Mean and deviation, to the last bit."""
        return {"kind": self.kind, "name": self.name, "mean": self.mean, "deviation": self.deviation}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Number":
        """Back from `to_json`."""
        return cls(facts["name"], float(facts["mean"]), float(facts["deviation"]))


def _spread(values: npt.NDArray[np.float64]) -> float:
    """The standard deviation, never 0: of tiny values it is taken at a scale at which squares have room."""
    scale = float(np.abs(values).max())
    return float((values / scale).std() * scale) or 1.0


@dataclass(frozen=True)
class Category:
    """One of several values: a column of the matrix for each that training saw; any other one is in none."""

    name: str
    values: tuple[str, ...]
    kind: ClassVar[str] = "category"
    sparse: ClassVar[bool] = True
    shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values) or "" in self.values:
            raise InputError(f"column {self.name!r} needs categories that are distinct and have a name")

    @classmethod
    def learn(cls, name: str, column: Any, where: RowLocator) -> "Category":
        """From the values of training, sorted."""
        values = _categories(column, name, where).names
        if not values:
            raise _no_value(name, where)
        return cls(name, values)

    @property
    def width(self) -> int:
        """One for each category."""
        return len(self.values)

    def names(self) -> list[str]:
        """Such as town=Bern."""
        return [f"{self.name}={value}" for value in self.values]

    def cells(self, column: Any, where: RowLocator) -> Cells:
        """The place of each category, -1 if missing or unknown."""
        found, place = _categories(column, self.name, where), self._places
        known = np.array([*(place.get(name, -1) for name in found.names), -1], np.int64)
        codes, missing = known[found.codes], found.codes < 0
        unknown = np.flatnonzero((codes < 0) & ~missing)
        return Cells(codes, missing, unknown, found[int(unknown[0])] if len(unknown) else None)

    def matrix(self, cells: Cells) -> Matrix:
        """(n, width) CSR with a 1 for each category that is known."""
        there = cells.values >= 0
        start = np.concatenate([[0], np.cumsum(there)])
        ones = np.ones(int(start[-1]), np.float32)
        return sp.csr_array((ones, cells.values[there], start), shape=(len(there), self.width))

    def to_json(self) -> dict[str, Any]:
        """The categories in order."""
        return {"kind": self.kind, "name": self.name, "values": list(self.values)}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Category":
        """Back from `to_json`."""
        return cls(facts["name"], _strings(facts["values"]))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}


@dataclass(frozen=True)
class Text:
    """Words as TF-IDF, a row of unit length; a missing text is an empty one, all zeros."""

    name: str
    vocabulary: TextVocabulary
    kind: ClassVar[str] = "text"
    sparse: ClassVar[bool] = True
    shared: ClassVar[bool] = False

    @classmethod
    def learn(cls, name: str, column: Any, where: RowLocator) -> "Text":
        """From the texts of training."""
        texts = _texts(column, name, cls.kind, where).values
        try:
            return cls(name, TextVocabulary.learn(texts))
        except InputError as problem:
            raise InputError(f"{where.name}, column {name!r}: {problem}") from problem

    @property
    def width(self) -> int:
        """One for each word."""
        return len(self.vocabulary)

    def names(self) -> list[str]:
        """Such as wares:bread."""
        return [f"{self.name}:{word}" for word in self.vocabulary.words]

    def cells(self, column: Any, where: RowLocator) -> Cells:
        """The texts, empty where missing."""
        return _texts(column, self.name, self.kind, where)

    def matrix(self, cells: Cells) -> Matrix:
        """(n, width) CSR."""
        return self.vocabulary.attributes(cells.values)

    def to_json(self) -> dict[str, Any]:
        """Words and weights, to the last bit."""
        words, idf = list(self.vocabulary.words), self.vocabulary.idf.tolist()
        return {"kind": self.kind, "name": self.name, "words": words, "idf": idf}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Text":
        """Back from `to_json`."""
        idf = np.array(facts["idf"], np.float64)
        if idf.ndim != 1 or not np.isfinite(idf).all():
            raise FormatError(f"the words of column {facts['name']!r} do not have a finite weight each")
        return cls(facts["name"], TextVocabulary(_strings(facts["words"]), idf))


@dataclass(frozen=True, eq=False)
class Sentence:
    """Texts as the vectors of a sentence model, which is on the machine and not in the pipeline; of unit length.

    `probe` (width,) is what the model answers to a fixed sentence: by that it is known again.
    """

    name: str
    model: str
    probe: npt.NDArray[np.float32]
    kind: ClassVar[str] = "sentence"
    sparse: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    @classmethod
    def learn(cls, name: str, model: str) -> "Sentence":
        """The model is taken as it is; nothing is learned from the texts."""
        return cls(name, model, SentenceModel(model).probe)

    @property
    def width(self) -> int:
        """That of the model's vectors."""
        return len(self.probe)

    def names(self) -> list[str]:
        """Such as abstract[0]."""
        return [f"{self.name}[{place}]" for place in range(self.width)]

    def cells(self, column: Any, where: RowLocator) -> Cells:
        """The texts, empty where missing."""
        return _texts(column, self.name, self.kind, where)

    def matrix(self, cells: Cells) -> Matrix:
        """(n, width) dense; a text that is empty or missing is all zeros."""
        if not cells.values:
            return np.zeros((0, self.width), np.float32)
        return self._encoder.vectors(cells.values)

    def to_json(self) -> dict[str, Any]:
        """The model's name, and how it is known again."""
        probe = self.probe.astype(np.float64).tolist()
        return {"kind": self.kind, "name": self.name, "model": self.model, "probe": probe}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Sentence":
        """Back from `to_json`; the model is not looked for yet."""
        probe = np.array(facts["probe"], np.float32)
        if probe.ndim != 1 or not len(probe) or not np.isfinite(probe).all():
            raise FormatError(f"column {facts['name']!r} does not tell its sentence model")
        (model,) = _strings([facts["model"]])
        return cls(facts["name"], model, probe)

    @cached_property
    def _encoder(self) -> SentenceModel:
        found = SentenceModel(self.model)
        found.check(self.probe)
        return found


COLUMNS: dict[str, Any] = {each.kind: each for each in (Number, Category, Text, Sentence)}


def _categories(column: Any, name: str, where: RowLocator) -> Categories:
    """What a row's category is, as text: frames with gaps make 1.0 of 1, which is the same category."""
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    fits = (is_text, is_number, pa.types.is_temporal, pa.types.is_null)
    if not any(test(plain) for test in fits):
        raise InputError(
            f"{where.name}: column {name!r} is a category, but holds {column.type}; wanted text, numbers or dates"
        )
    found = Categories.of(column)
    if not pa.types.is_floating(plain):
        return found
    return Categories(found.codes, tuple(each.removesuffix(".0") for each in found.names))


def _texts(column: Any, name: str, kind: str, where: RowLocator) -> Cells:
    if not (is_text(column.type) or pa.types.is_null(column.type)):
        raise InputError(
            f"{where.name}: column {name!r} is a {kind}, but holds {column.type}; wanted text, or say what else it is"
        )
    chunks = [plain_array(chunk) for chunk in column.chunks]
    texts = ["" if text is None else text for chunk in chunks for text in chunk.to_pylist()]
    return Cells(texts, np.array([not text for text in texts], np.bool_), _NONE)


def _no_value(name: str, where: RowLocator) -> InputError:
    return InputError(f"{where.name}: column {name!r} has no value at all; leave it out: {name}=drop")


def _strings(values: Sequence[Any]) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise FormatError(f"wanted a list of texts, not {values!r:.40}")
    return tuple(values)
