"""Tables and their columns: data frames to Arrow, columns to ids, numbers and categories; errors name the row."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.features.layout import PLAIN, TableLayout, given_columns, named_column
from glace.ids import ArrowColumn, NodeIds, id_array
from glace.sparse import bad_weights

MOST_COLUMNS = 2**31 - 1
_WANTED_ENTRIES = "columns from 0 on and finite values"


@dataclass(frozen=True)
class RowLocator:
    """The name of a table in messages, and the row number that a user sees for its k-th row of data (k from 0)."""

    name: str
    number: Callable[[int], int] = lambda position: position + 1

    def row(self, position: int | np.integer) -> str:
        """Return a position such as "edges.csv, row 3"."""
        return f"{self.name}, row {self.number(int(position))}"


def ids_of(table: pa.Table, name: str, where: RowLocator) -> pa.Array:
    """Return the ids of a column; InputError if one is missing."""
    column = table.column(name)
    _check_filled(column, name, where)
    try:
        return id_array(column)
    except InputError as problem:
        raise InputError(f"{where.name}, column {name!r}: {problem}") from problem


def distinct(ids: pa.Array, where: RowLocator) -> NodeIds:
    """Return ids that must be distinct; InputError for a repeated one."""
    encoded = pc.dictionary_encode(ids)
    if len(encoded.dictionary) < len(ids):
        codes = encoded.indices.to_numpy()
        firsts = np.unique(codes, return_index=True)[1]
        row = int(np.setdiff1d(np.arange(len(codes)), firsts)[0])
        first = where.number(int(firsts[codes[row]]))
        raise InputError(f"{where.row(row)}: id {ids[row].as_py()!r} is also in row {first}; give a node one row")
    return NodeIds(ids)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds text."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(plain) or pa.types.is_large_string(plain) or str(plain) == "string_view"


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds numbers or booleans."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _check_filled(column: ArrowColumn, name: str, where: RowLocator) -> None:
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise InputError(f"{where.row(row)}: no value in column {name!r}; fill it in")


def _numbers(column: ArrowColumn, name: str, where: RowLocator) -> npt.NDArray[np.float64]:
    _check_filled(column, name, where)
    return _as_floats(column)


def _as_floats(column: ArrowColumn) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = pc.cast(column, pa.float64(), safe=False).to_numpy()
    return values


def weights_of(table: pa.Table, name: str, where: RowLocator) -> npt.NDArray[np.float64]:
    """Return the weights of a column; InputError unless each is finite and above 0."""
    column = table.column(name)
    if not (is_number(column.type) or pa.types.is_null(column.type)):
        raise InputError(f"{where.name}: column {name!r} is the weight, but holds {column.type}; expected numbers")
    weights = _numbers(column, name, where)
    bad = bad_weights(weights)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{where.row(row)}: weights must be finite and above 0, but this is {weights[row]}; "
            f"{int(bad.sum()):,} such in all"
        )
    return weights


def dense_of(
    table: pa.Table, columns: list[str], where: RowLocator, *, declarable: bool = True
) -> npt.NDArray[np.float32]:
    """Return the columns as one dense matrix of finite numbers.

    Columns of new nodes are not `declarable`: what kind they are was settled in training.
    """
    dense = np.empty((table.num_rows, len(columns)), dtype=np.float32)
    for place, name in enumerate(columns):
        column = table.column(name)
        _check_number(column, name, where, declarable)
        if column.null_count:
            raise _missing_number(column, name, where, declarable)
        dense[:, place] = _finite(_as_floats(column), name, where)
    return dense


def _missing_number(column: ArrowColumn, name: str, where: RowLocator, declarable: bool) -> InputError:
    row = where.row(pc.index(pc.is_null(column), True).as_py())
    if not declarable:
        return InputError(
            f"{row}: no value in column {name!r}; fill it in: the model was trained without missing values"
        )
    return InputError(
        f"{row}: no value in column {name!r}; fill it in, or declare the column as a number that may be missing",
        hint=("columns", {name: "number"}),
    )


def are_sparse_rows(schema: pa.Schema, columns: list[str]) -> bool:
    """Return whether the attributes are two lists per row: the `columns` that are not zero, and their `values`."""
    return sorted(columns) == ["columns", "values"] and all(
        pa.types.is_list(schema.field(name).type) or pa.types.is_large_list(schema.field(name).type) for name in columns
    )


def sparse_rows_of(table: pa.Table, where: RowLocator) -> sp.csr_array:
    """Return the matrix of such rows, as wide as the largest column requires."""
    columns, values = (_flat(table.column(name), name, where) for name in ("columns", "values"))
    if not (pa.types.is_integer(columns.type) and is_number(values.type)):
        raise InputError(
            f"{where.name}: 'columns' and 'values' are lists of {columns.type} and {values.type}; expected integers "
            "and numbers"
        )
    lengths = [pc.list_value_length(table.column(name)).to_numpy() for name in ("columns", "values")]
    _refuse_row(lengths[0] != lengths[1], where, "as many columns as values")
    ends = np.concatenate([[0], np.cumsum(lengths[0])])
    places, numbers = columns.to_numpy(zero_copy_only=False), values.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        numbers = numbers.astype(np.float32)
    bad = (places < 0) | (places >= MOST_COLUMNS) | ~np.isfinite(numbers)
    _refuse_row(np.add.reduceat(np.append(bad, False), ends[:-1]) * (lengths[0] > 0) > 0, where, _WANTED_ENTRIES)
    shape = (len(lengths[0]), int(places.max(initial=0)) + 1)
    return sp.csr_array((numbers, places.astype(np.int64), ends), shape=shape)


def _flat(column: ArrowColumn, name: str, where: RowLocator) -> pa.Array:
    """Return all values of a column of lists."""
    _check_filled(column, name, where)
    flat = pc.list_flatten(column)
    flat = flat.combine_chunks() if isinstance(flat, pa.ChunkedArray) else flat
    if flat.null_count:
        raise InputError(f"{where.name}: a list in column {name!r} has a missing value; fill it in")
    return flat


def _refuse_row(bad: npt.NDArray[np.bool_], where: RowLocator, wanted: str) -> None:
    if bad.any():
        raise InputError(f"{where.row(int(np.flatnonzero(bad)[0]))}: expected {wanted}")


def texts_of(table: pa.Table, where: RowLocator, layout: TableLayout = PLAIN) -> list[str]:
    """Return the texts of a table of ids and texts; a missing text is empty."""
    name = text_column(table.column_names, where, layout)
    column = table.column(name)
    if not (is_text(column.type) or pa.types.is_null(column.type)):
        raise InputError(f"{where.name}: column {name!r} holds {column.type}, not text; give it as attributes")
    return ["" if text is None else text for text in column.to_pylist()]


def numbers_or_nan(column: ArrowColumn, name: str, where: RowLocator) -> npt.NDArray[np.float64]:
    """Return the (n,) numbers of a column, NaN for missing ones; InputError for infinite ones."""
    _check_number(column, name, where)
    values = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)  # NaN for null
    _finite(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf), name, where)
    return values


def _check_number(column: ArrowColumn, name: str, where: RowLocator, declarable: bool = True) -> None:
    if not (is_number(column.type) or pa.types.is_null(column.type)):
        problem = f"attributes must be numbers, but column {name!r} holds {column.type}{_example(column, where)}"
        if not declarable:
            raise InputError(f"{where.name}: {problem}; correct it: the model was trained on numbers")
        raise InputError(
            f"{where.name}: {problem}; correct it, or declare the column as category, text or drop, in a graph "
            "with node types by its type",
            hint=("columns", {name: "category"}),
        )


def _finite(values: npt.NDArray[np.float64], name: str, where: RowLocator) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        stored = values.astype(np.float32)
    if not np.isfinite(stored).all():
        row = int(np.flatnonzero(~np.isfinite(stored))[0])
        raise InputError(f"{where.row(row)}: column {name!r} is {values[row]}, not a finite 32-bit number")
    return stored


def _example(column: ArrowColumn, where: RowLocator) -> str:
    """Return the first text that is not a number: a single such cell turns a whole column into text."""
    if not is_text(column.type):
        return ""
    for row, value in enumerate(column.to_pylist()):
        if value is not None and not parses(value):
            return f" ({value[:40]!r} in row {where.number(row)})"
    return ""


def label_and_type(
    table: pa.Table, key: str, layout: TableLayout = PLAIN
) -> tuple[Categories | None, Categories | None]:
    """Return the categories of the columns of labels and types, if the table has them."""
    there = set(table.column_names) - {key}
    label, kind = (Categories.of(table.column(name)) if name in there else None for name in layout.categories)
    return label, kind


def parses(text: str) -> bool:
    """Return whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class ArrowStream(Protocol):
    """A data frame of pandas, polars or any library with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table as an Arrow stream."""


Frame: TypeAlias = pa.Table | ArrowStream
"""A table that users pass: pyarrow, pandas, polars and others."""


def arrow_table(frame: Frame, name: str) -> pa.Table:
    """Return a data frame as an Arrow table; a named pandas index becomes the first column."""
    try:
        table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (TypeError, ValueError, AttributeError, pa.ArrowException) as problem:
        raise InputError(
            f"{name} must be a table (pandas, polars, pyarrow), not {type(frame).__name__}: {problem}; "
            "read_tables reads files"
        ) from problem
    check_names(table.column_names, RowLocator(name))
    return _index_first(table)


def _index_first(table: pa.Table) -> pa.Table:
    """Move a named pandas index, which holds the ids, to the front, and drop an unnamed one, which counts rows."""
    described = (table.schema.metadata or {}).get(b"pandas", b"{}")
    index = [name for name in json.loads(described).get("index_columns", []) if name in table.column_names]
    named = [name for name in index if not name.startswith("__index_level_")]
    return table.select(named + [name for name in table.column_names if name not in index])


def check_names(names: Sequence[str], where: RowLocator) -> None:
    """Raise InputError if two columns have the same name."""
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise InputError(f"{where.name}: two columns are called {repeated[0]!r}; rename one")


def ordered(
    table: pa.Table, key: str | None, names: Sequence[str], where: RowLocator, layout: TableLayout = PLAIN
) -> pa.Table:
    """Return the id column, if any, and the named columns in their order; other columns except label and type raise."""
    given = [name for name in table.column_names if name not in (key, *layout.categories)]
    missing = next((name for name in names if name not in given), None)
    if missing is not None:
        taken = " but the ids" if missing == key else ""
        raise InputError(
            f"{where.name}: no column {missing!r}{taken}; the model needs its {len(names):,} attributes by name"
        )
    strange = next((name for name in given if name not in names), None)
    if strange is not None:
        raise InputError(
            f"{where.name}: column {strange!r} is not among the model's {len(names):,} attributes; remove it"
        )
    return table.select([*([key] if key else []), *names])


def id_column(names: Sequence[str], where: RowLocator, layout: TableLayout = PLAIN) -> str:
    """Return the name of the id column of a node table: the given one, `id` or, without it, the first other column."""
    if not names:
        raise InputError(f"{where.name}: no columns; expected an id column and others")
    if layout.id_column is not None:
        return named_column(names, str(layout.id_column), "id_column", where.name)
    taken = set(given_columns(layout, "texts").values())
    return "id" if "id" in names else next((name for name in names if name not in taken), names[0])


def attribute_columns(names: Sequence[str], where: RowLocator, layout: TableLayout = PLAIN) -> list[str]:
    """Return the names of the columns of a node table that hold attributes."""
    if layout.label_column is not None:
        named_column(names, layout.label, "label_column", where.name)
    return [name for name in names if name not in (id_column(names, where, layout), *layout.categories)]


def edge_columns(names: Sequence[str], where: RowLocator, layout: TableLayout = PLAIN) -> list[str]:
    """Names of the source column, the target column and, if there is one, the weight column."""
    given = {
        option: named_column(names, name, option, where.name) for option, name in given_columns(layout, "edges").items()
    }
    weight = given.pop("weight_column", None)
    others = [name for name in names if name != weight]
    weights = [weight] if weight is not None else [name for name in ("weight",) if name in names]
    if len(given) == 1:
        absent = "source_column" if "target_column" in given else "target_column"
        raise InputError("is needed too: name the columns of both ends of an edge", option=absent)
    if given:
        return [given["source_column"], given["target_column"], *weights]
    if "source" in others and "target" in others:
        return ["source", "target", *weights]
    if len(names) < 2:
        raise InputError(
            f"{where.name}: edges need two columns, source and target, but there is {_shown(names) or 'none'}; if "
            "another character separates the columns, name it",
            hint=("separator", "tab"),
        )
    if len(others) > 3 - (weight is not None):
        raise InputError(
            f"{where.name}: {len(names)} columns ({_shown(names)}), and it is not clear which are the edges; name the "
            f"columns of both ends, target_column (--target-column) {names[1]!r}, and of the weight, if any",
            hint=("source_column", names[0]),
        )
    return [*others, *([weight] if weight is not None else [])]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def text_column(names: Sequence[str], where: RowLocator, layout: TableLayout = PLAIN) -> str:
    """Name of the text column of a table of texts: the given one, `text`, otherwise the only other one."""
    if layout.text_column is not None:
        return named_column(names, str(layout.text_column), "text_column", where.name)
    others = attribute_columns(names, where, layout)
    if "text" in others:
        return "text"
    if len(others) != 1:
        raise InputError(
            f"{where.name}: an id and a text column are needed, but there are {_shown(names)}; name the text",
            hint=("text_column", others[0] if others else "NAME"),
        )
    return others[0]
