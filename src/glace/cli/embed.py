"""`glace embed` and `glace export`: Gaussians of new nodes, or of all nodes of a model, as a file."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from glace.cli.arguments import AnyEmbedding, EmbeddingOutput, Json, ModelFile, NJobs, NoHeader, Quiet
from glace.cli.screen import Screen, check_outputs, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.gaussian.embedding import Embedding
    from glace.queries.certainty import Novelty


def embed(
    model: ModelFile,
    output: EmbeddingOutput,
    attributes: Annotated[
        Path | None, Option(help="Table of attributes: id, then the columns of the training.")
    ] = None,
    texts: Annotated[Path | None, Option(help="Table of texts: id, text; for a model trained on texts.")] = None,
    node_type: Annotated[str | None, Option(help="Type of the nodes, for a model with several node types.")] = None,
    no_header: NoHeader = False,
    n_jobs: NJobs = -1,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Compute the Gaussians of new nodes from their attributes or texts alone."""
    from glace.fitted.model import load
    from glace.gaussian.embedding_file import check_ending, write_embedding
    from glace.io.read import read_rows

    path, role = (attributes, "attributes") if attributes is not None else (texts, "texts")
    if path is None or (attributes is not None and texts is not None):
        raise InputError("give either --attributes FILE or --texts FILE" + (", not both" if path is not None else ""))
    check_outputs(output, json, inputs=[model, path])
    check_ending(output)
    fitted, screen = load(model), Screen(quiet)
    part = fitted.node_type(node_type)
    rows = read_rows(
        path, role, header=not no_header, width=part.width, names=part.feature_names, pipeline=part.pipeline
    )
    embedding = fitted.transform(rows.values, ids=rows.ids.array, node_type=node_type, n_jobs=n_jobs)
    for line in filter(None, (each.line() for each in rows.counts)):
        screen.say(line)
    novelty = fitted.novelty(rows.values, node_type) if fitted.has_novelty else None
    if novelty is not None:
        _warn_of_novel_nodes(embedding, novelty, screen)
    write_embedding(embedding, output)
    screen.wrote(output, repr(embedding))
    if fitted.config.model.purpose == "links":
        screen.say("the model was fitted for links; one fitted with --purpose nodes places new nodes better")
    values = {"nodes": len(embedding), "dimensions": embedding.mean.shape[1], "novelty": _rows(embedding, novelty)}
    values["columns"] = [asdict(each) for each in rows.counts]
    write_record(json, "embed", values, model=str(model), rows=str(path))


def _warn_of_novel_nodes(embedding: "Embedding", novelty: "Novelty", screen: Screen) -> None:
    high = novelty.is_high().nonzero()[0].tolist()
    if high:
        share = 100 * novelty.unseen[high[0]]
        unseen = f", {share:.0f} % of its attributes never seen" if share else ""
        screen.say(f"{novel_nodes(embedding, unseen)}; treat the results with caution")


def novel_nodes(embedding: "Embedding", about_first: str = "") -> str:
    """How many new nodes are unlike the training graph, and which is the first; empty if there are none."""
    high = [] if embedding.novel is None else embedding.novel.nonzero()[0].tolist()
    if not high:
        return ""
    return (
        f"warning: {len(high):,} of {len(embedding):,} nodes {'is' if len(high) == 1 else 'are'} unlike the training "
        f"graph (first: {embedding.ids[high[0]]!r}{about_first})"
    )


def _rows(embedding: "Embedding", novelty: "Novelty | None") -> list[dict[str, object]] | None:
    if novelty is None:
        return None
    columns = zip(embedding.ids, novelty.unseen.tolist(), novelty.rank.tolist(), strict=True)
    return [{"id": node, "unseen": unseen, "rank": rank} for node, unseen, rank in columns]


def export(model: AnyEmbedding, output: EmbeddingOutput, quiet: Quiet = False) -> None:
    """Write the Gaussians of all nodes: id, type if there are types, mean, variance."""
    from glace.fitted.model import load_with_graph
    from glace.gaussian.embedding_file import check_ending, write_embedding

    check_outputs(output, inputs=[model])
    check_ending(output)
    embedding, graph = load_with_graph(model)
    types = None if graph is None or graph.node_types is None else graph.node_types.array()
    write_embedding(embedding, output, types)
    Screen(quiet).wrote(output, repr(embedding))
