"""svmlight files, rows of a label and sparse attributes, as Arrow tables of sparse rows, whole or in pieces."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from glace.errors import InputError
from glace.io.text_file import one_line

PIECE_BYTES = 16 << 20


def read_svmlight(path: Path) -> pa.Table:
    """Read a whole file: the columns id (row numbers from 0), label, and the lists `columns` and `values`."""
    return _table(path.name, str(path), 0)


def svmlight_pieces(path: Path) -> Iterator[tuple[pa.Table, float]]:
    """Read a file a few megabytes at a time; yield the share of the file read so far with each piece."""
    first = 0
    with path.open("rb") as opened:
        while piece := opened.read(PIECE_BYTES) + opened.readline():
            table = _table(path.name, io.BytesIO(piece), first)
            yield table, opened.tell() / path.stat().st_size
            first += table.num_rows


def _table(name: str, source: str | io.BytesIO, first: int) -> pa.Table:
    from sklearn.datasets import load_svmlight_file

    try:
        # Columns are numbered from 0 in any case: a file that numbers them from 1 has an empty first column, which does
        # no harm, whereas guessing could read two files that belong together differently.
        matrix, labels = load_svmlight_file(source, zero_based=True)
    except (ValueError, TypeError, OverflowError, IndexError) as problem:
        raise InputError(f"{name} cannot be read as svmlight: {one_line(problem)}") from problem
    distinct, places = np.unique(labels, return_inverse=True)
    names = [str(int(label)) if label.is_integer() else str(label) for label in distinct.tolist()]  # 1.0 is called 1
    ends = matrix.indptr.astype(np.int64)
    columns, values = (pa.LargeListArray.from_arrays(ends, array) for array in (matrix.indices, matrix.data))
    return pa.table(
        {
            "id": np.arange(first, first + len(labels)),
            "label": pa.array(names, pa.string()).take(pa.array(places)),
            "columns": columns,
            "values": values,
        }
    )
