"""New nodes of a Spark data frame: `embed_batches` on every executor, through mapInArrow. Needs the extra `spark`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from glace.errors import InputError
from glace.features.columns import RowLocator, id_column
from glace.fitted.batches import BatchEmbedder, embed_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INTEGERS = ("tinyint", "smallint", "int", "bigint")
SPARK_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.float32(): "float", pa.bool_(): "boolean"}


def embed(frame: "DataFrame", model: str | Path, *, node_type: str | None = None, texts: bool = False) -> "DataFrame":
    """Embed the rows of a Spark data frame, each a new node.

    Nothing runs before Spark runs the result. Every Python worker loads the model once. Rows have the bits that
    ``glace embed`` gives, on processors of the same kind.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        An id column, `id` or the first, and the columns of the training; sparse rows as the arrays `columns` and
        `values`.
    model : path
        The model file, at the same path on the driver and on every executor: on a shared file system, or copied.
    node_type : str, optional
        Type of the nodes, for a model with several node types.
    texts : bool
        Whether the columns are ids and texts.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `glace.embed_batches`; means and variances are arrays of floats.

    Raises
    ------
    InputError
        If the model cannot be read or cannot embed such rows, or the ids are neither strings nor integers.
    """
    embedder = embed_batches(model, node_type=node_type, texts=texts)
    key = id_column(frame.columns, RowLocator("the frame"))
    kind = frame.schema[key].dataType.simpleString()
    if kind not in (*INTEGERS, "string"):
        raise InputError(f"the frame: ids must be strings or integers, but column {key!r} holds {kind}")
    wanted = _for_spark(embedder.schema(pa.string() if kind == "string" else pa.int64()))
    columns = ", ".join(f"`{each.name}` {_spark_type(each.type)}" for each in wanted)
    return frame.mapInArrow(_Partition(embedder, wanted), columns)


@dataclass(frozen=True)
class _Partition:
    """Embeds the batches of a partition; Spark takes lists of any length, and strings of 32-bit offsets."""

    embedder: BatchEmbedder
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.cast(self.schema) for batch in self.embedder(batches))


def _for_spark(schema: pa.Schema) -> pa.Schema:
    lists = pa.list_(pa.float32())
    fields = [(each.name, lists if pa.types.is_fixed_size_list(each.type) else each.type) for each in schema]
    return pa.schema(fields)


def _spark_type(kind: pa.DataType) -> str:
    return f"array<{_spark_type(kind.value_type)}>" if pa.types.is_list(kind) else SPARK_TYPES[kind]
