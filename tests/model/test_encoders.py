"""Encoder modules against torch's own layers and plain numpy; one mechanism for one node type and several."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn
from torch.nn import functional

import glace
from glace.config.config import ModelConfig, parse_encoder
from glace.errors import InputError
from glace.fitted.state import graph_inputs, input_shape
from glace.model.inputs import InputMask, InputShape, InputType, NodeInputs, Scaling, TypeInputs
from glace.model.layers import ACTIVATIONS, HiddenLayer, check_module, encoder_module
from glace.model.network import Network, input_types
from glace.rng import Streams

ROWS = np.array([4, 0, 2])


def attributes(sparse):
    dense = np.random.default_rng(0).random((5, 12)).astype(np.float32)
    dense[dense < 0.5] = 0
    return sp.csr_array(dense) if sparse else dense


def dense_of(matrix):
    return torch.from_numpy(matrix[ROWS].toarray() if sp.issparse(matrix) else matrix[ROWS])


def built(words, sparse=False, hidden=6, module=None):
    node_type = InputType("", InputShape(12, sparse), parse_encoder(words), module)
    return encoder_module(node_type, hidden, np.random.default_rng(1))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_layers_follow_each_other(sparse, activation):
    x = attributes(sparse)
    module = built(f"mlp:layers=8+7,activation={activation},normalization=layer", sparse)
    first, act = module.first, ACTIVATIONS[activation]()
    u = dense_of(x) @ first.weight + first.bias
    for linear in (module.rest[2], module.rest[5]):
        u = act(functional.layer_norm(u, u.shape[1:])) @ linear.weight + linear.bias
    torch.testing.assert_close(module(x, ROWS), u)


def test_dropout_and_batches_are_for_training_only():
    module, x = built("mlp:layers=8,dropout=0.5,normalization=batch"), attributes(sparse=False)
    module.train()
    assert not torch.equal(module(x, ROWS), module(x, ROWS))
    # Of one row no deviation can be told: it is scaled as afterwards.
    assert torch.isfinite(module(x, ROWS[:1])).all()
    assert all(each.training for each in module.modules())
    module.eval()
    assert torch.equal(module(x, ROWS), module(x, ROWS))


def test_images_go_through_convolutions():
    module, x = built("image:size=3x4,filters=2+3"), attributes(sparse=False)
    first, second = (each for each in module.steps if isinstance(each, nn.Conv2d))
    pixels = dense_of(x).reshape(3, 1, 3, 4)
    u = functional.max_pool2d(functional.relu(functional.conv2d(pixels, first.weight, first.bias, padding=1)), 2)
    u = functional.relu(functional.conv2d(u, second.weight, second.bias, padding=1)).flatten(1)
    torch.testing.assert_close(module(x, ROWS), u @ module.last.weight + module.last.bias)


def test_building_leaves_the_generator_of_torch_alone():
    before = torch.random.get_rng_state()
    built("image:size=3x4")
    built("mlp:layers=8,normalization=batch")
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_module_gets_dense_rows_and_is_copied(sparse):
    own, x = nn.Linear(12, 6), attributes(sparse)
    module = built("module:Linear", sparse, module=own)
    torch.testing.assert_close(module(x, ROWS), own(dense_of(x)))
    with torch.no_grad():
        module.module.weight.zero_()
    assert own.weight.any()


class Gives(nn.Module):
    """What a wrong encoder may give."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x):
        return self.what(x)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            lambda x: x,
            r"returned torch.float32 of shape \(4, 12\); expected a float32 tensor of shape \(4, 6\): hidden=6",
        ),
        (lambda x: x[0, :6], r"returned torch.float32 of shape \(6,\)"),
        (lambda x: x[:, :6].double(), r"returned torch.float64 of shape \(4, 6\)"),
        (lambda x: x[:, :6].numpy(), "returned ndarray; expected a float32 tensor"),
        (lambda x: x[:, :6] * np.nan, r"returned numbers that are not finite \(NaN or infinite\)"),
        (lambda x: x @ torch.zeros(5, 6), "raised RuntimeError: .*; expected a float32 tensor"),
    ],
)
def test_a_wrong_module_is_told_before_training(what, message):
    with pytest.raises(InputError, match=f"the encoder was given 4 rows of 12 attributes and {message}"):
        check_module(Gives(what), attributes(sparse=False), 6, "the encoder")


@pytest.fixture
def typed():
    """Three nodes of a sparse type and two of a dense one, alternating, each joined to the next."""
    x, y = sp.csr_array(np.eye(3, 4, dtype=np.float32) * 2), np.arange(6, dtype=np.float32).reshape(2, 3)
    ring = sp.csr_array(np.roll(np.eye(5, dtype=np.float32), 1, axis=1))
    adjacency = sp.csr_array(ring + ring.T)
    types = [
        TypeInputs(InputShape(4, True), x, Scaling(unit=True)),
        TypeInputs(InputShape(3, False), y, Scaling(False, np.ones(3, np.float32), np.full(3, 2, np.float32))),
    ]
    codes, rows = np.array([0, 1, 0, 1, 0]), np.array([0, 0, 1, 1, 2])
    return NodeInputs(types, lambda nodes: (codes[nodes], rows[nodes]), adjacency, True), x, y


def test_each_type_has_rows_of_its_own_and_means_of_each(typed):
    inputs, x, y = typed
    rows = inputs.rows(np.arange(5))
    np.testing.assert_array_equal(rows.own[0].toarray(), x.toarray() / 2)
    np.testing.assert_array_equal(rows.own[1], (y - 1) * 2)
    # Node 0 lies between 4, of its own type, and 1; node 1 between 0 and 2.
    np.testing.assert_allclose(rows.neighbors[0].toarray()[0], x.toarray()[2] / 2)
    np.testing.assert_allclose(rows.neighbors[1][0], (y[0] - 1) * 2)
    np.testing.assert_allclose(rows.neighbors[0].toarray()[1], x.toarray()[:2].mean(axis=0) / 2)
    np.testing.assert_array_equal(rows.neighbors[1][1], 0)
    assert len(inputs) == 5


def test_the_ends_of_an_edge_do_not_see_each_other(typed):
    inputs, *_ = typed
    mask = InputMask(3, 0.0, 0.0, np.array([[0, 1]]))
    rows = inputs.rows(np.arange(5), mask)
    np.testing.assert_array_equal(rows.neighbors[1][0], 0)
    assert rows.neighbors[0].toarray()[0].any()


@pytest.mark.parametrize("compiled", [True, False])
def test_types_are_encoded_apart_and_put_in_order(typed, compiled):
    inputs, *_ = typed
    types = [InputType(str(code), each.shape) for code, each in enumerate(inputs.types)]
    module = HiddenLayer(types, 6, np.random.default_rng(0), compiled, neighbors=True)
    rows, wanted = inputs.rows(np.arange(5)), np.array([3, 0, 4])
    own = [torch.from_numpy(rows.own[0].toarray()), torch.from_numpy(rows.own[1])]
    means = [torch.from_numpy(rows.neighbors[0].toarray()), torch.from_numpy(rows.neighbors[1])]
    found = module(rows, wanted)
    for r, node in enumerate(wanted):
        code, layer = rows.type_codes[node], module.own[int(rows.type_codes[node])]
        u = own[code][rows.rows[node]] @ layer.weight + layer.bias
        neighbor_layers: list[Any] = list(module.neighbors)
        for mean, neighbor_layer in zip(means, neighbor_layers, strict=True):
            u = u + mean[node] @ neighbor_layer.weight
        torch.testing.assert_close(found[r], u)


class Frozen(nn.Module):
    """A module without trainable weights, whose output its backward pass would need."""

    def forward(self, x):
        return torch.tanh(x[:, :6])


def test_layers_of_neighbors_learn_beside_a_frozen_module():
    """The products of neighbours are added in place; the module's output is not touched by that."""
    x = attributes(sparse=True)
    inputs = NodeInputs(
        [TypeInputs(InputShape(12, True), x, Scaling(unit=False))],
        lambda nodes: (np.zeros(len(nodes), np.int32), nodes),
        sp.csr_array(np.roll(np.eye(5, dtype=np.float32), 1, axis=1)),
        True,
    )
    types = [InputType("", InputShape(12, True), parse_encoder("module:Frozen"), Frozen())]
    module = HiddenLayer(types, 6, np.random.default_rng(0), True, neighbors=True)
    module(inputs.rows(np.arange(5)), ROWS).sum().backward()
    layer: Any = module.neighbors[0]
    assert layer.was_used()
    np.testing.assert_array_equal(layer.touched().gradient()[:, 0] != 0, True)


def network_of(graph, **options):
    settled: dict[str, Any] = {
        "dim": 4,
        "hidden": 8,
        "ensemble_size": 2,
        "hidden_length": "bounded",
        "neighbor_features": "mean",
        "dropout": 0.0,
        "offset": 4.0,
    }
    config = ModelConfig(**settled | options)
    shapes = {each.name: input_shape(each) for each in graph.by_type().types}
    network = Network(input_types(shapes, config), config, "symmetric_kl", Streams(0))
    network.standardize(graph.by_type().features())
    return network


@pytest.mark.parametrize("encoder", ["mlp", "mlp:layers=8,normalization=layer"])
def test_two_types_of_the_same_kind_are_one_type(encoder):
    """In a bipartite graph all neighbours of a node are of one type: with equal weights, types change nothing."""
    rng = np.random.default_rng(0)
    edges = np.column_stack([rng.integers(20, size=60), 20 + rng.integers(20, size=60)])
    x = sp.random_array((40, 30), density=0.2, rng=rng, format="csr", dtype=np.float32)
    one = glace.from_arrays(edges, x, ids=range(40))
    names = np.where(np.arange(40) < 20, "a", "b")
    two = glace.from_arrays(edges, {"a": x[:20], "b": x[20:]}, ids=range(40), node_types=names)
    networks = network_of(one, encoder=encoder), network_of(two, encoder=encoder)
    weights = networks[0].weights()
    shared = {
        name: weights[
            name.replace("own.1", "own.0").replace("neighbors.1", "neighbors.0").replace("scales.1", "scales.0")
        ]
        for name in networks[1].weights()
    }
    networks[1].set_weights(shared)
    found = [
        network.embed(graph_inputs(network, graph), np.arange(40))[0]
        for network, graph in zip(networks, (one, two), strict=True)
    ]
    np.testing.assert_allclose(found[0].mean, found[1].mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0].variance, found[1].variance, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("encoder", ["mlp", "word=mlp:layers=8;photo=image:size=4x3", "identity"])
def test_weights_by_column_are_those_with_a_row_per_column(encoder):
    rng = np.random.default_rng(0)
    edges = rng.integers(30, size=(60, 2))
    words = sp.random_array((20, 50), density=0.2, rng=rng, format="csr", dtype=np.float32)
    names = np.where(np.arange(30) < 20, "word", "photo")
    graph = glace.from_arrays(edges, {"word": words, "photo": rng.random((10, 12))}, node_types=names)
    network = network_of(graph, encoder=encoder, proximity="both", hidden=7, dim=3)
    found, weights = network.column_weights(), network.weights()
    assert set(found) <= set(weights)
    widths = {code: each.shape.columns for code, each in enumerate(network.types)}
    for name, code in found.items():
        assert len(weights[name]) == (widths[code] if weights[name].ndim == 2 else len(weights[name])), name
    by_columns = {name for name, value in weights.items() if value.ndim == 2 and len(value) in (50, 12, 20, 10)}
    assert by_columns - set(found) <= {name for name in by_columns if ".last." in name or ".rest." in name}
