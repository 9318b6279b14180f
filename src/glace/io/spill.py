"""Records put into order by way of the disk: spilled into one file for each range of rows, taken out range by range."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

RECORDS = 1 << 20
"""Records a bucket is meant to hold. To merge edges takes some 150 bytes for each, so these are 150 MB."""
MOST = 1 << 10
"""Most buckets: each is a file of its own, and small pieces are written slowly."""


class Buckets:
    """Records by the range of rows they belong to; within a range they keep the order they came in."""

    def __init__(self, folder: Path, rows: int, records: int, dtype: npt.DTypeLike) -> None:
        """Room for about so many records of rows 0 to rows - 1, in a new folder."""
        folder.mkdir()
        self.folder, self.rows, self.dtype = folder, rows, np.dtype(dtype)
        self.each = -(-rows // max(min(-(-records // RECORDS), MOST, rows), 1))
        self.count = -(-rows // self.each)

    def put(self, rows: npt.NDArray[np.integer], records: npt.NDArray[Any]) -> None:
        """Add records, the k-th belonging to rows[k]."""
        bucket = (rows // self.each).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")  # of 16-bit numbers: by radix, in linear time
        ends = np.cumsum(np.bincount(bucket, minlength=self.count))
        ordered = np.ascontiguousarray(records, dtype=self.dtype)[order]
        for number in np.unique(bucket).tolist():
            with self._path(number).open("ab") as opened:
                opened.write(ordered[ends[number - 1] if number else 0 : ends[number]].view(np.uint8).data)

    def range(self, number: int) -> tuple[int, int]:
        """The first row of a bucket, and the one after its last."""
        return number * self.each, min((number + 1) * self.each, self.rows)

    def get(self, number: int) -> npt.NDArray[Any]:
        """The records of a bucket."""
        path = self._path(number)
        return np.fromfile(path, self.dtype) if path.exists() else np.empty(0, self.dtype)

    def replace(self, number: int, records: npt.NDArray[Any]) -> None:
        """Put these in place of a bucket's records."""
        np.ascontiguousarray(records, dtype=self.dtype).tofile(self._path(number))

    def __iter__(self) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        """Bucket by bucket: its range of rows, and its records."""
        return ((*self.range(number), self.get(number)) for number in range(self.count))

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / str(number)
