"""svmlight files: rows of a label and sparse attributes, whole or piece by piece."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.categories import Categories
from glace.errors import InputError
from glace.features.columns import RowLocator
from glace.ids import NodeIds
from glace.io.tables import NodeTable
from glace.io.text_file import one_line

PIECE_BYTES = 16 << 20
MOST_COLUMNS = 2**31 - 1


class Piece(NamedTuple):
    """Some rows of a file, their labels, and the share of the file that has been read."""

    rows: sp.csr_array
    labels: npt.NDArray[np.float64]
    share: float


def read_svmlight(path: Path, width: int | None = None) -> NodeTable:
    """All nodes of a file; their ids are row numbers from 0."""
    matrix, labels = _load(path.name, str(path), width)
    return NodeTable(NodeIds.numbered(len(labels)), RowLocator(path.name), matrix, categories_of(labels))


def svmlight_pieces(path: Path) -> Iterator[Piece]:
    """The rows of a file, some megabytes at a time; they have more columns than they need."""
    with path.open("rb") as opened:
        while piece := opened.read(PIECE_BYTES) + opened.readline():
            rows, labels = _load(path.name, io.BytesIO(piece), MOST_COLUMNS)
            yield Piece(rows, labels, opened.tell() / path.stat().st_size)


def categories_of(labels: npt.NDArray[np.float64]) -> Categories:
    """The labels as categories; 1.0 is called 1."""
    distinct, places = np.unique(labels, return_inverse=True)
    names = [str(int(label)) if label.is_integer() else str(label) for label in distinct.tolist()]
    return Categories.of(pa.DictionaryArray.from_arrays(places.astype(np.int32), pa.array(names, pa.string())))


def _load(name: str, source: Any, width: int | None) -> tuple[sp.csr_array, npt.NDArray[np.float64]]:
    from sklearn.datasets import load_svmlight_file

    try:
        # Counted from 0 whatever the file says: one that counts from 1 has an empty first column, which does no
        # harm, while a guess could take the rows of two files that belong together differently.
        matrix, labels = load_svmlight_file(source, n_features=width, zero_based=True)
    except (ValueError, TypeError, OverflowError, IndexError) as problem:
        raise InputError(f"{name} cannot be read as svmlight: {one_line(problem)}") from problem
    return matrix, labels
