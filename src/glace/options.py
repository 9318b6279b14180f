"""Configurations: frozen dataclasses whose fields carry their help and their limits.

The command line, the estimator and the documentation read the same fields, so each option is said once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from glace.errors import InputError


@dataclass(frozen=True)
class Limits:
    """What values a field takes, beside the type of its default."""

    help: str
    at_least: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    kind: type = float
    """int or float, or str where the value is one of `choices`; with both, either will do."""
    parse: Callable[[Any], Any] | None = None
    """For values that are none of these: gives what is kept of one, or raises."""
    words: str = ""
    """What such values are."""


def option(default: Any, help: str, **limits: Any) -> Any:
    """A dataclass field with its help and limits."""
    kind = limits.pop("kind", None) or (str if limits.get("choices") else type(default))
    return field(default=default, metadata={"limits": Limits(help, kind=kind, **limits)})


def limits_of(configuration: Any) -> dict[str, Limits]:
    """The limits of every field of a configuration class, by field name."""
    return {each.name: each.metadata["limits"] for each in fields(configuration)}


@dataclass(frozen=True)
class Configuration:
    """A configuration is checked when it is made; `InputError` names the field and what it takes."""

    def __post_init__(self) -> None:
        for name, limits in limits_of(self).items():
            value = plain(getattr(self, name))
            if limits.parse is not None:
                object.__setattr__(self, name, limits.parse(value))
                continue
            if not accepts(limits, value):
                raise InputError(f"must be {described(limits)}, not {value!r}", option=name)
            # 8.0 and numpy's 8 are taken for 8: what is kept has the plain type that code and files expect.
            given = value if value is None or isinstance(value, str) else limits.kind(value)
            object.__setattr__(self, name, given)


def accepts(limits: Limits, value: Any) -> bool:
    """Whether a value is within the limits."""
    if value is None:
        return limits.optional
    if isinstance(value, str):
        return value in limits.choices
    if isinstance(value, bool) or limits.kind is bool:
        return isinstance(value, bool) and limits.kind is bool
    return limits.kind is not str and _is_number(limits, value) and _within(limits, value)


def plain(value: Any) -> Any:
    """A number or truth value of numpy's as Python's own; anything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def number_or_word(text: str) -> Any:
    """A whole number, a number, or else the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_number(limits: Limits, value: Any) -> bool:
    try:
        whole = math.isfinite(value) and value == int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return bool(whole if limits.kind is int else math.isfinite(value))


def _within(limits: Limits, value: float) -> bool:
    return (
        (limits.at_least is None or value >= limits.at_least)
        and (limits.above is None or value > limits.above)
        and (limits.below is None or value < limits.below)
    )


def described(limits: Limits) -> str:
    """The limits in words, such as "a whole number of at least 1"."""
    if limits.words:
        return limits.words
    if limits.kind is bool:
        return "true or false"
    words = [f"'{choice}'" for choice in limits.choices]
    if limits.kind is not str:
        noun = "a whole number" if limits.kind is int else "a number"
        bounds = [("of at least", limits.at_least), ("above", limits.above), ("below", limits.below)]
        words.append(" ".join([noun, *(f"{word} {bound:g}" for word, bound in bounds if bound is not None)]))
    if limits.optional:
        words.append("None")
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
