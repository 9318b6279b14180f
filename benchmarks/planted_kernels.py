"""Draws of planted graphs, each a hash of its own number: they come out the same in blocks of any size."""

from typing import Any

import numpy as np

from glace.kernels.compile import compiled
from glace.kernels.inputs import uniform


@compiled
def pairs(seed: Any, first: Any, line: Any, mixing: Any, keys: Any) -> None:
    """keys[i] = a * n + b, a < b: the pair that draw first + i joins, between communities with probability `mixing`.

    `line` is (ends, guide, order, community, borders): a population, and for each of equal pieces of its line
    the first place that may be in it.
    """
    ends, guide, order, community, borders = line
    count = len(order)
    for i in range(len(keys)):
        between = uniform(seed, first + i, 0) < mixing
        attempt = 1
        while True:
            source = order[_at(ends, guide, uniform(seed, first + i, attempt) * borders[-1])]
            group = community[source]
            begin, end = borders[group], borders[group + 1]
            drawn = uniform(seed, first + i, attempt + 1)
            if between:
                # The line closed to a ring: from behind the own community to anywhere before its beginning.
                place = end + drawn * (borders[-1] - (end - begin))
                place = place - borders[-1] if place >= borders[-1] else place
            else:
                place = begin + drawn * (end - begin)
            target = order[_at(ends, guide, place)]
            if source != target and (community[target] != group) == between:
                break
            attempt += 2
        keys[i] = np.int64(min(source, target)) * count + max(source, target)


@compiled
def _at(ends: Any, guide: Any, place: Any) -> Any:
    found = guide[min(int(place / ends[-1] * len(guide)), len(guide) - 1)]
    while found > 0 and ends[found - 1] > place:  # where rounding put the place one piece too far
        found -= 1
    while found < len(ends) - 1 and ends[found] <= place:
        found += 1
    return found


@compiled
def guide(ends: Any) -> Any:
    """(n,) for each of n equal pieces of a line, the first of its n places that ends behind the piece's beginning."""
    count = len(ends)
    found = np.empty(count, np.int32)
    place = 0
    for piece in range(count):
        while place < count - 1 and ends[place] <= ends[-1] * piece / count:
            place += 1
        found[piece] = place
    return found


@compiled
def words(seed: Any, first: Any, community: Any, width: Any, block: Any, noise: Any, columns: Any) -> None:
    """columns[r] (W,) = the sorted words of node first + r: of its community's block, or with `noise` of any."""
    for r in range(len(columns)):
        for w in range(columns.shape[1]):
            drawn = uniform(seed, first + r, 2 * w + 1)
            if uniform(seed, first + r, 2 * w) < noise:
                column = int(drawn * width)
            else:
                column = int(drawn * block) + community[r] * block
            place = w
            while place > 0 and columns[r, place - 1] > column:
                columns[r, place] = columns[r, place - 1]
                place -= 1
            columns[r, place] = column


@compiled
def counted(columns: Any, sizes: Any, distinct: Any, counts: Any) -> Any:
    """Sorted rows as CSR: how many distinct columns each has, these, and how often each came; returns the entries."""
    place = 0
    for r in range(len(columns)):
        start = place
        for w in range(columns.shape[1]):
            if w > 0 and columns[r, w] == columns[r, w - 1]:
                counts[place - 1] += 1
            else:
                distinct[place] = columns[r, w]
                counts[place] = 1
                place += 1
        sizes[r] = place - start
    return place
