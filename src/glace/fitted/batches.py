"""New nodes by the billion: a function from Arrow record batches of attributes to record batches of Gaussians."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from glace.errors import InputError
from glace.features.columns import RowLocator, id_column, ids_of, texts_of
from glace.features.pipeline import Count
from glace.fitted.model import FittedModel, load
from glace.fitted.new_nodes import check_has_attributes, new_columns
from glace.queries.novelty import Novelty
from glace.sparse import Matrix


def embed_batches(
    model: FittedModel | str | Path, *, node_type: str | None = None, texts: bool = False, n_jobs: int = 1
) -> "BatchEmbedder":
    """Return a function that embeds new nodes in a stream of Arrow record batches.

    It is what ``glace embed``, `glace.spark.embed` and `glace.ray.embed` run. A row has the same bits in every batch,
    with every number of threads, and in all of them, on processors of one kind. The exception are columns of sentences,
    whose models compute a batch together.

    Parameters
    ----------
    model : path or FittedModel
        A model file or, within one process, a model. Given a path, the function can be pickled: every process loads
        the model once, so the path must lead to the same file there.
    node_type : str, optional
        Type of the nodes, for a model with several node types.
    texts : bool
        Whether the batches hold a text for each id, as ``glace embed --texts``, instead of attributes.
    n_jobs : int
        Number of threads of each process, -1 for one per core.

    Returns
    -------
    BatchEmbedder
        Called with an iterable of record batches, it returns an iterator over as many record batches.

    Raises
    ------
    InputError
        If the model cannot be read, or cannot embed new nodes of this type.

    Examples
    --------
    >>> import glace, pyarrow as pa
    >>> graph = glace.datasets.planted(200, communities=4, attributes=80, words=8)
    >>> fitted = glace.train(graph, {"dim": 8, "hidden": 32, "max_steps": 5})
    >>> embed = glace.embed_batches(fitted)
    >>> rows = pa.record_batch({"id": ["a", "b"], "columns": [[3, 7], [5]], "values": [[1.0, 1.0], [2.0]]})
    >>> for batch in embed([rows, rows]):
    ...     print(batch.num_rows, batch.schema.names)
    2 ['id', 'expected_error', 'certainty', 'novel', 'mean', 'variance', 'novelty', 'unseen']
    2 ['id', 'expected_error', 'certainty', 'novel', 'mean', 'variance', 'novelty', 'unseen']
    """
    given = model if isinstance(model, FittedModel) else Path(model)
    embedder = BatchEmbedder(given, node_type, texts, n_jobs)
    check_has_attributes(embedder.fitted.node_type(node_type))
    return embedder


@dataclass(frozen=True, eq=False)
class BatchEmbedder:
    """Embeds record batches of new nodes; `embed_batches` makes one.

    A batch has an id column, `id` or the first, and the columns of the training; see ``docs/formats.md``. The result
    has the columns of `Embedding.to_arrow` and, if novelty is defined, `novelty` and `unseen`, as in
    `FittedModel.novelty`.
    """

    model: FittedModel | Path
    node_type: str | None = None
    texts: bool = False
    n_jobs: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one batch of Gaussians for each batch of attributes."""
        first = 0
        for batch in batches:
            where = RowLocator("batches", lambda position, first=first: position + first + 1)  # type: ignore[misc]
            embedded = self.embed(pa.Table.from_batches([batch]), where)[0].combine_chunks()
            columns = [column.chunk(0) if column.num_chunks else _empty(column.type) for column in embedded.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=embedded.schema)
            first += batch.num_rows

    @property
    def fitted(self) -> FittedModel:
        """The model, loaded once in a process, and again if its file was replaced."""
        if isinstance(self.model, FittedModel):
            return self.model
        state = self.model.stat() if self.model.is_file() else None
        return _loaded(self.model, state and (state.st_mtime_ns, state.st_size))

    def schema(self, ids: pa.DataType) -> pa.Schema:
        """Return the schema of the result for ids of a type."""
        return self._result(pa.array([], ids), None).schema

    def embed(self, table: pa.Table, where: RowLocator) -> tuple[pa.Table, tuple[Count, ...]]:
        """Embed the rows of a table; return the Gaussians, and the counts of a feature pipeline.

        `where` names the table and its rows in messages.
        """
        key = id_column(table.column_names, where)
        ids = ids_of(table, key, where)
        if self.texts:
            return self.embed_rows(ids, texts_of(table, where)), ()
        values, counts = new_columns(self.fitted.node_type(self.node_type)).values(table, key, where)
        return self.embed_rows(ids, values), counts

    def embed_rows(self, ids: pa.Array, values: Matrix | list[str]) -> pa.Table:
        """Embed rows of attributes, or texts, with these ids, which may repeat."""
        return self._result(ids, values if len(ids) else None)

    def _result(self, ids: pa.Array, values: Matrix | list[str] | None) -> pa.Table:
        fitted = self.fitted
        if values is None:
            nodes = fitted.embedding.take(np.empty(0, np.int64))
            novel, novelty = (np.empty(0, np.bool_), Novelty(*np.empty((2, 0)))) if fitted.has_novelty else (None, None)
            embedding = replace(nodes, novel=novel)
        else:
            embedding, novelty = fitted.transform_with_novelty(values, None, self.node_type, self.n_jobs)
        table = embedding.to_arrow().set_column(0, "id", ids)
        if novelty is None:
            return table
        for name, column in (("novelty", novelty.rank), ("unseen", novelty.unseen)):
            table = table.append_column(name, pa.array(column.astype(np.float32)))
        return table

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self.model, FittedModel):
            raise InputError("a model cannot be sent to other processes; save it, and give embed_batches its path")
        return vars(self) | {"model": self.model.absolute()}  # other processes have other working folders


@lru_cache(maxsize=1)
def _loaded(path: Path, _state: tuple[int, int] | None) -> FittedModel:
    return load(path)


def _empty(kind: pa.DataType) -> pa.Array:
    return pa.array([], kind)


@dataclass(frozen=True)
class EmbeddingSummary:
    """Counts of embedded rows, which add up over batches and files."""

    rows: int = 0
    novel: int = 0
    """Rows that are unlike the training graph."""
    first_novel: tuple[str | int, float] | None = None
    """Id of the first such row, and its share of unseen attributes."""
    counts: tuple[Count, ...] = ()

    @classmethod
    def of(cls, table: pa.Table, counts: tuple[Count, ...]) -> "EmbeddingSummary":
        """Return the summary of a table of embedded rows."""
        high = np.flatnonzero(table["novel"].to_numpy()).tolist() if "novel" in table.column_names else []
        first = (table["id"][high[0]].as_py(), table["unseen"][high[0]].as_py()) if high else None
        return cls(len(table), len(high), first, counts)

    def __add__(self, other: "EmbeddingSummary") -> "EmbeddingSummary":
        counts = tuple(one + two for one, two in zip(self.counts, other.counts, strict=False))
        return EmbeddingSummary(
            self.rows + other.rows,
            self.novel + other.novel,
            self.first_novel or other.first_novel,
            counts or self.counts or other.counts,
        )
