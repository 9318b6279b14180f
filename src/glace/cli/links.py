"""`glace links`: the most probable missing edges."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from glace.cli.arguments import Json, K, ModelFile, NoHeader, Quiet, TableOutput
from glace.cli.screen import Screen, check_ending, check_outputs, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel
    from glace.graph.graph import Graph


def links(
    model: ModelFile,
    node: Annotated[str | None, Argument(help="Only edges of this node.")] = None,
    k: K = 100,
    node_type: Annotated[
        str | None,
        Option(help="Only edges from NODE to nodes of this type; without NODE, edges with an end of this type."),
    ] = None,
    edges: Annotated[Path | None, Option(help="Table of the known edges, for a model of a graph folder.")] = None,
    approximate: Annotated[
        bool, Option("--approximate", help="Search with an index (extra `search`): faster, misses a few.")
    ] = False,
    output: TableOutput = None,
    no_header: NoHeader = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show the most probable edges that the graph does not have, of one node or of all nodes.

    In a graph with node types, only pairs of types that some edge connects are proposed.
    Probabilities are calibrated on held-out edges, for a population with as many edges as non-edges.
    """
    from glace.fitted.model import load

    check_outputs(output, json, inputs=[model, edges])
    check_ending(output, ".csv", ".parquet")
    screen, fitted = Screen(quiet), load(model)
    known = None if edges is None else _known(fitted, edges, no_header)
    if known is None and fitted.graph is None:
        raise InputError("the model keeps no edges, as its graph is too large; give the known edges with --edges FILE")
    with screen.progress("searching") as report:
        source = None if node is None else fitted.embedding.ids.parse(node)
        found = fitted.links(source, k, node_type=node_type, known=known, approximate=approximate, progress=report)
    calibration = fitted.calibration
    screen.pairs(found.to_arrow(), output, "edges")
    if calibration is not None:
        screen.say(
            f"on {calibration.pairs:,} held-out pairs, half of them edges, the calibration error of the probabilities "
            f"is {calibration.error:.3f} (Brier score {calibration.brier:.3f})"
        )
    values = {"links": found.rows(), "calibration": calibration and calibration.to_json()}
    write_record(json, "links", values, model=str(model))


def _known(model: "FittedModel", path: Path, no_header: bool) -> "Graph":
    """The edges of a table as a graph with the model's nodes."""
    from glace.graph.arrays import from_arrays
    from glace.io.read import read_pairs

    if model.graph is not None:
        raise InputError("the model has its edges already; leave --edges out")
    ids = model.embedding.ids
    pairs = read_pairs(path, ids, header=not no_header)
    return from_arrays(pairs, ids=ids.array, directed=model.directed)
