"""The learned methods by name: GLACE, its published form, LACE and LINE are one algorithm with different defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from glace.config.config import Config
from glace.errors import InputError


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
