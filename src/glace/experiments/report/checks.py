"""What a record must hold to be drawn, by task; a value that is not there or not of its kind is named."""

import math
from collections.abc import Callable
from typing import Any, TypeGuard

STATUSES = {
    "done": "done",
    "timeout": "stopped at its time limit",
    "memory": "stopped at its memory limit",
    "unsupported": "the method cannot do this",
    "failed": "failed",
}

Check = Callable[[Any], bool]


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_choice(value: Any) -> bool:
    return _is_object(value) and _is_object(value.get("options"))


def _is_trials(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_is_trial, value.items()))


def _is_trial(item: tuple[str, Any]) -> bool:
    share, scores = item
    try:
        float(share)
    except ValueError:
        return False
    return isinstance(scores, list) and bool(scores) and all(map(_is_share, scores))


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_pair, value))


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def _is_codes(value: Any) -> bool:
    return isinstance(value, list) and all(_is_whole(each) and each >= 0 for each in value)


def _is_facts(value: Any) -> bool:
    # A correlation with what does not vary is none.
    return value is None or (_is_object(value) and all(each is None or is_number(each) for each in value.values()))


def _columns(*names: str) -> tuple[str, Check]:
    """Numbers in columns of equal length, these among them; or nothing."""

    def check(value: Any) -> bool:
        return value is None or (_is_object(value) and set(names) <= set(value) and _is_rectangle(value))

    return f"columns of numbers, of equal length, {' and '.join(names)} among them", check


def _is_rectangle(columns: dict[str, Any]) -> bool:
    lists = all(isinstance(each, list) and all(map(is_number, each)) for each in columns.values())
    return lists and len({len(each) for each in columns.values()}) == 1


_FACTS = ("numbers by name", _is_facts)
_SHARE = ("a number between 0 and 1", _is_share)
_TRIALS = ("a list of F1 scores (0 to 1) for each share of labels", _is_trials)
_ALWAYS: dict[str, tuple[str, Check]] = {
    "dataset": ("a name", _is_text),
    "method": ("a name", _is_text),
    "seed": ("a whole number", _is_whole),
    "status": (f"one of {', '.join(STATUSES)}", lambda value: isinstance(value, str) and value in STATUSES),
}
_IF_GIVEN: dict[str, tuple[str, Check]] = {
    "split": ("the name of a split", _is_text),
    "hidden_share": _SHARE,
    "options": ("an object", _is_object),
    "choice": ("an object with the options that trials decided", _is_choice),
    "provenance": ("an object", _is_object),
    "without_least_certain": _columns("left_out", "auc"),
    "without_least_certain_answers": _columns("left_out", "auc"),
    "error_of_halves": _FACTS,
}
_WHEN_DONE: dict[str, dict[str, tuple[str, Check]]] = {
    "link-prediction": {"auc": _SHARE, "ap": _SHARE},
    "node-classification": {"micro_f1_trials": _TRIALS, "macro_f1_trials": _TRIALS},
    "induction": {"hidden_share": _SHARE, "auc": _SHARE, "ap": _SHARE},
    "convergence": {"curve": ("a list of [seconds, AUC]", _is_pairs), "seconds": ("a number", is_number)},
    "visualization": {
        "points": ("a list of [x, y]", _is_pairs),
        "classes": ("a list of whole numbers from 0", _is_codes),
    },
    "uncertainty": {
        "variance_term": _columns("tenth", "auc"),
        "without_most_uncertain": _columns("left_out", "auc"),
        "auc_without_dimensions": _columns("dropped"),
        "spread_correlation": _FACTS,
        "droppable_share": _FACTS,
    },
}
TASKS = tuple(_WHEN_DONE)


def fault_of(content: dict[str, Any]) -> str | None:
    """The first thing wrong with the record of an evaluation of a known task, in words; None if it can be drawn."""
    wanted = _ALWAYS | {name: what for name, what in _IF_GIVEN.items() if content.get(name) is not None}
    if content.get("status") == "done":
        wanted |= _WHEN_DONE[content["task"]]
    for name, (what, check) in wanted.items():
        if not check(content.get(name)):
            return f"{content['task']} needs {name!r} to be {what}, not {_short(content.get(name))}"
    return _mismatch(content)


def _mismatch(content: dict[str, Any]) -> str | None:
    points, classes = content.get("points"), content.get("classes")
    if content["task"] == "visualization" and content["status"] == "done":
        assert points is not None
        assert classes is not None
        if len(points) != len(classes):
            return f"visualization needs a class for each point, not {len(classes)} for {len(points)}"
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
