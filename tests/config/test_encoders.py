"""Encoder specifications and their short notation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glace.config.config import (
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


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("mlp", MLP()),
        ("identity", Identity()),
        ("mlp:layers=256", MLP((256,))),
        ("mlp:layers=8+4,activation=gelu,dropout=0.1,normalization=layer", MLP((8, 4), "gelu", 0.1, "layer")),
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


@pytest.mark.parametrize(
    ("encoder", "text"),
    [
        (MLP(layers=[64, 48], activation="gelu"), "mlp:layers=64+48,activation=gelu"),
        (Image(size=(28, 28), filters=[8]), "image:size=28x28,filters=8"),
        (
            {"word": MLP(layers=(8,)), "photo": "image:size=2x2", "": Identity()},
            "identity;photo=image:size=2x2;word=mlp:layers=8",
        ),
    ],
)
def test_specifications_and_dicts_have_a_short_notation(encoder, text):
    assert canonical(encoder) == canonical(text) == text


def test_specifications_check_themselves():
    assert MLP(layers=[8, 4]) == MLP((8, 4))
    with pytest.raises(InputError, match="layers must be whole numbers above 0"):
        MLP(layers=[8, 0])
    with pytest.raises(InputError, match="activation must be 'relu'"):
        MLP(layers=[8], activation="swish")
    with pytest.raises(InputError, match="needs the size of the images"):
        Image()
    with pytest.raises(InputError, match="needs filters"):
        Image(size=(8, 8), filters=())
