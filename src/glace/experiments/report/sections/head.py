"""What the report is of: runs, commands, versions, machine, time and data, from the records' provenance."""

from collections.abc import Iterable, Sequence
from typing import Any

from glace.experiments.report import paper
from glace.experiments.report.checks import STATUSES, TASKS
from glace.experiments.report.document import Code, Heading, Part, Section, Text
from glace.experiments.report.names import dataset_name, datasets_in_order, in_order, method_name
from glace.experiments.report.results import Results, Run, grouped
from glace.experiments.report.tables import Table, words

_ABOUT = (
    f'Methods that embed the nodes of graphs, measured on the tasks of the paper "{paper.TITLE}". Every number and '
    "picture here is drawn from the records beside this file; the numbers the paper prints stand beside ours. Scores "
    "are in percent: the mean over seeds ± the standard deviation."
)
_MOST_COMMANDS = 20


def head(results: Results) -> Section:
    """The first section."""
    parts: list[Part] = [Text(_ABOUT), _facts(results)]
    # Of runs that are part of a grid, the command of the grid: each record has its own as well.
    made_by = [run.provenance.get("grid") or run.provenance.get("command") for run in results.runs]
    commands = _distinct(made_by)
    if commands:
        parts += [Text("Made by"), Code(_listed(commands))]
    data = _data(results.runs)
    if data:
        parts += [Text("Data, by the fingerprint of what the methods saw:"), data]
    if results.notices:
        parts += [Heading("To know before reading"), *(Text(notice) for notice in results.notices)]
    return Section("What this is", tuple(parts))


def _listed(commands: Sequence[Any]) -> str:
    lines = [str(command) for command in commands[:_MOST_COMMANDS]]
    if len(commands) > _MOST_COMMANDS:
        lines.append(f"... and {len(commands) - _MOST_COMMANDS} more, in the records")
    return "\n".join(lines)


def _facts(results: Results) -> Table:
    runs = results.runs
    facts = {
        "Runs": _counts(runs),
        "Tasks": ", ".join(task for task in TASKS if results.of(task)),
        "Not run": ", ".join(task for task in TASKS if not results.of(task)),
        "Datasets": ", ".join(map(dataset_name, datasets_in_order(run.dataset for run in runs))),
        "Methods": ", ".join(map(method_name, in_order(run.method for run in runs))),
        "Seeds": ", ".join(str(seed) for seed in sorted({run.seed for run in runs})),
        "When": _when(runs),
        "Machine": "; ".join(_machine(each) for each in _distinct(run.provenance.get("machine") for run in runs)),
        "Versions": _versions(runs),
    }
    given = {name: text for name, text in facts.items() if text}
    return Table((words("", given), words("", given.values())))


def _counts(runs: Sequence[Run]) -> str:
    by_status = grouped(runs, lambda run: run.status)
    others = [f"{each} {len(by_status[each])}" for each in STATUSES if each in by_status]
    return f"{len(runs)}: {', '.join(others)}"


def _when(runs: Sequence[Run]) -> str:
    written = sorted(str(run.provenance["time"]) for run in runs if run.provenance.get("time"))
    times = [each.replace("T", " ").replace("+00:00", " UTC") for each in written]
    if not times:
        return ""
    return times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"


def _machine(machine: Any) -> str:
    return (
        ", ".join(f"{name} {value}" for name, value in machine.items()) if isinstance(machine, dict) else str(machine)
    )


def _versions(runs: Sequence[Run]) -> str:
    """Each package with its version, or versions if the runs had several."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for package, version in (run.provenance.get("versions") or {}).items():
            found.setdefault(str(package), {})[str(version)] = None
    return ", ".join(f"{package} {' and '.join(versions)}" for package, versions in found.items())


def _data(runs: Sequence[Run]) -> Table | None:
    rows = []
    groups = grouped(runs, lambda run: run.dataset)
    for dataset in datasets_in_order(groups):
        for data in _distinct(run.provenance.get("data") for run in groups[dataset]):
            rows.append((dataset_name(dataset), _machine(data)))
    if not rows:
        return None
    names, prints = zip(*rows, strict=True)
    return Table((words("Dataset", names), words("Fingerprint", prints)))


def _distinct(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value and value not in found:
            found.append(value)
    return found
