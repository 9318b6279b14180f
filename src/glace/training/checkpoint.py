"""Checkpoints: everything a run needs to continue to the same bits as if it had never stopped."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glace.errors import InputError
from glace.fitted.history import History
from glace.storage import container
from glace.storage.container import Arrays

KIND, VERSION = "glace-checkpoint", 2


@dataclass(frozen=True)
class State:
    """A run between two steps. The sampler has no state: a batch depends on the number of its step only."""

    history: History
    weights: Arrays
    optimizer: Arrays
    best_weights: Arrays | None


@dataclass
class Checkpoints:
    """Writes the state of a run to `path`, at most every `seconds`.

    `identity` holds what the bits depend on besides the state: data, configuration, threads, versions.
    """

    path: Path
    identity: dict[str, Any]
    seconds: float = 10.0
    notes: dict[str, Any] = field(default_factory=dict)
    """Plain values of the caller, returned when the run is resumed."""

    def __post_init__(self) -> None:
        self._last = time.monotonic()

    def offer(self, state: Callable[[], State]) -> None:
        """Write the state if it is time to."""
        if time.monotonic() - self._last >= self.seconds:
            self.save(state())
            self._last = time.monotonic()

    def save(self, state: State) -> None:
        """Write a state, completely or not at all."""
        groups = {"weights": state.weights, "optimizer": state.optimizer, "best": state.best_weights or {}}
        arrays = {f"{group}|{name}": array for group, named in groups.items() for name, array in named.items()}
        facts = {"identity": self.identity, "history": state.history.to_json(), "notes": self.notes}
        container.write(self.path, KIND, VERSION, facts, arrays)

    def load(self) -> tuple[State, dict[str, Any]]:
        """Return the state and the notes of the file; raise if it belongs to another run, naming the differences."""
        metadata, arrays = container.read(self.path, KIND, VERSION)
        self._check_same(metadata["identity"])
        groups: dict[str, Arrays] = {"weights": {}, "optimizer": {}, "best": {}}
        for name, array in arrays.items():
            group, _, rest = name.partition("|")
            groups[group][rest] = array
        history = History.from_json(metadata["history"])
        state = State(history, groups["weights"], groups["optimizer"], groups["best"] or None)
        return state, metadata["notes"]

    def _check_same(self, written: dict[str, Any]) -> None:
        before, after = _flat(written), _flat(self.identity)
        different = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
        if different:
            shown = "; ".join(f"{key} was {before.get(key)!r} and is {after.get(key)!r}" for key in different[:5])
            raise InputError(
                f"cannot resume from {self.path}, which belongs to another run: {shown}. Use the same data, options "
                "and versions, or delete the file to start from the beginning"
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
