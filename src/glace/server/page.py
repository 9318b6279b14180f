"""The explorer page: served as several files, or written as one file that needs no server."""

import base64
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.categories import Categories
from glace.errors import InputError
from glace.graph.graph import Graph
from glace.queries.links import best_links_of_each, reasons
from glace.server.answers import Answer, Answers, ellipses
from glace.server.map import Positions
from glace.sparse import row_of
from glace.storage.files import write_text

PARTS = {"style.css": "text/css", "map.js": "text/javascript", "explore.js": "text/javascript"}
MOST_NODES = 20_000
"""Limit of a standalone page: it holds the answers for all nodes, about 1,000 bytes per node."""
NEIGHBORS, LINKS = 8, 5
TITLES = ("title", "name")
"""Columns of the node table that say what a node is called; without them the first column of texts does."""
MOST_NUMBERS = 30
"""Columns of numbers that can colour the map."""
MOST_CATEGORIES, MOST_LETTERS = 200, 120
"""Distinct texts up to which a column can colour the map, and letters of a title that the page knows."""
Numbers = Mapping[str, npt.NDArray[np.float32]]
"""Columns of numbers (n,) by name, NaN where one is missing."""


@cache
def part(name: str) -> str:
    """The text of a file of the page."""
    return (resources.files("glace.server") / "page" / name).read_text("utf-8")


def linked() -> str:
    """The page that loads its style and scripts from the server."""
    links = '<link rel="stylesheet" href="style.css">'
    scripts = '<script src="map.js" defer></script><script src="explore.js" defer></script>'
    return part("index.html").replace("<!-- style -->", links).replace("<!-- scripts -->", scripts)


def map_values(
    answers: Answers, positions: Positions, clusters: Categories | None = None, numbers: Numbers | None = None
) -> Answer:
    """The values of the map; arrays of numbers as base64 of their bytes."""
    embedding, graph = answers.embedding, answers.graph
    labels, types = (None, None) if graph is None else (graph.labels, graph.node_types)
    titles, columns = _node_columns(graph)
    columns += [{"name": name, "values": _packed(each)} for name, each in [*(numbers or {}).items()][:MOST_NUMBERS]]
    values = {
        **answers.facts(),
        "ids": [str(each) for each in embedding.ids],
        "titles": titles,
        "columns": columns,
        "clusters": [] if clusters is None else list(clusters.names),
        "x": _packed(positions[:, 0]),
        "y": _packed(positions[:, 1]),
        "codes": None if labels is None else _packed(labels.codes),
        "type_codes": None if types is None else _packed(types.codes),
        "cluster_codes": None if clusters is None else _packed(clusters.codes),
        "certainty": None if embedding.certainty is None else _packed(embedding.certainty),
        "degree": None if graph is None else _packed(np.diff(graph.neighborhoods().indptr)),
    }
    return values | {"colours": _colours(values)}


def _colours(values: Answer) -> dict[str, str]:
    """What can colour the nodes, with a word for each, the most telling first."""
    offered = {
        "label": "codes",
        "cluster": "cluster_codes",
        "type": "type_codes",
        "certainty": "certainty",
        "degree": "degree",
    }
    words = {"degree": "number of edges"}
    found = {name: words.get(name, name) for name, key in offered.items() if values[key] is not None}
    return found | {f"column {each['name']}": str(each["name"]) for each in values["columns"]} | {"plain": "nothing"}


def _node_columns(graph: Graph | None) -> tuple[list[str] | None, list[Answer]]:
    """What nodes are called, from the text columns of the node table, and the columns that can colour the map."""
    kept = {} if graph is None else dict(graph.node_columns)
    categories = {name: Categories.of(column) for name, column in kept.items()}
    few = {name: each for name, each in categories.items() if 2 <= len(each.names) <= MOST_CATEGORIES}
    columns = [{"name": name, "names": list(each.names), "codes": _packed(each.codes)} for name, each in few.items()]
    named = [name for name in TITLES if name in kept] or [name for name in kept if name not in few]
    titles = [text[:MOST_LETTERS] for text in kept[named[0]].to_pylist()] if named else None
    return titles, columns


def _packed(numbers: npt.NDArray[np.generic]) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype="<f4").tobytes()).decode()


def check_size(nodes: int) -> None:
    """Raise if a page that needs no server would be too large."""
    if nodes > MOST_NODES:
        raise InputError(
            f"a standalone page holds at most {MOST_NODES:,} nodes, not {nodes:,}; use `glace explore` without a file"
        )


def export(
    answers: Answers,
    positions: Positions,
    path: Path,
    clusters: Categories | None = None,
    numbers: Numbers | None = None,
) -> None:
    """Write the page with the map of these positions and all answers into one file."""
    check_size(len(answers.embedding))
    # Inside a script element, text must not look like the end of it or the start of another.
    values = map_values(answers, positions, clusters, numbers) | _all_answers(answers)
    data = json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")
    scripts = f'<script id="data" type="application/json">{data}</script>\n'
    scripts += "".join(f"<script>{part(name)}</script>\n" for name in ("map.js", "explore.js"))
    whole = part("index.html").replace("<!-- style -->", f"<style>{part('style.css')}</style>")
    write_text(path, whole.replace("<!-- scripts -->", scripts))


def _all_answers(answers: Answers) -> dict[str, Any]:
    """The answers for every node by position, with four significant digits."""
    embedding, graph = answers.embedding, answers.graph
    found = answers.model.neighbors(list(embedding.ids), NEIGHBORS)
    nodes = np.arange(len(embedding))
    positions = found.position.reshape(len(nodes), -1)
    figures = {name: found.columns()[name] for name in ("dissimilarity", "variance_term")}
    values: dict[str, Any] = {
        "neighbors": positions.tolist(),
        **{name: _rounded(column.reshape(positions.shape)) for name, column in figures.items()},
        "ellipses": [
            _rounded([list(each.values()) for each in ellipses(embedding.gaussian[[node, *row]])])
            for node, row in enumerate(positions.tolist())
        ],
    }
    if graph is None:
        return values
    around, model = graph.neighborhoods(), answers.model
    links, probability = best_links_of_each(embedding, graph, model.link_model, model.missing_edge_fraction, LINKS)
    source, rank = np.nonzero(links >= 0)
    pairs = np.column_stack([source, links[source, rank]])
    why = iter(reasons(embedding, graph, pairs, embedding.dissimilarities_at(pairs)).tolist())
    return {
        **values,
        "joined": [row_of(around, node).tolist() for node in nodes.tolist()],
        "links": links.tolist(),
        "link_probability": _rounded(probability),
        "link_why": [[next(why) if other >= 0 else "" for other in row] for row in links.tolist()],
    }


def _rounded(numbers: npt.ArrayLike) -> list[list[float]]:
    """The rows with four significant digits; infinity, of a missing answer, becomes 0."""
    finite = np.nan_to_num(np.asarray(numbers, dtype=np.float64), posinf=0.0)
    return [[float(f"{value:.4g}") for value in row] for row in finite]
