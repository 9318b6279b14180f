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


def reproduce(
    what: Annotated[
        list[str] | None,
        Argument(
            metavar="WHAT",
            help="table-2, table-3, figure-1, figure-2, figure-3, uncertainty, benchmark-ranking, directed; or all, "
            "the default.",
        ),
    ] = None,
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path("results"),
    datasets: Annotated[str | None, Option(help="Names, separated by commas; by default those of the paper.")] = None,
    methods: Annotated[str | None, Option(help="Names, separated by commas; by default all.")] = None,
    seeds: Annotated[int | None, Option(help="Number of runs of each kind, with the seeds 0, 1, ...")] = None,
    limit: Annotated[float, Option(metavar="HOURS", help="Time limit of one run, in the paper 5.")] = 5.0,
    split: Annotated[Path | None, Option(help="A fixed split of the edges (.npz) of one dataset.")] = None,
    redraw: Annotated[
        Path | None,
        Option(metavar="DIR", help="Only draw the report of this folder again, from its records; runs nothing."),
    ] = None,
    parallel_runs: Annotated[int, Option(min=1, help="Runs at the same time; to compare running times, use 1.")] = 1,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Measure the paper's tables and figures and compare with it; an interrupted command continues where it stopped."""
    from glace.experiments.run import EXPERIMENTS, GridOptions, check_folder, run_grid, runs

    screen = Screen(quiet)
    if redraw is not None:
        if what or datasets or methods or seeds is not None or split is not None:
            raise InputError("draws what was measured; leave the other options out", option="redraw")
        _draw(redraw, screen)
        return
    names = list(EXPERIMENTS) if not what or what == ["all"] else what
    grid = runs(names, _listed("datasets", datasets), _listed("methods", methods), seeds, split)
    if not 0 < limit < math.inf:
        raise InputError(f"must be a number of hours above 0, not {limit}", option="limit")
    if split is not None and len({run.dataset for run in grid}) != 1:
        raise InputError("applies to one dataset; name it with --datasets", option="split")
    check_folder(output)
    _get_missing(list(dict.fromkeys(run.dataset for run in grid)), data_dir, screen)
    with screen.progress("runs") as show:

        def listener(run: "Evaluation", record: "JsonObject", done: int) -> None:
            show(done / len(grid), f"{done} of {len(grid)}")
            screen.say(_line(run, record))

        run_grid(grid, GridOptions(output, data_dir, limit * 3600, parallel_runs), listener)
    _draw(output, screen)


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
