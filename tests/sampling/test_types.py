"""A negative has the type of the node it replaces."""

import numpy as np
import pytest

import glace
from glace.config.config import SamplingConfig
from glace.errors import InputError
from glace.rng import Streams
from glace.sampling.edges import EdgeSampler


def graph_of(types, edges, directed=False):
    return glace.from_arrays(edges, node_types=types, directed=directed, ids=range(len(types)))


@pytest.fixture(scope="module")
def bipartite():
    """30 rare nodes and 300 common ones."""
    rng = np.random.default_rng(0)
    types = ["rare"] * 30 + ["common"] * 300
    edges = np.unique(np.column_stack([rng.integers(30, size=900), rng.integers(30, 330, size=900)]), axis=0)
    return graph_of(types, edges)


@pytest.mark.parametrize("power", [0.0, 0.75])
@pytest.mark.parametrize("kind", ["shared", "independent"])
def test_negatives_have_the_type_of_the_target(bipartite, kind, power):
    config = SamplingConfig(batch_size=200, negative_pool_size=50, negative_sampling=kind, negative_power=power)
    batch = EdgeSampler(bipartite, config, Streams(0)).batch(3)
    types = bipartite.node_types.codes
    negatives = batch.negatives[None, :] if kind == "shared" else batch.negatives
    same = types[negatives] == types[batch.targets][:, None]
    assert not (batch.allowed & ~same).any()
    assert batch.allowed.any(axis=1).mean() > 0.95
    wrong = np.column_stack(
        [np.repeat(batch.anchors, negatives.shape[1]), np.broadcast_to(negatives, same.shape).ravel()]
    )
    joined = bipartite.has_edges(wrong).reshape(same.shape)
    np.testing.assert_array_equal(batch.allowed, same & ~joined)


def test_types_are_as_common_in_the_pool_as_among_targets(bipartite):
    sampler = EdgeSampler(bipartite, SamplingConfig(batch_size=400, negative_pool_size=100), Streams(0))
    types = bipartite.node_types.codes
    shares = [np.mean(types[sampler.batch(step).negatives]) for step in range(20)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)


def test_a_rare_type_is_in_the_pool_whenever_it_is_a_target():
    types = ["a"] * 50 + ["b"] * 50 + ["c"] * 2
    edges = [(i, 50 + (i + k) % 50) for i in range(50) for k in range(3)] + [(0, 100)]
    sampler = EdgeSampler(graph_of(types, edges), SamplingConfig(batch_size=300, negative_pool_size=8), Streams(0))
    for step in range(10):
        batch = sampler.batch(step)
        if (batch.targets == 100).any():
            assert np.isin([100, 101], batch.negatives).any()


def test_nodes_without_a_type_are_a_type_of_their_own(bipartite):
    types = ["a", "a", "a", None, None, None]
    sampler = EdgeSampler(
        graph_of(types, [(0, 3), (1, 4), (2, 5)]), SamplingConfig(batch_size=50, negative_pool_size=20), Streams(0)
    )
    batch = sampler.batch(0)
    assert not (batch.allowed & ((batch.targets[:, None] < 3) != (batch.negatives < 3))).any()


def test_complete_bipartite_graphs_have_no_negatives():
    types = ["a", "a", "b", "b"]
    complete = [(a, b) for a in (0, 1) for b in (2, 3)]
    with pytest.raises(InputError, match="has edges to all nodes of the same type as its neighbours"):
        EdgeSampler(graph_of(types, complete), SamplingConfig(), Streams(0))
    EdgeSampler(graph_of(types, complete[:-1]), SamplingConfig(), Streams(0))
    # Without types they would be told from pairs within a type.
    EdgeSampler(glace.from_arrays(complete), SamplingConfig(), Streams(0))


def test_targets_without_weight_of_their_own_are_drawn_evenly():
    """In a directed graph the targets may have no edges that go out, and a power of their degree is 0."""
    types = ["a"] * 20 + ["b"] * 20
    graph = graph_of(types, [(i, 20 + (i + k) % 20) for i in range(20) for k in range(2)], directed=True)
    batch = EdgeSampler(
        graph, SamplingConfig(batch_size=100, negative_pool_size=40, negative_power=0.75), Streams(0)
    ).batch(0)
    assert (batch.negatives >= 20).all()
    assert len(np.unique(batch.negatives)) > 10
