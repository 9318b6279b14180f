"""`glace reproduce` from a tiny dataset to its report, and what it says before it runs anything."""

import json
import re
import subprocess

import pytest

from glace.cli.main import run
from glace.datasets import download, planted
from glace.errors import InputError
from glace.experiments.methods import METHODS
from glace.experiments.report import write
from glace.io.npz import write_npz
from tests.experiments.test_run import Processes


@pytest.fixture
def data(folder):
    """A folder of datasets with a small cora-ml."""
    place = folder / "datasets"
    place.mkdir()
    write_npz(planted(80, communities=4, attributes=40, words=8), place / "cora_ml.npz")
    return place


@pytest.fixture
def refused(folder, capsys):
    """Run a command that must fail with one line and make no folder."""

    def fail(*arguments: str, match: str) -> str:
        capsys.readouterr()
        assert run(["reproduce", *arguments, "-o", "results"]) == 2
        said = str(capsys.readouterr().err)
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        assert re.search(match, said), said
        assert not (folder / "results").exists()
        return said

    return fail


def test_from_data_to_report(glace, data, folder):
    """One real run of a method that takes no training; the second time nothing is left to do."""
    command = [
        "reproduce", "table-2", "--datasets", "cora-ml", "--methods", "attributes", "--seeds", "1",
        "--data-dir", str(data), "-o", "results",
    ]  # fmt: skip
    shown = glace(*command)
    assert re.search(r"link-prediction cora-ml attributes, seed 0  AUC 0\.\d{4}  \(\d s\)", shown)
    results = folder / "results"
    records = [json.loads(line) for line in (results / "records.jsonl").read_text().splitlines()]
    assert [(each["task"], each["seed"]) for each in records] == [("link-prediction", 0)]
    assert re.match(r"1 run; the rest takes about \d+ min, by earlier runs of each kind on one core", shown)
    assert str(data) not in (results / "report.md").read_text(encoding="utf-8"), "datasets, not places"
    assert {each["status"] for each in records} == {"done"}
    for name in ("report.html", "report.md"):
        assert re.search(rf"wrote results/{name} \(", shown)
        assert f"{records[0]['auc'] * 100:.1f}" in (results / name).read_text(encoding="utf-8")
    before = (results / "records.jsonl").read_bytes()
    again = glace(*command)
    assert "seed 0" not in again
    assert "1 run, 1 of them done; the rest takes about 0 min" in again
    assert "wrote results/report.html" in again
    assert (results / "records.jsonl").read_bytes() == before


@pytest.fixture
def processes(monkeypatch):
    """Processes that only pretend to have run, and no report of what they pretend."""
    pretended = Processes(lambda wanted: 4 if "lace" in wanted else 0, "error: too large\n")
    monkeypatch.setattr(subprocess, "run", pretended)
    monkeypatch.setattr(write, "write_report", lambda folder: [])
    return pretended


def test_all_is_the_default_and_what_fails_is_said(glace, data, processes):
    common = ["--datasets", "cora-ml", "--seeds", "1", "--data-dir", str(data)]
    few = ["--methods", "attributes,lace , line"]
    shown = glace("reproduce", *few, *common, "-o", "first")
    assert glace("reproduce", "all", *few, *common, "-o", "second", "-q") == ""
    tasks = [wanted[1] for wanted in processes.started]
    half = len(tasks) // 2
    assert tasks[:half] == tasks[half:]
    assert "link-prediction cora-ml lace, seed 0  memory: too large" in shown
    assert "induction cora-ml line, 10% hidden, balanced, seed 0  unsupported: line uses only edges" in shown
    glace("reproduce", "table-2", *common, "-o", "third", "-q")
    others = {"glace-kl", "glace-symmetric-kl", "glace-as-coded"}
    assert {wanted[4] for wanted in processes.started[2 * half :]} == set(METHODS) - others
    assert "left out: authors-split, no file" in shown


def test_the_time_is_told_before_anything_runs(glace, data, processes, folder):
    (data / "cora_ml_split.npz").write_text("")
    common = ["--methods", "attributes", "--data-dir", str(data), "-o", "results", "--estimate"]
    shown = glace("reproduce", "table-2", "authors-split", "--datasets", "cora-ml", *common)
    assert re.match(r"4 runs; the rest takes about \d+ min, by earlier runs", shown)
    unknown = glace("reproduce", "table-2", "--datasets", "wordnet-nouns", *common)
    assert "3 runs; the rest takes about 0 min, and 3 runs of unknown length" in unknown
    assert processes.started == []
    assert not (folder / "results").exists()


def test_the_bundled_graph_is_always_at_hand(glace, processes):
    glace("reproduce", "table-2", "--datasets", "wordnet-nouns", "--methods", "attributes", "--seeds", "2", "-q")
    assert [wanted[2] for wanted in processes.started] == ["wordnet-nouns"] * 2


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["table-9"], "there is no experiment 'table-9'; choose from table-2, authors-split, table-3, "),
        (["--methods", ", "], "--methods must be names, separated by commas, not ', '; leave it out for all"),
        (["--methods", "lace,gcn"], "there is no method 'gcn'; choose from attributes, "),
        (["--datasets", "karate"], "no dataset 'karate'; choose from wordnet-nouns, "),
        (["--seeds", "0"], "the number of seeds must be at least 1, not 0"),
        (["--limit", "0"], "--limit must be a number of hours above 0, not 0"),
        (["--limit", "nan"], "--limit must be a number of hours above 0, not nan"),
        (["--limit", "inf"], "--limit must be a number of hours above 0, not inf"),
        (["--parallel-runs", "0"], "'--parallel-runs' must be greater than or equal to 1, not '0'"),
        (["authors-split"], "no file .*cora_ml_split.npz: the split of the edges"),
        (["table-2", "--datasets", "cora-ml", "--split", "s.npz"], "no file s.npz: the split of the edges"),
        (["table-2", "--split", "s.npz"], "--split applies to one dataset; name it with --datasets"),
        (["--datasets", "dblp,cora-ml", "--split", "s.npz"], "--split applies to one dataset"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(refused, data, arguments, match):
    refused(*arguments, "--data-dir", str(data), match=match)


@pytest.mark.parametrize(
    "other",
    [["table-2"], ["-o", "other"], ["--limit", "1"], ["--parallel-runs", "2"], ["--estimate"], ["--data-dir", "."]],
)
def test_a_report_is_drawn_again_and_nothing_else(folder, capsys, other):
    assert run(["reproduce", "--redraw", "results", *other]) == 2
    assert "--redraw draws what was measured; leave the other options out" in capsys.readouterr().err


def test_a_folder_below_a_file_is_refused_before_anything_is_fetched(data, folder, capsys, monkeypatch):
    monkeypatch.setattr("glace.datasets.get", lambda *_: pytest.fail("fetched"))
    command = ["reproduce", "table-2", "--datasets", "dblp", "--data-dir", str(data), "-o", "edges.csv/results"]
    assert run(command) == 2
    assert "edges.csv is a file; name a folder for records and report" in capsys.readouterr().err


def test_a_file_cannot_hold_the_results(data, folder, capsys):
    command = ["reproduce", "table-2", "--datasets", "cora-ml", "--data-dir", str(data), "-o", "edges.csv"]
    assert run(command) == 2
    assert "edges.csv is a file; name a folder for records and report" in capsys.readouterr().err


def test_missing_data_are_named_with_a_way_to_get_them(refused, data, monkeypatch):
    """All of them at once, before the first run."""

    def fail(url, target, **options):
        raise InputError(f"cannot reach {url}")

    monkeypatch.setattr(download, "download", fail)
    arguments = ["table-2", "--datasets", "cora-ml,dblp,wordnet,acm", "--data-dir", str(data)]
    said = refused(*arguments, match="3 of 4 datasets are missing and cannot be downloaded")
    assert re.search(r"dblp: cannot reach https://.*/dblp\.npz", said)
    assert "run 'glace datasets build wordnet'" in said
    assert "run 'glace datasets build acm --from FILE'" in said
    assert "cora-ml:" not in said
    assert "--data-dir" in said
    assert "--datasets wordnet-nouns" in said


def test_missing_data_are_fetched(glace, data, processes, monkeypatch):
    fetched = []

    def fetch(url, target, **options):
        fetched.append(url)
        write_npz(planted(80, communities=4, attributes=40, words=8), target)
        return target

    monkeypatch.setattr(download, "download", fetch)
    glace(
        "reproduce", "table-2", "--datasets", "cora-ml,dblp", "--methods", "attributes", "--seeds", "1",
        "--data-dir", str(data),
    )  # fmt: skip
    assert [url.rsplit("/", 1)[1] for url in fetched] == ["dblp.npz"]
    assert len(processes.started) == 2


def test_a_damaged_file_of_records_is_named(glace, data, processes, folder, capsys):
    (folder / "results").mkdir()
    (folder / "results" / "records.jsonl").write_text("oh\n")
    assert run(["reproduce", "table-2", "--datasets", "cora-ml", "--data-dir", str(data), "-o", "results"]) == 2
    assert re.search(r"records\.jsonl, line 1: not JSON .*; correct or delete that line", capsys.readouterr().err)
    assert processes.started == []
