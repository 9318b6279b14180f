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
    from glace.estimators.glace import GLACE


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
    from glace.fitted.file import check_model_name, load_model
    from glace.records import Record, provenance

    check_outputs(output, json, inputs=[model, *source.files()])
    check_model_name(output)
    screen, fitted = Screen(quiet), load_model(model).set_params(n_jobs=n_jobs)
    graph = source.load(_recipe_for(source, fitted))
    screen.say(repr(graph))
    for line in graph.cleaning_report.lines():
        screen.say(f"  {line}")
    with screen.training() as listener:
        found = fitted.update(graph, stay=stay, steps=steps, listener=listener)
    fitted.save(output)
    screen.facts(
        {
            "new nodes": f"{found.new_nodes:,}" + (f"; gone: {found.gone_nodes:,}" if found.gone_nodes else ""),
            "new attributes": found.new_attributes,
            "old nodes": f"kept {100 * found.kept_neighbors:.0f} % of their ten nearest; moved by "
            f"{found.moved_median:.2f} (median), {found.moved_most:.2f} (ninth tenth)",
            "training": f"{found.steps:,} steps; {found.seconds:.1f} s in all",
        }.items()
    )
    screen.say(f"wrote {output} ({file_size(output)})")
    if json:
        facts = provenance(dataset=source.name, data=graph.fingerprint(), model=str(model))
        write_record(json, Record("update", asdict(found), facts))


def _recipe_for(source: GraphSource, model: "GLACE") -> Any:
    """Those of mixed columns, which a model knows; texts are aligned word by word instead."""
    mixed = {
        part.name: part.pipeline
        for part in model.types_
        if part.pipeline is not None and part.pipeline.vocabulary is None
    }
    if mixed and source.column:
        raise InputError("the model knows what its columns are; leave --column out")
    return mixed.get("", mixed or None)
