"""The loss against the paper's formula, written out edge by edge."""

import itertools
from copy import deepcopy
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
from glace.model.layers import GaussianHead, SparseInput, of_bounded_length, sparse_inputs
from glace.model.network import (
    EdgeBatch,
    Hidden,
    Network,
    compiled_loss,
    divided,
    edge_loss,
    input_types,
    torch_loss,
    torch_negative_loss,
)
from glace.rng import Streams
from glace.sampling.edges import EdgeSampler
from tests.conftest import batch_loss

SETTLED: dict[str, Any] = {
    "dim": 4, "hidden": 8, "ensemble_size": 1, "hidden_length": "bounded", "neighbor_features": "none",
    "neighbor_dropout": 0, "dropout": 0, "offset": "learned",
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
    """The loss of all branches, from the input rows of the batch's nodes."""
    nodes, placed = batch.distinct()
    return batch_loss(network, input_rows(network, graph, nodes), placed, 3)


def input_rows(network, graph, nodes=None):
    nodes = np.arange(graph.num_nodes) if nodes is None else nodes
    return network.inputs([graph.features()], graph.adjacency).rows(nodes)


def first_encoder(network):
    return network.branches[0].encoder("first")


def embedded(network, graph, count):
    return network.embed(network.inputs([graph.features()], graph.adjacency), np.arange(count))[0]


def members_of(network):
    """The dimensions of each of the encoders side by side."""
    ends = np.cumsum([0, *divided(network.config.dim, network.config.ensemble_size)])
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
        own = network.encode(part, rows, everyone)
        other = network.encode("context" if part == "second" else part, rows, everyone)
        offsets = torch.cat([branch.offsets[part] for branch in network.branches])
        for dims, offset in zip(members_of(network), offsets, strict=True):
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
    assert [branch.dims for branch in network.branches] == [slice(0, 2), slice(2, 3), slice(3, 4)]
    assert network.offset() == 12 * len(network.proximities)
    batch = batch_of(planted, "shared")
    found, wanted = loss_of(network, planted, batch), spelled_out(network, planted, batch)
    np.testing.assert_allclose(found.item(), wanted.item(), rtol=1e-4)


def test_members_have_nothing_in_common(planted):
    """Each is what its branch alone would be, and changes to another branch do not reach it."""
    network = network_of(planted, ensemble_size=3, hidden=10, dim=5)
    rows = input_rows(network, planted).own[0].toarray()
    before = embedded(network, planted, 400)
    for dims, width, branch in zip(members_of(network), [4, 3, 3], network.branches, strict=True):
        encoder = branch.encoder("first")
        layer, (head,) = encoder.input.own[0], encoder.each_head()
        assert layer.weight.shape[1] == width
        hidden = np.maximum(rows @ layer.weight.numpy() + layer.bias.detach().numpy(), 0)
        with torch.no_grad():
            alone = head.gaussian(head.raw(of_bounded_length(torch.from_numpy(hidden).float())))
        np.testing.assert_allclose(before.mean[:, dims], alone.mean.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(before.variance[:, dims], alone.variance.numpy(), rtol=1e-4)
    first_encoder(network).input.own[0].weight += 1
    after = embedded(network, planted, 400)
    changed = (before.mean != after.mean).any(axis=0)
    assert changed.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(("total", "members", "wanted"), [(8, 1, [8]), (8, 3, [3, 3, 2]), (3, 3, [1, 1, 1])])
def test_sizes_are_divided_evenly(total, members, wanted):
    assert divided(total, members) == wanted


def test_with_offset_zero_and_own_negatives_it_is_the_paper_to_the_letter():
    positive, negative = torch.tensor([0.5, 2.0]), torch.tensor([[1.0, 3.0], [0.2, 0.7]])
    allowed = np.ones((2, 2), dtype=bool)
    wanted = -(logsigmoid(-positive) + logsigmoid(negative).sum(1)).mean()
    found = edge_loss(-positive, torch_negative_loss(negative, allowed, 2))
    assert found.item() == pytest.approx(wanted.item())


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("spread", [0.3, 3.0])
@pytest.mark.parametrize("measure", ["kl", "symmetric_kl"])
def test_the_compiled_loss_has_the_gradients_of_autograd(measure, spread, parts):
    """Loss, and gradients of hidden numbers, heads and offset, against torch in double precision."""
    rng = np.random.default_rng(0)
    nodes, dim, edges, pool = 40, 3, 25, 12
    batch = EdgeBatch(
        rng.integers(nodes, size=edges), rng.integers(nodes, size=edges), rng.integers(nodes, size=pool),
        rng.random((edges, pool)) < 0.8, 5,
    )  # fmt: skip
    batch.allowed[3] = False
    heads = [GaussianHead(4, dim, rng).double() for _ in range(parts)]
    hidden = [torch.from_numpy(spread * rng.standard_normal((each, 4))) for each in divided(nodes, parts)]

    def numbers(loss, kind):
        member = [
            Hidden(part.to(kind).requires_grad_(), deepcopy(head).to(kind))
            for part, head in zip(hidden, heads, strict=True)
        ]
        offset = torch.tensor(2.5, dtype=kind, requires_grad=True)
        inputs: list[Any] = [offset, *(each for part, head in member for each in (part, head.weight, head.bias))]
        value = loss(MEASURES[measure], member, offset, batch)
        return [value.detach(), *torch.autograd.grad(2 * value, inputs)]

    for ours, exact in zip(numbers(compiled_loss, torch.float32), numbers(torch_loss, torch.float64), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-5 * exact.abs().max().item())


def test_encoders_with_layers_of_their_own_share_one_branch(planted):
    network = network_of(planted, ensemble_size=2, encoder="mlp:layers=6")
    (branch,) = network.branches
    assert len(branch.encoder("first").each_head()) == 2
    batch = batch_of(planted, "shared")
    found, wanted = loss_of(network, planted, batch), spelled_out(network, planted, batch)
    np.testing.assert_allclose(found.item(), wanted.item(), rtol=1e-4)


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
    whole = first_encoder(twin).input.own[0].weight.grad.numpy()
    np.testing.assert_allclose(gradient, whole[touched], rtol=1e-3, atol=1e-6)
    assert np.abs(np.delete(whole, touched, axis=0)).max(initial=0) == 0


def test_only_nodes_of_the_batch_are_encoded(planted, encoded_rows):
    batch = batch_of(planted, "shared")
    loss_of(network_of(planted), planted, batch)
    nodes = np.unique(np.concatenate([batch.anchors, batch.targets, batch.negatives]))
    assert encoded_rows == [len(nodes)]


def test_weights_start_xavier_uniform(planted):
    weight = first_encoder(network_of(planted)).input.own[0].weight.numpy()
    bound = (6 / sum(weight.shape)) ** 0.5
    assert np.abs(weight).max() <= bound
    assert weight.std() == pytest.approx(bound / 3**0.5, rel=0.1)


def test_variances_stay_above_the_stated_floor(planted):
    network = network_of(planted)
    with torch.no_grad():
        first_encoder(network).heads[0].bias -= 100
    assert embedded(network, planted, 5).variance.min() >= np.float32(1e-2)


def test_linear_activation_is_equation_1(planted):
    network = network_of(planted, activation="linear", hidden_length="free", scaling="none")
    encoder = first_encoder(network)
    x = planted.attributes[:3].toarray()
    u = x @ encoder.input.own[0].weight.numpy() + encoder.input.own[0].bias.detach().numpy()
    mean = u @ encoder.heads[0].weight.detach().numpy()[:, : network.config.dim]
    np.testing.assert_allclose(embedded(network, planted, 3).mean, mean, rtol=1e-4, atol=1e-6)


def test_dense_columns_are_standardized_by_the_training_nodes():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(1e4, 50, 100), np.full(100, 7.0), rng.random(100)]).astype(np.float32)
    graph = glace.from_arrays(rng.integers(100, size=(200, 2)), x)
    scaled = input_rows(network_of(graph), graph).own[0]
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-2)
    np.testing.assert_allclose(scaled.std(0), [1, 0, 1], atol=1e-2)
    np.testing.assert_array_equal(input_rows(network_of(graph, scaling="none"), graph).own[0], x)
