"""The loss against the paper's formula, written out edge by edge."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

import glace
from glace.config.config import ModelConfig, SamplingConfig
from glace.fitted.state import input_shape
from glace.gaussian.dissimilarity import MEASURES
from glace.model.layers import SparseInput, sparse_inputs
from glace.model.network import Network, batch_loss, divided, edge_loss, input_types, negative_loss, torch_negative_loss
from glace.rng import Streams
from glace.sampling.edges import EdgeSampler

SETTLED: dict[str, Any] = {
    "dim": 4, "hidden": 8, "ensemble_size": 1, "neighbor_features": "none", "neighbor_dropout": 0, "dropout": 0,
    "offset": "learned",
}  # fmt: skip


def network_of(graph, measure="symmetric_kl", **options):
    config, (only,) = ModelConfig(**SETTLED | options), graph.by_type().types
    network = Network(input_types({"": input_shape(only)}, config), config, measure, Streams(0))
    network.standardize([graph.features()])
    return network


def batch_of(graph, kind, **options):
    config = SamplingConfig(batch_size=20, negative_pool_size=15, n_negatives=3, negative_sampling=kind, **options)
    return EdgeSampler(graph, config, Streams(1)).batch(0)


def loss_of(network, graph, batch):
    rows = input_rows(network, graph)
    return batch_loss(network, rows, batch.anchors, batch.targets, batch.negatives, batch.allowed, 3)


def input_rows(network, graph):
    return network.inputs([graph.features()], graph.adjacency).rows(np.arange(graph.num_nodes))


def embedded(network, graph, count):
    return network.embed(network.inputs([graph.features()], graph.adjacency), np.arange(count))[0]


def members_of(network):
    """The dimensions of each of the encoders side by side."""
    ends = np.cumsum([0, *network.dims])
    return [slice(begin, end) for begin, end in itertools.pairwise(ends)]


def edge_by_edge(measure, own, other, offset, batch):
    total = torch.tensor(0.0)
    for b, (i, j) in enumerate(zip(batch.anchors, batch.targets, strict=True)):
        drawn = batch.negatives if batch.negatives.ndim == 1 else batch.negatives[b]
        kept = [v for v, fine in zip(drawn, batch.allowed[b], strict=True) if fine]
        terms = [logsigmoid(measure(own[i], other[v]) - offset) for v in kept]
        total -= logsigmoid(offset - measure(own[i], other[j]))
        total -= 3 * sum(terms) / max(len(terms), 1)
    return total


def spelled_out(network, graph, batch):
    """Eq. 12 and 13 of the paper for one batch, with plain loops."""
    rows, everyone = input_rows(network, graph), np.arange(graph.num_nodes)
    total = torch.tensor(0.0)
    for part in network.proximities:
        own = network.encoders[part](rows, everyone)
        other = network.encoders["context" if part == "second" else part](rows, everyone)
        for dims, offset in zip(members_of(network), network.offsets[part], strict=True):
            total += edge_by_edge(network.measure.direct, own[..., dims], other[..., dims], offset, batch)
    return total / len(batch.anchors)


@pytest.mark.parametrize("kind", ["shared", "independent"])
@pytest.mark.parametrize("proximity", ["first", "second", "both"])
@pytest.mark.parametrize("measure", MEASURES)
def test_batch_loss_is_the_papers_objective(planted, measure, proximity, kind):
    network = network_of(planted, measure, proximity=proximity)
    batch = batch_of(planted, kind)
    found, wanted = loss_of(network, planted, batch), spelled_out(network, planted, batch)
    np.testing.assert_allclose(found.item(), wanted.item(), rtol=1e-4)


@pytest.mark.parametrize("proximity", ["first", "both"])
def test_members_have_each_their_own_objective(planted, proximity):
    network = network_of(planted, proximity=proximity, ensemble_size=3, hidden=10)
    assert (network.dims, network.offset()) == ([2, 1, 1], 12 * len(network.proximities))
    batch = batch_of(planted, "shared")
    found, wanted = loss_of(network, planted, batch), spelled_out(network, planted, batch)
    np.testing.assert_allclose(found.item(), wanted.item(), rtol=1e-4)


def test_members_have_nothing_in_common(planted):
    """Each is what a network of its share of the hidden layer alone would be."""
    network = network_of(planted, ensemble_size=3, hidden=10, dim=5)
    encoder, rows = network.encoders["first"], input_rows(network, planted).own[0].toarray()
    whole = embedded(network, planted, 400)
    weights, bias = encoder.input.own[0].weight.numpy(), encoder.input.own[0].bias.detach().numpy()
    assert encoder.widths == [4, 3, 3]
    begin = 0
    for dims, share, head in zip(members_of(network), encoder.widths, encoder.heads, strict=True):
        own = slice(begin, begin + share)
        with torch.no_grad():
            alone = head(torch.from_numpy(np.maximum(rows @ weights[:, own] + bias[own], 0)).float())
        np.testing.assert_allclose(whole.mean[:, dims], alone.mean.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(whole.variance[:, dims], alone.variance.numpy(), rtol=1e-4)
        begin += share


@pytest.mark.parametrize(("total", "members", "wanted"), [(8, 1, [8]), (8, 3, [3, 3, 2]), (3, 3, [1, 1, 1])])
def test_sizes_are_divided_evenly(total, members, wanted):
    assert divided(total, members) == wanted


def test_with_offset_zero_and_own_negatives_it_is_the_paper_to_the_letter():
    positive, negative = torch.tensor([[0.5, 2.0]]), torch.tensor([[[1.0, 3.0], [0.2, 0.7]]])
    allowed = np.ones((2, 2), dtype=bool)
    wanted = -(logsigmoid(-positive) + logsigmoid(negative).sum(2)).mean()
    for term in (torch_negative_loss, negative_loss):
        assert edge_loss(-positive, term(negative.clone(), allowed, 2)).item() == pytest.approx(wanted.item())


def test_gradients_through_the_sparse_layer_are_right(planted):
    """Gradient of the touched rows against finite differences, and against the same network made dense."""
    network, batch = network_of(planted), batch_of(planted, "shared")
    loss_of(network, planted, batch).backward()
    ((_, layer),) = sparse_inputs(network)
    assert isinstance(layer, SparseInput)
    found = layer.touched()
    touched, gradient = found.rows, found.gradient()
    row, column, step = touched[3], 2, 1e-2
    losses = []
    for sign in (1, -1):
        layer.weight[row, column] += sign * step
        losses.append(loss_of(network, planted, batch).item())
        layer.weight[row, column] -= sign * step
    assert gradient[3, column] == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=2e-2, abs=1e-5)
    (words,) = planted.by_type().types
    dense = planted.with_types([replace(words, attributes=planted.attributes.toarray())])
    twin = network_of(dense, scaling="none")
    sparse_twin = network_of(planted, scaling="none")
    loss_of(twin, dense, batch).backward()
    loss_of(sparse_twin, planted, batch).backward()
    ((_, layer),) = sparse_inputs(sparse_twin)
    assert isinstance(layer, SparseInput)
    found = layer.touched()
    touched, gradient = found.rows, found.gradient()
    whole = twin.encoders["first"].input.own[0].weight.grad.numpy()
    np.testing.assert_allclose(gradient, whole[touched], rtol=1e-3, atol=1e-6)
    assert np.abs(np.delete(whole, touched, axis=0)).max(initial=0) == 0


def test_only_nodes_of_the_batch_are_encoded(planted, encoded_rows):
    batch = batch_of(planted, "shared")
    loss_of(network_of(planted), planted, batch)
    nodes = np.unique(np.concatenate([batch.anchors, batch.targets, batch.negatives]))
    assert encoded_rows == [len(nodes)]


def test_weights_start_xavier_uniform(planted):
    weight = network_of(planted).encoders["first"].input.own[0].weight.numpy()
    bound = (6 / sum(weight.shape)) ** 0.5
    assert np.abs(weight).max() <= bound
    assert weight.std() == pytest.approx(bound / 3**0.5, rel=0.1)


def test_variances_stay_above_the_stated_floor(planted):
    network = network_of(planted)
    with torch.no_grad():
        network.encoders["first"].heads[0].variance.bias -= 100
    assert embedded(network, planted, 5).variance.min() >= np.float32(1e-2)


def test_linear_activation_is_equation_1(planted):
    network = network_of(planted, activation="linear", scaling="none")
    encoder = network.encoders["first"]
    x = planted.attributes[:3].toarray()
    u = x @ encoder.input.own[0].weight.numpy() + encoder.input.own[0].bias.detach().numpy()
    mean = u @ encoder.heads[0].mean.weight.detach().numpy()
    np.testing.assert_allclose(embedded(network, planted, 3).mean, mean, rtol=1e-4, atol=1e-6)


def test_dense_columns_are_standardized_by_the_training_nodes():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(1e4, 50, 100), np.full(100, 7.0), rng.random(100)]).astype(np.float32)
    graph = glace.from_arrays(rng.integers(100, size=(200, 2)), x)
    scaled = input_rows(network_of(graph), graph).own[0]
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-2)
    np.testing.assert_allclose(scaled.std(0), [1, 0, 1], atol=1e-2)
    np.testing.assert_array_equal(input_rows(network_of(graph, scaling="none"), graph).own[0], x)
