"""Sets that hold a missing edge with a stated probability."""

import numpy as np
import pytest

import glace
from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.queries.coverage import dissimilarities_from, nearest_beyond, ranks_beyond, set_size, set_sizes
from glace.queries.pair_features import untyped


@pytest.fixture(scope="module")
def line():
    """Nodes 0 to 9 at their number; 0 has edges to 1 and 2."""
    graph = glace.from_arrays(np.array([[0, 1], [0, 2], [5, 9], [3, 4], [6, 7], [7, 8]]))
    mean = graph.ids.to_numpy().astype(np.float32)[:, None]
    return graph, Embedding(graph.ids, mean, np.ones_like(mean), "symmetric_kl")


def at(graph, *ids):
    return graph.ids.positions(list(ids))


def test_sizes_are_the_ranks_of_held_out_edges():
    sizes = set_sizes(np.arange(1.0, 100))
    assert sizes.tolist() == [*range(1, 100), -1]
    assert set_size(sizes, 0.9) == 90
    assert set_size(sizes, 0.905) == 91


def test_sets_cover_what_they_promise():
    rng, covered = np.random.default_rng(0), []
    for _ in range(400):
        ranks = np.floor(rng.exponential(20, 201)) + 1
        covered.append(ranks[-1] <= set_size(set_sizes(ranks[:-1]), 0.8))
    assert np.mean(covered) == pytest.approx(0.8, abs=0.06)


def test_what_cannot_be_promised_is_refused():
    with pytest.raises(InputError, match="coverage 0.99 cannot be promised with so few held-out edges"):
        set_size(set_sizes(np.arange(1.0, 30)), 0.99)
    with pytest.raises(InputError, match="coverage must be above 0 and below 1, not 1"):
        set_size(set_sizes(np.arange(1.0, 30)), 1)
    with pytest.raises(InputError, match="coverage needs a link model that was fitted to held-out edges"):
        set_size(None, 0.9)


def test_beyond_the_candidates_the_dissimilarity_ranks(line):
    graph, embedding = line
    types = untyped(10)
    source, candidates = at(graph, 0)[0], at(graph, 8, 3)
    ((rows, distances),) = dissimilarities_from(embedding, np.array([source]))
    direct = embedding.dissimilarities_at(np.column_stack([np.full(10, source), np.arange(10)]))
    np.testing.assert_allclose(distances[0], direct, atol=1e-5)
    assert rows == slice(0, 10)
    # Of the others, 4, 5 and 6 are nearer than 7; 1 and 2 are known.
    edges = np.array([[source, at(graph, 7)[0]], [source, at(graph, 4)[0]]])
    assert ranks_beyond(embedding, graph, types, edges, [candidates, candidates]).tolist() == [6, 3]
    found = nearest_beyond(embedding, graph, types, source, candidates, 3)
    assert found.tolist() == at(graph, 4, 5, 6).tolist()
    assert len(nearest_beyond(embedding, graph, types, source, candidates, 100)) == 5
