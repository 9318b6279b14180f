"""Encoders as parts, said in words: what attributes go through on their way to `hidden` numbers.

A part is written NAME or NAME:OPTION=VALUE,...: `mlp:layers=256+128,dropout=0.1`, `image:size=28x28`. Several types of
nodes have one each, apart by semicolons and after the type's name: `word=mlp:layers=256;photo=image:size=28x28`. One
without a name goes for all other types. Free of torch, so that the command line can read it quickly.
"""

import math
import re
from dataclasses import dataclass, fields
from typing import Any

from glace.errors import InputError
from glace.options import Configuration, number_or_word, option

WIDEST = 1 << 20


def numbers(text: Any, apart: str, what: str) -> tuple[int, ...]:
    """Whole numbers above 0 from a text such as "256+128", or from a sequence."""
    found = text.split(apart) if isinstance(text, str) else list(text) if isinstance(text, tuple | list) else [text]
    try:
        whole = tuple(int(str(each)) for each in found)
    except ValueError:
        whole = (0,)
    if not all(0 < each <= WIDEST for each in whole):
        raise InputError(f"{what} must be whole numbers above 0 with {apart!r} between them, not {text!r}")
    return whole


def _widths(name: str) -> Any:
    return lambda value: numbers(value, "+", name)


def _size(value: Any) -> tuple[int, ...]:
    if value == ():
        raise InputError("an image encoder needs the size of the images, such as image:size=28x28")
    size = numbers(value, "x", "size")
    if len(size) not in (2, 3):
        raise InputError(f"size must be HEIGHTxWIDTH or CHANNELSxHEIGHTxWIDTH, such as 28x28, not {value!r}")
    return size


@dataclass(frozen=True)
class MLP(Configuration):
    """Layers one after the other. With none, attributes go to the hidden layer at once: the paper's encoder."""

    layers: tuple[int, ...] = option(
        (), "Widths of the layers before the hidden one, as 256+128.", parse=_widths("layers")
    )
    activation: str = option("relu", "Between layers.", choices=("relu", "gelu", "elu", "silu", "tanh", "linear"))
    dropout: float = option(0.0, "Share of numbers hidden between layers in training.", at_least=0, below=1)
    normalization: str = option("none", "Of what a layer gives.", choices=("none", "layer", "batch"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.layers and given(self):
            raise InputError(
                "activation, dropout and normalization of an mlp act between layers, and it has none; add layers="
            )


@dataclass(frozen=True)
class Image(Configuration):
    """Convolutions of 3 x 3 that halve the image, and a layer on what they see: rows are pixels, row by row."""

    size: tuple[int, ...] = option((), "HEIGHTxWIDTH, or CHANNELSxHEIGHTxWIDTH.", parse=_size)
    filters: tuple[int, ...] = option((16, 32), "Of each convolution, as 16+32.", parse=_widths("filters"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.filters:
            raise InputError("an image encoder needs filters, such as filters=16+32")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = (1, *self.size)[-3:]
        return channels, height, width

    def check_width(self, width: int, whose: str) -> None:
        """Raise unless a row of so many attributes is such an image."""
        if math.prod(self.size) != width:
            shown = " x ".join(str(each) for each in self.size)
            raise InputError(
                f"{whose}: {shown} pixels are {math.prod(self.size):,}, but there are {width:,} attributes"
            )


@dataclass(frozen=True)
class Identity(Configuration):
    """Nothing: a node has a row of hidden numbers of its own. Nodes without attributes are encoded so."""


@dataclass(frozen=True)
class CustomEncoder:
    """A module of the user's, of which only the name of its class is known here."""

    name: str


Part = MLP | Image | Identity | CustomEncoder
KINDS: dict[str, type[MLP | Image | Identity]] = {"mlp": MLP, "image": Image, "identity": Identity}


def part_of(text: str) -> Part:
    """The part of such words; what is wrong raises."""
    name, _, listed = text.strip().partition(":")
    if name == "module":
        return CustomEncoder(listed)
    if name not in KINDS:
        known = ", ".join([*KINDS, "a torch.nn.Module (in Python)"])
        raise InputError(f"no encoder {name!r}; there are {known}")
    kind = KINDS[name]
    known_options = [each.name for each in fields(kind)]
    options = {}
    for each in filter(None, listed.split(",")):
        key, equals, value = each.partition("=")
        if not equals or key.strip() not in known_options:
            taken = f"{', '.join(known_options)}, each as NAME=VALUE" if known_options else "none"
            raise InputError(f"{name} has no option {each!r}; it takes {taken}")
        if key.strip() in options:
            raise InputError(f"{name} has {key.strip()} twice; give it once")
        options[key.strip()] = number_or_word(value.strip())
    return kind(**options)


def given(part: MLP | Image | Identity) -> dict[str, Any]:
    """The options that are not the common ones."""
    values = {each.name: (getattr(part, each.name), each.default) for each in fields(part)}
    return {name: value for name, (value, common) in values.items() if value != common}


def text_of(part: Part) -> str:
    """The part in words, its options where they are not the common ones."""
    if isinstance(part, CustomEncoder):
        return f"module:{part.name}"
    name = next(each for each, kind in KINDS.items() if isinstance(part, kind))
    listed = ",".join(f"{key}={_written(key, value)}" for key, value in given(part).items())
    return f"{name}:{listed}" if listed else name


def _written(key: str, value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return ("x" if key == "size" else "+").join(str(each) for each in value)


def parts_of(text: str) -> dict[str, Part]:
    """The part of each type that is named, and under "" that of all others."""
    found: dict[str, Part] = {}
    for each in filter(None, (piece.strip() for piece in text.split(";"))):
        named = re.match(r"^([^=:]+)=(.*)$", each)
        kind, words = (named[1].strip(), named[2]) if named else ("", each)
        if kind in found:
            raise InputError(f"two encoders for {'all types' if kind == '' else f'type {kind!r}'}; give one")
        found[kind] = part_of(words)
    return {"": MLP()} | found


def text_of_all(parts: dict[str, Part]) -> str:
    """All of them in words, those that have a name last and sorted."""
    named = [f"{kind}={text_of(part)}" for kind, part in sorted(parts.items()) if kind]
    common = parts.get("", MLP())
    return ";".join([text_of(common), *named])


def checked(text: Any) -> str:
    """The same words in their plainest form."""
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            "encoder must be a text such as 'mlp:layers=256' or 'image:size=28x28', a torch.nn.Module, or these by "
            f"type of node in a dict, not {text if isinstance(text, type) else repr(text)}"
        )
    return text_of_all(parts_of(text))
