import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from glace.errors import InputError
from glace.storage import files
from glace.storage.files import (
    check_folder_writable,
    check_writable,
    existing,
    make_folder,
    replacing,
    replacing_folder,
    sha256_of,
    write_text,
)


def test_a_file_appears_whole_with_ordinary_permissions(tmp_path):
    target = tmp_path / "result.txt"
    with replacing(target) as temporary:
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~_umask()
    assert list(tmp_path.iterdir()) == [target]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_half(path):
    path.write_text("half")
    raise ZeroDivisionError


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "result.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(target) as temporary:
        _write_half(temporary)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_said_in_words(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*no space left"), replacing(tmp_path / "x"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_cannot_be_synced_is_no_failure(tmp_path, monkeypatch):
    def refuse(handle):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    with replacing(tmp_path / "x") as temporary:
        temporary.write_text("whole")
    assert (tmp_path / "x").read_text() == "whole"


def test_a_sync_that_fails_for_real_is(tmp_path, monkeypatch):
    def fail(handle):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match="input/output error"), replacing(tmp_path / "x"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_targets_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="it is a folder; name a file in it"):
        check_writable(tmp_path)
    with pytest.raises(InputError, match="does not exist; make it first"):
        check_writable(tmp_path / "none" / "file")
    with pytest.raises(InputError, match="file name too long"):
        check_writable(tmp_path / ("x" * 250))


def test_sources_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="is a folder, not a table"):
        existing(tmp_path, "a table")
    with pytest.raises(InputError, match=r"no file .*none\.csv; expected a table"):
        existing(tmp_path / "none.csv", "a table")
    with pytest.raises(InputError, match=r"cannot read .*too long"):
        existing(tmp_path / ("x" * 5000), "a table")
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="is empty; expected a table"):
        existing(tmp_path / "empty", "a table")


def test_existing_and_sha256(tmp_path):
    (tmp_path / "file").write_bytes(b"abc" * 1_000_000)
    assert existing(tmp_path / "file", "a file") == tmp_path / "file"
    assert sha256_of(tmp_path / "file") == hashlib.sha256(b"abc" * 1_000_000).hexdigest()


def test_a_text_is_written_whole(tmp_path):
    write_text(tmp_path / "notes.txt", "a\u00e9\n")
    assert (tmp_path / "notes.txt").read_bytes() == "a\u00e9\n".encode()
    with pytest.raises(InputError, match="does not exist; make it first"):
        write_text(tmp_path / "none" / "notes.txt", "a")


def write_folder(path, content):
    with replacing_folder(path, "mark") as temporary:
        (temporary / "mark").write_text("")
        (temporary / content).write_text(content)
        assert not (path / content).exists()


def test_a_folder_appears_whole_and_replaces_one_of_its_kind(tmp_path):
    target = tmp_path / "folder"
    for content in ("first", "second"):
        check_folder_writable(target, "mark")
        write_folder(target, content)
        assert sorted(each.name for each in target.iterdir()) == sorted(["mark", content])
    assert stat.S_IMODE(target.stat().st_mode) == 0o777 & ~_umask()
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_content_is_synced_before_the_rename_and_the_parent_after_it(tmp_path, monkeypatch):
    """Otherwise a power cut could leave an empty file under the final name, or no file at all."""
    synced = []
    monkeypatch.setattr(files, "_sync", lambda path: synced.append((path.name, (tmp_path / "x").exists())))
    with replacing(tmp_path / "x") as temporary:
        temporary.write_text("whole")
    assert synced == [(temporary.name, False), (tmp_path.name, True)]
    (tmp_path / "x").unlink()
    synced.clear()
    write_folder(tmp_path / "x", "content")
    *inside, folder, parent = synced
    assert sorted(inside) == [("content", False), ("mark", False)]
    assert folder[0].endswith(".part")
    assert (folder[1], parent) == (False, (tmp_path.name, True))


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path):
    target = tmp_path / "folder"
    write_folder(target, "old")
    with pytest.raises(ZeroDivisionError), replacing_folder(target, "mark") as temporary:
        (temporary / "new").write_text(str(1 / 0))
    assert sorted(each.name for each in target.iterdir()) == ["mark", "old"]
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_an_interrupt_between_two_renames_leaves_the_old_folder(tmp_path, monkeypatch):
    target, rename = tmp_path / "folder", Path.rename
    write_folder(target, "old")

    def interrupted(path: Path, new: Path) -> Path:
        if path.suffix == ".part":
            raise KeyboardInterrupt
        return rename(path, new)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(target, "new")
    assert sorted(each.name for each in target.iterdir()) == ["mark", "old"]
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_a_folder_is_made_or_the_reason_is_said(tmp_path):
    assert make_folder(tmp_path / "a" / "b").is_dir()
    assert make_folder(tmp_path / "a" / "b").is_dir(), "it may exist"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*file/sub: not a directory; choose another name"):
        make_folder(tmp_path / "file" / "sub")


def test_folders_that_cannot_be_written(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("theirs", "file"):
        with pytest.raises(InputError, match=f"cannot write .*{name}: it exists and is not a folder with a mark"):
            check_folder_writable(tmp_path / name, "mark")
        with pytest.raises(InputError, match="it exists and is not a folder"):
            write_folder(tmp_path / name, "new")
    with pytest.raises(InputError, match="absent does not exist; make it first"):
        check_folder_writable(tmp_path / "absent" / "new", "mark")
