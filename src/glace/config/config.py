"""All options of an estimator in one checked value, free of torch."""

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from glace.config.model import ModelConfig
from glace.config.sampling import SamplingConfig
from glace.config.training import TrainingConfig
from glace.errors import InputError
from glace.options import Configuration, option

if TYPE_CHECKING:
    from glace.rng import Streams


@dataclass(frozen=True)
class RunConfig(Configuration):
    """What decides on bits beside model, sampling and training."""

    random_state: int = option(0, "Decides all random draws.", at_least=0)
    n_jobs: int = option(
        1,
        "Threads to compute with. Steps are small: a second one gains a fifth on an idle machine and "
        "loses far more on a busy one. Where there is a core more, it prepares the next batch. Results have the "
        "same bits only for the same number.",
        at_least=1,
    )

    device: str = option(
        "cpu",
        "What to train on. On the CPU, compiled kernels do what torch is slow at; on others, torch does all.",
        choices=("cpu", "cuda", "mps"),
    )


STAGES = (ModelConfig, SamplingConfig, TrainingConfig, RunConfig)


@dataclass(frozen=True)
class Config:
    """The configurations of all stages."""

    model: ModelConfig
    sampling: SamplingConfig
    training: TrainingConfig
    run: RunConfig

    @classmethod
    def of(cls, options: dict[str, Any]) -> "Config":
        """From flat options by name; an unknown one raises and names the known ones."""
        known = [each.name for stage in STAGES for each in fields(stage)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InputError(f"unknown option {unknown[0]!r}; known: {', '.join(known)}")
        stages: list[Any] = [
            stage(**{each.name: options[each.name] for each in fields(stage) if each.name in options})
            for stage in STAGES
        ]
        return cls(*stages)

    @property
    def streams(self) -> "Streams":
        """The random streams of the seed."""
        from glace.rng import Streams

        return Streams(self.run.random_state)

    def changed(self, options: dict[str, Any]) -> "Config":
        """The same with some options changed."""
        return Config.of(self.flat() | options)

    def flat(self) -> dict[str, Any]:
        """All options by name."""
        return {name: value for stage in asdict(self).values() for name, value in stage.items()}
