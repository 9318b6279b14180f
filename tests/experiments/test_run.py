"""The runs of each experiment; a finished run is never repeated, whatever happened to the process that made it."""

import json
import lzma
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import glace
from glace.cores import shares_of_cores
from glace.datasets import names as dataset_names
from glace.errors import FormatError, InputError
from glace.experiments.evaluation.rankers import HEURISTICS
from glace.experiments.methods import METHODS
from glace.experiments.record_file import COMPRESSED, RECORDS, RecordFile, key_of
from glace.experiments.run import (
    CITATIONS,
    EXPERIMENTS,
    FINAL,
    LARGER,
    SLOW,
    TOO_LARGE,
    GridOptions,
    check_folder,
    command,
    finished_keys,
    run_grid,
    runs,
    unfinished,
)
from glace.experiments.tasks import SPLITTING, TASKS, Evaluation

RUNS = [
    Evaluation("link-prediction", dataset, method, seed)
    for seed in (0, 1)
    for dataset in ("cora-ml", "dblp")
    for method in ("attributes", "lace")
]


def record_of(run, status="done", **more):
    values = {"status": status, "reason": None, "auc": 0.9, "seconds": 1.0}
    provenance = {"command": "glace evaluate to a scratch file"}
    return {"kind": "evaluation", **run.record(), **values, "provenance": provenance, **more}


# The runs of the experiments

SPLIT = Path("somewhere/given.npz")
REPRODUCED = set(TASKS) - {"ranking"}
"""Full ranking is not in the paper: `benchmarks.ranking` compares the methods by it."""


PARTS = [part for parts in EXPERIMENTS.values() for part in parts]


def test_every_experiment_is_made_of_known_things():
    for experiment in PARTS:
        assert experiment.task in TASKS
        ranking = experiment.task == "benchmark-ranking"
        assert set(experiment.methods) <= {*METHODS, *(HEURISTICS if ranking else ())}
        assert set(experiment.datasets) <= set(dataset_names())
        assert experiment.seeds >= 1
    assert {experiment.task for experiment in PARTS} == REPRODUCED


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_has_a_run_for_each_of_what_it_is_made_of(name):
    found, count = runs([name]), 0
    for each in EXPERIMENTS[name]:
        varied = (each.datasets, each.methods, each.hidden_shares, each.protocols, range(each.seeds))
        count += math.prod(map(len, varied))
    assert len(found) == len({run.key() for run in found}) == count
    assert {run.task for run in found} == {each.task for each in EXPERIMENTS[name]}


def test_table_2_is_every_method_on_every_graph():
    found = runs(["table-2"])
    assert {run.method for run in found} == set(METHODS) - {"glace-kl", "glace-symmetric-kl"}
    assert len(found) == (len(METHODS) - 3) * len((*CITATIONS, *LARGER)) * 3 + 3 - 2 * len(SLOW) * len(LARGER)
    assert {run.seed for run in found if run.method in SLOW and run.dataset in LARGER} == {0}
    assert {run.dataset for run in found if run.method == "glace-as-coded"} == {"dblp"}
    assert [run.seed for run in found] == sorted(run.seed for run in found), "seeds go last"


def test_table_3_hides_two_shares():
    found = runs(["table-3"])
    assert {(run.hidden_share, run.protocol) for run in found} == {
        (share, protocol) for share in (0.1, 0.5) for protocol in ("balanced", "graph2gauss")
    }
    as_the_paper = {(run.dataset, run.method) for run in found if run.protocol == "graph2gauss"}
    assert as_the_paper < {(run.dataset, run.method) for run in found if run.protocol == "balanced"}
    assert {name for name, _ in as_the_paper} == set(CITATIONS) - {"dblp"}, "the graphs that the paper's table has"
    assert {run.hidden_share for run in runs(["table-2"])} == {None}


def test_points_and_gaussians_that_differ_in_nothing_else_are_on_every_graph():
    found = {(run.dataset, run.method, run.seed) for run in runs(["table-2"])}
    pairs = ("lace", "glace", "lace-published", "glace-published", "lace-published-first", "glace-published-first")
    assert {(name, method, seed) for name in (*CITATIONS, *LARGER) for method in pairs for seed in range(3)} <= found


def test_the_authors_split_is_a_file_of_the_data_folder(tmp_path):
    found = runs(["authors-split"], data_dir=tmp_path)
    assert {(run.dataset, run.split) for run in found} == {("cora-ml", tmp_path / "cora_ml_split.npz")}
    assert {run.method for run in found} == set(METHODS) - {"glace-kl", "glace-symmetric-kl"}
    assert runs(["authors-split"], ["dblp"], data_dir=tmp_path) == [], "it is one of Cora-ML"
    assert {run.split for run in runs(["table-2"], data_dir=tmp_path)} == {None}


def test_classes_and_convergence_have_three_seeds():
    assert {run.seed for run in runs(["figure-1"])} == {run.seed for run in runs(["figure-2"])} == {0, 1, 2}


def test_the_curves_of_training_are_those_of_table_2():
    assert set(runs(["figure-2"])) < set(runs(["table-2"]))


def test_what_is_asked_for_takes_the_place_of_the_papers():
    found = runs(["table-2"], ["citeseer", "cora-ml"], ["line", "glace"], 2)
    wanted = [
        (dataset, method, seed)
        for seed in (0, 1)
        for dataset in ("citeseer", "cora-ml")
        for method in ("line", "glace")
    ]
    assert [(run.dataset, run.method, run.seed) for run in found] == wanted


@pytest.mark.parametrize("experiment", ["table-2", "table-3", "benchmark-ranking", "directed", "authors-split"])
def test_datasets_that_are_named_have_the_runs_that_they_have_among_all(experiment):
    everything = runs([experiment])
    for dataset in dict.fromkeys(run.dataset for run in everything):
        assert runs([experiment], [dataset]) == [run for run in everything if run.dataset == dataset]


def test_other_datasets_have_the_runs_of_the_first_part():
    """The authors' program, and one seed of slow methods, are for the graphs that their parts name."""
    first = EXPERIMENTS["table-2"][0]
    found = [(run.method, run.seed) for run in runs(["table-2"], ["wordnet-nouns"])]
    assert found == [(method, seed) for seed in range(first.seeds) for method in first.methods]


def test_each_experiment_has_its_own_number_of_seeds_and_each_run_is_once():
    both = runs(["table-2", "figure-3"], ["dblp"], ["lace"])
    seeds = [(run.task, run.seed) for run in both]
    assert seeds == [
        ("link-prediction", 0), ("visualization", 0), ("link-prediction", 1), ("link-prediction", 2)
    ]  # fmt: skip
    assert runs(["table-2", "table-2"], ["dblp"], ["lace"]) == runs(["table-2"], ["dblp"], ["lace"])
    assert runs(["table-2"], ["dblp", "dblp"], ["lace"]) == runs(["table-2"], ["dblp"], ["lace"])


def test_a_split_goes_with_the_tasks_that_hold_out_edges():
    found = runs(list(EXPERIMENTS), ["cora-ml"], ["glace"], 1, SPLIT)
    assert {run.task for run in found if run.split == SPLIT} == set(SPLITTING)
    assert {run.task for run in found if run.split is None} == REPRODUCED - set(SPLITTING)


def test_directed_runs_say_so():
    found = runs(["table-2", "directed"], ["cora-ml"], ["glace"], 1)
    assert [run.directed for run in found] == [False, True]
    assert found[1].text() == "link-prediction cora-ml glace, directed, seed 0"
    commands = [command(run, GridOptions(Path("results"), None, 1.0)) for run in found]
    assert commands[1] == [*commands[0], "--directed"]


def test_runs_are_told_apart_by_all_that_makes_them():
    plain = Evaluation("link-prediction", "dblp", "lace")
    others = [
        replace(plain, dataset="cora"),
        Evaluation("uncertainty", "dblp", "lace"),
        Evaluation("link-prediction", "dblp", "glace"),
        Evaluation("link-prediction", "dblp", "lace", 1),
        Evaluation("link-prediction", "dblp", "lace", split=SPLIT),
        Evaluation("link-prediction", "dblp", "lace", hidden_share=0.1),
        Evaluation("link-prediction", "dblp", "lace", directed=True),
        Evaluation("link-prediction", "dblp", "lace", protocol="graph2gauss"),
    ]
    assert len({run.key() for run in (plain, *others)}) == 9


def test_a_record_has_the_key_of_its_run():
    run = Evaluation("induction", "dblp", "glace", 2, hidden_share=0.5)
    record = {"task": "induction", "dataset": "dblp", "method": "glace", "seed": 2, "hidden_share": 0.5, "auc": 1}
    assert key_of(record) == run.key()
    assert run.text() == "induction dblp glace, 50% hidden, seed 2"
    drawn = replace(run, protocol="graph2gauss")
    assert drawn.text() == "induction dblp glace, 50% hidden, graph2gauss, seed 2"
    assert drawn.key() == key_of(record | {"protocol": "graph2gauss"}) != run.key()
    assert key_of(record | {"protocol": "balanced"}) == run.key(), "as the record of a run that left it open has it"
    given = Evaluation("link-prediction", "dblp", "glace", split=SPLIT)
    assert given.key() == key_of(
        {"task": "link-prediction", "dataset": "dblp", "method": "glace", "seed": 0, "split": "given.npz"}
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["table-9"],), "there is no experiment 'table-9'; choose from table-2, .*, directed"),
        ((["table-2"], None, ["gcn"]), "there is no method 'gcn'; choose from attributes, deepwalk, .*, glace, "),
        ((["table-2"], None, None, 0), "the number of seeds must be at least 1, not 0"),
    ],
)
def test_unknown_names_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        runs(*arguments)


# The file of records


def read(folder):
    return [line.record for line in RecordFile(folder).read()]


def finished(folder):
    return finished_keys(RecordFile(folder), limit_seconds=0.0)


def test_records_are_appended_and_read_back(tmp_path):
    records = RecordFile(tmp_path)
    assert records.read() == []
    assert finished(tmp_path) == set()
    written = [record_of(run, reason="naïve, 中\n") for run in RUNS[:3]]
    for record in written:
        records.append(record)
    assert read(tmp_path) == written
    assert len((tmp_path / RECORDS).read_text(encoding="utf-8").splitlines()) == 3
    assert finished(tmp_path) == {run.key() for run in RUNS[:3]}


def test_compressed_records_come_first(tmp_path):
    records = RecordFile(tmp_path)
    for run in RUNS[:2]:
        records.append(record_of(run))
    (tmp_path / COMPRESSED).write_bytes(lzma.compress((tmp_path / RECORDS).read_bytes()))
    (tmp_path / RECORDS).unlink()
    records.append(record_of(RUNS[2]))
    assert read(tmp_path) == [record_of(run) for run in RUNS[:3]]
    (tmp_path / COMPRESSED).write_bytes(b"damaged")
    with pytest.raises(FormatError, match=r"cannot decompress .*records\.jsonl\.xz.*; restore the file"):
        read(tmp_path)


@pytest.mark.parametrize("status", ["done", "memory", "unsupported", "failed"])
def test_only_a_failure_is_tried_again(tmp_path, status):
    RecordFile(tmp_path).append(record_of(RUNS[0], status))
    assert finished(tmp_path) == ({RUNS[0].key()} if status in FINAL else set())
    assert (status in FINAL) == (status != "failed")


def test_what_took_too_long_is_tried_again_with_more_time(tmp_path):
    RecordFile(tmp_path).append(record_of(RUNS[0], "timeout", seconds=60.0))
    assert unfinished(RUNS[:1], tmp_path, limit_seconds=30.0) == []
    assert unfinished(RUNS[:1], tmp_path, limit_seconds=60.0) == []
    assert unfinished(RUNS[:1], tmp_path, limit_seconds=61.0) == RUNS[:1]


@pytest.mark.parametrize("left", [1, 10, 60])
def test_half_a_line_is_cut_off(tmp_path, left):
    path = tmp_path / RECORDS
    records = RecordFile(tmp_path)
    for run in RUNS[:2]:
        records.append(record_of(run))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:left])
    records.drop_partial_line()
    assert path.read_bytes() == whole
    records.append(record_of(RUNS[2]))
    assert finished(tmp_path) == {run.key() for run in RUNS[:3]}


def test_a_line_without_its_end_alone_in_the_file_goes_too(tmp_path):
    (tmp_path / RECORDS).write_bytes(b'{"kind": "eval')
    records = RecordFile(tmp_path)
    assert records.read() == []
    assert records.has_partial_line
    records.drop_partial_line()
    assert (tmp_path / RECORDS).read_bytes() == b""


@pytest.mark.parametrize("line", ["not json", "[1, 2]", "3"])
def test_a_bad_line_is_named(tmp_path, line):
    text = json.dumps(record_of(RUNS[0])) + "\n" + line + "\n"
    (tmp_path / RECORDS).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"records\.jsonl, line 2: .*; correct or delete that line"):
        finished(tmp_path)


# Grids, with processes that only pretend


class Processes:
    """In place of real ones: each gives the exit code that a function of its arguments says."""

    def __init__(self, code=lambda arguments: 0, said=""):
        self.code, self.said, self.started = code, said, []

    def __call__(self, arguments, **options):
        if "evaluate" not in arguments:
            raise OSError("there is no git here")
        wanted = arguments[arguments.index("evaluate") :]
        self.started.append(wanted)
        code = self.code(wanted)
        if code == "late":
            raise subprocess.TimeoutExpired(arguments, options["timeout"])
        if code == 0:
            run = Evaluation(wanted[1], wanted[2], wanted[4], int(wanted[6]))
            Path(wanted[wanted.index("--json") + 1]).write_text(json.dumps(record_of(run)), encoding="utf-8")
        return subprocess.CompletedProcess(arguments, code, "", self.said)


@pytest.fixture
def pretend(monkeypatch):
    def start(*arguments, **options):
        processes = Processes(*arguments, **options)
        monkeypatch.setattr(subprocess, "run", processes)
        return processes

    return start


def performed(folder, runs=RUNS, **options):
    """Make the runs; returns what the listener received, and the records."""
    received: list[tuple[Evaluation, dict[str, Any], int]] = []
    grid_options = GridOptions(folder, **{"data_dir": None, "limit_seconds": 60.0} | options)
    run_grid(runs, grid_options, lambda *ended: received.append(ended))
    return received, read(folder)


def test_every_run_is_made_and_received_of_in_order(tmp_path, pretend):
    processes = pretend()
    received, records = performed(tmp_path / "new" / "folder")
    assert received == [(run, record, done) for run, record, done in zip(RUNS, records, range(1, 9), strict=True)]
    for run, record in zip(RUNS, records, strict=True):
        again = f"glace evaluate link-prediction {run.dataset} --method {run.method} --seed {record['seed']}"
        assert record["provenance"]["command"] == again, "what makes that run again"
        assert record["provenance"]["parallel_runs"] == 1
        assert record["provenance"]["wall_seconds"] >= 0
        assert record == record_of(run, provenance=record["provenance"])
    assert len(processes.started) == 8
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [RECORDS], "no scratch is left"


def test_what_is_finished_is_not_done_again(tmp_path, pretend):
    pretend()
    performed(tmp_path, RUNS[:3])
    processes = pretend()
    received, records = performed(tmp_path)
    assert len(processes.started) == 5
    assert [run for run, _, _ in received] == RUNS[3:]
    assert received[0][2] == 4
    assert len(records) == 8
    processes = pretend()
    assert performed(tmp_path) == ([], records)
    assert processes.started == []


def test_a_failed_run_is_done_again_and_others_go_on(tmp_path, pretend):
    pretend(lambda wanted: 2 if "lace" in wanted else 0, said="warning: x\nerror: no such luck\n")
    _, records = performed(tmp_path)
    assert [each["status"] for each in records] == ["done", "failed"] * 4
    assert {each["reason"] for each in records if each["status"] == "failed"} == {"no such luck"}
    processes = pretend()
    _, records = performed(tmp_path)
    assert len(processes.started) == 4
    assert {wanted[4] for wanted in processes.started} == {"lace"}
    assert Counter(each["status"] for each in records) == {"done": 8, "failed": 4}


@pytest.mark.parametrize(
    ("code", "said", "status", "reason"),
    [
        (TOO_LARGE, "error: 40 GB are needed\n", "memory", "40 GB are needed"),
        (-9, "", "memory", "killed: out of memory"),
        (1, "", "failed", "ended with exit code 1"),
        (3, "error: the loss is nan\n", "failed", "the loss is nan"),
        ("late", "", "timeout", "not finished within 2 h"),
    ],
)
def test_what_becomes_of_a_run_that_gives_nothing(tmp_path, pretend, code, said, status, reason):
    pretend(lambda _: code, said)
    _, (record,) = performed(tmp_path, RUNS[:1], limit_seconds=7200.0)
    assert (record["status"], record["reason"]) == (status, reason)
    named = ("kind", "task", "dataset", "method", "seed", "split", "hidden_share")
    wanted = ("evaluation", "link-prediction", "cora-ml", "attributes", 0, "random", None)
    assert tuple(record[name] for name in named) == wanted
    assert {"command", "versions", "machine", "time", "code"} <= set(record["provenance"])
    processes = pretend()
    performed(tmp_path, RUNS[:1])
    assert len(processes.started) == (status == "failed")


def test_what_a_method_cannot_do_is_noted_without_a_process(tmp_path, pretend):
    processes = pretend()
    run = Evaluation("induction", "dblp", "node2vec", hidden_share=0.5)
    _, (record,) = performed(tmp_path, [run])
    assert processes.started == []
    assert record["status"] == "unsupported"
    assert record["reason"].startswith("node2vec uses only edges")
    assert record["hidden_share"] == 0.5
    assert finished(tmp_path) == {run.key()}


def test_several_at_a_time_make_the_same_records(tmp_path, pretend):
    pretend()
    received, records = performed(tmp_path, parallel_runs=3, data_dir=Path("/a/place/of/this/machine"))
    assert {record["provenance"]["parallel_runs"] for record in records} == {3}
    assert "/a/place" not in json.dumps(records)
    assert sorted(done for _, _, done in received) == list(range(1, 9))
    assert {key_of(record) for record in records} == {run.key() for run in RUNS}
    assert len(records) == 8


@pytest.mark.skipif(len(shares_of_cores(2)) < 2, reason="needs two cores and a system that can assign them")
def test_runs_at_the_same_time_have_cores_of_their_own(tmp_path, pretend):
    own = os.sched_getaffinity(0)
    taken: dict[str, set[frozenset[int]]] = {}

    def answer(wanted):
        taken.setdefault(threading.current_thread().name, set()).add(frozenset(os.sched_getaffinity(0)))
        time.sleep(0.05)
        return 0

    pretend(answer)
    _, records = performed(tmp_path, parallel_runs=2)
    one, other = (next(iter(shares)) for shares in taken.values() if len(shares) == 1)
    assert one | other == own
    assert not one & other
    assert all(1 <= record["provenance"]["cores"] <= max(len(one), len(other)) for record in records)
    assert os.sched_getaffinity(0) == own, "this process keeps its cores"


def test_an_interrupt_stops_the_grid_and_keeps_what_is_done(tmp_path, pretend):
    processes = pretend()
    received = []

    def interrupted(*ended):
        received.append(ended)
        if len(received) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(RUNS, GridOptions(tmp_path, None, 60.0), interrupted)
    assert 3 <= len(finished(tmp_path)) < len(RUNS), "those that had begun may end"
    assert len(processes.started) == len(finished(tmp_path))


@pytest.mark.parametrize("code", [130, -signal.SIGINT])
def test_a_run_that_was_interrupted_leaves_no_record(tmp_path, pretend, code):
    """Ctrl-C goes to the processes of the grid, too."""
    pretend(lambda wanted: code if "lace" in wanted else 0)
    with pytest.raises(KeyboardInterrupt):
        performed(tmp_path)
    assert {each["status"] for each in read(tmp_path)} <= {"done"}


def test_the_command_of_a_run_says_all_that_makes_it():
    wanted = Evaluation("induction", "dblp", "glace", 3, hidden_share=0.5)
    place = GridOptions(Path("out"), Path("data"), 60.0)
    assert command(wanted, place) == [
        "evaluate", "induction", "dblp", "--method", "glace", "--seed", "3", "--hidden-share", "0.5",
        "--data-dir", "data",
    ]  # fmt: skip
    drawn = replace(wanted, protocol="graph2gauss")
    assert command(drawn, place)[-4:] == ["--protocol", "graph2gauss", "--data-dir", "data"]
    wanted = Evaluation("link-prediction", "dblp", "lace", split=Path("some/split.npz"))
    assert command(wanted, GridOptions(Path("out"), None, 60.0))[-2:] == ["--split", "some/split.npz"]


def test_a_folder_cannot_be_a_file(tmp_path):
    (tmp_path / "taken").write_text("")
    check_folder(tmp_path)
    check_folder(tmp_path / "new")
    with pytest.raises(InputError, match="taken is a file; name a folder for records and report"):
        check_folder(tmp_path / "taken")


# Real processes


def test_a_run_that_takes_too_long_is_stopped(tmp_path):
    began = time.monotonic()
    _, (record,) = performed(tmp_path, RUNS[:1], limit_seconds=0.2)
    assert (record["status"], record["reason"]) == ("timeout", "not finished within 5.55556e-05 h")
    assert time.monotonic() - began < 5


def test_a_killed_grid_goes_on_where_it_was(tmp_path):
    """kill -9 after the first record, half a line at the end of the file; then the same command again."""
    data, folder = tmp_path / "data", tmp_path / "results"
    data.mkdir()
    glace.write_npz(glace.datasets.planted(80, communities=4, attributes=40, words=8), data / "cora_ml.npz")
    command = [
        sys.executable, "-m", "glace", "reproduce", "table-2", "--datasets", "cora-ml", "--methods",
        "attributes", "--seeds", "2", "--data-dir", str(data), "-o", str(folder), "--quiet",
    ]  # fmt: skip
    killed = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (folder / RECORDS).exists() or b"\n" not in (folder / RECORDS).read_bytes():
        assert killed.poll() is None, "the grid ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    before = (folder / RECORDS).read_bytes()
    with (folder / RECORDS).open("ab") as file:
        file.write(before[:20])
    subprocess.run(command, check=True)
    after = (folder / RECORDS).read_bytes()
    assert after.startswith(before), "nothing finished is touched"
    records = [json.loads(line) for line in after.splitlines()]
    assert [(each["seed"], each["status"]) for each in records] == [(0, "done"), (1, "done")]
    assert "cora-ml" in (folder / "report.md").read_text(encoding="utf-8").lower()
    assert {path.name for path in folder.iterdir()} <= {RECORDS, "report.md", "report.html", "plots"}
