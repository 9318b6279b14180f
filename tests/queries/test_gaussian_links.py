"""Links by the Gaussians alone, beside a look at all pairs."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.graph.arrays import from_arrays
from glace.ids import NodeIds
from glace.queries.gaussian_links import likely_links, links_of
from glace.queries.links import LinkOptions, links
from glace.queries.pair_features import LinkTypes

OPTIONS = LinkOptions(0.1)


def embedding(measure="symmetric_kl", count=60, random_state=0, equal=False):
    rng = np.random.default_rng(random_state)
    mean = rng.normal(size=(count, 4)).astype(np.float32)
    if equal:  # a crowd at one place, whose pairs are more than any node is asked for at first
        mean[:20] = mean[0]
    variance = np.ones((count, 4), np.float32) if equal else np.exp(rng.normal(size=(count, 4))).astype(np.float32)
    ids = NodeIds([f"n{number}" for number in range(count)])
    return Embedding(ids, mean, None if measure == "dot" else variance, measure)


def edges(count=60, random_state=1, symmetric=True):
    rng = np.random.default_rng(random_state)
    matrix = sp.csr_array(rng.random((count, count)) < 0.1)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    return sp.csr_array(matrix + matrix.T) if symmetric else matrix


def brute(embedding, known, top):
    count = len(embedding)
    pairs = np.array([(a, b) for a in range(count) for b in range(count) if a != b and not known[a, b]])
    if embedding.measure.symmetric:
        pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    far = embedding.dissimilarities_at(pairs)
    order = np.lexsort((pairs[:, 1], pairs[:, 0], far))[:top]
    return pairs[order], far[order]


@pytest.mark.parametrize("measure", ["kl", "symmetric_kl", "wasserstein2", "dot"])
@pytest.mark.parametrize("top", [1, 7, 500, 10_000])
def test_they_are_the_best_of_all_pairs(measure, top):
    nodes = embedding(measure)
    known = edges(symmetric=nodes.measure.symmetric)
    pairs, far = brute(nodes, known, top)
    found = likely_links(nodes, known, top)
    np.testing.assert_array_equal(found.positions, pairs)
    np.testing.assert_allclose(found.dissimilarities, far, rtol=1e-9, atol=1e-12)


def test_a_crowd_of_equals_is_asked_again():
    nodes, known = embedding(equal=True), edges()
    pairs, _ = brute(nodes, known, 150)
    np.testing.assert_array_equal(likely_links(nodes, known, 150).positions, pairs)


def test_those_of_one_node():
    nodes, known = embedding("kl"), edges(symmetric=False)
    found = links_of(nodes, known, 5, 12)
    others = np.array([[5, b] for b in range(60) if b != 5 and not known[5, b]])
    far = nodes.dissimilarities_at(others)
    np.testing.assert_array_equal(found.positions, others[np.argsort(far)[:12]])
    assert len(links_of(nodes, known, 5, 1000).positions) == len(others)


def test_nothing_is_missing_in_a_complete_graph():
    nodes, known = embedding(count=5), sp.csr_array(np.ones((5, 5)) - np.eye(5))
    assert likely_links(nodes, known, 10).positions.shape == (0, 2)
    assert links_of(nodes, known, 2, 10).positions.shape == (0, 2)


def test_another_search_and_progress():
    nodes, known = embedding(), edges()
    told: list[float] = []

    def search(queries, k, exclude, among):
        return nodes.nearest_to(queries, k, exclude=exclude, among=among)

    found = likely_links(nodes, known, 9, search, told.append)
    np.testing.assert_array_equal(found.positions, likely_links(nodes, known, 9).positions)
    assert told[-1] == 1.0


def test_columns():
    nodes, known = embedding(), edges()
    pairs = likely_links(nodes, known, 3)
    graph = from_arrays(known, np.ones((60, 1), np.float32), ids=list(nodes.ids))
    found = links(nodes, graph, None, OPTIONS, k=3)
    assert found.source.tolist() == [f"n{a}" for a in pairs.positions[:, 0]]
    assert found.target.tolist() == [f"n{b}" for b in pairs.positions[:, 1]]
    # The Gaussians' probability is among as many edges as non-edges; the list has one missing edge in many pairs.
    even = nodes.probabilities(pairs.dissimilarities)
    density = graph.num_edges / 9 / (60 * 59 / 2)
    np.testing.assert_allclose(found.probability / (1 - found.probability), even / (1 - even) * density)
    assert list(found.columns()) == ["source", "target", "probability", "dissimilarity"]
    assert found.rows()[0]["source"] == found.source[0]
    assert links(nodes, graph, None, OPTIONS, "n5", 2).source.tolist() == ["n5", "n5"]


def test_an_answer_without_rows_keeps_its_column_types():
    nodes = replace(embedding(count=3), ids=NodeIds([7, 8, 9]))
    whole = from_arrays(sp.csr_array(1 - np.eye(3)), ids=[7, 8, 9])
    table = links(nodes, whole, None, OPTIONS).to_arrow()
    assert len(table) == 0
    assert [str(each) for each in table.schema.types] == ["int64", "int64", "double", "double"]


def test_edges_of_other_nodes_are_refused():
    nodes, known = embedding(), edges()
    with pytest.raises(InputError, match="the model keeps no edges"):
        links(nodes, None, None, OPTIONS)
    with pytest.raises(InputError, match="the known edges must have the nodes of the model, in the same order"):
        links(nodes, from_arrays(known), None, OPTIONS)


TYPES = np.array([0, 1, 0, 2, -1] * 12)
NAMES = ("word", "meaning", "author", None)


def typed(symmetric=True):
    """Words lead to meanings, authors and nodes without a type to words; not the other way unless symmetric."""
    allowed = np.zeros((4, 4), dtype=np.bool_)
    allowed[[0, 2, 3], [1, 0, 0]] = True
    return LinkTypes(TYPES, NAMES, allowed | allowed.T if symmetric else allowed)


def best_allowed(nodes, known, types, top):
    """By a look at all pairs, those of other types taken as known."""
    barred = ~types.allowed[TYPES[:, None], TYPES]
    return brute(nodes, known.toarray() + barred > 0, top)


@pytest.mark.parametrize("measure", ["kl", "symmetric_kl"])
@pytest.mark.parametrize("top", [1, 40, 10_000])
def test_of_types_they_are_the_best_of_the_allowed_pairs(measure, top):
    nodes = embedding(measure)
    known, types = edges(symmetric=nodes.measure.symmetric), typed(nodes.measure.symmetric)
    pairs, far = best_allowed(nodes, known, types, top)
    found = likely_links(nodes, known, top, types=types)
    np.testing.assert_array_equal(found.positions, pairs)
    np.testing.assert_allclose(found.dissimilarities, far, rtol=1e-9, atol=1e-12)
    one = links_of(nodes, known, 4, 10_000, types=types)
    assert set(TYPES[one.positions[:, 1]]) == {0}


def test_a_crowd_of_equals_of_a_type_is_asked_again():
    nodes, known, types = embedding(equal=True), edges(), typed()
    pairs, _ = best_allowed(nodes, known, types, 120)
    np.testing.assert_array_equal(likely_links(nodes, known, 120, types=types).positions, pairs)


@pytest.mark.parametrize("symmetric", [True, False])
def test_only_one_type(symmetric):
    nodes = embedding("symmetric_kl" if symmetric else "kl")
    known, types = edges(symmetric=symmetric), typed(symmetric)
    found = likely_links(nodes, known, 10_000, types=types.with_end(1)).positions
    assert (np.sort(TYPES[found], axis=1) == [0, 1]).all()
    pairs, _ = best_allowed(nodes, known, types, 10_000)
    assert len(found) == (TYPES[pairs] == 1).any(axis=1).sum()
    to_meanings = links_of(nodes, known, 0, 10_000, types=types.leading_to(1)).positions
    assert (TYPES[to_meanings] == [0, 1]).all()
    assert len(links_of(nodes, known, 0, 9, types=types.leading_to(0)).positions) == 0
    assert (len(links_of(nodes, known, 1, 9, types=types).positions) > 0) == symmetric


def test_of_types_by_indices():
    pytest.importorskip("faiss", reason="approximate search needs faiss: pip install '.[search]'")
    from glace.queries.approximate import Indices

    nodes, known, types = embedding("kl"), edges(symmetric=False), typed(symmetric=False)
    search = Indices(nodes).nearest_to
    exact, near = (likely_links(nodes, known, 50, types=types), likely_links(nodes, known, 50, search, None, types))
    np.testing.assert_array_equal(near.positions, exact.positions, "so few nodes are all candidates")
    assert len(links_of(nodes, known, 1, 9, search, types).positions) == 0, "meanings lead nowhere"
