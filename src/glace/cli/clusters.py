"""`glace clusters`: groups of similar nodes, and what distinguishes them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from glace.cli.arguments import AnyEmbedding, Format, Json, Quiet, Show
from glace.cli.columns import with_columns
from glace.cli.quick import check_model
from glace.cli.screen import Screen, check_ending, check_outputs, write_record, write_table
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel
    from glace.graph.graph import Graph

SHOWN = ("name", "size", "edges_inside", "label", "central_node")
"""Columns on the screen, where space is short; the record has all."""


def clusters(
    model: AnyEmbedding,
    k: Annotated[int | None, Option("-k", min=1, help="Number of clusters; by default chosen by the edges.")] = None,
    attributes: Annotated[
        Path | None,
        Option(help="The node table of the training, to name clusters by its numbers, which a model does not keep."),
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Write the cluster of every node to this .csv or .parquet file.")
    ] = None,
    show: Show = None,
    form: Format = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Group similar nodes by k-means of their Gaussians, and name each group by what distinguishes it.

    The names are words or columns of the attributes, else labels or central nodes. The number of clusters is the
    smallest for which nearly as many edges stay inside clusters, beyond chance, as for any other (modularity).
    """
    screen = Screen.of_answers(quiet, form)
    check_model(model)
    check_outputs(output, json, inputs=[model, attributes])
    check_ending(output, ".csv", ".parquet")
    from glace.fitted.model import load_any
    from glace.queries.clusters import clusters

    embedding, fitted = load_any(model)
    if fitted is not None:
        found = fitted.clusters(k, graph=None if attributes is None else _described(fitted, attributes))
    elif attributes is None:
        found = clusters(embedding, None, k)
    else:
        raise InputError(f"needs a model file, and {model} is an embedding without one", option="attributes")
    answer = {name: column.tolist() for name, column in found.columns().items()}
    graph, central = None if fitted is None else fitted.graph, answer["central_node"]
    answer["central_node"] = list(map(str, central))
    screen.answer(with_columns(answer, {"central_node": central}, graph, show), [*SHOWN, *(show or [])])
    if found.modularity is not None:
        screen.remark(f"modularity {found.modularity:.3f}: the share of edges inside clusters, beyond chance")
    if output is not None:
        write_table(found.nodes().to_arrow(), output)
        screen.remark(f"wrote {output}: the cluster of {len(found.codes):,} nodes")
    write_record(json, "clusters", {"clusters": found.rows(), "modularity": found.modularity}, model=str(model))


def _described(model: "FittedModel", path: Path) -> "Graph":
    """The graph of a model with the attributes of a table, which has a row for each of its nodes."""
    import numpy as np

    from glace.io.read import read_rows

    if model.graph is None or len(model.node_types) > 1:
        raise InputError("needs a model that keeps its edges and has one node type; leave it out", option="attributes")
    schema = model.node_type()
    rows = read_rows(path, "attributes", width=schema.width, names=schema.feature_names, pipeline=schema.pipeline)
    found = rows.ids.find(model.embedding.ids.array)
    if (found < 0).any():
        missing = model.embedding.ids[int(np.flatnonzero(found < 0)[0])]
        raise InputError(f"{path} has no row for the node {missing!r}; give the table that the model was trained on")
    names = schema.feature_names if schema.pipeline is None else schema.pipeline.names()
    return model.graph.with_attributes(rows.values[found], names)
