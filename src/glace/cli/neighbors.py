"""`glace neighbors`: the nodes most similar to a node, or to new nodes."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from glace.cli.arguments import AnyEmbedding, Format, Json, K, Quiet, Show
from glace.cli.columns import with_columns
from glace.cli.embed import novel_nodes
from glace.cli.quick import check_model, skip_pandas
from glace.cli.screen import Screen, check_outputs, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.gaussian.embedding import Embedding


SHOWN = ("query", "id", "label", "type", "dissimilarity", "certainty", "novel", "known", "doubt")
"""Columns on the screen, where space is short; the record has all."""


def neighbors(
    model: AnyEmbedding,
    node: Annotated[str | None, Argument(help="The id of a node.")] = None,
    of: Annotated[Path | None, Option(help="New nodes instead of NODE: an embedding written by `glace embed`.")] = None,
    k: K = 10,
    dissimilarity: Annotated[
        str | None, Option(help="A dissimilarity to rank by, instead of the one that the model was trained with.")
    ] = None,
    exclude_known: Annotated[bool, Option("--exclude-known", help="Leave out nodes that NODE has an edge to.")] = False,
    label: Annotated[str | None, Option(help="Only nodes with this label.")] = None,
    node_type: Annotated[str | None, Option(help="Only nodes of this type.")] = None,
    min_certainty: Annotated[float, Option(help="Only nodes of at least this certainty, 0 to 1.")] = 0.0,
    why: Annotated[bool, Option("--why", help="Say what makes answers about a node uncertain.")] = False,
    show: Show = None,
    form: Format = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show the nodes that are most like a node, or like each of some new nodes, by exact search.

    Two nodes that are alike need not have an edge: `glace links` finds the edges that are missing.
    """
    if (node is None) == (of is None):
        raise InputError("give either the id of a node, or --of FILE with new nodes")
    screen = Screen.of_answers(quiet, form)
    check_model(model)
    skip_pandas()
    check_outputs(json, inputs=[model, of])
    from glace.fitted.model import load_any
    from glace.queries.neighbors import neighbors

    embedding, fitted = load_any(model)
    if why and fitted is None:
        raise InputError(f"needs a model file, and {model} is an embedding without its model", option="why")
    new = None if of is None else new_nodes(embedding, model, of)
    nodes = embedding.ids.parse(str(node)) if new is None else new
    ask = partial(neighbors, embedding, None) if fitted is None else partial(fitted.neighbors, why=why)
    found = ask(
        nodes,
        k,
        dissimilarity=dissimilarity,
        exclude_known=exclude_known,
        label=label,
        node_type=node_type,
        min_certainty=min_certainty,
    )
    answer = {name: column.tolist() for name, column in found.columns().items() if name != "query" or of is not None}
    answer |= {name: list(map(str, answer[name])) for name in ("query", "id") if name in answer}
    graph = None if fitted is None else fitted.graph
    answer, columns = with_columns(answer, {"id": found.id.tolist()}, graph, show), [*SHOWN, *(show or [])]
    screen.answer(answer, columns)
    if new is not None and (warning := novel_nodes(new)):
        screen.remark(f"{warning}; nothing is known about such a node, and what it seems to be like means nothing")
    write_record(json, "neighbors", {"neighbors": found.rows()}, model=str(model))


def new_nodes(embedding: "Embedding", model: Path, of: Path) -> "Embedding":
    """Read new nodes; raise if another model embedded them, which its different calibration shows."""
    from glace.fitted.model import load_embedding
    from glace.gaussian.embedding import UNCALIBRATED

    queries = load_embedding(of)
    scalings = {queries.platt_scaling, embedding.platt_scaling}
    if len(scalings) > 1 and UNCALIBRATED not in scalings:
        raise InputError(
            f"{of} comes from another model than {model}, and Gaussians of two models cannot be compared; embed the "
            "new nodes with this model (glace embed)"
        )
    return queries
