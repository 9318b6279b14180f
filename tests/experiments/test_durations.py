"""Expected times of runs: the folder's own records first, then typical ones, then those of other methods."""

import json

import pytest

from glace.experiments import durations
from glace.experiments.durations import Durations, measured
from glace.experiments.record_file import RecordFile
from glace.experiments.tasks import Evaluation
from tools.durations import updated


def record(method, seconds, whole=None, **more):
    run = Evaluation("link-prediction", "dblp", method)
    provenance = {} if whole is None else {"wall_seconds": whole}
    return {"kind": "evaluation", **run.record(), "status": "done", "seconds": seconds, "provenance": provenance} | more


def test_the_mean_over_seeds_of_the_whole_process_or_of_the_embedding_and_the_rest():
    records = [record("lace", 1.0, 10.0), record("lace", 1.0, 20.0, seed=1), record("line", 7.0)]
    failed = record("line", 999.0, status="timeout")
    table = measured([*records, failed, {"kind": "fit"}])
    assert table == {"link-prediction": {"dblp": {"lace": 15.0, "line": 12.0}}}
    assert measured([record("lace", 7.0, task="node-classification")])["node-classification"]["dblp"]["lace"] == 27.0


def test_own_records_come_first_then_typical_ones_then_other_methods(tmp_path, monkeypatch):
    (tmp_path / "typical.json").write_text(json.dumps({"link-prediction": {"dblp": {"lace": 1.0, "vgae": 50.0}}}))
    monkeypatch.setattr(durations, "TYPICAL", tmp_path / "typical.json")
    RecordFile(tmp_path).append(record("lace", 1.0, 8.0))
    RecordFile(tmp_path).append(record("line", 1.0, 4.0))
    expected = Durations(tmp_path)
    of = {method: expected.of(Evaluation("link-prediction", "dblp", method)) for method in ("lace", "vgae", "glace")}
    assert of == {"lace": 8.0, "vgae": 50.0, "glace": 6.0}
    assert expected.of(Evaluation("benchmark-ranking", "dblp", "lace")) == 8.0, "about as long as link prediction"
    assert expected.of(Evaluation("link-prediction", "karate", "lace")) is None


def test_the_table_of_the_package_has_the_graphs_of_the_grid():
    table = durations.typical()["link-prediction"]
    assert {"cora-ml", "citeseer", "dblp", "pubmed", "wordnet", "debian"} <= set(table)
    assert all(seconds > 0 for methods in table.values() for seconds in methods.values())


@pytest.mark.parametrize("folder", ["nothing here"])
def test_a_folder_without_records_has_typical_times(tmp_path, folder):
    assert Durations(tmp_path / folder).of(Evaluation("link-prediction", "cora-ml", "vgae")) is not None


def test_new_times_replace_those_of_their_kind_and_no_others():
    before = {"link-prediction": {"dblp": {"lace": 1.0, "line": 2.0}}, "no longer a task": {"dblp": {"lace": 9.0}}}
    found = {"link-prediction": {"dblp": {"lace": 3.0}, "pubmed": {"lace": 4.0}}, "induction": {"dblp": {"lace": 5.0}}}
    assert updated(before, found) == {
        "link-prediction": {"dblp": {"lace": 3.0, "line": 2.0}, "pubmed": {"lace": 4.0}},
        "induction": {"dblp": {"lace": 5.0}},
    }
