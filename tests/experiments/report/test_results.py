"""Reading records: what counts, what is refused, and averages against plain arithmetic."""

import json
import statistics

import pytest

from glace.errors import InputError
from glace.experiments.report.results import grouped, mean_score, read_results
from tests.experiments.report.invented import certainty, cloud, links, record, write


def test_mean_and_deviation_over_seeds(tmp_path):
    values = [0.91, 0.95, 0.96]
    folder = write(tmp_path, [links(seed=seed, auc=auc) for seed, auc in enumerate(values)])
    found = mean_score(read_results(folder).runs, "auc")
    assert found is not None
    assert found.mean == pytest.approx(sum(values) / 3)
    assert found.deviation == pytest.approx(statistics.stdev(values))
    assert found.count == 3


def test_one_seed_has_no_deviation(tmp_path):
    found = mean_score(read_results(write(tmp_path, [links()])).runs, "auc")
    assert found is not None
    assert found.deviation is None


def test_runs_that_are_not_done_are_in_no_average(tmp_path):
    records = [links(auc=0.9), links(seed=1, auc=0.1, status="timeout", reason="5 hours")]
    found = mean_score(read_results(write(tmp_path, records)).runs, "auc")
    assert found is not None
    assert (found.mean, found.count) == (0.9, 1)


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        ({}, [0.8]),
        ({"seed": 1}, [0.9, 0.8]),
        ({"dataset": "acm"}, [0.9, 0.8]),
        ({"method": "lace"}, [0.9, 0.8]),
        ({"split": "given.npz"}, [0.9, 0.8]),
    ],
)
def test_a_later_record_replaces_an_earlier_one_of_the_same_thing(tmp_path, other, kept):
    results = read_results(write(tmp_path, [links(auc=0.9), links(auc=0.8, **other)]))
    assert [run.get("auc") for run in results.runs] == kept
    assert any("replaced" in notice for notice in results.notices) == (len(kept) == 1)


def test_shares_of_hidden_nodes_do_not_replace_each_other(tmp_path):
    records = [record("induction", hidden_share=share, auc=0.9, ap=0.9) for share in (0.1, 0.5)]
    assert len(read_results(write(tmp_path, records)).runs) == 2


def test_protocols_of_induction_do_not_replace_each_other(tmp_path):
    records = [record("induction", hidden_share=0.1, auc=0.9, ap=0.9, protocol=each) for each in (None, "graph2gauss")]
    assert len(read_results(write(tmp_path, records)).runs) == 2
    again = [record("induction", hidden_share=0.1, auc=0.9, ap=0.9, protocol=each) for each in (None, "balanced")]
    assert len(read_results(write(tmp_path, again)).runs) == 1


def test_runs_of_several_states_of_the_code_are_noted(tmp_path):
    assert read_results(write(tmp_path, [links(), links(seed=1)])).notices == ()
    code = links()["provenance"]["code"]
    other = links()["provenance"] | {"code": code | {"training": "9999"}}
    unknown = {name: value for name, value in links()["provenance"].items() if name != "code"}
    records = [links(), links(seed=1, provenance=other), links(seed=2, provenance=unknown)]
    assert read_results(write(tmp_path, records)).notices == (
        "The runs were made by 2 states of the code of training; numbers may differ for that reason.",
        "1 runs do not say which state of the code made them.",
    )


def test_a_failed_run_that_is_done_again_is_done(tmp_path):
    folder = write(tmp_path, [links(status="failed", reason="no power", auc=None), links()])
    assert [run.status for run in read_results(folder).runs] == ["done"]


@pytest.mark.parametrize("half", ['{"kind": "evalu', '{"kind": "evaluation", "method": "\u00e9'.encode()[:-1]])
def test_a_unfinished_last_line_is_ignored_with_a_notice(tmp_path, half):
    folder = write(tmp_path, [links()])
    with (folder / "records.jsonl").open("ab") as file:
        file.write(half if isinstance(half, bytes) else half.encode())
    results = read_results(folder)
    assert len(results.runs) == 1
    assert any("unfinished" in notice for notice in results.notices)


def test_a_last_line_without_its_end_counts_if_it_is_whole(tmp_path):
    results = read_results(write(tmp_path, [links(), links(seed=1)], ending=""))
    assert len(results.runs) == 2
    assert not results.notices


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"kind": ', "line 2: not JSON"),
        ("[1, 2]", "line 2: expected a JSON object, found list"),
        ('{"auc": NaN}', "line 2: NaN is not a number"),
        ("\udcff", "line 2: not UTF-8"),
        (json.dumps(links(auc=98.5)), "line 2: .*'auc': Input should be less than or equal to 1, not 98.5"),
        (json.dumps(links(auc=None)), "line 2: .*'auc': Input should be a valid number, not None"),
        (json.dumps(links(status="lost")), "line 2: .*'status': Input should be 'done', 'timeout', .*, not 'lost'"),
        (json.dumps(links() | {"seed": "a"}), "line 2: .*'seed': Input should be a valid integer, not 'a'"),
        (json.dumps(links(split=[1])), "line 2: .*'split': Input should be a valid string, not .1."),
        (json.dumps(links(options=3)), "line 2: .*'options': Input should be .* object, not 3"),
        (json.dumps(cloud("dblp", "glace", 1.0) | {"classes": [0]}), "line 2: .*not 1 for 90"),
        (
            json.dumps(record("node-classification", micro_f1_trials={"a": [1]})),
            "'micro_f1_trials.a.*': Input should be a valid number",
        ),
        (json.dumps(links(curve=[[1, 2, 3]])), r"'curve.0': Tuple should have at most 2 items"),
        (json.dumps(certainty("a", "b") | {"by_spread": {"tenth": [1], "auc": []}}), "line 2: .*equal length"),
        (
            json.dumps(certainty("a", "b") | {"droppable_share": {"x": "y"}}),
            "'droppable_share.x': Input should be a valid number",
        ),
    ],
)
def test_any_other_bad_line_is_named(tmp_path, line, message):
    text = "\n".join([json.dumps(links()), line, json.dumps(links(seed=1)), ""])
    (tmp_path / "records.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=message) as caught:
        read_results(tmp_path)
    assert "records.jsonl" in str(caught.value)
    assert "correct or delete" in str(caught.value)


def test_no_records_is_said(tmp_path):
    with pytest.raises(InputError, match="has no records.jsonl or records.jsonl.xz; run"):
        read_results(tmp_path)
    (tmp_path / "records.jsonl").write_text('{"kind": "fit"}\n')
    with pytest.raises(InputError, match="holds no evaluation; run `glace reproduce`"):
        read_results(tmp_path)


def test_other_kinds_and_tasks_are_counted(tmp_path):
    folder = write(tmp_path, [links(), {"kind": "fit"}, record("juggling")])
    assert "2 records of other kinds or tasks are not shown." in read_results(folder).notices


def test_methods_with_different_numbers_of_seeds_are_noted(tmp_path):
    equal = [links(seed=seed, method=method) for seed in (0, 1) for method in ("glace", "lace")]
    # A given split, or directed edges, are not compared with random splits.
    others = [links(split="given.npz"), links(directed=True), links(dataset="cora-ml")]
    assert read_results(write(tmp_path, [*equal, *others])).notices == ()
    more = [links(seed=2, method="glace"), links(seed=3, method="lace", status="timeout")]
    assert read_results(write(tmp_path, [*equal, *others, *more])).notices == (
        "Methods have different numbers of seeds, so their means are over different splits: link-prediction on dblp "
        "(2 or 3).",
    )


def test_averages_over_runs_that_are_not_alike_are_noted(tmp_path):
    other_data = links(seed=2)["provenance"] | {"data": "ffff"}
    # `later` is an option that was not there yet when the others ran.
    options = {"dim": 32, "dropout": 0.5, "later": 1}
    decided = {"options": options, "choice": {"options": {"dropout": 0.5}, "trials": []}}
    records = [links(), links(seed=1) | decided, links(seed=2, provenance=other_data)]
    notices = " ".join(read_results(write(tmp_path, records)).notices)
    assert "glace on dblp, link-prediction: the runs differ in dim." in notices
    assert "dblp: the runs are on different data" in notices
    stopped = {name: value for name, value in links(seed=3)["provenance"].items() if name != "data"}
    alike = [links(), links(seed=3, status="memory", provenance=stopped)]
    assert "different data" not in " ".join(read_results(write(tmp_path, alike)).notices)


def test_runs_are_grouped_by_seed(tmp_path):
    results = read_results(write(tmp_path, [links(seed=seed) for seed in (2, 0, 1)]))
    assert [run.seed for run in grouped(results.runs, lambda run: run.method)["glace"]] == [0, 1, 2]
