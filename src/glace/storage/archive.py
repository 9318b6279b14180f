"""Members of an .npz file, from a file that is not trusted: no pickle, no surprise in size."""

import io
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.errors import FormatError, InputError

MAX_BYTES = 1 << 30
MAX_RATIO = 50  # real data pack to a tenth at best; a zip bomb to a thousandth

# RuntimeError is an encrypted member or (NotImplementedError) a compression that Python does not know.
BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
)
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class Member:
    """One array of the file by its header; nothing of it is made before `array` is asked for."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    content: bytes
    """What comes after the header."""
    fortran: bool

    def array(self) -> npt.NDArray[Any]:
        """The array, read-only; what is not plain numbers or text, or not of the stated size, raises."""
        if self.dtype.hasobject:
            raise FormatError(
                f"{self.name} holds Python objects, which could run code when loaded; store it as numbers"
            )
        size = len(self.content)
        if self.dtype.itemsize == 0 or math.prod(self.shape) * self.dtype.itemsize != size:
            raise FormatError(f"{self.name} says it is {self.shape} of {self.dtype}, but holds {size:,} bytes")
        flat = np.frombuffer(self.content, dtype=self.dtype)
        if self.dtype.kind == "U":
            _check_letters(self.name, flat)
        return flat.reshape(self.shape, order="F" if self.fortran else "C")


def read_members(path: Path, wanted: Container[str], max_bytes: int = MAX_BYTES) -> dict[str, Member]:
    """The wanted members, by name without .npy; their zip checksums are compared.

    A file whose wanted members unpack to more than `max_bytes` and to 50 times its size is refused.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            held = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            found = {name: info for name, info in held.items() if name in wanted}
            _check_sizes(path, found, max_bytes)
            contents = {name: archive.read(info) for name, info in found.items()}
    except InputError:
        raise
    except BROKEN_ZIP as problem:
        raise FormatError(f"{path.name} is no whole .npz file: {problem}; fetch or write it again") from problem
    return {name: _member(name, content) for name, content in contents.items()}


def string_array(values: Iterable[object], what: str) -> npt.NDArray[np.str_]:
    """Strings as a member can hold them; numpy pads with NUL and would read a string that ends in it back shorter."""
    texts = [str(value) for value in values]
    ending = next((text for text in texts if text.endswith("\0")), None)
    if ending is not None:
        raise InputError(f"{what} {ending!r} ends in a NUL character, which .npz files cannot hold; rename it")
    return np.array(texts, dtype=np.str_)


def _check_sizes(path: Path, wanted: dict[str, zipfile.ZipInfo], max_bytes: int) -> None:
    # zipfile reads no more of a member than the size it declares, so the declared sizes are bounds.
    unpacked, packed = sum(info.file_size for info in wanted.values()), path.stat().st_size
    if unpacked > max_bytes and unpacked > MAX_RATIO * packed:
        raise InputError(
            f"{path.name} has {packed:,} bytes but unpacks to {unpacked:,}, as files made to fill the "
            f"memory do; if you trust it, read it in Python with max_bytes={unpacked}"
        )


def _member(name: str, content: bytes) -> Member:
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        shape, fortran, dtype = HEADERS[version](stream)
    except Exception as problem:  # numpy evaluates the header's text; a damaged one can fail in many ways
        raise FormatError(f"{name} has no npy header of version 1 or 2: {problem!r}") from problem
    return Member(name, dtype, shape, content[stream.tell() :], fortran)


def _check_letters(name: str, array: npt.NDArray[Any]) -> None:
    letters = array.view(f"{array.dtype.byteorder}u4")
    if ((letters > 0x10FFFF) | ((letters >= 0xD800) & (letters < 0xE000))).any():
        raise FormatError(f"{name} holds letters that Unicode does not have")
