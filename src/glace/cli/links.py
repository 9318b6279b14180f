"""`glace links`: the most probable missing edges."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from glace.cli.arguments import Format, Json, K, MissingEdgeFraction, ModelFile, Quiet, Show, TableOutput
from glace.cli.columns import pairs_with_columns
from glace.cli.embed import novel_nodes
from glace.cli.neighbors import new_nodes
from glace.cli.quick import EMBEDDINGS, check_model, skip_pandas
from glace.cli.screen import Screen, check_ending, check_outputs, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel
    from glace.gaussian.embedding import Embedding
    from glace.graph.graph import Graph
    from glace.queries.links import Links


def links(
    model: ModelFile,
    node: Annotated[str | None, Argument(help="Only edges of this node.")] = None,
    of: Annotated[
        Path | None, Option(help="Edges of new nodes instead: an embedding written by `glace embed`; K for each.")
    ] = None,
    k: K = 100,
    node_type: Annotated[
        str | None,
        Option(
            help="Only edges from NODE, or from new nodes, to nodes of this type; without them, edges with an end of "
            "this type."
        ),
    ] = None,
    links_by: Annotated[
        str,
        Option(
            help="Rank by the link `model` (Gaussians, numbers of edges, short paths) or by the `gaussian` "
            "dissimilarity alone."
        ),
    ] = "model",
    missing_edge_fraction: MissingEdgeFraction = None,
    expected_precision: Annotated[
        float | None,
        Option(help="Cut the list where the share of edges that is expected in it falls below this; K is the longest."),
    ] = None,
    coverage: Annotated[
        float | None,
        Option(
            help="With NODE: as many candidates as hold the other end of a missing edge with this probability, instead "
            "of K; the probability holds on average over all missing edges, not for each node."
        ),
    ] = None,
    why: Annotated[bool, Option("--why", help="Say what speaks for each edge, and what makes it uncertain.")] = False,
    graph: Annotated[
        Path | None, Option(help="The graph folder of a model whose edges are too large to keep, if it has moved.")
    ] = None,
    approximate: Annotated[
        bool,
        Option("--approximate", help="With --links-by gaussian, search with an index (extra `search`): misses a few."),
    ] = False,
    output: TableOutput = None,
    show: Show = None,
    form: Format = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show the most probable edges that the graph does not have, of one node or of all nodes.

    Which nodes are like a node is another question: `glace neighbors` answers it. In a graph with node types, only
    pairs of types that some edge connects are proposed. The probability is the share of such proposals that are right,
    if the stated fraction of all edges is missing.
    """
    if node is not None and of is not None:
        raise InputError("give the id of a node, or --of FILE with new nodes, not both")
    screen = Screen.of_answers(quiet, form)
    if model.suffix not in EMBEDDINGS:
        check_model(model)
    skip_pandas()
    check_outputs(output, json, inputs=[model, graph, of])
    check_ending(output, ".csv", ".parquet")
    if links_by not in ("model", "gaussian"):
        raise InputError(f"must be model or gaussian, not {links_by!r}", option="links_by")
    fitted = _load(model)
    known = _graph_of(fitted, graph)
    new = None if of is None else new_nodes(fitted.embedding, model, of)
    with screen.progress("searching") as report:
        found = fitted.links(
            new if node is None else fitted.embedding.ids.parse(node),
            k,
            node_type=node_type,
            by=links_by,
            missing_edge_fraction=missing_edge_fraction,
            expected_precision=expected_precision,
            coverage=coverage,
            why=why,
            known=known,
            approximate=approximate,
            progress=report,
        )
    shown_of = fitted.graph if known is None else known
    table = pairs_with_columns(found.to_arrow(), shown_of, show, sources_are_new=new is not None)
    shown = [name for name in table.column_names if name not in ("dissimilarity", "certainty", "novel")]
    if new is None:
        screen.remark(_worth(found, fitted, missing_edge_fraction))
    screen.pairs(table, output, "edges", shown if why else None)
    if new is not None:
        say_about_new_nodes(new, screen)
    assumed = fitted.missing_edge_fraction if missing_edge_fraction is None else missing_edge_fraction
    write_record(json, "links", _values(found, assumed, of_new_nodes=new is not None), model=str(model))


def _values(found: "Links", missing_edge_fraction: float, of_new_nodes: bool) -> dict[str, object]:
    """Return the fields of the record; how many edges are missing says nothing about nodes that have none yet."""
    return {
        "links": found.rows(),
        "missing_edge_fraction": None if of_new_nodes else missing_edge_fraction,
        "expected_edges": None if of_new_nodes else found.expected_edges,
    }


def _worth(found: "Links", model: "FittedModel", given: float | None) -> str:
    """Say how many of the pairs are expected to be edges, and under which assumption."""
    number = found.expected_edges
    shown = f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
    return f"of {len(found):,} pairs about {shown} are expected to be edges; {missing_edges_line(model, given)}"


def say_about_new_nodes(new: "Embedding", screen: Screen) -> None:
    """Print what the probabilities of new nodes assume, and which nodes are unlike the training graph."""
    screen.remark("probabilities assume that a new node has as many edges as the nodes of the graph have on average")
    if warning := novel_nodes(new):
        screen.remark(
            f"{warning}; nothing is known about such a node: its probabilities are the density of the graph, its links "
            "the nodes with the most edges"
        )


def missing_edges_line(model: "FittedModel", given: float | None) -> str:
    """The assumption behind the probabilities, in words."""
    if given is not None:
        return f"probabilities assume that {100 * given:.3g} % of all edges are missing (--missing-edge-fraction)"
    reason = "no edges were held out" if model.validation is None else "the fraction held out for validation"
    return (
        f"probabilities assume that {100 * model.missing_edge_fraction:.1f} % of all edges are missing ({reason}); "
        "--missing-edge-fraction sets it"
    )


def _load(path: Path) -> "FittedModel":
    from glace.fitted.model import load
    from glace.gaussian.embedding_file import READABLE

    if path.suffix in READABLE:
        raise InputError(
            f"{path} is an embedding without its model: it answers `glace neighbors`, not `glace links`; give the "
            "model file that `glace fit` wrote"
        )
    return load(path)


def _graph_of(model: "FittedModel", given: Path | None) -> "Graph | None":
    """The graph of a model that does not keep its edges, from the folder it was trained on; None if it keeps them."""
    from glace.io.folder import read_folder

    if model.graph is not None:
        if given is not None:
            raise InputError("the model has its edges already; leave it out", option="graph")
        return None
    if model.graph_folder is None:
        raise InputError("the model keeps no edges, as its graph is too large, and does not know its folder")
    path = Path(model.graph_folder.path) if given is None else given
    if not path.exists():
        raise InputError(
            f"the edges of this model are in the graph folder {path}, which does not exist; if it has moved, give its "
            "new place with --graph FOLDER"
        )
    graph = read_folder(path)
    if graph.fingerprint() != model.graph_folder.fingerprint:
        raise InputError(
            f"{path} is not the graph that the model was trained on: its fingerprint differs; give the right folder "
            "with --graph FOLDER, or fit a new model"
        )
    return graph
