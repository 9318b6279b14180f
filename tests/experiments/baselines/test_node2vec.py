"""DeepWalk and node2vec: find planted communities, the same bits each time, within their budget."""

import hashlib
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import glace
from glace.errors import InputError
from glace.experiments.baselines.node2vec import Corpus, DeepWalk, Node2Vec, WalkSampler
from glace.graph.split import hold_out
from glace.metrics import link_scores
from glace.rng import Streams

pytest.importorskip("gensim", reason="gensim has no wheel for Python 3.14")

METHODS = [DeepWalk, Node2Vec]
SMALL = {"dim": 16, "walks": 10, "length": 20}


def cosine(embedding, pairs):
    unit = embedding.mean / np.maximum(np.linalg.norm(embedding.mean, axis=1, keepdims=True), 1e-12)
    return (unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(axis=1)


@pytest.mark.parametrize("method", METHODS)
def test_held_out_edges_of_planted_communities_are_found(planted, method):
    train, test = hold_out(planted, 0.15, np.random.default_rng(0))
    embedding = method(**SMALL).embed(train, Streams(0))
    assert embedding.mean.shape == (planted.num_nodes, 16)
    assert embedding.mean.dtype == np.float32
    assert embedding.variance is None
    assert embedding.dissimilarity == "dot"
    assert link_scores(cosine(embedding, test.pairs()), test.truth()).auc > 0.85


def test_weights_steer_the_embedding():
    """A ring whose every second edge is heavy: nodes are nearer to the heavy neighbour."""
    nodes = np.arange(60)
    ring = np.column_stack([nodes, (nodes + 1) % 60])
    graph = glace.from_arrays(ring, weights=np.where(nodes % 2, 1.0, 20.0))
    near = cosine(DeepWalk(**SMALL, window=2).embed(graph, Streams(0)), ring)
    assert near[::2].mean() > near[1::2].mean() + 0.1


def test_nodes_that_no_walk_visits_are_at_zero():
    edges = np.array([[1, 2], [2, 3], [3, 1], [3, 4]])
    graph = glace.from_arrays(edges, ids=range(6), directed=True)
    empty = ~DeepWalk(**SMALL).embed(graph, Streams(0)).mean.any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(empty), [0, 5])


def test_seeds_and_biases_make_a_difference(planted):
    def mean(seed=0, **options):
        return Node2Vec(dim=4, walks=1, length=10, **options).embed(planted, Streams(seed)).mean

    np.testing.assert_array_equal(mean(), mean())
    for other in (mean(seed=1), mean(p=10.0), mean(q=10.0)):
        assert (mean() != other).any()
    plain = DeepWalk(dim=4, walks=1, length=10).embed(planted, Streams(0)).mean
    np.testing.assert_array_equal(mean(p=1.0, q=1.0), plain)


EMBED = """
import hashlib, numpy as np, glace
from glace.experiments.baselines.node2vec import Node2Vec
from glace.rng import Streams
graph = glace.from_arrays(np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]))
print(hashlib.sha256(Node2Vec(dim=4, walks=2, length=5).embed(graph, Streams(0)).mean.tobytes()).hexdigest())
"""


def test_the_hash_seed_of_the_process_makes_none():
    graph = glace.from_arrays(np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]))
    here = Node2Vec(dim=4, walks=2, length=5).embed(graph, Streams(0)).mean.tobytes()
    there = subprocess.run(
        [sys.executable, "-c", EMBED],
        env=os.environ | {"PYTHONHASHSEED": "4321"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == hashlib.sha256(here).hexdigest()


def test_the_corpus_is_the_same_each_time_and_counts_its_visits():
    graph = glace.from_arrays(np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), ids=range(5), directed=True)
    corpus = Corpus(WalkSampler(graph, Streams(0), length=3), rounds=20)
    walks = list(corpus)
    assert walks == list(corpus)
    assert len(walks) == 60
    assert {len(walk) for walk in walks} == {2, 3}, "ends are cut off"
    flat = [node for walk in walks for node in walk]
    np.testing.assert_array_equal(corpus.visits(), np.bincount(flat, minlength=5))


@pytest.mark.parametrize(
    ("starts", "tokens", "wanted"),
    [
        (100, None, (10, 40)),
        (100, 40_000, (10, 40)),
        (100, 39_999, (9, 40)),
        (100, 12_000, (3, 40)),
        (100, 1_000, (1, 10)),
        (100, 100, (1, 2)),
    ],
)
def test_walks_become_fewer_then_shorter_to_stay_within_tokens(starts, tokens, wanted, caplog):
    with caplog.at_level(logging.INFO, "glace"):
        assert DeepWalk(walks=10, length=40, tokens=tokens).affordable(starts) == wanted
    assert len(caplog.records) == (wanted != (10, 40))


def test_tokens_bound_what_is_trained_on(planted):
    bounded = DeepWalk(dim=4, walks=10, length=20, tokens=400 * 20).embed(planted, Streams(0))
    one = DeepWalk(dim=4, walks=1, length=20).embed(planted, Streams(0))
    np.testing.assert_array_equal(bounded.mean, one.mean)


@pytest.mark.parametrize("method", METHODS)
def test_nodes_outside_the_graph_are_refused(planted, method):
    with pytest.raises(InputError, match=f"{method.name} cannot embed nodes outside of the training graph"):
        method().embed(planted, Streams(0), unseen=planted.attributes[:2])


def test_without_gensim_the_message_says_what_to_install(planted, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(InputError, match=r"need gensim: pip install 'glace-graph\[baselines\]'"):
        DeepWalk().embed(planted, Streams(0))


@pytest.mark.parametrize("options", [{"p": 0}, {"q": -1}, {"length": 1}, {"length": 10_001}, {"tokens": 1}])
def test_options_are_checked(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
        Node2Vec(**options)
