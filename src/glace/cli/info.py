"""`glace info`: facts about a graph or a model file."""

from pathlib import Path
from typing import TYPE_CHECKING

from glace.cli.arguments import GraphSource, Json, Quiet
from glace.cli.quick import check_model, skip_pandas
from glace.cli.screen import Screen, check_outputs, ranked_by, scaled_attributes, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel
    from glace.graph.graph import Graph


def info(source: GraphSource, json: Json = None, quiet: Quiet = False) -> None:
    """Show the size of a graph and what was found while reading it, or the facts about a model file (.glace)."""
    check_outputs(json, inputs=source.files())
    source.check_files()
    screen = Screen(quiet)
    if source.graph is not None and source.graph.lower().endswith(".glace"):
        if source != GraphSource(graph=source.graph):
            raise InputError(f"{source.graph} is a model file, and these options apply to graphs; leave them out")
        _model_info(source.graph, screen, json)
        return
    found = source.load()
    facts = graph_facts(found)
    screen.facts(facts, title=source.name)
    for line in found.cleaning_report.lines():
        screen.say(f"  {line}")
    write_record(json, "info", facts, found)


def _model_info(path: str, screen: Screen, json: Path | None) -> None:
    check_model(path)
    skip_pandas()
    from glace.fitted.model import load

    model = load(path)
    facts = model_facts(model)
    pipeline = {
        f"{part.name}:{name}" if part.name else name: description
        for part in model.node_types
        if part.pipeline is not None
        for name, description in part.pipeline.lines()
    }
    screen.facts(facts, title=path)
    if pipeline:
        screen.facts(pipeline, title="feature pipeline, by column:", verbatim=True)
    write_record(json, "info", {**facts, "pipeline": pipeline}, model=path)


def model_facts(model: "FittedModel") -> dict[str, object]:
    """The facts about a model, by name."""
    best = model.history.best
    return {
        "method": model.method,
        "nodes": len(model.embedding),
        "dimensions": int(model.embedding.mean.shape[1]),
        "dissimilarity": model.embedding.dissimilarity,
        "direction": "directed" if model.directed else "undirected",
        "encoder": model.config.model.encoder,
        **{f"attributes of {each.name}" if each.name else "attributes": each.width or 0 for each in model.node_types},
        **scaled_attributes(model.node_types),
        "validation_auc": None if best is None else best.auc,
        "links": ranked_by(model),
    }


def graph_facts(graph: "Graph") -> dict[str, object]:
    """The facts about a graph, by name."""
    import numpy as np

    degrees = np.diff(graph.adjacency.indptr)
    parts = graph.by_type().types
    entries = getattr(parts[0].attributes, "nnz", None) if len(parts) == 1 else None
    by_type = {} if parts[0].name == "" else {f"type {part.name}": part.text() for part in parts}
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "direction": "directed" if graph.directed else "undirected",
        "attributes": graph.num_attributes if graph.has_attributes else 0,
        "attributes_are": parts[0].storage if graph.has_attributes and not by_type else None,
        **scaled_attributes(parts),
        "nonzeros_per_row": None if entries is None else float(entries / max(graph.num_nodes, 1)),
        "labels": len(graph.labels.names) if graph.labels else None,
        "node_types": len(graph.node_types.names) if graph.node_types else None,
        **by_type,
        "mean_degree": float(degrees.mean()) if len(degrees) else 0.0,
        "highest_degree": int(degrees.max()) if len(degrees) else 0,
    }
