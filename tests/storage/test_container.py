"""The container writes what safetensors writes, without a copy of the arrays."""

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from glace import blocks
from glace.errors import FormatError
from glace.storage import container

ARRAYS = {
    "b": np.arange(12, dtype=np.float32).reshape(3, 4),
    "a": np.float32(3) * np.ones((), np.float32),
    "long": np.arange(7),
    "bytes": np.frombuffer(b"abc", np.uint8),
    "wide": np.linspace(0, 1, 5),
    "turned": np.arange(12, dtype=np.float32).reshape(3, 4).T,
    "codes": np.arange(3, dtype=np.int32),
    "small": np.arange(3, dtype=np.int8),
    "empty": np.empty((0, 4), np.float32),
    "truth": np.array([True, False]),
    "\u00e9": np.zeros(2, np.float32),
}


@pytest.mark.parametrize("block", [1 << 20, 3])
def test_bytes_are_those_of_safetensors(tmp_path, monkeypatch, block):
    monkeypatch.setattr(blocks, "BLOCK", block)
    texts = {"glace": json.dumps({"x": '\u00fc"y', "n": 1})}
    container._write_tensors(tmp_path / "a", ARRAYS, texts)
    whole = {name: np.asarray(array, order="C") for name, array in ARRAYS.items()}
    assert (tmp_path / "a").read_bytes() == save(whole, metadata=texts)
    again = load_file(tmp_path / "a")
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(again[name], array)


def test_what_is_written_is_read(tmp_path):
    container.write(tmp_path / "f", "kind", 3, {"fact": 1}, ARRAYS)
    metadata, arrays = container.read(tmp_path / "f", "kind", 3)
    assert metadata["fact"] == 1
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_the_checksum_is_the_digest_of_the_file_with_its_digits_zero(tmp_path):
    container.write(tmp_path / "f", "kind", 3, {}, {"a": np.arange(3)})
    metadata, _ = container.read(tmp_path / "f", "kind", 3)
    blank = (tmp_path / "f").read_bytes().replace(metadata["checksum"].encode(), b"0" * 64)
    assert hashlib.sha256(blank).hexdigest() == metadata["checksum"]


def test_packed_strings_are_their_bytes_and_offsets():
    packed = container.pack_strings("x", ["ab", "", "c"])
    assert packed["x/bytes"].tobytes() == b"abc"
    assert packed["x/offsets"].tolist() == [0, 2, 2, 3]
    none = container.pack_strings("x", [])
    assert (none["x/bytes"].tolist(), none["x/offsets"].tolist()) == ([], [0])


def test_equal_content_gives_equal_bytes(tmp_path):
    for name in "fg":
        container.write(tmp_path / name, "kind", 3, {"fact": 1}, ARRAYS)
    assert (tmp_path / "f").read_bytes() == (tmp_path / "g").read_bytes()


def test_no_byte_can_change_unnoticed(tmp_path):
    path = tmp_path / "f"
    container.write(path, "kind", 3, {"fact": 1}, {"a": np.arange(3), "b": np.ones(2, np.float32)})
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(FormatError, match="f is damaged|f is not a"):
            container.read(path, "kind", 3)


def test_damage_of_the_arrays_is_told_by_the_checksum(tmp_path):
    path = tmp_path / "f"
    container.write(path, "kind", 3, {}, {"a": np.zeros(1 << 18)})
    content = path.read_bytes()
    for damaged in (content[:-1], content + b"\0", content[:-1] + b"\1"):
        path.write_bytes(damaged)
        with pytest.raises(
            FormatError, match="f is damaged: its content does not match its checksum; download or make"
        ):
            container.read(path, "kind", 3)


@pytest.mark.parametrize(
    "content",
    [
        b"1234567",
        (9).to_bytes(8, "little") + b"{}",
        (2**60).to_bytes(8, "little"),
        b"\2" + b"\0" * 7 + b"{}",
        b"a" * 99,
    ],
)
def test_files_of_others_are_refused(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(FormatError, match="f is not a file written by glace, or is damaged"):
        container.read(tmp_path / "f", "kind", 3)


@pytest.mark.parametrize("texts", [[], [""], ["a", "", "\u00e9", "bc"]])
def test_packed_strings_come_back(texts):
    assert container.unpack_strings("x", container.pack_strings("x", texts)).to_pylist() == texts


@pytest.mark.parametrize(
    ("offsets", "data", "message"),
    [
        ([0, 2, 1, 3], b"abc", "x does not hold valid strings"),
        ([0, 9], b"abc", "x does not hold valid strings"),
        ([0, 1], b"\xff", "x does not hold valid strings"),
        ([1, 2], b"ab", "x/offsets must be 64-bit integers that start at 0"),
        ([], b"", "start at 0"),
    ],
)
def test_damaged_strings_are_refused(offsets, data, message):
    arrays: dict[str, Any] = {"x/offsets": np.array(offsets, np.int64), "x/bytes": np.frombuffer(data, np.uint8)}
    with pytest.raises(FormatError, match=message):
        container.unpack_strings("x", arrays)


def test_files_of_another_kind_or_version_are_refused(tmp_path):
    container.write(tmp_path / "f", "kind", 3, {}, {})
    with pytest.raises(FormatError, match="f is not a model file but a kind file"):
        container.read(tmp_path / "f", "model", 3)
    with pytest.raises(FormatError, match="f has format version 3, but this glace reads version 4; use the version"):
        container.read(tmp_path / "f", "kind", 4)
