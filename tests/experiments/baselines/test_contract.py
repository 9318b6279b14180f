"""What every method promises, run by every method of the experiments on a planted answer."""

import functools
from dataclasses import fields

import numpy as np
import pytest

import glace
from glace.errors import InputError
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.experiments.methods import BASELINES, GAUSSIAN, LEARNED, METHODS, make
from glace.experiments.splits import split_edges
from glace.graph.split import HeldOut
from glace.rng import Streams

SHORT = {
    "dim": 8,
    "hidden": 32,
    "batch_size": 128,
    "negative_pool_size": 64,
    "max_steps": 120,
    "n_jobs": 1,
    "learning_rate": 0.01,
}
WALKS = {"dim": 8, "walks": 5, "length": 20}
NETWORKS = {"dim": 8, "hidden": 16, "max_steps": 40, "learning_rate": 0.02}
OPTIONS = {name: dict(SHORT) for name in LEARNED} | {
    "deepwalk": WALKS | {"learning_rate": 0.1},
    "node2vec": WALKS | {"learning_rate": 0.1},
    "vgae": NETWORKS,
    "graphsage": NETWORKS
    | {"batch_size": 64, "negative_pool_size": 64, "first_hop_samples": 10, "second_hop_samples": 5},
    "graph2gauss": {"dim": 8, "hidden": 32, "batch_size": 128, "max_steps": 100, "validate_every": 25},
    "sdne": NETWORKS | {"max_steps": 100},
    "dvne": NETWORKS | {"max_steps": 100, "batch_size": 128},
    "word2gauss": {"dim": 8, "max_steps": 60, "learning_rate": 0.05, "batch_size": 256},
    "glace-as-coded": {"dim": 8, "hidden": 32, "max_steps": 120, "learning_rate": 0.01, "validate_every": 25},
}
for each in ("line", "line-first", "line-second"):  # nothing but edges to learn from
    OPTIONS[each] |= {"learning_rate": 0.05}
BRIEF = {"max_steps": 2, "walks": 1}
"""Options that make a method quick, where it has them; it need not learn anything."""
NOT_RANDOM = ("attributes",)
VARIANTS = ("glace-wasserstein2", "glace-symmetric-kl", "glace-kl")
"""Other dissimilarities of GLACE, which the tests of the estimators cover."""


def has_option(name, option):
    kind = LEARNED[name][0] if name in LEARNED else BASELINES[name]
    return option in {each.name for each in fields(kind)}


def options_of(name):
    """Options that learn the planted answer quickly; methods without an entry get 8 dimensions."""
    return OPTIONS.get(name, {"dim": 8} if has_option(name, "dim") else {})


@pytest.fixture(params=[name for name in METHODS if name not in VARIANTS])
def name(request):
    if request.param in ("deepwalk", "node2vec"):
        pytest.importorskip("gensim", reason="gensim has no wheel for Python 3.14")
    return request.param


@functools.cache
def planted():
    return glace.datasets.planted(200, communities=4, attributes=80, words=8)


@functools.cache
def split():
    return split_edges(planted(), np.random.default_rng(2))


def embed(name, graph, seed=0, unseen=None, validation=None, **options):
    return make(name, options_of(name) | options).embed(graph, Streams(seed), unseen, validation)


def brief(name, graph, seed=0, unseen=None, **options):
    quick = {option: value for option, value in BRIEF.items() if has_option(name, option)}
    return embed(name, graph, seed, unseen, **quick, **options)


@functools.cache
def trained(name):
    return embed(name, split().train, validation=split().validation)


def unlearned(name):
    """The same, not trained; without training, the points of other nodes."""
    if has_option(name, "learning_rate"):
        return brief(name, split().train, learning_rate=1e-9)
    found = trained(name)
    rows = np.random.default_rng(0).permutation(len(found.mean))
    return glace.Embedding(found.ids, found.mean[rows], None, found.dissimilarity)


def test_held_out_edges_of_planted_communities_are_found(name):
    found, before = (link_prediction(each, split().test).auc for each in (trained(name), unlearned(name)))
    assert found > 0.6
    assert found > before + 0.03


def test_ids_shapes_and_finite_numbers(name):
    embedding = trained(name)
    assert list(embedding.ids) == list(planted().ids)
    assert embedding.mean.dtype == np.float32
    assert len(embedding.mean) == 200
    wide = {"line": 16, "lace-published": 16, "glace-published": 16, "attributes": 80}
    assert embedding.mean.shape[1] == wide.get(name, 8)
    assert np.isfinite(embedding.mean).all()
    assert (embedding.variance is not None) == (name in GAUSSIAN)
    assert (embedding.dissimilarity == "dot") == (name not in GAUSSIAN)
    if embedding.variance is not None:
        assert np.isfinite(embedding.variance).all()
        assert (embedding.variance > 0).all()


def test_a_seed_decides_every_bit(name):
    first, again, other = (brief(name, planted(), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.mean, again.mean)
    if first.variance is not None:
        np.testing.assert_array_equal(first.variance, again.variance)
    assert (first.mean != other.mean).any() == (name not in NOT_RANDOM)


def test_methods_and_options_are_by_name(name):
    made = make(name, options_of(name))
    assert made.name == name
    with pytest.raises(InputError, match=f"^{name} has no option 'dimension'; it has .*"):
        make(name, {"dimension": 3})
    with pytest.raises(InputError, match=" must be .*, not "):
        make(name, {"dim": 0} if has_option(name, "dim") else {"most_gigabytes": 0})


def test_unseen_nodes_follow_or_are_refused(name):
    rows = planted().features()[:3]
    if not make(name, {}).inductive:
        with pytest.raises(
            InputError, match=f"^{name} cannot embed nodes outside of the training graph, because .*; choose"
        ):
            brief(name, planted(), unseen=rows)
        return
    alone = brief(name, planted())
    for unseen in (rows, rows.toarray()):
        embedding = brief(name, planted(), unseen=unseen)
        assert list(embedding.ids)[200:] == ["unseen 0", "unseen 1", "unseen 2"]
        assert embedding.mean.shape == (203, alone.mean.shape[1])
        assert (embedding.variance is None) == (alone.variance is None)
        np.testing.assert_allclose(embedding.mean[:200], alone.mean, atol=1e-5)
        assert np.isfinite(embedding.mean).all()


@pytest.mark.parametrize("kind", ["directed", "weighted", "isolated", "dense", "bare"])
def test_any_kind_of_graph_is_embedded_and_stays_as_it_was(name, kind):
    graph = variant(kind)
    before = graph.fingerprint()
    embedding = brief(name, graph)
    assert graph.fingerprint() == before
    assert list(embedding.ids) == list(graph.ids)
    assert np.isfinite(embedding.mean).all()


def variant(kind):
    graph, edges = planted(), planted().edges()
    if kind == "directed":
        return glace.datasets.planted(120, communities=4, attributes=80, words=8, directed=True)
    if kind == "weighted":
        return graph.with_edges(edges, np.random.default_rng(0).random(len(edges)) + 0.1)
    if kind == "isolated":
        kept = edges[(edges >= 20).all(axis=1)]
        return graph.with_edges(kept, np.ones(len(kept), np.float32))
    if kind == "dense":
        return graph.with_attributes(graph.attributes.toarray())
    return graph.without_attributes()


@pytest.mark.parametrize("name", [name for name in METHODS if has_option(name, "validate_every")])
def test_given_pairs_choose_the_weights(name):
    """Pairs turned round ask for the worst weights instead of the best, and get other ones."""
    validation_points = {"max_steps": 30, "validate_every": 5, "patience": 100}
    pairs = split().validation
    turned = HeldOut(pairs.non_edges, pairs.edges)
    best, worst = (embed(name, split().train, validation=each, **validation_points) for each in (pairs, turned))
    assert link_prediction(best, pairs).auc > link_prediction(worst, pairs).auc


def test_an_unknown_method_is_refused():
    said = "method must be one of attributes, .*, glace, .* or, for ranking, adamic-adar, .*, not 'gcn'"
    with pytest.raises(InputError, match=said):
        make("gcn", {})
