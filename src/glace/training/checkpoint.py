"""Checkpoints: everything a run needs to go on to the same bits as if it had never stopped."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from glace.errors import InputError
from glace.fitted.history import History
from glace.storage import container

KIND, VERSION = "glace-checkpoint", 1
Weights = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class State:
    """A run between two steps. The sampler needs no state of its own: a batch follows from its step."""

    history: History
    weights: Weights
    optimizer: Weights
    best_weights: Weights | None


@dataclass
class Checkpoints:
    """Writes a run's state to `path`, at most every `seconds`.

    `identity` names all that the bits depend on beside the state: data, configuration, threads, versions.
    """

    path: Path
    identity: dict[str, Any]
    seconds: float = 10.0
    notes: dict[str, Any] = field(default_factory=dict)
    """What the caller wants to know again when the run goes on."""

    def __post_init__(self) -> None:
        self._last = time.monotonic()

    def offer(self, state: Callable[[], State]) -> None:
        """Write the state if the time has come."""
        if time.monotonic() - self._last >= self.seconds:
            save(self.path, state(), self.identity, self.notes)
            self._last = time.monotonic()


def save(path: Path, state: State, identity: dict[str, Any], notes: dict[str, Any]) -> None:
    """Write a state, whole or not at all."""
    groups = {"weights": state.weights, "optimizer": state.optimizer, "best": state.best_weights or {}}
    arrays = {f"{group}|{name}": array for group, named in groups.items() for name, array in named.items()}
    facts = {"identity": identity, "history": state.history.to_json(), "notes": notes}
    container.write(path, KIND, VERSION, facts, arrays)


def load(path: Path, identity: dict[str, Any]) -> tuple[State, dict[str, Any]]:
    """The state in a checkpoint of the very same run, and its notes; any difference raises and is named."""
    metadata, arrays = container.read(path, KIND, VERSION)
    check_same(path, metadata["identity"], identity)
    groups: dict[str, Weights] = {"weights": {}, "optimizer": {}, "best": {}}
    for name, array in arrays.items():
        group, _, rest = name.partition("|")
        groups[group][rest] = array
    history = History.from_json(metadata["history"])
    state = State(history, groups["weights"], groups["optimizer"], groups["best"] or None)
    return state, metadata["notes"]


def check_same(path: Path, written: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise unless the run that wrote a checkpoint and this one are the same."""
    before, after = _flat(written), _flat(now)
    different = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    if different:
        said = "; ".join(f"{key} was {before.get(key)!r} and is {after.get(key)!r}" for key in different[:5])
        raise InputError(
            f"cannot resume from {path}, which belongs to another run: {said}. "
            "Run with what it was written with, or delete it to start anew"
        )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
