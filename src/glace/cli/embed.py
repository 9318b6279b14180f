"""`glace embed`: Gaussians of nodes the model never saw."""

from pathlib import Path
from typing import Annotated

import typer

from glace.cli.arguments import Json, ModelFile, NoHeader, Quiet, Threads, check_outputs
from glace.cli.screen import Screen, file_size
from glace.errors import InputError


def embed(
    model: ModelFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .parquet, .arrow, .npz or .csv.")
    ],
    attributes: Annotated[
        Path | None, typer.Option(help="Table of attributes: id, then numbers in the order of the training.")
    ] = None,
    texts: Annotated[
        Path | None, typer.Option(help="Table of texts: id, text; for a model fitted on texts.")
    ] = None,
    no_header: NoHeader = False,
    threads: Threads = 1,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Give new nodes their Gaussian from attributes or texts alone."""
    from glace.estimator.model_file import load_model
    from glace.gaussian.embedding_file import check_ending, write_embedding
    from glace.graph.io import read_rows
    from glace.records import Record, provenance

    if (attributes is None) == (texts is None):
        came = "neither" if texts is None else "both"
        raise InputError(f"give --attributes FILE or --texts FILE, one of them; {came} came")
    check_outputs(output, json, inputs=[model, attributes, texts])
    check_ending(output)
    fitted = load_model(model).set_params(threads=threads)
    path, role = (attributes, "attributes") if attributes is not None else (texts, "texts")
    assert path is not None
    rows = read_rows(path, role, header=not no_header, width=fitted.width_, names=fitted.attribute_names_)
    embedding = fitted.transform(rows.values, ids=rows.ids.array)
    write_embedding(embedding, output)
    Screen(quiet).say(f"wrote {output}: {embedding!r} ({file_size(output)})")
    if json:
        facts = provenance(model=str(model), rows=str(path))
        Record("embed", {"nodes": len(embedding), "dimensions": embedding.mean.shape[1]}, facts).write(json)
