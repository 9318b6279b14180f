"""Walks: on edges, by the exact probabilities of node2vec, the same for the same seeds."""

import numpy as np
import pytest

from glace.experiments.baselines import node2vec as walks

# Node 4 has no edge that leaves it; the others all do, by unequal weights.
WEIGHTS = np.array(
    [[0, 1, 2, 0, 4], [3, 0, 1, 1, 0], [1, 5, 0, 1, 0], [2, 0, 2, 0, 0], [0, 0, 0, 0, 0]], dtype=np.float32
)


def csr(dense):
    """As a Graph has them: read-only, for which numba compiles once more."""
    indptr = np.concatenate([[0], np.cumsum((dense > 0).sum(1))]).astype(np.int32)
    arrays = indptr, np.nonzero(dense)[1].astype(np.int32), dense[dense > 0]
    for array in arrays:
        array.flags.writeable = False
    return arrays


def walked(dense, starts, length, p=1.0, q=1.0, seed=0):
    seeds = np.random.default_rng(seed).integers(2**64, size=len(starts), dtype=np.uint64)
    out = np.empty((len(starts), length), np.int32)
    bias = (1 / p, 1.0, 1 / q)
    walks.walk(csr(dense), dense.max(axis=1).astype(float), starts, seeds, bias, out)
    return out


def exact(dense, before, here, p, q):
    """The probabilities of the next node, written as in the node2vec paper."""
    bias = np.where(dense[before] > 0, 1.0, 1 / q)
    bias[before] = 1 / p
    share = dense[here] * bias
    return share / share.sum()


# The last two pairs reject so often that rows are mostly read whole.
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4), (4, 0.5), (1e-3, 1), (1e4, 1e4)])
def test_steps_have_the_probabilities_of_node2vec(p, q):
    out = walked(WEIGHTS, np.arange(4).repeat(20_000), 3, p, q)
    for before in range(4):
        first = out[out[:, 0] == before, 1]
        wanted = WEIGHTS[before] / WEIGHTS[before].sum()
        np.testing.assert_allclose(np.bincount(first, minlength=5) / len(first), wanted, atol=0.01)
        for here in np.flatnonzero(WEIGHTS[before, :4]):
            second = out[(out[:, 0] == before) & (out[:, 1] == here), 2]
            shares = np.bincount(second, minlength=5) / len(second)
            # Five standard errors of a share.
            np.testing.assert_allclose(shares, exact(WEIGHTS, before, here, p, q), atol=2.5 / np.sqrt(len(second)))


def test_one_weight_above_all_others_is_drawn_exactly():
    """Evenly drawn places are nearly always rejected: the row is read whole."""
    dense = np.zeros((401, 401), np.float32)
    dense[0, 1:], dense[0, 7] = 1, 400
    out = walked(dense, np.zeros(20_000, np.int64), 2)[:, 1]
    assert abs((out == 7).mean() - 400 / 799) < 0.02
    assert len(np.unique(out)) > 380


def test_walks_stay_on_edges_and_end_where_none_leaves():
    out = walked(WEIGHTS, np.arange(5).repeat(200), 12, p=0.5, q=2)
    ends = np.count_nonzero(out >= 0, axis=1)
    for walk, end in zip(out, ends, strict=True):
        assert (walk[end:] == -1).all()
        assert (WEIGHTS[walk[: end - 1], walk[1:end]] > 0).all()
        assert end == 12 or walk[end - 1] == 4
    assert (ends[-200:] == 1).all()
    assert (ends < 12).any()
    assert (ends == 12).any()


def test_a_walk_depends_on_its_own_seed_only():
    starts = np.arange(4).repeat(50)
    whole = walked(WEIGHTS, starts, 20, p=0.5, q=2)
    np.testing.assert_array_equal(whole[:10], walked(WEIGHTS, starts[:10], 20, p=0.5, q=2))
    assert (whole != walked(WEIGHTS, starts, 20, p=0.5, q=2, seed=1)).any()


def test_draws_are_even():
    """Also from seeds that follow one another, and with numbers beyond the signed range."""
    seeds = np.arange(2**64 - 100, 2**64, dtype=np.uint64)
    drawn = np.array([walks._uniform(seed, np.uint64(k)) for seed in seeds for k in range(100)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    np.testing.assert_allclose(np.histogram(drawn, 10, (0, 1))[0] / len(drawn), 0.1, atol=0.02)
    assert len(np.unique(drawn)) > 190
