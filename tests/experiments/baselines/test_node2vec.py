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
from glace.experiments.baselines import node2vec as walks
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


# Rounds of walks: one from every node that has an edge to leave by, the same for the same seed and round.


def sampler(graph, seed=0, length=10, **bias):
    return WalkSampler(graph, Streams(seed), length=length, **bias)


def round_of(graph, number=0, **options):
    return np.concatenate(list(sampler(graph, **options).round(number)))


def steps(drawn):
    pairs = np.column_stack([drawn[:, :-1].ravel(), drawn[:, 1:].ravel()])
    return pairs[pairs[:, 1] >= 0]


def test_every_node_with_an_edge_starts_one_walk_in_random_order(planted):
    drawn = round_of(planted)
    joined = np.flatnonzero(np.diff(planted.adjacency.indptr))
    np.testing.assert_array_equal(np.sort(drawn[:, 0]), joined)
    assert (drawn[:, 0] != joined).any()
    assert (drawn >= 0).all(), "an undirected walk can always go on"
    assert planted.has_edges(steps(drawn)).all()


def test_directed_walks_follow_the_direction_and_end():
    graph = glace.from_arrays(np.array([[0, 1], [1, 2]]), ids=range(4), directed=True)
    drawn = round_of(graph, length=4)
    np.testing.assert_array_equal(drawn[np.argsort(drawn[:, 0])], [[0, 1, 2, -1], [1, 2, -1, -1]])


def test_isolated_nodes_are_in_no_walk():
    drawn = round_of(glace.from_arrays(np.array([[0, 2]]), ids=range(5)))
    assert set(drawn.ravel()) == {0, 2}


def test_return_and_in_out_bias_the_walks(planted):
    def returns(p):
        drawn = round_of(planted, p=p)
        return (drawn[:, 2:] == drawn[:, :-2]).mean()

    def triangles(q):
        drawn = round_of(planted, p=100.0, q=q)
        return planted.has_edges(np.column_stack([drawn[:, :-2].ravel(), drawn[:, 2:].ravel()])).mean()

    assert returns(0.1) > 2 * returns(1.0) > 2 * returns(10.0)
    assert triangles(10.0) > 1.5 * triangles(0.1)


def test_a_round_depends_on_seed_and_number_only(planted):
    used = sampler(planted)
    list(used.round(0))
    np.testing.assert_array_equal(np.concatenate(list(used.round(7))), round_of(planted, 7))
    assert (round_of(planted, 7) != round_of(planted, 8)).any()
    assert (round_of(planted, 7) != round_of(planted, 7, seed=1)).any()


def test_blocks_are_small(planted, monkeypatch):
    monkeypatch.setattr(walks, "BLOCK", 64)
    sizes = [len(block) for block in sampler(planted).round(0)]
    assert max(sizes) == 64
    assert sum(sizes) == len(sampler(planted).starts)


def test_a_graph_without_edges_is_refused():
    with pytest.raises(InputError, match="no edges; random walks need edges"):
        sampler(glace.from_arrays(np.empty((0, 2), int), ids=range(3)))


# Walks: on edges, by the exact probabilities of node2vec, the same for the same seeds.


# Node 4 has no edge that leaves it; the others all do, by unequal weights.
WEIGHTS = np.array(
    [[0, 1, 2, 0, 4], [3, 0, 1, 1, 0], [1, 5, 0, 1, 0], [2, 0, 2, 0, 0], [0, 0, 0, 0, 0]], dtype=np.float32
)


def csr(dense):
    """As a Graph has them: read-only, for which numba compiles once more."""
    indptr = np.concatenate([[0], np.cumsum((dense > 0).sum(1))]).astype(np.int32)
    arrays = indptr, np.nonzero(dense)[1].astype(np.int32), dense[dense > 0]
    for array in arrays:
        array.flags.writeable = False
    return arrays


def walked(dense, starts, length, p=1.0, q=1.0, seed=0):
    seeds = np.random.default_rng(seed).integers(2**64, size=len(starts), dtype=np.uint64)
    out = np.empty((len(starts), length), np.int32)
    bias = (1 / p, 1.0, 1 / q)
    walks.walk(csr(dense), dense.max(axis=1).astype(float), starts, seeds, bias, out)
    return out


def exact(dense, before, here, p, q):
    """The probabilities of the next node, written as in the node2vec paper."""
    bias = np.where(dense[before] > 0, 1.0, 1 / q)
    bias[before] = 1 / p
    share = dense[here] * bias
    return share / share.sum()


# The last two pairs reject so often that rows are mostly read whole.
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4), (4, 0.5), (1e-3, 1), (1e4, 1e4)])
def test_steps_have_the_probabilities_of_node2vec(p, q):
    out = walked(WEIGHTS, np.arange(4).repeat(20_000), 3, p, q)
    for before in range(4):
        first = out[out[:, 0] == before, 1]
        wanted = WEIGHTS[before] / WEIGHTS[before].sum()
        np.testing.assert_allclose(np.bincount(first, minlength=5) / len(first), wanted, atol=0.01)
        for here in np.flatnonzero(WEIGHTS[before, :4]):
            second = out[(out[:, 0] == before) & (out[:, 1] == here), 2]
            shares = np.bincount(second, minlength=5) / len(second)
            # Five standard errors of a share.
            np.testing.assert_allclose(shares, exact(WEIGHTS, before, here, p, q), atol=2.5 / np.sqrt(len(second)))


def test_one_weight_above_all_others_is_drawn_exactly():
    """Evenly drawn places are nearly always rejected: the row is read whole."""
    dense = np.zeros((401, 401), np.float32)
    dense[0, 1:], dense[0, 7] = 1, 400
    out = walked(dense, np.zeros(20_000, np.int64), 2)[:, 1]
    assert abs((out == 7).mean() - 400 / 799) < 0.02
    assert len(np.unique(out)) > 380


def test_walks_stay_on_edges_and_end_where_none_leaves():
    out = walked(WEIGHTS, np.arange(5).repeat(200), 12, p=0.5, q=2)
    ends = np.count_nonzero(out >= 0, axis=1)
    for walk, end in zip(out, ends, strict=True):
        assert (walk[end:] == -1).all()
        assert (WEIGHTS[walk[: end - 1], walk[1:end]] > 0).all()
        assert end == 12 or walk[end - 1] == 4
    assert (ends[-200:] == 1).all()
    assert (ends < 12).any()
    assert (ends == 12).any()


def test_a_walk_depends_on_its_own_seed_only():
    starts = np.arange(4).repeat(50)
    whole = walked(WEIGHTS, starts, 20, p=0.5, q=2)
    np.testing.assert_array_equal(whole[:10], walked(WEIGHTS, starts[:10], 20, p=0.5, q=2))
    assert (whole != walked(WEIGHTS, starts, 20, p=0.5, q=2, seed=1)).any()


def test_draws_are_even():
    """Also from seeds that follow one another, and with numbers beyond the signed range."""
    seeds = np.arange(2**64 - 100, 2**64, dtype=np.uint64)
    drawn = np.array([walks._uniform(seed, np.uint64(k)) for seed in seeds for k in range(100)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    np.testing.assert_allclose(np.histogram(drawn, 10, (0, 1))[0] / len(drawn), 0.1, atol=0.02)
    assert len(np.unique(drawn)) > 190


def test_the_budget_is_told_as_it_is_used():
    graph = glace.datasets.planted(50, communities=2, attributes=10, words=3)
    plain = Node2Vec(walks=4, length=10)
    assert plain.budget(graph) == {"walks": 4, "length": 10, "visits": 2000}
    assert Node2Vec(walks=4, length=10, tokens=1000).budget(graph) == {"walks": 2, "length": 10, "visits": 1000}
