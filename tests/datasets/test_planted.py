"""Planted graphs have the communities, edges and attributes their docstring states."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glace.datasets import planted
from glace.errors import InputError
from glace.graph.graph import Graph


def community_of(graph: Graph) -> Any:
    assert graph.labels is not None
    return graph.labels.codes


@pytest.mark.parametrize("directed", [False, True])
def test_the_share_of_edges_between_communities_is_exact(directed):
    graph = planted(1000, degree=8, mixing=0.25, directed=directed)
    community = community_of(graph)
    edges = graph.edges()
    assert len(edges) == graph.num_edges == 4000
    assert (community[edges[:, 0]] != community[edges[:, 1]]).sum() == 1000


def test_communities_have_equal_sizes():
    assert sorted(np.bincount(community_of(planted(1003, communities=5)))) == [200, 200, 201, 201, 201]


def test_every_community_is_joined_to_every_other():
    graph = planted(2000, communities=4, mixing=0.5)
    ends = community_of(graph)[graph.edges()]
    between = ends[ends[:, 0] != ends[:, 1]]
    counts = np.bincount(np.sort(between, axis=1) @ [4, 1], minlength=16)
    assert (counts[[1, 2, 3, 6, 7, 11]] > 0.7 * len(between) / 6).all()


def test_half_of_the_words_and_a_share_of_the_noise_come_from_the_own_block():
    graph = planted(4000, communities=8, attributes=200, words=20)
    features: Any = graph.attributes
    blocks = np.add.reduceat(features.toarray(), np.arange(0, 200, 25), axis=1)
    assert (blocks.sum(axis=1) == 20).all()
    own = blocks[np.arange(4000), community_of(graph)].sum() / blocks.sum()
    assert own == pytest.approx(0.5 + 0.5 / 8, abs=0.01)
    assert (blocks.argmax(axis=1) == community_of(graph)).mean() > 0.95


def test_degrees_are_mildly_skewed():
    degree = np.diff(planted(5000, degree=10).adjacency.indptr)
    # Poisson degrees would have a standard deviation of sqrt(10); these have 1.3 to 4 times that.
    assert degree.mean() == pytest.approx(10)
    assert 1.3 * 10**0.5 < degree.std() < 4 * 10**0.5


def test_the_seed_decides():
    assert planted(300, random_state=3).fingerprint() == planted(300, random_state=3).fingerprint()
    assert planted(300, random_state=3).fingerprint() != planted(300, random_state=4).fingerprint()


@settings(max_examples=30, deadline=None)
@given(
    nodes=st.integers(20, 200), communities=st.integers(1, 5), random_state=st.integers(0, 1000), directed=st.booleans()
)
def test_edges_are_distinct_and_never_loops(nodes, communities, random_state, directed):
    mixing = 0.3 if communities > 1 else 0.0
    graph = planted(
        nodes, communities=communities, degree=1.0, mixing=mixing, random_state=random_state, directed=directed
    )
    assert graph.num_edges == round(nodes / 2)
    assert (graph.cleaning_report.duplicate_edges, graph.cleaning_report.self_loops) == (0, 0)
    assert (graph.adjacency.data == 1).all()


def test_columns_left_over_belong_to_no_community():
    features: Any = planted(2000, communities=3, attributes=10, words=9).attributes
    counts = features.sum(axis=0)
    assert counts[9] == pytest.approx(0.5 * 18000 / 10, rel=0.15)
    assert counts[:9].mean() > 1.5 * counts[9]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "nodes must be a whole number of at least 1, not 0"),
        ({"nodes": 10.5}, "nodes must be a whole number of at least 1, not 10.5"),
        ({"communities": 0}, "communities must be a whole number"),
        ({"attributes": True}, "attributes must be a whole number"),
        ({"words": -1}, "words must be a whole number"),
        ({"communities": 200}, "200 communities need at least as many nodes, but there are 100"),
        ({"attributes": 5}, "8 communities need an attribute each, but there are 5"),
        ({"degree": 0}, "degree must be a finite number above 0, not 0"),
        ({"degree": float("nan")}, "degree must be a finite number above 0, not nan"),
        ({"mixing": 1.5}, "mixing must be a number from 0 to 1, not 1.5"),
        ({"communities": 1}, "edges between communities need two of them; set mixing=0"),
        ({"degree": 12.0}, "540 edges within communities do not fit into half of the 576 pairs"),
        ({"degree": 99.0, "mixing": 1.0}, "4,950 edges between communities do not fit"),
        ({"random_state": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        planted(**{"nodes": 100, **options})
