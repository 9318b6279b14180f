"""Answers as tables: frozen dataclasses whose fields are columns of equal length."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    import pandas

Column = npt.NDArray[np.generic]
Value = str | int | float | bool | None
SHOWN = 20
"""Rows that a notebook shows."""


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns as numpy arrays; a column that does not apply is None, and ids are integers or strings."""

    hidden: ClassVar[tuple[str, ...]] = ()
    """Fields that are not columns of the output."""

    def columns(self) -> dict[str, Column]:
        """The columns that apply, by name and in order."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in self.hidden}
        return {name: column for name, column in values.items() if column is not None}

    def __len__(self) -> int:
        return len(next(iter(self.columns().values())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} rows: {', '.join(self.columns())})"

    def __iter__(self) -> Iterator[dict[str, Value]]:
        return iter(self.rows())

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns():
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns())}")
        return self.columns()[name]

    def _repr_html_(self) -> str:
        """The first rows as an HTML table, which notebooks show."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns())
        shown = ["".join(f"<td>{html.escape(_text(value))}</td>" for value in row.values()) for row in self._first()]
        body = "".join(f"<tr>{cells}</tr>" for cells in shown)
        more = f"<p>{len(self) - SHOWN:,} more rows</p>" if len(self) > SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _first(self) -> list[dict[str, Value]]:
        columns = {name: column[:SHOWN].tolist() for name, column in self.columns().items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the columns to pyarrow, polars, DuckDB and whatever else takes Arrow data."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def rows(self) -> list[dict[str, Value]]:
        """One dict of plain values per row."""
        columns = self.columns()
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in values]

    def to_arrow(self) -> pa.Table:
        """The columns as an Arrow table."""
        return pa.table({name: _arrow(column) for name, column in self.columns().items()})

    def to_pandas(self) -> "pandas.DataFrame":
        """The columns as a data frame."""
        return self.to_arrow().to_pandas()


def _text(value: Value) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _arrow(column: Column) -> pa.Array:
    # Without values Arrow cannot know that these objects are strings.
    return pa.array(column, pa.string() if column.dtype == object else None)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Neighbors(Table):
    """The nodes most similar to each query, most similar first; ties in the order of the nodes.

    Attributes
    ----------
    query, id : ndarray
        Id of the query and of the answer.
    label, type : ndarray, optional
        Label and node type of the answer, where the graph has them.
    dissimilarity : ndarray of float
        From the query to the answer.
    variance_term : ndarray of float, optional
        The part of the dissimilarity that comes from unequal variances; the rest comes from distance. Missing for a
        measure that the embedding was not trained with.
    certainty : ndarray of float, optional
        Certainty of the answer's Gaussian, 0 to 1.
    novel : ndarray of bool, optional
        For new nodes, whether the query is unlike the training graph: its answers then say nothing about it.
    known : ndarray of bool, optional
        Whether the graph has the edge from the query to the answer.
    doubt : ndarray of str, optional
        What makes answers about the answer uncertain, in words.
    position : ndarray of int
        Row of the answer in the embedding; not a column of the output.
    """

    hidden: ClassVar[tuple[str, ...]] = ("position",)

    query: Column
    id: Column
    label: Column | None = None
    type: Column | None = None
    dissimilarity: npt.NDArray[np.float64]
    variance_term: npt.NDArray[np.float64] | None = None
    certainty: npt.NDArray[np.float32] | None = None
    novel: npt.NDArray[np.bool_] | None = None
    known: npt.NDArray[np.bool_] | None = None
    doubt: Column | None = None
    position: npt.NDArray[np.int64]
