"""The loop: it learns, stops when it should, and says so when it cannot."""

from dataclasses import asdict

import numpy as np
import pytest
import torch

import glace
from glace.config.config import Config
from glace.errors import TrainingDiverged
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.fitted.state import History, Progress, ValidationPoint
from glace.graph.split import HeldOut
from glace.kernels.compile import threads
from glace.model.network import branch_loss, using_threads
from glace.training import loop
from glace.training.loop import Validation
from glace.training.train import TRAINING_END, training_task
from tests.conftest import small


def test_training_learns_and_untrained_does_not(planted):
    rest, held_out = glace.hold_out(planted, 0.15, np.random.default_rng(0))
    trained = link_prediction(glace.GLACE(**small(max_steps=300)).fit(rest).embedding_, held_out)
    untrained = link_prediction(glace.GLACE(**small(max_steps=1, learning_rate=1e-9)).fit(rest).embedding_, held_out)
    assert trained.auc > 0.85
    assert trained.auc > untrained.auc + 0.1


def test_the_best_weights_are_kept(planted):
    """Validation edges and non-edges are swapped, so that training makes the validation AUC worse."""
    rest, held_out = glace.hold_out(planted, 0.1, np.random.default_rng(0))
    swapped = HeldOut(held_out.non_edges, held_out.edges)
    model = glace.GLACE(**small(max_steps=60, validate_every=5, patience=100)).fit(rest, validation=swapped)
    points, best = model.history_.validation_points, model.history_.best
    assert best is not None
    assert best.auc == max(point.auc for point in points)
    assert best.step < points[-1].step
    assert best.auc > points[-1].auc + 0.1, "the last weights are clearly worse"
    assert link_prediction(model.embedding_, swapped).auc == pytest.approx(best.auc, abs=1e-6)
    assert model.score(rest) == best.auc


def test_early_stopping_stops(planted):
    model = glace.GLACE(**small(max_steps=2000, validate_every=5, patience=2)).fit(planted)
    assert model.history_.step < 2000
    assert model.history_.since_best == 2


def test_limits_in_steps_epochs_and_seconds(planted):
    assert glace.GLACE(**small(max_steps=7)).fit(planted).history_.step == 7
    one_epoch = glace.GLACE(**small(max_steps=None, max_epochs=1, validation_fraction=0)).fit(planted)
    assert one_epoch.history_.step == -(-planted.adjacency.nnz // 128)
    brief = glace.GLACE(**small(max_steps=None, max_seconds=0.3)).fit(planted)
    assert 0.3 <= brief.history_.seconds < 3
    assert len(brief.history_.validation_points) >= 1


def test_without_validation_all_edges_are_used_to_the_last_step(planted):
    model = glace.GLACE(**small(max_steps=20, validation_fraction=0)).fit(planted)
    assert model.history_.validation_points == []
    assert model.history_.best is None


def test_the_learning_rate_decays_to_zero_or_stays(planted):
    rates: dict[str, list[float]] = {"cosine": [], "constant": []}
    for decay, seen in rates.items():
        heard: list[Progress] = []
        glace.GLACE(**small(max_steps=20, lr_schedule=decay)).fit(planted, listener=heard.append)
        seen += [progress.learning_rate for progress in heard]
    assert rates["cosine"][-1] == pytest.approx(0, abs=1e-12)
    assert (np.diff(rates["cosine"]) < 0).all()
    assert set(rates["constant"]) == {glace.GLACE().learning_rate}


def test_the_listener_hears_of_every_step(planted):
    heard: list[Progress] = []
    glace.GLACE(**small(max_steps=30, validate_every=10)).fit(planted, listener=heard.append)
    assert [p.step for p in heard] == list(range(1, 31))
    assert heard[0].validation_auc is None
    assert heard[-1].validation_auc is not None
    assert 0 < heard[-1].validation_auc <= 1
    assert heard[-1].done == pytest.approx(TRAINING_END), "the link model comes afterwards"
    assert all(p.edges_per_second > 0 and np.isfinite(p.loss) for p in heard)


def test_divergence_is_said_with_step_and_learning_rate(planted):
    model = glace.GLACE(**small(learning_rate=1e30, lr_schedule="constant"))
    with pytest.raises(TrainingDiverged, match=r"the loss is (nan|inf) at step \d+ with learning rate 1e\+30"):
        model.fit(planted)
    assert not hasattr(model, "embedding_")


@pytest.mark.parametrize("share", [0, 0.05])
def test_divergence_in_the_last_step_is_noticed(planted, share):
    model = glace.GLACE(**small(learning_rate=1e30, max_steps=1, validation_fraction=share))
    with pytest.raises(TrainingDiverged, match="not finite at step 2"):
        model.fit(planted)


def test_validation_looks_at_an_even_sample(monkeypatch):
    """Held-out edges come sorted by node; a sample must not be the first of them."""
    monkeypatch.setattr("glace.training.loop.MAX_VALIDATION_PAIRS", 40)
    edges = np.column_stack([np.arange(1000), np.arange(1000) + 1])
    sample = Validation.sample(HeldOut(edges, edges), np.random.default_rng(0))
    assert len(sample.truth) == 40
    assert sample.nodes.max() > 700


def test_threads_are_put_back():
    before, kernels = torch.get_num_threads(), threads()
    with using_threads(before + 1, dense=True):
        assert torch.get_num_threads() == threads() == before + 1
    with using_threads(before + 1):
        assert (torch.get_num_threads(), threads()) == (1, before + 1)
    assert torch.get_num_threads() == before
    assert threads() == kernels


def test_a_run_that_is_left_can_go_on(planted):
    """Its threads end when the caller stops iterating, and new ones begin with the next step."""
    config = Config.of(small(max_steps=30, validate_every=10, ensemble_size=2))
    trainer = training_task(planted, config, "symmetric_kl").trainer(config)
    with using_threads(2):
        next(trainer.validations())
        assert trainer.run().step == 30


def test_several_threads_train_the_same_network_as_one(planted):
    """Branches do not meet, whoever trains them."""
    options = small(max_steps=20, ensemble_size=3)
    alone, together = (glace.GLACE(**options | {"n_jobs": count}).fit(planted) for count in (1, 3))
    np.testing.assert_array_equal(alone.embedding_.mean, together.embedding_.mean)
    np.testing.assert_array_equal(alone.embedding_.variance, together.embedding_.variance)


@pytest.mark.parametrize(("members", "kernel_threads"), [(1, 3), (3, 1)])
def test_threads_train_a_branch_each_or_divide_the_only_one(planted, monkeypatch, members, kernel_threads):
    seen = set()

    def heard(*arguments):
        seen.add(threads())
        return branch_loss(*arguments)

    monkeypatch.setattr(loop, "branch_loss", heard)
    config = Config.of(small(max_steps=5, ensemble_size=members))
    trainer = training_task(planted, config, "symmetric_kl").trainer(config)
    with using_threads(3):
        trainer.run()
    assert seen == {kernel_threads}


def test_a_step_does_not_look_at_the_other_nodes(encoded_rows):
    """Ten times the nodes, no more rows encoded: the cost of a step is that of its batch."""
    graph = glace.datasets.planted(5000, communities=5, degree=6, attributes=100, words=10)
    glace.GLACE(**small(max_steps=3, validation_fraction=0)).fit(graph)
    assert max(encoded_rows[:3]) <= 2 * 128 + 64


def test_history_is_plain_data():
    history = History(
        3,
        1.5,
        0.7,
        [ValidationPoint(1, 0.9, 0.6, 0.5), ValidationPoint(2, 0.8, 0.7, 0.6), ValidationPoint(3, 0.7, 0.7, 0.7)],
    )
    assert History.from_json(asdict(history)) == history
    assert history.best == history.validation_points[1], "the earliest of equals"
