"""`glace links`: the most probable edges that are missing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.cli.arguments import Json, ModelFile, NoHeader, Quiet, check_outputs, write_record
from glace.cli.score import check_table_name, show_pairs, write_table
from glace.cli.screen import Screen
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.estimators.glace import GLACE
    from glace.queries.links import Links


def links(
    model: ModelFile,
    node: Annotated[str | None, typer.Argument(help="Edges of this node only; else of the whole graph.")] = None,
    top: Annotated[int, typer.Option(help="How many.")] = 100,
    node_type: Annotated[
        str | None,
        typer.Option("--type", help="Edges of NODE to nodes of this type only; else those with an end of it."),
    ] = None,
    edges: Annotated[
        Path | None,
        typer.Option(help="Table of known edges, for a model that has none: fitted on a graph folder."),
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Search by an index (extra `search`): faster, misses a few.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write them to this .csv or .parquet file.")
    ] = None,
    no_header: NoHeader = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show the most probable edges that the graph does not have, of one node or of all.

    Where nodes have types, only types that edges join are joined.
    Probabilities are calibrated on held-out edges; they are those of a pair drawn from as many edges as others.
    """
    from glace.fitted.file import load_model
    from glace.records import Record, provenance

    check_outputs(output, json, inputs=[model, edges])
    check_table_name(output)
    screen, fitted = Screen(quiet), load_model(model, new_nodes=False)
    known = None if edges is None else _known(fitted, edges, no_header)
    with screen.progress("searching") as progress:
        found = fitted.links(
            None if node is None else fitted.embedding_.ids.parse(node),
            top=top,
            node_type=node_type,
            known=known,
            approximate=approximate,
            progress=progress,
        )
    table = _table(found, fitted.embedding_.ids.array.type)
    show_pairs(table, output, screen)
    worth = fitted.calibration_
    if worth is not None:
        screen.say(
            f"of {worth.pairs:,} held-out pairs, half of them edges, the probabilities were off by {worth.error:.3f} "
            f"on average (Brier score {worth.brier:.3f})"
        )
    if output:
        write_table(table, output)
        screen.say(f"wrote {output}")
    if json:
        values = {"links": table.to_pylist(), "calibration": worth and worth.to_json()}
        write_record(json, Record("links", values, provenance(model=str(model))))


def _table(found: "Links", kind: Any) -> Any:
    """The columns there are, both ends and their types first."""
    import pyarrow as pa

    columns = {name: each for name, each in found._asdict().items() if each is not None}
    stated = {"source": kind, "target": kind, "source_type": pa.string(), "target_type": pa.string()}
    ends = {name: pa.array(columns.pop(name), kind) for name, kind in stated.items() if name in columns}
    return pa.table({**ends, **columns})


def _known(model: "GLACE", path: Path, no_header: bool) -> Any:
    """The edges of a table as a graph of the model's nodes."""
    import numpy as np

    from glace.graph.arrays import from_arrays
    from glace.io.read import read_pairs

    if model.graph_ is not None:
        raise InputError("the model knows its edges; leave --edges out")
    ids = model.embedding_.ids
    pairs = read_pairs(path, ids, header=not no_header)
    none = np.zeros((len(ids), 1), np.float32)
    return from_arrays(pairs, none, ids=ids.array, directed=model.directed_)
