"""The best links of every node at once, beside the links of one node at a time."""

import numpy as np
import pytest

import glace
from glace.datasets import planted
from glace.queries.links import best_links_of_each
from tests.conftest import small


@pytest.fixture(scope="module")
def model():
    graph = planted(300, communities=4, attributes=60, words=8, random_state=0)
    return glace.train(graph, small(dim=8, hidden=16, max_steps=50))


@pytest.mark.parametrize("by", ["model", "gaussian"])
def test_links_of_each_node_are_those_of_one_node(model, by):
    assert model.link_model is not None
    ranked_by = model.link_model if by == "model" else None
    found, probability = best_links_of_each(model.embedding, model.graph, ranked_by, 0.1, 4)
    assert found.shape == probability.shape == (300, 4)
    for node in range(0, 300, 7):
        own = model.links(node, 4, by=by, missing_edge_fraction=0.1)
        assert found[node].tolist() == own.target.tolist()
        np.testing.assert_allclose(probability[node], own.probability)


def test_nodes_with_fewer_links(model):
    """A star of five nodes: its center has an edge to all others."""
    graph = glace.from_arrays([[0, 1], [0, 2], [0, 3], [0, 4]])
    star = glace.train(graph, small(dim=2, max_steps=3, validation_fraction=0.0))
    assert star.graph is not None
    found, probability = best_links_of_each(star.embedding, star.graph, star.link_model, 0.1, 4)
    assert found[0].tolist() == [-1] * 4
    assert probability[0].tolist() == [0] * 4
    assert sorted(found[1, :3].tolist()) == [2, 3, 4]
    assert found[1, 3] == -1
    assert (probability[1, :3] > 0).all()
    by_gaussians, _ = best_links_of_each(star.embedding, star.graph, None, 0.1, 4)
    assert sorted(by_gaussians[1, :3].tolist()) == [2, 3, 4]
