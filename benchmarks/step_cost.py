"""Where does the time of a step go, and how far is it from what the machine allows? `python -m benchmarks.step_cost`

Edges per second by batch size, width of the hidden layer and number of threads, all in turn; for each stage of a step
its time, its share and the bound: `benchmarks/bounds.py` says what that is made of.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.bounds import Machine, costs, measured
from benchmarks.common import RESULTS, Report, Results, Rounds, Scale, acm_like, in_turn
from benchmarks.stages import STAGES, Sizes, StagedSteps, Step, staged, trainer_of
from glace.experiments.methods import LEARNED
from glace.graph.graph import Graph
from glace.model.network import using_threads
from glace.sampling.edges import EdgeSampler

STEPS = 3
"""Steps in a turn."""


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    batch_size: int
    hidden: int
    n_jobs: int


@dataclass(frozen=True)
class Found:
    """What the steps of a setting took: for each stage the least of its seconds, and the bound."""

    seconds: dict[str, float]
    bounds: dict[str, float]
    sizes: Sizes

    @property
    def total(self) -> float:
        """Seconds a step."""
        return sum(self.seconds.values())

    @property
    def bound(self) -> float:
        """The least seconds a step."""
        return sum(self.bounds.values())


def main(
    scale: Scale = 1.0,
    method: Annotated[str, typer.Option(help="A method of first-order proximity.")] = "glace",
    batch_size: Annotated[list[int] | None, typer.Option(help="Edges a step.")] = None,
    hidden: Annotated[list[int] | None, typer.Option(help="Width of the hidden layer.")] = None,
    pool: Annotated[int, typer.Option(help="Negatives that a batch shares.")] = 256,
    n_jobs: Annotated[list[int] | None, typer.Option(help="Threads.")] = None,
    rounds: Rounds = 3,
    results: Results = RESULTS,
) -> None:
    """Measure the steps of every setting in turn."""
    sizes = batch_size or [256, 1024, 4096, 16384], hidden or [128, 256, 512], n_jobs or [1]
    settings = [Setting(*each) for each in product(*sizes)]
    graph = acm_like(scale)
    report = Report("step_cost", results, {"scale": scale, "method": method, "negative_pool_size": pool})
    machines, found = _found(settings, _steps(graph, method, pool, settings), scale, rounds)
    for count, machine in machines.items():
        _show_machine(report, count, machine)
    for setting, each in found.items():
        _note(report, setting, each)
    _show(report, f"Steps of {method} on {graph}, pool of {pool:,}", found)


def _show_machine(report: Report, n_jobs: int, machine: Machine) -> None:
    report.note(asked="machine", n_jobs=n_jobs, **vars(machine))
    speeds = zip(machine.sizes, machine.read, machine.update, strict=True)
    rows = [(f"{size / 1e6:.0f}", read / 1e9, update / 1e9) for size, read, update in speeds]
    title = f"This machine, n_jobs {n_jobs}: matrix product {machine.operations / 1e9:.0f} GFlop/s"
    report.table(title, ("MB", "read GB/s", "read and write GB/s"), rows)


def _steps(graph: Graph, method: str, pool: int, settings: list[Setting]) -> dict[Setting, StagedSteps]:
    """What takes the steps of each setting; those of one width share a network and its optimizer."""
    kind, options = LEARNED[method]
    widths = sorted({setting.hidden for setting in settings})
    networks = {
        each: staged(trainer_of(graph, kind(**options | {"hidden": each, "negative_pool_size": pool})))
        for each in widths
    }
    found = {}
    for setting in settings:
        base = networks[setting.hidden].sampler
        sampler = EdgeSampler(graph, replace(base.config, batch_size=setting.batch_size), base.streams)
        found[setting] = replace(networks[setting.hidden], sampler=sampler)
    return found


def _found(
    settings: list[Setting], steps: dict[Setting, StagedSteps], scale: float, rounds: int
) -> tuple[dict[int, Machine], dict[Setting, Found]]:
    """What the machine reaches, by n_jobs, and what the steps take: all in turn, for it is shared with others."""
    taken: dict[Setting, list[Step]] = {setting: [] for setting in settings}
    machines: dict[int, Machine] = {}
    turns: list[int | Setting] = [*sorted({setting.n_jobs for setting in settings}), *settings]
    for turn in in_turn(turns, 1 + rounds, "steps in turn"):
        with using_threads(turn if isinstance(turn, int) else turn.n_jobs, dense=True):
            if isinstance(turn, int):
                machine = measured(scale)
                machines[turn] = machine.or_faster(machines.get(turn, machine))
            else:
                first = len(taken[turn])
                taken[turn] += [steps[turn].step(first + number) for number in range(STEPS)]
    # The first turn compiles and fills caches.
    found = {each: _summed(steps[each], taken[each][STEPS:], machines[each.n_jobs]) for each in settings}
    return machines, found


def _summed(steps: StagedSteps, taken: list[Step], machine: Machine) -> Found:
    seconds = {stage: min(step.seconds[stage] for step in taken) for stage in STAGES}
    sizes = [(step.sizes.rows, step.sizes.non_zeros, step.sizes.columns) for step in taken]
    typical = Sizes(*(round(each) for each in np.median(sizes, axis=0)))
    bounds = {stage: machine.seconds(cost) for stage, cost in costs(steps, typical).items()}
    return Found(seconds, bounds, typical)


def _note(report: Report, setting: Setting, found: Found) -> None:
    speed = {"edges_per_second": setting.batch_size / found.total}
    report.note(asked="steps", **vars(setting), **speed, **{**vars(found), "sizes": vars(found.sizes)})


def _show(report: Report, title: str, found: dict[Setting, Found]) -> None:
    figures = ("ms", "bound ms", "of the bound")
    columns = ["batch_size", "hidden", "n_jobs", "edges/s", *figures, *STAGES]
    report.table(f"{title}: share of time", columns, [_row(*each) for each in found.items()])
    columns = ["stage", "batch_size", "hidden", "n_jobs", *figures]
    rows = [row for each in found.items() for row in _detail(*each)]
    report.table("Stages against their bounds", columns, rows)


def _row(setting: Setting, found: Found) -> list[Any]:
    shares = [_percent(found.seconds[stage] / found.total) for stage in STAGES]
    own = [setting.batch_size, setting.hidden, setting.n_jobs, setting.batch_size / found.total]
    return [*own, 1e3 * found.total, 1e3 * found.bound, _percent(found.bound / found.total), *shares]


def _detail(setting: Setting, found: Found) -> list[list[Any]]:
    own = [setting.batch_size, setting.hidden, setting.n_jobs]
    times = [(stage, found.seconds[stage], found.bounds[stage]) for stage in STAGES]
    return [[name, *own, 1e3 * took, 1e3 * least, _percent(least / took)] for name, took, least in times]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


if __name__ == "__main__":
    typer.run(main)
