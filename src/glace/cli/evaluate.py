"""`glace evaluate`: measure one method on one graph, task and seed."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from glace.cli.arguments import GraphSource, Json, MethodOptions, Quiet, named_options
from glace.cli.screen import Screen, check_outputs, in_words

SHOWN = (
    "auc",
    "ap",
    "auc_link_model",
    "ap_link_model",
    "auc_without_context",
    "ap_without_context",
    "auc_cosine",
    "ap_cosine",
    "auc_without_reversed",
    "ap_without_reversed",
    "auc_direction",
    "silhouette",
    "hidden_edges",
    "edge_share",
    "features",
)


def evaluate(
    source: GraphSource,
    task: Annotated[
        str,
        Argument(
            metavar="TASK",
            help="link-prediction, ranking, benchmark-ranking, node-classification, induction, "
            "visualization or uncertainty.",
        ),
    ],
    method: Annotated[
        str, Option(help="A method's name, such as glace, node2vec or, for ranking, adamic-adar.")
    ] = "glace",
    seed: Annotated[int, Option(help="Seed of the split and of the method.")] = 0,
    split: Annotated[Path | None, Option(help="A fixed split of the edges (.npz) instead of a random one.")] = None,
    hidden_share: Annotated[
        float | None,
        Option(help="Share of nodes that induction hides, or of edges for benchmark-ranking; default 0.1."),
    ] = None,
    protocol: Annotated[
        str | None,
        Option(
            help="Non-edges of induction: as many as edges (balanced, the default), or drawn as in Graph2Gauss's code "
            "(graph2gauss), which is probably what the paper compares by."
        ),
    ] = None,
    option: MethodOptions = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Measure the embedding of a method on a task, with edges, nodes or labels that it was not trained on."""
    from glace.experiments.tasks import Evaluation, check, evaluate
    from glace.storage.files import write_text

    wanted = Evaluation(
        task, source.name, method, seed, named_options(option), split, hidden_share, source.directed, protocol
    )
    check(wanted)
    check_outputs(json, inputs=[*source.files(), split])
    source.check_files()
    graph, screen = source.load(), Screen(quiet)
    screen.say(repr(graph))
    record = evaluate(graph, wanted)
    _show(dict(record.values), screen)
    if json:
        write_text(json, record.to_json() + "\n")


def _show(values: dict[str, Any], screen: Screen) -> None:
    title = f"{values['task']}, {values['method']}, seed {values['seed']}"
    # Of a method without contexts, the two ways of judging are one.
    is_one = values.get("auc_without_context") == values.get("auc")
    shown = [name for name in SHOWN if not (is_one and name.endswith("_without_context"))]
    screen.facts({name: values.get(name) for name in shown}, title)
    if "budget" in values:
        screen.say("  length: " + in_words(values["budget"]))
    if values.get("choice", {}).get("options"):
        screen.say("  options: " + in_words(values["choice"]["options"]))
    if "micro_f1" in values:
        rows = [
            (f"{float(share):.0%}", values["micro_f1"][share], values["macro_f1"][share])
            for share in values["micro_f1"]
        ]
        screen.table(["labels", "micro-F1", "macro-F1"], rows)
    if "mrr" in values:
        from glace.experiments.report.paper import RANKING_MEASURES

        measures = RANKING_MEASURES[values["task"]]
        rows = [(values["method"], *(values[name] for name in measures))]
        if "mrr_link_model" in values:
            by_model = (values[f"{name}_link_model"] for name in measures)
            rows.append((f"{values['method']} + link model", *by_model))
        screen.table(["method", *measures.values()], rows)
    if "curve" in values:
        screen.table(["seconds", "validation AUC"], [tuple(map(float, row)) for row in values["curve"]])
    if "spread_correlation" in values:
        screen.facts(values["spread_correlation"], title="  rank correlation of the variance with")
    memory = "" if values["peak_rss_mb"] is None else f", {values['peak_rss_mb']:,.0f} MB"
    screen.say(f"  {values['seconds']:.1f} s{memory}")
