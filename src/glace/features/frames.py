"""Data frames of any library as Arrow tables."""

import json
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from glace.errors import InputError
from glace.features.columns import RowLocator


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


def ordered(table: pa.Table, key: str | None, names: Sequence[str], where: RowLocator) -> pa.Table:
    """Return the id column, if any, and the named columns in their order; other columns except label and type raise."""
    given = [name for name in table.column_names if name not in (key, "label", "type")]
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
