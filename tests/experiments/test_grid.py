"""The paper's tables and figures as lists of runs: how many, in which order, told apart by what."""

from pathlib import Path

import pytest

from glace.datasets import names as dataset_names
from glace.errors import InputError
from glace.experiments.record_file import key_of
from glace.experiments.run import CITATIONS, EXPERIMENTS, LARGER, Run, runs
from glace.experiments.tasks import METHODS, SPLITTING, TASKS, Evaluation

SPLIT = Path("somewhere/given.npz")


def test_every_experiment_is_made_of_known_things():
    for experiment in EXPERIMENTS.values():
        assert experiment.task in TASKS
        assert set(experiment.methods) <= set(METHODS)
        assert set(experiment.datasets) <= set(dataset_names())
        assert experiment.seeds >= 1
    assert {experiment.task for experiment in EXPERIMENTS.values()} == set(TASKS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_has_a_run_for_each_of_what_it_is_made_of(name):
    experiment, found = EXPERIMENTS[name], runs([name])
    parts = (experiment.datasets, experiment.methods, experiment.hidden_shares, range(experiment.seeds))
    count = 1
    for part in parts:
        count *= len(part)
    assert len(found) == len({run.key() for run in found}) == count
    assert {run.evaluation.task for run in found} == {experiment.task}


def test_table_2_is_every_method_on_every_graph():
    found = runs(["table-2"])
    assert len(found) == len(METHODS) * len((*CITATIONS, *LARGER)) * 3
    assert [run.evaluation.seed for run in found] == sorted(run.evaluation.seed for run in found), "seeds go last"


def test_table_3_hides_two_shares():
    assert {run.evaluation.hidden_share for run in runs(["table-3"])} == {0.1, 0.5}
    assert {run.evaluation.hidden_share for run in runs(["table-2"])} == {None}


def test_what_is_asked_for_takes_the_place_of_the_papers():
    found = runs(["table-2"], ["citeseer", "cora-ml"], ["line", "glace"], 2)
    wanted = [
        (dataset, method, seed)
        for seed in (0, 1)
        for dataset in ("citeseer", "cora-ml")
        for method in ("line", "glace")
    ]
    assert [(run.dataset, run.evaluation.method, run.evaluation.seed) for run in found] == wanted


def test_each_experiment_has_its_own_number_of_seeds_and_each_run_is_once():
    both = runs(["table-2", "figure-1"], ["dblp"], ["lace"])
    seeds = [(run.evaluation.task, run.evaluation.seed) for run in both]
    assert seeds == [
        ("link-prediction", 0), ("node-classification", 0), ("link-prediction", 1), ("link-prediction", 2)
    ]  # fmt: skip
    assert runs(["table-2", "table-2"], ["dblp"], ["lace"]) == runs(["table-2"], ["dblp"], ["lace"])
    assert runs(["table-2"], ["dblp", "dblp"], ["lace"]) == runs(["table-2"], ["dblp"], ["lace"])


def test_a_split_goes_with_the_tasks_that_hold_out_edges():
    found = runs(list(EXPERIMENTS), ["cora-ml"], ["glace"], 1, SPLIT)
    assert {run.evaluation.task for run in found if run.evaluation.split == SPLIT} == set(SPLITTING)
    assert {run.evaluation.task for run in found if run.evaluation.split is None} == set(TASKS) - set(SPLITTING)


def test_runs_are_told_apart_by_all_that_makes_them():
    plain = Run("dblp", Evaluation("link-prediction", "lace"))
    others = [
        Run("cora", plain.evaluation),
        Run("dblp", Evaluation("convergence", "lace")),
        Run("dblp", Evaluation("link-prediction", "glace")),
        Run("dblp", Evaluation("link-prediction", "lace", 1)),
        Run("dblp", Evaluation("link-prediction", "lace", split=SPLIT)),
        Run("dblp", Evaluation("link-prediction", "lace", hidden_share=0.1)),
    ]
    assert len({run.key() for run in (plain, *others)}) == 7


def test_a_record_has_the_key_of_its_run():
    run = Run("dblp", Evaluation("induction", "glace", 2, hidden_share=0.5))
    record = {"task": "induction", "dataset": "dblp", "method": "glace", "seed": 2, "hidden_share": 0.5, "auc": 1}
    assert key_of(record) == run.key()
    assert run.text() == "induction dblp glace, 50% hidden, seed 2"
    given = Run("dblp", Evaluation("link-prediction", "glace", split=SPLIT))
    assert given.key() == key_of(
        {"task": "link-prediction", "dataset": "dblp", "method": "glace", "seed": 0, "split": "given.npz"}
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["table-9"],), "there is no experiment 'table-9'; choose from table-2, .*, uncertainty"),
        ((["table-2"], None, ["gcn"]), "there is no method 'gcn'; choose from attributes, deepwalk, .*, glace"),
        ((["table-2"], None, None, 0), "the number of seeds must be at least 1, not 0"),
    ],
)
def test_unknown_names_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        runs(*arguments)
