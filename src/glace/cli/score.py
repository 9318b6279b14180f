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
from glace.cli.links import missing_edges_line, say_about_new_nodes
from glace.cli.neighbors import new_nodes
from glace.cli.quick import check_model, skip_pandas
from glace.cli.screen import Screen, check_ending, check_outputs, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.features.layout import TableLayout
    from glace.fitted.model import FittedModel
    from glace.gaussian.embedding import Embedding
    from glace.gaussian.search import Positions
    from glace.ids import NodeIds
    from glace.queries.pair_scores import PairScores


def score(
    model: AnyEmbedding,
    nodes: Annotated[list[str] | None, Argument(metavar="SOURCE TARGET", help="One pair of ids.")] = None,
    pairs: Annotated[Path | None, Option(help="Table of pairs: source, target.")] = None,
    of: Annotated[
        Path | None, Option(help="New nodes that pairs may name as well: an embedding written by `glace embed`.")
    ] = None,
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
    check_outputs(output, json, inputs=[model, pairs, of])
    check_ending(output, ".csv", ".parquet")
    from glace.features.layout import TableLayout
    from glace.fitted.model import load_any
    from glace.queries.new_pairs import joined_ids

    embedding, fitted = load_any(model)
    new = None if of is None else new_nodes(embedding, model, of)
    layout = TableLayout(source_column, target_column, separator=separator, encoding=encoding, header=header)
    ids = embedding.ids if new is None else joined_ids(embedding.ids, new.ids)
    positions = _pairs(ids, nodes or [], pairs, layout)
    if fitted is None:
        for name, given in (("missing_edge_fraction", missing_edge_fraction is not None), ("why", why)):
            if given:
                raise InputError(f"needs a model file, and {model} is an embedding without its model", option=name)
        found = _without_model(embedding, new, positions)
    else:
        found = fitted.score_positions(positions, new, missing_edge_fraction=missing_edge_fraction, why=why)
    graph = None if fitted is None else fitted.graph
    screen.pairs(pairs_with_columns(found.to_arrow(), graph, show), output, "pairs")
    if fitted is not None and found.probability is not None:
        _say_what_is_assumed(fitted, new, positions, missing_edge_fraction, screen)
    write_record(json, "score", {"pairs": found.rows()}, model=str(model))


def _say_what_is_assumed(
    fitted: "FittedModel", new: "Embedding | None", pairs: "Positions", fraction: float | None, screen: Screen
) -> None:
    """Print the assumption behind the probabilities of pairs of known nodes, and of pairs with new ones."""
    import numpy as np

    is_new = pairs >= len(fitted.embedding)
    if not is_new.any(axis=1).all():
        screen.remark(missing_edges_line(fitted, fraction))
    if new is not None and is_new.any():
        say_about_new_nodes(new.take(np.unique(pairs[is_new]) - len(fitted.embedding)), screen)


def _without_model(embedding: "Embedding", new: "Embedding | None", positions: "Positions") -> "PairScores":
    from glace.queries.new_pairs import new_pair_scores
    from glace.queries.pair_scores import pair_scores_at

    return pair_scores_at(embedding, positions) if new is None else new_pair_scores(embedding, new, positions)


def _pairs(ids: "NodeIds", nodes: list[str], file: Path | None, layout: "TableLayout") -> "Positions":
    from glace.io.read import read_pairs

    if (len(nodes) == 2) == (file is not None) or len(nodes) not in (0, 2):
        given = f"{len(nodes)} id{'s' * (len(nodes) != 1)}" + ("" if file is None else f" and --pairs {file}")
        raise InputError(f"give two node ids, or --pairs FILE with the columns source and target, not {given}")
    if file is None:
        return ids.positions([ids.parse(node) for node in nodes]).reshape(1, 2)
    return read_pairs(file, ids, layout=layout)
