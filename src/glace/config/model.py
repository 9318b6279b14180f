"""What a network is made of; free of torch, so that the command line can read it quickly."""

from dataclasses import dataclass, fields

from glace.config.encoders import Part, checked, parts_of
from glace.errors import InputError
from glace.options import Configuration, option


@dataclass(frozen=True)
class ModelConfig(Configuration):
    """Shape of the network and of its objective."""

    dim: int = option(64, "Numbers in a mean, the paper's L; `both` has two such parts.", at_least=1)
    hidden: int = option(512, "Width of the hidden layer, the paper's m.", at_least=1)
    ensemble_size: int = option(
        4,
        "Encoders side by side, among which `dim` and `hidden` are shared out: several small ones judge links "
        "better together than one large one. The paper has 1.",
        at_least=1,
    )
    proximity: str = option(
        "first",
        "Edges (`first`), neighbourhoods (`second`), or both concatenated.",
        choices=("first", "second", "both"),
    )
    dissimilarity: str | None = option(
        None,
        "How unlike two Gaussians are; by default `kl` for directed and `symmetric_kl` for undirected graphs "
        "(`dot` for LACE).",
        choices=("kl", "symmetric_kl", "wasserstein2", "dot"),
        optional=True,
    )
    activation: str = option(
        "relu",
        "After the hidden layer; `linear` is Eq. 1 of the paper to the letter.",
        choices=("relu", "linear"),
    )
    neighbor_features: str = option(
        "auto",
        "Join a node's attributes with the `mean` of its neighbours', or with nothing (`none`, the paper).",
        choices=("auto", "mean", "none"),
    )
    neighbor_dropout: float = option(
        0.25,
        "Share of nodes whose neighbours are hidden in a step, to learn what attributes tell alone.",
        at_least=0,
        below=1,
    )
    dropout: float | str = option(
        "auto",
        "Share of attributes hidden in a step of training.",
        choices=("auto",),
        kind=float,
        at_least=0,
        below=1,
    )
    purpose: str = option(
        "links",
        "What `auto` aims at: `links` among known nodes, or `nodes`: classes, and nodes never seen, which need the "
        "dropout that links can do without.",
        choices=("links", "nodes"),
    )
    offset: float | str = option(
        "auto",
        "b in sigmoid(b - dissimilarity), a number or `learned`; the paper has 0.",
        choices=("auto", "learned"),
        kind=float,
    )
    n_hashed_features: int | None = option(
        None,
        "Columns that sparse attributes are hashed into, each with a sign, where there are too many for a row of "
        "weights each; None keeps them apart.",
        at_least=2,
        optional=True,
        kind=int,
    )
    encoder: str = option(
        "mlp",
        "What attributes go through to the hidden layer: `mlp`, `image` or `identity`, with options after a colon; "
        "types of nodes have one each.",
        parse=checked,
        words="an encoder in words",
    )
    normalize: bool = option(
        True, "Scale sparse attribute rows to unit length, dense columns to mean 0 and variance 1."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ensemble_size > min(self.dim, self.hidden):
            raise InputError(
                f"must be at most {min(self.dim, self.hidden)}, as dim and hidden are shared out among "
                f"them, not {self.ensemble_size}",
                option="ensemble_size",
            )

    def parts(self) -> dict[str, Part]:
        """The encoder of each type of nodes that is named, and under "" that of all others."""
        return parts_of(self.encoder)

    def left_open(self) -> list[str]:
        """The options that are `auto`, to be decided for each graph."""
        return [each.name for each in fields(self) if getattr(self, each.name) == "auto"]

    def resolved_dissimilarity(self, directed: bool, gaussian: bool) -> str:
        """The measure that is meant, given the graph and whether nodes are Gaussians or points."""
        if self.dissimilarity is None:
            return ("kl" if directed else "symmetric_kl") if gaussian else "dot"
        if gaussian == (self.dissimilarity == "dot"):
            needed = "kl, symmetric_kl or wasserstein2" if gaussian else "dot"
            kind = "Gaussians" if gaussian else "points (LACE)"
            raise InputError(f"dissimilarity {self.dissimilarity!r} does not fit {kind}; choose {needed}")
        return self.dissimilarity
