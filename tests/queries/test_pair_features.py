"""Features of pairs beside dense matrices; candidates of nodes that walks do not reach."""

import numpy as np
import pytest

from glace.errors import InputError
from glace.gaussian.embedding import Embedding, PlattScaling
from glace.graph.arrays import from_arrays
from glace.ids import NodeIds
from glace.queries import pair_features
from glace.queries.pair_features import ALTERNATING, POPULAR, SIDES, WALK_K, WALKS, WORDS, PairFeatures

NODES = 12


@pytest.fixture
def exact(monkeypatch):
    """No walk is cut off."""
    monkeypatch.setattr(pair_features, "SMALLEST", (0.0, 0.0))


def embedding(count=NODES, measure="symmetric_kl", random_state=0):
    rng = np.random.default_rng(random_state)
    mean, variance = rng.normal(size=(count, 3)), np.exp(rng.normal(size=(count, 3)))
    scaling = PlattScaling(1.5, 0.4)
    return Embedding(NodeIds.numbered(count), mean.astype(np.float32), variance.astype(np.float32), measure, scaling)


def graph(directed=False, random_state=0, count=NODES, density=0.3, types=None):
    """A random graph without reciprocal edges."""
    drawn = np.triu(np.random.default_rng(random_state).random((count, count)) < density, 1)
    pairs = np.argwhere(drawn)
    flipped = np.random.default_rng(random_state).random(len(pairs)) < 0.5
    pairs[flipped] = pairs[flipped, ::-1]
    return from_arrays(pairs, np.ones((count, 1), np.float32), directed=directed, node_types=types)


def without(graph, pair):
    edges = graph.edges()
    kept = (edges != pair).any(axis=1) & (graph.directed | (edges != pair[::-1]).any(axis=1))
    return graph.with_edges(edges[kept], np.ones(kept.sum()))


def walked(matrix):
    """(n, m) rows and columns divided by the roots of their sums."""
    rows, columns = (np.sqrt(np.maximum(matrix.sum(axis=axis), 1)) for axis in (1, 0))
    return matrix / rows[:, None] / columns


def brute(nodes, graph):
    """(n, n, F) features of all pairs by dense matrices, the edge of the pair included."""
    forth = (graph.adjacency.toarray() > 0).astype(float)
    around = (graph.neighborhoods().toarray() > 0).astype(float)
    every = np.indices(forth.shape).reshape(2, -1).T
    logit = 0.4 * (1.5 - nodes.dissimilarities_at(every).reshape(forth.shape))
    widths = around.sum(axis=1)
    common = around @ np.diag(1 / np.log1p(np.maximum(widths, 1))) @ around
    step = walked(around)
    root = np.diag(1 / np.sqrt(np.maximum(widths, 1)))
    paths = around @ root @ around @ root @ around
    steps = [common, step @ step, step @ step @ step, step @ step @ step @ step, paths]
    if not graph.directed:
        return np.stack([logit, np.log1p(widths)[:, None] + np.log1p(widths), *steps], axis=-1)
    out, into = np.broadcast_arrays(np.log1p(forth.sum(axis=1))[:, None], np.log1p(forth.sum(axis=0)))
    alternating = walked(forth) @ walked(forth).T @ walked(forth)
    return np.stack([logit, out, into, *steps, alternating], axis=-1)


@pytest.mark.parametrize("directed", [False, True])
def test_features_of_pairs_are_those_of_the_graph_without_their_edge(exact, directed):
    nodes, whole = embedding(measure="kl" if directed else "symmetric_kl"), graph(directed)
    pairs = np.array([(a, b) for a in range(NODES) for b in range(NODES) if a != b])
    # A pair v, u of a directed graph with the edge u -> v has no walk along that edge either.
    pairs = pairs[~whole.has_edges(pairs[:, ::-1])] if directed else pairs
    features = PairFeatures(nodes, whole)
    found = features.of_pairs(pairs)
    expected = [brute(nodes, without(whole, pair))[tuple(pair)] for pair in pairs]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-12)
    degrees = (*SIDES, *WALKS, ALTERNATING) if directed else ("degrees", *WALKS)
    assert features.names == ("logit", *degrees)
    assert found.shape[1] == len(features.names)
    joined = whole.has_edges(pairs)
    assert 0 < joined.sum() < len(pairs)


@pytest.mark.parametrize("directed", [False, True])
def test_features_of_candidates(exact, directed):
    nodes, whole = embedding(measure="kl" if directed else "symmetric_kl"), graph(directed)
    sources = np.array([3, 0, 7])
    targets = np.array([[1, 4, 11], [5, -1, 2], [0, 1, -1]])
    features = PairFeatures(nodes, whole)
    found = features.of_candidates(sources, targets)
    expected = brute(nodes, whole)[sources[:, None], targets]
    np.testing.assert_allclose(found[targets >= 0], expected[targets >= 0], rtol=1e-4, atol=1e-5)
    free = (targets >= 0) & ~whole.neighborhoods().toarray().astype(bool)[sources[:, None], targets]
    pairs = np.column_stack([np.repeat(sources, 3), targets.ravel()])[free.ravel()]
    np.testing.assert_allclose(found[free], features.of_pairs(pairs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smallest", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("types", [None, ["a", "b", None] * 4])
def test_the_order_of_a_pair_does_not_matter_without_direction(monkeypatch, smallest, types):
    monkeypatch.setattr(pair_features, "SMALLEST", (smallest, smallest))
    features = PairFeatures(embedding(), graph(types=types))
    pairs = np.array([(a, b) for a in range(NODES) for b in range(a)])
    # The logit differs by rounding.
    np.testing.assert_array_equal(features.of_pairs(pairs)[:, 1:], features.of_pairs(pairs[:, ::-1])[:, 1:])


def test_pairs_are_oriented_by_type(exact):
    whole = graph(types=["b"] * 6 + ["a"] * 6)
    names = whole.node_types.names
    features = PairFeatures(embedding(), whole)
    assert features.names[1:3] == SIDES
    degrees, codes = np.log1p(features.degrees), whole.node_types.codes
    pairs = np.array([(a, b) for a in range(NODES) for b in range(NODES) if a != b and not whole.adjacency[a, b]])
    found = features.of_pairs(pairs)
    for (a, b), row in zip(pairs.tolist(), found, strict=True):
        first, second = (a, b) if codes[a] < codes[b] else (b, a)
        mean = (degrees[a] + degrees[b]) / 2
        expected = (mean, mean) if codes[a] == codes[b] else (degrees[first], degrees[second])
        assert row[1:3] == pytest.approx(expected)
        both = sorted((codes[a], codes[b]))
        assert features.names[8 + int(np.flatnonzero(row[8:])[0])] == f"types {names[both[0]]!r}, {names[both[1]]!r}"
        assert row[8:].sum() == 1
    targets = np.arange(NODES)[None].repeat(NODES, axis=0)
    every = features.of_candidates(np.arange(NODES), targets)
    np.testing.assert_allclose(every[tuple(pairs.T)], found, rtol=1e-4, atol=1e-5)


def test_one_pair_of_types_or_many_have_no_feature_of_their_own():
    two = graph(types=["a", "b"] * 6)
    between = two.edges()[(two.edges() % 2).sum(axis=1) == 1]
    bipartite = two.with_edges(between, np.ones(len(between)))
    many = graph(types=[f"t{node}" for node in range(NODES)])
    for whole in (bipartite, many):
        assert PairFeatures(embedding(), whole).names == ("logit", *SIDES, *WALKS)


def with_words(types=None, columns=60):
    """A graph whose nodes have some of many words, the last node none."""
    drawn = np.random.default_rng(4)
    words = np.where(drawn.random((NODES, columns)) < 0.2, 1 + drawn.integers(3, size=(NODES, columns)), 0)
    words[-1] = 0
    return from_arrays(graph().edges(), words.astype(np.float32), node_types=types), words


def test_common_words_are_cosines():
    whole, words = with_words()
    features = PairFeatures(embedding(), whole)
    assert features.names == ("logit", "degrees", *WALKS, WORDS)
    lengths = np.maximum(np.linalg.norm(words, axis=1), 1)
    cosines = words @ words.T / lengths[:, None] / lengths
    every = np.array([(a, b) for a in range(NODES) for b in range(NODES) if a != b])
    np.testing.assert_allclose(features.of_pairs(every)[:, -1], cosines[tuple(every.T)], atol=1e-6)
    targets = every[:, 1].reshape(NODES, NODES - 1)
    found = features.of_candidates(np.arange(NODES), targets)[..., -1]
    np.testing.assert_allclose(found, np.take_along_axis(cosines, targets, axis=1), atol=1e-6)
    assert not found[-1].any(), "a node without words has none in common"


def test_nodes_of_two_types_have_no_words_in_common():
    """Each type has columns of its own; the measurements of a third have no cosine at all."""
    _, words = with_words()
    parts = [words[start::3] for start in range(2)] + [np.random.default_rng(0).normal(size=(4, 3))]
    types = ["a", "b", "c"]
    typed = from_arrays(graph().edges(), dict(zip(types, parts, strict=True)), node_types=types * 4)
    assert [each.has_words for each in typed.by_type().types] == [True, True, False]
    features = PairFeatures(embedding(), typed)
    found = features.of_pairs(np.array([[0, 3], [0, 1], [2, 5], [1, 4]]))[:, features.names.index(WORDS)]
    cosine = [words[a] @ words[b] / np.linalg.norm(words[a]) / np.linalg.norm(words[b]) for a, b in ((0, 3), (1, 4))]
    np.testing.assert_allclose(found, [cosine[0], 0, 0, cosine[1]], atol=1e-6)


def test_a_graph_without_the_words_of_the_fit_is_refused():
    whole, _ = with_words()
    known = PairFeatures(embedding(), whole.without_attributes(), PairFeatures(embedding(), whole).names)
    with pytest.raises(InputError, match="compares attributes, which this graph lacks; give the graph of the fit"):
        known.of_pairs(np.array([[0, 1]]))


@pytest.mark.parametrize("directed", [False, True])
def test_candidates_come_with_their_features(directed):
    """Some nodes have few candidates from walks, and get others."""
    nodes, whole = embedding(80, "kl" if directed else "symmetric_kl"), graph(directed, count=80, density=0.03)
    features, sources = PairFeatures(nodes, whole), np.arange(80)
    targets, found = features.candidates(sources)
    counts = (targets >= 0).sum(axis=1)
    assert len({*counts.tolist()}) > 1
    assert all((row[:count] >= 0).all() for row, count in zip(targets, counts.tolist(), strict=True))
    assert all(len({*row[:count].tolist()}) == count for row, count in zip(targets, counts.tolist(), strict=True))
    expected = features.of_candidates(sources, targets)
    np.testing.assert_array_equal(found[targets >= 0], expected[targets >= 0])


def test_features_are_those_of_the_model():
    """The only edge between two types may have been held out, or be new: the columns stay those of the fit."""
    whole = graph(types=["a"] * 4 + ["b"] * 4 + ["c"] * 4)
    names = PairFeatures(embedding(), whole).names
    edges = whole.edges()
    kept = edges[~((edges[:, 0] < 4) & (edges[:, 1] >= 8))]
    rest = whole.with_edges(kept, np.ones(len(kept)))
    pairs = np.array([[0, 9], [0, 5]])
    assert PairFeatures(embedding(), rest).names != names
    fewer = PairFeatures(embedding(), rest, names).of_pairs(pairs)
    assert fewer.shape == (2, len(names))
    assert fewer[0, names.index("types 'a', 'c'")] == fewer[1, names.index("types 'a', 'b'")] == 1


def test_large_and_undefined_logits_are_clipped():
    nodes = embedding()
    far = Embedding(nodes.ids, nodes.mean * 1e15, nodes.variance, "symmetric_kl", nodes.platt_scaling)
    features = PairFeatures(far, graph())
    assert features.of_pairs(np.array([[0, 1], [2, 2]]))[:, 0] == pytest.approx([-30, 0.6])
    assert np.isfinite(features.of_candidates(np.arange(2), np.array([[3], [4]]))).all()


def test_candidates_are_no_neighbours_in_either_direction():
    whole = graph(directed=True, count=60, density=0.06)
    found = PairFeatures(embedding(60, "kl"), whole).candidates(np.arange(60))[0]
    around = whole.neighborhoods().toarray() > 0
    for source in range(60):
        own = found[source][found[source] >= 0]
        assert len(own) == len(np.unique(own)) > 0
        assert source not in own
        assert not around[source, own].any()


def test_a_node_without_edges_gets_the_nearest_gaussians_and_the_most_popular_nodes():
    count = 150
    edges = np.array([[0, node] for node in range(1, 90)] + [[node, node + 1] for node in range(1, 140)])
    whole, nodes = from_arrays(edges, np.ones((count, 1), np.float32)), embedding(count)
    features = PairFeatures(nodes, whole)
    lonely, linked = 149, 50
    found, _ = features.candidates(np.array([linked, lonely]))
    own = found[1][found[1] >= 0]
    assert len(own) == len(np.unique(own))
    nearest = nodes.nearest_to(nodes.take(np.array([lonely])), WALK_K, exclude=[[lonely]])[0][0]
    popular = np.argsort(-features.degrees, kind="stable")[:POPULAR]
    assert set(own) == {*nearest, *popular}
    assert 0 in own
    assert {linked - 2, linked + 2} <= set(found[0]), "a common neighbour with few edges says most"
    assert not set(found[0]) & {linked - 1, linked, linked + 1, 0}


def test_popular_nodes_are_of_a_type_that_an_edge_may_lead_to():
    # Three users have most edges; the items of a new user must not be taken from the 20 nodes with the most edges.
    users, items = 40, 200
    rng = np.random.default_rng(0)
    rows = [(user, users + item) for user in range(users - 1) for item in rng.choice(items, 15, replace=False)]
    types = ["user"] * users + ["item"] * items
    whole = from_arrays(np.array(rows), np.ones((users + items, 1), np.float32), node_types=types)
    features = PairFeatures(embedding(users + items), whole)
    by_degree = np.argsort(-features.degrees, kind="stable")
    assert (by_degree[:POPULAR] < users).all()
    found = features.candidates(np.array([users - 1]))[0][0]
    found = found[found >= 0]
    assert (found >= users).all()
    assert set(by_degree[by_degree >= users][:POPULAR]) <= set(found)
    every, _ = features.candidates(np.arange(users + items))
    assert ((every[:users] >= users) | (every[:users] == -1)).all()
    assert (every[users:] < users).all()


def test_walks_of_dense_graphs_are_not_all_cut_off():
    dense, sparse = graph(count=200, density=0.4), graph(count=200, density=0.02)
    assert PairFeatures(embedding(200), sparse).cutoffs.tolist() == [1e-4, 1e-4, 1e-3]
    features = PairFeatures(embedding(200), dense)
    assert features.cutoffs == pytest.approx([1e-5, 1e-5, 10 * 0.25 / (dense.adjacency.nnz / 200) ** 2], rel=1e-6)
    pairs = np.random.default_rng(0).integers(0, 200, (100, 2))
    assert (features.of_pairs(pairs[pairs[:, 0] != pairs[:, 1]])[:, 3:5] > 0).all()
    found, _ = features.candidates(np.arange(200))
    assert ((found >= 0).sum(axis=1) >= WALK_K).all()


def test_weights_of_edges_do_not_count():
    whole = graph()
    weighted = whole.with_edges(whole.edges(), np.linspace(1, 9, whole.num_edges))
    pairs = np.array([[0, 5], [3, 8]])
    one, other = (PairFeatures(embedding(), each).of_pairs(pairs) for each in (whole, weighted))
    np.testing.assert_array_equal(one, other)
