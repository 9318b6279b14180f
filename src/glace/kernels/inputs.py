"""Rows of input: a node's own attributes and, in columns of their own, the mean of its neighbours'.

Graph and attributes are given as whole CSR arrays (indptr, indices, data) plus the numbers of the wanted nodes,
so that nothing is sliced and the arrays may be mapped from disk. Random choices are a hash of (seed, row,
entry): they depend on nothing that was drawn before.
"""

from typing import Any

import numpy as np

from glace.kernels.compile import compiled
from glace.kernels.mixing import GOLDEN, mixed


@compiled
def uniform(seed: Any, row: Any, entry: Any) -> Any:
    """A number from 0 to 1 that validation_points random, made of its three arguments."""
    x = np.uint64(seed) + np.uint64(row) * GOLDEN + np.uint64(entry) * np.uint64(0xD1342543DE82EF95)
    return np.float64(mixed(x) >> np.uint64(11)) / 9007199254740992.0


@compiled
def neighbours(graph: Any, nodes: Any, left_out: Any, most: Any, dropped: Any, seed: Any) -> Any:
    """Neighbours of each node and their shares in its mean: (start, neighbour, share), as rows of a CSR matrix.

    Row r leaves out the nodes in its row of `left_out` (start, node), has at most `most` neighbours (all if
    that is 0), which follow each other from a random place on, and none with probability `dropped`.
    """
    indptr, indices, weights = graph
    left_start, left_node = left_out
    start = np.zeros(len(nodes) + 1, np.int64)
    for r in range(len(nodes)):
        degree = indptr[nodes[r] + 1] - indptr[nodes[r]]
        start[r + 1] = start[r] + (min(degree, most) if most > 0 else degree)
    found = np.empty(start[-1], np.int64)
    share = np.empty(start[-1], np.float32)
    place = 0
    for r in range(len(nodes)):
        room = start[r + 1] - start[r]
        start[r] = place
        if uniform(seed, r, 0) < dropped:
            continue
        first = indptr[nodes[r]]
        degree = indptr[nodes[r] + 1] - first
        turn = int(uniform(seed, r, 1) * degree) if room < degree else 0
        total = np.float32(0.0)
        for step in range(degree):
            p = first + (turn + step) % degree
            if place - start[r] == room:
                break
            if not _holds(left_node, left_start[r], left_start[r + 1], indices[p]):
                found[place] = indices[p]
                share[place] = weights[p]
                total += weights[p]
                place += 1
        for p in range(start[r], place):
            share[p] /= total
    start[len(nodes)] = place
    return start, found[:place], share[:place]


@compiled
def _holds(values: Any, begin: Any, end: Any, wanted: Any) -> Any:
    found = False
    for p in range(begin, end):
        found |= values[p] == wanted
    return found


@compiled
def joined(
    attributes: Any,
    width: Any,
    hashed: Any,
    nodes: Any,
    means: Any,
    unit: Any,
    dropout: Any,
    seed: Any,
    slots: Any,
) -> Any:
    """CSR arrays of the rows [x_i, mean of x_k over the neighbours k of i], the latter from column `width` on.

    A node of -1 has no x_i. Where `hashed` is not 0, columns are hashed into so many, each with a sign of its own.

    `means` is what `neighbours` gives. Rows x are scaled to unit length if `unit`. Each entry is left out with
    probability `dropout`, and the others are raised so that the expectation stays. `slots` is a scratch array of
    an entry for each column, all -1, and is left so.
    """
    indptr = attributes[0]
    start, found, share = means
    most = 0
    for r in range(len(nodes)):
        if nodes[r] >= 0:
            most += indptr[nodes[r] + 1] - indptr[nodes[r]]
    for p in range(len(found)):
        most += indptr[found[p] + 1] - indptr[found[p]]
    out_start = np.zeros(len(nodes) + 1, np.int64)
    out_column = np.empty(most, np.int64)
    out_value = np.empty(most, np.float32)
    place = 0
    for r in range(len(nodes)):
        if nodes[r] >= 0:
            out = (out_column, out_value, slots, place)
            place = _add_row(attributes, nodes[r], 0, hashed, np.float32(1), unit, dropout, seed, r, out)
        for p in range(start[r], start[r + 1]):
            out = (out_column, out_value, slots, place)
            place = _add_row(attributes, found[p], width, hashed, share[p], unit, dropout, seed, r, out)
        out_start[r + 1] = place
        for p in range(out_start[r], place):
            slots[out_column[p]] = -1
    return out_start, out_column[:place], out_value[:place]


@compiled
def _add_row(
    attributes: Any,
    node: Any,
    shift: Any,
    hashed: Any,
    share: Any,
    unit: Any,
    dropout: Any,
    seed: Any,
    row: Any,
    out: Any,
) -> Any:
    indptr, indices, data = attributes
    column, value, slots, place = out
    begin, end = indptr[node], indptr[node + 1]
    scale = share / np.float32(1 - dropout)
    if unit:
        total = 0.0
        for p in range(begin, end):
            total += data[p] * data[p]
        if total > 0.0:
            scale /= np.float32(np.sqrt(total))
    for p in range(begin, end):
        # 2 and on: 0 and 1 decided on the row's neighbours.
        if dropout > 0.0 and uniform(seed, row, p + 2) < dropout:
            continue
        wanted, factor = np.int64(indices[p]), scale
        if hashed > 0:
            bits = mixed(np.uint64(wanted) * GOLDEN)
            wanted = np.int64((bits >> np.uint64(1)) % np.uint64(hashed))
            factor = scale if bits & np.uint64(1) else -scale
        wanted += shift
        if slots[wanted] < 0:
            slots[wanted] = place
            column[place] = wanted
            value[place] = 0.0
            place += 1
        value[slots[wanted]] += data[p] * factor
    return place
