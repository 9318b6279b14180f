"""All options of a method in one checked value; free of torch and NumPy, so that the command line starts fast.

An encoder is written NAME or NAME:OPTION=VALUE,...: `mlp:layers=256+128,dropout=0.1`, `image:size=28x28`. Encoders of
several node types are separated by semicolons and start with the name of the type:
`word=mlp:layers=256;photo=image:size=28x28`. An encoder without a type applies to all other types.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

from glace.errors import InputError
from glace.options import Configuration, Value, number_or_word, option

if TYPE_CHECKING:
    from glace.rng import Streams


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
        f"must be {', '.join(f'glace.{kind.__name__}(...)' for kind in BUILT_IN.values())}, a torch.nn.Module, "
        f"a text such as 'mlp:layers=256', or a dict of these by node type, not {shown}",
        option="encoder",
    )


GAUSSIAN_DISSIMILARITIES = ("kl", "symmetric_kl", "wasserstein2", "expected")
POINT_DISSIMILARITIES = ("dot",)
"""The names of the measures of `glace.gaussian.dissimilarity`, with and without variances."""


BY_VALUES = "values"
"""The scaling of attributes follows their values: `glace.values`."""


def is_linear(spec: EncoderSpec) -> bool:
    """Whether an encoder is a single input layer, without layers of its own."""
    return isinstance(spec, Identity) or (isinstance(spec, MLP) and not spec.layers)


@dataclass(frozen=True)
class ModelConfig(Configuration):
    """The shape of the network and of its objective."""

    dim: int = option(
        64, "Dimensions of a mean and of a variance (the paper's L); `both` concatenates two of these.", at_least=1
    )
    hidden: int = option(512, "Width of the hidden layer (the paper's m).", at_least=1)
    ensemble_size: int = option(
        4,
        "Number of encoders that `dim` and `hidden` are divided among: an ensemble of small encoders predicts links "
        "better than one large encoder; the paper uses 1.",
        at_least=1,
    )
    proximity: str = option(
        "first",
        "What to learn: edges (`first`), shared neighbourhoods (`second`), or `both`, concatenated.",
        choices=("first", "second", "both"),
    )
    dissimilarity: str | None = option(
        None,
        "Dissimilarity of two nodes; by default `kl` for directed graphs, `symmetric_kl` for undirected ones and `dot` "
        "for LACE.",
        choices=(*GAUSSIAN_DISSIMILARITIES, *POINT_DISSIMILARITIES),
        optional=True,
    )
    activation: str = option(
        "relu",
        "Activation after the hidden layer; `linear` is Eq. 1 of the paper to the letter.",
        choices=("relu", "linear"),
    )
    hidden_length: str = option(
        "auto",
        "Length of the hidden vector: `bounded`, nearly the same for all nodes, which places new nodes better, or "
        "`free`, as in the paper; `auto` bounds it if nodes have attributes that can be averaged over neighbours.",
        choices=("auto", "bounded", "free"),
    )
    neighbor_features: str = option(
        "auto",
        "Whether the encoder also sees the `mean` of the neighbours' attributes or `none` of them, as in the paper.",
        choices=("auto", "mean", "none"),
    )
    neighbor_dropout: float = option(
        0.25,
        "Fraction of nodes whose neighbours are hidden in a training step, so that nodes without edges are embedded "
        "well too.",
        at_least=0,
        below=1,
    )
    dropout: float | str = option(
        "auto",
        "Fraction of the attributes hidden in a training step; `annealed` falls from 0.5 to 0 in the first part of the "
        "run, which predicts links best.",
        choices=("auto", "annealed"),
        kind=float,
        at_least=0,
        below=1,
    )
    purpose: str = option(
        "links",
        "What `auto` optimizes: `links` between known nodes, or `nodes` for node classification and new nodes, which "
        "need dropout to the end.",
        choices=("links", "nodes"),
    )
    offset: float | str = option(
        "learned",
        "b in the edge probability sigmoid(b - dissimilarity): a number, or `learned`; the paper uses 0.",
        choices=("learned",),
        kind=float,
    )
    n_hashed_features: int | None = option(
        None,
        "Number of columns that sparse attributes are hashed into (feature hashing with signs) when one row of weights "
        "per attribute would be too many; None disables hashing.",
        at_least=2,
        optional=True,
        kind=int,
    )
    encoder: str = option(
        "mlp",
        f"Encoder of the attributes ({', '.join(f'`{name}`' for name in BUILT_IN)}), with options after a colon as in "
        "`mlp:layers=64+48`, or one per node type as in `word=mlp;photo=image:size=28x28`.",
        description="an encoder",
    )
    scaling: str = option(
        BY_VALUES,
        "How attributes are scaled. `values`: as they ask for, rows to `unit` length if they are counts, indicators or "
        "TF-IDF, columns to mean 0 and variance 1 (`standard`) if they are measurements, each column as what it is if "
        "they are mixed. `none`: not at all.",
        choices=(BY_VALUES, "unit", "standard", "none"),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoder", canonical(self.encoder))
        super().__post_init__()
        limit = min(self.dim, self.hidden)
        if self.ensemble_size > limit:
            raise InputError(
                f"must be at most {limit}, because dim and hidden are divided among the encoders, "
                f"not {self.ensemble_size}",
                option="ensemble_size",
            )

    def encoders(self) -> dict[str, EncoderSpec]:
        """Return the encoder of each node type that has its own, and under "" the encoder of all other types."""
        return parse_encoders(self.encoder)

    def has_layers(self) -> bool:
        """Whether some encoder has layers of its own."""
        return not all(map(is_linear, self.encoders().values()))

    def open_options(self) -> list[str]:
        """Return the names of the options that are `auto`, which training selects for each graph."""
        return [each.name for each in fields(self) if getattr(self, each.name) == "auto"]

    def resolved_dissimilarity(self, directed: bool, gaussian: bool) -> str:
        """Return the dissimilarity to use, given the graph and whether nodes are Gaussians or points."""
        if self.dissimilarity is None:
            return ("kl" if directed else "symmetric_kl") if gaussian else "dot"
        fitting = GAUSSIAN_DISSIMILARITIES if gaussian else POINT_DISSIMILARITIES
        if self.dissimilarity not in fitting:
            kind = "Gaussians" if gaussian else "points (LACE)"
            raise InputError(f"dissimilarity {self.dissimilarity!r} does not fit {kind}; choose {', '.join(fitting)}")
        return self.dissimilarity


@dataclass(frozen=True)
class SamplingConfig(Configuration):
    """What a batch consists of."""

    batch_size: int = option(512, "Positive edges per training step.", at_least=1)
    n_negatives: int = option(
        5, "Negatives per edge (the paper's N); with a shared pool, their weight in the loss.", at_least=1
    )
    negative_sampling: str = option(
        "shared",
        "One `shared` pool of negatives for the whole batch, weighted as if each edge had its own, or `independent` "
        "draws for each edge, as in the paper.",
        choices=("shared", "independent"),
    )
    negative_pool_size: int = option(128, "Size of the shared pool of negatives.", at_least=1)
    negative_power: float = option(
        0.0,
        "Negatives are drawn with probability proportional to (weighted out-degree)^power: 0 is uniform, the paper "
        "uses 0.75.",
        at_least=0,
    )
    weights: str = option(
        "strength",
        "What edge weights mean. `strength`: an edge of twice the weight counts twice. `preference`: weights are "
        "ratings, so the lowest of the graph counts almost nothing and the highest most. `ignore`: all edges count the "
        "same.",
        choices=("strength", "preference", "ignore"),
    )


@dataclass(frozen=True)
class TrainingConfig(Configuration):
    """Learning rate, length of the run and early stopping; the first limit reached ends the run."""

    learning_rate: float = option(2e-2, "Initial learning rate.", above=0)
    lr_schedule: str = option(
        "cosine", "Learning rate schedule: `cosine` decay to 0, or `constant`.", choices=("cosine", "constant")
    )
    max_steps: int | None = option(
        None,
        "Maximum number of steps; without any limit 20 epochs, but at least 300 and at most 3000 steps.",
        at_least=1,
        kind=int,
        optional=True,
    )
    max_epochs: float | None = option(
        None,
        "Maximum number of epochs; an epoch draws as many edges as the graph has, undirected edges counted twice.",
        above=0,
        kind=float,
        optional=True,
    )
    max_seconds: float | None = option(
        None,
        "Maximum time in seconds; the only limit that makes results depend on the clock.",
        above=0,
        kind=float,
        optional=True,
    )
    validation_fraction: float = option(
        0.05,
        "Fraction of the edges held out for early stopping; 0 trains on all edges up to the last step.",
        at_least=0,
        below=1,
    )
    validate_every: int = option(100, "Steps between two validations.", at_least=1)
    patience: int = option(10, "Stop after this many validations without a better AUC.", at_least=1)


@dataclass(frozen=True)
class RunConfig(Configuration):
    """Where and how to compute."""

    random_state: int = option(0, "Seed of all random numbers.", at_least=0)
    n_jobs: int = option(
        -1,
        "Number of threads; -1 stands for all cores that the process may use. Results are bit-identical only for the "
        "same number.",
        at_least=-1,
    )
    device: str = option(
        "cpu",
        "Device to train on; on the CPU, compiled kernels replace the operations that torch is slow at.",
        choices=("cpu", "cuda", "mps"),
    )
    sync: str = option(
        "auto",
        "What the processes of a distributed run exchange. `members`: each trains other members of the ensemble, and "
        "only scores are exchanged. `weights`: weights are averaged every `sync_every` steps. `gradients`: gradients "
        "are averaged in every step. `auto`: members if there are enough of them, otherwise weights.",
        choices=("auto", "members", "weights", "gradients"),
    )
    sync_every: int = option(
        50,
        "Steps of each process of a distributed run between two meetings, at which weights are averaged.",
        at_least=1,
    )
    rank_timeout: float = option(
        60.0, "Seconds after which a process of a distributed run that does not answer counts as lost.", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_jobs == 0:
            raise InputError("must be at least 1, or -1 for all cores, not 0", option="n_jobs")


STAGES = (ModelConfig, SamplingConfig, TrainingConfig, RunConfig)
Stage = TypeVar("Stage", bound=Configuration)


@dataclass(frozen=True)
class Config:
    """All options, grouped by the stage that uses them."""

    model: ModelConfig
    sampling: SamplingConfig
    training: TrainingConfig
    run: RunConfig

    @classmethod
    def of(cls, options: Mapping[str, Value]) -> "Config":
        """Check flat options by name; an unknown name raises `InputError` and lists the known ones."""
        known = [each.name for stage in STAGES for each in fields(stage)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InputError(f"unknown option {unknown[0]!r}; known: {', '.join(known)}")
        return cls(
            _part(ModelConfig, options),
            _part(SamplingConfig, options),
            _part(TrainingConfig, options),
            _part(RunConfig, options),
        )

    @property
    def streams(self) -> "Streams":
        """The random streams of `random_state`."""
        from glace.rng import Streams

        return Streams(self.run.random_state)

    def replace(self, **options: Value) -> "Config":
        """Return a copy with some options changed."""
        return Config.of(self.to_dict() | options)

    def to_dict(self) -> dict[str, Value]:
        """Return all options by name, as plain JSON values."""
        return {name: value for stage in asdict(self).values() for name, value in stage.items()}


def _part(stage: type[Stage], options: Mapping[str, Value]) -> Stage:
    return stage(**{each.name: options[each.name] for each in fields(stage) if each.name in options})


@dataclass(frozen=True)
class Method:
    """A learned method: what it learns per node, what it reads, and the options that differ from GLACE's defaults."""

    name: str
    gaussian: bool = True
    """Whether a node is a Gaussian; otherwise it is a point without variance."""
    uses_attributes: bool = True
    """Whether the encoder reads attributes; otherwise each node has an embedding of its own (one-hot input)."""
    defaults: Mapping[str, float | str | None] = field(default_factory=dict)
    link_model: bool = True
    """Whether missing edges are ranked by a link model on top of the Gaussians."""

    def config(self, **options: object) -> Config:
        """Return the configuration of this method with some options set."""
        return Config.of({**self.defaults, **options})


_PUBLISHED: dict[str, float | str | None] = {
    "ensemble_size": 1,
    "proximity": "both",
    "hidden_length": "free",
    "neighbor_features": "none",
    "dropout": 0.0,
    "offset": 0.0,
    "negative_power": 0.75,
    "learning_rate": 3e-3,
    "patience": 5,
}
# With LINE a node learns from its own edges only, so the length of training is set in passes over the edges.
_LINE: dict[str, float | str | None] = {
    "hidden": 256,
    "ensemble_size": 1,
    "proximity": "both",
    "activation": "linear",
    "hidden_length": "free",
    "neighbor_features": "none",
    "dropout": 0.0,
    "n_negatives": 1,
    "learning_rate": 1e-2,
    "max_epochs": 60.0,
    "patience": 5,
}
METHODS = {
    method.name: method
    for method in (
        Method("glace"),
        Method("glace-published", defaults=_PUBLISHED, link_model=False),
        # Points with everything else as in GLACE, so that a comparison of the two says what the variance is worth.
        Method("lace", gaussian=False),
        Method("lace-published", gaussian=False, defaults=_PUBLISHED, link_model=False),
        Method("line", gaussian=False, uses_attributes=False, defaults=_LINE),
    )
}


def method_named(name: str) -> Method:
    """Return the method of this name; an unknown name raises and lists the known ones."""
    if name not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {name!r}")
    return METHODS[name]
