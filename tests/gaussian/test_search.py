"""Exact search against brute force."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glace.errors import InputError
from glace.gaussian import search as module
from glace.gaussian.dissimilarity import MEASURES, Gaussian, Roles, named, roles
from glace.gaussian.search import Targets


def gaussians(seed, rows, dim=6):
    rng = np.random.default_rng(seed)
    return Gaussian(
        rng.normal(size=(rows, dim)).astype(np.float32), np.exp(rng.normal(size=(rows, dim))).astype(np.float32)
    )


def alone(rows):
    """Nodes without a context: the same as source and as target."""
    return Roles(rows, rows)


def nearest(measure, queries, nodes, k, exclude=None, among=None):
    """The queries as sources, the nodes as targets."""
    return Targets(measure, nodes.target, nodes.scale).nearest(queries.source, k, exclude, among)


def wide(g):
    return Gaussian(g.mean.astype(np.float64), g.variance.astype(np.float64))


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("k", [1, 3, 50, 80])
def test_equals_brute_force(name, k, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 16)  # several blocks
    nodes, queries = gaussians(1, 50), gaussians(2, 7)
    brute = named(name).direct(wide(queries)[:, None], wide(nodes)[None, :])
    order = np.argsort(brute, axis=1, kind="stable")[:, :k]
    found, values = nearest(named(name), alone(queries), alone(nodes), k)
    np.testing.assert_array_equal(found, order)
    np.testing.assert_allclose(values, np.take_along_axis(brute, order, 1), rtol=1e-12)


def test_excluded_nodes_are_no_answer():
    nodes = gaussians(3, 20)
    found, _ = nearest(named("kl"), alone(nodes[[4, 9]]), alone(nodes), 30, exclude=[[4], [9]])
    assert found.shape == (2, 20)
    for query, row in enumerate(found):
        assert sorted(row) == [-1, *(node for node in range(20) if node != (4, 9)[query])]


def test_equal_dissimilarities_come_in_the_order_of_the_nodes():
    nodes = Gaussian(np.ones((5, 2), np.float32), np.ones((5, 2), np.float32))
    found, values = nearest(named("symmetric_kl"), alone(nodes[[2]]), alone(nodes), 4, exclude=[[2]])
    assert found[0].tolist() == [0, 1, 3, 4]
    assert values[0].tolist() == [0, 0, 0, 0]


def test_many_equal_nodes_come_in_their_order():
    nodes = Gaussian(np.ones((20_000, 2), np.float32) * 0.3, np.ones((20_000, 2), np.float32) * 1.7)
    found, _ = nearest(named("symmetric_kl"), alone(nodes[[7]]), alone(nodes), 5, exclude=[[7]])
    assert found[0].tolist() == [0, 1, 2, 3, 4]


def test_many_queries_go_in_blocks(monkeypatch):
    monkeypatch.setattr(module, "QUERIES", 3)
    nodes = gaussians(6, 20)
    whole, _ = nearest(named("kl"), alone(nodes), alone(nodes), 4, exclude=[[q] for q in range(20)])
    single = [nearest(named("kl"), alone(nodes[[q]]), alone(nodes), 4, exclude=[[q]])[0][0] for q in range(20)]
    np.testing.assert_array_equal(whole, single)
    assert nearest(named("kl"), alone(nodes[:0]), alone(nodes), 4)[0].shape == (0, 4)


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_k_must_be_a_count(k):
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        nearest(named("kl"), alone(gaussians(1, 2)), alone(gaussians(2, 3)), k)


@pytest.mark.parametrize("name", MEASURES)
def test_with_a_context_nodes_are_compared_with_the_context_of_others(name):
    own, context, measure = wide(gaussians(4, 30)), wide(gaussians(5, 30)), named(name)
    forth = measure.direct(own[:, None], context[None, :])
    brute = (forth + forth.T) / 2 if measure.symmetric else forth
    judged = roles(measure, own, context)
    found, values = nearest(measure, judged, judged, 30)
    order = np.argsort(brute, axis=1, kind="stable")
    np.testing.assert_array_equal(found, order)
    np.testing.assert_allclose(values, np.take_along_axis(brute, order, 1), rtol=1e-9, atol=1e-12)


def test_where_no_node_may_be_an_answer_there_is_none():
    nodes = gaussians(6, 5)
    found, values = nearest(named("kl"), alone(nodes[:2]), alone(nodes), 3, among=np.zeros(5, dtype=bool))
    assert found.shape == values.shape == (2, 0)


def brute_force(measure, queries, nodes, k, exclude, among):
    far = measure.direct(wide(queries)[:, None], wide(nodes)[None, :])
    for query, left_out in enumerate(exclude):
        far[query, left_out] = np.inf
    far[:, ~among] = np.inf
    order = np.argsort(far, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(far, order, 1)
    return np.where(np.isinf(values), -1, order), values


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(MEASURES)),
    random_state=st.integers(0, 10**6),
    k=st.integers(1, 60),
    spread=st.sampled_from([0.01, 1.0, 6.0, 30.0]),
    repeated=st.booleans(),
)
def test_equals_brute_force_with_nodes_left_out(name, random_state, k, spread, repeated, monkeypatch):
    """Variances from e^-60 to e^60, many nodes alike, some left out, some nearly all."""
    monkeypatch.setattr(module, "BLOCK", 16)
    monkeypatch.setattr(module, "DIRECT", 7)
    rng = np.random.default_rng(random_state)
    mean = rng.normal(size=(50, 3)).astype(np.float32)
    variance = np.exp(np.clip(spread * rng.normal(size=(50, 3)), -60, 60)).astype(np.float32)
    nodes = Gaussian(mean, variance)
    if repeated:
        nodes = nodes[rng.integers(0, 4, 50)]
    queries = nodes[rng.integers(0, 50, 5)]
    exclude = [rng.choice(50, count, replace=False) for count in (0, 1, 5, 40, 50)]
    among = rng.random(50) < rng.choice([0.1, 0.9])
    among[0] = True
    measure = named(name)
    wanted, far = brute_force(measure, queries, nodes, min(k, int(among.sum())), exclude, among)
    found, values = nearest(measure, alone(queries), alone(nodes), k, exclude, among)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(values, far, rtol=1e-12)


def test_prepared_nodes_are_kept_only_if_they_are_few(monkeypatch):
    nodes = gaussians(1, 50)
    targets = module.Targets(named("kl"), nodes)
    first = targets.nearest(nodes[:3], 4)
    assert targets._kept is not None
    monkeypatch.setattr(module, "KEPT", 100)
    other = module.Targets(named("kl"), nodes)
    np.testing.assert_array_equal(other.nearest(nodes[:3], 4)[0], first[0])
    assert other._kept is None


def test_the_error_bound_counts_in_rounding_units_of_float32():
    assert np.finfo(np.float32).eps / 2 == module.ROUNDING
