"""`glace neighbors`: the nodes nearest to one, or to new ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.cli.arguments import AnyEmbedding, Json, Quiet, check_outputs, write_record
from glace.cli.screen import Screen
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.categories import Categories
    from glace.gaussian.embedding import Embedding
    from glace.graph.graph import Graph


def neighbors(
    model: AnyEmbedding,
    node: Annotated[str | None, typer.Argument(help="The id of a node.")] = None,
    of: Annotated[
        Path | None, typer.Option(help="New nodes in place of NODE: an embedding that `glace embed` wrote.")
    ] = None,
    k: Annotated[int, typer.Option("--count", "-k", help="How many.")] = 10,
    by: Annotated[
        str,
        typer.Option(help="Likely targets of an `edge`, or `similarity` of the nodes; same for first order."),
    ] = "edge",
    measure: Annotated[
        str | None,
        typer.Option(help="kl, symmetric_kl, wasserstein2 or dot in place of the one trained for."),
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Leave out the nodes that NODE has an edge to already.")
    ] = False,
    label: Annotated[str | None, typer.Option(help="Nodes with this label only.")] = None,
    node_type: Annotated[str | None, typer.Option("--type", help="Nodes of this type only.")] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show the nodes nearest to a node, or to each of some new ones, by exact search."""
    from glace.fitted.file import load_with_graph
    from glace.records import Record, provenance

    if (node is None) == (of is None):
        raise InputError("give the id of a node, or --of FILE with new nodes; one of them")
    if unknown and of is not None:
        raise InputError("--unknown goes with the id of a node: new nodes have no edges; leave it out")
    check_outputs(json, inputs=[model, of])
    embedding, graph = load_with_graph(model)
    if of is not None:
        queries, exclude = _new_nodes(embedding, model, of), None
    else:
        known = _of_graph(graph, model, "--unknown") if unknown else None
        queries, exclude = _known_node(embedding, str(node), known)
    filters = [name for name, value in (("--label", label), ("--type", node_type)) if value is not None]
    among = _of_graph(graph, model, filters[0]).among(label, node_type) if filters else None
    places, near = embedding.nearest_to(queries, k, by, measure, exclude, among)
    types = None if graph is None else graph.node_types
    answers = _answers(embedding, queries, places.tolist(), near, types)
    there = {
        "of": of is not None,
        "id": True,
        "type": types is not None,
        "dissimilarity": True,
        "probability": True,
    }
    columns = [name for name, is_there in there.items() if is_there]
    shown = [[str(each[name]) if name in ("of", "id") else each[name] for name in columns] for each in answers]
    Screen(quiet).table(columns, shown)
    if json:
        write_record(json, Record("neighbors", {"neighbors": answers}, provenance(model=str(model))))


def _of_graph(graph: "Graph | None", model: Path, option: str) -> "Graph":
    if graph is None:
        raise InputError(f"{option} needs the edges, labels and types of the graph, which {model} does not keep")
    return graph


def _known_node(embedding: "Embedding", node: str, known: "Graph | None") -> tuple["Embedding", list[list[int]]]:
    """One node, and what to leave out of its answer: itself, and what it has an edge to in a known graph."""
    import numpy as np

    from glace.sparse import row_of

    place = embedding.ids.position(embedding.ids.parse(node))
    edges = None if known is None else known.known_edges(embedding.measure.symmetric)
    joined = [] if edges is None else row_of(edges, place).tolist()
    return embedding.take(np.array([place])), [[place, *joined]]


def _new_nodes(embedding: "Embedding", model: Path, of: Path) -> "Embedding":
    """Read new nodes; raise if they are another model's, as odds calibrated by other held-out pairs tell."""
    from glace.fitted.file import load_embedding
    from glace.metrics import UNCALIBRATED

    queries = load_embedding(of)
    if queries.odds != embedding.odds and UNCALIBRATED not in (queries.odds, embedding.odds):
        raise InputError(
            f"{of} is of another model than {model}, and Gaussians of two models cannot be compared; embed the new "
            "nodes with this one (glace embed)"
        )
    return queries


def _answers(
    embedding: "Embedding",
    queries: "Embedding",
    places: list[list[int]],
    near: Any,
    types: "Categories | None",
) -> list[dict[str, Any]]:
    """One row for each answer, the query it answers first, with its type where nodes have any."""
    odds = embedding.probabilities(near)
    return [
        {
            "of": queries.ids[query],
            "id": embedding.ids[place],
            **({} if types is None else {"type": types[place]}),
            "dissimilarity": float(near[query, rank]),
            "probability": float(odds[query, rank]),
        }
        for query, row in enumerate(places)
        for rank, place in enumerate(row)
        if place >= 0  # fewer are there than were asked for
    ]
