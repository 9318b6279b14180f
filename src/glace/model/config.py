"""What a network is made of; free of torch, so that the command line can read it quickly."""

from dataclasses import dataclass

from glace.errors import InputError
from glace.options import Configuration, option


@dataclass(frozen=True)
class ModelConfig(Configuration):
    """Shape of the network and of its objective."""

    dim: int = option(64, "Numbers in a mean, the paper's L; `both` has two such parts.", at_least=1)
    hidden: int = option(256, "Width of the hidden layer, the paper's m.", at_least=1)
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
    offset: float | str = option(
        "learned",
        "b in sigmoid(b - dissimilarity), a number or `learned`; the paper has 0.",
        choices=("learned",),
        kind=float,
    )
    normalize: bool = option(
        True, "Scale sparse attribute rows to unit length, dense columns to mean 0 and variance 1."
    )

    def resolved_dissimilarity(self, directed: bool, gaussian: bool) -> str:
        """The measure that is meant, given the graph and whether nodes are Gaussians or points."""
        if self.dissimilarity is None:
            return ("kl" if directed else "symmetric_kl") if gaussian else "dot"
        if gaussian == (self.dissimilarity == "dot"):
            needed = "kl, symmetric_kl or wasserstein2" if gaussian else "dot"
            kind = "Gaussians" if gaussian else "points (LACE)"
            raise InputError(f"dissimilarity {self.dissimilarity!r} does not fit {kind}; choose {needed}")
        return self.dissimilarity
