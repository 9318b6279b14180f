"""How long and how fast to train; free of torch, so that the command line can read it quickly."""

from dataclasses import dataclass

from glace.options import Configuration, option


@dataclass(frozen=True)
class TrainingConfig(Configuration):
    """Limits, learning rate and early stopping."""

    learning_rate: float = option(1e-2, "Adam's step size at the start.", above=0)
    lr_schedule: str = option(
        "cosine",
        "Learning rate over the run: down to 0 along a cosine, or `constant`.",
        choices=("cosine", "constant"),
    )
    max_steps: int | None = option(
        None, "Most steps; 3000 or 30 epochs where no limit is given.", at_least=1, kind=int, optional=True
    )
    max_epochs: float | None = option(
        None,
        "Most passes: as many sampled edges as the graph has, so often.",
        above=0,
        kind=float,
        optional=True,
    )
    max_seconds: float | None = option(
        None,
        "Stop after this time; the only limit that makes results depend on the clock.",
        above=0,
        kind=float,
        optional=True,
    )
    validation_fraction: float = option(
        0.05,
        "Share of edges held out for early stopping; 0 trains on all, to the last step.",
        at_least=0,
        below=1,
    )
    validate_every: int = option(100, "Steps between two looks at the held-out edges.", at_least=1)
    patience: int = option(10, "Stop after so many looks without a better AUC.", at_least=1)
