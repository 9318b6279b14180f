"""Arrays in blocks, in scratch files, and in .npy files that grow."""

import os
import tempfile

import numpy as np
import pytest

from glace import blocks
from glace.errors import FormatError, InputError
from glace.storage import mapped as disk
from tests.conftest import is_mapped


def test_blocks_cover_everything_once():
    for count in (0, 1, 6, 7):
        covered = [place for part in blocks.blocks(count, 3) for place in range(count)[part]]
        assert covered == list(range(count))


def test_row_blocks_are_views_of_all_rows(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 6)
    matrix = np.arange(15).reshape(5, 3)
    parts = list(blocks.row_blocks(matrix))
    assert [len(part) for part in parts] == [2, 2, 1]
    assert all(np.shares_memory(part, matrix) for part in parts)
    np.testing.assert_array_equal(np.concatenate(parts), matrix)


def test_scratch_is_mapped_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    array = disk.scratch((100, 3), np.float32)
    array[:] = 7
    assert array.sum() == 2100
    assert is_mapped(array)
    assert is_mapped(array[3:])
    assert type(array) is np.ndarray
    assert not list(tmp_path.iterdir())
    assert disk.scratch((0, 3), np.float32).shape == (0, 3)
    assert not is_mapped(np.zeros(3))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no system to ask for room")
def test_a_full_disk_is_told_before_anything_is_written(monkeypatch):
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match="cannot store 80 temporary bytes in .*: No space left .*; set TMPDIR"):
        disk.scratch((10,), np.float64)


@pytest.mark.parametrize("columns", [(), (3,)])
def test_a_stream_gives_a_plain_npy_file(tmp_path, columns):
    parts = [np.random.default_rng(0).random((rows, *columns)).astype("f4") for rows in (4, 0, 100_000)]
    with disk.NpyStream(tmp_path / "a.npy", np.float32, columns) as stream:
        for part in parts:
            stream.append(part)
    expected = np.concatenate(parts)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy", allow_pickle=False), expected)
    np.testing.assert_array_equal(disk.map_npy(tmp_path / "a.npy"), expected)


def test_room_is_filled_in_any_order(tmp_path):
    room = disk.create_npy(tmp_path / "a.npy", (4, 2), np.int32)
    room[[3, 1]] = [[1, 2], [3, 4]]
    assert np.load(tmp_path / "a.npy").tolist() == [[0, 0], [3, 4], [0, 0], [1, 2]]


def test_an_npy_file_is_mapped_read_only(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(2, 3))
    array = disk.map_npy(tmp_path / "a.npy")
    assert (array.tolist(), type(array), is_mapped(array)) == ([[0, 1, 2], [3, 4, 5]], np.ndarray, True)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_files_that_are_not_whole_arrays_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    whole = (tmp_path / "a.npy").read_bytes()
    np.savez(tmp_path / "b.npz", a=np.arange(3))
    np.save(tmp_path / "c.npy", np.array([{}], dtype=object))
    (tmp_path / "archive.npy").write_bytes((tmp_path / "b.npz").read_bytes())
    (tmp_path / "short.npy").write_bytes(whole[:-1])
    (tmp_path / "long.npy").write_bytes(whole + b"0")
    (tmp_path / "text.npy").write_text("text")
    (tmp_path / "empty.npy").write_text("")
    for name, message in {
        "absent": "no file .*absent.npy",
        "archive": "is not an .npy file but an archive",
        "long": "has 177 bytes, but its header declares 176",
        **dict.fromkeys(("short", "text", "empty", "c"), "is not a complete .npy file"),
    }.items():
        with pytest.raises(FormatError, match=message):
            disk.map_npy(tmp_path / f"{name}.npy")


def test_released_memory_is_read_again(tmp_path):
    written = disk.create_npy(tmp_path / "a.npy", (1000,), np.int64)
    written[:] = np.arange(1000)
    disk.release(written)
    np.testing.assert_array_equal(written, np.arange(1000))
    mapped = disk.map_npy(tmp_path / "a.npy")
    assert mapped.sum() == 499_500
    disk.release(mapped)
    np.testing.assert_array_equal(mapped[::-1][:3], [999, 998, 997])
    disk.release(np.arange(3))
