"""Every benchmark runs at a tiny size, and what it compares is comparable."""

import itertools
import json

import numpy as np
import pytest
import torch
import typer

from benchmarks import (
    before_after,
    bounds,
    certainty,
    common,
    containers,
    no_loss,
    novelty,
    ranking,
    ranking_graphs,
    ranks,
    ranks_model,
    reference,
    scaling,
    search,
    serving,
    stages,
    step_cost,
    time_to_quality,
    types,
    update,
    variance,
)
from benchmarks.yardstick import Yardstick, symmetric_kl
from glace import datasets
from glace.config.config import Config
from glace.estimators import GLACE, PublishedGLACE
from glace.experiments.splits import split_edges
from glace.fitted.state import embed_all
from glace.gaussian.dissimilarity import Gaussian, named
from glace.model.layers import VARIANCE_FLOOR
from glace.model.network import using_threads
from glace.rng import Streams
from glace.training.train import INITIAL
from tests.conftest import batch_loss, small


@pytest.fixture(autouse=True)
def modest(monkeypatch):
    """No benchmark of a large machine in a test: small arrays, and measurements in this process."""
    monkeypatch.setattr(bounds, "PRODUCT", 64)
    monkeypatch.setattr(bounds, "REPEATS", 1)


@pytest.fixture
def here(monkeypatch):
    """In place of a child process, which takes seconds to start."""
    functions = {
        f"benchmarks.{each.__module__.rpartition('.')[2]}:{each.__name__}": each
        for each in (
            reference.learned,
            scaling.trained,
            scaling.drawn_to_disk,
            scaling.fitted,
            ranking.measure,
            ranking.proposed,
        )
    }

    def in_child(function, limit_seconds=None, **arguments):
        result = functions[function](**arguments) | {"peak_mb": common.memory_mb("VmHWM")}
        return json.loads(json.dumps(result))

    for module in (reference, scaling, ranking):
        monkeypatch.setattr(module, "in_child", in_child)
    return in_child


def records(folder, question):
    lines = (folder / f"{question}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def same_weights(yardstick, network):
    """Our network with the yardstick's weights."""
    encoder = network.branches[0].encoder("first")
    encoder.input.own[0].weight.data = yardstick.source.data.clone()
    halves = [getattr(yardstick, name).weight.data.T for name in ("mean", "variance")]
    encoder.heads[0].weight.data = torch.cat(halves, 1).contiguous()


def test_the_yardstick_has_our_loss_on_the_same_batch(planted):
    yardstick = Yardstick(planted, hidden=32, dim=8, floor=VARIANCE_FLOOR)
    model = PublishedGLACE(proximity="first", **small(offset=0.0, negative_sampling="independent"))
    trainer = stages.trainer_of(planted, model)
    same_weights(yardstick, trainer.network)
    batch = yardstick.sampler.batch(0)
    assert batch.allowed.all()
    nodes, places = batch.distinct()
    rows = trainer.inputs.rows(nodes)
    ours = batch_loss(trainer.network, rows, places, 5)
    assert yardstick.loss(batch).item() == pytest.approx(ours.item(), rel=1e-5)


def test_the_yardstick_learns(planted):
    yardstick = Yardstick(planted, hidden=32, dim=8)
    with using_threads(1):
        losses = [yardstick.step(number) for number in range(300)]
    assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:20])


def test_the_yardstick_has_our_dissimilarity():
    generator = torch.Generator().manual_seed(0)
    first, second = (
        Gaussian(torch.randn(20, 5, generator=generator), 0.1 + torch.rand(20, 5, generator=generator))
        for _ in range(2)
    )
    ours = named("symmetric_kl").direct(first, second)
    torch.testing.assert_close(symmetric_kl(first, second), ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [GLACE, PublishedGLACE], ids=lambda each: each.method)
def test_staged_steps_are_those_of_training(planted, model):
    options = small(max_steps=4, lr_schedule="constant", proximity="first", neighbor_features="mean", dropout=0.3)
    trainer, taking = (stages.trainer_of(planted, model(**options)) for _ in range(2))
    steps = stages.staged(taking)
    taken = [steps.step(number) for number in range(4)]
    trainer.run()
    assert taken[-1].loss == trainer.history.loss
    np.testing.assert_array_equal(
        taking.network.weights()["branches.0.encoders.first.input.own.0.weight"],
        trainer.network.weights()["branches.0.encoders.first.input.own.0.weight"],
    )
    assert all(seconds > 0 for seconds in taken[0].seconds.values())


def test_a_child_tells_its_own_peak_of_memory():
    ballast = np.ones(50_000_000)  # 400 MB that are the parent's
    found = common.in_child("benchmarks.common:nothing")
    assert 1 < found["peak_mb"] < common.memory_mb("VmRSS") - ballast.nbytes / 1e6 / 2


def test_reference(tmp_path, here, capsys):
    reference.main(
        scale=0,
        hidden=32,
        planted_edges=[1024, 2048],
        edges=[1024],
        dataset="wordnet-nouns",
        rounds=1,
        results=tmp_path,
    )
    found = records(tmp_path, "reference")
    assert [each["asked"] for each in found] == ["speed", *["learning"] * 4]
    for each in found[1:]:
        drawn = [1024, 2048] if each["name"] == "planted" else [1024]
        assert [point["edges"] for point in each["points"]] == drawn
        assert all(0.4 < point["auc"] <= 1 and point["seconds"] > 0 for point in each["points"])
    assert "edges/s" in capsys.readouterr().out
    assert found[0]["provenance"]["versions"]


def test_no_loss(tmp_path, capsys):
    no_loss.main(dataset=["planted"], option="max_steps=20 hidden=32", seeds=2, results=tmp_path)
    found = records(tmp_path, "no_loss")
    assert [(each["path"], each["random_state"]) for each in found] == [
        ("plain", 0),
        ("fast", 0),
        ("plain", 1),
        ("fast", 1),
    ]
    assert all(0.5 < each["auc"] < 1 for each in found)
    assert "±" in capsys.readouterr().out


def test_variance(tmp_path, capsys):
    variance.main(dataset=["planted"], option="max_steps=20 hidden=32", seeds=2, results=tmp_path)
    found = records(tmp_path, "variance")
    assert [each["way"] for each in found] == [*variance.WAYS] * 2
    assert all(0.5 < each["auc"] < 1 for each in found)
    assert len({each["auc"] for each in found}) == len(found), "the ways differ"
    assert "held at 1" in capsys.readouterr().out


def test_a_variance_that_is_held_stays_while_means_move(planted):
    split = split_edges(planted, Streams(0).numpy("split"))
    options = {**INITIAL, "neighbor_features": "none", "max_steps": 30, "dim": 8, "hidden": 16}
    trainer = no_loss.trainer_of("fast", split, Config.of(options))
    variance.hold_variance(trainer.network)
    before, _ = embed_all(trainer.network, trainer.inputs, np.empty)
    after = no_loss.embedding_of(trainer, split)
    assert before.variance is not None
    assert after.variance is not None
    assert (before.variance == np.float32(1 + VARIANCE_FLOOR)).all()
    assert (after.variance == np.float32(1 + VARIANCE_FLOOR)).all()
    assert not np.isclose(before.mean, after.mean).any(axis=1).all()


def test_the_plain_path_moves_weights_that_no_batch_touched(planted):
    split = split_edges(planted, Streams(0).numpy("split"))
    options = {
        **INITIAL,
        "neighbor_features": "none",
        "batch_size": 4,
        "negative_pool_size": 2,
        "max_steps": 3,
        "dim": 8,
        "hidden": 16,
    }
    moved = {}
    for path in no_loss.PATHS:
        trainer = no_loss.trainer_of(path, split, Config.of(options))
        rows = [trainer.network.weights()["branches.0.encoders.first.input.own.0.weight"].copy()]
        for _ in range(3):
            trainer._steps(1)
            rows.append(trainer.network.weights()["branches.0.encoders.first.input.own.0.weight"].copy())
        steps = [(after != before).any(axis=1) for before, after in itertools.pairwise(rows)]
        moved[path] = steps[0] & ~steps[1] & ~steps[2]
    assert moved["fast"].any(), "a row rests that only the first batch touched"
    assert not moved["plain"].any()


def test_step_cost(tmp_path, capsys):
    step_cost.main(scale=0, batch_size=[64, 128], hidden=[16], n_jobs=[1], rounds=1, results=tmp_path)
    found = [each for each in records(tmp_path, "step_cost") if each["asked"] == "steps"]
    assert [(each["batch_size"], each["n_jobs"]) for each in found] == [(64, 1), (128, 1)]
    for each in found:
        assert set(each["seconds"]) == set(each["bounds"]) == set(stages.STAGES)
        assert each["edges_per_second"] == pytest.approx(each["batch_size"] / sum(each["seconds"].values()))
        assert each["sizes"]["columns"] <= each["sizes"]["non_zeros"]
    assert "of the bound" in capsys.readouterr().out


def test_the_sizes_of_a_step_are_those_of_its_batch(planted):
    trainer = stages.trainer_of(planted, GLACE(**small()))
    sizes = stages.staged(trainer).step(0).sizes
    nodes, _ = trainer.sampler.batch(0).distinct()
    rows = planted.features()[nodes]
    assert (sizes.rows, sizes.non_zeros) == (len(nodes), rows.nnz)
    assert sizes.columns == len(np.unique(rows.indices))


def test_a_bound_is_the_slower_of_operations_and_traffic():
    machine = bounds.Machine(operations=100.0, sizes=[10, 1000], read=[5.0, 20.0], update=[40.0, 10.0])
    assert machine.seconds(bounds.Cost(operations=1000, read=0, within=1, updated=0)) == 10
    assert machine.seconds(bounds.Cost(operations=0, read=100, within=1000, updated=0)) == 5
    # A small array is no slower than a large one, even where it was measured so.
    assert machine.seconds(bounds.Cost(operations=0, read=100, within=10, updated=0)) == 5
    assert machine.seconds(bounds.Cost(operations=0, read=100, within=10, updated=10)) == 5.25


def test_scaling(tmp_path, here):
    scaling.main(edges=[5_000, 10_000], batch_size=64, steps=2, rounds=1, results=tmp_path)
    found = records(tmp_path, "scaling")
    assert [each["edges"] for each in found] == [5_000, 10_000]
    assert [each["nodes"] for each in found] == [1_000, 2_000]


def test_scaling_on_disk(tmp_path, here):
    scaling.main(
        edges=[10_000, 20_000], batch_size=64, drawn=640, attributes=1_000, folder=tmp_path / "graphs", results=tmp_path
    )
    found = records(tmp_path, "scaling")
    assert [each["edges"] for each in found] == [10_000, 20_000]
    assert all(each["auc"] > 0.5 and each["own_mb"] > 50 and each["seconds"] > 0 for each in found)
    assert len(list((tmp_path / "graphs").iterdir())) == 2


def test_search(tmp_path):
    search.main(nodes=2_000, dim=8, queries=50, rounds=1, results=tmp_path)
    (found,) = records(tmp_path, "search")
    assert found["same_answers"]
    assert set(found["seconds"]) == {f"{way} at once" for way in ("direct formula, 1", "glace, 1", "glace, 50")}


def test_search_by_an_index(tmp_path):
    pytest.importorskip("faiss", reason="approximate search needs faiss: pip install '.[search]'")
    search.main(nodes=1_000, dim=8, queries=20, approximate=[20, 1000], rounds=1, results=tmp_path)
    _, few, all_of_them = records(tmp_path, "search")
    assert few["recall"] <= all_of_them["recall"] == 1


def test_certainty(tmp_path):
    certainty.main(dataset=["planted"], steps=20, scale=0, results=tmp_path)
    (found,) = records(tmp_path, "certainty")
    assert found["less certain without all attributes"] > 0.9
    assert 0 <= found["gap by tenths of nodes"] <= 1
    assert found["coverage, 0.9 wanted"] > 0.7
    assert 0 <= found["gap by tenths of candidates"] <= 1


def test_novelty(tmp_path):
    novelty.main(dataset=["planted", "measured"], steps=20, scale=0, results=tmp_path)
    found = {each["kind"]: each for each in records(tmp_path, "novelty")}
    assert set(found) == {"random attributes", "shuffled attributes", "exchanged values", "larger values"}
    assert found["larger values"]["AUROC by novelty"] > 0.9
    assert all(0 <= each["warned of"] <= 1 for each in found.values())


def test_update(tmp_path):
    update.main(dataset="planted", drift_penalty=[1.0], seeds=1, steps=20, scale=0, results=tmp_path)
    anew, updated = records(tmp_path, "update")
    assert (anew["way"], updated["way"]) == ("new fit", "updated, drift penalty 1")
    assert updated["kept"] > 0.2


def test_types(tmp_path, monkeypatch):
    graph = datasets.load("wordnet-kinds")
    part = graph.take(np.random.default_rng(0).permutation(graph.num_nodes)[:1500])
    monkeypatch.setattr(types, "load", lambda name: part)
    types.main(dim=2, seeds=1, steps=2, n_jobs=1, auto=True, results=tmp_path)
    found = records(tmp_path, "types")
    assert [each["treatment"] for each in found[:2]] == [types.TYPED, types.AUTO]
    assert {each["hidden"] for each in found[2:]} == {"thing", "kind"}
    joined = types.one_vocabulary(graph)
    assert joined.num_attributes < graph.num_attributes
    assert joined.features().sum() == pytest.approx(graph.features().sum(), rel=1e-5)


def test_serving(tmp_path):
    pytest.importorskip("fastapi", reason="the server needs fastapi: pip install '.[serve]'")
    GLACE(**small(max_steps=3)).fit(datasets.planted(200)).save(tmp_path / "m.glace")
    serving.main(tmp_path / "m.glace", requests=40, clients=4, workers=[1], results=tmp_path)
    (found,) = records(tmp_path, "serving")
    assert (found["faults"], found["refused"], found["wrong"]) == (0, 0, 0)


def test_time_to_quality(tmp_path, monkeypatch):
    monkeypatch.setattr(time_to_quality, "LOOK_EVERY", 10)
    monkeypatch.setattr(time_to_quality, "PATIENCE", 1)
    ways = ["yardstick", *(f"{name} max_steps=20 validate_every=10 hidden=32" for name in ("graph2gauss", "lace"))]
    time_to_quality.main(dataset=["planted"], way=ways, scale=0, rounds=1, results=tmp_path)
    found = records(tmp_path, "time_to_quality")
    assert [each["way"] for each in found] == ways
    for each in found:
        times, aucs = zip(*each["curve"], strict=True)
        assert list(times) == sorted(times)
        assert each["validation_auc"] == max(aucs)
        assert times[-1] <= each["seconds"]


def test_seconds_to_a_goal():
    runs = [{"curve": [(1.0, 0.5), (2.0, 0.9)]}, {"curve": [(1.5, 0.9)]}]
    assert time_to_quality.seconds_to(runs, 0.8) == 1.5
    assert time_to_quality.seconds_to(runs, 0.95) is None


SMALL_GRAPHS = {
    ranking.POPULARITY: lambda: ranking_graphs.popularity_graph(300),
    ranking.RATED: lambda: ranking_graphs.user_item_graph(60, 90, 2_000),
}
QUICK = "max_steps=20 hidden=16 dim=4 ensemble_size=1 validation_fraction=0.1"


@pytest.fixture
def small_graphs(monkeypatch):
    for name, made in SMALL_GRAPHS.items():
        monkeypatch.setitem(ranking.MADE, name, made)
    monkeypatch.setattr(ranking, "edge_probabilities", lambda: ranking_graphs.edge_probabilities(300))


def test_ranking(tmp_path, here, small_graphs, capsys):
    graphs = ",".join(SMALL_GRAPHS)
    ranking.main(graphs=graphs, methods="glace,degree,attributes", seeds=2, again="", option=QUICK, results=tmp_path)
    found = records(tmp_path, "ranking")
    assert len(found) == 2 * 2 * 3 + 2
    failed = {each["method"]: each["failed"] for each in found if each["failed"] is not None}
    assert not failed
    ours = [each for each in found if each["method"] == "glace"]
    assert all(list(each["rows"]) == ["glace", "glace + link model"] for each in ours)
    for each in ours:
        assert 0 < each["seconds"]["link model"] < each["seconds"]["fit"]
        whole = each["calibration"]["all"]
        assert whole["found"] == round(sum(bin[2] * bin[4] for bin in whole["bins"]))
        assert whole["links"] == sum(bin[2] for bin in whole["bins"]) > 0
    best = [each["rows"]["best order"]["mrr"] for each in found if each["method"] == ranking.BEST]
    popular = [
        each["rows"]["degree"]["mrr"]
        for each in found
        if each["method"] == "degree" and each["graph"] == ranking.POPULARITY
    ]
    assert min(best) > max(popular)
    shown = capsys.readouterr().out
    assert "precision@1000" in shown
    assert "±" in shown
    assert "found / said" in shown
    assert "links peak MB" in shown


def test_ranking_goes_on_where_it_stopped(tmp_path, here, small_graphs, monkeypatch, capsys):
    wanted = {"graphs": ranking.POPULARITY, "seeds": 1, "option": "", "results": tmp_path}
    ranking.main(methods="degree", again="", **wanted)
    assert len(records(tmp_path, "ranking")) == 2

    def failing(function, limit_seconds=None, **arguments):
        if arguments["method"] == "3-paths":
            raise RuntimeError("measure ended with 1:\nno memory")
        return here(function, limit_seconds, **arguments)

    monkeypatch.setattr(ranking, "in_child", failing)
    ranking.main(methods="degree,3-paths", again="", **wanted)
    assert [each["method"] for each in records(tmp_path, "ranking")[2:]] == ["3-paths"]
    shown = capsys.readouterr().out
    assert "planted-popularity, seed 0, 3-paths: no memory" in shown
    assert "degree" in shown
    monkeypatch.setattr(ranking, "in_child", here)
    ranking.main(methods="degree,3-paths", again="degree", **wanted)
    assert [each["method"] for each in records(tmp_path, "ranking")[3:]] == ["degree", "3-paths"]
    monkeypatch.setitem(ranking.MADE, ranking.POPULARITY, lambda: ranking_graphs.popularity_graph(300, 13))
    ranking.main(methods="degree", again="", **wanted)
    assert len(records(tmp_path, "ranking")) == 7, "another graph of the same name, and its best order"
    with pytest.raises(typer.BadParameter, match="there is no method 'guess'; choose from"):
        ranking.main(methods="guess", again="", **wanted)


def test_a_user_rates_what_is_popular_and_to_their_taste():
    graph = ranking_graphs.user_item_graph(60, 90, 2_000)
    assert graph.node_types is not None
    assert set(graph.adjacency.data.tolist()) <= {1, 2, 3, 4, 5}
    edges = graph.edges()
    assert ((edges[:, 0] < 60) & (edges[:, 1] >= 60)).all()
    assert np.diff(graph.adjacency.indptr)[:60].min() >= 20


def test_a_probability_is_compared_with_what_was_found():
    found = ranking.calibration(np.array([0.9, 0.85, 0.1]), np.array([True, False, False]))
    assert (found["links"], found["said"], found["found"]) == (3, pytest.approx(1.85), 1)
    row = ranking._calibration_row([found, found])
    assert row == ["0.00 (2)", "", "", "", "0.50 (4)", "4", 2, "0.54"]


def test_turns_alternate():
    assert list(common.in_turn(["a", "b"], 2, "")) == ["a", "b", "a", "b"]


def test_containers_of_the_same_values_are_learned_alike(tmp_path, capsys):
    containers.main(["measured"], seeds=1, steps=3, results=tmp_path)
    assert "AUC of hidden nodes" in capsys.readouterr().out
    records = [json.loads(line) for line in (tmp_path / "containers.jsonl").read_text().splitlines()]
    scores = [(each["link-prediction_auc"], each["induction_auc"]) for each in records]
    assert [each["container"] for each in records] == ["sparse", "dense"]
    assert scores[0] == scores[1]


def test_two_versions_take_turns(tmp_path, capsys):
    """The same version against itself: the same bits, in processes of their own."""
    option = json.dumps({"max_steps": 3, "dim": 8, "hidden": 16, "n_jobs": 1})
    root = common.FOLDER.parent
    before_after.main(root, "wordnet-nouns", rounds=1, option=option, results=tmp_path)
    first, second = records(tmp_path, "before_after")
    assert (first["side"], second["side"]) == ("before", "after")
    assert first["auc"] == second["auc"]
    assert first["steps"] == 3
    assert first["processor"] > 0
    assert "wordnet-nouns" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="there is no dataset"):
        before_after.fit(root, "nothing", 0, "", option)


def test_loops_keep_cores_busy_until_they_are_ended():
    with before_after.endless_loops(2) as loops:
        assert [each.poll() for each in loops] == [None, None]
    assert all(each.returncode is not None for each in loops)


def test_more_machines_are_predicted_to_be_faster_by_what_they_exchange(tmp_path):
    costs = ranks_model.Costs(prepare=0.01, member=0.04, exchange=0.02, weights=125e6)
    assert ranks_model.step_seconds(costs, 1, 1) == pytest.approx((0.17, 1))
    assert ranks_model.step_seconds(costs, 4, 1) == pytest.approx((0.05, 1))
    # Two ranks per member: 125 MB every 50 steps, from both ranks of a machine, at 125 MB/s.
    assert ranks_model.step_seconds(costs, 8, 1) == pytest.approx((0.05 + 0.04, 2))
    assert ranks_model.step_seconds(costs, 8, 0) == pytest.approx((0.05 + 0.02, 2))
    ranks_model.main(picture=tmp_path / "model.png", results=tmp_path)
    assert (tmp_path / "model.png").stat().st_size > 1000


def test_one_rank_is_measured_by_its_steps():
    found = ranks.trained("planted", 0.004, None, ranks.options_of("auto", 20) | {"hidden": 32, "dim": 8})
    assert found["batches"] == 20
    assert found["edges_per_second"] == pytest.approx(512 / found["step_seconds"])
    assert found["test_auc"] > 0.5
