"""Encoders in words, and the modules they are built of, against torch's own layers and plain numpy."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from glace.config.encoders import (
    MLP,
    CustomEncoder,
    Identity,
    Image,
    canonical,
    format_encoder,
    format_encoders,
    parse_encoder,
    parse_encoders,
)
from glace.errors import InputError
from glace.model.encoders import ACTIVATIONS, check_own, tower
from glace.model.input_layers import InputShape
from glace.model.inputs import InputMask, Inputs, Scaling
from glace.model.typed import TypedEncoder, TypedInputs

ROWS = np.array([4, 0, 2])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("mlp", MLP()),
        ("identity", Identity()),
        ("mlp:layers=256", MLP((256,))),
        (
            "mlp:layers=8+4,activation=gelu,dropout=0.1,normalization=layer",
            MLP((8, 4), "gelu", 0.1, "layer"),
        ),
        ("image:size=8x6", Image((8, 6))),
        ("image:size=3x8x6,filters=4", Image((3, 8, 6), (4,))),
        ("module:Net", CustomEncoder("Net")),
        ("mlp:layers=4,dropout=1e-05", MLP((4,), dropout=1e-5)),
        ("mlp:layers=4,dropout=0.123456789", MLP((4,), dropout=0.123456789)),
    ],
)
def test_parts_are_written_and_read(text, part):
    assert parse_encoder(text) == part
    assert format_encoder(part) == text


def test_types_have_a_part_each():
    parts = parse_encoders(" word = mlp:layers=8 ; image:size=2x2; synset=identity")
    assert parts == {"": Image((2, 2)), "word": MLP((8,)), "synset": Identity()}
    assert format_encoders(parts) == "image:size=2x2;synset=identity;word=mlp:layers=8"
    assert parse_encoders("word=identity")[""] == MLP()
    assert canonical("mlp") == "mlp"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cnn", "no encoder 'cnn'; there are mlp, image, identity"),
        ("mlp:depth=3", "mlp has no option 'depth=3'; it has layers, activation, dropout, normalization"),
        ("identity:layers=3", "identity has no option 'layers=3'; it has none"),
        ("mlp:layers", "mlp has no option 'layers'"),
        ("mlp:layers=0", "encoder mlp: layers must be whole numbers above 0, as 8[+]4 or .8, 4., not 0"),
        ("mlp:layers=2.5", "layers must be whole numbers above 0"),
        ("mlp:layers=8+x", "layers must be whole numbers above 0, as 8[+]4 or .8, 4., not '8[+]x'"),
        ("mlp:layers=8,activation=swish", "activation must be 'relu', 'gelu'"),
        ("mlp:layers=8,dropout=1", "encoder mlp: dropout must be a number of at least 0 below 1, not 1"),
        ("mlp:dropout=0.5", "apply between layers; add layers"),
        ("image", "an image encoder needs the size of the images, such as image:size=28x28"),
        ("", "encoder must be .*a text such as 'mlp:layers=256'.*, not ''"),
        ("image:size=8", "size must be HEIGHTxWIDTH"),
        ("image:size=8x8,filters=", "filters must be whole numbers above 0"),
        ("a=mlp;a=mlp", "two encoders for type 'a'; give one"),
        ("mlp:layers=4,layers=5", "mlp has layers twice; give it once"),
        ("mlp;mlp", "two encoders for all types; give one"),
        (7, "encoder must be .*a text such as 'mlp:layers=256'.*, not 7"),
    ],
)
def test_wrong_words_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        canonical(text)


def test_an_image_has_as_many_pixels_as_attributes():
    Image((3, 4, 5)).check_width(60, "it")
    with pytest.raises(InputError, match="it: 4 x 5 pixels are 20, but there are 60 attributes"):
        Image((4, 5)).check_width(60, "it")


@given(st.text(max_size=30))
def test_any_words_are_a_part_or_an_input_error(text):
    try:
        plain = canonical(text)
    except InputError:
        return
    assert canonical(plain) == plain


def attributes(sparse):
    dense = np.random.default_rng(0).random((5, 12)).astype(np.float32)
    dense[dense < 0.5] = 0
    return sp.csr_array(dense) if sparse else dense


def dense_of(matrix):
    return torch.from_numpy(matrix[ROWS].toarray() if sp.issparse(matrix) else matrix[ROWS])


def built(words, sparse=False, hidden=6, **options):
    return tower(parse_encoder(words), InputShape(12, sparse), hidden, np.random.default_rng(1), **options)


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
    module = built("module:Linear", sparse, own=own)
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
            r"gave torch.float32 of shape \(4, 12\); wanted a float32 tensor of shape \(4, 6\): hidden=6",
        ),
        (lambda x: x[0, :6], r"gave torch.float32 of shape \(6,\)"),
        (lambda x: x[:, :6].double(), r"gave torch.float64 of shape \(4, 6\)"),
        (lambda x: x[:, :6].numpy(), "gave ndarray; wanted a float32 tensor"),
        (lambda x: x[:, :6] * np.nan, r"gave numbers that are not finite \(NaN or infinite\)"),
        (lambda x: x @ torch.zeros(5, 6), "raised RuntimeError: .*; wanted a float32 tensor"),
    ],
)
def test_a_wrong_module_is_told_before_training(what, message):
    with pytest.raises(InputError, match=f"the encoder was given 4 rows of 12 attributes and {message}"):
        check_own(Gives(what), attributes(sparse=False), 6, "the encoder")


@pytest.fixture
def typed():
    """Three nodes of a sparse type and two of a dense one, in turn, each joined to the next."""
    x, y = sp.csr_array(np.eye(3, 4, dtype=np.float32) * 2), np.arange(6, dtype=np.float32).reshape(2, 3)
    ring = sp.csr_array(np.roll(np.eye(5, dtype=np.float32), 1, axis=1))
    adjacency = sp.csr_array(ring + ring.T)
    parts = [
        Inputs(InputShape(4, True), x, None, Scaling(unit=True)),
        Inputs(InputShape(3, False), y, None, Scaling(False, np.ones(3, np.float32), np.full(3, 2, np.float32))),
    ]
    kinds, places = np.array([0, 1, 0, 1, 0]), np.array([0, 0, 1, 1, 2])
    return TypedInputs(parts, kinds, places, True, adjacency), x, y


def test_each_type_has_rows_of_its_own_and_means_of_each(typed):
    inputs, x, y = typed
    rows = inputs.rows(np.arange(5))
    np.testing.assert_array_equal(rows.own[0].toarray(), x.toarray() / 2)
    np.testing.assert_array_equal(rows.own[1], (y - 1) * 2)
    # Node 0 lies between 4, of its own type, and 1; node 1 between 0 and 2.
    np.testing.assert_allclose(rows.around[0].toarray()[0], x.toarray()[2] / 2)
    np.testing.assert_allclose(rows.around[1][0], (y[0] - 1) * 2)
    np.testing.assert_allclose(rows.around[0].toarray()[1], x.toarray()[:2].mean(axis=0) / 2)
    np.testing.assert_array_equal(rows.around[1][1], 0)
    assert len(inputs) == 5


def test_the_ends_of_an_edge_do_not_see_each_other(typed):
    inputs, *_ = typed
    mask = InputMask(3, 0.0, 0.0, np.array([[0, 1]]))
    rows = inputs.rows(np.arange(5), mask)
    np.testing.assert_array_equal(rows.around[1][0], 0)
    assert rows.around[0].toarray()[0].any()


def test_types_are_encoded_apart_and_put_in_order(typed):
    inputs, *_ = typed
    generator = np.random.default_rng(0)
    own: list[Any] = [tower(MLP(), part.shape, 6, generator) for part in inputs.parts]
    around: list[Any] = [tower(MLP(), part.shape, 6, generator) for part in inputs.parts]
    module, rows = TypedEncoder(own, around), inputs.rows(np.arange(5))
    wanted = np.array([3, 0, 4])
    dense = [torch.from_numpy(rows.own[0].toarray()), torch.from_numpy(rows.own[1])]
    means = [torch.from_numpy(rows.around[0].toarray()), torch.from_numpy(rows.around[1])]
    for r, node in enumerate(wanted):
        kind, place = inputs.kinds[node], inputs.places[node]
        u = dense[kind][place] @ own[kind].weight + own[kind].bias
        for mean, layer in zip(means, around, strict=True):
            u = u + mean[node] @ layer.weight + layer.bias
        torch.testing.assert_close(module(rows, wanted)[r], u)
