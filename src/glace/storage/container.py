"""The file format of models and checkpoints: safetensors, with one JSON text that holds a checksum as metadata.

safetensors alone reads many damaged files without complaint. The checksum is the SHA-256 of the whole file with the
checksum's own 64 digits set to zero, so no byte can change unnoticed. Nothing in such a file is executed or unpickled.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from glace.blocks import row_blocks
from glace.errors import FormatError
from glace.storage.files import existing, replacing

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Metadata = dict[str, Any]
"""A JSON object."""
_BLANK = "0" * 64
_MARK = rb"{\"checksum\":\""
# dtypes of numpy and their names in safetensors, which stores the widest first.
_TYPES = {"|b1": "BOOL", "|u1": "U8", "|i1": "I8", "<i4": "I32", "<f4": "F32", "<f8": "F64", "<i8": "I64"}
_LONGEST_HEADER = 100_000_000  # the limit of safetensors itself


def write(path: str | Path, kind: str, version: int, metadata: Metadata, arrays: Arrays) -> None:
    """Write arrays and JSON metadata; equal content gives equal bytes."""
    content = {"checksum": _BLANK, "kind": kind, "format_version": version, **metadata}
    # One key only: safetensors writes several keys in an order that changes from run to run.
    texts = {"glace": json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)}
    with replacing(path) as temporary:
        _write_tensors(temporary, arrays, texts)
        _, position = _read_header(temporary, path)
        with temporary.open("r+b") as opened:
            digest = _digest(temporary, position)
            opened.seek(position)
            opened.write(digest.encode())


def _write_tensors(path: Path, arrays: Arrays, texts: dict[str, str]) -> None:
    """Write the same bytes as the safetensors library, which would first copy all arrays."""
    order = sorted(arrays, key=lambda name: (-list(_TYPES).index(arrays[name].dtype.str), name))
    header: Metadata = {"__metadata__": texts}
    end = 0
    for name in order:
        array, begin, end = arrays[name], end, end + arrays[name].nbytes
        header[name] = {"dtype": _TYPES[array.dtype.str], "shape": array.shape, "data_offsets": [begin, end]}
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as opened:
        opened.write(len(encoded).to_bytes(8, "little") + encoded)
        for name in order:
            for block in row_blocks(np.atleast_1d(arrays[name])):
                opened.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)


def read(path: str | Path, kind: str, version: int) -> tuple[Metadata, Arrays]:
    """Read metadata and arrays; a file that is damaged, or of another kind or version, raises."""
    from safetensors import SafetensorError, safe_open

    source = existing(path, f"a {kind} file")
    metadata, position = _read_header(source, path)
    if metadata.get("kind") != kind:
        raise FormatError(f"{path} is not a {kind} file but a {metadata.get('kind')} file")
    if _digest(source, position) != metadata.get("checksum"):
        raise FormatError(f"{path} is damaged: its content does not match its checksum; download or make it again")
    if metadata.get("format_version") != version:
        raise FormatError(
            f"{path} has format version {metadata.get('format_version')}, but this glace reads version {version}; "
            "use the version of glace that wrote it, or make the file again"
        )
    try:
        with safe_open(source, framework="numpy") as opened:
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as problem:
        raise FormatError(f"{path} is damaged: {problem}") from problem
    return metadata, arrays


def pack_strings(name: str, texts: pa.Array | Iterable[str]) -> Arrays:
    """Strings as two arrays: their UTF-8 bytes, NAME/bytes, and the n + 1 offsets into them, NAME/offsets."""
    array = pa.array(texts, type=pa.large_string())
    buffers = pa.concat_arrays([array]).buffers()  # a copy that starts at offset 0
    offsets = np.frombuffer(buffers[1], dtype=np.int64)[: len(array) + 1] if len(array) else np.zeros(1, np.int64)
    size = int(offsets[-1])
    data = np.frombuffer(buffers[2], dtype=np.uint8)[:size] if size else np.zeros(0, np.uint8)
    return {f"{name}/bytes": data, f"{name}/offsets": offsets}


def unpack_strings(name: str, arrays: Arrays) -> pa.Array:
    """The strings of `pack_strings` as an Arrow array that shares memory with the two arrays, mapped or not."""
    data, offsets = (np.ascontiguousarray(arrays[f"{name}/{part}"]) for part in ("bytes", "offsets"))
    if offsets.dtype != np.int64 or data.dtype != np.uint8 or offsets[:1].tolist() != [0]:
        raise FormatError(f"{name}/offsets must be 64-bit integers that start at 0, and {name}/bytes must be bytes")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    try:
        array = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise FormatError(f"{name} does not hold valid strings: {problem}") from problem
    return array


def _read_header(source: Path, path: str | Path) -> tuple[Metadata, int]:
    """Return the metadata of a file, and where the digits of its checksum begin."""
    with source.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = opened.read(length) if length <= _LONGEST_HEADER else b""
    try:
        metadata = dict(json.loads(json.loads(header)["__metadata__"]["glace"]))
        position = 8 + header.index(_MARK) + len(_MARK)
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise FormatError(
            f"{path} is not a file written by glace, or is damaged; give one that `glace fit` wrote"
        ) from problem
    return metadata, position


def _digest(source: Path, position: int) -> str:
    """SHA-256 of a file with the 64 digits at `position` read as zeros."""
    digest = hashlib.sha256()
    with source.open("rb") as opened:
        digest.update(opened.read(position))
        opened.read(len(_BLANK))
        digest.update(_BLANK.encode())
        return hashlib.file_digest(opened, lambda: digest).hexdigest()
