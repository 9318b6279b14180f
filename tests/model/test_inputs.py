"""What encoders are given of a node, against plain numpy; what a step of training hides stays hidden."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import glace
from glace.config.config import ModelConfig, SamplingConfig, TrainingConfig
from glace.errors import InputError
from glace.fitted.state import graph_inputs, input_shape
from glace.model.inputs import MAX_NEIGHBORS, InputMask, partners
from glace.model.layers import LENGTH, SHORT, VARIANCE_FLOOR
from glace.model.network import Network, input_types
from glace.rng import Streams
from glace.sampling.edges import EdgeSampler
from glace.training.loop import Trainer

NO_PAIRS = np.empty((0, 2), np.int64)


@pytest.fixture(scope="module")
def graph():
    """Weighted; attributes of one node are empty, and two nodes have no edges."""
    plain = glace.datasets.planted(60, communities=3, degree=6, attributes=40, words=6, random_state=1)
    edges = plain.edges()[(plain.edges() < 58).all(axis=1)]
    weights = np.random.default_rng(0).random(len(edges)) + 0.1
    x = sp.csr_array(sp.csr_array(plain.features()).multiply((np.arange(60) != 4)[:, None]))
    return glace.from_arrays(edges, x, weights=weights, ids=range(60))


def network_of(graph, neighbor_features="mean", **options):
    x = graph.features()
    config = ModelConfig(
        dim=4,
        hidden=8,
        ensemble_size=1,
        hidden_length="bounded",
        neighbor_features=neighbor_features,
        **{"neighbor_dropout": 0, "dropout": 0, "offset": 4.0} | options,
    )
    shapes = {each.name: input_shape(each) for each in graph.by_type().types}
    network = Network(input_types(shapes, config), config, "symmetric_kl", Streams(0))
    network.standardize([x])
    return network


KINDS = {"words": ("sparse", "unit"), "many words": ("dense", "unit"), "measured": ("dense", "standard"),
         "mixed": ("sparse", "mixed")}  # fmt: skip
"""Attributes by what their values are, with the storage and the scaling that follow."""


def of_kind(graph, kind):
    """The graph with 40 attributes of a kind; those of node 4 stay empty unless they are measured."""
    rng, x = np.random.default_rng(2), graph.attributes.toarray()
    if kind == "many words":
        x = x + (rng.random(x.shape) < 0.3) * (np.arange(60) != 4)[:, None]
    elif kind == "measured":
        x = x + rng.normal(size=x.shape)
    elif kind == "mixed":
        x[:, [2, 30]] = rng.normal(100, 5, size=(60, 2))
    made = graph.with_attributes(x)
    (only,) = made.by_type().types
    assert (only.storage, only.scaling) == KINDS[kind]
    return made


def dense(graph):
    return of_kind(graph, "measured")


def unit_rows(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)


def mean_of_neighbors(adjacency, x):
    total = adjacency.sum(axis=1, keepdims=True)
    return np.where(total > 0, adjacency @ x / np.where(total > 0, total, 1), 0)


def as_array(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def joined(rows):
    """The input rows of one node type as one array: own attributes, and the neighbours' means beside them."""
    return np.hstack([as_array(rows.own[0]), *map(as_array, rows.neighbors)])


def oracle(graph, adjacency=None):
    """All rows, scaled and joined, in float64."""
    adjacency = graph.adjacency.toarray() if adjacency is None else adjacency
    x = as_array(graph.features()).astype(np.float64)
    deviation, (only,) = x.std(axis=0), graph.by_type().types
    measured = (x - x.mean(axis=0)) / np.where(deviation == 0, 1, deviation)
    if only.scaling == "mixed":
        are_measured = np.isin(np.arange(40), [2, 30])
        x = np.where(are_measured, measured / 2**0.5, unit_rows(np.where(are_measured, 0, x)))
    else:
        x = measured if only.scaling == "standard" else unit_rows(x)
    return np.hstack([x, mean_of_neighbors(adjacency, x)])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_scaled_attributes_and_the_mean_of_the_neighbors(graph, kind):
    graph = of_kind(graph, kind)
    nodes = np.array([58, 3, 4, 10, 3])
    made = graph_inputs(network_of(graph), graph).rows(nodes)
    assert [sp.issparse(each) for each in (*made.own, *made.neighbors)] == [KINDS[kind][0] == "sparse"] * 2
    rows = joined(made)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, oracle(graph)[nodes], rtol=1e-4, atol=1e-5)
    assert (rows[0, 40:] == 0).all(), "a node without edges has no mean"


@pytest.mark.parametrize("scaling", ["unit", "standard", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_scaling_that_is_asked_for_is_used_whatever_the_values_are(graph, kind, scaling):
    graph = of_kind(graph, kind)
    x = as_array(graph.features()).astype(np.float64)
    deviation = np.where(x.std(axis=0) == 0, 1, x.std(axis=0))
    wanted = {"unit": unit_rows(x), "standard": (x - x.mean(axis=0)) / deviation, "none": x}[scaling]
    rows = joined(graph_inputs(network_of(graph, scaling=scaling), graph).rows(np.arange(60)))
    means = mean_of_neighbors(graph.adjacency.toarray(), wanted)
    np.testing.assert_allclose(rows, np.hstack([wanted, means]), rtol=1e-4, atol=1e-5)


def test_a_constant_column_is_only_moved(graph):
    x = dense(graph).attributes.copy()
    x[:, 2] = 7
    changed = graph.with_attributes(x)
    rows = joined(graph_inputs(network_of(changed), changed).rows(np.arange(58)))
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows[:, [2, 42]], 0, atol=1e-5)


def test_without_neighbors_a_row_is_the_attributes_alone(graph):
    rows = graph_inputs(network_of(graph, "none"), graph).rows(np.arange(60))
    assert not rows.neighbors
    np.testing.assert_allclose(joined(rows), oracle(graph)[:, :40], rtol=1e-5, atol=1e-7)


def test_new_nodes_have_no_neighbors(graph):
    rows = joined(network_of(graph).inputs([graph.features()], None).rows(np.arange(60)))
    np.testing.assert_allclose(rows[:, :40], oracle(graph)[:, :40], rtol=1e-5, atol=1e-7)
    assert (rows[:, 40:] == 0).all()


def test_neighbors_are_so_whichever_way_an_edge_points(graph):
    directed = glace.from_arrays(graph.edges(), graph.attributes, ids=range(60), directed=True)
    both = directed.adjacency.toarray() + directed.adjacency.T.toarray()
    rows = graph_inputs(network_of(directed), directed).rows(np.arange(60))
    np.testing.assert_allclose(joined(rows), oracle(directed, both), rtol=1e-4, atol=1e-6)


def test_hashed_attributes_have_a_column_and_a_sign_each(graph):
    """What each attribute is turned to is read off rows with one attribute; all else follows from it."""
    alone = glace.from_arrays(graph.edges(), sp.eye_array(60, format="csr"), ids=range(60))
    each = network_of(alone, "none", n_hashed_features=7).inputs([alone.features()], None)
    table = joined(each.rows(np.arange(60)))[:40].astype(np.float64)
    assert table.shape == (40, 7)
    assert (np.abs(table).sum(axis=1) == 1).all()
    assert {-1.0, 1.0} <= set(table.ravel())
    assert len(np.unique(np.abs(table).argmax(axis=1))) >= 6
    rows = graph_inputs(network_of(graph, n_hashed_features=7), graph).rows(np.arange(60))
    own, neighbors = np.hsplit(oracle(graph), 2)
    np.testing.assert_allclose(joined(rows), np.hstack([own @ table, neighbors @ table]), rtol=1e-4, atol=1e-6)


def test_products_of_hashed_rows_are_right_on_average():
    rng = np.random.default_rng(0)
    x = sp.random_array((2, 100_000), density=0.002, rng=rng, format="csr", dtype=np.float32)
    x = sp.csr_array(x + x[[1, 0]])  # rows with much in common
    graph = glace.from_arrays(np.array([[0, 1]]), x)
    products = []
    for width in (4096, 4097, 5000, 6000):
        rows = network_of(graph, "none", n_hashed_features=width).inputs([x], None).rows(np.arange(2)).own[0]
        products.append(float((rows[[0]] @ rows[[1]].T).toarray()[0, 0]))
    assert np.mean(products) == pytest.approx(1.0, abs=0.05)


def test_dense_attributes_are_not_hashed(graph):
    with pytest.raises(InputError, match="n_hashed_features is for sparse attributes, but these are dense"):
        network_of(dense(graph), n_hashed_features=7)


# What a step hides


def mask(dropout=0.0, neighbor_dropout=0.0, pairs=NO_PAIRS, seed=5, neighbors=MAX_NEIGHBORS):
    return InputMask(seed, dropout, neighbor_dropout, pairs, neighbors)


@pytest.mark.parametrize("kind", KINDS)
def test_both_ends_of_a_pair_do_not_see_each_other(graph, kind):
    graph = of_kind(graph, kind)
    pairs = graph.edges()[::7]
    nodes = np.unique(np.concatenate([pairs.ravel(), [2, 4, 59]]))
    rest = graph.adjacency.toarray()
    rest[pairs[:, 0], pairs[:, 1]] = rest[pairs[:, 1], pairs[:, 0]] = 0
    for listed in (pairs, pairs[:, ::-1], np.concatenate([pairs, pairs])):
        rows = graph_inputs(network_of(graph), graph).rows(nodes, mask(pairs=listed, neighbors=1000))
        np.testing.assert_allclose(joined(rows), oracle(graph, rest)[nodes], rtol=1e-4, atol=1e-5)


def means_seen(graph, nodes, hidden):
    """Which nodes have a part in each row's mean: attributes are the nodes' own numbers."""
    bare = graph.without_attributes()
    means: Any = graph_inputs(network_of(bare), bare).rows(nodes, hidden).neighbors[0]
    return means.toarray() > 0


def test_a_step_looks_at_few_neighbors(graph):
    seen = means_seen(graph, np.arange(60), mask())
    degrees = np.diff(graph.adjacency.indptr)
    np.testing.assert_array_equal(seen.sum(axis=1), np.minimum(degrees, MAX_NEIGHBORS))
    assert degrees.max() > MAX_NEIGHBORS


def test_neighbors_of_a_share_of_the_nodes_are_dropped(graph):
    counts = [
        means_seen(graph, np.arange(58), mask(neighbor_dropout=0.4, seed=seed)).any(axis=1).mean() for seed in range(60)
    ]
    joined = (np.diff(graph.adjacency.indptr)[:58] > 0).mean()
    assert np.mean(counts) == pytest.approx(0.6 * joined, abs=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_keeps_the_expectation(graph, kind):
    graph = of_kind(graph, kind)
    inputs, nodes = graph_inputs(network_of(graph), graph), np.arange(10)
    whole = joined(inputs.rows(nodes))
    drawn = [joined(inputs.rows(nodes, mask(dropout=0.3, seed=seed, neighbors=1000))) for seed in range(1500)]
    np.testing.assert_allclose(np.mean(drawn, axis=0), whole, atol=0.06 * np.abs(whole).max())
    own = whole[:, :40]
    gone = np.mean([(each[:, :40][own != 0] == 0).mean() for each in drawn])
    assert gone == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_mask_hides_the_same(graph, kind):
    graph = of_kind(graph, kind)
    inputs, nodes = graph_inputs(network_of(graph), graph), np.arange(40)
    first, again, other = (joined(inputs.rows(nodes, mask(0.3, 0.5, graph.edges()[:5], seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@given(st.data())
def test_partners_are_the_other_ends(data):
    nodes = np.array(sorted(data.draw(st.sets(st.integers(0, 50), min_size=2, max_size=12))))
    ends = st.sampled_from(nodes.tolist())
    pairs = np.array(data.draw(st.lists(st.tuples(ends, ends), max_size=15)), dtype=np.int64).reshape(-1, 2)
    start, other = partners(nodes, pairs)
    assert (start[0], start[-1], len(start)) == (0, len(other), len(nodes) + 1)
    for place, node in enumerate(nodes):
        wanted = [b for a, b in pairs if a == node] + [a for a, b in pairs if b == node]
        assert sorted(other[start[place] : start[place + 1]]) == sorted(wanted)


# Networks that see neighbors


@pytest.mark.parametrize("kind", KINDS)
def test_gaussians_of_a_network_with_neighbors_are_those_of_its_formula(graph, kind, monkeypatch):
    monkeypatch.setattr("glace.model.network.ENCODE_ROWS", 7)
    graph = of_kind(graph, kind)
    network = network_of(graph)
    own, context = network.embed(graph_inputs(network, graph), np.arange(60))
    weights = {name: value.astype(np.float64) for name, value in network.weights().items()}
    layer, head = "branches.0.encoders.first.input.", "branches.0.encoders.first.heads.0."
    own_part, neighbor_part = np.hsplit(oracle(graph), 2)
    u = own_part @ weights[f"{layer}own.0.weight"] + neighbor_part @ weights[f"{layer}neighbors.0.weight"]
    u = np.maximum(u + weights[f"{layer}own.0.bias"], 0)
    u *= LENGTH * u.shape[1] ** 0.5 / np.sqrt((u**2).sum(axis=1, keepdims=True) + SHORT**2)
    mean, spread = np.hsplit(u @ weights[f"{head}weight"] + weights[f"{head}bias"], 2)
    np.testing.assert_allclose(own.mean, mean, rtol=1e-3, atol=1e-5)
    variance = np.where(spread > 0, spread, np.expm1(np.minimum(spread, 0))) + 1 + VARIANCE_FLOOR
    np.testing.assert_allclose(own.variance, variance, rtol=1e-4)
    assert context is None


def test_an_edge_of_the_batch_is_in_the_mean_of_neither_end(planted):
    """The answer must not stand in the input: seen from every batch of a run, in both directions."""
    bare = planted.without_attributes()
    network = network_of(bare)
    sampler = EdgeSampler(bare, SamplingConfig(batch_size=64, negative_pool_size=32), Streams(0))
    trainer = Trainer(network, graph_inputs(network, bare), sampler, None, TrainingConfig(max_steps=3))
    seen = []
    rows = trainer.inputs.rows

    def heard(nodes, hidden=None):
        means: Any = rows(nodes, hidden).neighbors[0]
        seen.append((nodes, means.toarray()))
        return rows(nodes, hidden)

    trainer.inputs.rows = heard  # type: ignore[method-assign]
    trainer.run()
    for step in range(3):
        batch = sampler.batch(step)
        nodes, means = seen[step]
        for a, b in zip(batch.anchors, batch.targets, strict=True):
            assert means[np.searchsorted(nodes, a), b] == 0
            assert means[np.searchsorted(nodes, b), a] == 0
        assert means.sum() > 0.5 * len(nodes), "others are there"


def test_training_without_leaving_edges_out_would_leak(planted):
    """The leak that the test above looks for exists if the pairs are not hidden."""
    edges = planted.edges()[:40]
    nodes = np.unique(edges)
    seen = means_seen(planted, nodes, mask())
    at = np.searchsorted(nodes, edges[:, 0])
    assert seen[at, edges[:, 1]].any()


def test_inputs_know_their_size_and_scale_nothing_unless_asked(graph):
    network = network_of(dense(graph), "none", scaling="none")
    inputs = network.inputs([x := dense(graph).features()], None)
    assert len(inputs) == 60
    np.testing.assert_array_equal(inputs.rows(np.array([2, 0])).own[0], x[[2, 0]])


@pytest.mark.parametrize("neighbors", ["mean", "none"])
def test_weights_start_within_the_bound_of_all_columns_together(graph, neighbors):
    """Own and neighbours' columns are summed into one hidden layer, so its fan-in is that of both."""
    network = network_of(graph, neighbors)
    weights = [
        value for name, value in network.weights().items() if name in network.column_weights() and value.ndim == 2
    ]
    bound = (6 / (40 * len(weights) + 8)) ** 0.5
    assert len(weights) == (2 if neighbors == "mean" else 1)
    for weight in weights:
        assert np.abs(weight).max() == pytest.approx(bound, rel=0.05)
        assert np.abs(weight).max() <= bound


def test_one_hot_nodes_are_not_dropped(graph):
    bare = graph.without_attributes()
    rows = graph_inputs(network_of(bare), bare).rows(np.arange(60), mask(dropout=0.9))
    own: Any = rows.own[0]
    np.testing.assert_array_equal(own.toarray(), np.eye(60))


def test_the_scale_of_dense_columns_travels_with_the_weights(graph):
    graph = dense(graph)
    network = network_of(graph)
    other = Network(network.types, network.config, "symmetric_kl", Streams(9))
    other.set_weights(network.weights())
    old, new = network.weights(), other.weights()
    for name in ("scales.0.shift", "scales.0.scale"):
        np.testing.assert_array_equal(new[name], old[name])
    assert np.abs(old["scales.0.shift"]).sum() > 0
