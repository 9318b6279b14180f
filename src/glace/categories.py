"""Labels and types of nodes: one category for each node, or none."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from glace.blocks import blocks
from glace.errors import InputError
from glace.ids import plain_array


@dataclass(frozen=True)
class Categories:
    """One category per node: `codes` (n,) int32 into `names`; -1 where a node has none."""

    codes: npt.NDArray[np.int32]
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Any) -> "Categories":
        """From one value per node (strings, numbers; None, NaN, NA or "" for none); names are sorted."""
        parts = [_encoded(chunk) for chunk in _chunks(values)]
        names = sorted({text for _, texts in parts for text in texts} - {""})
        code_of = {name: code for code, name in enumerate(names)} | {"": -1}
        codes = [np.empty(0, dtype=np.int32)]
        for places, texts in parts:  # the place -1 of what is missing is the last, which is -1
            codes.append(np.array([*(code_of[text] for text in texts), -1], dtype=np.int32)[places])
        return cls(np.concatenate(codes), tuple(names))

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str | None]:
        return (self[node] for node in range(len(self)))

    def __getitem__(self, node: int) -> str | None:
        code = self.codes[node]
        return self.names[code] if code >= 0 else None

    def code_of(self, name: str, what: str) -> int:
        """The code of a name; an unknown one raises, `what` saying what it should be: a label, a type."""
        if name not in self.names:
            raise InputError(f"no {what} {name!r}; there are {', '.join(self.names)}")
        return self.names.index(name)

    def array(self) -> pa.StringArray:
        """(n,) the names, null where a node has none."""
        codes = pa.array(self.codes, mask=self.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.names, pa.string())).cast(pa.string())

    def joined(self, adjacency: sp.csr_array) -> npt.NDArray[np.bool_]:
        """(C + 1, C + 1) whether an edge leads from a category to another; the last are nodes that have none."""
        count = len(self.names) + 1
        found = np.zeros((count, count), dtype=np.bool_)
        for part in blocks(adjacency.shape[0]):
            ends = adjacency.indptr[part.start : part.stop + 1]
            sources = np.repeat(self.codes[part], np.diff(ends))
            found[sources, self.codes[adjacency.indices[ends[0] : ends[-1]]]] = True
        return found

    def take(self, nodes: npt.NDArray[np.integer]) -> "Categories":
        """The categories of these nodes, in that order."""
        return Categories(self.codes[nodes], self.names)


def _chunks(values: Any) -> list[Any]:
    """A column in Arrow arrays, or in lists where Arrow would not keep its values as they are."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    kind = getattr(values, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "biufU":
        return [pa.array(np.asarray(values), from_pandas=True)]
    listed = list(values)
    if len(set(map(type, listed)) - {type(None)}) > 1:  # to Arrow 1 beside 2.5 would be 1.0
        return [listed]
    try:
        return [pa.array(listed, from_pandas=True)]
    except (TypeError, ValueError, OverflowError):  # Arrow's own errors are kinds of these
        return [listed]


def _encoded(chunk: Any) -> tuple[npt.NDArray[np.integer], list[str]]:
    """For each value the place of its text in a list of distinct ones; -1 where Arrow has none."""
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


def _text(value: Any) -> str:
    try:
        # Only NaN differs from itself: pandas writes a missing label so, or as NA, which is neither true nor false.
        missing = value is None or bool(value != value)
    except TypeError:
        missing = True
    return "" if missing else str(value)
