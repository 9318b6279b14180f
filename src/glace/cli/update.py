"""`glace update`: continues training on a graph that has changed."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from glace.cli.arguments import GraphSource, Json, ModelOutput, NJobs, Quiet
from glace.cli.quick import check_model
from glace.cli.screen import Screen, check_outputs, training_listener, write_record
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.features.pipeline import FeaturePipeline
    from glace.fitted.model import FittedModel


def update(
    source: GraphSource,
    model: Annotated[Path, Option(help="The model file to start from; it is not changed.")],
    output: ModelOutput,
    drift_penalty: Annotated[float, Option(help="Weight of the penalty on moving old nodes; 0 is none.")] = 0.1,
    max_steps: Annotated[int | None, Option(help="Training steps; by default a tenth of those of a fit.")] = None,
    n_jobs: NJobs = -1,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Continue training a model on a graph with new nodes, edges or attributes, keeping old Gaussians in place.

    Give the whole graph: nodes that are no longer in it are removed from the model.
    """
    check_outputs(output, json, inputs=[model, *source.files()])
    source.check_files()
    check_model(model)
    from glace.fitted.model import check_model_name, load
    from glace.training.update import compare
    from glace.training.update import update as update_model

    check_model_name(output)
    screen, fitted = Screen(quiet), load(model)
    graph = source.load(_pipelines(source, fitted))
    screen.graph(graph)
    with screen.progress("training") as report:
        listener = training_listener(report)
        updated = update_model(
            fitted, graph, drift_penalty=drift_penalty, max_steps=max_steps, n_jobs=n_jobs, listener=listener
        )
    updated.save(output)
    found = compare(fitted, updated)
    screen.facts(
        {
            "new nodes": found.new_nodes,
            "removed nodes": found.removed_nodes or None,
            "new attributes": found.new_attributes,
            "old nodes": f"kept {100 * found.kept_neighbors:.0f} % of their ten nearest neighbours; moved by "
            f"{found.drift_median:.2f} (median), {found.drift_90:.2f} (90th percentile)",
            "training": f"{updated.history.step:,} steps in {updated.history.seconds:.1f} s",
        }
    )
    screen.wrote(output)
    values = {**asdict(found), "steps": updated.history.step, "seconds": round(updated.history.seconds, 2)}
    write_record(json, "update", values, graph, dataset=source.name, model=str(model))


def _pipelines(source: GraphSource, model: "FittedModel") -> "FeaturePipeline | dict[str, FeaturePipeline] | None":
    """The pipelines of the model's mixed columns; texts are aligned word by word instead."""
    mixed = {
        each.name: each.pipeline
        for each in model.node_types
        if each.pipeline is not None and each.pipeline.vocabulary is None
    }
    if mixed and source.column:
        raise InputError("the model knows the kinds of its columns; leave --column out")
    return mixed.get("", mixed or None)
