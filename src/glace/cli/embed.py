"""`glace embed`: Gaussians of nodes the model never saw."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.cli.arguments import Json, ModelFile, NJobs, NoHeader, Quiet, check_outputs, write_record
from glace.cli.screen import Screen, file_size
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel
    from glace.gaussian.embedding import Embedding


def embed(
    model: ModelFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write: .parquet, .arrow, .npz or .csv.")],
    attributes: Annotated[
        Path | None, typer.Option(help="Table of attributes: id, then the columns of the training.")
    ] = None,
    texts: Annotated[Path | None, typer.Option(help="Table of texts: id, text; for a model fitted on texts.")] = None,
    node_type: Annotated[
        str | None,
        typer.Option(help="Type of the nodes, for a model with several node types."),
    ] = None,
    no_header: NoHeader = False,
    n_jobs: NJobs = 1,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Give new nodes their Gaussian from attributes or texts alone."""
    from glace.fitted.model import load
    from glace.fitted.new_nodes import check_has_attributes
    from glace.gaussian.embedding_file import check_ending, write_embedding
    from glace.io.read import read_rows
    from glace.records import Record, provenance

    if (attributes is None) == (texts is None):
        came = "neither" if texts is None else "both"
        raise InputError(f"give --attributes FILE or --texts FILE, one of them; {came} came")
    check_outputs(output, json, inputs=[model, attributes, texts])
    check_ending(output)
    fitted = load(model)
    path, role = (attributes, "attributes") if attributes is not None else (texts, "texts")
    assert path is not None
    part = fitted.node_type(node_type)
    check_has_attributes(part)
    rows = read_rows(
        path, role, header=not no_header, width=part.width, names=part.feature_names, pipeline=part.pipeline
    )
    embedding = fitted.transform(rows.values, ids=rows.ids.array, node_type=node_type, n_jobs=n_jobs)
    screen = Screen(quiet)
    for line in filter(None, (each.line() for each in rows.counts)):
        screen.say(line)
    novelty = _novelty(fitted, rows.values, node_type, embedding, screen)
    write_embedding(embedding, output)
    screen.say(f"wrote {output}: {embedding!r} ({file_size(output)})")
    if json:
        values = {"nodes": len(embedding), "dimensions": embedding.mean.shape[1], "novelty": novelty}
        values["columns"] = [asdict(each) for each in rows.counts]
        write_record(json, Record("embed", values, provenance(model=str(model), rows=str(path))))


def _novelty(
    model: "FittedModel", rows: Any, node_type: str | None, embedding: "Embedding", screen: Screen
) -> list[dict[str, Any]] | None:
    """How unlike the training nodes each is, and a line about those that are; nothing from a model of old."""
    if not model.has_novelty:
        return None
    found = model.novelty(rows, node_type)
    high = found.is_high().nonzero()[0].tolist()
    if high:
        first, verb = high[0], "is" if len(high) == 1 else "are"
        unseen = f", {100 * found.unseen[first]:.0f} % of its attributes never seen" if found.unseen[first] else ""
        screen.say(
            f"warning: {len(high):,} of {len(embedding):,} nodes {verb} unlike the training graph (first: "
            f"{embedding.ids[first]!r}{unseen}); treat the results with caution"
        )
    columns = (embedding.ids, found.unseen.tolist(), found.rank.tolist())
    return [{"id": node, "unseen": unseen, "rank": rank} for node, unseen, rank in zip(*columns, strict=True)]
