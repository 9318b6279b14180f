"""`glace fit`: trains a model on a graph and writes it to a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glace.cli.arguments import (
    TRAINING_OPTIONS,
    Json,
    Quiet,
    Values,
    check_outputs,
    named_options,
    takes,
    write_record,
)
from glace.cli.screen import Screen, file_size, in_bytes, in_words, training_listener
from glace.cli.source import SOURCE, GraphSource
from glace.config.config import STAGES, Config, RunConfig
from glace.errors import InputError
from glace.options import limits_of

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel
    from glace.graph.graph import Graph


LOW_AUC = 0.6
"""A validation AUC below this gets a warning."""


@takes(source=SOURCE, options=TRAINING_OPTIONS)
def fit(
    source: GraphSource,
    options: Values,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path("model.glace"),
    method: Annotated[
        str,
        typer.Option(
            help="glace: Gaussians with the best defaults; glace-published: as in the paper; lace: points; line: edges "
            "only. Or another method of `glace evaluate`, which writes an embedding instead of a model."
        ),
    ] = "glace",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of such another method. May be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from OUTPUT.checkpoint, if it exists.")] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 10.0,
    estimate: Annotated[bool, typer.Option("--estimate", help="Only print the expected sizes.")] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train one Gaussian per node of a graph and write a model file."""
    from glace.config.config import METHODS
    from glace.fitted.model import check_model_name

    screen, given = Screen(quiet), options | named_options(option or [])
    if method not in METHODS:
        if resume or estimate:
            known = ", ".join(METHODS)
            raise InputError(f"--resume and --estimate apply to {known}, not to {method}; leave them out")
        check_outputs(output, json, inputs=source.files())
        _fit_other_method(method, given, source, output, screen, json)
        return
    unknown = sorted(set(given) - {name for stage in STAGES for name in limits_of(stage)})
    if unknown:
        raise InputError(f"{method} has no option {unknown[0]!r}; see 'glace fit --help'")
    config = METHODS[method].config(**given)
    config.model.resolved_dissimilarity(source.directed, METHODS[method].gaussian)
    if not checkpoint_seconds >= 0:
        raise InputError(f"must be a number of at least 0, not {checkpoint_seconds}", option="checkpoint_seconds")
    check_outputs(output, json, inputs=source.files())
    check_model_name(output)
    found = source.load()
    screen.say(repr(found))
    for line in found.cleaning_report.lines():
        screen.say(f"  {line}")
    if estimate:
        _estimate(config, method, found, screen, json)
        return
    model = _train(config, method, found, output, resume, checkpoint_seconds, screen)
    model.save(output)
    _checkpoint_of(output).unlink(missing_ok=True)
    values = _result(model)
    _show(model, values, screen, "peak memory, mapped pages included" if found.mapped else "peak memory")
    screen.say(f"wrote {output} ({file_size(output)})")
    if json:
        write_record(json, _record(model, found, source.name, values))


def _fit_other_method(
    name: str, options: dict[str, Any], source: GraphSource, output: Path, screen: Screen, json: Path | None
) -> None:
    from time import perf_counter

    from glace.experiments.tasks import make
    from glace.gaussian.embedding_file import check_ending, write_embedding
    from glace.records import Record, peak_rss_mb, provenance
    from glace.rng import Streams

    streams = Streams(RunConfig(random_state=options.pop("random_state", 0)).random_state)
    made = make(name, options)
    check_ending(output)
    graph = source.load()
    screen.say(repr(graph))
    began = perf_counter()
    embedding = made.embed(graph, streams)
    values = {"seconds": round(perf_counter() - began, 2), "peak_rss_mb": peak_rss_mb()}
    write_embedding(embedding, output)
    screen.say(f"{embedding!r} in {values['seconds']} s; wrote {output} ({file_size(output)})")
    if json:
        facts = provenance(dataset=source.name, data=graph.fingerprint(), method=name, options=options)
        write_record(json, Record("fit", {"nodes": graph.num_nodes, "edges": graph.num_edges, **values}, facts))


def _train(
    config: Config,
    method: str,
    graph: "Graph",
    output: Path,
    resume: bool,
    checkpoint_seconds: float,
    screen: Screen,
) -> "FittedModel":
    from glace.training.train import train

    checkpoint = _checkpoint_of(output)
    if checkpoint.exists():
        screen.say(
            f"continuing from {checkpoint}"
            if resume
            else f"starting from the beginning and replacing {checkpoint}; use --resume to continue from it"
        )
    elif resume:
        screen.say(f"no {checkpoint}; starting from the beginning")
    try:
        with screen.progress("training") as report:
            return train(
                graph,
                config,
                method=method,
                listener=training_listener(report),
                checkpoint=checkpoint,
                checkpoint_seconds=checkpoint_seconds,
                resume=resume,
            )
    except KeyboardInterrupt:
        if checkpoint.exists():
            screen.say(f"interrupted; use --resume to continue from {checkpoint}")
        raise


def _checkpoint_of(output: Path) -> Path:
    return Path(f"{output}.checkpoint")


def _result(model: "FittedModel") -> dict[str, Any]:
    from glace.records import peak_rss_mb

    history, best = model.history, model.history.best
    return {
        "validation_auc": best.auc if best else None,
        "validation_ap": best.ap if best else None,
        "best_step": best.step if best else None,
        "steps": history.step,
        "seconds": round(history.seconds, 2),
        # The seconds of trials are in the history, their edges are not.
        "edges_per_second": None
        if model.selection.trials
        else round(history.step * model.config.sampling.batch_size / max(history.seconds, 1e-9)),
        "peak_rss_mb": peak_rss_mb(),
    }


def _show(model: "FittedModel", values: dict[str, Any], screen: Screen, peak: str) -> None:
    history, facts = model.history, {}
    if history.best:
        best = history.best
        facts["validation"] = f"AUC {best.auc:.4f}  AP {best.ap:.4f}  (best model, at step {best.step:,})"
    if history.best and history.best.auc < LOW_AUC:
        facts["warning"] = "the AUC is close to chance (0.5); are the attributes related to the edges?"
    if model.selection.trials:
        facts["selected by trials"] = in_words(model.selection.options)
    early = ", stopped early" if history.since_best >= model.config.training.patience else ""
    trials = ", trials included" if model.selection.trials else f"  ({values['edges_per_second']:,} edges/s)"
    facts["training"] = f"{history.step:,} steps in {history.seconds:.1f} s{early}{trials}"
    if values["peak_rss_mb"] is not None:
        facts[peak] = in_bytes(values["peak_rss_mb"] * 1e6)
    screen.facts(facts.items())


def _record(model: "FittedModel", graph: "Graph", name: str, values: dict[str, Any]) -> Any:
    from glace.records import Record, provenance

    facts = provenance(dataset=name, data=graph.fingerprint(), method=model.method, options=model.config.to_dict())
    return Record("fit", {"nodes": graph.num_nodes, "edges": graph.num_edges, **values}, facts)


def _estimate(config: Config, method: str, graph: "Graph", screen: Screen, json: Path | None) -> None:
    from glace.records import Record, provenance
    from glace.training.estimate import estimate

    sizes = estimate(graph, config, method)
    screen.facts((name, in_bytes(size)) for name, size in sizes.items())
    if json:
        write_record(json, Record("estimate", {"bytes": sizes}, provenance(options=config.to_dict())))
