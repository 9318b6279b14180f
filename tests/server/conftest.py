"""A small model of texts with labels, as a file, and what it can be asked."""

import contextlib
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

import glace

pytest.importorskip("fastapi", reason="the server needs fastapi: pip install '.[serve]'")

from glace.server.answers import Answers
from tests.conftest import small

TOPICS = {
    "animal": "cat dog fur tail paw",
    "music": "piano violin note bow string",
    "fruit": "apple pear plum seed peel",
}


@pytest.fixture(scope="session")
def graph():
    """Ninety nodes of three topics, described by words; one id needs quoting, another is no tag."""
    rng, topics = np.random.default_rng(0), list(TOPICS)
    ids = [f"node {number:02}" for number in range(88)] + ["a/b?c=d&e", "<b>bold</b>"]
    texts = [" ".join(rng.choice(TOPICS[topics[number % 3]].split(), 5)) for number in range(90)]
    pairs = {(a, int(a + 3 * step) % 90) for a in range(90) for step in rng.integers(1, 15, 4)}
    edges = pd.DataFrame([(ids[a], ids[b]) for a, b in sorted(pairs) if a != b], columns=["source", "target"])
    labels = [topics[number % 3] for number in range(90)]
    return glace.from_tables(edges, texts=pd.DataFrame({"id": ids, "text": texts, "label": labels}))


@pytest.fixture(scope="session")
def model(graph):
    options: dict[str, Any] = {"neighbor_features": "none", "dropout": 0.0, "offset": "learned", "ensemble_size": 1}
    return glace.GLACE(dim=8, hidden=32, max_steps=200, n_jobs=1, **options).fit(graph).model_


@pytest.fixture(scope="session")
def answers(model):
    return Answers(model)


@pytest.fixture(scope="session")
def typed():
    """What can be asked of a model of words, meanings and an author, in which words are joined to both."""
    kinds = ["word", "meaning"] * 10 + ["author"]
    edges = [(a, (a + step) % 20) for a in range(0, 20, 2) for step in (1, 3, 7)] + [(0, 20), (4, 20)]
    ids, labels = [f"{kind} {place:02}" for place, kind in enumerate(kinds)], ["odd", "even", None] * 7
    attributes = np.random.default_rng(0).random((21, 6))
    graph = glace.from_arrays(edges, attributes, ids=ids, labels=labels, node_types=kinds)
    return Answers(glace.GLACE(**small(dim=4, hidden=8, max_steps=20)).fit(graph).model_)


@pytest.fixture(scope="session")
def positions(model):
    from glace.queries.layout import principal

    return principal(model.embedding).astype(np.float32)


@contextlib.contextmanager
def running(app):
    """A server in a thread; gives its port."""
    import uvicorn

    from glace.server.run import listening

    with listening("127.0.0.1", 0) as opened:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield opened.getsockname()[1]
        server.should_exit = True
        thread.join()
