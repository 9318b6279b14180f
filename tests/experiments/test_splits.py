"""Splits of experiments: edges, splits from files, and hidden nodes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glace
from glace.errors import FormatError, InputError
from glace.experiments.splits import given_split, hide_nodes, seen_in_reverse, split_edges
from glace.values import in_storage
from tests.graph.test_split import as_set, ring


@pytest.mark.parametrize(
    ("directed", "validation", "test"),
    [(False, "8efea2202df8dfe5", "b45cf8382c38171a"), (True, "3d8ddde3b70042af", "730ad585bf918df7")],
)
def test_splits_stay_as_recorded_results_have_them(directed, validation, test):
    graph = glace.datasets.planted(
        60, communities=3, degree=8, attributes=20, words=5, random_state=1, directed=directed
    )
    split = split_edges(graph, np.random.default_rng(5))
    assert split.validation.fingerprint().startswith(validation)
    assert split.test.fingerprint().startswith(test)


@given(st.integers(0, 1000), st.booleans(), st.floats(0.05, 0.15), st.floats(0.05, 0.2))
def test_three_parts_share_no_pair(seed, directed, validation_fraction, test_share):
    graph = glace.datasets.planted(
        60, communities=3, degree=10, attributes=20, words=5, random_state=seed, directed=directed
    )
    split = split_edges(graph, np.random.default_rng(seed), validation_fraction, test_share)
    parts = [as_set(each) for each in (split.train.edges(), split.validation.edges, split.test.edges)]
    assert set.union(*parts) == as_set(graph.edges())
    assert sum(map(len, parts)) == len(as_set(graph.edges())), "no pair is in two parts, not even reversed"
    assert [len(part) for part in parts[1:]] == [
        round(share * sum(map(len, parts))) for share in (validation_fraction, test_share)
    ]
    for held_out in (split.validation, split.test):
        assert len(held_out.edges) == len(held_out.non_edges)
    non_edges = np.concatenate([split.validation.non_edges, split.test.non_edges])
    assert len(np.unique(non_edges, axis=0)) == len(non_edges)
    assert not graph.has_edges(non_edges).any()
    np.testing.assert_array_equal(np.unique(split.train.edges()), np.unique(graph.edges()))
    assert not seen_in_reverse(split).any()


def test_the_same_generator_gives_the_same_split():
    first, second = (split_edges(ring(40), np.random.default_rng(5)) for _ in range(2))
    assert first.train.fingerprint() == second.train.fingerprint()
    np.testing.assert_array_equal(first.test.pairs(), second.test.pairs())


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((0, 0.1), "the share for validation must be above 0 and below 1, not 0"),
        ((0.1, 1), "the share for the test must be above 0 and below 1, not 1"),
        ((0.5, 0.4), r"cannot hold out 50% \+ 40% of 80 edges \(72\).*hold out other shares"),
        ((0.001, 0.1), r"cannot hold out 0% \+ 10% of 80 edges \(8\)"),
    ],
)
def test_shares_that_cannot_be_held_out(shares, message):
    with pytest.raises(InputError, match=message):
        split_edges(ring(40), np.random.default_rng(0), *shares)


GIVEN = {
    "train_edges": np.array([[0, 1], [2, 1], [1, 2], [2, 1], [3, 4]], dtype=np.int32),
    "val_edges": np.array([[0, 3], [0, 2]]),
    "val_ground_truth": np.array([1, 0], dtype=np.int8),
    "test_edges": np.array([[1, 4], [1, 0], [3, 2], [4, 0]], dtype=np.uint8),
    "test_ground_truth": np.array([0, 1, 1, 0]),
}
LISTED = np.array([[0, 1], [1, 0], [1, 2], [2, 1], [3, 4], [0, 3], [3, 2]])


@pytest.fixture
def given_file(tmp_path):
    """Write a split, some of it changed (None: left out), and give the path."""

    def write(**changes):
        path = tmp_path / "split.npz"
        np.savez(path, **{name: value for name, value in (GIVEN | changes).items() if value is not None})
        return path

    return write


@pytest.fixture
def five():
    return lambda directed: glace.from_arrays(
        LISTED, weights=[1.0, 1, 5, 5, 7, 2, 3], directed=directed, attributes=np.eye(5)
    )


@pytest.mark.parametrize(
    ("directed", "edges", "weights"),
    [(False, [[0, 1], [1, 2], [3, 4]], [1, 5, 7]), (True, [[0, 1], [1, 2], [2, 1], [3, 4]], [1, 5, 5, 7])],
)
def test_a_given_split_is_read_as_it_is(given_file, five, directed, edges, weights):
    split = given_split(five(directed), given_file())
    found = split.train.edges_and_weights()
    assert split.train.directed is directed
    assert (found[0].tolist(), found[1].tolist()) == (edges, weights), "repeated rows are one edge"
    assert split.validation.pairs().tolist() == [[0, 3], [0, 2]]
    assert split.test.edges.tolist() == [[1, 0], [3, 2]]
    assert split.test.non_edges.tolist() == [[1, 4], [4, 0]]
    assert seen_in_reverse(split).tolist() == [True, False]


def test_the_reverse_of_a_validation_edge_was_seen_too(given_file, five):
    split = given_split(five(False), given_file(test_edges=np.array([[1, 4], [3, 0], [3, 2], [4, 0]])))
    assert split.test.edges.tolist() == [[3, 0], [3, 2]]
    assert seen_in_reverse(split).tolist() == [True, False]


def test_validation_and_test_are_alike(hubs):
    """What is drawn first does not have busier ends: every removable pair is as likely in either part."""
    between_hubs = np.zeros(2)
    for seed in range(300):
        split = split_edges(hubs, np.random.default_rng(seed), 0.1, 0.1)
        between_hubs += [(each.edges < 4).all(axis=1).mean() for each in (split.validation, split.test)]
    assert between_hubs / 300 == pytest.approx(0.30, abs=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"val_edges": None}, "no member val_edges; expected train_edges, val_edges, val_ground_truth, test_e"),
        ({"train_edges": np.array([[0.0, 1]])}, "train_edges holds float64; expected whole numbers"),
        ({"train_edges": np.array([0, 1])}, r"train_edges has the shape \(2,\); expected rows of two node nu"),
        ({"test_edges": np.ones((4, 3), int)}, r"test_edges has the shape \(4, 3\); expected rows of two"),
        ({"train_edges": np.array([[0, 1], [0, 5]])}, r"train_edges: row 2 is \[0, 5\]; .* from 0 to 4"),
        ({"val_edges": np.array([[-1, 3], [0, 2]])}, r"val_edges: row 1 is \[-1, 3\]; expected node numbers"),
        ({"val_edges": np.array([[2**63, 3], [0, 2]], np.uint64)}, r"val_edges: row 1 is \[9223372036854775808"),
        ({"val_edges": np.array([[0, 3], [2, 2]])}, r"val_edges: row 2 is \[2, 2\]; expected two different"),
        ({"train_edges": np.array([[0, 1], [0, 4]])}, r"train_edges: row 2 is \[0, 4\]; not an edge of the graph"),
        ({"val_edges": np.array([[0, 4], [0, 2]])}, r"val_edges: row 1 is \[0, 4\]; not an edge of the graph"),
        ({"val_ground_truth": np.array([1])}, r"val_ground_truth has the shape \(1,\), but needs \(2,\), one"),
        ({"val_ground_truth": np.array([1.0, 0])}, "val_ground_truth holds float64; expected whole numbers"),
        ({"val_ground_truth": np.array([1, 2])}, "val_ground_truth: row 2 is 2; expected 1 for an edge and 0"),
        ({"test_ground_truth": np.array([0, 0, 0, 0])}, "test_ground_truth must contain both 1 and 0"),
    ],
)
def test_a_given_split_that_is_wrong(given_file, five, changes, message):
    with pytest.raises(InputError, match=f"split.npz: {message}"):
        given_split(five(False), given_file(**changes))


def test_a_given_split_is_never_unpickled(given_file, five):
    with pytest.raises(FormatError, match=r"split.npz: train_edges holds Python objects"):
        given_split(five(False), given_file(train_edges=np.array([[0, 1]], dtype=object)))


def test_a_given_split_that_is_not_there(tmp_path, five):
    with pytest.raises(InputError, match=r"no file .*none.npz; expected a split in an .npz file"):
        given_split(five(False), tmp_path / "none.npz")


@given(st.integers(0, 1000), st.booleans(), st.floats(0.1, 0.6))
def test_hidden_nodes_are_out_of_sight(seed, directed, share):
    graph = ring(30, directed=directed)
    found = hide_nodes(graph, share, np.random.default_rng(seed))
    hidden = round(share * 30)
    assert found.visible.num_nodes == 30 - hidden
    assert sorted(found.order) == list(range(30))
    rows, hidden_rows, visible_rows = (
        in_storage(each, sparse=False) for each in (graph.features(), found.hidden.matrix, found.visible.features())
    )
    np.testing.assert_array_equal(hidden_rows, rows[found.order[-hidden:]])
    np.testing.assert_array_equal(visible_rows, rows[found.order[:-hidden]])
    judged, apart = found.order[found.test.edges], found.order[found.test.non_edges]
    assert graph.has_edges(judged).all()
    visible = found.order[found.visible.edges()]
    both = np.concatenate([judged, visible])
    assert as_set(both) == as_set(graph.edges()), "an edge is either seen or to be predicted"
    assert len(both) == graph.num_edges
    assert (found.test.pairs().max(axis=1) >= 30 - hidden).all()
    assert not graph.has_edges(apart).any()
    assert len(np.unique(apart, axis=0)) == len(apart) == len(judged)


@given(st.integers(0, 1000), st.booleans(), st.floats(0.1, 0.5))
def test_pairs_are_drawn_as_in_graph2gauss(seed, directed, share):
    graph = glace.datasets.planted(
        80, communities=4, degree=4, attributes=20, words=5, random_state=seed, directed=directed
    )
    found = hide_nodes(graph, share, np.random.default_rng(seed), "graph2gauss")
    drawn = set(hide_nodes(graph, share, np.random.default_rng(seed)).order[80 - round(share * 80) :].tolist())
    visible = found.visible.num_nodes
    hidden = set(found.order[visible:].tolist())
    assert drawn <= hidden
    assert (np.asarray(found.visible.neighborhoods().sum(axis=1)) > 0).all(), "who has no edges left is hidden too"
    edges = graph.edges()
    touched = np.isin(edges, sorted(hidden)).any(axis=1)
    assert as_set(found.order[found.test.edges]) == as_set(edges[touched])
    pairs = found.order[found.test.non_edges]
    assert not graph.has_edges(pairs).any()
    assert not graph.has_edges(pairs[:, ::-1]).any()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    degrees = np.bincount(edges.ravel(), minlength=80)
    assert dict(Counter(pairs[:, 0].tolist())) == {
        node: degrees[node] * (2 if node in drawn else 1) for node in hidden if degrees[node]
    }, "each drawn node has its pairs twice"
    once = pairs[: len(pairs) // 2]
    assert len(np.unique(found.test.edges, axis=0)) == len(found.test.edges)
    assert len(once)


def test_the_pairs_of_a_hub_are_all_there_are():
    """A node that is joined to all others but one has one non-neighbour, whatever its degree."""
    star = glace.from_arrays([(0, other) for other in range(1, 9)] + [(8, 9), (7, 9)], np.eye(10))
    found = hide_nodes(star, 0.1, np.random.default_rng(3), "graph2gauss")
    pairs = found.order[found.test.non_edges]
    assert not star.has_edges(pairs).any()
    assert Counter(pairs[:, 0].tolist())[0] in (0, 2)


def test_the_protocol_of_graph2gauss_knows_one_node_type():
    graph = glace.datasets.load("wordnet-kinds")
    with pytest.raises(InputError, match="the protocol graph2gauss supports one node type, but the graph has several"):
        hide_nodes(graph, 0.1, np.random.default_rng(0), "graph2gauss")


def test_nodes_cannot_be_hidden_without_attributes_or_edges():
    generator = np.random.default_rng(0)
    with pytest.raises(InputError, match="embedded from its attributes, but the graph has none"):
        hide_nodes(ring(10, attributes=None), 0.1, generator)
    with pytest.raises(InputError, match="the share of nodes to hide must be above 0 and below 1, not 1.5"):
        hide_nodes(ring(10), 1.5, generator)
    with pytest.raises(InputError, match="hiding 10 of 10 nodes leaves 0 edges for training and 20 to predict"):
        hide_nodes(ring(10), 0.99, generator)
    with pytest.raises(InputError, match="hiding 0 of 10 nodes leaves 20 edges for training and 0 to predict"):
        hide_nodes(ring(10), 0.01, generator)
