"""Options: frozen dataclasses whose fields carry a help text and the values they accept.

The command line, the estimators and the documentation read the same fields, so that each option is declared once.
"""

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Protocol

from glace.errors import InputError

Value = object
"""Whatever a user may pass; checked before use."""


@dataclass(frozen=True)
class Limits:
    """The help text of an option and the values it accepts."""

    help: str
    at_least: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    kind: type = float
    """int, float or bool; str if only `choices` are accepted. With int or float and `choices`, both are accepted."""
    description: str = ""
    """What is accepted, in words, if the class that declares the option checks it instead of these limits."""


class HasFields(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def option(default: Any, help: str, **limits: Any) -> Any:  # Any: the type of the field is that of its annotation
    """Declare a dataclass field with its help text and limits; the default decides the kind if none is given."""
    kind = limits.pop("kind", None) or (str if limits.get("choices") else type(default))
    return field(default=default, metadata={"limits": Limits(help, kind=kind, **limits)})


def limits_of(configuration: HasFields | type[HasFields]) -> Mapping[str, Limits]:
    """Return the limits of every field of a configuration, by field name."""
    return {each.name: each.metadata["limits"] for each in fields(configuration)}


@dataclass(frozen=True)
class Configuration:
    """Base class of option sets: checks its values on creation and stores them as plain Python types."""

    def __post_init__(self) -> None:
        for name, limits in limits_of(self).items():
            object.__setattr__(self, name, checked(name, limits, getattr(self, name)))


def checked(name: str, limits: Limits, value: Value) -> Value:
    """Return the value as a plain Python type, or raise `InputError` if the option does not accept it."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # a NumPy scalar
    if limits.description:
        return value
    if not accepts(limits, value):
        raise InputError(f"must be {described(limits)}, not {value!r}", option=name)
    # 8.0 is accepted for 8, but code and files expect an int.
    return value if value is None or isinstance(value, str) else limits.kind(value)


def accepts(limits: Limits, value: Value) -> bool:
    """Whether the value is within the limits."""
    if value is None:
        return limits.optional
    if isinstance(value, str):
        return value in limits.choices
    if isinstance(value, bool) or limits.kind is bool:
        return isinstance(value, bool) and limits.kind is bool
    if limits.kind is str or not isinstance(value, int | float):
        return False
    return _is_number(limits, value) and _is_within(limits, value)


def number_or_word(text: str) -> int | float | str:
    """Parse an integer or else a float; return the text itself if it is neither."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_number(limits: Limits, value: float) -> bool:
    try:
        return math.isfinite(value) and (limits.kind is not int or value == int(value))
    except OverflowError:  # an int beyond the range of float
        return False


def _is_within(limits: Limits, value: float) -> bool:
    return (
        (limits.at_least is None or value >= limits.at_least)
        and (limits.above is None or value > limits.above)
        and (limits.below is None or value < limits.below)
    )


def described(limits: Limits) -> str:
    """Describe the accepted values, such as "a whole number of at least 1"."""
    if limits.description:
        return limits.description
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
