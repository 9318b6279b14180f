"""What edge weights mean in training: a strength, a rating, or nothing."""

import numpy as np
import pytest

import glace
from glace.config.config import method_named
from glace.datasets import planted
from glace.graph.arrays import from_arrays
from glace.io.folder import read_folder, write_folder
from glace.training.train import train, visible_graph


def rated(weights):
    """Three nodes in a row, whose two edges have these weights."""
    return from_arrays(np.array([[0, 1], [1, 2]]), np.eye(3, dtype=np.float32), weights=np.array(weights, np.float32))


def seen(graph, meaning):
    """The weights of the edges as training sees them."""
    method = method_named("glace")
    return visible_graph(graph, method.config(weights=meaning), method).edges_and_weights()[1].tolist()


@pytest.mark.parametrize(
    ("meaning", "expected"), [("strength", [0.5, 5.0]), ("preference", [0.01, 1.0]), ("ignore", [1.0, 1.0])]
)
def test_half_a_star_is_a_weak_edge_no_preference_or_an_edge_like_others(tmp_path, meaning, expected):
    graph = rated([0.5, 5.0])
    assert seen(graph, meaning) == pytest.approx(expected)
    write_folder(graph, tmp_path / "g.graph")
    assert seen(read_folder(tmp_path / "g.graph"), meaning) == pytest.approx(expected)


def test_ratings_between_are_in_proportion():
    graph = from_arrays(np.array([[0, 1], [1, 2], [2, 3]]), np.eye(4, dtype=np.float32), weights=np.array([1, 2, 5.0]))
    assert seen(graph, "preference") == pytest.approx([0.01, 0.25, 1.0])


def test_equal_weights_stay_as_they_are():
    assert seen(rated([3, 3]), "preference") == [3, 3]


def test_without_weights_a_graph_trains_as_if_it_had_none():
    plain = planted(120, communities=3, attributes=40, words=6)
    edges = plain.edges_and_weights()[0]
    weights = np.random.default_rng(0).integers(1, 6, len(edges)).astype(np.float32)
    options = {"dim": 4, "hidden": 16, "max_steps": 20, "ensemble_size": 1, "n_jobs": 1}
    models = [
        train(from_arrays(edges, plain.attributes, weights=weights), options | {"weights": "ignore"}),
        train(from_arrays(edges, plain.attributes), options),
        train(from_arrays(edges, plain.attributes, weights=weights), options),
    ]
    assert np.array_equal(models[0].embedding.mean, models[1].embedding.mean)
    assert not np.array_equal(models[0].embedding.mean, models[2].embedding.mean)


def test_an_unknown_meaning_is_refused():
    with pytest.raises(glace.InputError, match="weights must be 'strength', 'preference' or 'ignore', not 'rating'"):
        glace.GLACE(weights="rating").fit(rated([1, 2]))
