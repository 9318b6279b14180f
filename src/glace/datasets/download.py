"""Download published files: resumed after a broken connection, and verified before they get their name."""

import contextlib
import errno
import hashlib
import http.client
import ipaddress
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from glace.datasets.registry import VARIABLE, data_folder, find, made, stored
from glace.errors import FormatError, InputError
from glace.storage.files import CHUNK, check_writable, replacing

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and, if the server tells, the total."""

LIMIT = 1 << 30  # bytes; published files have a few megabytes

# HTTP statuses worth another attempt: time-out, too many requests, and all of 5xx.
_TRANSIENT = frozenset({408, 429, *range(500, 600)})

# Errors of the disk, not of the network; another attempt does not help.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def get(name: str, data_dir: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Download a published dataset into the data folder, unless it is there already.

    Parameters
    ----------
    name
        The name of a dataset of the kind "downloaded".
    data_dir
        Folder to download to. By default the environment variable GLACE_DATA, else the user's cache folder.
    progress
        Called with the bytes received so far and the total, or None if the total is unknown.

    Returns
    -------
    Path
        The file, verified by its git blob id.

    Raises
    ------
    InputError
        If the dataset is not a download, a file with the same name but other content exists, or the server cannot be
        reached.
    FormatError
        If the downloaded content is not the published file.

    Examples
    --------
    >>> from glace import datasets
    >>> datasets.get("cora-ml", "data")  # doctest: +SKIP
    PosixPath('data/cora-ml.npz')
    """
    dataset = find(name)
    if dataset.kind != "downloaded":
        raise InputError(
            f"{dataset.name} is not downloaded but {dataset.kind}; "
            + (f"run '{dataset.command}'" if dataset.command else "it comes with the package; use `load`")
        )
    present = stored(dataset, data_dir)
    if present is not None and blob_id_of(present) != dataset.blob_id:
        raise InputError(
            f"{present} differs from the published {dataset.name}; move it away to download the published file"
        )
    if present is not None:
        return present
    target = made(data_folder(data_dir)) / dataset.file_names[0]
    return download(dataset.source, target, blob_id=dataset.blob_id, progress=progress)


def download(
    url: str,
    target: str | Path,
    *,
    blob_id: str,
    progress: Progress | None = None,
    attempts: int = 4,
    timeout: float = 30.0,
    limit: int = LIMIT,
    pause: Callable[[float], None] = time.sleep,
) -> Path:
    """Download `url` over HTTPS to `target`, verify its git blob id, and return the path.

    Data is kept in `target`.part, so that an interrupted download, also of an earlier call, resumes where it stopped.
    Transient failures are retried, `attempts` times in all, after pauses of 1, 2, 4, ... seconds. `timeout` is the
    longest silence in seconds, `limit` the most bytes accepted. pooch does not resume, so this is by hand.
    """
    path = Path(target)
    _check_address(url)
    check_writable(path)
    part = path.with_name(f"{path.name}.part")
    for attempt in range(attempts):
        if attempt:
            pause(2.0 ** (attempt - 1))
        try:
            _fetch(url, part, timeout, limit, progress)
            break
        except (OSError, http.client.HTTPException) as problem:
            if getattr(problem, "errno", None) in _FULL:
                raise InputError(
                    f"cannot write {part}: {_reason(problem)}; free some space (the partial download is kept), "
                    f"or set {VARIABLE} to another folder"
                ) from problem
            reason = problem
    else:
        raise InputError(
            f"cannot reach {url}: {_reason(reason)}; try again later (the partial download is kept), or get the "
            f"file another way and put it into {path.parent} as {path.name}, or set {VARIABLE} to its folder"
        ) from reason
    _check_content(part, blob_id, url)
    with replacing(path) as temporary:
        part.replace(temporary)
    return path


def blob_id_of(path: Path) -> str:
    """Return the git blob id of a file: the SHA-1 of a header with its size, then its bytes."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as source:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _fetch(url: str, part: Path, timeout: float, limit: int, progress: Progress | None) -> None:
    """Make one attempt: fetch the rest of the file, or all of it if the server does not support ranges."""
    present = part.stat().st_size if part.exists() else 0
    with _opened(url, present, part, timeout) as response:
        resumed = response.status == http.client.PARTIAL_CONTENT
        received = present if resumed else 0
        length = response.headers.get("Content-Length")
        total = received + int(length) if length is not None else None
        with part.open("ab" if resumed else "wb") as output:
            while chunk := response.read1(CHUNK):
                received += len(chunk)
                if received > limit:
                    raise InputError(f"{url} sends more than {limit:,} bytes; it is not the expected file")
                output.write(chunk)
                if progress is not None:
                    progress(received, total)
    if total is not None and received < total:
        raise ConnectionError(f"the connection broke after {received:,} of {total:,} bytes")


@contextlib.contextmanager
def _opened(url: str, present: int, part: Path, timeout: float) -> Iterator[Any]:
    request = urllib.request.Request(url, headers={"User-Agent": "glace"})
    if present:
        request.add_header("Range", f"bytes={present}-")
    opener = urllib.request.build_opener(_Redirects())
    try:
        with opener.open(request, timeout=timeout) as response:
            yield response
    except urllib.error.HTTPError as answer:
        answer.close()
        if answer.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            # The partial file is at least as long as the file itself: start again.
            part.unlink()
        elif answer.code not in _TRANSIENT:
            raise InputError(f"the server answers {answer.code} ({answer.reason}) for {url}") from answer
        raise


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to addresses that are safe as well."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        raise InputError(f"only https addresses can be downloaded, not {url}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_content(part: Path, blob_id: str, url: str) -> None:
    found = blob_id_of(part)
    if found != blob_id:
        part.unlink()
        raise FormatError(
            f"the download from {url} is not the published file (git blob {found}, expected {blob_id}); "
            "it was deleted, try again"
        )


def _reason(problem: Exception) -> str:
    inner = getattr(problem, "reason", None)
    return str(inner or problem) or type(problem).__name__
