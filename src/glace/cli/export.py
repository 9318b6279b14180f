"""`glace export`: the Gaussians as a table for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from glace.cli.arguments import AnyEmbedding, Quiet, check_outputs
from glace.cli.screen import Screen, file_size


def export(
    model: AnyEmbedding,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write: .parquet, .arrow, .npz or .csv.")],
    quiet: Quiet = False,
) -> None:
    """Write the Gaussians of all nodes: id, type if there are types, mean, variance."""
    from glace.fitted.model import load_with_graph
    from glace.gaussian.embedding_file import check_ending, write_embedding

    check_outputs(output, inputs=[model])
    check_ending(output)
    embedding, graph = load_with_graph(model)
    types = None if graph is None or graph.node_types is None else graph.node_types.array()
    write_embedding(embedding, output, types)
    Screen(quiet).say(f"wrote {output}: {embedding!r} ({file_size(output)})")
