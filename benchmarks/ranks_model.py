"""How long would larger graphs take on more machines? `python -m benchmarks.ranks_model`

The cost model of docs/scaling.md, with the figures that `python -m benchmarks.ranks` measured on two ranks. Everything
that this command prints and draws is computed, not measured.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common import RESULTS, Report, Results

MEMBERS, BATCH, SYNC_EVERY = 4, 512, 50
RANKS_A_MACHINE = 2
MACHINES = (1, 4, 8, 16, 32, 64)
SIZES = {"10^9 edges": 1e9, "10^10 edges": 1e10}


@dataclass(frozen=True)
class Costs:
    """What one rank of one thread needs at the size of the ACM graph; seconds and bytes."""

    prepare: float = 0.023
    """Seconds to draw a batch and its input rows, whatever is trained with it."""
    member: float = 0.055
    """Seconds of a step with one member of the ensemble."""
    exchange: float = 0.011
    """Seconds per step and member that averaging weights takes even without a limit of the network."""
    weights: float = 128e6
    """Bytes of one member's weights, all of which some rank has changed after `SYNC_EVERY` steps."""


def step_seconds(costs: Costs, ranks: int, gigabits: float) -> tuple[float, int]:
    """Return the seconds of a step and how many batches it draws, for the default `--sync`."""
    if ranks <= MEMBERS:
        return costs.prepare + costs.member * math.ceil(MEMBERS / ranks), 1
    groups = math.gcd(ranks, MEMBERS)
    together, members = ranks // groups, MEMBERS // groups
    # A sum over k ranks takes 2 (k - 1) / k times the bytes; the ranks of a machine share its network.
    sent = 2 * (together - 1) / together * members * costs.weights / SYNC_EVERY
    transfer = sent * 8 * RANKS_A_MACHINE / (gigabits * 1e9) if gigabits else 0.0
    return costs.prepare + costs.member * members + max(costs.exchange * members, transfer), together


def hours(costs: Costs, edges: float, machines: int, gigabits: float) -> float:
    """Return the hours of one epoch: every edge is drawn in both directions."""
    seconds, batches = step_seconds(costs, machines * RANKS_A_MACHINE, gigabits)
    return 2 * edges / (BATCH * batches) * seconds / 3600


def main(
    picture: Annotated[Path, typer.Option(help="The picture to write.")] = Path("docs/images/scaling.png"),
    results: Results = RESULTS,
) -> None:
    """Print the table and draw the picture."""
    report, costs = Report("ranks_model", results, {}), Costs()
    for name, edges in SIZES.items():
        rows = [(machines, *(hours(costs, edges, machines, rate) for rate in (1, 10, 0))) for machines in MACHINES]
        report.note(edges=edges, hours=rows, computed=True)
        report.table(f"{name}: hours of an epoch", ("machines", "1 Gb/s", "10 Gb/s", "no limit"), rows)
    _draw(costs, picture)


def _draw(costs: Costs, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for (name, edges), style in zip(SIZES.items(), ("-", "--"), strict=True):
        for rate, color in ((1, "tab:red"), (10, "tab:blue")):
            values = [hours(costs, edges, machines, rate) for machines in MACHINES[1:]]
            axes.plot(MACHINES[1:], values, style, color=color, marker="o", label=f"{name}, {rate} Gb/s")
    axes.set(xscale="log", yscale="log", xlabel="machines of two cores", ylabel="hours of an epoch (computed)")
    axes.set_xticks(MACHINES[1:], [str(each) for each in MACHINES[1:]])
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    typer.run(main)
