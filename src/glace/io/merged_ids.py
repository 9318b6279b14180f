"""Whether the two columns of an edge list name two kinds of things, such as users and movies, whose ids are merged."""

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PARTS = """
a b c d u v w x y i j id ids idx index key code no nr num number name node nodes vertex entity item1 item2 end start
from to source target src dst dest destination origin left right first second head tail subject object in out one two
citing cited cites follower followed follows followee friend parent child sender receiver recipient caller callee
depends dependency dependent requires required
"""
ENDS = frozenset(PARTS.split())
"""Words of column names that say nothing about what the ids mean, or only which part the node has in the edge."""
DENSE = 0.95
"""Integers that fill so much of the range from their smallest to their largest count things of one kind."""
FEWEST = 10
"""Shorter ranges say nothing."""
RATIO = 1.5
"""Two ranges that start alike count different things if one is so much longer."""
SHARED_NAMES = 0.5
"""If two columns of names, not numbers, have so many in common, they name the same things."""


def merged_ids_note(table: str, names: tuple[str, str], source: pa.Array, target: pa.Array) -> str | None:
    """Say that an edge list gives one node to two kinds of things, and how to keep them apart; None if it does not.

    `table` is its name, `names` are those of its two columns of ids.
    """
    if source.type != target.type or not len(source):
        return None
    sources, targets = pc.unique(source), pc.unique(target)
    by_name = different_names(names)
    if not by_name and not _count_different_things(sources, targets):
        return None
    shared = int(pc.sum(pc.is_in(sources, value_set=targets)).as_py() or 0)
    if not pa.types.is_integer(sources.type) and shared >= SHARED_NAMES * min(len(sources), len(targets)):
        return None
    return advice(table, names, f"{shared:,} ids occur") if shared else None


def advice(table: str, names: tuple[str, str], what: str) -> str:
    """How to keep apart the two kinds of things of an edge list."""
    first, second = map(meaning, names) if different_names(names) else ("user", "item")
    return (
        f"{table}: {what} in both {names[0]!r} and {names[1]!r}, each as one node; if the columns name different "
        f"things, keep them apart with --edges {first}:{second}=FILE (edges={{('{first}', '{second}'): ...}})"
    )


def different_names(names: tuple[str, str]) -> bool:
    """Return whether the names of the two columns of edges tell two kinds of things apart."""
    one, two = (meaning(name) for name in names)
    return bool(one and two) and one != two


def meaning(name: str) -> str:
    """Return what a column's name says about its ids: userId and user_1 are both user; "" if it says nothing."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return "_".join(word.lower() for word in words if word.lower() not in ENDS)


def _count_different_things(sources: pa.Array, targets: pa.Array) -> bool:
    """Whether both columns count from 0 or 1, without gaps, up to different numbers."""
    if not pa.types.is_integer(sources.type):
        return False
    ranges = [_dense_range(np.asarray(column)) for column in (sources, targets)]
    return min(ranges) >= FEWEST and max(ranges) / min(ranges) >= RATIO


def _dense_range(ids: npt.NDArray[np.int64]) -> int:
    """The length of the range that ids count through; 0 if they do not count."""
    low, high = int(ids.min()), int(ids.max())
    return high - low + 1 if low in (0, 1) and len(ids) >= DENSE * (high - low + 1) else 0
