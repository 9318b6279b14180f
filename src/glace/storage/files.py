"""Files that are whole or not there: written under a temporary name, synced, then renamed."""

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from glace.errors import InputError

CHUNK = 1 << 20

# Asked for once, at import: asking means setting it for a moment, for all threads.
_MASK = os.umask(0)
os.umask(_MASK)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; on success it becomes `path`, else nothing changes."""
    target = Path(path)
    temporary = _temporary_beside(target)
    try:
        yield temporary
        _permit(temporary)
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except Exception as problem:
        if not _is_of_the_system(problem):
            raise
        raise InputError(f"cannot write {target}: {_reason(problem)}") from problem
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def replacing_folder(path: str | Path, mark: str) -> Iterator[Path]:
    """A temporary folder beside `path` to write to; on success it becomes `path`, else nothing changes.

    A folder that is there already is replaced only if it holds a file called `mark`.
    """
    target = Path(path)
    temporary = _folder_beside(target, mark)
    try:
        yield temporary
        temporary.chmod(0o777 & ~_MASK)
        for each in (*temporary.iterdir(), temporary):
            _sync(each)
        _put_in_place(temporary, target)
    except OSError as problem:
        raise InputError(f"cannot write {target}: {_reason(problem)}") from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder_writable(path: str | Path, mark: str) -> None:
    """Raise before any work is done if `replacing_folder` would."""
    _folder_beside(Path(path), mark).rmdir()


def _folder_beside(target: Path, mark: str) -> Path:
    if target.exists() and not (target / mark).is_file():
        raise InputError(f"cannot write {target}: it is there and no folder with a {mark}; name a new one or remove it")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist; make it first")
    try:
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    except OSError as problem:
        raise InputError(f"cannot write {target}: {_reason(problem)}") from problem


def _put_in_place(temporary: Path, target: Path) -> None:
    """Rename; a folder that was there steps aside for that moment, for none can be renamed onto a full one."""
    if target.exists():
        old = temporary / "replaced"
        target.rename(old)
        temporary.rename(target)
        shutil.rmtree(target / old.name)
    else:
        temporary.rename(target)
    _sync(target.parent)


def check_writable(path: str | Path) -> None:
    """Raise before any work is done if `path` cannot be written later."""
    _temporary_beside(Path(path)).unlink()


def _temporary_beside(target: Path) -> Path:
    """A new empty file in the folder of `target`; raises if there can be none, or `target` cannot be replaced."""
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder; name a file in it")
    if target.exists() and not target.is_file():  # a rename would put a file in the place of /dev/null
        raise InputError(f"cannot write {target}: it is a device or pipe; name an ordinary file")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist; make it first")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as problem:
        raise InputError(f"cannot write {target}: {_reason(problem)}") from problem
    os.close(handle)
    return Path(name)


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as source:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def existing(path: str | Path, what: str) -> Path:
    """The path, if it names a file that is there and not empty."""
    source = Path(path)
    try:
        with source.open("rb") as opened:
            empty = not opened.read(1)
    except IsADirectoryError as problem:
        raise InputError(f"{source} is a folder, not {what}") from problem
    except FileNotFoundError as problem:
        raise InputError(f"no file {source}; wanted {what}") from problem
    except OSError as problem:
        raise InputError(f"cannot read {source}: {_reason(problem)}") from problem
    if empty:
        raise InputError(f"{source} is empty; wanted {what}")
    return source


def _permit(temporary: Path) -> None:
    # mkstemp, and safetensors after it, make files only their owner can read; a result should have the
    # permissions of any new file.
    temporary.chmod(0o666 & ~_MASK)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        # Some file systems cannot sync a folder; the rename itself is still atomic.
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _is_of_the_system(problem: Exception) -> bool:
    # Libraries written in Rust, such as safetensors, raise errors of their own and only say "(os error 28)".
    return isinstance(problem, OSError) or "(os error " in str(problem)


def _reason(problem: Exception) -> str:
    return (getattr(problem, "strerror", None) or str(problem)).lower()
