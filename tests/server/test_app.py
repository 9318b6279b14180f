"""HTTP: answers, refusals, limits, many clients at once, and the way a server stops."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import httpx2 as httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from glace.server import app as module
from glace.server import page
from glace.server.app import make_app
from tests.server.conftest import running


@pytest.fixture(scope="module")
def client(answers, positions):
    return TestClient(make_app(answers, positions), base_url="http://localhost")


def test_answers_are_those_of_the_library(client, answers):
    for name, asked, known in [
        ("health", {}, answers.health()),
        ("node", {"id": "a/b?c=d&e"}, answers.node("a/b?c=d&e")),
        ("complete", {"q": "07"}, answers.complete("07")),
        ("neighbors", {"id": "node 01", "k": 3}, answers.neighbors("node 01", 3)),
        ("neighbors", {"id": "node 01", "exclude_known": True, "label": "music"},
         answers.neighbors("node 01", exclude_known=True, label="music")),
        ("links", {"id": "node 01"}, answers.links("node 01")),
        ("ellipses", {"id": "node 01", "other": ["node 02"]}, answers.ellipses("node 01", ["node 02"])),
    ]:  # fmt: skip
        reply = client.get(f"/api/{name}", params=asked)
        assert (reply.status_code, reply.json()) == (200, known)
    reply = client.post("/api/score", json={"pairs": [["node 01", "node 04"]]})
    assert reply.json() == answers.score([("node 01", "node 04")])
    reply = client.post("/api/embed", json={"texts": ["cat dog"], "k": 2})
    assert reply.json() == answers.embed(texts=["cat dog"], k=2)
    by_rows = client.post("/api/embed", json={"rows": [{"text": "cat dog"}], "k": 2})
    assert by_rows.json() == reply.json()


def test_types(typed):
    client = TestClient(make_app(typed, np.zeros((21, 2), np.float32)), base_url="http://localhost")
    reply = client.get("/api/neighbors", params={"id": "word 00", "node_type": "meaning", "label": "odd"})
    assert reply.json() == typed.neighbors("word 00", label="odd", node_type="meaning")
    reply = client.get("/api/links", params={"id": "word 00", "node_type": "meaning"})
    assert reply.json() == typed.links("word 00", node_type="meaning")
    refused = client.get("/api/neighbors", params={"id": "word 00", "node_type": "x"})
    assert (refused.status_code, refused.json()) == (422, {"error": "no type 'x'; there are author, meaning, word"})
    drawn = client.get("/api/map").json()
    assert (drawn["types"], len(drawn["type_codes"])) == (["author", "meaning", "word"], 112)


def test_it_describes_itself(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert {f"/api/{name}" for name in ("health", "node", "neighbors", "score", "links", "embed")} < set(paths)


REFUSED = [
    ("get", "/api/node?id=nobody", None, 404, "no node 'nobody'"),
    ("get", "/api/node", None, 422, "id: it is missing"),
    ("get", "/api/neighbors?id=node+01&k=x", None, 422, "k: it must be a valid integer"),
    ("get", "/api/neighbors?id=node+01&k=0", None, 422, "k must be from 1 to 1,000, not 0"),
    ("get", "/api/nothing", None, 404, "there is nothing at /api/nothing; /docs lists the questions"),
    ("get", "/other.js", None, 404, "no file 'other.js'"),
    ("post", "/api/node?id=x", b"", 405, "/api/node does not answer POST; /docs lists"),
    ("post", "/api/score", b"{", 400, "the body is not valid JSON"),
    ("post", "/api/score", b'{"pairs": [["node 01"]]}', 422, "pairs.0"),
    ("post", "/api/score", b'{"pairs": [], "more": 1}', 422, "more: Extra inputs"),
    ("post", "/api/score", b'{"pairs": [["node 01", "nobody"]]}', 404, "no node 'nobody'"),
    ("post", "/api/embed", b'{"attributes": [[1, 2]]}', 422, "trained on 15 attributes, but these have 2"),
    ("post", "/api/embed", b'{"texts": "cat"}', 422, "texts: it must be a valid list"),
    ("post", "/api/score", b'{"pairs": [["\\ud800", "node 01"]]}', 404, "no node"),
    ("get", "/redoc", None, 404, "no file 'redoc'"),
]


@pytest.mark.parametrize(("verb", "path", "body", "status", "match"), REFUSED)
def test_refusals_say_why(client, verb, path, body, status, match):
    headers = {"Content-Type": "application/json"}
    reply = client.request(verb, path, content=body, headers=headers)
    assert reply.status_code == status
    assert re.search(match, reply.json()["error"])


def test_a_body_without_a_content_type_is_refused_in_our_words(client):
    reply = client.post("/api/score", content=b'{"pairs": []}', headers={"Content-Type": ""})
    assert (reply.status_code, "Content-Type: application/json" in reply.json()["error"]) == (422, True)
    reply = client.post("/api/score")
    assert "there is no body; send a JSON object" in reply.json()["error"]


def test_pages_say_what_can_be_asked(client, answers):
    bare = TestClient(make_app(answers), base_url="http://localhost")
    for reply in (client.get("/docs"), bare.get("/docs"), bare.get("/")):
        assert reply.status_code == 200
        assert "GET /api/neighbors" in reply.text
        assert "pairs in the body" in reply.text
    assert "GET /api/neighbors" not in client.get("/").text, "that is the explorer"


def test_other_names_of_the_machine_are_refused(answers):
    far = TestClient(make_app(answers), base_url="http://elsewhere.example")
    assert far.get("/api/health").status_code == 400
    named = TestClient(make_app(answers, hosts=["elsewhere.example"]), base_url="http://elsewhere.example")
    assert named.get("/api/health").status_code == 200


def test_a_huge_body_is_refused(client, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    reply = client.post("/api/score", content=b"x" * 101)
    assert (reply.status_code, reply.json()["error"]) == (413, "the body must have at most 100 bytes")
    in_pieces = client.post("/api/score", content=iter([b"x" * 60, b"x" * 60]))
    assert in_pieces.status_code == 413


def test_a_long_query_is_refused(client):
    reply = client.get("/api/node", params={"id": "x" * module.MOST_QUERY_BYTES})
    assert (reply.status_code, reply.json()["error"]) == (414, "the query must have at most 64,000 bytes")
    assert client.get("/api/node", params={"id": "x" * 10_000}).status_code == 404


def test_a_slow_client_is_refused(answers, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.3)
    with running(make_app(answers)) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        said = slow.recv(1000)
        assert said.startswith(b"HTTP/1.1 408")
        assert httpx.get(f"http://127.0.0.1:{port}/api/health").status_code == 200


def test_many_clients_at_once(answers):
    names = list(answers.embedding.ids)

    def ask(number):
        name = names[number % len(names)]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            if number % 3 == 0:
                return client.get("/api/neighbors", params={"id": name, "k": 3}), answers.neighbors(name, 3)
            if number % 3 == 1:
                return client.post("/api/embed", json={"texts": ["cat fur"]}), answers.embed(texts=["cat fur"])
            pair = (name, names[0])
            return client.post("/api/score", json={"pairs": [pair]}), answers.score([pair])

    with running(make_app(answers)) as port, ThreadPoolExecutor(8) as pool:
        for reply, known in pool.map(ask, range(120)):
            assert (reply.status_code, reply.json()) == (200, known)


def test_the_page_and_its_parts(client, answers, positions):
    reply = client.get("/")
    assert "glace explorer" in reply.text
    assert "unsafe-inline" not in reply.headers["content-security-policy"].split("script-src")[1].split(";")[0]
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", reply.text), "nothing from elsewhere"
    for name, kind in page.PARTS.items():
        part = client.get(f"/{name}")
        assert part.status_code == 200
        assert part.headers["content-type"].startswith(kind)
    drawn = client.get("/api/map").json()
    assert drawn["ids"] == list(answers.embedding.ids)
    assert len(drawn["x"]) == 480  # 90 numbers of 4 bytes, in base64


def test_without_a_map_there_is_no_explorer(answers):
    bare = TestClient(make_app(answers), base_url="http://localhost")
    assert bare.get("/api/map").status_code == bare.get("/explore.js").status_code == 404


def start(arguments):
    command = [sys.executable, "-m", "glace", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def address_of(process):
    for line in process.stdout:
        found = re.search(r"http://[\d.]+:\d+", line)
        if found:
            return found[0]
    raise AssertionError(process.stderr.read())


def health(address):
    for _ in range(600):
        try:
            return httpx.get(f"{address}/api/health").json()
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("no answer")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_finishes_what_is_under_way(model, answers, tmp_path, workers):
    model.save(tmp_path / "m.glace")
    with start(["serve", str(tmp_path / "m.glace"), "--port", "0", "--workers", str(workers)]) as process:
        try:
            address = address_of(process)
            assert health(address)["nodes"] == 90
            known = answers.neighbors("node 01", 3)
            query = urlencode({"id": "node 01", "k": 3})
            host, port = address.removeprefix("http://").split(":")
            # A request whose second half comes after the signal.
            body = json.dumps({"pairs": [["node 01", "node 04"]]}).encode()
            with socket.create_connection((host, int(port))) as half:
                half.sendall(b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
                half.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
                assert httpx.get(f"{address}/api/neighbors?{query}").json() == known
                process.send_signal(signal.SIGTERM)
                time.sleep(0.3)
                half.sendall(body[5:])
                said = half.recv(10_000)
            assert said.startswith(b"HTTP/1.1 200")
            assert process.wait(20) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
