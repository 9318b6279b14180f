"""All options of a method in one checked value; free of torch and NumPy, so that the command line starts fast."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

from glace.config.encoders import EncoderSpec, canonical, parse_encoders
from glace.errors import InputError
from glace.options import Configuration, Value, option

if TYPE_CHECKING:
    from glace.rng import Streams


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
        choices=("kl", "symmetric_kl", "wasserstein2", "dot"),
        optional=True,
    )
    activation: str = option(
        "relu",
        "Activation after the hidden layer; `linear` is Eq. 1 of the paper to the letter.",
        choices=("relu", "linear"),
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
        "Fraction of the attributes hidden in a training step.",
        choices=("auto",),
        kind=float,
        at_least=0,
        below=1,
    )
    purpose: str = option(
        "links",
        "What `auto` optimizes: `links` between known nodes, or `nodes` for node classification and new nodes, which "
        "need dropout.",
        choices=("links", "nodes"),
    )
    offset: float | str = option(
        "auto",
        "b in the edge probability sigmoid(b - dissimilarity): a number, or `learned`; the paper uses 0.",
        choices=("auto", "learned"),
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
        "Encoder of the attributes, `mlp`, `image` or `identity`, with options after a colon as in "
        "`mlp:layers=64+48`, or one per node type as in `word=mlp;photo=image:size=28x28`.",
        description="an encoder",
    )
    normalize: bool = option(True, "Scale sparse rows to unit length and dense columns to mean 0 and variance 1.")

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

    def open_options(self) -> list[str]:
        """Return the names of the options that are `auto`, which training selects for each graph."""
        return [each.name for each in fields(self) if getattr(self, each.name) == "auto"]

    def resolved_dissimilarity(self, directed: bool, gaussian: bool) -> str:
        """Return the dissimilarity to use, given the graph and whether nodes are Gaussians or points."""
        if self.dissimilarity is None:
            return ("kl" if directed else "symmetric_kl") if gaussian else "dot"
        if gaussian == (self.dissimilarity == "dot"):
            needed = "kl, symmetric_kl or wasserstein2" if gaussian else "dot"
            kind = "Gaussians" if gaussian else "points (LACE)"
            raise InputError(f"dissimilarity {self.dissimilarity!r} does not fit {kind}; choose {needed}")
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
    negative_pool_size: int = option(256, "Size of the shared pool of negatives.", at_least=1)
    negative_power: float = option(
        0.0,
        "Negatives are drawn with probability proportional to (weighted out-degree)^power: 0 is uniform, the paper "
        "uses 0.75.",
        at_least=0,
    )


@dataclass(frozen=True)
class TrainingConfig(Configuration):
    """Learning rate, length of the run and early stopping; the first limit reached ends the run."""

    learning_rate: float = option(1e-2, "Initial learning rate.", above=0)
    lr_schedule: str = option(
        "cosine", "Learning rate schedule: `cosine` decay to 0, or `constant`.", choices=("cosine", "constant")
    )
    max_steps: int | None = option(
        None,
        "Maximum number of steps; without any limit, 3000 steps or 30 epochs, whichever is fewer.",
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
    n_jobs: int = option(1, "Number of threads; results are bit-identical only for the same number.", at_least=1)
    device: str = option(
        "cpu",
        "Device to train on; on the CPU, compiled kernels replace the operations that torch is slow at.",
        choices=("cpu", "cuda", "mps"),
    )


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

    def config(self, **options: object) -> Config:
        """Return the configuration of this method with some options set."""
        return Config.of({**self.defaults, **options})


_LACE: dict[str, float | str | None] = {
    "hidden": 256,
    "ensemble_size": 1,
    "neighbor_features": "none",
    "dropout": 0.0,
    "offset": "learned",
    "patience": 5,
}
_PUBLISHED: dict[str, float | str | None] = {
    "ensemble_size": 1,
    "proximity": "both",
    "neighbor_features": "none",
    "dropout": 0.0,
    "offset": 0.0,
    "negative_power": 0.75,
    "learning_rate": 3e-3,
    "patience": 5,
}
# With LINE a node learns from its own edges only, so the length of training is set in passes over the edges.
_LINE = _LACE | {"proximity": "both", "activation": "linear", "n_negatives": 1, "max_epochs": 60.0}
METHODS = {
    method.name: method
    for method in (
        Method("glace"),
        Method("glace-published", defaults=_PUBLISHED),
        Method("lace", gaussian=False, defaults=_LACE),
        Method("line", gaussian=False, uses_attributes=False, defaults=_LINE),
    )
}


def method_named(name: str) -> Method:
    """Return the method of this name; an unknown name raises and lists the known ones."""
    if name not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {name!r}")
    return METHODS[name]
