"""How many questions a second does a server answer, and does it answer all of them? `python -m benchmarks.serving`

A server in a process of its own, clients in threads of this one, on the loopback. Questions are mixed: neighbors,
score, node, links, completion and new nodes. Every answer is compared with the library's.
"""

import contextlib
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import httpx2 as httpx
import numpy as np
import typer

from benchmarks.common import RESULTS, Report, Results
from glace import datasets
from glace.estimators import GLACE
from glace.fitted.model import load
from glace.server.answers import Answers

Asked = tuple[str, str, dict[str, Any]]


def main(
    model: Annotated[Path | None, typer.Option(help="Model file; else one of the bundled graph is fitted.")] = None,
    requests: Annotated[int, typer.Option(help="Questions in all.")] = 10_000,
    clients: Annotated[int, typer.Option(help="Clients at once.")] = 32,
    workers: Annotated[list[int] | None, typer.Option(help="Processes of the server; may be repeated.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of the model that is fitted.")] = 300,
    results: Results = RESULTS,
) -> None:
    """Ask a server from many clients at once."""
    report = Report("serving", results, {"requests": requests, "clients": clients})
    with tempfile.TemporaryDirectory() as folder:
        path = model or Path(folder) / "served.glace"
        if model is None:
            GLACE(max_steps=steps, purpose="nodes").fit(datasets.load("wordnet-nouns")).save(path)
        answers = Answers(load(path))
        rows = []
        for count in workers or [1, 2]:
            found = asked(path, answers, requests, clients, count)
            report.note(nodes=len(answers.embedding), workers=count, **found)
            rows.append((str(count), *found.values()))
    columns = ("workers", "answers a second", "ms, median", "ms, 99 %", "5xx", "other than 200", "not the library's")
    report.table(f"{requests:,} questions of {clients} clients to {answers.embedding!r}", columns, rows)


def asked(path: Path, answers: Answers, requests: int, clients: int, workers: int) -> dict[str, float]:
    """One server, asked by all clients."""
    questions = [question(answers, number) for number in range(requests)]
    known = {repr(each): reply_of(answers, each) for each in questions[: min(requests, 600)]}
    with started(path, workers) as address:
        began = time.perf_counter()
        parts = [questions[start::clients] for start in range(clients)]
        with ThreadPoolExecutor(clients) as pool:
            replies = list(itertools.chain.from_iterable(pool.map(lambda part: client(address, part), parts)))
        seconds = time.perf_counter() - began
    times = 1e3 * np.array([took for _, _, _, took in replies])
    wrong = sum(repr(each) in known and reply != known[repr(each)] for each, _, reply, _ in replies)
    return {
        "answers_a_second": requests / seconds,
        "median_ms": float(np.median(times)),
        "slow_ms": float(np.quantile(times, 0.99)),
        "faults": sum(status >= 500 for _, status, _, _ in replies),
        "refused": sum(status != 200 for _, status, _, _ in replies),
        "wrong": int(wrong),
    }


def question(answers: Answers, number: int) -> Asked:
    """The question of this number: a verb, a path, and what it is asked with."""
    ids = answers.embedding.ids
    one, other = str(ids[number * 31 % len(ids)]), str(ids[number * 17 % len(ids)])
    kinds: list[Asked] = [
        ("get", "neighbors", {"id": one, "k": 10}),
        ("post", "score", {"pairs": [[one, other]]}),
        ("get", "node", {"id": one}),
        ("get", "links", {"id": one, "k": 5}),
        ("get", "complete", {"q": one[:4]}),
    ]
    if answers.facts()["takes"] == "texts":
        kinds.append(("post", "embed", {"texts": [f"a small {one.removeprefix('n:')} with a tail"], "k": 3}))
    return kinds[number % len(kinds)]


def reply_of(answers: Answers, each: Asked) -> Any:
    """What the library says."""
    _, name, asked_with = each
    if name == "score":
        return answers.score([(a, b) for a, b in asked_with["pairs"]])
    return getattr(answers, name)(**asked_with)


def client(address: str, questions: list[Asked]) -> list[tuple[Asked, int, Any, float]]:
    """All questions of one client, one after the other over one connection."""
    replies = []
    with httpx.Client(base_url=address, timeout=60) as connection:
        for each in questions:
            verb, name, asked_with = each
            began = time.perf_counter()
            if verb == "get":
                reply = connection.get(f"/api/{name}", params=asked_with)
            else:
                reply = connection.post(f"/api/{name}", json=asked_with)
            replies.append((each, reply.status_code, reply.json(), time.perf_counter() - began))
    return replies


@contextlib.contextmanager
def started(path: Path, workers: int) -> Iterator[str]:
    """A server of this model, until the block ends; gives its address."""
    command = [sys.executable, "-m", "glace", "serve", str(path), "--port", "0", "--workers", str(workers)]
    # One thread a process: the clients are many, and threads of one answer would wait for those of another.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        lines = (re.search(r"http://[\d.]+:\d+", line) for line in process.stdout)
        address = next(found[0] for found in lines if found)
        try:
            _wait_for(address)
            yield address
        finally:
            process.terminate()


def _wait_for(address: str) -> None:
    for _ in range(1200):
        try:
            httpx.get(f"{address}/api/health")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the server does not answer")


if __name__ == "__main__":
    typer.run(main)
