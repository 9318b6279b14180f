"""Short random walks: how probably a walk of 2, 3 and 4 steps from one node ends at another.

A walk of k steps from u ends at v with the probability P^k[u, v], where P divides each row of the adjacency by its
degree. Times sqrt(degree of u / degree of v) that is symmetric in u and v. Two steps count common neighbours (resource
allocation, up to degrees), three steps the paths of length three, and a weighted sum of all is personalised PageRank.

Paths of three edges are also counted with 1 / sqrt(degree) for each of their two inner nodes. This weight lies between
that of a walk and none, and ranks best on graphs with hubs.

A step leaves a node only if every neighbour would receive at least its cut-off. A step thereby visits at most
1 / cut-off edges however large the hubs are, and what is cut off is negligible beside what remains. `cutoffs` (3,) has
those of the second, third and fourth step. A walk that starts at a node of more than the mean degree is divided among
more edges: there the cut-offs are lower in proportion, so that a pair has about the same features from both ends. Over
all starts that at most doubles the visits.
"""

import numpy as np

from glace.kernels.compile import BoolArray, FloatArray, IntArray, by_rows, helper

COMMON, TWO, THREE, FOUR, PATHS = 0, 1, 2, 3, 4
"""Columns: Adamic-Adar (common neighbours, each counts 1 / log of its degree), walks of 2, 3 and 4 steps, and weighted
paths of three edges."""
COLUMNS = 5
HALVES = 5
"""A row beside those of the columns: paths of two edges, each counting 1 / sqrt of the degree in its middle."""
STEPS = TWO, THREE, FOUR
LANES = 16
DECAY = 0.8
"""Probability that PageRank's walk goes on, for the order of candidates."""


FEW_STARTS = 250
FEW_VISITS = 30_000
"""Edges that an interpreted walk may visit: it takes a microsecond or two for each."""
FEW_PRODUCTS = 100_000


def _are_few_walks(indptr: IntArray, indices: IntArray, starts: IntArray, *_: object) -> bool:
    """Whether walks of three steps from all starts visit few edges."""
    if len(starts) > FEW_STARTS:
        return False
    visits = 0
    for start in np.unique(starts):
        middles = indices[indptr[start] : indptr[start + 1]]
        if int((indptr[middles + 1] - indptr[middles]).sum()) > FEW_VISITS:
            return False
        ends = np.concatenate([indices[indptr[each] : indptr[each + 1]] for each in middles] or [middles])
        visits += int((indptr[ends + 1] - indptr[ends]).sum())
        if visits > FEW_VISITS:
            return False
    return True


def _are_few_products(left: FloatArray, _right: FloatArray, _sources: IntArray, targets: IntArray, *_: object) -> bool:
    return bool(targets.size * left.shape[1] <= FEW_PRODUCTS)


def _are_few_sparse(
    indptr: IntArray, _indices: IntArray, _data: FloatArray, sources: IntArray, targets: IntArray, *_: object
) -> bool:
    own = indptr[sources + 1] - indptr[sources]
    return bool((own.max(initial=0) + np.diff(indptr).max(initial=0)) * targets.size <= FEW_PRODUCTS)


@helper
def _add(landed: FloatArray, touched: IntArray, counts: IntArray, step: int, node: int, value: float) -> None:
    if landed[step, node] == 0:
        touched[step, counts[step]] = node
        counts[step] += 1
    landed[step, node] += value


@helper
def _count_edges(indptr: IntArray, indices: IntArray, start: int, end: int) -> int:
    """Return 1 if there is an edge between the two, else 0."""
    found = 0
    for place in range(indptr[start], indptr[start + 1]):
        found += int(indices[place] == end)
    return found


@helper
def _walk(
    indptr: IntArray,
    indices: IntArray,
    start: int,
    end: int,
    cutoffs: FloatArray,
    landed: FloatArray,
    touched: IntArray,
    counts: IntArray,
) -> None:
    """Add to landed[step, node], (6, n), what a walk from `start` brings; an edge {start, end} is not used.

    `touched` (4, n) lists the nodes with an entry, `counts` (4,) says how many; row 0 of `touched` is unused because
    Adamic-Adar has the nodes of two steps.
    """
    counts[:] = 0
    joined = _count_edges(indptr, indices, start, end)
    degree = indptr[start + 1] - indptr[start] - joined
    finer = min(1.0, len(indices) / ((len(indptr) - 1) * max(degree, 1)))
    for place in range(indptr[start], indptr[start + 1]):
        middle = indices[place]
        width = indptr[middle + 1] - indptr[middle]
        share = 1 / (degree * width)
        if middle == end or share < finer * cutoffs[0]:
            continue
        rarity, half = 1 / np.log(1.0 + width), 1 / np.sqrt(width)
        for other in range(indptr[middle], indptr[middle + 1]):
            _add(landed, touched, counts, TWO, indices[other], share)
            landed[COMMON, indices[other]] += rarity
            landed[HALVES, indices[other]] += half
    for step in (THREE, FOUR):
        for number in range(counts[step - 1]):
            node = touched[step - 1, number]
            width = indptr[node + 1] - indptr[node]
            if node == start:
                width = degree
            elif node == end:
                width -= joined
            share = landed[step - 1, node] / max(width, 1)
            if share < finer * cutoffs[step - TWO]:
                continue
            half = landed[HALVES, node] / np.sqrt(max(width, 1))
            for place in range(indptr[node], indptr[node + 1]):
                other = indices[place]
                if not ((node == start and other == end) or (node == end and other == start)):
                    _add(landed, touched, counts, step, other, share)
                    if step == THREE:
                        landed[PATHS, other] += half


@helper
def _clear(landed: FloatArray, touched: IntArray, counts: IntArray) -> None:
    for step in STEPS:
        for number in range(counts[step]):
            landed[step, touched[step, number]] = 0
    for number in range(counts[TWO]):
        landed[COMMON, touched[TWO, number]] = 0
        landed[HALVES, touched[TWO, number]] = 0
    for number in range(counts[THREE]):
        landed[PATHS, touched[THREE, number]] = 0


@helper
def _read(indptr: IntArray, start: int, end: int, joined: int, landed: FloatArray, values: FloatArray) -> None:
    """Set values (5,) to the symmetric features of a pair after a walk from `start`; `joined` is 1 if it is an edge."""
    source, target = indptr[start + 1] - indptr[start] - joined, indptr[end + 1] - indptr[end] - joined
    scale = np.sqrt(max(source, 1) / max(target, 1))
    values[COMMON], values[PATHS] = landed[COMMON, end], landed[PATHS, end]
    for step in STEPS:
        values[step] = scale * landed[step, end]


@by_rows(lambda _indptr, _indices, starts, *_: len(starts), least=16, small=_are_few_walks)
def pair_walks(
    indptr: IntArray,
    indices: IntArray,
    starts: IntArray,
    ends: IntArray,
    cutoffs: FloatArray,
    values: FloatArray,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Set values (P, 5) to the features of walks from starts (P,) to ends (P,), without the edge of the pair.

    One walk serves all pairs that follow each other, have the same start and no edge.
    """
    nodes = len(indptr) - 1
    landed, touched = np.zeros((COLUMNS + 1, nodes)), np.empty((FOUR + 1, nodes), np.int64)
    counts, walked = np.zeros(FOUR + 1, np.int64), -1
    for row in range(begin, end):
        first, second = starts[row], ends[row]
        joined = _count_edges(indptr, indices, first, second)
        if joined or first != walked:
            _clear(landed, touched, counts)
            _walk(indptr, indices, first, second, cutoffs, landed, touched, counts)
            walked = -1 if joined else first
        _read(indptr, first, second, joined, landed, values[row])


@helper
def _kth_largest(values: FloatArray, k: int) -> float:
    """Return the k-th largest of the values, which are rearranged: Hoare's selection.

    np.partition would take five seconds to compile.
    """
    low, high, wanted = 0, len(values) - 1, len(values) - k
    while low < high:
        pivot, left, right = values[(low + high) // 2], low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if wanted <= right:
            high = right
        elif wanted >= left:
            low = left
        else:
            break
    return float(values[wanted])


@helper
def _keep_best(
    order: FloatArray, nodes: IntArray, count: int, k: int, stamp: int, marks: IntArray, kept: IntArray, start: int
) -> int:
    """Append to `kept` the k nodes of the highest order that are not marked yet; return the new length."""
    limit = _kth_largest(order[:count].copy(), k) if count > k else -np.inf
    ties = k
    for number in range(count):
        ties -= int(order[number] > limit)
    for number in range(count):
        if order[number] > limit or (order[number] == limit and ties > 0):
            ties -= int(order[number] == limit)
            if marks[nodes[number]] != stamp:
                marks[nodes[number]] = stamp
                kept[start] = nodes[number]
                start += 1
    return start


@by_rows(lambda _indptr, _indices, sources, *_: len(sources), least=16, small=_are_few_walks)
def walk_candidates(
    indptr: IntArray,
    indices: IntArray,
    sources: IntArray,
    types: IntArray,
    allowed: BoolArray,
    k: int,
    cutoffs: FloatArray,
    positions: IntArray,
    values: FloatArray,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Set positions (S, 3 k) to nodes that short walks from each source reach, without an edge, and values to theirs.

    These are the best k by Adamic-Adar, the best k by PageRank of those that four steps reach, and as many by walks of
    three steps as there are places left; -1 where there are fewer. In a bipartite graph only three steps lead to
    the other side. Node i has the type types[i], and allowed[s, t] says whether an edge may lead from type s to type t.
    Values (S, 3 k, 5) are as in `walk_values`; those of -1 are left alone.
    """
    nodes = len(indptr) - 1
    landed, touched = np.zeros((COLUMNS + 1, nodes)), np.empty((FOUR + 1, nodes), np.int64)
    counts, marks = np.zeros(FOUR + 1, np.int64), np.full(nodes, -1)
    reached, order = np.empty(nodes, np.int64), np.empty(nodes)
    for row in range(begin, end):
        source = sources[row]
        _walk(indptr, indices, source, -1, cutoffs, landed, touched, counts)
        # The mark 2 row excludes a node, 2 row + 1 says that it is a candidate already.
        marks[source] = 2 * row
        for place in range(indptr[source], indptr[source + 1]):
            marks[indices[place]] = 2 * row
        found = 0
        for step in (TWO, FOUR, THREE):
            count = 0
            for number in range(counts[step]):
                node = touched[step, number]
                if marks[node] != 2 * row and allowed[types[source], types[node]]:
                    reached[count], order[count] = node, _order(landed, step, node)
                    count += 1
            places = k if step != THREE else positions.shape[1] - found
            found = _keep_best(order, reached, count, places, 2 * row + 1, marks, positions[row], found)
        for column in range(found):
            _read(indptr, source, positions[row, column], 0, landed, values[row, column])
        positions[row, found:] = -1
        _clear(landed, touched, counts)


@helper
def _order(landed: FloatArray, step: int, node: int) -> float:
    """Rank candidates by Adamic-Adar, by three steps, or by PageRank."""
    if step == TWO:
        return float(landed[COMMON, node])
    if step == THREE:
        return float(landed[THREE, node])
    return float(landed[TWO, node] + DECAY * (landed[THREE, node] + DECAY * landed[FOUR, node]))


@by_rows(lambda _indptr, _indices, sources, *_: len(sources), least=16, small=_are_few_walks)
def walk_values(
    indptr: IntArray,
    indices: IntArray,
    sources: IntArray,
    targets: IntArray,
    cutoffs: FloatArray,
    values: FloatArray,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Set values (S, K, 5) to the features of each source with its targets (S, K); targets of -1 are skipped."""
    nodes = len(indptr) - 1
    landed, touched = np.zeros((COLUMNS + 1, nodes)), np.empty((FOUR + 1, nodes), np.int64)
    counts = np.zeros(FOUR + 1, np.int64)
    for row in range(begin, end):
        _walk(indptr, indices, sources[row], -1, cutoffs, landed, touched, counts)
        for column in range(targets.shape[1]):
            if targets[row, column] >= 0:
                _read(indptr, sources[row], targets[row, column], 0, landed, values[row, column])
        _clear(landed, touched, counts)


@by_rows(lambda _left, _right, sources, *_: len(sources), least=16, small=_are_few_products)
def row_products(
    left: FloatArray,
    right: FloatArray,
    sources: IntArray,
    targets: IntArray,
    products: FloatArray,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Set products[i, j], (S, K), to left[sources[i]] . right[targets[i, j]]; targets of -1 are skipped.

    Sixteen sums run side by side, because the compiler does not reorder the additions of a single one.
    """
    for row in range(begin, end):
        query, sums = left[sources[row]], np.zeros(LANES, np.float32)
        whole = len(query) // LANES * LANES
        for column in range(targets.shape[1]):
            if targets[row, column] < 0:
                continue
            node = right[targets[row, column]]
            sums[:] = 0
            for start in range(0, whole, LANES):
                for lane in range(LANES):
                    sums[lane] += query[start + lane] * node[start + lane]
            for place in range(whole, len(query)):
                sums[0] += query[place] * node[place]
            products[row, column] = sums.sum()


@by_rows(lambda _indptr, _indices, _data, sources, *_: len(sources), least=16, small=_are_few_sparse)
def sparse_products(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    sources: IntArray,
    targets: IntArray,
    products: FloatArray,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Set products[i, j], (S, K), to the product of two rows of a CSR matrix, sources[i] and targets[i, j].

    Targets of -1 are skipped. The indices of a row ascend.
    """
    for row in range(begin, end):
        first, stop = indptr[sources[row]], indptr[sources[row] + 1]
        for column in range(targets.shape[1]):
            target = targets[row, column]
            if target < 0:
                continue
            one, other, total = first, indptr[target], 0.0
            while one < stop and other < indptr[target + 1]:
                if indices[one] == indices[other]:
                    total += data[one] * data[other]
                step = indices[one] - indices[other]
                one += int(step <= 0)
                other += int(step >= 0)
            products[row, column] = total
