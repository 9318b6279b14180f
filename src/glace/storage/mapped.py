"""Arrays larger than memory: in temporary files, or mapped from .npy files."""

import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from glace.errors import FormatError, InputError
from glace.storage.container import Array


def scratch(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """A writable array in a temporary file in TMPDIR; the file is deleted together with the array.

    The operating system writes its pages to disk when memory is short.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size == 0:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="glace-") as opened:
        try:
            _reserve(opened.fileno(), size)
        except OSError as problem:
            raise InputError(
                f"cannot store {size:,} temporary bytes in {tempfile.gettempdir()}: {problem.strerror}; "
                "set TMPDIR to a folder with enough space"
            ) from problem
        return _plain(np.memmap(opened, dtype, mode="r+", shape=shape))


def map_npy(path: Path) -> Array:
    """A read-only array mapped from an .npy file; a file that is truncated, too long or holds objects raises."""
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as problem:
        raise FormatError(f"no file {path}") from problem
    except (OSError, ValueError, EOFError, SyntaxError) as problem:
        raise FormatError(f"{path} is not a complete .npy file: {problem}") from problem
    if not isinstance(mapped, np.memmap):
        raise FormatError(f"{path} is not an .npy file but an archive")
    if path.stat().st_size != mapped.offset + mapped.nbytes:
        raise FormatError(
            f"{path} has {path.stat().st_size:,} bytes, but its header declares {mapped.offset + mapped.nbytes:,}"
        )
    return _plain(mapped)


def release(array: Array) -> None:
    """Give back the memory of a mapped array, which is read again when it is used; other arrays are left alone."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def create_npy(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Create an .npy file of zeros and map it as a writable array."""
    return _plain(np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape))


class NpyStream:
    """Writes an .npy file row by row; the number of rows in its header is corrected when it is closed."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, columns: tuple[int, ...] = ()) -> None:
        self.dtype, self.columns, self.rows = np.dtype(dtype), columns, 0
        self._opened = path.open("wb")
        self._write_header()

    def append(self, rows: npt.ArrayLike) -> None:
        """Append rows."""
        array = np.ascontiguousarray(rows, dtype=self.dtype)
        assert array.shape[1:] == self.columns
        self._opened.write(array.reshape(-1).view(np.uint8).data)
        self.rows += len(array)

    def _write_header(self) -> None:
        # numpy pads the header so that the first number of the shape can grow.
        kind, shape = np.lib.format.dtype_to_descr(self.dtype), (self.rows, *self.columns)
        described = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._opened, described)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Correct the header and close the file."""
        self._opened.seek(0)
        self._write_header()
        self._opened.close()


def _reserve(handle: int, size: int) -> None:
    # Writing to a mapped page that the disk has no space for would kill the process; here a full disk raises instead.
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    else:
        os.truncate(handle, size)


def _plain(mapped: Array) -> Array:
    """A plain ndarray of the same memory: numba compiles separate code for np.memmap."""
    return np.asarray(mapped).view(np.ndarray)
