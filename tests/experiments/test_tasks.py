"""Each task end to end on a small planted graph; what a record holds; the same split for every method."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glace
from glace.errors import InputError
from glace.experiments import tasks
from glace.experiments.baselines.method import RawAttributes
from glace.experiments.code_state import code_hashes
from glace.experiments.evaluation import benchmark_ranking as benchmark
from glace.experiments.evaluation.benchmark_ranking import BenchmarkRanking, benchmark_split
from glace.experiments.evaluation.classes import node_classification
from glace.experiments.evaluation.link_prediction import link_model_values
from glace.experiments.evaluation.rankers import HEURISTICS, link_model_scores
from glace.experiments.evaluation.ranking import FullRanking, full_ranking, hidden_tenth
from glace.experiments.methods import GAUSSIAN, METHODS, Learned, make
from glace.experiments.splits import split_edges
from glace.experiments.tasks import TASKS, Evaluation, check, evaluate, unsupported
from glace.model.network import using_threads

TINY = {"dim": 4, "hidden": 8, "batch_size": 64, "negative_pool_size": 32, "max_steps": 30, "validate_every": 10}
SETTLED = {"hidden_length": "free", "neighbor_features": "none", "neighbor_dropout": 0.0, "dropout": 0.0}
OPTIONS = {
    "attributes": {},
    "lace": TINY,
    "glace": TINY | SETTLED,
    "graph2gauss": {"dim": 4, "hidden": 8, "batch_size": 64, "max_steps": 20},
}
ALWAYS = {
    "kind", "task", "dataset", "method", "seed", "split", "hidden_share", "directed", "protocol", "status", "reason",
    "seconds", "peak_rss_mb", "options", "provenance",
}  # fmt: skip
LEARNED = {"steps", "best_step", "choice", "budget"}
OF_GLACE = {
    "link-prediction": {"auc_link_model", "ap_link_model"},
    "induction": {"auc_link_model", "ap_link_model"},
    "ranking": {f"{name}_link_model" for name in FullRanking._fields},
    "benchmark-ranking": {f"{name}_link_model" for name in BenchmarkRanking._fields},
}
OF_LEARNED = {
    "link-prediction": {"curve", "brier", "calibration_error", "reliability"},
    "uncertainty": {"without_least_certain", "without_least_certain_answers", "error_of_halves"},
}
BY_TASK = {
    "link-prediction": {"split", "auc", "ap", "validation_auc", "auc_without_context", "ap_without_context"},
    "node-classification": {"features", "micro_f1", "macro_f1", "micro_f1_trials", "macro_f1_trials"},
    "induction": {"hidden_share", "auc", "ap", "auc_without_context", "ap_without_context", "pairs", "edge_share"},
    "ranking": {"hidden_edges", *FullRanking._fields},
    "benchmark-ranking": {"hidden_edges", "hidden_share", *BenchmarkRanking._fields},
    "visualization": {"silhouette", "points", "classes", "class_names"},
    "uncertainty": {
        "split", "auc", "ap", "by_spread", "without_most_uncertain", "spread_correlation", "auc_without_dimensions",
        "droppable_share",
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    """Steps this small take longer with more."""
    with using_threads(1):
        yield


@pytest.fixture(autouse=True)
def few_trials(monkeypatch):
    """Of node classification; all of them are its own tests' matter."""
    whole = node_classification
    monkeypatch.setattr(
        tasks,
        "node_classification",
        lambda embedding, labels, streams: whole(embedding, labels, streams, (0.1, 0.5), 2),
    )


@pytest.fixture(scope="module")
def graph():
    return glace.datasets.planted(150, communities=3, degree=10, attributes=60, words=10)


def values(graph, task, method, **more):
    options: Any = more.pop("options") if "options" in more else OPTIONS[method]
    record = evaluate(graph, Evaluation(task, "planted", method, options=options, **more))
    found = json.loads(record.to_json())
    assert isinstance(found, dict)
    return found


def supported(task):
    return [method for method in OPTIONS if unsupported(task, method) is None]


@pytest.mark.parametrize(("task", "method"), [(task, method) for task in TASKS for method in supported(task)])
def test_a_record_has_the_fields_of_its_task(graph, task, method):
    found = values(graph, task, method, seed=3)
    cosine = {"auc_cosine", "ap_cosine"} if task == "link-prediction" and method not in GAUSSIAN else set()
    learned = LEARNED | OF_LEARNED.get(task, set()) if method in ("lace", "glace") else set()
    by_link_model = OF_GLACE.get(task, set()) if method in ("lace", "glace") else set()
    if not by_link_model & set(found):
        by_link_model = set()  # the link model is switched off where it is no better
    assert set(found) == ALWAYS | BY_TASK[task] | cosine | learned | by_link_model
    named = {"kind": "evaluation", "task": task, "dataset": "planted", "method": method, "seed": 3}
    assert {name: found[name] for name in named} == named
    assert (found["status"], found["reason"]) == ("done", None)
    assert found["seconds"] >= 0
    assert found["provenance"]["data"] == graph.fingerprint()
    assert found["provenance"]["code"] == code_hashes()
    if "auc" in found:
        assert 0.5 < found["auc"] <= 1
        assert 0.5 < found["ap"] <= 1


def test_scores_of_link_prediction_are_those_of_the_split(graph):
    found = values(graph, "link-prediction", "attributes", seed=1)
    split = split_edges(graph, glace.rng.Streams(1).numpy("split"))
    pairs, x = split.test.pairs(), graph.attributes.toarray()
    from sklearn.metrics import roc_auc_score

    near = (x[pairs[:, 0]] * x[pairs[:, 1]]).sum(axis=1)
    assert found["auc"] == pytest.approx(roc_auc_score(split.test.truth(), near))
    assert found["split"] == "random"


@pytest.mark.parametrize("method", ["adamic-adar", "attributes"])
def test_ranking_hides_the_same_edges_from_every_method(graph, monkeypatch, method):
    seen = []
    whole = full_ranking

    def heard(ranker, train, hidden):
        seen.append((train.fingerprint(), hidden.tobytes()))
        return whole(ranker, train, hidden)

    monkeypatch.setattr(tasks, "full_ranking", heard)
    found = values(graph, "ranking", method, seed=5, options=None)
    train, hidden = hidden_tenth(graph, glace.rng.Streams(5))
    assert seen == [(train.fingerprint(), hidden.edges.tobytes())]
    assert found["hidden_edges"] == len(hidden.edges) == round(0.1 * graph.num_edges)
    assert 0.02 < found["mrr"] < found["filtered_mrr"] < 1


def test_heuristics_rank_and_have_nothing_else(graph):
    for method in HEURISTICS:
        found = values(graph, "ranking", method, options=None)
        assert set(found) == ALWAYS | BY_TASK["ranking"]
        assert found["options"] == {}


def test_heuristics_rank_against_hard_negatives_too(graph):
    for method in HEURISTICS:
        found = values(graph, "benchmark-ranking", method, options=None)
        assert set(found) == ALWAYS | BY_TASK["benchmark-ranking"]
        assert 0 < found["mrr"] < 1


@pytest.mark.parametrize("method", ["adamic-adar", "attributes", "graph2gauss"])
def test_benchmark_ranking_asks_every_method_the_same_and_shows_it_no_test_edge(graph, monkeypatch, method):
    seen, trained = [], []
    whole, embed = benchmark.benchmark_ranking, tasks.TimedEmbed.__call__

    def heard(scores, test, negatives):
        seen.append((test.fingerprint(), negatives.tobytes()))
        return whole(scores, test, negatives)

    def shown(self, train, unseen=None, validation=None):
        trained.append((train, validation))
        return embed(self, train, unseen, validation)

    monkeypatch.setattr(tasks, "benchmark_ranking", heard)
    monkeypatch.setattr(tasks.TimedEmbed, "__call__", shown)
    found = values(graph, "benchmark-ranking", method, seed=5, hidden_share=0.2, options=OPTIONS.get(method))
    streams = glace.rng.Streams(5)
    split = benchmark_split(graph, streams.numpy("benchmark split"), 0.2)
    assert seen == [(split.test.fingerprint(), benchmark.hard_negatives(graph, split, streams).tobytes())]
    assert (found["hidden_share"], found["hidden_edges"]) == (0.2, len(split.test.edges))
    for train, validation in trained:
        assert not train.has_edges(split.test.edges).any()
        assert not train.has_edges(split.test.edges[:, ::-1]).any()
        assert validation.fingerprint() == split.validation.fingerprint()


@pytest.fixture(scope="module")
def larger():
    """Enough validation edges for a link model."""
    return glace.datasets.planted(500, communities=4, degree=16, attributes=80, words=10)


def test_the_link_model_is_a_row_of_its_own(larger):
    found = values(larger, "ranking", "glace", options=TINY | SETTLED | {"validation_fraction": 0.1})
    assert found["options"]["purpose"] == "links"
    assert found["mrr_link_model"] > found["mrr"], "untrained Gaussians, but short paths"
    assert found["hits_at_10_link_model"] > 1.5 * found["hits_at_10"]


def test_the_link_model_is_a_row_of_a_benchmark_too(larger):
    found = values(larger, "benchmark-ranking", "glace", options=TINY | SETTLED)
    assert found["options"]["purpose"] == "links"
    assert found["mrr_link_model"] > found["mrr"], "untrained Gaussians, but short paths"


def test_link_prediction_judges_the_gaussians_and_the_link_model(larger, monkeypatch):
    fitted = []
    whole = link_model_values

    def heard(model, held_out):
        fitted.append((model, held_out))
        return whole(model, held_out)

    monkeypatch.setattr(tasks, "link_model_values", heard)
    found = values(larger, "link-prediction", "glace")
    ((model, test),) = fitted
    from sklearn.metrics import roc_auc_score

    scores = link_model_scores(model, model.link_model, test.pairs())
    assert found["auc_link_model"] == pytest.approx(roc_auc_score(test.truth(), scores))
    near = -model.embedding.dissimilarities_at(test.pairs())
    assert found["auc"] == pytest.approx(roc_auc_score(test.truth(), near))
    assert model.score_positions(test.pairs()).probability[0] > 0


def test_every_method_has_the_same_split_and_no_test_edge(graph, monkeypatch):
    seen = []
    for name in ("__call__", "points"):
        whole = getattr(tasks.TimedEmbed, name)

        def heard(self, train, unseen=None, validation=None, whole=whole):
            seen.append((self.method.name, train.fingerprint(), validation.fingerprint()))
            return whole(self, train, unseen, validation)

        monkeypatch.setattr(tasks.TimedEmbed, name, heard)
    for method in OPTIONS:
        values(graph, "link-prediction", method)
    values(graph, "uncertainty", "glace")
    assert {method for method, *_ in seen} == set(OPTIONS)
    assert len({given[1:] for given in seen}) == 1
    before = set(seen)
    values(graph, "link-prediction", "attributes", seed=1)
    assert len(set(seen) - before) == 1, "another seed, another split"


def test_direction_is_judged_where_edges_have_one(monkeypatch):
    graph = glace.datasets.planted(150, communities=3, degree=10, attributes=60, words=10, directed=True)
    found = values(graph, "link-prediction", "glace")
    split = split_edges(graph, glace.rng.Streams(0).numpy("split"))
    edges = {tuple(pair) for pair in split.test.edges.tolist()}
    assert found["directed"]
    assert found["options"]["dissimilarity"] is None, "the default for directed graphs"
    assert found["one_way_edges"] == len([pair for pair in edges if pair[::-1] not in edges])
    assert 0 < found["auc_direction"] < 1
    assert values(graph, "link-prediction", "attributes")["auc_direction"] == 0.5, "a dot product is symmetric"
    both = graph.with_edges(np.concatenate([graph.edges(), graph.edges()[:, ::-1]]), np.ones(2 * graph.num_edges))
    assert "auc_direction" not in values(both, "link-prediction", "attributes")


def test_every_method_has_the_same_hidden_nodes(graph, monkeypatch):
    seen = []
    embed = tasks.TimedEmbed.__call__

    def heard(self, visible, unseen=None, validation=None):
        seen.append((visible.fingerprint(), getattr(unseen, "matrix", unseen).toarray().tobytes()))
        return embed(self, visible, unseen, validation)

    monkeypatch.setattr(tasks.TimedEmbed, "__call__", heard)
    found = [values(graph, "induction", method, hidden_share=0.5) for method in OPTIONS]
    assert len(set(seen)) == 1
    assert {(each["hidden_share"], each["pairs"]) for each in found} == {(0.5, found[0]["pairs"])}
    assert values(graph, "induction", "attributes")["hidden_share"] == 0.1


def test_induction_can_draw_its_pairs_as_graph2gauss_does(graph):
    ours, theirs = (
        values(graph, "induction", "attributes", hidden_share=0.3, protocol=protocol)
        for protocol in (None, "graph2gauss")
    )
    assert (ours["protocol"], theirs["protocol"]) == ("balanced", "graph2gauss")
    assert ours["edge_share"] == 0.5
    assert 0.25 < theirs["edge_share"] < 1 / 3
    assert theirs["ap"] < ours["ap"] - 0.05, "more non-edges can only cost precision"


def test_second_order_has_two_scores_and_other_methods_one(graph):
    first, second = (
        values(graph, "link-prediction", "lace", options=TINY | SETTLED | {"proximity": each})
        for each in ("first", "second")
    )
    assert (first["auc_without_context"], first["ap_without_context"]) == (first["auc"], first["ap"])
    assert second["auc_without_context"] != second["auc"]


@pytest.mark.parametrize("name", METHODS)
def test_a_classifier_sees_as_many_numbers_of_every_learned_method(name):
    method = check(Evaluation("node-classification", "dblp", name))
    if not isinstance(method, Learned):
        return
    config = method.estimator(**method.options).config()
    parts = (2 if config.model.proximity == "both" else 1) * (2 if name in GAUSSIAN else 1)
    assert config.model.dim * parts == 128
    given = check(Evaluation("node-classification", "dblp", name, options={"dim": 8}))
    assert isinstance(given, Learned)
    assert given.options["dim"] == 8


@pytest.mark.parametrize("method", ["lace", "glace"])
def test_the_numbers_that_a_classifier_sees_are_recorded(graph, method):
    options = TINY | SETTLED | {"proximity": "both"}
    assert values(graph, "node-classification", method, options=options)["features"] == (8 if method == "lace" else 16)


@pytest.mark.parametrize("ending", ["", "-first", "-second"])
def test_points_and_gaussians_as_published_differ_in_the_variance_only(ending):
    differ_in_points_alone(f"lace-published{ending}", f"glace-published{ending}")


@pytest.mark.parametrize("ending", ["", "-second"])
def test_points_and_gaussians_at_their_best_differ_in_the_variance_only(ending):
    differ_in_points_alone(f"lace{ending}", f"glace{ending}")


def differ_in_points_alone(points, gaussians):
    """All options are equal but the dimensions, which give a node as many numbers."""
    assert points not in GAUSSIAN
    assert gaussians in GAUSSIAN
    made = [make(name, {}) for name in (points, gaussians)]
    options = [each.estimator(**each.options).config().to_dict() for each in made if isinstance(each, Learned)]
    assert tuple(each.pop("dim") for each in options) == (128, 64)
    assert options[0] == options[1]


def test_raw_attributes_stay_sparse(graph, monkeypatch):
    monkeypatch.setattr(RawAttributes, "embed", None)
    scores = values(graph, "link-prediction", "attributes", options={"most_gigabytes": 1e-9})
    assert 0.5 < scores["auc"] < 1
    assert values(graph, "induction", "attributes")["auc"] > 0.5
    assert values(graph, "node-classification", "attributes")["features"] == 60


def test_budgets_are_recorded_as_used(graph):
    found = values(graph, "link-prediction", "lace")
    edges = 30 * TINY["batch_size"]
    train = split_edges(graph, glace.rng.Streams(0).numpy("split")).train
    assert found["budget"] == {"steps": 30, "edges": edges, "epochs": round(edges / (2 * train.num_edges), 2)}


def write_split(graph, path: Path, turned: int = 0):
    """A split of the graph as a file; so many of its test edges are training edges too, the other way round."""
    split = split_edges(graph, np.random.default_rng(0))
    train = np.concatenate([split.train.edges(), split.test.edges[:turned, ::-1]])
    members: dict[str, Any] = {"train_edges": train}
    for part, held_out in (("val", split.validation), ("test", split.test)):
        members |= {f"{part}_edges": held_out.pairs(), f"{part}_ground_truth": held_out.truth().astype(int)}
    np.savez(path, **members)
    return split


@pytest.mark.parametrize("task", ["link-prediction", "uncertainty"])
def test_a_given_split_is_named_and_used(graph, tmp_path, task):
    write_split(graph, tmp_path / "given.npz", turned=5)
    found = values(graph, task, "glace", split=tmp_path / "given.npz")
    assert found["split"] == "given.npz"
    if task == "link-prediction":
        assert found["reversed_edges"] == 5
        assert {"auc_without_reversed", "ap_without_reversed"} <= set(found)


def test_the_options_of_a_record_are_all_that_made_it(graph):
    found = values(graph, "link-prediction", "glace", seed=7, options=TINY)
    assert found["options"] | TINY == found["options"]
    assert found["options"]["random_state"] == 7
    open_still = [name for name, value in found["options"].items() if value == "auto"]
    assert open_still == ["sync"], (
        "what was left open is told as it was decided; one process has nothing to decide here"
    )
    assert found["options"] | found["choice"]["options"] == found["options"]
    assert found["choice"]["trials"] == [], "there are too few edges for trials"
    assert values(graph, "link-prediction", "attributes")["options"] == {"most_gigabytes": 4.0}


def test_the_same_seed_gives_the_same_figures(graph):
    first, again, other = (values(graph, "link-prediction", "glace", seed=seed) for seed in (0, 0, 1))
    assert (first["auc"], first["validation_auc"]) == (again["auc"], again["validation_auc"])
    assert first["auc"] != other["auc"]


def test_a_curve_rises_with_time(graph):
    curve = values(graph, "link-prediction", "glace", options=TINY)["curve"]
    assert len(curve) >= 2
    assert all(len(point) == 2 for point in curve)
    assert (np.diff(curve, axis=0) > 0)[:, 1].all()
    assert (np.diff(curve, axis=0) >= 0)[:, 0].all()


def test_classes_are_found_and_drawn(graph):
    found = values(graph, "node-classification", "glace")
    assert found["micro_f1"].keys() == {"0.1", "0.5"}
    assert found["micro_f1"]["0.5"] == pytest.approx(np.mean(found["micro_f1_trials"]["0.5"]))
    assert found["micro_f1"]["0.5"] > 0.5, "a blind guess has a third"
    drawn = values(graph, "visualization", "attributes")
    assert len(drawn["points"]) == len(drawn["classes"]) == 150
    assert drawn["class_names"] == ["0", "1", "2"]


# What cannot be done


def test_who_cannot_do_what():
    transductive = {name for name in METHODS if unsupported("induction", name)}
    assert {"deepwalk", "node2vec", "line", "line-first", "line-second"} <= transductive
    assert not transductive & {"attributes", "vgae", "graphsage", "graph2gauss", "lace", "glace-published", "glace"}
    assert [name for name in METHODS if not unsupported("uncertainty", name)] == list(GAUSSIAN)
    assert {"graph2gauss", "glace-published", "glace"} <= set(GAUSSIAN)
    assert "lace" not in GAUSSIAN
    reasons = [unsupported("induction", "node2vec"), unsupported("uncertainty", "lace")]
    assert reasons == [
        "node2vec uses only edges, so it cannot embed nodes outside of the training graph",
        "lace has points, which have no variance",
    ]
    assert all(unsupported(task, name) is None for task in ("link-prediction", "visualization") for name in METHODS)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Evaluation("guessing", "dblp", "lace"), "task must be one of link-prediction, .*, benchmark-ranking, not"),
        (
            Evaluation("induction", "dblp", "degree"),
            "degree ranks pairs .* embeds none; its task is ranking or benchmark",
        ),
        (Evaluation("ranking", "dblp", "degree", options={"dim": 3}), "degree has no options; leave them out"),
        (
            Evaluation("induction", "dblp", "gcn"),
            "method must be one of attributes, .* or, for ranking, adamic-adar, .*, not 'gcn'",
        ),
        (Evaluation("induction", "dblp", "line"), "line uses only edges"),
        (Evaluation("uncertainty", "dblp", "lace"), "lace has points, which have no variance"),
        (
            Evaluation("link-prediction", "dblp", "lace", options={"depth": 3}),
            "lace has no option 'depth'; it has dim, ",
        ),
        (
            Evaluation("link-prediction", "dblp", "lace", options={"dim": -1}),
            "dim must be a whole number of at least 1",
        ),
        (Evaluation("link-prediction", "dblp", "lace", seed=-1), "seed must be a whole number of at least 0, not -1"),
        (
            Evaluation("induction", "dblp", "lace", split=Path("x.npz")),
            "a split applies to link-prediction and uncertainty, not to induction; leave it out",
        ),
        (
            Evaluation("visualization", "dblp", "lace", hidden_share=0.1),
            "a hidden share applies to induction and benchmark-ranking, not to visualization; leave it out",
        ),
        (
            Evaluation("visualization", "dblp", "lace", protocol="balanced"),
            "a protocol applies to induction, not to visualization; leave it out",
        ),
        (
            Evaluation("induction", "dblp", "lace", protocol="fair"),
            "protocol must be one of balanced, graph2gauss, not 'fair'",
        ),
    ],
)
def test_what_is_wrong_is_said_before_a_graph_is_needed(wanted, message):
    with pytest.raises(InputError, match=message):
        check(wanted)


@pytest.mark.parametrize("task", ["node-classification", "visualization"])
def test_some_tasks_need_labels(graph, task):
    plain = dataclasses.replace(graph, labels=None)
    with pytest.raises(InputError, match="the task needs labels, but the graph has none; choose"):
        values(plain, task, "attributes")


def test_induction_needs_attributes_and_a_share(graph):
    with pytest.raises(InputError, match="embedded from its attributes, but the graph has none"):
        values(graph.without_attributes(), "induction", "lace")
    with pytest.raises(InputError, match="the share of nodes to hide must be above 0 and below 1, not 1.5"):
        values(graph, "induction", "lace", hidden_share=1.5)
