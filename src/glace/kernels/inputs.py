"""Input rows of the encoder: sampled neighbours, and weighted sums of sparse attribute rows.

Graph and attributes are passed as whole CSR arrays (indptr, indices, data) plus the wanted rows, so that nothing is
sliced and the arrays may be memory-mapped. Random decisions are hashes of (seed, row, entry): they do not depend on
the order of calls.
"""

import numpy as np

from glace.kernels.compile import CSR, FloatArray, IntArray, compiled
from glace.kernels.mixing import GOLDEN, mixed


@compiled
def uniform(seed: int, row: int, entry: int) -> float:
    """Return a pseudo-random number in [0, 1) that is a hash of the arguments."""
    x = np.uint64(seed) + np.uint64(row) * GOLDEN + np.uint64(entry) * np.uint64(0xD1342543DE82EF95)
    return np.float64(mixed(x) >> np.uint64(11)) / 9007199254740992.0


@compiled
def sample_neighbors(
    graph: CSR, nodes: IntArray, excluded: tuple[IntArray, IntArray], max_count: int, dropout: float, seed: int
) -> CSR:
    """Return the neighbours of each node and their weights, which add up to 1, as CSR arrays.

    Row r leaves out the nodes in row r of `excluded` (indptr, indices). It has at most `max_count` neighbours (all if
    0), consecutive from a random position on, and none with probability `dropout`.
    """
    indptr, indices, weights = graph
    excluded_start, excluded_nodes = excluded
    start = np.zeros(len(nodes) + 1, np.int64)
    for r in range(len(nodes)):
        degree = indptr[nodes[r] + 1] - indptr[nodes[r]]
        start[r + 1] = start[r] + (min(degree, max_count) if max_count > 0 else degree)
    found = np.empty(start[-1], np.int64)
    share = np.empty(start[-1], np.float32)
    place = 0
    for r in range(len(nodes)):
        limit = start[r + 1] - start[r]
        start[r] = place
        if uniform(seed, r, 0) < dropout:
            continue
        first = indptr[nodes[r]]
        degree = indptr[nodes[r] + 1] - first
        offset = int(uniform(seed, r, 1) * degree) if limit < degree else 0
        total = np.float32(0.0)
        for step in range(degree):
            p = first + (offset + step) % degree
            if place - start[r] == limit:
                break
            if not _contains(excluded_nodes, excluded_start[r], excluded_start[r + 1], indices[p]):
                found[place] = indices[p]
                share[place] = weights[p]
                total += weights[p]
                place += 1
        for p in range(start[r], place):
            share[p] /= total
    start[len(nodes)] = place
    return start, found[:place], share[:place]


@compiled
def _contains(values: IntArray, begin: int, end: int, wanted: int) -> bool:
    found = False
    for p in range(begin, end):
        found |= values[p] == wanted
    return found


@compiled
def combined_rows(
    attributes: CSR, combination: CSR, hashed: int, unit: bool, dropout: float, seed: int, slots: IntArray
) -> CSR:
    """Return the CSR arrays of combination @ attributes, the weighted sums of attribute rows.

    Attribute rows are scaled to unit length first if `unit`. Each entry is dropped with probability `dropout`, and the
    others are scaled up so that the expectation stays. If `hashed` is not 0, columns are hashed into that many, each
    with a sign. `slots` is a scratch array with one entry per output column, all -1 before and after.
    """
    indptr = attributes[0]
    start, rows, share = combination
    size = 0
    for p in range(len(rows)):
        size += indptr[rows[p] + 1] - indptr[rows[p]]
    out_start = np.zeros(len(start), np.int64)
    out_column = np.empty(size, np.int64)
    out_value = np.empty(size, np.float32)
    place = 0
    for r in range(len(start) - 1):
        for p in range(start[r], start[r + 1]):
            out = (out_column, out_value, slots, place)
            place = _add_row(attributes, rows[p], hashed, share[p], unit, dropout, seed, r, out)
        out_start[r + 1] = place
        for p in range(out_start[r], place):
            slots[out_column[p]] = -1
    return out_start, out_column[:place], out_value[:place]


@compiled
def _add_row(
    attributes: CSR,
    node: int,
    hashed: int,
    share: float,
    unit: bool,
    dropout: float,
    seed: int,
    row: int,
    out: tuple[IntArray, FloatArray, IntArray, int],
) -> int:
    """Add `share` times an attribute row to output row `row`, and return the next free place of the output."""
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
        # Entries 0 and 1 of a row decide on its neighbours.
        if dropout > 0.0 and uniform(seed, row, p + 2) < dropout:
            continue
        wanted, factor = np.int64(indices[p]), scale
        if hashed > 0:
            bits = mixed(np.uint64(wanted) * GOLDEN)
            wanted = np.int64((bits >> np.uint64(1)) % np.uint64(hashed))
            factor = scale if bits & np.uint64(1) else -scale
        if slots[wanted] < 0:
            slots[wanted] = place
            column[place] = wanted
            value[place] = 0.0
            place += 1
        value[slots[wanted]] += data[p] * factor
    return place
