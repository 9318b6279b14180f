"""Options left to `auto`: who is tried against whom, who wins, and that a real fit tells and keeps the outcome."""

import hashlib
import math
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import glace
from glace.config.config import Config
from glace.errors import InputError
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.fitted.state import Progress, Selection, Trial, part_of
from glace.graph.split import HeldOut
from glace.metrics import auc_difference
from glace.sampling.edges import EdgeSampler
from glace.training import loop as fitting
from glace.training import train as choices
from glace.training.train import CANDIDATES, INITIAL, WITHOUT_ATTRIBUTES, TrialResult, run_trial
from tests.conftest import small

TRUTH = np.arange(1000) < 500
OPEN = {"hidden_length": "auto", "neighbor_features": "auto", "dropout": "auto"}


def trial(config: Config, quality: float) -> TrialResult:
    """A trial that separates this fraction of the edges from all non-edges, and none of the others."""
    return TrialResult(config, TRUTH, {100: np.where(TRUTH & (np.arange(1000) < 500 * quality), 1.0, 0.0)})


def select(monkeypatch, quality, has_attributes=True, truth=TRUTH, dissimilarity="symmetric_kl", **options):
    """Select options with trials whose quality is a function of their options; which were tried, in order."""
    seen = []

    def run_trial(task, config, listener=None, stop_if_behind=None):
        tried = {name: config.to_dict()[name] for name in OPEN}
        seen.append(tried)
        return trial(config, quality(tried))

    monkeypatch.setattr(choices, "run_trial", run_trial)
    graph = SimpleNamespace(has_attributes=has_attributes)
    sampler = SimpleNamespace(steps_per_epoch=20)
    parts = {"graph": graph, "sampler": sampler, "dissimilarity": dissimilarity}
    parts["validation"] = SimpleNamespace(truth=truth)
    task: Any = SimpleNamespace(config=Config.of(OPEN | options), **parts)
    return choices.select_options(task), seen


def test_the_first_settings_stay_where_nobody_is_better(monkeypatch):
    found, seen = select(monkeypatch, lambda _: 0.5)
    assert found.options == INITIAL
    assert seen[0] == INITIAL
    assert [(trial.option, trial.value) for trial in found.trials] == [("", None), *CANDIDATES]
    assert [trial.kept for trial in found.trials] == [True, *[False] * len(CANDIDATES)]
    assert seen[1:] == [INITIAL | {name: value} for name, value in CANDIDATES], "each changes one option of the best"
    assert found.trials[0].auc == pytest.approx(0.75)


@pytest.mark.parametrize(("option", "value"), CANDIDATES)
def test_a_rival_that_is_clearly_better_wins(monkeypatch, option, value):
    found, seen = select(monkeypatch, lambda tried: 0.9 if tried[option] == value else 0.5)
    assert found.options == INITIAL | {option: value}
    (winner,) = (trial for trial in found.trials[1:] if trial.kept)
    assert (winner.option, winner.value, winner.auc) == (option, value, pytest.approx(0.95))
    place = [name for name, _ in CANDIDATES].index(option)
    assert all(tried[option] == value for tried in seen[place + 1 :]), "later rivals start from the winner"


def test_points_are_not_tried(monkeypatch):
    """They learn too slowly for a short trial."""
    found, seen = select(
        monkeypatch, lambda tried: 0.9 if tried["neighbor_features"] == "none" else 0.5, dissimilarity="dot"
    )
    assert (found, seen) == (Selection(INITIAL), [])


def test_with_too_few_validation_edges_nothing_is_tried(monkeypatch):
    """They could not tell a better setting from chance."""
    monkeypatch.setattr(choices, "FEWEST_EDGES", 300)
    for edges, trials in ((299, 0), (300, 1 + len(CANDIDATES))):
        found, seen = select(monkeypatch, lambda _: 0.5, truth=np.arange(1000) < edges)
        assert (found.options, len(found.trials), len(seen)) == (INITIAL, trials, trials)


def test_a_rival_wins_only_above_the_standard_error(monkeypatch):
    """One more edge of 500 is within the error of the difference, which is 1 in 500 as well; ten more are not."""
    for more, wins in ((0, False), (1, False), (10, True)):
        found, _ = select(
            monkeypatch, lambda tried, more=more: 0.5 + more / 500 * (tried["neighbor_features"] == "none")
        )
        assert found.trials[-1].kept == wins, more
    low, high = (trial(Config.of({}), quality).scores for quality in (0.5, 0.52))
    assert choices.is_significantly_better(high, low, TRUTH)
    assert not choices.is_significantly_better(low, low, TRUTH)
    assert not choices.is_significantly_better(low, high, TRUTH)


def test_a_difference_as_small_as_that_of_two_random_starts_decides_nothing():
    truth = np.arange(200_000) < 100_000
    low, high = (np.where(truth & (np.arange(200_000) < 100_000 * part), 1.0, 0.0) for part in (0.5, 0.503))
    difference, error = auc_difference(high, low, truth)
    assert 2 * error < difference < choices.LEAST_GAIN
    assert not choices.is_significantly_better(high, low, truth)


@pytest.mark.parametrize("name", ["links", "nodes"])
def test_dropout_stays_to_the_end_where_nodes_are_the_purpose(monkeypatch, name):
    found, _ = select(monkeypatch, lambda _: 0.5, purpose=name)
    assert found.options["dropout"] == {"links": "annealed", "nodes": 0.5}[name]


@pytest.mark.parametrize(("total", "zero_from"), [(3000, 400), (math.inf, 400), (100, 50)])
def test_annealed_dropout_falls_to_zero_in_the_first_part_of_a_run(total, zero_from):
    found = [fitting.dropout_at("annealed", step, total, 20) for step in (0, zero_from // 2, zero_from, zero_from + 9)]
    assert found == [0.5, 0.25, 0.0, 0.0]
    assert fitting.dropout_at(0.3, 7, total, 20) == 0.3


def test_a_run_of_few_epochs_has_no_annealed_dropout():
    """What is seen hardly more than once is not learned by heart."""
    assert fitting.dropout_at("annealed", 0, 499, 100) == 0
    assert fitting.dropout_at("annealed", 0, 500, 100) == 0.5


@pytest.mark.parametrize("given", [{"dropout": 0.1}, {"neighbor_features": "mean"}])
def test_what_is_set_is_never_tried(monkeypatch, given):
    found, seen = select(monkeypatch, lambda _: 0.5, **given)
    assert all(tried | given == tried for tried in seen)
    assert not set(given) & set(found.options)
    assert not set(given) & {trial.option for trial in found.trials}


def test_where_all_is_set_nothing_is_tried(monkeypatch):
    settled = {"hidden_length": "bounded", "neighbor_features": "mean", "dropout": 0.3}
    found, seen = select(monkeypatch, lambda _: 0.5, **settled)
    assert (found, seen) == (Selection({}), [])


def test_without_attributes_nothing_of_a_node_is_hidden(monkeypatch):
    found, seen = select(monkeypatch, lambda _: 0.5, has_attributes=False)
    assert found.options == INITIAL | WITHOUT_ATTRIBUTES
    assert all(tried | WITHOUT_ATTRIBUTES == tried for tried in seen)
    assert found.trials == (), "there is nothing else to try"


def test_a_choice_is_plain_data():
    found = Selection(
        {"neighbor_features": "none"}, (Trial("", None, 0.7, True), Trial("neighbor_features", "none", 0.8, True))
    )
    assert Selection.from_json(asdict(found)) == found
    assert Selection.from_json(asdict(Selection({}))) == Selection({})


def test_many_runs_are_heard_of_as_one():
    heard: list[Progress] = []
    for part in range(3):
        listener = part_of(heard.append, part / 3, (part + 1) / 3, f"stage {part}")
        assert listener is not None
        for done in (0.5, 1.0):
            listener(Progress(1, 2, done, 0.1, 0.01, 1.0, None))
    assert [progress.done for progress in heard] == pytest.approx([1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 1])
    assert [progress.stage for progress in heard] == ["stage 0"] * 2 + ["stage 1"] * 2 + ["stage 2"] * 2
    assert part_of(None, 0, 1, "training") is None


# Real fits

AUTO = small(max_steps=30, validate_every=5, **OPEN)


@pytest.fixture(autouse=True, scope="module")
def few_edges_decide():
    """Trials, although the graph of the tests has few edges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices, "FEWEST_EDGES", 20)
        yield


@pytest.fixture(scope="module")
def chosen(planted, few_edges_decide):
    return glace.GLACE(**AUTO).fit(planted)


def digest(model, path):
    model.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_fit_tells_what_it_chose(chosen):
    found = chosen.selection_
    assert set(found.options) == set(OPEN)
    assert found.trials[0].option == ""
    assert len(found.trials) == 2
    assert all(0.5 < trial.auc <= 1 for trial in found.trials)
    assert chosen.get_params()["neighbor_features"] == "auto", "the options stay as they were given"
    config = chosen.model_.network.config
    assert {name: getattr(config, name) for name in OPEN} == found.options
    assert chosen.model_.network.neighbors == (found.options["neighbor_features"] == "mean")


def test_the_same_seed_chooses_the_same(chosen, planted, tmp_path):
    again = glace.GLACE(**AUTO).fit(planted)
    assert again.selection_ == chosen.selection_
    assert digest(again, tmp_path / "a") == digest(chosen, tmp_path / "b")


def test_a_choice_is_saved_and_loaded(chosen, planted, tmp_path):
    chosen.save(tmp_path / "m")
    loaded = glace.load(tmp_path / "m")
    assert loaded.selection == chosen.selection_
    assert digest(loaded, tmp_path / "again") == digest(chosen, tmp_path / "m")
    np.testing.assert_array_equal(loaded.transform(planted.attributes).mean, chosen.transform(planted.attributes).mean)


class Interrupted(Exception):
    pass


def stop_in_the_run(step, trials):
    """Interrupt at this step of the run that follows the trials."""
    begun = []

    def listen(progress):
        if progress.step == 1:
            begun.append(progress)
        if len(begun) > trials and progress.step == step:
            raise Interrupted

    return listen


@pytest.mark.parametrize("stop", [1, 17])
def test_a_run_goes_on_with_what_was_chosen(chosen, planted, tmp_path, stop):
    saved = {"checkpoint": tmp_path / "run", "checkpoint_seconds": 0}
    listener = stop_in_the_run(stop, len(chosen.selection_.trials))
    with pytest.raises(Interrupted):
        glace.GLACE(**AUTO).fit(planted, listener=listener, **saved)
    assert (tmp_path / "run").exists() == (stop > 1), "a checkpoint comes after the listener heard of the step"
    heard: list[int] = []
    resumed = glace.GLACE(**AUTO).fit(
        planted, resume=True, listener=lambda progress: heard.append(progress.step), **saved
    )
    if stop > 1:
        assert heard == list(range(stop, 31)), "nothing is tried again"
    assert resumed.selection_ == chosen.selection_
    assert digest(resumed, tmp_path / "resumed") == digest(chosen, tmp_path / "whole")


def test_without_held_out_edges_the_first_choice_is_taken(planted):
    model = glace.GLACE(**AUTO | {"validation_fraction": 0, "max_steps": 3}).fit(planted)
    assert model.selection_ == Selection(INITIAL)
    bare = glace.GLACE(**AUTO | {"validation_fraction": 0, "max_steps": 3}).fit(planted.without_attributes())
    assert bare.selection_ == Selection(INITIAL | WITHOUT_ATTRIBUTES)


def test_trials_are_short_and_keep_to_the_clock(planted, monkeypatch):
    heard: list[int] = []
    options = AUTO | {"max_steps": 50, "patience": 1000, "dropout": 0.0, "neighbor_dropout": 0.0}
    monkeypatch.setattr(choices, "TRIAL_STEPS", 20)
    monkeypatch.setattr(choices, "GIVE_UP_AFTER", 2.0)
    glace.GLACE(**options).fit(planted, listener=lambda progress: heard.append(progress.step))
    trial = range(1, 21)
    assert heard == [*trial, *trial, *range(1, 51)]
    brief = glace.GLACE(**options | {"max_steps": None, "max_seconds": 0.5}).fit(planted)
    assert brief.history_.seconds < 2


# Pairs given to be judged by


@pytest.fixture(scope="module")
def split(planted):
    return glace.hold_out(planted, 0.1, np.random.default_rng(5))


def test_given_pairs_are_what_a_fit_is_judged_by(split):
    rest, held_out = split
    model = glace.GLACE(**small(max_steps=40, validate_every=10)).fit(rest, validation=held_out)
    assert model.history_.best is not None
    assert model.history_.best.auc == pytest.approx(link_prediction(model.embedding_, held_out).auc, abs=1e-6)
    unlearnable = HeldOut(held_out.non_edges, held_out.edges)
    turned = glace.GLACE(**small(max_steps=40, validate_every=10)).fit(rest, validation=unlearnable)
    assert turned.history_.validation_points[-1].auc < 0.5


def test_given_pairs_leave_all_edges_to_training(split, monkeypatch):
    rest, held_out = split
    drawn = []

    def heard(graph, *more):
        drawn.append(graph)
        return EdgeSampler(graph, *more)

    monkeypatch.setattr(choices, "EdgeSampler", heard)
    glace.GLACE(**small(max_steps=1)).fit(rest, validation=held_out)
    assert drawn[0].num_edges == rest.num_edges
    glace.GLACE(**small(max_steps=1)).fit(rest)
    assert drawn[1].num_edges < rest.num_edges


def test_given_pairs_move_with_their_nodes(split):
    """The same graph with its rows in another order: the pairs have other numbers and mean the same nodes."""
    rest, held_out = split
    names = np.array([f"node {number:03}" for number in range(400)])
    edges = pl.DataFrame({"source": names[rest.edges()[:, 0]], "target": names[rest.edges()[:, 1]]})
    rows = pl.DataFrame({"id": names}).hstack(pl.DataFrame(rest.attributes.toarray()))
    order = np.random.default_rng(0).permutation(400)
    place = np.argsort(order)
    options = small(max_steps=30, validate_every=5)
    plain = glace.GLACE(**options).fit(glace.from_tables(edges, rows), validation=held_out)
    moved = HeldOut(place[held_out.edges], place[held_out.non_edges])
    mixed = glace.GLACE(**options).fit(glace.from_tables(edges, rows[order]), validation=moved)
    assert [look.auc for look in mixed.history_.validation_points] == [
        look.auc for look in plain.history_.validation_points
    ]
    np.testing.assert_array_equal(mixed.embedding_.mean[place], plain.embedding_.mean)


def test_a_checkpoint_with_other_pairs_is_refused(split, tmp_path):
    rest, held_out = split
    saved = {"checkpoint": tmp_path / "run", "checkpoint_seconds": 0}
    model = glace.GLACE(**small(max_steps=5))
    model.fit(rest, validation=held_out, **saved)
    other = HeldOut(held_out.edges[1:], held_out.non_edges)
    for pairs in (other, None):
        with pytest.raises(InputError, match="another run: validation was '.*' and is"):
            model.fit(rest, validation=pairs, resume=True, **saved)
    assert model.fit(rest, validation=held_out, resume=True, **saved).history_.step == 5


def test_a_candidate_that_is_clearly_behind_is_given_up_half_way(planted):
    config = Config.of(small(max_steps=40, ensemble_size=2))
    task = choices.training_task(planted, config, "symmetric_kl")
    whole = run_trial(task, config)
    assert list(whole.scores_at) == [20, 40]
    assert whole.scores is whole.scores_at[40]
    perfect = whole.truth.astype(np.float64)

    def steps(ahead):
        return list(run_trial(task, config, stop_if_behind=TrialResult(config, whole.truth, ahead)).scores_at)

    assert steps(dict.fromkeys((20, 40), perfect)) == [20]
    assert steps(whole.scores_at) == [20, 40], "an equal is not significantly better"
    assert steps({15: perfect}) == [20, 40], "there is no validation at the same step"


def test_a_trial_trains_one_member_of_the_ensemble(planted, monkeypatch):
    made: list[Config] = []
    trainer = choices.TrainingTask.trainer

    def heard(task, config):
        made.append(config)
        return trainer(task, config)

    monkeypatch.setattr(choices.TrainingTask, "trainer", heard)
    config = Config.of(small(max_steps=4, ensemble_size=2))
    run_trial(choices.training_task(planted, config, "symmetric_kl"), config)
    (short,) = made
    parts = short.model.ensemble_size, short.model.hidden, short.model.dim
    assert parts == (1, config.model.hidden // 2, config.model.dim // 2)
