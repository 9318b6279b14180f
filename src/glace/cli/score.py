"""`glace score`: dissimilarity and edge probability of pairs of nodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from glace.cli.arguments import AnyEmbedding, Json, NoHeader, Quiet, TableOutput
from glace.cli.screen import Screen, check_ending, check_outputs, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.gaussian.search import Positions
    from glace.ids import NodeIds


def score(
    model: AnyEmbedding,
    nodes: Annotated[list[str] | None, Argument(metavar="SOURCE TARGET", help="One pair of ids.")] = None,
    pairs: Annotated[Path | None, Option(help="Table of pairs: source, target.")] = None,
    output: TableOutput = None,
    no_header: NoHeader = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Score pairs of nodes: dissimilarity, the part of it from unequal variances, edge probability, certainty."""
    from glace.fitted.model import load_embedding
    from glace.queries.pair_scores import pair_scores_at

    check_outputs(output, json, inputs=[model, pairs])
    check_ending(output, ".csv", ".parquet")
    embedding = load_embedding(model)
    found = pair_scores_at(embedding, _pairs(embedding.ids, nodes or [], pairs, no_header))
    Screen(quiet).pairs(found.to_arrow(), output, "pairs")
    write_record(json, "score", {"pairs": found.rows()}, model=str(model))


def _pairs(ids: "NodeIds", nodes: list[str], file: Path | None, no_header: bool) -> "Positions":
    from glace.io.read import read_pairs

    if (len(nodes) == 2) == (file is not None) or len(nodes) not in (0, 2):
        given = f"{len(nodes)} ids" + ("" if file is None else f" and --pairs {file}")
        raise InputError(f"give two node ids, or --pairs FILE with the columns source and target, not {given}")
    if file is None:
        return ids.positions([ids.parse(node) for node in nodes]).reshape(1, 2)
    return read_pairs(file, ids, header=not no_header)
