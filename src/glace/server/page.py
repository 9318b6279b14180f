"""The page to explore an embedding: served in parts, or written as one file that needs no server."""

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from glace.errors import InputError
from glace.queries.link_types import link_types
from glace.queries.links import missing
from glace.server.answers import Answers, ellipses
from glace.sparse import row_of
from glace.storage.files import replacing

PARTS = {"style.css": "text/css", "explore.js": "text/javascript", "plotly.js": "text/javascript"}
MOST_NODES = 20_000
"""Nodes of a page that stands alone: it holds all its answers, some 600 bytes a node."""
NEAREST, LIKELY = 8, 5


@cache
def part(name: str) -> str:
    """The text of a part of the page; the library that draws comes from its own package."""
    if name == "plotly.js":
        return _plotly()
    return (resources.files("glace.server") / "page" / name).read_text("utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as problem:
        raise InputError(f"the page needs plotly: pip install 'glace-graph[serve]' ({problem})") from problem
    return str(get_plotlyjs())


def linked() -> str:
    """The page with its parts beside it, on a server."""
    links = '<link rel="stylesheet" href="style.css">'
    scripts = '<script src="plotly.js" defer></script><script src="explore.js" defer></script>'
    return part("index.html").replace("<!-- style -->", links).replace("<!-- scripts -->", scripts)


def export(answers: Answers, drawn: dict[str, Any], path: Path) -> None:
    """Write the page with all it can say into one file; `drawn` is what the map shows."""
    if len(answers.embedding) > MOST_NODES:
        raise InputError(
            f"a page that stands alone holds at most {MOST_NODES:,} nodes, not {len(answers.embedding):,}; "
            "explore these with `glace explore` on this machine"
        )
    # In a script no text may look like the end of it, or like the beginning of another.
    data = json.dumps({**drawn, **_all_answers(answers)}, separators=(",", ":")).replace("<", "\\u003c")
    scripts = "".join(
        f"<script{kind}>{text}</script>\n"
        for kind, text in (
            (' id="data" type="application/json"', data),
            ("", part("plotly.js")),
            ("", part("explore.js")),
        )
    )
    whole = part("index.html").replace("<!-- style -->", f"<style>{part('style.css')}</style>")
    with replacing(path) as temporary:
        temporary.write_text(whole.replace("<!-- scripts -->", scripts), "utf-8")


def _all_answers(answers: Answers) -> dict[str, Any]:
    """The answers for every node, by position; numbers to four digits."""
    embedding, graph = answers.embedding, answers.graph
    nodes = np.arange(len(embedding))
    places, far = embedding.nearest_to(embedding, NEAREST, exclude=nodes[:, None].tolist())
    pairs = np.column_stack([np.repeat(nodes, places.shape[1]), places.ravel()])
    spread = np.zeros(len(pairs))
    found = pairs[:, 1] >= 0
    spread[found] = embedding.variance_terms_at(pairs[found])
    values: dict[str, Any] = {
        "near": places.tolist(),
        "far": _short(far),
        "spread": _short(spread.reshape(far.shape)),
        "chance": _short(embedding.probabilities(far)),
        "ellipses": [
            _short([list(each.values()) for each in ellipses(embedding.gaussian[[node, *near[near >= 0]]])])
            for node, near in enumerate(places)
        ],
    }
    if graph is None:
        return values
    known, around = graph.known_edges(embedding.measure.symmetric), graph.neighborhoods()
    types = link_types(graph, embedding.measure.symmetric)
    likely, unlike = missing(embedding, known, nodes, LIKELY, types=types)
    joined = [row_of(around, node).tolist() for node in nodes.tolist()]
    return {
        **values,
        "joined": joined,
        "likely": likely.tolist(),
        "likely_chance": _short(embedding.probabilities(unlike)),
    }


def _short(numbers: Any) -> Any:
    """As lists, with four digits; what is infinite stands for nobody."""
    finite = np.nan_to_num(np.asarray(numbers, dtype=np.float64), posinf=0.0)
    return [[float(f"{value:.4g}") for value in row] for row in finite]
