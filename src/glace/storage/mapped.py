"""Arrays larger than memory: kept in scratch files, mapped from .npy files."""

import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from glace.errors import FormatError, InputError


def scratch(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A writable array in a temporary file that goes with it, in the folder that TMPDIR names.

    Its pages are the system's to write out, so it takes room on disk and not in memory.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size == 0:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="glace-") as opened:
        try:
            _reserve(opened.fileno(), size)
        except OSError as problem:
            raise InputError(
                f"no room for {size:,} bytes of scratch in {tempfile.gettempdir()}: {problem.strerror}; "
                "set TMPDIR to a folder that has it"
            ) from problem
        return _plain(np.memmap(opened, dtype, mode="r+", shape=shape))


def is_mapped(array: npt.NDArray[Any]) -> bool:
    """Whether an array lies in a mapped file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def map_npy(path: Path) -> npt.NDArray[Any]:
    """A read-only array mapped from an .npy file; one that is cut short, too long or holds objects raises."""
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as problem:
        raise FormatError(f"no file {path}") from problem
    except (OSError, ValueError, EOFError, SyntaxError) as problem:
        raise FormatError(f"{path} is no whole .npy file: {problem}") from problem
    if not isinstance(mapped, np.memmap):
        raise FormatError(f"{path} is no .npy file but an archive")
    if path.stat().st_size != mapped.offset + mapped.nbytes:
        raise FormatError(f"{path} has {path.stat().st_size:,} bytes; its header says otherwise")
    return _plain(mapped)


def room_for(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A new .npy file of zeros of this shape, as an array to be filled in any order."""
    return _plain(np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape))


class NpyStream:
    """An .npy file that grows by rows; its header is put right at the end."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, columns: tuple[int, ...] = ()) -> None:
        self.dtype, self.columns, self.rows = np.dtype(dtype), columns, 0
        self._opened = path.open("wb")
        self._write_header()

    def append(self, rows: npt.ArrayLike) -> None:
        """Add rows at the end."""
        array = np.ascontiguousarray(rows, dtype=self.dtype)
        assert array.shape[1:] == self.columns
        self._opened.write(array.reshape(-1).view(np.uint8).data)
        self.rows += len(array)

    def _write_header(self) -> None:
        # numpy leaves room in a header for the first number of the shape to grow.
        shape = (self.rows, *self.columns)
        described = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(self._opened, described)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the file; nothing can be added any more."""
        self._opened.seek(0)
        self._write_header()
        self._opened.close()


def _reserve(handle: int, size: int) -> None:
    # A page of a mapped file that cannot be stored would end the process; a full disk is noticed here instead.
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    else:
        os.truncate(handle, size)


def _plain(mapped: Any) -> npt.NDArray[Any]:
    """The same memory as a plain array: to numba and numpy it is what one in memory is."""
    return np.asarray(mapped).view(np.ndarray)
