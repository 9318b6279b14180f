"""Planted graphs on disk have what planted ones have, and do not depend on how they were cut into blocks."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import buckets
from benchmarks.planted_stream import planted_folder
from glace.datasets import planted
from glace.errors import InputError
from tests.conftest import is_mapped

MODULE = "benchmarks.planted_stream"


@pytest.fixture
def made(tmp_path):
    def make(nodes=600, edges=2400, **options):
        return planted_folder(tmp_path / "g.graph", nodes, edges, **options)

    return make


def community_of(graph: Any) -> Any:
    return graph.labels.codes


def test_edges_are_symmetric_sorted_distinct_and_as_many_as_wanted(made):
    graph = made()
    adjacency = graph.adjacency
    assert graph.num_edges == 2400
    assert not graph.directed
    assert (adjacency != adjacency.T).nnz == 0
    assert adjacency.diagonal().sum() == 0
    rows = np.repeat(np.arange(600), np.diff(adjacency.indptr))
    assert (np.diff(rows * 600 + adjacency.indices.astype(np.int64)) > 0).all()
    assert (adjacency.data == 1).all()


def test_nodes_without_an_edge_are_counted(made):
    graph = made(edges=300)
    assert graph.cleaning_report.isolated_nodes == (np.diff(graph.adjacency.indptr) == 0).sum() > 50


def test_communities_show_in_edges_and_words_as_they_do_in_memory(made):
    graph, other = made(nodes=2000, edges=10_000), planted(2000)
    each: Any
    for each in (graph, other):
        ends = community_of(each)[each.edges()]
        assert (ends[:, 0] != ends[:, 1]).mean() == pytest.approx(0.1, abs=0.01)
        blocks = np.add.reduceat(each.attributes.toarray(), np.arange(0, 200, 25), axis=1)
        assert (blocks.sum(axis=1) == 20).all()
        own = blocks[np.arange(2000), community_of(each)].sum() / blocks.sum()
        assert own == pytest.approx(0.5 + 0.5 / 8, abs=0.01)
        assert each.attributes.toarray().sum(axis=0).std() < 20, "words of a block are drawn evenly"
    assert sorted(np.bincount(community_of(graph))) == [250] * 8
    degrees = [np.diff(each.adjacency.indptr).std() for each in (graph, other)]
    assert degrees[0] == pytest.approx(degrees[1], rel=0.25)


def test_every_community_is_joined_to_every_other(made):
    graph = made(nodes=2000, edges=10_000, communities=4, mixing=0.5)
    ends = community_of(graph)[graph.edges()]
    between = ends[ends[:, 0] != ends[:, 1]]
    counts = np.bincount(np.sort(between, axis=1) @ [4, 1], minlength=16)
    assert (counts[[1, 2, 3, 6, 7, 11]] > 0.7 * len(between) / 6).all()


def test_rows_of_words_are_sorted_and_distinct(made):
    attributes = made(nodes=50, edges=60, attributes=10, words=9).attributes
    for row in range(50):
        columns = attributes.indices[attributes.indptr[row] : attributes.indptr[row + 1]]
        assert (np.diff(columns) > 0).all()
    assert (attributes.sum(axis=1) == 9).all()


def test_the_seed_decides(made):
    assert (
        made(random_state=3).fingerprint() == made(random_state=3).fingerprint() != made(random_state=4).fingerprint()
    )


def test_blocks_and_buckets_do_not_matter(made, monkeypatch):
    whole = made().fingerprint()
    monkeypatch.setattr(f"{MODULE}.BLOCK", 170)
    monkeypatch.setattr(buckets, "RECORDS", 100)
    assert made().fingerprint() == whole


def test_the_folder_is_mapped_and_what_was_spilled_is_gone(made, tmp_path):
    graph = made()
    assert is_mapped(graph.adjacency.indices)
    assert graph.mapped is not None
    assert [each.name for each in tmp_path.iterdir()] == ["g.graph"]
    assert all(each.suffix in (".npy", ".json") for each in (tmp_path / "g.graph").iterdir())


def test_progress_is_told(made):
    told: list[float] = []
    made(progress=told.append)
    assert told == sorted(told)
    assert len(told) > 2


@settings(max_examples=20, deadline=None)
@given(
    nodes=st.integers(20, 120),
    communities=st.integers(1, 5),
    random_state=st.integers(0, 1000),
    share=st.floats(0.01, 0.4),
)
def test_the_number_of_edges_is_exact_in_crowded_graphs_too(nodes, communities, random_state, share, tmp_path_factory):
    room = sum((size * (size - 1)) // 2 for size in np.bincount(np.arange(nodes) % communities).tolist())
    edges = max(int(room * share), 1)
    path = tmp_path_factory.mktemp("planted") / "g.graph"
    graph = planted_folder(path, nodes, edges, communities=communities, mixing=0.0, random_state=random_state)
    assert graph.num_edges == edges
    ends = community_of(graph)[graph.edges()]
    assert (ends[:, 0] == ends[:, 1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "nodes must be a whole number of at least 1, not 0"),
        ({"edges": 0.5}, "edges must be a whole number of at least 1, not 0.5"),
        ({"words": True}, "words must be a whole number of at least 1, not True"),
        ({"communities": 1000}, "1,000 communities need at least as many nodes, but there are 600"),
        ({"attributes": 5}, "8 communities need an attribute each, but there are 5"),
        ({"mixing": 2}, "mixing must be a number from 0 to 1, not 2"),
        ({"communities": 1}, "edges between communities need two of them; set mixing=0"),
        ({"edges": 170_000}, "153,000 edges within communities do not fit into half of the"),
    ],
)
def test_bad_options_are_named(made, options, message):
    with pytest.raises(InputError, match=message):
        made(**options)
