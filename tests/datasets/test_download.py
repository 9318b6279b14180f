"""Downloads, from a real server on this machine that can be told to misbehave."""

import hashlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from glace.datasets import download as module
from glace.datasets.download import blob_id_of, download, get
from glace.datasets.registry import Dataset
from glace.errors import FormatError, InputError

CONTENT = bytes(range(256)) * 4000
BLOB_ID = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `script` holds what to do wrong with the next requests, `ranges` what was asked for."""

    daemon_threads = True
    script: list[str]
    ranges: list[str | None]
    supports_range = True
    released: threading.Event

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data.npz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.ranges.append(self.headers.get("Range"))
        action = self.server.script.pop(0) if self.server.script else "serve"
        if action.isdigit():
            self.send_error(int(action))
        elif action.startswith("redirect "):
            self.send_response(302)
            self.send_header("Location", action.partition(" ")[2])
            self.end_headers()
        else:
            self.serve(action)

    def serve(self, action: str) -> None:
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.supports_range else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if action != "no length":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: 300_000 if action in ("cut", "stall") else None])
        self.wfile.flush()
        if action == "stall":
            self.server.released.wait(10)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    running = Server(("127.0.0.1", 0), Handler)
    running.script, running.ranges, running.released = [], [], threading.Event()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.released.set()
    running.shutdown()
    thread.join()
    running.server_close()


class Pauses(list[float]):
    """A pause that does not wait but remembers."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def fetch(server: Server, folder: Path, **options: Any) -> Path:
    options = {"blob_id": BLOB_ID, "pause": Pauses(), "timeout": 5.0, **options}
    return download(server.url, folder / "data.npz", **options)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_file_arrives_and_progress_is_told(server, tmp_path):
    told: list[tuple[int, int | None]] = []
    path = fetch(server, tmp_path, progress=lambda received, total: told.append((received, total)))
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert told == sorted(told)
    assert names(tmp_path) == ["data.npz"]


def test_a_server_that_does_not_tell_the_length(server, tmp_path):
    server.script = ["no length"]
    told: list[tuple[int, int | None]] = []
    fetch(server, tmp_path, progress=lambda received, total: told.append((received, total)))
    assert told[-1] == (len(CONTENT), None)


def test_a_cut_download_goes_on_where_it_stopped(server, tmp_path):
    server.script = ["cut", "cut"]
    pauses = Pauses()
    assert fetch(server, tmp_path, pause=pauses).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-", "bytes=600000-"]
    assert pauses == [1.0, 2.0]


def test_a_later_call_goes_on_as_well(server, tmp_path):
    server.script = ["cut"]
    with pytest.raises(InputError, match=r"the connection broke after 300,000 of 1,024,000 bytes"):
        fetch(server, tmp_path, attempts=1)
    assert names(tmp_path) == ["data.npz.part"]
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-"]


def test_a_server_without_ranges_begins_anew(server, tmp_path):
    server.supports_range = False
    server.script = ["cut"]
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-"]


def test_a_part_longer_than_the_file_is_thrown_away(server, tmp_path):
    (tmp_path / "data.npz.part").write_bytes(CONTENT + b"more")
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_missing_file_is_said_at_once(server, tmp_path):
    server.script = ["404"]
    with pytest.raises(InputError, match=r"the server answers 404 \(Not Found\) for http://127"):
        fetch(server, tmp_path)
    assert len(server.ranges) == 1
    assert names(tmp_path) == []


def test_trouble_that_passes_is_waited_for(server, tmp_path):
    server.script = ["500", "503", "429"]
    pauses = Pauses()
    assert fetch(server, tmp_path, pause=pauses).read_bytes() == CONTENT
    assert pauses == [1.0, 2.0, 4.0]


def test_trouble_that_stays_is_an_error(server, tmp_path):
    server.script = ["500"] * 4
    with pytest.raises(InputError, match=r"cannot reach http://127.*Internal Server Error.*put it into .*data\.npz"):
        fetch(server, tmp_path)


def test_other_content_is_refused_and_deleted(server, tmp_path):
    with pytest.raises(FormatError, match=rf"is not the published file \(git blob {BLOB_ID}, expected 0000"):
        fetch(server, tmp_path, blob_id="0" * 40)
    assert names(tmp_path) == []


def test_other_content_leaves_an_older_file_alone(server, tmp_path):
    (tmp_path / "data.npz").write_bytes(b"older")
    with pytest.raises(FormatError, match="try again"):
        fetch(server, tmp_path, blob_id="0" * 40)
    assert (tmp_path / "data.npz").read_bytes() == b"older"


def test_a_silent_server_is_given_up(server, tmp_path):
    server.script = ["stall", "stall"]
    begin = time.monotonic()
    with pytest.raises(InputError, match=r"cannot reach .*timed out.*GLACE_DATA"):
        fetch(server, tmp_path, timeout=0.2, attempts=2)
    assert time.monotonic() - begin < 5


def test_too_much_is_refused(server, tmp_path):
    with pytest.raises(InputError, match="sends more than 1,000 bytes"):
        fetch(server, tmp_path, limit=1000)


@pytest.mark.parametrize("address", ["http://example.org/data.npz", "file:///etc/passwd", "ftp://example.org/x"])
def test_only_https_is_fetched(address, server, tmp_path):
    with pytest.raises(InputError, match=f"only https addresses can be downloaded, not {address}"):
        download(address, tmp_path / "data.npz", blob_id=BLOB_ID)
    server.script = [f"redirect {address}"]
    # To file: urllib itself does not go.
    with pytest.raises(InputError, match=f"only https addresses can be downloaded, not {address}|is not allowed"):
        fetch(server, tmp_path)
    assert names(tmp_path) == []


def test_a_redirect_on_this_machine_is_followed(server, tmp_path):
    server.script = [f"redirect http://localhost:{server.server_port}/other"]
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def test_no_network_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(InputError, match=rf"cannot reach http://127\.0\.0\.1:9/x.*put it into {tmp_path}.*GLACE_DATA"):
        download("http://127.0.0.1:9/x", tmp_path / "x.npz", blob_id=BLOB_ID, pause=Pauses(), attempts=2)


def test_a_folder_that_is_not_there_is_said_before_anything_is_fetched(server, tmp_path):
    with pytest.raises(InputError, match="the folder .* does not exist"):
        fetch(server, tmp_path / "none")
    assert server.ranges == []


def test_git_names_content_as_we_do(tmp_path):
    (tmp_path / "hello").write_bytes(b"hello\n")
    assert blob_id_of(tmp_path / "hello") == "ce013625030ba8dba906f756967f9e9ca394464a"


@pytest.fixture
def registered(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    dataset = Dataset("cora-ml", "papers", "MIT", server.url, "downloaded", BLOB_ID)
    monkeypatch.setattr(module, "find", lambda name: dataset)
    return server


def test_get_makes_the_folder_and_fetches_once(registered, tmp_path):
    folder = tmp_path / "new" / "data"
    assert get("cora-ml", folder) == folder / "cora-ml.npz"
    assert get("cora-ml", folder) == folder / "cora-ml.npz"
    assert len(registered.ranges) == 1


def test_get_is_content_with_the_published_spelling(registered, tmp_path):
    (tmp_path / "cora_ml.npz").write_bytes(CONTENT)
    assert get("cora-ml", tmp_path) == tmp_path / "cora_ml.npz"
    assert registered.ranges == []


def test_get_does_not_replace_what_it_did_not_fetch(registered, tmp_path):
    (tmp_path / "cora-ml.npz").write_bytes(CONTENT[:-1])
    with pytest.raises(InputError, match=r"cora-ml\.npz differs from the published cora-ml; move it away"):
        get("cora-ml", tmp_path)
    assert (tmp_path / "cora-ml.npz").read_bytes() == CONTENT[:-1]
    assert registered.ranges == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_not_taken_for_the_network(server, tmp_path):
    (tmp_path / "data.npz.part").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"cannot write .*data\.npz\.part: .*No space left.*GLACE_DATA"):
        fetch(server, tmp_path)
    assert len(server.ranges) == 1, "to try again does not help"


def test_get_into_a_folder_that_cannot_be_made(registered, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot make the folder .*file/data.*name another, or set GLACE_DATA"):
        get("cora-ml", tmp_path / "file" / "data")


def test_get_of_what_is_not_downloaded():
    with pytest.raises(InputError, match="debian is not downloaded but built; run 'glace datasets build debian'"):
        get("debian")
    with pytest.raises(InputError, match="wordnet-nouns is not downloaded but bundled; it comes with the package"):
        get("wordnet-nouns")
