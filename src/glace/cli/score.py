"""`glace score`: how near pairs of nodes are, and how likely an edge."""

from pathlib import Path
from typing import Annotated, Any

import typer

from glace.cli.arguments import AnyEmbedding, Json, NoHeader, Quiet, check_outputs, write_record
from glace.cli.screen import Screen
from glace.errors import InputError

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
    """Score pairs of nodes: dissimilarity, what of it is by unequal spread, probability of an edge, certainty."""
    import pyarrow as pa

    from glace.fitted.file import load_embedding
    from glace.records import Record, provenance

    check_outputs(output, json, inputs=[model, pairs])
    check_table_name(output)
    embedding = load_embedding(model)
    wanted = _pairs(embedding.ids, nodes or [], pairs, no_header)
    near = embedding.dissimilarities_at(wanted)
    columns = {
        "source": embedding.ids.array.take(pa.array(wanted[:, 0])),
        "target": embedding.ids.array.take(pa.array(wanted[:, 1])),
        "dissimilarity": near,
        "variance_term": embedding.variance_terms_at(wanted),
        "probability": embedding.probabilities(near),
    }
    if embedding.certainty is not None:
        columns["certainty"] = embedding.certainty[wanted].mean(axis=1)
    table, screen = pa.table(columns), Screen(quiet)
    show_pairs(table, output, screen, "pairs ")
    if output:
        write_table(table, output)
        screen.say(f"wrote {output}")
    if json:
        write_record(json, Record("score", {"pairs": table.to_pylist()}, provenance(model=str(model))))


def _pairs(ids: Any, nodes: list[str], file: Path | None, no_header: bool) -> Any:
    from glace.io.read import read_pairs

    if (len(nodes) == 2) == (file is not None) or len(nodes) not in (0, 2):
        came = f"{len(nodes)} ids" + ("" if file is None else f" and --pairs {file}")
        raise InputError(f"give two node ids, or --pairs FILE with the columns source and target; {came} came")
    if file is None:
        return ids.positions([ids.parse(node) for node in nodes]).reshape(1, 2)
    return read_pairs(file, ids, header=not no_header)


def show_pairs(table: Any, output: Path | None, screen: Screen, what: str = "") -> None:
    """Print the first rows of a table of source, target and figures, and how many there are if they are more."""
    rows = [tuple(row.values()) for row in table[:SHOWN].to_pylist()]
    screen.table(table.column_names, [(str(a), str(b), *rest) for a, b, *rest in rows])
    if len(table) > SHOWN:
        screen.say(f"... {len(table):,} {what}in all" + ("" if output else "; -o FILE writes them"))


def check_table_name(output: Path | None) -> None:
    """Raise unless a table can be written under this name."""
    if output is not None and output.suffix not in (".csv", ".parquet"):
        raise InputError(f"cannot write {output}: its name must end in .csv or .parquet")


def write_table(table: Any, output: Path) -> None:
    """Write an Arrow table as .csv or .parquet."""
    import pyarrow.csv
    import pyarrow.parquet

    from glace.storage.files import replacing

    write = pyarrow.csv.write_csv if output.suffix == ".csv" else pyarrow.parquet.write_table
    with replacing(output) as temporary:
        write(table, temporary)
