"""The rejection of neighbours, against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glace.kernels import draws


def random_rows(seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((12, 12)) < rng.random()
    indptr = np.concatenate([[0], np.cumsum(dense.sum(1))])
    return rng, dense, indptr, np.nonzero(dense)[1].astype(np.int32)


@given(st.integers(0, 10_000))
def test_pool_and_pairs_forbid_the_anchor_and_its_neighbours(seed):
    rng, dense, indptr, indices = random_rows(seed)
    anchors, pool = rng.integers(12, size=5), np.sort(rng.integers(12, size=int(rng.integers(1, 20))))
    wanted = ~dense[anchors][:, pool] & (anchors[:, None] != pool)
    allowed = np.empty(wanted.shape, dtype=bool)
    draws.allowed_pool(indptr, indices, anchors, pool, allowed)
    np.testing.assert_array_equal(allowed, wanted)
    draws.allowed_pairs(indptr, indices, anchors, np.tile(pool, (5, 1)), allowed)
    np.testing.assert_array_equal(allowed, wanted)
