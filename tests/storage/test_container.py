"""The container writes what safetensors writes, without a copy of the arrays."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from glace.storage import container
from glace.storage import mapped as disk

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
    monkeypatch.setattr(disk, "BLOCK", block)
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
