"""Arrays of an .npz file that need not be trusted: no pickle is loaded, and sizes are checked before reading."""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Container, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from glace.errors import FormatError, InputError
from glace.storage.container import Array, Arrays

MAX_BYTES = 1 << 30
MAX_RATIO = 50  # real data compress to a tenth at best; a zip bomb to a thousandth

# RuntimeError is an encrypted member or (NotImplementedError) a compression method that Python does not know.
BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, ValueError, RuntimeError)


def read_arrays(
    path: Path, wanted: Container[str], *, may_be_pickled: Container[str] = (), max_bytes: int = MAX_BYTES
) -> Arrays:
    """Read the wanted members of an .npz file, by name without .npy, and verify their zip checksums.

    Members of Python objects raise, except those in `may_be_pickled`, which are left out. A file whose wanted members
    unpack to more than `max_bytes` and to 50 times the file's size is refused before anything is unpacked.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            found = {name: info for name, info in members.items() if name in wanted}
            _check_sizes(path, found, max_bytes)
            contents = {name: archive.read(info) for name, info in found.items()}
    except InputError:
        raise
    except BROKEN_ZIP as problem:
        raise FormatError(
            f"{path.name} is not a complete .npz file: {problem}; download or write it again"
        ) from problem
    arrays = {name: _parse(f"{path.name}: {name}", contents.pop(name)) for name in found}
    for name, array in arrays.items():
        if array is None and name not in may_be_pickled:
            raise FormatError(
                f"{path.name}: {name} holds Python objects, which could run code when loaded; store it as numbers"
            )
    return {name: array for name, array in arrays.items() if array is not None}


def string_array(values: Iterable[object], what: str) -> npt.NDArray[np.str_]:
    """Strings as a member can hold them.

    numpy pads strings with NUL, so a string that ends in NUL would be read back shorter: it raises.
    """
    texts = [str(value) for value in values]
    ending = next((text for text in texts if text.endswith("\0")), None)
    if ending is not None:
        raise InputError(f"{what} {ending!r} ends in a NUL character, which .npz files cannot hold; rename it")
    return np.array(texts, dtype=np.str_)


def _check_sizes(path: Path, wanted: dict[str, zipfile.ZipInfo], max_bytes: int) -> None:
    # zipfile never reads more of a member than its declared size, so the declared sizes are upper bounds.
    unpacked, packed = sum(info.file_size for info in wanted.values()), path.stat().st_size
    if unpacked > max_bytes and unpacked > MAX_RATIO * packed:
        raise InputError(
            f"{path.name} has {packed:,} bytes but unpacks to {unpacked:,}, like a file made to exhaust memory; "
            f"if you trust it, read it in Python with max_bytes={unpacked}"
        )


def _parse(name: str, content: bytes) -> Array | None:
    """The array of an .npy file; None if it holds Python objects."""
    stream = io.BytesIO(content)
    try:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception as problem:  # numpy evaluates the header's text; a damaged one can fail in many ways
        if "Object arrays cannot be loaded" in str(problem):
            return None
        raise FormatError(f"{name} is not a valid .npy array: {problem}") from problem
    # Strings of width 0 take no bytes, so their header could claim any number of them.
    if stream.tell() != len(content) or array.dtype.itemsize == 0:
        raise FormatError(
            f"{name} is not a valid .npy array: its header says {array.shape} of {array.dtype}, which does not match "
            f"its {len(content):,} bytes"
        )
    if array.dtype.kind == "U":
        codes = array.reshape(-1).view(f"{array.dtype.byteorder}u4")
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise FormatError(f"{name} holds characters that are not valid Unicode")
    return array
