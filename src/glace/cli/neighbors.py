"""`glace neighbors`: the nodes nearest to one."""

from typing import Annotated

import typer

from glace.cli.arguments import AnyEmbedding, Json, Quiet, check_outputs
from glace.cli.screen import Screen


def neighbors(
    model: AnyEmbedding,
    node: Annotated[str, typer.Argument(help="The id of a node.")],
    k: Annotated[int, typer.Option("--count", "-k", help="How many.")] = 10,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show the nodes nearest to a node, by exact search."""
    from glace.estimator.model_file import load_embedding
    from glace.records import Record, provenance

    check_outputs(json, inputs=[model])
    embedding = load_embedding(model)
    found = embedding.neighbors(embedding.ids.parse(node), k)
    probabilities = embedding.probabilities(found.dissimilarities)
    rows = list(zip(found.ids, found.dissimilarities.tolist(), probabilities.tolist(), strict=True))
    Screen(quiet).table(
        ["node", embedding.dissimilarity, "probability"],
        [(str(each), near, odds) for each, near, odds in rows],
    )
    if json:
        answers = [dict(zip(("id", "dissimilarity", "probability"), row, strict=True)) for row in rows]
        Record("neighbors", {"node": node, "neighbors": answers}, provenance(model=str(model))).write(json)
