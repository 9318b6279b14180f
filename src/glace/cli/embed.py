"""`glace embed` and `glace export`: Gaussians of new nodes, or of all nodes of a model, as files."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from glace.cli.arguments import (
    AnyEmbedding,
    EmbeddingOutput,
    Encoding,
    Header,
    IdColumn,
    Json,
    LabelColumn,
    ModelFile,
    NJobs,
    Quiet,
    Separator,
    TextColumn,
)
from glace.cli.quick import check_model, skip_pandas
from glace.cli.screen import Screen, check_outputs, in_bytes, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from glace.features.layout import TableLayout
    from glace.fitted.batches import BatchEmbedder, EmbeddingSummary
    from glace.gaussian.embedding import Embedding
    from glace.ids import NodeId


def embed(
    model: ModelFile,
    output: Annotated[
        Path, Option("--output", "-o", help="File to write: .parquet, .arrow, .npz or .csv; for a folder, a folder.")
    ],
    attributes: Annotated[
        Path | None,
        Option(help="Table of attributes: id, then the columns of the training; or a folder of .parquet files."),
    ] = None,
    texts: Annotated[
        Path | None,
        Option(help="Table of texts: id, text; for a model trained on texts; or a folder of .parquet files."),
    ] = None,
    node_type: Annotated[str | None, Option(help="Type of the nodes, for a model with several node types.")] = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    n_jobs: NJobs = -1,
    resume: Annotated[
        bool, Option("--resume", help="For a folder: keep the files that an earlier run wrote, and write the others.")
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Compute the Gaussians of new nodes from their attributes or texts alone."""
    from glace.features.layout import TableLayout
    from glace.fitted.batches import embed_batches
    from glace.gaussian.embedding_file import check_ending

    path, role = (attributes, "attributes") if attributes is not None else (texts, "texts")
    if path is None or (attributes is not None and texts is not None):
        raise InputError("give either --attributes FILE or --texts FILE" + (", not both" if path is not None else ""))
    layout = TableLayout(
        id_column=id_column,
        text_column=text_column,
        label_column=label_column,
        separator=separator,
        encoding=encoding,
        header=header,
    )
    is_folder = path.is_dir()
    if is_folder and layout != TableLayout():
        raise InputError("names and forms of columns apply to a file, not to a folder of Parquet files; leave them out")
    check_outputs(*([] if is_folder else [output]), json, inputs=[model, path])
    if resume and not is_folder:
        raise InputError("applies to a folder of Parquet files; leave it out", option="resume")
    if not is_folder:
        check_ending(output)
    embedder, screen = embed_batches(model, node_type=node_type, texts=role == "texts", n_jobs=n_jobs), Screen(quiet)
    run = _embed_folder if is_folder else _embed_file
    values = run(embedder, path, output, screen, n_jobs=n_jobs, resume=resume, layout=layout)
    if embedder.fitted.config.model.purpose == "links":
        screen.say("the model was fitted for links; one fitted with --purpose nodes places new nodes better")
    write_record(json, "embed", values, model=str(model), rows=str(path))


Values = dict[str, object]


def _embed_file(
    embedder: "BatchEmbedder", path: Path, output: Path, screen: Screen, *, layout: "TableLayout", **_: object
) -> Values:
    from glace.fitted.batches import EmbeddingSummary
    from glace.gaussian.embedding_file import from_table, write_embedding
    from glace.io.read import read_rows

    part = embedder.fitted.node_type(embedder.node_type)
    role = "texts" if embedder.texts else "attributes"
    rows = read_rows(path, role, layout=layout, width=part.width, names=part.feature_names, pipeline=part.pipeline)
    table = embedder.embed_rows(rows.ids.array, rows.values)
    summary = EmbeddingSummary.of(table, rows.counts)
    _say(summary, screen)
    embedding = from_table(table)
    write_embedding(embedding, output)
    screen.wrote(output, repr(embedding))
    return _values(summary, embedding.mean.shape[1]) | {"novelty": _novelty(table)}


def _embed_folder(
    embedder: "BatchEmbedder", path: Path, output: Path, screen: Screen, *, n_jobs: int, resume: bool, **_: object
) -> Values:
    from glace.cli.embed_folder import embed_folder
    from glace.io.folder import size_of

    with screen.progress("embedding") as report:
        found = embed_folder(embedder, path, output, n_jobs=n_jobs, resume=resume, report=report)
    _say(found.summary, screen)
    dimensions = embedder.fitted.embedding.mean.shape[1]
    if found.kept:
        screen.say(f"kept {found.kept:,} of {found.files:,} files of an earlier run")
    about = f"{found.summary.rows:,} nodes with {dimensions} dimensions in {found.files:,} files"
    screen.say(f"wrote {output}: {about} ({in_bytes(size_of(output))})")
    return _values(found.summary, dimensions) | {"files": found.files, "kept": found.kept}


def _say(summary: "EmbeddingSummary", screen: Screen) -> None:
    """Print how many values are unknown, and how many nodes are unlike the training graph."""
    for line in filter(None, (each.line() for each in summary.counts)):
        screen.say(line)
    if summary.first_novel is not None:
        first, unseen = summary.first_novel
        about = f", {100 * unseen:.0f} % of its attributes never seen" if unseen else ""
        screen.say(f"{_novel(summary.novel, summary.rows, first, about)}; treat the results with caution")


def _values(summary: "EmbeddingSummary", dimensions: int) -> Values:
    columns = [asdict(each) for each in summary.counts]
    return {"nodes": summary.rows, "dimensions": dimensions, "novel": summary.novel, "columns": columns}


def _novelty(table: "pa.Table") -> list[dict[str, object]] | None:
    if "novelty" not in table.column_names:
        return None
    columns = zip(*(table[name].to_pylist() for name in ("id", "unseen", "novelty")), strict=True)
    return [{"id": node, "unseen": unseen, "rank": rank} for node, unseen, rank in columns]


def novel_nodes(embedding: "Embedding") -> str:
    """How many new nodes are unlike the training graph, and which is the first; empty if there are none."""
    high = [] if embedding.novel is None else embedding.novel.nonzero()[0].tolist()
    return _novel(len(high), len(embedding), embedding.ids[high[0]]) if high else ""


def _novel(count: int, nodes: int, first: "NodeId", about_first: str = "") -> str:
    return (
        f"warning: {count:,} of {nodes:,} nodes {'is' if count == 1 else 'are'} unlike the training graph "
        f"(first: {first!r}{about_first})"
    )


def export(model: AnyEmbedding, output: EmbeddingOutput, quiet: Quiet = False) -> None:
    """Write the Gaussians of all nodes: id, type if there are types, mean, variance."""
    check_model(model)
    skip_pandas()
    from glace.fitted.model import load_any
    from glace.gaussian.embedding_file import check_ending, write_embedding

    check_outputs(output, inputs=[model])
    check_ending(output)
    embedding, fitted = load_any(model)
    graph = None if fitted is None else fitted.graph
    types = None if graph is None or graph.node_types is None else graph.node_types.array()
    write_embedding(embedding, output, types)
    Screen(quiet).wrote(output, repr(embedding))
