"""What every graph network does; a test module names its method and small options."""

import functools
import sys
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import glace
from glace.errors import InputError
from glace.experiments.baselines.method import Descent
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.rng import Streams


@functools.cache
def planted() -> glace.Graph:
    return glace.datasets.planted(200, communities=4, attributes=80, words=8)


@functools.cache
def split_of_planted():
    return glace.hold_out(planted(), 0.15, np.random.default_rng(0))


@functools.cache
def trained_once(method):
    return method.embed(split_of_planted()[0], Streams(0))


class GraphNetworkContract:
    method: ClassVar[Any]
    options: ClassVar[dict[str, Any]]

    @pytest.fixture
    def split(self):
        return split_of_planted()

    @pytest.fixture
    def trained(self):
        return trained_once(self.method(**self.options))

    def embed(self, graph, unseen=None, seed=0, **options):
        return self.method(**self.options | options).embed(graph, Streams(seed), unseen)

    def test_planted_edges_are_found(self, split, trained):
        assert trained.mean.shape == (200, 16)
        assert trained.mean.dtype == np.float32
        assert trained.variance is None
        assert list(trained.ids) == list(split[0].ids)
        untrained = self.embed(split[0], max_steps=1, learning_rate=1e-9)
        assert link_prediction(trained, split[1]).auc > 0.75
        assert link_prediction(trained, split[1]).auc > link_prediction(untrained, split[1]).auc + 0.03

    def test_a_seed_decides_every_bit_and_torch_is_left_alone(self, split, trained):
        torch.default_generator.manual_seed(123)
        before, threads = torch.random.get_rng_state(), torch.get_num_threads()
        again = self.embed(split[0])
        np.testing.assert_array_equal(again.mean, trained.mean)
        assert torch.equal(torch.random.get_rng_state(), before)
        assert torch.get_num_threads() == threads
        assert (self.embed(split[0], seed=1, max_steps=2).mean != trained.mean).any()

    def test_unseen_nodes_are_placed_by_their_attributes(self):
        whole = planted()
        known, unseen = np.arange(160), np.arange(160, 200)
        rows = whole.features()[unseen]
        embedding = self.embed(whole.take(known), rows)
        assert len(embedding) == 200
        assert embedding.ids[199] == "unseen 39"
        assert whole.labels is not None
        codes = whole.labels.codes
        centres = np.stack([embedding.mean[:160][codes[known] == c].mean(axis=0) for c in range(4)])
        nearest = (embedding.mean[160:] @ centres.T).argmax(axis=1)
        assert (nearest == codes[unseen]).mean() > 0.5  # a blind guess has 0.25

    def test_unseen_nodes_change_nothing_for_the_others(self, split, trained):
        rows = split[0].features()[:3].toarray()
        with_them = self.embed(split[0], rows)
        np.testing.assert_allclose(with_them.mean[:200], trained.mean, atol=1e-5)

    def test_without_attributes_the_edges_suffice(self, split):
        bare = split[0].without_attributes()
        assert link_prediction(self.embed(bare), split[1]).auc > 0.6
        with pytest.raises(InputError, match="no attributes"):
            self.embed(bare, np.ones((1, 200), np.float32))

    def test_dense_attributes_of_any_scale_will_do(self, split):
        dense = 1000 * split[0].features().toarray() + 5
        dense[:, 0] = 7
        graph = split[0].with_attributes(dense)
        embedding = self.embed(graph, dense[:2])
        assert len(embedding) == 202
        assert link_prediction(embedding, split[1]).auc > 0.65

    def test_directed_edges_are_taken_both_ways(self):
        graph = glace.datasets.planted(100, communities=4, attributes=80, words=8, directed=True)
        assert np.isfinite(self.embed(graph, max_steps=3).mean).all()

    def course(self, monkeypatch, graph, **options):
        courses = []

        def heard(*arguments):
            courses.append(Descent.train(*arguments))

        monkeypatch.setattr(self.method, "train", heard)
        assert np.isfinite(self.embed(graph, **options).mean).all()
        return courses[0]

    def test_training_ends_at_a_limit_or_when_patience_does(self, monkeypatch, split):
        steps = self.course(monkeypatch, split[0], max_steps=2, validation_fraction=0)
        assert (steps.step, steps.validation_points) == (2, [])
        timed = self.course(monkeypatch, split[0], max_steps=10**6, max_seconds=0.1)
        assert 0.1 <= timed.seconds < 5
        assert timed.validation_points
        patient = self.course(monkeypatch, split[0], max_steps=10**6, validate_every=2, patience=2)
        assert patient.step == 2 * len(patient.validation_points)
        assert patient.validation_points[-3] == patient.best

    def test_unseen_nodes_need_the_same_attributes(self):
        with pytest.raises(InputError, match="80 attributes of the graph, but have the shape"):
            self.embed(planted(), np.ones((2, 79), np.float32))

    def test_a_missing_library_is_named_with_its_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
        with pytest.raises(InputError, match=r"pip install 'glace-graph\[baselines\]'"):
            self.embed(planted())
