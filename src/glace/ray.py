"""New nodes of a Ray dataset: `embed_batches` in every worker, through map_batches. Needs the extra `ray`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from glace.features.columns import RowLocator
from glace.fitted.batches import BatchEmbedder, embed_batches

if TYPE_CHECKING:
    from ray.data import Dataset

ROWS = 1 << 14
"""Rows of a batch, unless told."""


def embed(
    dataset: "Dataset", model: str | Path, *, node_type: str | None = None, texts: bool = False, **options: Any
) -> "Dataset":
    """Embed the rows of a Ray dataset, each a new node.

    Nothing runs before Ray runs the result. Every worker loads the model once. Rows have the bits that ``glace embed``
    gives, on processors of the same kind.

    Parameters
    ----------
    dataset : ray.data.Dataset
        An id column, `id` or the first, and the columns of the training; sparse rows as the lists `columns` and
        `values`.
    model : path
        The model file, at the same path on every node: on a shared file system, or copied.
    node_type : str, optional
        Type of the nodes, for a model with several node types.
    texts : bool
        Whether the columns are ids and texts.
    **options
        Options of `Dataset.map_batches`, such as `batch_size`, `concurrency` or `num_cpus`.

    Returns
    -------
    ray.data.Dataset
        The columns of `glace.embed_batches`.

    Raises
    ------
    InputError
        If the model cannot be read or cannot embed such rows.
    """
    embedder = embed_batches(model, node_type=node_type, texts=texts)
    chosen = {"batch_size": ROWS} | options
    return dataset.map_batches(_embedded, fn_args=(embedder,), batch_format="pyarrow", **chosen)


def _embedded(rows: pa.Table, embedder: BatchEmbedder) -> pa.Table:
    return embedder.embed(rows, RowLocator("batch"))[0]
