"""Approximate search beside the exact one: what it finds, leaves out and says of itself."""

import sys

import numpy as np
import pytest

from glace.errors import InputError
from glace.gaussian.dissimilarity import MEASURES, Gaussian, named
from glace.gaussian.embedding import Embedding
from glace.ids import NodeIds

pytest.importorskip("faiss", reason="approximate search needs faiss: pip install '.[search]'")

from glace.queries.approximate import Index, Space


def clustered(measure="symmetric_kl", nodes=3000, context=False, random_state=0):
    """Nodes around 100 centres, as trained ones lie around their communities."""
    rng = np.random.default_rng(random_state)
    centres = 3 * rng.normal(size=(100, 16))

    def gaussian():
        mean = centres[np.arange(nodes) % 100] + rng.normal(size=(nodes, 16))
        return mean.astype(np.float32), np.exp(0.5 * rng.normal(size=(nodes, 16))).astype(np.float32)

    mean, variance = gaussian()
    points = measure == "dot"
    other = Gaussian(*gaussian()) if context else None
    return Embedding(NodeIds.numbered(nodes), mean, None if points else variance, measure, context=other)


def recall(true, found):
    return np.mean([len(np.intersect1d(a, b)) for a, b in zip(true, found, strict=True)]) / true.shape[1]


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
def test_nearly_all_of_the_nearest_are_found(measure, context):
    embedding = clustered(measure, context=context and measure != "dot")
    queries = embedding.take(np.arange(0, 3000, 11))
    true, far = embedding.nearest_to(queries, 10)
    index = Index(embedding, candidates=200)
    found, values = index.nearest_to(queries, 10)
    share = recall(true, found)
    assert share > 0.9
    assert index.recall.share == pytest.approx(share, abs=0.05)
    assert (index.recall.k, index.recall.queries) == (10, 200)
    same = found == true
    np.testing.assert_allclose(values[same], far[same], rtol=1e-12)
    assert (np.diff(values, axis=1) >= 0).all()


def test_the_nearest_point_of_a_dot_product_has_the_largest_product():
    """One more dimension gives all targets the same length, and no query has any of it."""
    rng = np.random.default_rng(0)
    nodes, queries = (Gaussian(5 * rng.normal(size=(rows, 3)).astype(np.float32), None) for rows in (40, 6))
    space = Space.of(named("dot"), nodes)
    targets, asked = space.targets(nodes), space.queries(queries)
    assert space.length is not None
    np.testing.assert_allclose(np.linalg.norm(targets, axis=1), space.length, rtol=1e-5)
    distances = np.linalg.norm(asked[:, None] - targets[None, :], axis=2)
    nearest = named("dot").direct(queries[:, None], nodes[None, :]).argmin(axis=1)
    np.testing.assert_array_equal(distances.argmin(axis=1), nearest)


def test_nearest_for_the_expected_distance_is_nearest_with_the_width_as_one_more_dimension():
    rng = np.random.default_rng(0)
    nodes, queries = (
        Gaussian(rng.normal(size=(rows, 3)).astype(np.float32), np.exp(rng.normal(size=(rows, 3))).astype(np.float32))
        for rows in (40, 6)
    )
    space = Space.of(named("expected"), nodes)
    distances = np.linalg.norm(space.queries(queries)[:, None] - space.targets(nodes)[None, :], axis=2)
    dissimilarities = named("expected").direct(queries[:, None], nodes[None, :])
    assert queries.variance is not None
    np.testing.assert_allclose(distances**2, dissimilarities - queries.variance.sum(axis=1)[:, None], rtol=1e-5)


def test_dimensions_count_by_their_precision_where_the_measure_divides_by_the_variance():
    nodes = Gaussian(np.ones((2, 2), np.float32), np.array([[1, 0.5], [0.25, 0.125]], np.float32))
    expected: dict[str, list[float]] = {"kl": [2.5, 5], "symmetric_kl": [2.5, 5], "wasserstein2": [1, 1]}
    for name, squares in expected.items():
        np.testing.assert_allclose(Space.of(named(name), nodes).queries(nodes), [np.sqrt(squares)] * 2, rtol=1e-6)


def test_more_candidates_find_more():
    embedding = clustered()
    shares = [Index(embedding, candidates=count).recall.share for count in (10, 50, 300)]
    assert shares[0] < shares[1] <= shares[2]


def test_nodes_left_out_are_no_answer():
    embedding = clustered(nodes=300)
    own = np.arange(300)[:, None].tolist()
    found, _ = Index(embedding).nearest_to(embedding, 5, own)
    assert found.shape == (300, 5)
    assert not (found == np.arange(300)[:, None]).any()
    left_out = [[*range(0, 300, 2)]] * 300
    found, _ = Index(embedding).nearest_to(embedding, 5, left_out)
    assert (found % 2 == 1).all()


def test_fewer_nodes_than_asked_for():
    embedding = clustered(nodes=4)
    found, values = Index(embedding).nearest_to(embedding, 10)
    assert found.shape == values.shape == (4, 4)
    found, values = Index(embedding).nearest_to(embedding, 4, [[0], [1], [2], [3]])
    assert (found[:, 3] == -1).all()
    assert np.isinf(values[:, 3]).all()


def test_nodes_that_are_searched_among():
    """A tenth that lies apart: an index of all nodes would propose none of it."""
    embedding = clustered(nodes=2000)
    some = np.arange(2000) % 10 == 3
    embedding.mean[some] += 8
    index = Index(embedding, among=some)
    found, _ = index.nearest_to(embedding, 5)
    true, _ = embedding.nearest_to(embedding, 5, among=some)
    assert recall(true, found) > 0.7
    assert index.recall.share > 0.7
    assert some[found].all()
    one = Index(embedding, among=np.arange(2000) == 7)
    assert (one.nearest_to(embedding, 5)[0] == 7).all()


def test_another_measure():
    embedding = clustered(nodes=500)
    index = Index(embedding, dissimilarity="wasserstein2")
    found, _ = index.nearest_to(embedding, 3)
    assert (found[:, 0] == np.arange(500)).mean() > 0.99, "a node is most like itself"


def test_the_same_input_gives_the_same_index():
    embedding = clustered(nodes=500)
    first, again = (Index(embedding, candidates=20) for _ in range(2))
    assert first.recall == again.recall
    np.testing.assert_array_equal(first.nearest_to(embedding)[0], again.nearest_to(embedding)[0])


def test_errors(monkeypatch):
    embedding = clustered(nodes=20)
    with pytest.raises(InputError, match="candidates must be at least 1, not 0"):
        Index(embedding, candidates=0)
    with pytest.raises(InputError, match="an index needs at least one node, but `among` is False for all"):
        Index(embedding, among=np.zeros(20, np.bool_))
    with pytest.raises(InputError, match="k must be a whole number of at least 1, not 0"):
        Index(embedding).nearest_to(embedding, 0)
    with pytest.raises(InputError, match="kl needs variances, but these are points; use the measure `dot`"):
        Index(clustered("dot", nodes=20), dissimilarity="kl")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match=r"needs faiss: pip install .*\[search\]"):
        Index(embedding)
