"""Arrays of .npz files that need not be trusted: the wanted ones are read, all else is refused."""

import io
import zipfile

import numpy as np
import pytest

from glace.errors import FormatError, InputError
from glace.storage.archive import read_arrays, string_array


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.npz"


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def put(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def test_wanted_arrays_are_read_and_others_are_not(path):
    np.savez_compressed(path, a=np.arange(3), names=np.array(["x", "é"]), other=np.ones(2))
    found = read_arrays(path, {"a", "names", "absent"})
    assert {name: array.tolist() for name, array in found.items()} == {"a": [0, 1, 2], "names": ["x", "é"]}


def test_pickled_members_are_left_out_if_allowed_and_refused_otherwise(path):
    np.savez(path, a=np.arange(3), b=np.array([{}], dtype=object))
    assert list(read_arrays(path, {"a", "b"}, may_be_pickled=("b",))) == ["a"]
    assert list(read_arrays(path, {"a"})) == ["a"]
    with pytest.raises(FormatError, match=r"a.npz: b holds Python objects, which could run code"):
        read_arrays(path, {"a", "b"}, may_be_pickled=("a",))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY junk",
        npy(np.arange(3))[:-1],
        npy(np.arange(3)) + b"\0",
        npy(np.zeros(5, "U1"))[:-20].replace(b"<U1", b"<U0"),
    ],
)
def test_members_that_are_not_whole_arrays_are_refused(path, content):
    put(path, a=content)
    with pytest.raises(FormatError, match=r"a.npz: a is not a valid .npy array"):
        read_arrays(path, {"a"})


@pytest.mark.parametrize(("code", "fits"), [(0xD7FF, True), (0xD800, False), (0xDFFF, False), (0xE000, True)])
@pytest.mark.parametrize("order", "<>")
def test_characters_must_be_valid_unicode(path, code, fits, order):
    values = np.array([ord("a"), code], f"{order}u4").view(f"{order}U1")
    put(path, a=npy(values))
    if fits:
        assert read_arrays(path, {"a"})["a"].tolist() == ["a", chr(code)]
    else:
        with pytest.raises(FormatError, match="a.npz: a holds characters that are not valid Unicode"):
            read_arrays(path, {"a"})


def test_the_last_valid_character_is_the_limit(path):
    put(path, a=npy(np.array([0x10FFFF], "<u4").view("<U1")), b=npy(np.array([0x110000], "<u4").view("<U1")))
    assert read_arrays(path, {"a"})["a"].tolist() == [chr(0x10FFFF)]
    with pytest.raises(FormatError, match="b holds characters"):
        read_arrays(path, {"b"})


def test_zip_bombs_are_refused_before_they_are_unpacked(path):
    np.savez_compressed(path, a=np.zeros(100_000), b=np.arange(3))
    with pytest.raises(InputError, match=r"unpacks to 800,\d+, .*; if you trust it, .* max_bytes=800"):
        read_arrays(path, {"a"}, max_bytes=1000)
    assert len(read_arrays(path, {"a"}, max_bytes=1_000_000)["a"]) == 100_000
    assert len(read_arrays(path, {"b"}, max_bytes=1000)["b"]) == 3
    np.savez(path, a=np.zeros(100_000))  # not compressed, so it unpacks to what the disk holds
    assert len(read_arrays(path, {"a"}, max_bytes=1000)["a"]) == 100_000


def test_what_is_no_complete_archive_is_refused(path):
    np.savez(path, a=np.arange(100))
    content = path.read_bytes()
    for damaged in (b"", b"text", content[:-30], content[:300].replace(b"\x05\0\0\0", b"\x06\0\0\0") + content[300:]):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"a.npz is not a complete .npz file: .*; download or write it again"):
            read_arrays(path, {"a"})


def test_strings_that_end_in_nul_cannot_be_stored():
    assert string_array(["a\0b", 3], "id").tolist() == ["a\0b", "3"]
    with pytest.raises(InputError, match=r"id 'a\\x00' ends in a NUL character"):
        string_array(["b", "a\0"], "id")
