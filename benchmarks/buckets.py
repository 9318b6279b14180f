"""Records on disk, grouped by ranges of rows."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

RECORDS = 1 << 20
"""Records per bucket, roughly."""
MOST = 1 << 10
"""Largest number of buckets: each is a file, and many small files are slow to write."""

Records = npt.NDArray[Any]
"""A structured or plain array."""


class Buckets:
    """Records grouped by ranges of rows; within a range they keep their order."""

    def __init__(self, folder: Path, rows: int, records: int, dtype: npt.DTypeLike) -> None:
        """Create a folder for about `records` records that belong to rows 0 to rows - 1."""
        folder.mkdir()
        self.folder, self.rows, self.dtype = folder, rows, np.dtype(dtype)
        self.each = -(-rows // max(min(-(-records // RECORDS), MOST, rows), 1))
        self.count = -(-rows // self.each)

    def put(self, rows: npt.NDArray[np.integer], records: Records) -> None:
        """Append records; record k belongs to rows[k]."""
        bucket = (rows // self.each).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")  # a radix sort for 16-bit numbers, so linear time
        ends = np.cumsum(np.bincount(bucket, minlength=self.count))
        ordered = np.ascontiguousarray(records, dtype=self.dtype)[order]
        for number in np.unique(bucket).tolist():
            with self._path(number).open("ab") as opened:
                opened.write(ordered[ends[number - 1] if number else 0 : ends[number]].view(np.uint8).data)

    def range(self, number: int) -> tuple[int, int]:
        """The first row of a bucket and the one after its last."""
        return number * self.each, min((number + 1) * self.each, self.rows)

    def get(self, number: int) -> Records:
        """The records of a bucket."""
        path = self._path(number)
        return np.fromfile(path, self.dtype) if path.exists() else np.empty(0, self.dtype)

    def replace(self, number: int, records: Records) -> None:
        """Replace the records of a bucket."""
        np.ascontiguousarray(records, dtype=self.dtype).tofile(self._path(number))

    def __iter__(self) -> Iterator[tuple[int, int, Records]]:
        """Yield the range of rows and the records of each bucket."""
        return ((*self.range(number), self.get(number)) for number in range(self.count))

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / str(number)
