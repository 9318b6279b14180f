"""`glace score`: dissimilarity and edge probability of pairs of nodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glace.cli.arguments import AnyEmbedding, Json, NoHeader, Quiet, check_outputs, write_record
from glace.cli.screen import Screen
from glace.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from glace.gaussian.search import Positions
    from glace.ids import NodeIds

SHOWN = 20


def score(
    model: AnyEmbedding,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="SOURCE TARGET", help="One pair of ids.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Table of pairs: source, target.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write all pairs to this .csv or .parquet file.")
    ] = None,
    no_header: NoHeader = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Score pairs of nodes: dissimilarity, the part of it from unequal variances, edge probability, certainty."""
    from glace.fitted.model import load_embedding
    from glace.queries.neighbors import pair_scores_at
    from glace.records import Record, provenance

    check_outputs(output, json, inputs=[model, pairs])
    check_table_name(output)
    embedding = load_embedding(model)
    found = pair_scores_at(embedding, _pairs(embedding.ids, nodes or [], pairs, no_header))
    show_pairs(found.to_arrow(), output, Screen(quiet), "pairs")
    if json:
        write_record(json, Record("score", {"pairs": found.rows()}, provenance(model=str(model))))


def _pairs(ids: "NodeIds", nodes: list[str], file: Path | None, no_header: bool) -> "Positions":
    from glace.io.read import read_pairs

    if (len(nodes) == 2) == (file is not None) or len(nodes) not in (0, 2):
        given = f"{len(nodes)} ids" + ("" if file is None else f" and --pairs {file}")
        raise InputError(f"give two node ids, or --pairs FILE with the columns source and target, not {given}")
    if file is None:
        return ids.positions([ids.parse(node) for node in nodes]).reshape(1, 2)
    return read_pairs(file, ids, header=not no_header)


def show_pairs(table: "pa.Table", output: Path | None, screen: Screen, noun: str) -> None:
    """Print the first rows of a table that starts with two ids, and write all rows to the output, if given."""
    rows = [tuple(row.values()) for row in table[:SHOWN].to_pylist()]
    screen.table(table.column_names, [(str(source), str(target), *rest) for source, target, *rest in rows])
    if len(table) > SHOWN:
        screen.say(f"... {len(table):,} {noun} in all" + ("" if output else "; -o FILE writes them"))
    if output:
        _write_table(table, output)
        screen.say(f"wrote {output}")


def check_table_name(output: Path | None) -> None:
    """Raise unless the name of the output ends in .csv or .parquet."""
    if output is not None and output.suffix not in (".csv", ".parquet"):
        raise InputError(f"cannot write {output}: its name must end in .csv or .parquet")


def _write_table(table: "pa.Table", output: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    from glace.storage.files import replacing

    write = pyarrow.csv.write_csv if output.suffix == ".csv" else pyarrow.parquet.write_table
    with replacing(output) as temporary:
        write(table, temporary)
