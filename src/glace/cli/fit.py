"""`glace fit`: trains a model on a graph and writes it to a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glace.cli.arguments import GraphSource, Json, MethodOptions, ModelOutput, Quiet, TrainingOptions, named_options
from glace.cli.quick import seconds_since_start
from glace.cli.screen import (
    Screen,
    check_outputs,
    in_bytes,
    in_time,
    in_words,
    ranked_by,
    scaled_attributes,
    training_listener,
    write_record,
)
from glace.config.config import STAGES, Config, RunConfig
from glace.errors import InputError
from glace.options import limits_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from glace.fitted.model import FittedModel
    from glace.graph.graph import Graph
    from glace.training.distributed import Ranks


def fit(
    source: GraphSource,
    options: TrainingOptions,
    output: ModelOutput = Path("model.glace"),
    method: Annotated[
        str,
        Option(
            help="glace: Gaussians with the best defaults; lace: points; glace-published and lace-published: both as "
            "in the paper; line: edges only. Or another method of `glace evaluate`, which writes an embedding instead "
            "of a model."
        ),
    ] = "glace",
    option: MethodOptions = None,
    resume: Annotated[bool, Option("--resume", help="Continue from OUTPUT.checkpoint, if it exists.")] = False,
    checkpoint_seconds: Annotated[float, Option(help="Seconds between two checkpoints.")] = 10.0,
    estimate: Annotated[bool, Option("--estimate", help="Only print the expected sizes and times.")] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train one Gaussian per node of a graph and write a model file."""
    from glace.config.config import METHODS

    screen, given, checkpoint = Screen(quiet or not _is_first()), options | named_options(option), _checkpoint(output)
    if _is_first():
        check_outputs(output, json, inputs=source.files())
        source.check_files()
    if method not in METHODS:
        if resume or estimate:
            known = ", ".join(METHODS)
            raise InputError(f"--resume and --estimate apply to {known}, not to {method}; leave them out")
        _fit_other_method(method, given, source, output, screen, json)
        return
    unknown = sorted(set(given) - {name for stage in STAGES for name in limits_of(stage)})
    if unknown:
        raise InputError(f"{method} has no option {unknown[0]!r}; see 'glace fit --help'")
    config = METHODS[method].config(**given)
    config.model.resolved_dissimilarity(source.directed, METHODS[method].gaussian)
    from glace.fitted.model import check_model_name

    check_model_name(output)
    if not checkpoint_seconds >= 0:
        raise InputError(f"must be a number of at least 0, not {checkpoint_seconds}", option="checkpoint_seconds")
    if estimate:
        found = source.load()
        screen.graph(found)
        _estimate(config, method, found, screen, json)
        return
    with _ranks(config) as ranks:
        with ranks.together():
            found = source.load()
        screen.graph(found)
        model = _train(config, method, found, checkpoint, resume, checkpoint_seconds, screen)
        with ranks.together():
            if ranks.is_first:
                model.save(output)
                checkpoint.unlink(missing_ok=True)
                _report(model, source, found, output, screen, json)


def _is_first() -> bool:
    """Whether this process is the only one of its run, or the first, which alone prints and writes."""
    import os

    return os.environ.get("RANK", "0") == "0"


def _ranks(config: Config) -> "AbstractContextManager[Ranks]":
    import os

    # Otherwise torch prints lines of its own beside ours.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    from glace.training.distributed import joined

    return joined(config.run)


def _checkpoint(output: Path) -> Path:
    return Path(f"{output}.checkpoint")


def _report(
    model: "FittedModel", source: GraphSource, graph: "Graph", output: Path, screen: Screen, json: Path | None
) -> None:
    values = {"nodes": graph.num_nodes, "edges": graph.num_edges, **_result(model)}
    _show(model, values, screen, "peak memory, mapped pages included" if graph.mapped else "peak memory")
    screen.wrote(output)
    facts = {"dataset": source.name, "method": model.method, "options": model.config.to_dict()}
    write_record(json, "fit", values, graph, **facts)


def _fit_other_method(
    name: str, options: dict[str, Any], source: GraphSource, output: Path, screen: Screen, json: Path | None
) -> None:
    from time import perf_counter

    from glace.experiments.baselines.method import Baseline
    from glace.experiments.methods import make
    from glace.gaussian.embedding_file import check_ending, write_embedding
    from glace.records import peak_rss_mb
    from glace.rng import Streams

    streams = Streams(RunConfig(random_state=options.pop("random_state", 0)).random_state)
    made = make(name, options)
    check_ending(output)
    if isinstance(made, Baseline):
        made.check_installed()
    graph = source.load()
    screen.say(repr(graph))
    began = perf_counter()
    embedding = made.embed(graph, streams)
    seconds = round(perf_counter() - began, 2)
    write_embedding(embedding, output)
    screen.wrote(output, f"{embedding!r} in {seconds} s")
    values = {"nodes": graph.num_nodes, "edges": graph.num_edges, "seconds": seconds, "peak_rss_mb": peak_rss_mb()}
    write_record(json, "fit", values, graph, dataset=source.name, method=name, options=options)


def _train(
    config: Config, method: str, graph: "Graph", checkpoint: Path, resume: bool, seconds: float, screen: Screen
) -> "FittedModel":
    from functools import partial

    from glace.kernels.compile import on_compilation
    from glace.training.distributed import restarted
    from glace.training.train import train

    if checkpoint.exists() and (resume or restarted()):
        screen.say(f"continuing from {checkpoint}")
    elif checkpoint.exists():
        screen.say(f"starting from the beginning and replacing {checkpoint}; use --resume to continue from it")
    elif resume:
        screen.say(f"no {checkpoint}; starting from the beginning")
    try:
        with screen.progress("training") as report, on_compilation(partial(report, None, "once", "compiling")):
            return train(
                graph,
                config,
                method=method,
                listener=training_listener(report),
                checkpoint=checkpoint,
                checkpoint_seconds=seconds,
                resume=resume,
            )
    except KeyboardInterrupt:
        if checkpoint.exists():
            screen.say(f"interrupted; use --resume to continue from {checkpoint}")
        raise


def _result(model: "FittedModel") -> dict[str, Any]:
    from glace.records import peak_rss_mb

    history, best = model.history, model.history.best
    return {
        "validation_auc": best and best.auc,
        "validation_ap": best and best.ap,
        "link_model": model.link_model and model.link_model.to_json(),
        "best_step": best and best.step,
        "steps": history.step,
        "seconds": round(history.seconds, 2),
        # The seconds of trials are in the history, their edges are not.
        "edges_per_second": None
        if model.selection.trials
        else round(history.step * model.config.sampling.batch_size / max(history.seconds, 1e-9)),
        "peak_rss_mb": peak_rss_mb(),
    }


def _show(model: "FittedModel", values: dict[str, Any], screen: Screen, peak: str) -> None:
    from glace.report import LOW_AUC

    history, best, facts = model.history, model.history.best, {}
    if best:
        facts["validation"] = f"AUC {best.auc:.4f}  AP {best.ap:.4f}  (best model, at step {best.step:,})"
    if best and best.auc < LOW_AUC:
        facts["warning"] = "the AUC is low (0.5 is chance); are the attributes related to the edges?"
    facts |= scaled_attributes(model.node_types)
    facts["links"] = ranked_by(model)
    if model.selection.options:
        facts["selected by trials" if model.selection.trials else "options"] = in_words(model.selection.options)
    trials = ", trials included" if model.selection.trials else f"  ({values['edges_per_second']:,} edges/s)"
    facts["training"] = f"{history.step:,} steps in {history.seconds:.1f} s{trials}"
    facts["ended"] = why_ended(model)
    if values["peak_rss_mb"] is not None:
        facts[peak] = in_bytes(values["peak_rss_mb"] * 1e6)
    screen.facts(facts)


def why_ended(model: "FittedModel") -> str:
    """Why training ended, in words."""
    history, limits = model.history, model.config.training
    if history.since_best >= limits.patience:
        return f"early: no better validation AUC in the last {limits.patience} validations (--patience)"
    if limits.max_seconds is not None and history.seconds >= limits.max_seconds:
        return f"cut short by --max-seconds {limits.max_seconds:g}; more time may give a better model"
    return "all steps done"


def _estimate(config: Config, method: str, graph: "Graph", screen: Screen, json: Path | None) -> None:
    from glace.training.duration import TOTAL, estimate_seconds
    from glace.training.estimate import estimate

    sizes = estimate(graph, config, method)
    screen.facts({name: in_bytes(size) for name, size in sizes.items()})
    loading = seconds_since_start()
    with screen.progress("measuring parts of a fit") as report:
        report(None)
        seconds = estimate_seconds(graph, config, method)
    if loading is not None:
        seconds = {"libraries and graph": loading, **seconds, TOTAL: seconds[TOTAL] + loading}
    screen.facts({name: in_time(each) for name, each in seconds.items()})
    write_record(json, "estimate", {"bytes": sizes, "seconds": seconds}, options=config.to_dict())
