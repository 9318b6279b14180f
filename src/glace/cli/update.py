"""`glace update`: continues training on a graph that has changed."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glace.cli.arguments import Json, NJobs, Quiet, check_outputs, takes, write_record
from glace.cli.screen import Screen, file_size, training_listener
from glace.cli.source import SOURCE, GraphSource
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.features.pipeline import FeaturePipeline
    from glace.fitted.model import FittedModel


@takes(source=SOURCE)
def update(
    source: GraphSource,
    model: Annotated[Path, typer.Option(help="The model file to start from; it is not changed.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    drift_penalty: Annotated[float, typer.Option(help="Weight of the penalty on moving old nodes; 0 is none.")] = 0.1,
    max_steps: Annotated[int | None, typer.Option(help="Training steps; by default a tenth of those of a fit.")] = None,
    n_jobs: NJobs = 1,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Continue training a model on a graph with new nodes, edges or attributes, keeping old Gaussians in place.

    Give the whole graph: nodes that are no longer in it are removed from the model.
    """
    from glace.fitted.model import check_model_name, load
    from glace.records import Record, provenance
    from glace.training.update import compare
    from glace.training.update import update as update_model

    check_outputs(output, json, inputs=[model, *source.files()])
    check_model_name(output)
    screen, fitted = Screen(quiet), load(model)
    graph = source.load(_pipelines(source, fitted))
    screen.say(repr(graph))
    for line in graph.cleaning_report.lines():
        screen.say(f"  {line}")
    with screen.progress("training") as report:
        updated = update_model(
            fitted,
            graph,
            drift_penalty=drift_penalty,
            max_steps=max_steps,
            n_jobs=n_jobs,
            listener=training_listener(report),
        )
    updated.save(output)
    found = compare(fitted, updated)
    screen.facts(
        {
            "new nodes": f"{found.new_nodes:,}"
            + (f"; removed: {found.removed_nodes:,}" if found.removed_nodes else ""),
            "new attributes": found.new_attributes,
            "old nodes": f"kept {100 * found.kept_neighbors:.0f} % of their ten nearest neighbours; moved by "
            f"{found.drift_median:.2f} (median), {found.drift_90:.2f} (90th percentile)",
            "training": f"{updated.history.step:,} steps in {updated.history.seconds:.1f} s",
        }.items()
    )
    screen.say(f"wrote {output} ({file_size(output)})")
    if json:
        facts = provenance(dataset=source.name, data=graph.fingerprint(), model=str(model))
        values = {**asdict(found), "steps": updated.history.step, "seconds": round(updated.history.seconds, 2)}
        write_record(json, Record("update", values, facts))


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
