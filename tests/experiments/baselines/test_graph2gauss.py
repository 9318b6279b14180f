"""Graph2Gauss: the published loss, planted answers, unseen nodes, direction, the same bits every time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

import glace
from glace.errors import InputError, TrainingDiverged
from glace.experiments.baselines import encoders
from glace.experiments.baselines import graph2gauss as hops
from glace.experiments.baselines.encoders import RowEncoder
from glace.experiments.baselines.graph2gauss import Graph2Gauss, HopBatch, HopSampler, batch_loss
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.graph.split import hold_out
from glace.metrics import LinkScores, link_scores
from glace.rng import Streams


def small(**options):
    return Graph2Gauss(**{"dim": 8, "hidden": 32, "batch_size": 128, "max_steps": 100, "validate_every": 25} | options)


def kl(first, second):
    """KL(second || first) of (mean, variance), written out."""
    (m, v), (n, w) = first, second
    return 0.5 * (w / v + (n - m) ** 2 / v - 1 - np.log(w / v)).sum()


@pytest.mark.parametrize("scaled", [False, True])
def test_the_loss_is_that_of_the_paper(planted, scaled):
    encoder = RowEncoder(planted.features(), 16, 4, np.random.default_rng(0))
    triplets = HopSampler(planted, 2, 30, Streams(0)).batch(0).triplets()
    gaussian = encoder.embed(planted.features(), np.arange(planted.num_nodes))
    assert gaussian.variance is not None
    at = list(zip(gaussian.mean.astype(float), gaussian.variance.astype(float), strict=True))
    terms = [
        kl(at[anchor], at[near]) ** 2 + np.exp(-kl(at[anchor], at[far]))
        for anchor, near, far, _ in zip(*triplets, strict=True)
    ]
    wanted = np.average(terms, weights=triplets.weight if scaled else None)
    loss = batch_loss(encoder, planted.features(), triplets, scaled)
    assert loss.item() == pytest.approx(wanted, rel=1e-4)


def test_steps_lower_the_loss(planted):
    attributes = planted.features()
    encoder = RowEncoder(attributes, 16, 4, np.random.default_rng(0))
    sampler = HopSampler(planted, 2, 128, Streams(0))
    others = HopSampler(planted, 2, 500, Streams(1)).batch(0).triplets()
    before = batch_loss(encoder, attributes, others, False).item()
    small(max_steps=30).train(
        encoder, lambda step: batch_loss(encoder, attributes, sampler.batch(step).triplets(), False), None
    )
    assert batch_loss(encoder, attributes, others, False).item() < 0.8 * before


@pytest.mark.parametrize("options", [{}, {"hops": 1}, {"scaled": True}, {"validation_fraction": 0}])
def test_held_out_edges_of_a_planted_graph_are_found(planted, options):
    train, held_out = hold_out(planted, 0.1, np.random.default_rng(0))
    untrained = small(max_steps=1, learning_rate=1e-12, **options).embed(train, Streams(0))
    trained = small(**options).embed(train, Streams(0))
    assert trained.dissimilarity == "symmetric_kl"
    assert link_prediction(trained, held_out).auc > max(0.8, link_prediction(untrained, held_out).auc + 0.1)


def test_the_same_seed_gives_the_same_bits(planted):
    first, again, other = (small(max_steps=20).embed(planted, Streams(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.mean, again.mean)
    np.testing.assert_array_equal(first.variance, again.variance)
    assert (first.mean != other.mean).any()


def test_unseen_nodes_follow_with_the_gaussians_of_their_attributes(planted):
    alone = small(max_steps=20).embed(planted, Streams(0))
    rows = planted.attributes[[5, 9]]
    embedding = small(max_steps=20).embed(planted, Streams(0), unseen=3 * rows)
    assert len(embedding) == planted.num_nodes + 2
    np.testing.assert_array_equal(embedding.mean[:-2], alone.mean)
    # The rows are scaled to unit length, so three times as long they are still the same nodes.
    np.testing.assert_allclose(embedding.mean[-2:], alone.mean[[5, 9]], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(embedding.variance[-2:], alone.variance[[5, 9]], rtol=1e-4)


def test_dense_attributes_are_scaled_by_the_training_nodes(planted):
    """Columns of very unequal size and place: the community, and one that says nothing and is far larger."""
    community = np.eye(10, dtype=np.float32)[planted.labels.codes]
    noise = 1000 * np.random.default_rng(0).standard_normal((400, 1), dtype=np.float32)
    dense = planted.with_attributes(np.hstack([0.01 * community + 7, noise]))
    train, held_out = hold_out(dense, 0.1, np.random.default_rng(0))
    embedding = small().embed(train, Streams(0), unseen=dense.attributes[:3])
    np.testing.assert_allclose(embedding.mean[-3:], embedding.mean[:3], rtol=1e-3, atol=1e-4)
    assert link_prediction(embedding.take(np.arange(400)), held_out).auc > 0.85


def test_the_direction_of_edges_is_learned():
    """Edges lead from each group to the next only: back it is far, and the reverse of an edge must look worse."""
    rng = np.random.default_rng(0)
    group = np.arange(200) // 40
    source = np.repeat(np.arange(160), 4)
    target = 40 * (group[source] + 1) + rng.integers(40, size=len(source))
    pairs = np.unique(np.column_stack([source, target]), axis=0)
    graph = glace.from_arrays(pairs, attributes=np.eye(5, dtype=np.float32)[group], directed=True)
    embedding = small(validation_fraction=0, learning_rate=1e-2, max_steps=200).embed(graph, Streams(0))
    assert embedding.dissimilarity == "kl"
    both = np.concatenate([pairs, pairs[:, ::-1]])
    truth = np.repeat([True, False], len(pairs))
    assert link_scores(-embedding.dissimilarities_at(both), truth).auc > 0.75


def test_the_best_weights_are_kept_and_training_stops_in_time(planted, monkeypatch):
    seen: list[float] = []
    weights = []

    def scores(encoder, attributes, measure, held_out):
        seen.append([0.6, 0.9, 0.8, 0.7][len(seen)])
        weights.append(encoder.embed(attributes, np.arange(400)).mean)
        return LinkScores(seen[-1], 0.5)

    monkeypatch.setattr(encoders, "validation_scores", scores)
    embedding = small(max_steps=50, validate_every=5, patience=2).embed(planted, Streams(0))
    assert len(seen) == 4
    np.testing.assert_array_equal(embedding.mean, weights[1])


def test_no_node_is_encoded_that_the_batch_has_not(planted, encoded_rows):
    triplets = HopSampler(planted, 2, 10, Streams(0)).batch(0).triplets()
    encoder = RowEncoder(planted.features(), 16, 4, np.random.default_rng(0))
    batch_loss(encoder, planted.features(), triplets, False)
    assert encoded_rows == [len(np.unique(np.concatenate(triplets[:3])))]


def test_a_graph_without_attributes_is_learned_by_identity(planted):
    bare = planted.without_attributes()
    assert small(max_steps=5).embed(bare, Streams(0)).mean.shape == (400, 8)
    with pytest.raises(InputError, match="the graph has no attributes"):
        small().embed(bare, Streams(0), unseen=np.ones((1, 400)))


def test_unseen_nodes_need_the_same_columns(planted):
    with pytest.raises(InputError, match=r"the 120 attributes of the graph, but have the shape \(2, 3\)"):
        small().embed(planted, Streams(0), unseen=np.ones((2, 3)))


def test_a_loss_that_is_not_finite_raises(planted):
    with pytest.raises(TrainingDiverged, match="learning rate 1e"):
        small(learning_rate=1e30).embed(planted, Streams(0))


# Batches of rings: even draws, right sizes, the same for the same step; triplets that hold.


def sampler(graph, hops=2, batch_size=300, seed=0, **options):
    return HopSampler(graph, hops, batch_size, Streams(seed), **options)


def two_stars():
    """Hub 0 with leaves 1 to 4, hub 5 with leaves 6 to 9, joined by their hubs; node 10 is alone."""
    edges = [(0, leaf) for leaf in range(1, 5)] + [(5, leaf) for leaf in range(6, 10)] + [(0, 5)]
    return glace.from_arrays(np.array(edges), ids=range(11))


def test_each_ring_is_drawn_from_evenly():
    drawn = sampler(two_stars()).around(np.full(20_000, 1), np.random.default_rng(0)).nodes
    for column, ring in enumerate([[0], [2, 3, 4, 5], [6, 7, 8, 9, 10]]):
        found = drawn[drawn[:, column] >= 0, column]  # now and then no redraw finds a farther node
        share = np.bincount(found, minlength=11) / len(found)
        np.testing.assert_allclose(share[ring], 1 / len(ring), atol=0.02)


def test_what_is_followed_in_part_is_drawn_from_evenly_and_counted_in_full():
    """From the leaf 1 the hub's edges lead to 4 new nodes; any 3 of the 5 are followed."""
    batch = sampler(two_stars(), reach=3).around(np.full(20_000, 1), np.random.default_rng(0))
    share = np.bincount(batch.nodes[:, 1], minlength=11) / len(batch.nodes)
    np.testing.assert_allclose(share[[2, 3, 4, 5]], 1 / 4, atol=0.06)
    assert share[[2, 3, 4, 5]].sum() == pytest.approx(1)
    assert batch.sizes[:, 1].mean() == pytest.approx(4, rel=0.02)


def test_anchors_are_drawn_evenly_among_nodes_with_edges():
    anchors = sampler(two_stars(), batch_size=20_000).batch(0).anchors
    np.testing.assert_allclose(np.bincount(anchors, minlength=11) / 20_000, [0.1] * 10 + [0], atol=0.01)


@pytest.mark.parametrize("directed", [False, True])
def test_the_nearer_of_a_triplet_has_fewer_hops(directed):
    graph = glace.datasets.planted(120, communities=4, degree=4, attributes=20, words=4, directed=directed)
    steps = shortest_path(graph.adjacency, unweighted=True)
    anchor, closer, further, weight = sampler(graph, hops=3).batch(0).triplets()
    assert (steps[anchor, closer] < steps[anchor, further]).all()
    ring = np.minimum(steps, 4)  # all farther nodes are one ring
    sizes = [(ring[anchor] == ring[anchor, other][:, None]).sum(1) for other in (closer, further)]
    np.testing.assert_array_equal(weight, sizes[0] * sizes[1])


def test_triplets_pair_every_two_rings_that_are_there():
    nodes = np.array([[4, 5, 6], [7, -1, 8], [9, -1, -1]])
    sizes = np.array([[2.0, 3.0, 10.0], [1.0, 0.0, 5.0], [2.0, 0.0, 0.0]])
    triplets = HopBatch(np.array([0, 1, 2]), nodes, sizes).triplets()
    rows = sorted(zip(*(part.tolist() for part in triplets), strict=True))
    assert rows == [(0, 4, 5, 6.0), (0, 4, 6, 20.0), (0, 5, 6, 30.0), (1, 7, 8, 5.0)]


def test_a_batch_depends_on_seed_and_step_only(planted):
    first, again = sampler(planted).batch(7), sampler(planted).batch(7)
    np.testing.assert_array_equal(first.nodes, again.nodes)
    assert (first.nodes != sampler(planted).batch(8).nodes).any()
    assert (first.nodes != sampler(planted, seed=1).batch(7).nodes).any()


def test_graphs_that_rank_nothing_are_refused():
    with pytest.raises(InputError, match="complete graph"):
        sampler(glace.from_arrays(np.array([[0, 1], [0, 2], [1, 2]])))


# Rings around anchors, against scipy's shortest paths.


NODES = 12
FAR = np.iinfo(np.int64).max


def random_graph(seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((NODES, NODES)) < rng.uniform(0.02, 0.4)
    np.fill_diagonal(dense, False)
    return rng, csr_array(dense.astype(np.float32))


def rings(adjacency, anchors, rng, depth, reach):
    """The kernel's answer, and its scratch after it."""
    seen, ball = np.zeros(NODES, bool), np.empty(NODES, np.int64)
    nodes = np.empty((len(anchors), depth + 1), np.int64)
    sizes = np.empty(nodes.shape)
    # Every node is a candidate: one that is farther is found if there is one.
    candidates = rng.permuted(np.tile(np.arange(NODES), (len(anchors), 1)), axis=1)
    uniform = rng.random((len(anchors), 2 * depth))
    graph = adjacency.indptr, adjacency.indices
    hops.sample_hops(*graph, anchors, uniform, candidates, reach, seen, ball, nodes, sizes)
    return nodes, sizes, seen


def true_ring(adjacency, depth):
    """(n, n) ring of every pair, 0 to `depth` for 1 to depth + 1 and more hops; -1 on the diagonal."""
    steps = shortest_path(adjacency, unweighted=True)
    return np.minimum(steps - 1, depth).astype(int)


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_rings_and_their_sizes_are_those_of_shortest_paths(seed, depth):
    rng, adjacency = random_graph(seed)
    anchors = np.arange(NODES)
    nodes, sizes, seen = rings(adjacency, anchors, rng, depth, reach=1000)
    ring = true_ring(adjacency, depth)
    wanted = np.array([[(row == k).sum() for k in range(depth + 1)] for row in ring])
    np.testing.assert_array_equal(sizes, wanted)
    np.testing.assert_array_equal(nodes >= 0, wanted > 0)
    anchor, column = np.nonzero(nodes >= 0)
    np.testing.assert_array_equal(ring[anchor, nodes[anchor, column]], column)
    assert not seen.any(), "scratch is left as it came"


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_short_reach_draws_no_nearer_node_than_it_says(seed, reach):
    rng, adjacency = random_graph(seed)
    anchors = np.repeat(np.arange(NODES), 4)
    nodes, sizes, seen = rings(adjacency, anchors, rng, 2, reach)
    ring = true_ring(adjacency, 2)[anchors]
    np.testing.assert_array_equal(sizes[:, 0], (ring == 0).sum(1), "the first ring is always whole")
    found = np.where(nodes < 0, FAR, np.take_along_axis(ring, nodes.clip(0), axis=1))
    assert (found[:, 0] == np.where(nodes[:, 0] < 0, FAR, 0)).all()
    assert (found[:, 1] == np.where(nodes[:, 1] < 0, FAR, 1)).all()
    assert (found[:, 2] >= 1).all(), "what was not followed may pass for farther, a neighbour never"
    assert not seen.any()
