"""Convert the new nodes of a request to the attributes that a model takes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.errors import InputError
from glace.graph.graph import NodeType


def takes(node_type: NodeType) -> str | None:
    """How nodes of a type can be described: by `texts`, by `names` of attributes, by `attributes`, or not at all.

    Mixed columns are described by `rows` of them.
    """
    if node_type.width is None:
        return None
    if node_type.pipeline is not None:
        return "texts" if node_type.pipeline.vocabulary is not None else "rows"
    return "attributes" if node_type.feature_names is None else "names"


def attributes_of(nodes: list[Any], how: str, node_type: NodeType) -> Any:
    """The argument of `transform` for nodes that are described by "texts", "attributes", "names" or "rows"."""
    if how == "rows":
        return _by_rows(node_type, nodes)
    if how == "names":
        return _by_names(node_type, nodes)
    return _matrix(nodes) if how == "attributes" else nodes


def _by_rows(node_type: NodeType, rows: list[dict[str, Any]]) -> pa.Table:
    """A table of the model's columns; a value that a row does not have is missing."""
    if node_type.pipeline is None:
        raise InputError("the model has no mixed columns; give attributes, names or texts")
    known = node_type.pipeline.table_names
    unknown = next((name for row in rows for name in row if name not in known), None)
    if unknown is not None:
        raise InputError(f"no column is called {unknown!r}; the columns are {', '.join(known)}")
    try:
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in known})
    except (pa.ArrowException, TypeError) as problem:
        raise InputError(f"the values of a column must be of one kind: {problem}") from problem


def _by_names(node_type: NodeType, names: list[list[str]]) -> sp.csr_array:
    """A sparse matrix with a one for each named attribute; an unknown name raises."""
    if node_type.feature_names is None:
        raise InputError("the model's attributes have no names; give attributes or texts")
    known = {name: column for column, name in enumerate(node_type.feature_names)}
    unknown = next((name for row in names for name in row if name not in known), None)
    if unknown is not None:
        raise InputError(f"no attribute is called {unknown!r}")
    entries = [(row, known[name]) for row, listed in enumerate(names) for name in sorted(set(listed))]
    row, column = np.array(entries, np.int64).reshape(-1, 2).T
    return sp.csr_array((np.ones(len(row), np.float32), (row, column)), shape=(len(names), len(known)))


def _matrix(rows: list[list[float]]) -> npt.NDArray[np.float32]:
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise InputError(f"all rows of attributes need the same width, not {', '.join(map(str, sorted(widths)))}")
    return np.array(rows, np.float32)
