"""What the report is about, time and memory, and tables 2 and 3 of the paper."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from glace.drawing.document import Block, Cell, Code, Column, Heading, Table, stacked, text_column
from glace.experiments.report import paper
from glace.experiments.report.cells import (
    Rows,
    best_in_bold,
    compared_columns,
    cost_column,
    cost_columns,
    dataset_tables,
    deviation,
    methods_column,
    score_column,
    signed,
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
    score,
    with_link_models,
)
from glace.experiments.splits import GRAPH2GAUSS
from glace.records import without_places

_ABOUT = (
    f'Node embedding methods, measured on the tasks of the paper "{paper.TITLE}". Every number and picture is drawn '
    "from the records beside this file; the numbers printed in the paper stand beside ours. Scores are in percent: "
    "mean over seeds ± standard deviation."
)
_MOST_COMMANDS = 20
WITHOUT = "_without_context"
"""Ending of the fields of a record that are judged in the paper's way."""
_COSTS = (
    (
        "seconds",
        "Seconds",
        "Seconds from the graph to the embedding; those of GLACE, LACE and LINE, which use all cores, include "
        "calibration, certainty and link model",
    ),
    ("peak_rss_mb", "Peak memory", "Peak memory of a run's process in megabytes, including libraries and graph"),
)


def notices(results: Results) -> list[Block]:
    """Return what a reader must know before the results; nothing if all runs are done."""
    return [Heading("To know before reading", 2), *results.notices] if results.notices else []


def provenance(results: Results) -> list[Block]:
    """Return the last section: where the results come from."""
    blocks: list[Block] = [Heading("About this report", 2), _ABOUT, _facts(results)]
    # Runs of a grid also record the command of the grid, which is shorter than one command per run.
    given = (run.provenance.get("grid") or run.provenance.get("command") for run in results.runs)
    commands = _distinct(without_places(str(each)) for each in given if each)
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
            parts = [block for each in _COSTS for block in _cost_tables(task, runs, *each)]
            return [Heading("Time and memory", 2), *parts, *_budgets(task, runs)]
    return []


def _cost_tables(task: str, runs: Sequence[Run], field: str, title: str, guide: str) -> list[Block]:
    timed = runs if field != "seconds" else [run for run in runs if run.is_alone or not run.done]
    if any(run.done for run in runs) and not any(run.done for run in timed):
        return [Heading(title), "No run was made alone (--parallel-runs 1), so no times are shown."]
    tables = dataset_tables(timed, lambda name, rows: [cost_column(name, rows, field)])
    over = "the runs that were made one at a time (--parallel-runs 1)" if field == "seconds" else "seeds"
    return [Heading(title), f"{guide}: {task}, mean over {over}.", *tables]


_BUDGETS = (
    "How long methods trained whose length depends on the graph, as it was (first seed): steps with the passes over "
    "the edges that they make, or random walks per node and their length."
)


def _budgets(task: str, runs: Sequence[Run]) -> list[Block]:
    """Return the length of training of the methods that record it."""
    known = [run for run in runs if run.done and isinstance(run.get("budget"), Mapping)]
    if not known:
        return []

    def column(name: str, rows: Rows) -> list[Column]:
        return [text_column(name, [_budget(row[0].get("budget")) if row else "" for row in rows])]

    return [Heading("Length of training"), f"{_BUDGETS} {task}.", *dataset_tables(known, column)]


def _budget(used: Mapping[str, float]) -> str:
    if "steps" in used:
        return f"{used['steps']:,} steps, {used['epochs']:.3g} epochs"
    return f"{used['walks']} walks of {used['length']}"


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
        "Commits": ", ".join(map(str, _distinct(run.provenance.get("commit") for run in runs))),
        "Code": "; ".join(_described(each) for each in _distinct(run.provenance.get("code") for run in runs)),
        "Load": _load(runs),
    }
    given = {name: text for name, text in facts.items() if text}
    return Table((text_column("", given), text_column("", given.values())))


def _load(runs: Sequence[Run]) -> str:
    """Return how many runs ran at the same time, and what else kept the machine busy."""
    at_once = sorted({int(each) for run in runs if is_number(each := run.provenance.get("parallel_runs"))})
    loads = sorted(float(each) for run in runs if is_number(each := run.provenance.get("load_before")))
    if not at_once:
        return ""
    load = f"; load average before a run {loads[len(loads) // 2]:g}, at most {loads[-1]:g}" if loads else ""
    return f"{' or '.join(map(str, at_once))} runs at a time{load}"


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
    "are scored by minus their dissimilarity, points by their dot product. Methods with second-order proximity are "
    "judged in two ways: by the embedding of one node and the context of the other, as the training loss does, and "
    "“without context”, by the embeddings of the two nodes, which is the paper's way and stands beside the paper's "
    "numbers. Training and early stopping are the same in both. Other methods have no contexts, so their two scores "
    "are equal. A node has 128 numbers; LACE and GLACE as published have as many for each proximity, so 256 in the "
    "rows 1st+2nd. “+ link model” ranks by "
    "the model of links on top of the embedding, which the paper does not have. It is fitted to the validation edges, "
    "which the other rows use for early stopping only. Higher is better; the best of a column "
    "is bold; a dash is explained below its table; an empty cell was not run, or does not apply; seconds are those of "
    "runs that were made one at a time."
)
_CONTEXTS = "Methods with second-order proximity (AUC), with and without contexts. The better of the two is bold."
_GAUSSIANS = (
    "What Gaussians change: the AUC of GLACE minus that of LACE with the same options, in percentage points; mean of "
    "the differences on the same splits ± standard deviation. Points are compared by dot product, Gaussians by "
    "symmetric KL. A node has as many numbers in both. The variance differs, and with it the measure, where the "
    "learned offset starts and, with defaults, the trials, which points do not make; docs/experiments.md says what the "
    "variance alone is worth."
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
    "attributes alone; the scores say how well their edges are ranked above non-edges. “Balanced” has as many "
    "non-edges as edges. “As Graph2Gauss” draws the pairs as the authors' code of Graph2Gauss does, two to three "
    "non-edges for each edge; the paper does not say how it drew its pairs, but its AP is much nearer to this one. “+ "
    "link model” also counts how many edges the known node of a pair has; there are no paths to a new node."
)
_COMPARED = (
    "Ours, the paper's where it has numbers, and ours minus the paper's in percentage points, with pairs as in "
    "Graph2Gauss and without context; the best of a dataset is bold."
)


def link_prediction(runs: Sequence[Run]) -> list[Block]:
    """Return the overview, a table per dataset, points by cosine, and splits given as files."""
    blocks: list[Block] = [_GUIDE]
    random = with_link_models(run for run in runs if run.split == "random")
    if random:
        tables = dataset_tables(random, lambda name, rows: [score_column(name, rows, "auc")])
        guide = "The area under the ROC curve, dataset by dataset."
        blocks += [Heading("AUC of all datasets"), guide, *tables, *_datasets(random)]
    if seconds := [run for run in random if _has_contexts(run)]:
        blocks += [Heading("With and without context"), _CONTEXTS, *dataset_tables(seconds, _both_ways)]
    blocks += _points_and_gaussians(random)
    if points := [run for run in random if is_number(run.get("auc_cosine"))]:
        blocks += [Heading("Dot product or cosine"), _COSINE, *dataset_tables(points, _dot_and_cosine)]
    given = grouped(
        with_link_models(run for run in runs if run.split != "random"), lambda run: (run.dataset, run.split)
    )
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
    blocks: list[Block] = [_INDUCTION, *filter(None, (_caveat(*each) for each in by_dataset(runs).items()))]
    # A run that did not finish may not know its share; it gets a table of its own.
    for share, group in sorted(grouped(with_link_models(runs), lambda run: run.hidden_share or 0.0).items()):
        title = f"{100 * share:g} % of the nodes hidden" if share else "Share of hidden nodes unknown"
        columns = {}
        for dataset, some in by_dataset(group).items():
            methods = by_method(some)
            columns[dataset_name(dataset)] = [methods_column(methods), *_induction_columns(methods, dataset, share)]
        blocks += [Heading(title), _COMPARED, stacked("Dataset", columns)]
    return blocks


def _induction_columns(methods: Mapping[str, Sequence[Run]], dataset: str, share: float) -> list[Column]:
    """Return the scores of both protocols, and the paper's beside those that are judged in its way."""
    rows = [[run for run in runs if run.protocol != GRAPH2GAUSS] for runs in methods.values()]
    theirs = [[run for run in runs if run.protocol == GRAPH2GAUSS] for runs in methods.values()]
    return [
        *_ours(rows, "", "balanced"),
        *_ours(theirs, "", "as Graph2Gauss"),
        *_ours(theirs, WITHOUT, "as Graph2Gauss, without context"),
        *_beside_paper(theirs, [paper.printed(method, dataset, share) for method in methods]),
        *cost_columns(rows),
    ]


def _caveat(dataset: str, runs: Sequence[Run]) -> str:
    return paper.caveat(dataset, [run.provenance.get("data") for run in runs])


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
        guide, columns = "The paper prints no numbers for this graph.", _two_ways(rows)
        if any(printed):
            guide = "Ours, the paper's, and ours without context minus the paper's in percentage points."
            guide = " ".join(filter(None, (guide, _caveat(dataset, group), paper.SLIPS_IN_TABLE_2.get(dataset))))
            columns = [*columns, *_beside_paper(rows, printed)]
        table = Table((methods_column(methods), *columns, *cost_columns(rows)))
        blocks += [Heading(dataset_name(dataset)), guide, table]
    return blocks


def _two_ways(rows: Rows) -> list[Column]:
    """Return the scores as trained and, if the records have them, without context."""
    has_both = any(is_number(run.get(f"auc{WITHOUT}")) for runs in rows for run in runs)
    return _ours(rows) + (_ours(rows, WITHOUT, "without context") if has_both else [])


def _beside_paper(rows: Rows, printed: Sequence[paper.Printed | None]) -> list[Column]:
    """Return the paper's numbers, and ours, judged in its way, minus the paper's."""
    auc = compared_columns("AUC", rows, f"auc{WITHOUT}", [each and each.auc for each in printed])
    ap = compared_columns("AP", rows, f"ap{WITHOUT}", [each and each.ap for each in printed])
    return [column for both in zip(auc, ap, strict=True) for column in both]


def _ours(rows: Rows, suffix: str = "", group: str = "ours") -> list[Column]:
    return [score_column(name.upper(), rows, f"{name}{suffix}", group) for name in ("auc", "ap")]


def _dot_and_cosine(name: str, rows: Rows) -> list[Column]:
    return _side_by_side(name, rows, {"dot": "auc", "cosine": "auc_cosine"})


def _both_ways(name: str, rows: Rows) -> list[Column]:
    return _side_by_side(name, rows, {"with": "auc", "without context": f"auc{WITHOUT}"})


def _side_by_side(name: str, rows: Rows, fields: Mapping[str, str]) -> list[Column]:
    """Return scores of each row side by side, the better in bold."""
    cells = [
        best_in_bold([row] * len(fields), [mean_score(row, field) for field in fields.values()], brief=True)
        for row in rows
    ]
    return [Column(title, column, name) for title, column in zip(fields, zip(*cells, strict=True), strict=True)]


def _points_and_gaussians(runs: Sequence[Run]) -> list[Block]:
    """Return the paper's central comparison: a row for each pair of methods, and one more for those with contexts."""
    methods = {run.method for run in runs}
    two_ways = {run.method for run in runs if _has_contexts(run)}
    rows = {
        name + ending: (points, gaussians, field)
        for name, (points, gaussians) in paper.POINTS_AND_GAUSSIANS.items()
        for ending, field in (("", "auc"), (", without context", f"auc{WITHOUT}"))
        if {points, gaussians} <= methods and (not ending or points in two_ways)
    }
    if not rows:
        return []
    columns = [text_column("Proximity", rows)]
    for dataset, group in by_dataset(runs).items():
        done = by_method(group)
        cells = [_difference(done.get(less, []), done.get(more, []), field) for less, more, field in rows.values()]
        columns.append(Column(dataset_name(dataset), tuple(cells)))
    return [Heading("Points or Gaussians"), _GAUSSIANS, Table(tuple(columns))]


def _difference(less: Sequence[Run], more: Sequence[Run], field: str) -> Cell:
    """Return the mean of the differences on the same splits, in percentage points; empty if there are none."""
    first, second = (
        {run.seed: float(value) for run in some if is_number(value := run.get(field))} for some in (less, more)
    )
    found = score([100 * (second[seed] - first[seed]) for seed in sorted(first.keys() & second.keys())])
    return Cell() if found is None else Cell(signed(found.mean) + deviation(found))


def _has_contexts(run: Run) -> bool:
    """Whether the two ways of judging a run are two."""
    return is_number(run.get(f"auc{WITHOUT}")) and run.get(f"auc{WITHOUT}") != run.get("auc")


def _given_split(dataset: str, split: str, runs: Sequence[Run]) -> list[Block]:
    methods = by_method(runs)
    rows = list(methods.values())
    columns = [methods_column(methods), *_ours(rows, "", "all pairs")]
    for suffix, group in (
        (WITHOUT, "without context"),
        ("_without_reversed", "without the reversed"),
        ("_cosine", "by cosine"),
    ):
        if any(is_number(run.get(f"auc{suffix}")) for run in runs):
            columns += _ours(rows, suffix, group)
    title = f"{dataset_name(dataset)}, {paper.split_name(split)}"
    return [Heading(title), _guide_of_given(runs), Table((*columns, *cost_columns(rows)))]


def _guide_of_given(runs: Sequence[Run]) -> str:
    found = [run.get("reversed_edges") for run in runs]
    counts = {int(each) for each in found if is_number(each) and each}
    if not counts:
        return _GIVEN
    count = " or ".join(str(each) for each in sorted(counts))
    return (
        f"{_GIVEN} The reverse of {count} of its test edges is for training or validation: a method that ignores "
        "direction knows them already, so the scores without them are the fairer ones."
    )
