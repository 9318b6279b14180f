"""`glace reproduce`: measure the paper's tables and figures, and draw them from records."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from glace.cli.arguments import DataDir, Quiet
from glace.cli.screen import Screen, download_listener
from glace.errors import GlaceError, InputError

if TYPE_CHECKING:
    from glace.experiments.record_file import JsonObject
    from glace.experiments.tasks import Evaluation


HOURS = 5.0
"""Time limit of a run, as in the paper."""


def reproduce(
    what: Annotated[
        list[str] | None,
        Argument(
            metavar="WHAT",
            help="table-2, authors-split, table-3, figure-1, figure-2, figure-3, uncertainty, benchmark-ranking, "
            "directed; or all, the default.",
        ),
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="Folder for the results; by default results.")
    ] = None,
    datasets: Annotated[
        str | None,
        Option(
            help="Names, separated by commas; by default Cora-ML, Citeseer, DBLP and Pubmed. table-2 and figure-2 add "
            "WordNet and Debian in place of the paper's Cora and ACM; directed has these two and not Pubmed, "
            "benchmark-ranking the small Cora and Citeseer and Pubmed, authors-split Cora-ML."
        ),
    ] = None,
    methods: Annotated[str | None, Option(help="Names, separated by commas; by default all.")] = None,
    seeds: Annotated[int | None, Option(help="Number of runs of each kind, with the seeds 0, 1, ...")] = None,
    limit: Annotated[
        float | None, Option(metavar="HOURS", help="Time limit of one run; by default 5, as in the paper.")
    ] = None,
    split: Annotated[Path | None, Option(help="A fixed split of the edges (.npz) of one dataset.")] = None,
    redraw: Annotated[
        Path | None,
        Option(metavar="DIR", help="Only draw the report of this folder again, from its records; runs nothing."),
    ] = None,
    parallel_runs: Annotated[
        int | None,
        Option(
            min=1,
            help="Runs at the same time, each with its share of the cores; by default 1. The report shows the running "
            "times of runs that were made one at a time only.",
        ),
    ] = None,
    estimate: Annotated[
        bool, Option("--estimate", help="Only print how many runs are left and how long they take.")
    ] = False,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Measure the paper's tables and figures and compare with it; an interrupted command continues where it stopped."""
    from glace.experiments.run import EXPERIMENTS, GridOptions, check_folder, run_grid, runs, unfinished

    screen = Screen(quiet)
    if redraw is not None:
        others = (seeds, split, output, limit, parallel_runs, data_dir)
        if what or datasets or methods or estimate or any(each is not None for each in others):
            raise InputError("draws what was measured; leave the other options out", option="redraw")
        _draw(redraw, screen)
        return
    output, parallel_runs = output or Path("results"), parallel_runs or 1
    limit_seconds = 3600 * (HOURS if limit is None else limit)
    names = list(EXPERIMENTS) if not what or what == ["all"] else what
    grid = runs(names, _listed("datasets", datasets), _listed("methods", methods), seeds, split, data_dir)
    if not 0 < limit_seconds < math.inf:
        raise InputError(f"must be a number of hours above 0, not {limit}", option="limit")
    if split is not None and len({run.dataset for run in grid}) != 1:
        raise InputError("applies to one dataset; name it with --datasets", option="split")
    grid = _with_splits(grid, required=split is not None or "authors-split" in (what or []), screen=screen)
    check_folder(output)
    left = unfinished(grid, output, limit_seconds)
    screen.say(_announced(grid, left, output, parallel_runs))
    if estimate:
        return
    _get_missing(list(dict.fromkeys(run.dataset for run in grid)), data_dir, screen)
    with screen.progress("runs") as show:

        def listener(run: "Evaluation", record: "JsonObject", done: int) -> None:
            show(done / len(grid), f"{done} of {len(grid)}")
            screen.say(_line(run, record))

        run_grid(grid, GridOptions(output, data_dir, limit_seconds, parallel_runs), listener)
    _draw(output, screen)


def _with_splits(grid: "list[Evaluation]", required: bool, screen: Screen) -> "list[Evaluation]":
    """Return the runs whose split is there; if a split was asked for and is missing, raise."""
    missing = {run.split for run in grid if run.split is not None and not run.split.is_file()}
    for path in missing:
        reason = f"no file {path}: the split of the edges (docs/experiments.md describes it)"
        if required:
            raise InputError(reason)
        screen.say(f"left out: authors-split, {reason}")
    return [run for run in grid if run.split not in missing]


def _announced(grid: "list[Evaluation]", left: "list[Evaluation]", folder: Path, parallel_runs: int) -> str:
    """Return how many runs there are, and how long those take that are left."""
    from glace.experiments.durations import Durations

    durations = Durations(folder)
    known = [seconds for run in left if (seconds := durations.of(run)) is not None]
    hours = sum(known) / 3600 / parallel_runs
    unknown = f", and {len(left) - len(known)} runs of unknown length" if len(known) < len(left) else ""
    done = f", {len(grid) - len(left)} of them done" if len(left) < len(grid) else ""
    time = f"about {hours:.1f} h" if hours >= 1 else f"about {60 * hours:.0f} min"
    runs = "1 run" if len(grid) == 1 else f"{len(grid)} runs"
    return f"{runs}{done}; the rest takes {time}{unknown}, by earlier runs of each kind on one core"


def _draw(folder: Path, screen: Screen) -> None:
    """Draw the records of a folder as report.md with plots/*.png, and as one file report.html."""
    from glace.experiments.report.write import write_report

    files = write_report(folder)
    pictures = sum(path.suffix == ".png" for path in files)
    for path in files[pictures:]:
        screen.wrote(path)
    screen.say(f"wrote {pictures} pictures to {folder / 'plots'}")


def _listed(option: str, names: str | None) -> list[str] | None:
    if names is None:
        return None
    listed = [name.strip() for name in names.split(",") if name.strip()]
    if not listed:
        raise InputError(f"must be names, separated by commas, not {names!r}; leave it out for all", option)
    return listed


def _get_missing(names: list[str], data_dir: Path | None, screen: Screen) -> None:
    """Download missing datasets, or raise before any run and say how to get each of them."""
    from glace import datasets
    from glace.datasets.registry import is_available

    problems = []
    for name in (name for name in names if not is_available(name, data_dir)):
        try:
            with screen.progress(name) as report:
                datasets.get(name, data_dir, download_listener(report))
        except GlaceError as problem:
            problems.append(f"{name}: {problem}")
    if problems:
        raise InputError(
            f"{len(problems)} of {len(names)} datasets are missing and cannot be downloaded. {' | '.join(problems)} | "
            "Put the files into the folder of --data-dir, or use the bundled graph: --datasets wordnet-nouns"
        )


def _line(run: "Evaluation", record: "JsonObject") -> str:
    figures = {
        "AUC": record.get("auc"),
        "micro-F1 at 10 %": (record.get("micro_f1") or {}).get("0.1"),
        "silhouette": record.get("silhouette"),
        "Hits@100": record.get("hits_at_100"),
        "MRR": record.get("mrr"),
    }
    shown = "".join(f"  {name} {value:.4f}" for name, value in figures.items() if value is not None)
    ending = shown if record["status"] == "done" else f"  {record['status']}: {record['reason']}"
    return f"{run.text()}{ending}  ({record['seconds']:.0f} s)"
