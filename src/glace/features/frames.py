"""Data frames of any library as Arrow tables, their columns found by name."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from glace.errors import InputError
from glace.features.columns import RowLocator


def arrow_table(frame: Any, name: str) -> pa.Table:
    """A frame (pandas, polars, pyarrow) as a table, a named pandas index as its first column."""
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
    """pandas adds its index as last columns: a named one is the id, an unnamed one only row numbers."""
    described = (table.schema.metadata or {}).get(b"pandas", b"{}")
    index = [name for name in json.loads(described).get("index_columns", []) if name in table.column_names]
    named = [name for name in index if not name.startswith("__index_level_")]
    return table.select(named + [name for name in table.column_names if name not in index])


def check_names(names: Sequence[str], where: RowLocator) -> None:
    """Raise if two columns have one name: which of them is meant cannot be known."""
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise InputError(f"{where.name}: two columns are called {repeated[0]!r}; rename one")


def ordered(table: pa.Table, key: str | None, names: Sequence[str], where: RowLocator) -> pa.Table:
    """The id column, if there is one, then the named ones, which must be all there are but labels and types."""
    given = [name for name in table.column_names if name not in (key, "label", "type")]
    missing = next((name for name in names if name not in given), None)
    if missing is not None:
        taken = " but the ids" if missing == key else ""
        raise InputError(
            f"{where.name}: no column {missing!r}{taken}; the model wants its {len(names):,} attributes by name"
        )
    strange = next((name for name in given if name not in names), None)
    if strange is not None:
        raise InputError(
            f"{where.name}: column {strange!r} is not among the model's {len(names):,} attributes; remove it"
        )
    return table.select([*([key] if key else []), *names])
