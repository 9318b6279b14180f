"""`glace neighbors`: the nodes nearest to one, or to new ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.cli.arguments import AnyEmbedding, Json, Quiet, check_outputs
from glace.cli.screen import Screen
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.gaussian.embedding import Embedding


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
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show the nodes nearest to a node, or to each of some new ones, by exact search."""
    import numpy as np

    from glace.estimator.model_file import load_embedding
    from glace.records import Record, provenance

    if (node is None) == (of is None):
        raise InputError("give the id of a node, or --of FILE with new nodes; one of them")
    check_outputs(json, inputs=[model, of])
    embedding = load_embedding(model)
    if of is not None:
        queries, exclude = load_embedding(of), None
    else:
        place = embedding.ids.position(embedding.ids.parse(str(node)))
        queries, exclude = embedding.take(np.array([place])), [[place]]
    places, near = embedding.nearest_to(queries, k, by, exclude=exclude)
    answers = _answers(embedding, queries, places.tolist(), near)
    columns = ["of", "id", "dissimilarity", "probability"][0 if of is not None else 1 :]
    shown = [
        [str(each[name]) if name in ("of", "id") else each[name] for name in columns] for each in answers
    ]
    Screen(quiet).table(columns, shown)
    if json:
        Record("neighbors", {"neighbors": answers}, provenance(model=str(model))).write(json)


def _answers(
    embedding: "Embedding", queries: "Embedding", places: list[list[int]], near: Any
) -> list[dict[str, Any]]:
    """One row for each answer, the query it answers first."""
    odds = embedding.probabilities(near)
    return [
        {
            "of": queries.ids[query],
            "id": embedding.ids[place],
            "dissimilarity": float(near[query, rank]),
            "probability": float(odds[query, rank]),
        }
        for query, row in enumerate(places)
        for rank, place in enumerate(row)
        if place >= 0  # fewer are there than were asked for
    ]
