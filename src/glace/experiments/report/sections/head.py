"""What the report is about: runs, commands, versions, machine, time and data, from the records' provenance."""

from collections.abc import Iterable, Mapping, Sequence

from glace.experiments.report import paper
from glace.experiments.report.cells import cost_column, method_rows, tables_of
from glace.experiments.report.document import Block, Code, Heading, Section, Table, text_column
from glace.experiments.report.names import dataset_name, datasets_in_order, in_order, method_name
from glace.experiments.report.results import Results, by_dataset, grouped
from glace.experiments.report.schema import STATUSES, TASKS, Run, is_number

_ABOUT = (
    f'Node embedding methods, measured on the tasks of the paper "{paper.TITLE}". Every number and picture is drawn '
    "from the records beside this file; the numbers printed in the paper stand beside ours. Scores are in percent: "
    "mean over seeds ± standard deviation."
)
_MOST_COMMANDS = 20
_COSTS = (
    ("seconds", "Seconds", "Seconds from the graph to the embedding"),
    ("peak_rss_mb", "Peak memory", "Peak memory of a run's process in megabytes, including libraries and graph"),
)


def head(results: Results) -> Section:
    """Return the first section."""
    blocks: list[Block] = [_ABOUT, _facts(results)]
    # Runs of a grid also record the command of the grid, which is shorter than one command per run.
    commands = _distinct(run.provenance.get("grid") or run.provenance.get("command") for run in results.runs)
    if commands:
        more = [f"... and {len(commands) - _MOST_COMMANDS} more, in the records"] * (len(commands) > _MOST_COMMANDS)
        blocks += ["Commands", Code("\n".join([*map(str, commands[:_MOST_COMMANDS]), *more]))]
    data = [
        (dataset_name(dataset), _described(each))
        for dataset, group in by_dataset(results.runs)
        for each in _distinct(run.provenance.get("data") for run in group)
    ]
    if data:
        names, fingerprints = zip(*data, strict=True)
        table = Table((text_column("Dataset", names), text_column("Fingerprint", fingerprints)))
        blocks += ["Data, by the fingerprint of the graph that the methods were given:", table]
    if results.notices:
        blocks += [Heading("Before you read"), *results.notices]
    return Section("About this report", tuple(blocks))


def cost(results: Results) -> Section | None:
    """Return time and memory of one task, link prediction if it was run: the same work for every method."""
    for task in TASKS:
        runs = [run for run in results.of(task) if run.split == "random"]
        if any(is_number(run.get(field)) for run in runs for field, _, _ in _COSTS):
            return Section("Time and memory", tuple(_cost_tables(task, runs)))
    return None


def _cost_tables(task: str, runs: Sequence[Run]) -> list[Block]:
    methods = in_order(run.method for run in runs)
    blocks: list[Block] = []
    for field, title, guide in _COSTS:
        columns = [
            [cost_column(dataset_name(dataset), method_rows(group, methods, dataset), field)]
            for dataset, group in by_dataset(runs)
        ]
        blocks += [Heading(title), f"{guide}: {task}, mean over seeds.", *tables_of(methods, columns)]
    return blocks


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
        "Machine": "; ".join(_described(each) for each in _distinct(run.provenance.get("machine") for run in runs)),
        "Versions": _versions(runs),
    }
    given = {name: text for name, text in facts.items() if text}
    return Table((text_column("", given), text_column("", given.values())))


def _counts(runs: Sequence[Run]) -> str:
    by_status = grouped(runs, lambda run: run.status)
    counts = [f"{status} {len(by_status[status])}" for status in STATUSES if status in by_status]
    return f"{len(runs)}: {', '.join(counts)}"


def _when(runs: Sequence[Run]) -> str:
    written = sorted(str(run.provenance["time"]) for run in runs if run.provenance.get("time"))
    times = dict.fromkeys(written[:1] + written[-1:])
    return " to ".join(each.replace("T", " ").replace("+00:00", " UTC") for each in times)


def _described(facts: object) -> str:
    if isinstance(facts, Mapping):
        return ", ".join(f"{name} {value}" for name, value in facts.items())
    return str(facts)


def _versions(runs: Sequence[Run]) -> str:
    """Return each package with its version, or versions if the runs had several."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for package, version in (run.provenance.get("versions") or {}).items():
            found.setdefault(str(package), {})[str(version)] = None
    return ", ".join(f"{package} {' and '.join(versions)}" for package, versions in found.items())


def _distinct(values: Iterable[object]) -> list[object]:
    found: list[object] = []
    for value in values:
        if value and value not in found:
            found.append(value)
    return found
