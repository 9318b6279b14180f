"""The rows of new nodes in a table: their ids, and attributes in the columns a model was trained on."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from glace.errors import InputError
from glace.features.columns import RowLocator, distinct, ids_of, matrix_of
from glace.features.frames import Frame, arrow_table, ordered
from glace.features.pipeline import Count, FeaturePipeline
from glace.ids import NodeIds
from glace.sparse import Matrix

CATEGORIES = ("label", "type")
"""Columns that hold a category of the node and no attribute."""


class Rows(NamedTuple):
    """New nodes: their ids, attributes or texts, and how many cells of each column are missing or unknown."""

    ids: NodeIds
    values: Matrix | list[str]
    counts: tuple[Count, ...] = ()


def id_column(names: Sequence[str], where: RowLocator) -> str:
    """Return the name of the id column of a node table: `id` or, without it, the first."""
    if not names:
        raise InputError(f"{where.name}: no columns; wanted an id column and others")
    return "id" if "id" in names else names[0]


def attribute_columns(names: Sequence[str], where: RowLocator) -> list[str]:
    """Return the names of the columns of a node table that hold attributes."""
    return [name for name in names if name not in (id_column(names, where), *CATEGORIES)]


def frame_rows(frame: Frame, names: Sequence[str] | None, pipeline: FeaturePipeline | None = None) -> Rows:
    """Return the ids and attributes of the new nodes in a data frame.

    Parameters
    ----------
    frame
        A pandas, polars or Arrow table. Its ids are the column `id` or, if the attributes have names, the only column
        that is not an attribute; without such a column they are 0, 1, ...
    names
        Names of the attributes in the order of the training, if they are known.
    pipeline
        The pipeline of the training, if there was one; its columns are then looked up by name.
    """
    table, where = arrow_table(frame, "attributes"), RowLocator("attributes")
    if pipeline is not None and pipeline.suits(table.column_names):
        others = _others(table, [*pipeline.table_names, *pipeline.dropped])
        return pipeline_rows(table, _key(others, named=True), pipeline, where)
    others = _others(table, names or [])
    key = _key(others, named=names is not None)
    columns = list(names) if names is not None else [name for name in others if name != key]
    chosen = ordered(table, key, columns, where)
    return Rows(_ids(chosen, key, where), matrix_of(chosen, columns, where))


def pipeline_rows(table: pa.Table, key: str | None, pipeline: FeaturePipeline, where: RowLocator) -> Rows:
    """Return new nodes by a pipeline; if it has nothing but one text column, the texts themselves."""
    chosen = pipeline.chosen(table, key, where)
    ids = _ids(chosen, key, where)
    if pipeline.vocabulary is not None:
        return Rows(ids, pipeline.texts(chosen, where), pipeline.counts(chosen))
    return Rows(ids, *pipeline.mixed(chosen, where))


def _others(table: pa.Table, names: Sequence[str]) -> list[str]:
    return [name for name in table.column_names if name not in (*names, *CATEGORIES)]


def _key(others: list[str], named: bool) -> str | None:
    if "id" in others:
        return "id"
    return others[0] if named and len(others) == 1 else None


def _ids(table: pa.Table, key: str | None, where: RowLocator) -> NodeIds:
    return NodeIds.numbered(table.num_rows) if key is None else distinct(ids_of(table, key, where), where)
