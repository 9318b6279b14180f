"""`glace evaluate`: one method on one graph, one task, one seed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from glace.cli.arguments import Json, Quiet, check_outputs, named_options, takes, write_record
from glace.cli.screen import Screen, in_words
from glace.cli.source import SOURCE, GraphSource

SHOWN = ("auc", "ap", "auc_cosine", "ap_cosine", "auc_without_reversed", "ap_without_reversed", "silhouette")


@takes(source=SOURCE)
def evaluate(
    source: GraphSource,
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="link-prediction, node-classification, induction, convergence, visualization or uncertainty.",
        ),
    ],
    method: Annotated[str, typer.Option(help="A method's name, such as glace, node2vec or graph2gauss.")] = "glace",
    seed: Annotated[int, typer.Option(help="Decides on the split and on all of the method's draws.")] = 0,
    split: Annotated[
        Path | None, typer.Option(help="A given split of the edges (.npz) in place of a random one.")
    ] = None,
    hidden_share: Annotated[
        float | None, typer.Option(help="Share of nodes that induction hides; 0.1 if not given.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the method; may be repeated.")
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Measure how good a method's embedding is at a task, on edges, nodes or labels it has not seen."""
    from glace.experiments.tasks import Evaluation, check, evaluate

    wanted = Evaluation(task, method, seed, named_options(option or []), split, hidden_share)
    check(wanted)
    check_outputs(json, inputs=[*source.files(), split])
    graph, screen = source.load(), Screen(quiet)
    screen.say(repr(graph))
    record = evaluate(graph, source.name, wanted)
    _show(dict(record.values), screen)
    if json:
        write_record(json, record)


def _show(values: dict[str, Any], screen: Screen) -> None:
    screen.say(f"{values['task']}, {values['method']}, seed {values['seed']}")
    screen.facts((name, values[name]) for name in SHOWN if name in values)
    if values.get("choice", {}).get("trials"):
        screen.say("  selected by trials: " + in_words(values["choice"]["options"]))
    if "micro_f1" in values:
        rows = [
            (f"{float(share):.0%}", values["micro_f1"][share], values["macro_f1"][share])
            for share in values["micro_f1"]
        ]
        screen.table(["labels", "micro-F1", "macro-F1"], rows)
    if "curve" in values:
        screen.table(["seconds", "validation AUC"], [tuple(map(float, row)) for row in values["curve"]])
    if "spread_correlation" in values:
        screen.say("  rank correlation of the variance with")
        screen.facts(values["spread_correlation"].items())
    memory = values["peak_rss_mb"]
    held = "" if memory is None else f", {memory:,.0f} MB"
    screen.say(f"  {values['seconds']:.1f} s{held}")
