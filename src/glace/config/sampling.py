"""What a batch holds; free of compiled code, so that the command line can read it quickly."""

from dataclasses import dataclass

from glace.options import Configuration, option


@dataclass(frozen=True)
class SamplingConfig(Configuration):
    """What a batch holds."""

    batch_size: int = option(512, "Positive edges a step.", at_least=1)
    n_negatives: int = option(5, "Negatives an edge, the paper's N.", at_least=1)
    negative_sampling: str = option(
        "shared",
        "One pool of negatives for the whole batch, weighted as if each edge had its own, or `independent` draws.",
        choices=("shared", "independent"),
    )
    negative_pool_size: int = option(256, "Size of the shared pool of negatives.", at_least=1)
    negative_power: float = option(
        0.0,
        "Negatives are drawn by (weighted out-degree)^power; the paper has 0.75, 0 draws evenly.",
        at_least=0,
    )
