"""What the report is about, time and memory, and tables 2 and 3 of the paper."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from glace.drawing.document import Block, Code, Column, Heading, Table, stacked, text_column
from glace.experiments.report import paper
from glace.experiments.report.cells import (
    Rows,
    best_in_bold,
    compared_columns,
    cost_column,
    cost_columns,
    dataset_tables,
    methods_column,
    score_column,
)
from glace.experiments.report.paper import dataset_name, datasets_in_order, method_name, methods_in_order
from glace.experiments.report.results import (
    STATUSES,
    TASKS,
    Results,
    Run,
    by_dataset,
    by_method,
    grouped,
    is_number,
    mean_score,
)

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


def notices(results: Results) -> list[Block]:
    """Return what a reader must know before the results; nothing if all runs are done."""
    return [Heading("Before you read", 2), *results.notices] if results.notices else []


def provenance(results: Results) -> list[Block]:
    """Return the last section: where the results come from."""
    blocks: list[Block] = [Heading("About this report", 2), _ABOUT, _facts(results)]
    # Runs of a grid also record the command of the grid, which is shorter than one command per run.
    commands = _distinct(run.provenance.get("grid") or run.provenance.get("command") for run in results.runs)
    if commands:
        more = [f"... and {len(commands) - _MOST_COMMANDS} more, in the records"] * (len(commands) > _MOST_COMMANDS)
        blocks += ["Commands", Code("\n".join([*map(str, commands[:_MOST_COMMANDS]), *more]))]
    data = [
        (dataset_name(dataset), _described(each))
        for dataset, group in by_dataset(results.runs).items()
        for each in _distinct(run.provenance.get("data") for run in group)
    ]
    if data:
        names, fingerprints = zip(*data, strict=True)
        table = Table((text_column("Dataset", names), text_column("Fingerprint", fingerprints)))
        blocks += ["Data, by the fingerprint of the graph that the methods were given:", table]
    return blocks


def cost(results: Results) -> list[Block]:
    """Return time and memory of one task, link prediction if it was run: the same work for every method."""
    for task in TASKS:
        runs = [run for run in results.of(task) if run.split == "random"]
        if any(is_number(run.get(field)) for run in runs for field, _, _ in _COSTS):
            parts = (_cost_tables(task, runs, *each) for each in _COSTS)
            return [Heading("Time and memory", 2), *(block for part in parts for block in part)]
    return []


def _cost_tables(task: str, runs: Sequence[Run], field: str, title: str, guide: str) -> list[Block]:
    tables = dataset_tables(runs, lambda name, rows: [cost_column(name, rows, field)])
    return [Heading(title), f"{guide}: {task}, mean over seeds.", *tables]


def _facts(results: Results) -> Table:
    runs = results.runs
    facts = {
        "Runs": _counts(runs),
        "Tasks": ", ".join(task for task in TASKS if results.of(task)),
        "Not run": ", ".join(task for task in TASKS if not results.of(task)),
        "Datasets": ", ".join(map(dataset_name, datasets_in_order(run.dataset for run in runs))),
        "Methods": ", ".join(map(method_name, methods_in_order(run.method for run in runs))),
        "Seeds": ", ".join(str(seed) for seed in sorted({run.seed for run in runs})),
        "When": _when(runs),
        "Machine": "; ".join(_described(each) for each in _distinct(run.provenance.get("machine") for run in runs)),
        "Versions": _versions(runs),
    }
    given = {name: text for name, text in facts.items() if text}
    return Table((text_column("", given), text_column("", given.values())))


def _counts(runs: Sequence[Run]) -> str:
    counts: Counter[str] = Counter(run.status for run in runs)
    found = [f"{counts[status]} {status}" for status in STATUSES if counts[status]]
    return f"{len(runs)}, all done" if counts["done"] == len(runs) else ", ".join(found)


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
    given = [value for value in values if value]
    return [value for place, value in enumerate(given) if value not in given[:place]]


_GUIDE = (
    "Each method saw the graph without the held-out edges, then ranked those edges among as many non-edges. Gaussians "
    "are scored by minus their dissimilarity, points by their dot product, as in the paper. Higher is better; the best "
    "of a column is bold; a dash is explained below its table; an empty cell was not run, or does not apply."
)
_COSINE = (
    "Points again (AUC), by dot product and by cosine: the length of a vector counts in the first and not in the "
    "second. The better of the two is bold."
)
_GIVEN = (
    "One split read from a file, so all seeds hold out the same edges and ± shows only the randomness of the methods."
)
_DIRECTED = (
    "Edges and non-edges are ordered pairs; both directions of a pair are in the same part of the split. AUC and AP "
    "compare with random ordered pairs. Direction is the AUC of edges against their reverses, where only one direction "
    "exists: 50 for a symmetric measure, empty for a symmetric graph."
)
_INDUCTION = (
    "A share of the nodes was hidden from training together with all their edges. Their embeddings come from their "
    "attributes alone; the scores say how well their edges are ranked above non-edges."
)
_COMPARED = (
    "Ours, the paper's where it has numbers, and ours minus the paper's in percentage points; the best of a dataset "
    "is bold."
)


def link_prediction(runs: Sequence[Run]) -> list[Block]:
    """Return the overview, a table per dataset, points by cosine, and splits given as files."""
    blocks: list[Block] = [_GUIDE]
    random = [run for run in runs if run.split == "random"]
    if random:
        tables = dataset_tables(random, lambda name, rows: [score_column(name, rows, "auc")])
        guide = "The area under the ROC curve, dataset by dataset."
        blocks += [Heading("AUC of all datasets"), guide, *tables, *_datasets(random)]
    if points := [run for run in random if is_number(run.get("auc_cosine"))]:
        blocks += [Heading("Dot product or cosine"), _COSINE, *dataset_tables(points, _dot_and_cosine)]
    given = grouped((run for run in runs if run.split != "random"), lambda run: (run.dataset, run.split))
    for (dataset, split), group in sorted(given.items()):
        blocks += _given_split(dataset, split, group)
    return blocks


def directed(runs: Sequence[Run]) -> list[Block]:
    """Return the scores on directed graphs, dataset by dataset."""
    columns = {}
    for dataset, group in by_dataset(runs).items():
        methods = by_method(group)
        rows = list(methods.values())
        numbers = [*_ours(rows, "", ""), score_column("Direction", rows, "auc_direction"), *cost_columns(rows)]
        columns[dataset_name(dataset)] = [methods_column(methods), *numbers]
    return [_DIRECTED, stacked("Dataset", columns)]


def induction(runs: Sequence[Run]) -> list[Block]:
    """Return a table for each share of hidden nodes."""
    caveats = " ".join(paper.CAVEATS[dataset] for dataset in by_dataset(runs) if dataset in paper.CAVEATS)
    blocks: list[Block] = [_INDUCTION, *([caveats] if caveats else [])]
    # A run that did not finish may not know its share; it gets a table of its own.
    for share, group in sorted(grouped(runs, lambda run: run.hidden_share or 0.0).items()):
        title = f"{100 * share:g} % of the nodes hidden" if share else "Share of hidden nodes unknown"
        columns = {}
        for dataset, some in by_dataset(group).items():
            methods = by_method(some)
            numbers = _compared(methods, [paper.printed(method, dataset, share) for method in methods])
            columns[dataset_name(dataset)] = [methods_column(methods), *numbers]
        blocks += [Heading(title), _COMPARED, stacked("Dataset", columns)]
    return blocks


def without_unsupported(runs: Sequence[Run]) -> tuple[list[Run], list[Block]]:
    """Return the runs without the methods that never support the task, and a sentence that names those methods.

    One sentence replaces a row of dashes for each of them in every table.
    """
    unable = [method for method, group in by_method(runs).items() if all(run.status == "unsupported" for run in group)]
    sentence = f"Methods that cannot do this task are left out: {', '.join(map(method_name, unable))}."
    return [run for run in runs if run.method not in unable], [sentence] if unable else []


def _datasets(runs: Sequence[Run]) -> list[Block]:
    blocks: list[Block] = []
    for dataset, group in by_dataset(runs).items():
        methods = by_method(group)
        rows = list(methods.values())
        printed = [paper.printed(method, dataset) for method in methods]
        guide, columns = "The paper prints no numbers for this graph.", [*_ours(rows), *cost_columns(rows)]
        if any(printed):
            guide = "Ours, the paper's, and ours minus the paper's in percentage points."
            guide = f"{guide} {paper.TABLE_2_CAVEATS.get(dataset, '')}".strip()
            columns = _compared(methods, printed)
        blocks += [Heading(dataset_name(dataset)), guide, Table((methods_column(methods), *columns))]
    return blocks


def _compared(methods: Mapping[str, Sequence[Run]], printed: Sequence[paper.Printed | None]) -> list[Column]:
    """Return AUC and AP: ours, the paper's and the differences; then the cost."""
    rows = list(methods.values())
    auc = compared_columns("AUC", rows, "auc", [each and each.auc for each in printed])
    ap = compared_columns("AP", rows, "ap", [each and each.ap for each in printed])
    theirs = [column for both in zip(auc, ap, strict=True) for column in both]
    return [*_ours(rows), *theirs, *cost_columns(rows)]


def _ours(rows: Rows, suffix: str = "", group: str = "ours") -> list[Column]:
    return [score_column(name.upper(), rows, f"{name}{suffix}", group) for name in ("auc", "ap")]


def _dot_and_cosine(name: str, rows: Rows) -> list[Column]:
    """Return both scores of each row side by side, the better of the two in bold."""
    pairs = [
        best_in_bold([row, row], [mean_score(row, "auc"), mean_score(row, "auc_cosine")], brief=True) for row in rows
    ]
    dots, cosines = zip(*pairs, strict=True)
    return [Column("dot", dots, name), Column("cosine", cosines, name)]


def _given_split(dataset: str, split: str, runs: Sequence[Run]) -> list[Block]:
    methods = by_method(runs)
    rows = list(methods.values())
    columns = [methods_column(methods), *_ours(rows, "", "all pairs")]
    for suffix, group in (("_without_reversed", "without the reversed"), ("_cosine", "by cosine")):
        if any(is_number(run.get(f"auc{suffix}")) for run in runs):
            columns += _ours(rows, suffix, group)
    title = f"{dataset_name(dataset)}, the given split {split}"
    return [Heading(title), _guide_of_given(runs), Table((*columns, *cost_columns(rows)))]


def _guide_of_given(runs: Sequence[Run]) -> str:
    found = [run.get("reversed_edges") for run in runs]
    counts = {int(each) for each in found if is_number(each) and each}
    if not counts:
        return _GIVEN
    count = " or ".join(str(each) for each in sorted(counts))
    return (
        f"{_GIVEN} The reverse of {count} of its test edges is a training edge: a method that ignores direction knows "
        "them already, so the scores without them are the fairer ones."
    )
