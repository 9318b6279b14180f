"""Labels and node types: at most one category per node."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from glace.blocks import blocks
from glace.errors import InputError
from glace.ids import ArrowColumn, plain_array

CategoryColumn: TypeAlias = Iterable[str | int | float | None] | npt.NDArray[Any] | ArrowColumn
"""Labels or node types as users pass them; None, NaN and "" mean none."""


@dataclass(frozen=True)
class Categories:
    """One category per node: `codes` (n,) int32 are indices into `names`, -1 for none."""

    codes: npt.NDArray[np.int32]
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: CategoryColumn) -> "Categories":
        """Return the categories of one value per node (None, NaN, NA or "" for none); names are sorted."""
        parts = [_encoded(chunk) for chunk in _chunks(values)]
        names = sorted({text for _, texts in parts for text in texts} - {""})
        code_of = {name: code for code, name in enumerate(names)} | {"": -1}
        codes = [np.empty(0, dtype=np.int32)]
        for places, texts in parts:  # position -1, a missing value, is the last one
            codes.append(np.array([*(code_of[text] for text in texts), -1], dtype=np.int32)[places])
        return cls(np.concatenate(codes), tuple(names))

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str | None]:
        return (self[node] for node in range(len(self)))

    @overload
    def __getitem__(self, node: slice | npt.NDArray[Any]) -> list[str | None]: ...

    @overload
    def __getitem__(self, node: int) -> str | None: ...

    def __getitem__(self, node: int | slice | npt.NDArray[Any]) -> str | list[str | None] | None:
        codes, names = self.codes[node], (*self.names, None)  # -1 is the last one
        return names[codes] if np.ndim(codes) == 0 else [names[code] for code in codes.tolist()]

    def code_of(self, name: str, what: str) -> int:
        """Return the code of a name; InputError for an unknown one, called `what` in the message."""
        if name not in self.names:
            raise InputError(f"no {what} {name!r}; there are {', '.join(self.names)}")
        return self.names.index(name)

    def array(self) -> pa.StringArray:
        """Return the (n,) names, null for none."""
        codes = pa.array(self.codes, mask=self.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.names, pa.string())).cast(pa.string())

    def joined(self, adjacency: sp.csr_array) -> npt.NDArray[np.bool_]:
        """Return (C + 1, C + 1) whether an edge leads from one category to another; the last one stands for none."""
        count = len(self.names) + 1
        found = np.zeros((count, count), dtype=np.bool_)
        for part in blocks(adjacency.shape[0]):
            ends = adjacency.indptr[part.start : part.stop + 1]
            sources = np.repeat(self.codes[part], np.diff(ends))
            found[sources, self.codes[adjacency.indices[ends[0] : ends[-1]]]] = True
        return found

    def take(self, nodes: npt.NDArray[np.integer]) -> "Categories":
        """Return the categories of these nodes, in this order."""
        return Categories(self.codes[nodes], self.names)


def _chunks(values: CategoryColumn) -> list[pa.Array | list[object]]:
    """Return a column as Arrow arrays, or as a list if Arrow would change its values."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    kind = getattr(values, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "biufU":
        return [pa.array(np.asarray(values), from_pandas=True)]
    listed: list[object] = list(values)
    if len(set(map(type, listed)) - {type(None)}) > 1:  # Arrow would make 1 beside 2.5 a 1.0
        return [listed]
    try:
        return [pa.array(listed, from_pandas=True)]
    except (TypeError, ValueError, OverflowError):  # Arrow's errors are subclasses of these
        return [listed]


def _encoded(chunk: pa.Array | list[object]) -> tuple[npt.NDArray[np.integer], list[str]]:
    """Return the position of each value among the distinct texts, -1 if it is missing, and these texts."""
    try:
        encoded = plain_array(chunk).dictionary_encode() if isinstance(chunk, pa.Array) else None
    except pa.ArrowNotImplementedError:  # such as lists, which have no hash
        encoded = None
    if encoded is not None:
        places = pc.fill_null(encoded.indices, -1).to_numpy()
        return places, [_text(value) for value in encoded.dictionary.to_pylist()]
    texts = [_text(value) for value in (chunk.to_pylist() if isinstance(chunk, pa.Array) else chunk)]
    place_of = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return np.array([place_of[text] for text in texts], dtype=np.int64), list(place_of)


def _text(value: object) -> str:
    try:
        # NaN differs from itself; the comparison of pandas' NA is NA, which bool() refuses.
        missing = value is None or bool(value != value)
    except TypeError:
        missing = True
    return "" if missing else str(value)
