"""Atomic writes: a file or folder is written under a temporary name, synced, then renamed."""

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

# Read once, at import: reading the umask means setting it for a moment, in all threads.
_MASK = os.umask(0)
os.umask(_MASK)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; on success it replaces `path`, else nothing changes."""
    target = Path(path)
    temporary = _temporary_beside(target)
    try:
        with _system_errors(target):
            yield temporary
            # mkstemp creates files that only their owner can read; a result should be readable like any new file.
            temporary.chmod(0o666 & ~_MASK)
            _sync(temporary)
            temporary.replace(target)
            _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def replacing_folder(path: str | Path, mark: str) -> Iterator[Path]:
    """Yield a temporary folder beside `path` to write to; on success it replaces `path`, else nothing changes.

    An existing folder is replaced only if it holds a file called `mark`.
    """
    target = Path(path)
    temporary = _folder_beside(target, mark)
    try:
        with _system_errors(target):
            yield temporary
            temporary.chmod(0o777 & ~_MASK)
            for each in (*temporary.iterdir(), temporary):
                _sync(each)
            _put_in_place(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def make_folder(path: str | Path) -> Path:
    """Make a folder and those above it, unless they exist; return its path."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"cannot make the folder {folder}: {_reason(problem)}; choose another name") from problem
    return folder


def check_writable(path: str | Path) -> None:
    """Raise early, before a long computation, if `replacing` could not write the file."""
    _temporary_beside(Path(path)).unlink()


def check_folder_writable(path: str | Path, mark: str) -> None:
    """Raise early, before a long computation, if `replacing_folder` could not write the folder."""
    _folder_beside(Path(path), mark).rmdir()


def _folder_beside(target: Path, mark: str) -> Path:
    if target.exists() and not (target / mark).is_file():
        raise InputError(
            f"cannot write {target}: it exists and is not a folder with a {mark}; choose another name or remove it"
        )
    _check_parent(target)
    with _system_errors(target):
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))


def _put_in_place(temporary: Path, target: Path) -> None:
    """Rename; an existing folder is moved away first, because no folder can be renamed onto a non-empty one."""
    if target.exists():
        old = temporary / "replaced"
        target.rename(old)
        try:
            temporary.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(target / old.name)
    else:
        temporary.rename(target)
    _sync(target.parent)


def _temporary_beside(target: Path) -> Path:
    """Create an empty file in the folder of `target`; raise if that is impossible or `target` cannot be replaced."""
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder; name a file in it")
    if target.exists() and not target.is_file():  # a rename would replace /dev/null by a file
        raise InputError(f"cannot write {target}: it is a device or pipe; name an ordinary file")
    _check_parent(target)
    with _system_errors(target):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    return Path(name)


def _check_parent(target: Path) -> None:
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist; make it first")


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def existing(path: str | Path, what: str) -> Path:
    """Return the path of a file that can be read and is not empty, else raise; `what` says what was wanted."""
    source = Path(path)
    try:
        with source.open("rb") as opened:
            empty = not opened.read(1)
    except IsADirectoryError as problem:
        raise InputError(f"{source} is a folder, not {what}") from problem
    except FileNotFoundError as problem:
        raise InputError(f"no file {source}; expected {what}") from problem
    except (OSError, ValueError) as problem:  # a name with a NUL byte is a ValueError
        raise InputError(f"cannot read {source}: {_reason(problem)}") from problem
    if empty:
        raise InputError(f"{source} is empty; expected {what}")
    return source


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


@contextlib.contextmanager
def _system_errors(target: Path) -> Iterator[None]:
    """Raise errors of the operating system, such as a full disk, as an InputError that names the target."""
    try:
        yield
    except Exception as problem:
        # Libraries written in Rust, such as safetensors, raise their own errors, which mention "(os error 28)".
        if isinstance(problem, OSError) or "(os error " in str(problem):
            raise InputError(f"cannot write {target}: {_reason(problem)}") from problem
        raise


def _reason(problem: Exception) -> str:
    return (getattr(problem, "strerror", None) or str(problem)).lower()
