"""Batches: right in distribution, free of true neighbours, the same for the same step."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import glace
from glace import blocks
from glace.config.config import SamplingConfig
from glace.errors import InputError
from glace.io.folder import read_folder, write_folder
from glace.rng import Streams
from glace.sampling import edges
from glace.sampling.edges import EdgeSampler


def sampler(graph, random_state=0, **options):
    return EdgeSampler(graph, SamplingConfig(**options), Streams(random_state))


def weighted(directed=True):
    pairs = np.array([[0, 1], [0, 2], [1, 2], [3, 0]])
    return glace.from_arrays(pairs, weights=np.array([1.0, 2.0, 3.0, 4.0]), ids=range(6), directed=directed)


def counts(graph, random_state=0, size=40_000):
    batch = sampler(graph, batch_size=size, random_state=random_state).batch(0)
    table = np.zeros((graph.num_nodes, graph.num_nodes))
    np.add.at(table, (batch.anchors, batch.targets), 1 / size)
    return table


@pytest.mark.parametrize("directed", [True, False])
def test_positives_are_drawn_by_weight(directed):
    graph = weighted(directed)
    wanted = graph.adjacency.toarray() / graph.adjacency.sum()
    np.testing.assert_allclose(counts(graph), wanted, atol=0.01)


@pytest.mark.parametrize("directed", [True, False])
def test_positives_of_a_mapped_graph_are_drawn_by_weight_too(directed, tmp_path):
    write_folder(weighted(directed), tmp_path / "g.graph")
    graph = read_folder(tmp_path / "g.graph")
    wanted = graph.adjacency.toarray() / graph.adjacency.sum()
    np.testing.assert_allclose(counts(graph), wanted, atol=0.01)


@pytest.mark.parametrize("buckets", [3, 1 << 20])
def test_places_are_drawn_by_weight_whatever_the_blocks(monkeypatch, buckets):
    monkeypatch.setattr(edges, "blocks", lambda count: blocks.blocks(count, 2))
    monkeypatch.setattr(edges, "MAX_BUCKETS", buckets)
    weights = np.array([0, 1, 2, 0, 3, 4, 5, 0], dtype=np.float32)
    drawn = edges.WeightedSampler(weights).draw(np.random.default_rng(0), 40_000)
    np.testing.assert_allclose(np.bincount(drawn, minlength=8) / 40_000, weights / 15, atol=0.01)


@given(st.lists(st.floats(0, 1e3, width=32), min_size=2, max_size=60), st.integers(1, 100), st.integers(0, 99))
def test_weighted_draws_are_a_search_in_the_cumulative_sums(weights, buckets, seed):
    assume(len(set(weights)) > 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "MAX_BUCKETS", buckets)
        drawn = edges.WeightedSampler(np.array(weights)).draw(np.random.default_rng(seed), 50)
    sums = np.cumsum(weights)
    np.testing.assert_array_equal(
        drawn, np.searchsorted(sums, np.random.default_rng(seed).random(50) * sums[-1], "right")
    )


def test_the_largest_uniform_number_draws_the_last_weight_above_0():
    class Largest:
        def random(self, size):
            return np.full(size, 1 - 2**-53)

    found = edges.WeightedSampler(np.array([1.0, 2.0, 0.0])).draw(Largest(), 3)  # type: ignore[arg-type]
    assert found.tolist() == [1, 1, 1]


@pytest.mark.parametrize("weights", [False, True])
def test_a_mapped_graph_has_the_same_batches(planted, tmp_path, weights):
    pairs = planted.edges()
    graph = planted.with_edges(pairs, 1.0 + pairs[:, 0] % 5) if weights else planted
    write_folder(graph, tmp_path / "g.graph")
    one, other = sampler(graph).batch(3), sampler(read_folder(tmp_path / "g.graph")).batch(3)
    np.testing.assert_array_equal(one.anchors, other.anchors)
    np.testing.assert_array_equal(one.targets, other.targets)
    np.testing.assert_array_equal(one.negatives, other.negatives)


def test_undirected_edges_count_in_both_directions():
    table = counts(weighted(directed=False))
    np.testing.assert_allclose(table, table.T, atol=0.01)
    assert table[2, 1] > 0.1


@pytest.mark.parametrize("power", [0.0, 0.75, 1.0])
def test_negatives_follow_the_degree_to_the_power(power):
    graph = weighted()
    drawn = sampler(graph, negative_pool_size=60_000, negative_power=power).batch(0).negatives
    noise = np.asarray(graph.adjacency.sum(axis=1), dtype=float) ** power
    np.testing.assert_allclose(np.bincount(drawn, minlength=6) / len(drawn), noise / noise.sum(), atol=0.01)


@pytest.mark.parametrize("kind", ["shared", "independent"])
def test_no_true_neighbour_is_an_allowed_negative(planted, kind):
    batch = sampler(planted, negative_sampling=kind, batch_size=200).batch(3)
    negatives = batch.negatives if batch.negatives.ndim == 2 else np.tile(batch.negatives, (200, 1))
    anchors = np.repeat(batch.anchors, negatives.shape[1])
    joined = planted.has_edges(np.column_stack([anchors, negatives.ravel()])).reshape(negatives.shape)
    forbidden = joined | (negatives == batch.anchors[:, None])
    np.testing.assert_array_equal(batch.allowed, ~forbidden)
    if kind == "independent":
        assert negatives.shape == (200, 5)
        assert batch.allowed.all(), "a sparse graph always has a free node to draw again"


def test_a_batch_depends_on_seed_and_step_only(planted):
    first, again = sampler(planted).batch(7), sampler(planted).batch(7)
    np.testing.assert_array_equal(first.anchors, again.anchors)
    np.testing.assert_array_equal(first.negatives, again.negatives)
    assert (first.anchors != sampler(planted).batch(8).anchors).any()
    assert (first.anchors != sampler(planted, random_state=1).batch(7).anchors).any()


@pytest.mark.parametrize("kind", ["shared", "independent"])
def test_a_batch_by_its_distinct_nodes_means_the_same(planted, kind):
    batch = sampler(planted, negative_sampling=kind, batch_size=50).batch(2)
    nodes, places = batch.distinct()
    assert (np.diff(nodes) > 0).all()
    for whole, by_place in zip(
        (batch.anchors, batch.targets, batch.negatives), (places.anchors, places.targets, places.negatives), strict=True
    ):
        np.testing.assert_array_equal(nodes[by_place], whole)
    assert places.allowed is batch.allowed
    groups = [group.ravel() for group in (batch.anchors, batch.targets, batch.negatives)]
    assert set(nodes) == set(np.concatenate(groups)), "no node that the batch has not"


def test_nodes_joined_to_all_have_no_negatives_left():
    star = glace.from_arrays(np.array([[0, 1], [0, 2], [0, 3]]))
    batch = sampler(star, negative_sampling="independent", batch_size=64).batch(0)
    assert not batch.allowed[batch.anchors == 0].any()
    assert batch.allowed[batch.anchors != 0].any()


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        (np.empty((0, 2), int), 1, "the graph has 1 node; training needs at least 2"),
        (np.empty((0, 2), int), 5, "the graph has no edges"),
        (np.array([[0, 1], [0, 2], [1, 2]]), 3, "complete graph: no negatives can be drawn"),
    ],
)
def test_graphs_that_teach_nothing_are_refused(edges, nodes, message):
    with pytest.raises(InputError, match=message):
        sampler(glace.from_arrays(edges, ids=range(nodes)))
