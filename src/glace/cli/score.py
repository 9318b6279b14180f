"""`glace score`: dissimilarity of pairs of nodes and, with a model, the probability of an edge."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from glace.cli.arguments import (
    AnyEmbedding,
    Encoding,
    Format,
    Header,
    Json,
    MissingEdgeFraction,
    Quiet,
    Separator,
    Show,
    SourceColumn,
    TableOutput,
    TargetColumn,
)
from glace.cli.columns import pairs_with_columns
from glace.cli.quick import check_model, skip_pandas
from glace.cli.screen import Screen, check_ending, check_outputs, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.features.layout import TableLayout
    from glace.gaussian.search import Positions
    from glace.ids import NodeIds


def score(
    model: AnyEmbedding,
    nodes: Annotated[list[str] | None, Argument(metavar="SOURCE TARGET", help="One pair of ids.")] = None,
    pairs: Annotated[Path | None, Option(help="Table of pairs: source, target.")] = None,
    missing_edge_fraction: MissingEdgeFraction = None,
    why: Annotated[bool, Option("--why", help="Say what makes answers about the nodes uncertain.")] = False,
    output: TableOutput = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    show: Show = None,
    form: Format = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Score pairs of nodes: probability of an edge, dissimilarity, the part of it from unequal variances, certainty.

    The probability is that of `glace links`, computed as if the pair had no edge. An embedding without its model has
    none.
    """
    screen = Screen.of_answers(quiet, form)
    check_model(model)
    skip_pandas()
    check_outputs(output, json, inputs=[model, pairs])
    check_ending(output, ".csv", ".parquet")
    from glace.cli.links import missing_edges_line
    from glace.features.layout import TableLayout
    from glace.fitted.model import load_any
    from glace.queries.pair_scores import pair_scores_at

    embedding, fitted = load_any(model)
    layout = TableLayout(source_column, target_column, separator=separator, encoding=encoding, header=header)
    positions = _pairs(embedding.ids, nodes or [], pairs, layout)
    if fitted is None:
        if missing_edge_fraction is not None:
            raise InputError(
                f"needs a model file, as {model} is an embedding without its model and gives no probabilities",
                option="missing_edge_fraction",
            )
        if why:
            raise InputError(f"needs a model file, and {model} is an embedding without its model", option="why")
        found = pair_scores_at(embedding, positions)
    else:
        found = fitted.score_positions(positions, missing_edge_fraction=missing_edge_fraction, why=why)
    graph = None if fitted is None else fitted.graph
    screen.pairs(pairs_with_columns(found.to_arrow(), graph, show), output, "pairs")
    if fitted is not None and found.probability is not None:
        screen.remark(missing_edges_line(fitted, missing_edge_fraction))
    write_record(json, "score", {"pairs": found.rows()}, model=str(model))


def _pairs(ids: "NodeIds", nodes: list[str], file: Path | None, layout: "TableLayout") -> "Positions":
    from glace.io.read import read_pairs

    if (len(nodes) == 2) == (file is not None) or len(nodes) not in (0, 2):
        given = f"{len(nodes)} id{'s' * (len(nodes) != 1)}" + ("" if file is None else f" and --pairs {file}")
        raise InputError(f"give two node ids, or --pairs FILE with the columns source and target, not {given}")
    if file is None:
        return ids.positions([ids.parse(node) for node in nodes]).reshape(1, 2)
    return read_pairs(file, ids, layout=layout)
