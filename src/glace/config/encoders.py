"""Encoder specifications, and the short notation for them on the command line and in files.

An encoder is written NAME or NAME:OPTION=VALUE,...: `mlp:layers=256+128,dropout=0.1`, `image:size=28x28`. Encoders of
several node types are separated by semicolons and start with the name of the type:
`word=mlp:layers=256;photo=image:size=28x28`. An encoder without a type applies to all other types.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from glace.errors import InputError
from glace.options import Configuration, Value, number_or_word, option

MAX_WIDTH = 1 << 20


def _integers(value: Value, separator: str, name: str) -> tuple[int, ...]:
    """Parse positive integers from a text such as "256+128", a sequence, or a single number."""
    items = value.split(separator) if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    try:
        numbers = tuple(int(str(item)) for item in items)
    except ValueError:
        numbers = (0,)
    if not all(0 < number <= MAX_WIDTH for number in numbers):
        raise InputError(f"{name} must be whole numbers above 0, as 8{separator}4 or [8, 4], not {value!r}")
    return numbers


@dataclass(frozen=True)
class MLP(Configuration):
    """Multi-layer perceptron for sparse or dense attributes.

    Parameters
    ----------
    layers : sequence of int, default ()
        Widths of the layers before the hidden layer. Without any, the attributes go straight to the hidden layer: the
        encoder of the paper, and the fastest.
    activation : {"relu", "gelu", "elu", "silu", "tanh", "linear"}, default "relu"
        Activation between layers.
    dropout : float, default 0.0
        Dropout probability between layers.
    normalization : {"none", "layer", "batch"}, default "none"
        Normalization of each layer's output.

    Examples
    --------
    >>> import glace
    >>> graph = glace.datasets.planted(100, communities=2, attributes=40, words=5)
    >>> encoder = glace.MLP(layers=[64, 48], activation="gelu", normalization="layer")
    >>> glace.GLACE(dim=4, hidden=16, max_steps=5, encoder=encoder).fit(graph).embedding_.mean.shape
    (100, 4)
    """

    layers: Sequence[int] = option((), "Widths of the layers before the hidden layer.", description="as 256+128")
    activation: str = option(
        "relu", "Activation between layers.", choices=("relu", "gelu", "elu", "silu", "tanh", "linear")
    )
    dropout: float = option(0.0, "Dropout probability between layers.", at_least=0, below=1)
    normalization: str = option("none", "Normalization of each layer's output.", choices=("none", "layer", "batch"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", _integers(self.layers, "+", "layers"))
        super().__post_init__()
        if not self.layers and _changed(self):
            raise InputError(
                "activation, dropout and normalization apply between layers; add layers, such as layers=64"
            )


@dataclass(frozen=True)
class Image(Configuration):
    """Convolutional encoder for images: attributes are pixels, row by row.

    Each 3 x 3 convolution is followed by a ReLU and a 2 x 2 max-pooling, and the last one by a linear layer.

    Parameters
    ----------
    size : sequence of int
        Height and width, or channels, height and width.
    filters : sequence of int, default (16, 32)
        Number of filters of each convolution.

    Examples
    --------
    >>> import numpy as np
    >>> import glace
    >>> graph = glace.datasets.planted(100, communities=2, attributes=40, words=5)
    >>> pixels = np.random.default_rng(0).random((100, 64))
    >>> digits = glace.from_arrays(graph.edges(), pixels)
    >>> model = glace.GLACE(dim=4, hidden=16, max_steps=5, encoder=glace.Image(size=(8, 8), filters=(4,)))
    >>> model.fit(digits).embedding_.mean.shape
    (100, 4)
    """

    size: Sequence[int] = option((), "Size of the images.", description="HEIGHTxWIDTH, or CHANNELSxHEIGHTxWIDTH")
    filters: Sequence[int] = option((16, 32), "Number of filters of each convolution.", description="as 16+32")

    def __post_init__(self) -> None:
        if not self.size:
            raise InputError("an image encoder needs the size of the images, such as image:size=28x28")
        size, filters = _integers(self.size, "x", "size"), _integers(self.filters, "+", "filters")
        if len(size) not in (2, 3):
            raise InputError(f"size must be HEIGHTxWIDTH or CHANNELSxHEIGHTxWIDTH, such as 28x28, not {self.size!r}")
        if not filters:
            raise InputError("an image encoder needs filters, such as filters=16+32")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "filters", filters)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = (1, *self.size)[-3:]
        return channels, height, width

    def check_width(self, width: int, owner: str) -> None:
        """Check that rows of attributes have as many columns as the image has pixels.

        Parameters
        ----------
        width : int
            Number of attributes.
        owner : str
            What the message calls this encoder, such as "encoder of 'photo'".

        Raises
        ------
        InputError
            If the numbers differ.
        """
        pixels = math.prod(self.size)
        if pixels != width:
            shown = " x ".join(str(each) for each in self.size)
            raise InputError(f"{owner}: {shown} pixels are {pixels:,}, but there are {width:,} attributes")


@dataclass(frozen=True)
class Identity(Configuration):
    """One-hot encoder: every node has its own row of weights, and its attributes are not used.

    Nodes without attributes are always encoded this way.

    Examples
    --------
    >>> import glace
    >>> graph = glace.datasets.planted(100, communities=2, attributes=40, words=5)
    >>> glace.GLACE(dim=4, hidden=16, max_steps=5, encoder=glace.Identity()).fit(graph).n_features_in_ is None
    True
    """


@dataclass(frozen=True)
class CustomEncoder:
    """Stands for a user's `torch.nn.Module`, of which a configuration knows only the name of the class."""

    name: str


BuiltIn = MLP | Image | Identity
EncoderSpec = BuiltIn | CustomEncoder
BUILT_IN: dict[str, type[BuiltIn]] = {"mlp": MLP, "image": Image, "identity": Identity}


def _changed(spec: BuiltIn) -> dict[str, Value]:
    """Return the options that differ from their defaults."""
    values = {each.name: (getattr(spec, each.name), each.default) for each in fields(spec)}
    return {name: value for name, (value, default) in values.items() if value != default}


def parse_encoder(text: str) -> EncoderSpec:
    """Parse the short notation of one encoder."""
    name, _, listed = text.strip().partition(":")
    if name == "module":
        return CustomEncoder(listed)
    if name not in BUILT_IN:
        raise InputError(f"no encoder {name!r}; there are {', '.join(BUILT_IN)}, and in Python any torch.nn.Module")
    known = [each.name for each in fields(BUILT_IN[name])]
    options: dict[str, Value] = {}
    for item in filter(None, listed.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or key not in known:
            accepted = f"{', '.join(known)}, each as NAME=VALUE" if known else "none"
            raise InputError(f"{name} has no option {item!r}; it has {accepted}")
        if key in options:
            raise InputError(f"{name} has {key} twice; give it once")
        options[key] = number_or_word(value)
    return _made(name, options)


def _made(name: str, options: dict[str, Value]) -> BuiltIn:
    try:
        return BUILT_IN[name](**options)  # type: ignore[arg-type]  # checked on creation
    except InputError as problem:
        # As text: `dropout` is here an option of the encoder, not the option of the same name of the model.
        raise InputError(f"encoder {name}: {problem}") from problem


def format_encoder(spec: EncoderSpec) -> str:
    """Return the short notation of an encoder, without options that have their default value."""
    if isinstance(spec, CustomEncoder):
        return f"module:{spec.name}"
    name = next(name for name, kind in BUILT_IN.items() if isinstance(spec, kind))
    listed = ",".join(f"{key}={_format_value(key, value)}" for key, value in _changed(spec).items())
    return f"{name}:{listed}" if listed else name


def _format_value(key: str, value: Value) -> str:
    return ("x" if key == "size" else "+").join(map(str, value)) if isinstance(value, tuple) else str(value)


def parse_encoders(text: str) -> dict[str, EncoderSpec]:
    """Parse the encoder of each node type that is named, and under "" the encoder of all other types."""
    encoders: dict[str, EncoderSpec] = {}
    for item in filter(None, (item.strip() for item in text.split(";"))):
        head, equals, rest = item.partition("=")
        node_type, encoder = (head.strip(), rest) if equals and head and ":" not in head else ("", item)
        if node_type in encoders:
            raise InputError(f"two encoders for {f'type {node_type!r}' if node_type else 'all types'}; give one")
        encoders[node_type] = parse_encoder(encoder)
    return {"": MLP()} | encoders


def format_encoders(encoders: Mapping[str, EncoderSpec]) -> str:
    """Return the short notation of encoders by node type: first the one of all other types, then the rest, sorted."""
    named = [f"{node_type}={format_encoder(spec)}" for node_type, spec in sorted(encoders.items()) if node_type]
    return ";".join([format_encoder(encoders.get("", MLP())), *named])


def canonical(encoder: Value) -> str:
    """Return the canonical short notation of an encoder: a text, a specification, or a dict of these by node type."""
    if isinstance(encoder, str) and encoder.strip():
        return format_encoders(parse_encoders(encoder))
    if not isinstance(encoder, Mapping):
        return format_encoders({"": _spec(encoder)})
    for node_type in encoder:
        if not isinstance(node_type, str):
            raise InputError(
                f"encoders are given by the names of node types, but {node_type!r} is {type(node_type).__name__}"
            )
        if set(node_type) & set(";=:"):
            raise InputError(f"type {node_type!r} cannot have its own encoder; rename the type, without ; = and :")
    return format_encoders({node_type: _spec(each) for node_type, each in encoder.items()})


def _spec(encoder: Value) -> EncoderSpec:
    if isinstance(encoder, str) and encoder.strip():
        return parse_encoder(encoder)
    if isinstance(encoder, EncoderSpec):
        return encoder
    shown = encoder if isinstance(encoder, type) else repr(encoder)
    raise InputError(
        "must be glace.MLP(...), glace.Image(...), glace.Identity(), a torch.nn.Module, a text such as "
        f"'mlp:layers=256', or a dict of these by node type, not {shown}",
        option="encoder",
    )
