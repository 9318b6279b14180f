"""`glace update`: a model goes on with a graph that has changed."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.cli.arguments import Json, NJobs, Quiet, check_outputs, write_record
from glace.cli.screen import Screen, file_size
from glace.cli.source import GraphSource, takes_graph
from glace.errors import InputError

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel


@takes_graph
def update(
    source: GraphSource,
    model: Annotated[Path, typer.Option(help="The model file to go on from, which stays as it is.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    stay: Annotated[float, typer.Option(help="Weight of the penalty for old nodes that move; 0 is none.")] = 0.1,
    steps: Annotated[int | None, typer.Option(help="Steps; by default a tenth of those of a fit.")] = None,
    n_jobs: NJobs = 1,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Go on with a fitted model on a graph with new nodes, edges or attributes; old Gaussians stay near.

    The graph is whole: what is not in it any more is gone.
    """
    from glace.fitted.file import check_model_name
    from glace.fitted.model import load
    from glace.records import Record, provenance
    from glace.training.update import compare
    from glace.training.update import update as update_model

    check_outputs(output, json, inputs=[model, *source.files()])
    check_model_name(output)
    screen, fitted = Screen(quiet), load(model)
    graph = source.load(_recipe_for(source, fitted))
    screen.say(repr(graph))
    for line in graph.cleaning_report.lines():
        screen.say(f"  {line}")
    with screen.training() as listener:
        updated = update_model(fitted, graph, drift_penalty=stay, max_steps=steps, n_jobs=n_jobs, listener=listener)
    updated.save(output)
    found = compare(fitted, updated)
    screen.facts(
        {
            "new nodes": f"{found.new_nodes:,}" + (f"; gone: {found.removed_nodes:,}" if found.removed_nodes else ""),
            "new attributes": found.new_attributes,
            "old nodes": f"kept {100 * found.kept_neighbors:.0f} % of their ten nearest; moved by "
            f"{found.drift_median:.2f} (median), {found.drift_90:.2f} (90th percentile)",
            "training": f"{updated.history.step:,} steps in {updated.history.seconds:.1f} s",
        }.items()
    )
    screen.say(f"wrote {output} ({file_size(output)})")
    if json:
        facts = provenance(dataset=source.name, data=graph.fingerprint(), model=str(model))
        values = {**asdict(found), "steps": updated.history.step, "seconds": round(updated.history.seconds, 2)}
        write_record(json, Record("update", values, facts))


def _recipe_for(source: GraphSource, model: "FittedModel") -> Any:
    """Those of mixed columns, which a model knows; texts are aligned word by word instead."""
    mixed = {
        part.name: part.pipeline
        for part in model.node_types
        if part.pipeline is not None and part.pipeline.vocabulary is None
    }
    if mixed and source.column:
        raise InputError("the model knows what its columns are; leave --column out")
    return mixed.get("", mixed or None)
