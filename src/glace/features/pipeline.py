"""Numbers, categories and texts of a table to one attribute matrix, and new rows to the same columns.

A pipeline is plain data: it is learned from the training table, stored with the model, and applied to new rows exactly
as to those of the training.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.errors import FormatError, InputError
from glace.features.column_kinds import COLUMNS, Cells, Column, Number, Sentence, Text
from glace.features.columns import (
    Frame,
    RowLocator,
    are_sparse_rows,
    arrow_table,
    dense_of,
    distinct,
    ids_of,
    ordered,
    sparse_rows_of,
)
from glace.features.layout import PLAIN, TableLayout
from glace.features.text import TextVocabulary
from glace.ids import NodeIds
from glace.sparse import Matrix
from glace.values import UNIT

DROP = "drop"
KINDS = (*COLUMNS, DROP)
# Names of columns and of folders may hold equals signs, too.
_NAME_AND_KIND = re.compile(rf"(.+?)=({'|'.join(KINDS)}|{Sentence.kind}:.+)", re.S)
TEXT = "text"
"""Name of the only column of a graph made from texts."""

Kinds = Mapping[str, str]
"""The kind of each column of a table: number, category, text, sentence:MODEL, or drop."""


@dataclass(frozen=True)
class Count:
    """How many cells of one column are missing, and how many have a value that did not occur in training."""

    column: str
    missing: int
    unknown: int
    first_unknown: str | None = None
    first_row: int | None = None
    """The row of the first unknown value, counted from 1."""

    def __add__(self, other: "Count") -> "Count":
        first = self if self.unknown else other
        total = self.missing + other.missing, self.unknown + other.unknown
        return Count(self.column, *total, first.first_unknown, first.first_row)

    def line(self) -> str | None:
        """Return one line for users; None if all values are known."""
        unknown = f"{self.unknown:,} never seen in training (first: {self.first_unknown!r:.60} in row {self.first_row})"
        said = [unknown] * (self.unknown > 0) + [f"{self.missing:,} missing"] * (self.missing > 0)
        return f"values of {self.column!r} taken as unknown: {', '.join(said)}" if said else None


@dataclass(frozen=True, eq=False)
class FeaturePipeline:
    """How the columns of a table become the attribute matrix, side by side in this order.

    Parameters
    ----------
    columns
        The columns that are used.
    dropped
        Names of columns that are ignored, in new tables too.
    """

    columns: tuple[Column, ...]
    dropped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [*self.table_names, *self.dropped]
        if not self.columns or len(set(names)) != len(names):
            raise InputError("a pipeline needs at least one column, and a name of its own for each")

    @classmethod
    def learn(cls, table: pa.Table, names: Sequence[str], kinds: Kinds, where: RowLocator) -> "FeaturePipeline":
        """Learn a pipeline from the named columns of a table; those without a kind are numbers."""
        _check_kinds(names, kinds, where)
        used = [name for name in names if kinds.get(name) != DROP]
        if not used:
            raise InputError(f"{where.name}: all columns are dropped; leave the attributes out instead")
        columns = tuple(_learned(name, kinds.get(name, Number.kind), table, where) for name in used)
        return cls(columns, tuple(name for name in names if kinds.get(name) == DROP))

    @classmethod
    def of_texts(cls, vocabulary: TextVocabulary) -> "FeaturePipeline":
        """Return the pipeline of a graph made from texts."""
        return cls((Text(TEXT, vocabulary),))

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of the columns of the table."""
        return tuple(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return sum(column.width for column in self.columns)

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is CSR, which one-hot and TF-IDF columns require."""
        return any(column.sparse for column in self.columns)

    @property
    def scaling(self) -> str | None:
        """How rows of the matrix are scaled: to unit length, as blocks of columns are by now; None without words.

        Without categories and texts the values decide, as those of any other table of numbers.
        """
        return UNIT if self.is_sparse else None

    @property
    def vocabulary(self) -> TextVocabulary | None:
        """The vocabulary of a pipeline whose only column is a text."""
        (first, *others) = self.columns
        return first.vocabulary if isinstance(first, Text) and not others else None

    def names(self) -> tuple[str, ...]:
        """Return the names of the columns of the matrix, such as price, town=Bern, wares:bread."""
        return tuple(name for column in self.columns for name in column.names())

    def short_names(self) -> tuple[str, ...]:
        """Return the same names, but for the words of a pipeline whose only column is a text: they name themselves."""
        return self.names() if self.vocabulary is None else self.vocabulary.words

    def lines(self) -> list[tuple[str, str]]:
        """Return the name of each column of the table with a description of its encoding."""
        return [(column.name, _described(column)) for column in self.columns]

    def matrix(self, frame: Frame) -> Matrix:
        """Return the (n, width) float32 matrix of a data frame: CSR if `is_sparse`, else dense."""
        return self.mixed(arrow_table(frame, "attributes"), RowLocator("attributes"))[0]

    def counts(self, frame: Frame) -> tuple[Count, ...]:
        """Return for each column how many cells of a data frame are missing or unknown."""
        table, where = arrow_table(frame, "attributes"), RowLocator("attributes")
        return tuple(_count(*each, where) for each in self._cells(table, where))

    def mixed(self, table: pa.Table, where: RowLocator) -> tuple[Matrix, tuple[Count, ...]]:
        """Return the (n, width) matrix of a table's rows, and for each column how many cells are missing or unknown."""
        cells = self._cells(table, where)
        counts = tuple(_count(*each, where) for each in cells)
        number = Counter(column.kind for column in self.columns)
        blocks = []
        for column, values in cells:
            block = column.matrix(values)
            blocks.append(block * np.float32(1 / math.sqrt(number[column.kind])) if column.shared else block)
        return _side_by_side(blocks, self.is_sparse), counts

    def have_numbers(self, table: pa.Table, where: RowLocator) -> npt.NDArray[np.bool_]:
        """Return (n,) whether a row has a number: at the mean it becomes a zero, and yet the row is not empty."""
        filled = [
            ~column.cells(table.column(column.name), where).missing
            for column in self.columns
            if isinstance(column, Number)
        ]
        return np.logical_or.reduce(filled) if filled else np.zeros(table.num_rows, np.bool_)

    def texts(self, table: pa.Table, where: RowLocator) -> list[str]:
        """Return the texts of a table; only for a pipeline whose only column is a text."""
        ((_, cells),) = self._cells(table, where)
        return list(cells.values)

    def suits(self, names: Sequence[str]) -> bool:
        """Return whether the pipeline applies to a table with these columns; a model of texts accepts a matrix, too."""
        return self.vocabulary is None or self.columns[0].name in names

    def chosen(self, table: pa.Table, key: str | None, where: RowLocator, layout: TableLayout = PLAIN) -> pa.Table:
        """Return the id column, if any, and the columns of the pipeline; other columns raise InputError."""
        kept = [name for name in table.column_names if name == key or name not in self.dropped]
        return ordered(table.select(kept), key, self.table_names, where, layout)

    def same_as(self, other: "FeaturePipeline | None") -> bool:
        """Return whether the other pipeline is equal."""
        return other is not None and bool(np.array_equal(self.to_bytes(), other.to_bytes()))

    def to_bytes(self) -> npt.NDArray[np.uint8]:
        """Return the fields of all columns as UTF-8 JSON, exactly."""
        facts = {"columns": [{"kind": each.kind, **asdict(each)} for each in self.columns], "dropped": self.dropped}
        text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False, default=np.ndarray.tolist)
        return np.frombuffer(text.encode(), np.uint8)

    @classmethod
    def from_bytes(cls, content: npt.NDArray[Any], width: int) -> "FeaturePipeline":
        """Return the pipeline of `to_bytes`; FormatError if it is damaged or makes a matrix of another width."""
        try:
            facts = json.loads(content.astype(np.uint8).tobytes().decode())
            found = cls(
                tuple(COLUMNS[each["kind"]].from_json(each) for each in facts["columns"]), tuple(facts["dropped"])
            )
            if not all(isinstance(name, str) for name in (*found.table_names, *found.dropped)):
                raise TypeError("the name of a column is not text")
        except (InputError, FormatError, KeyError, TypeError, ValueError, RecursionError) as problem:
            raise FormatError(f"the pipeline of the attributes is damaged: {problem}") from problem
        if found.width != width:
            raise FormatError(f"the pipeline makes {found.width:,} attributes, but there are {width:,}")
        return found

    def _cells(self, table: pa.Table, where: RowLocator) -> list[tuple[Column, Cells]]:
        absent = next((name for name in self.table_names if name not in table.column_names), None)
        if absent is not None:
            raise InputError(f"{where.name}: no column {absent!r}, which the pipeline of the attributes wants")
        return [(column, column.cells(table.column(column.name), where)) for column in self.columns]


def parsed_columns(given: Sequence[str]) -> dict[str, str]:
    """Return the kinds of columns that the command line gives as NAME=KIND."""
    found: dict[str, str] = {}
    for each in given:
        parts = _NAME_AND_KIND.fullmatch(each)
        if parts is None:
            raise _bad_kind(each)
        name, kind = parts.groups()
        if name in found:
            raise InputError(f"column {name!r} is given twice, as {found[name]} and {kind}; give it once")
        found[name] = kind
    return found


def _bad_kind(given: str) -> InputError:
    name, equals, kind = given.rpartition("=")
    kinds = f"kinds: {', '.join(KINDS)} (sentence:MODEL)"
    if not equals or not name:
        return InputError(f"a column is given as NAME=KIND, not {given!r}; {kinds}")
    if kind == "label":
        return InputError(f"column {name!r} cannot be a label here; name the labels", hint=("label_column", name))
    return InputError(f"column {name!r} cannot be {kind!r}; {kinds}")


def distinct_columns(pipeline: FeaturePipeline, rows: int) -> int:
    """Return the number of category columns in which every row has its own category."""
    return sum(column.kind == "category" and column.width == rows > 1 for column in pipeline.columns)


def _check_kinds(names: Sequence[str], kinds: Kinds, where: RowLocator) -> None:
    for name, kind in kinds.items():
        if name not in names:
            shown = ", ".join(repr(each) for each in names[:10]) + (", ..." if len(names) > 10 else "")
            raise InputError(f"{where.name}: {name!r} is not a column of attributes; those are {shown or 'none'}")
        plain, _, model = kind.partition(":") if isinstance(kind, str) else (kind, "", "")
        if plain not in KINDS or (model and plain != Sentence.kind):
            raise InputError(f"column {name!r} cannot be {kind!r}; kinds: {', '.join(KINDS)}")
        if plain == Sentence.kind and not model:
            raise InputError(
                f"column {name!r}: name the sentence model, as sentence:MODEL, a name or the path of a folder"
            )


def _learned(name: str, kind: str, table: pa.Table, where: RowLocator) -> Column:
    plain, _, model = kind.partition(":")
    column = COLUMNS[plain]
    if issubclass(column, Sentence):
        return column.learn(name, model)
    return column.learn(name, table.column(name), where)


def _side_by_side(blocks: list[Matrix], sparse: bool) -> Matrix:
    if not sparse:
        return np.hstack(blocks, dtype=np.float32)
    return sp.csr_array(sp.hstack([sp.csr_array(block) for block in blocks], format="csr"), dtype=np.float32)


def _count(column: Column, cells: Cells, where: RowLocator) -> Count:
    missing, unknown = int(cells.missing.sum()), len(cells.unknown)
    if not unknown:
        return Count(column.name, missing, 0)
    return Count(column.name, missing, unknown, cells.first, where.number(int(cells.unknown[0])))


def _described(column: Column) -> str:
    if isinstance(column, Number):
        return f"number, mean {column.mean:.4g}, deviation {column.deviation:.4g}"
    if isinstance(column, Sentence):
        return f"sentence, {column.width:,} columns by the model {column.model}"
    return f"{column.kind}, {column.width:,} {'words' if isinstance(column, Text) else 'categories'}"


class Rows(NamedTuple):
    """New nodes: their ids, attributes or texts, and how many cells of each column are missing or unknown."""

    ids: NodeIds
    values: Matrix | list[str]
    counts: tuple[Count, ...] = ()


class NewColumns(NamedTuple):
    """What a model knows about the columns of new nodes.

    `width` is the number of attributes, which sparse rows do not state; `names` are theirs in the order of the
    training, if they are known. With a `pipeline`, columns are looked up by its names. `layout` says which column
    is the label.
    """

    width: int | None = None
    names: Sequence[str] | None = None
    pipeline: FeaturePipeline | None = None
    layout: TableLayout = PLAIN

    def values(
        self, table: pa.Table, key: str | None, where: RowLocator
    ) -> tuple[Matrix | list[str], tuple[Count, ...]]:
        """Return the attributes of a table's rows, or their texts if the pipeline is one text column, and the counts.

        `key` is the name of the id column, if there is one.
        """
        if self.pipeline is not None and self.pipeline.suits(table.column_names):
            chosen = self.pipeline.chosen(table, key, where, self.layout)
            if self.pipeline.vocabulary is not None:
                return self.pipeline.texts(chosen, where), self.pipeline.counts(chosen)
            return self.pipeline.mixed(chosen, where)
        columns = [name for name in table.column_names if name not in (key, *self.layout.categories)]
        if not columns:
            raise InputError(f"{where.name}: no attribute columns; an id and numbers are needed")
        if self.names is None and are_sparse_rows(table.schema, columns):
            matrix = sparse_rows_of(table, where)
            matrix.resize(table.num_rows, max(self.width or 0, matrix.shape[1]))
            return matrix, ()
        names = columns if self.names is None else list(self.names)
        return dense_of(ordered(table, key, names, where, self.layout), names, where, declarable=False), ()


def frame_rows(frame: Frame, columns: NewColumns) -> Rows:
    """Return the ids and attributes of the new nodes in a data frame: a pandas, polars or Arrow table.

    Its ids are the column `id` or, if the attributes have names, the only column that is not an attribute; without such
    a column they are 0, 1, ...
    """
    table, where = arrow_table(frame, "attributes"), RowLocator("attributes")
    names, pipeline = columns.names, columns.pipeline
    if pipeline is not None and pipeline.suits(table.column_names):
        names = [*pipeline.table_names, *pipeline.dropped]
    key = _key(table, names)
    ids = NodeIds.numbered(table.num_rows) if key is None else distinct(ids_of(table, key, where), where)
    return Rows(ids, *columns.values(table, key, where))


def _key(table: pa.Table, names: Sequence[str] | None) -> str | None:
    """Return the id column: `id` or, if the attributes have names, the only other one."""
    others = [name for name in table.column_names if name not in (*(names or ()), *PLAIN.categories)]
    if "id" in others:
        return "id"
    return others[0] if names is not None and len(others) == 1 else None
