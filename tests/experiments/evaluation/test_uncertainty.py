"""What variances say: Gaussians made so that the answer is known, both ways."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy, spearmanr

import glace
from glace.errors import InputError
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.experiments.evaluation.uncertainty import (
    _class_counts,
    _entropy,
    _links,
    certainty_scores,
    droppable_shares,
    dropped_dimensions,
    rank_correlation,
    scores_by_spread,
    scores_without_most_uncertain,
    spread_correlations,
    uncertainty,
)
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import PlattScaling
from glace.graph.split import HeldOut
from glace.ids import NodeIds
from glace.records import Record


def generator():
    return np.random.default_rng(0)


def gaussians(mean, variance, measure="wasserstein2", **options):
    mean, variance = np.asarray(mean, dtype=np.float32), np.broadcast_to(variance, np.shape(mean))
    return glace.Embedding(NodeIds.numbered(len(mean)), mean, variance.astype(np.float32), measure, **options)


def marked(pairs=400, *, honest):
    """Node 2i and 2i+1 are pair i; edges are near, but for some pairs which, if `honest`, are the wide ones.

    Both nodes of a pair have one variance, so Wasserstein's distance sees the means alone.
    """
    rng = np.random.default_rng(1)
    numbers = np.arange(2 * pairs).reshape(pairs, 2)
    width = np.exp(rng.normal(size=pairs))
    wrong = width > np.quantile(width, 0.6) if honest else rng.random(pairs) < 0.4
    is_edge = np.arange(pairs) < pairs // 2
    gap = np.where(wrong, rng.random(pairs), np.where(is_edge, 0.1, 0.9) + 0.05 * rng.random(pairs))
    mean = np.zeros((2 * pairs, 2))
    mean[1::2, 0] = gap
    variance = np.repeat(width, 2)[:, None]
    return gaussians(mean, variance), HeldOut(numbers[is_edge], numbers[~is_edge])


def test_a_variance_that_marks_errors_is_found_out():
    embedding, held_out = marked(honest=True)
    variance_term = scores_by_spread(embedding, held_out, generator())
    assert variance_term["tenth"] == list(range(1, 11))
    assert variance_term["auc"][:6] == [1] * 6
    assert variance_term["ap"][:6] == pytest.approx([1] * 6)
    assert max(variance_term["auc"][6:]) < 0.85
    assert sorted(variance_term["spread"]) == variance_term["spread"]
    left = scores_without_most_uncertain(embedding, held_out, generator())
    assert left["left_out"] == [number / 10 for number in range(10)]
    assert left["auc"][0] < 0.93
    assert left["auc"][4:] == [1] * 6
    assert left["ap"][4:] == pytest.approx([1] * 6)
    assert sorted(left["auc"]) == left["auc"]


def test_a_variance_that_says_nothing_is_found_out_too():
    embedding, held_out = marked(2000, honest=False)
    variance_term = scores_by_spread(embedding, held_out, generator())
    assert np.ptp(variance_term["auc"]) < 0.12
    left = scores_without_most_uncertain(embedding, held_out, generator())
    assert np.ptp(left["auc"][:6]) < 0.02


def test_equal_variances_tell_no_edge_from_a_non_edge():
    embedding, held_out = marked(1000, honest=False)
    flat = gaussians(embedding.mean, 1.0)
    variance_term = scores_by_spread(flat, held_out, generator())
    assert len(variance_term["tenth"]) == 10
    np.testing.assert_allclose(variance_term["edge_share"], 0.5, atol=0.15)


def test_tenths_of_one_kind_are_left_out():
    embedding, held_out = marked(honest=True)
    wide_non_edges = np.where(np.isin(np.arange(800), held_out.non_edges), 9.0, 1.0)[:, None]
    separated = gaussians(embedding.mean, wide_non_edges)
    assert scores_by_spread(separated, held_out, generator())["tenth"] == []
    assert scores_without_most_uncertain(separated, held_out, generator())["left_out"] == [0, 0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("measure", ["kl", "symmetric_kl", "wasserstein2"])
@pytest.mark.parametrize("contexts", [False, True])
def test_scores_are_those_of_link_prediction(measure, contexts):
    rng = np.random.default_rng(0)
    mean, other = rng.normal(size=(2, 30, 6)).astype(np.float32)
    context = Gaussian(other, np.exp(mean)) if contexts else None
    embedding = gaussians(mean, np.exp(other), measure, context=context)
    pairs = rng.permutation(np.column_stack(np.triu_indices(30, 1)))
    held_out = HeldOut(pairs[:50], pairs[50:120])
    curves = dropped_dimensions(embedding, held_out, generator())
    left = scores_without_most_uncertain(embedding, held_out, generator())
    assert (left["auc"][0], left["ap"][0]) == link_prediction(embedding, held_out)
    kept = np.sort(np.argsort(np.exp(other).mean(axis=0))[:4])
    fewer = None if context is None else Gaussian(other[:, kept], np.exp(mean[:, kept]))
    smaller = gaussians(mean[:, kept], np.exp(other[:, kept]), measure, context=fewer)
    for name in ("widest_first", "narrowest_first", "at_random"):
        assert curves[name][0] == pytest.approx(left["auc"][0])
    assert curves["widest_first"][2] == pytest.approx(link_prediction(smaller, held_out).auc)


def dimensions(*, honest):
    """Two of ten dimensions hold the communities; they are the narrow ones if `honest`, else the wide ones."""
    rng = np.random.default_rng(2)
    community = rng.integers(2, size=(300, 2))
    mean = np.hstack([3.0 * community, np.zeros((300, 8))]) + 0.3 * rng.normal(size=(300, 10))
    width = np.where(np.arange(10) < 2, 0.5, 2.0 + np.arange(10) / 10)
    pairs = rng.integers(300, size=(2000, 2))
    together = (community[pairs[:, 0]] == community[pairs[:, 1]]).all(axis=1)
    held_out = HeldOut(pairs[together], pairs[~together])
    return gaussians(mean, width if honest else 1 / width, "symmetric_kl"), held_out


def test_wide_dimensions_that_hold_nothing_can_go():
    embedding, held_out = dimensions(honest=True)
    curves = dropped_dimensions(embedding, held_out, generator())
    assert curves["dropped"] == [number / 10 for number in range(10)]
    shares = droppable_shares(curves)
    assert shares["widest_first"] == 0.8
    assert shares["narrowest_first"] == 0
    assert curves["widest_first"][8] > 0.99
    assert curves["widest_first"][9] < 0.95
    assert curves["narrowest_first"][2] < 0.6
    assert curves["narrowest_first"][5] < curves["at_random"][5] < curves["widest_first"][5]


def test_wide_dimensions_that_hold_everything_cannot():
    embedding, held_out = dimensions(honest=False)
    shares = droppable_shares(dropped_dimensions(embedding, held_out, generator()))
    assert shares["widest_first"] == 0
    assert shares["narrowest_first"] == 0.8


def test_a_share_is_droppable_up_to_the_first_loss():
    curves = {"dropped": [0.0, 0.25, 0.5, 0.75], "a": [0.9, 0.896, 0.8, 0.9], "b": [0.9, 0.91, 0.9, 0.9]}
    assert droppable_shares(curves) == {"a": 0.25, "b": 0.75}


def test_many_dimensions_go_in_twenty_steps():
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(30, 64))
    embedding = gaussians(mean, np.exp(mean), "symmetric_kl")
    pairs = rng.integers(30, size=(60, 2))
    curves = dropped_dimensions(embedding, HeldOut(pairs[:30], pairs[30:]), generator())
    assert {name: len(column) for name, column in curves.items()} == dict.fromkeys(curves, 20)
    assert curves["dropped"][:3] == [0, 3 / 64, 6 / 64]
    assert curves["dropped"][-1] == 60 / 64


def star():
    """Node 0 joined to four nodes of three classes; 1 to 5, too; node 6 alone. Node 4 has no label."""
    edges = np.array([[0, 1], [0, 2], [3, 0], [4, 0], [1, 5]])
    labels = ["a", "b", "b", "c", None, "a", "c"]
    return glace.from_arrays(edges, np.tri(7), labels=labels, directed=True)


def test_diversity_of_neighbours_by_hand():
    graph = star()
    assert graph.labels is not None
    counts = _class_counts(_links(graph), graph.labels)
    assert counts[""].tolist() == [[0, 2, 1], [2, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert counts["_in_2_hops"][0].tolist() == [1, 2, 1], "1 leads to 5; ways back to 0 do not count"
    assert counts["_in_2_hops"][5].tolist() == [1, 1, 0]


@given(st.integers(0, 200))
def test_classes_in_two_hops_against_breadth_first_search(seed):
    rng = np.random.default_rng(seed)
    edges = rng.integers(12, size=(14, 2))
    graph = glace.from_arrays(
        edges[edges[:, 0] != edges[:, 1]], np.eye(12), labels=rng.integers(4, size=12), directed=True
    )
    links, labels = _links(graph).toarray() > 0, graph.labels
    assert labels is not None
    found = _class_counts(_links(graph), labels)["_in_2_hops"]
    for node in range(12):
        near = set(np.flatnonzero(links[node]))
        reached = near.union(*(set(np.flatnonzero(links[other])) for other in near)) - {node}
        assert set(np.flatnonzero(found[node])) == {labels.codes[other] for other in reached}


def test_entropy_is_scipys():
    counts = np.random.default_rng(0).integers(5, size=(20, 4)).astype(float)
    counts[:, 0] += 1
    np.testing.assert_allclose(_entropy(counts), entropy(counts, axis=1))


@pytest.mark.parametrize("sparse", [False, True])
def test_correlations_with_what_the_spread_was_made_of(sparse):
    drawn = glace.datasets.planted(200, communities=5, degree=6, attributes=60, words=8, random_state=1)
    assert drawn.labels is not None
    table = sp.csr_array(drawn.attributes).toarray()
    graph = glace.from_arrays(drawn.edges(), sp.csr_array(table) if sparse else table, labels=list(drawn.labels))
    links = _links(graph)
    degree, words = links.sum(axis=1), (table > 0).sum(axis=1)
    mean = np.zeros((200, 2))
    by_degree = spread_correlations(gaussians(mean, np.exp(-degree / 10)[:, None]), graph)
    assert by_degree["degree"] == pytest.approx(-1)
    assert by_degree["attributes"] == pytest.approx(spearmanr(-degree, words).statistic)
    assert set(by_degree) == {
        "degree", "attributes", "classes", "class_entropy", "classes_in_2_hops", "class_entropy_in_2_hops",
    }  # fmt: skip
    assert spread_correlations(gaussians(mean, (words / 10)[:, None]), graph)["attributes"] == pytest.approx(1)
    classes = (_class_counts(links, drawn.labels)[""] > 0).sum(axis=1)
    by_classes = spread_correlations(gaussians(mean, (1.0 + classes)[:, None]), graph)
    assert by_classes["classes"] == pytest.approx(1)
    assert by_classes["degree"] == pytest.approx(spearmanr(classes, degree).statistic)


def test_without_labels_or_attributes_there_is_less_to_correlate():
    bare = glace.from_arrays(np.array([[0, 1], [1, 2]]))
    found = spread_correlations(gaussians(np.zeros((3, 2)), [[1], [2], [1]]), bare)
    assert found == {"degree": pytest.approx(1)}
    assert math.isnan(spread_correlations(gaussians(np.zeros((3, 2)), 1.0), bare)["degree"])


def test_what_does_not_vary_has_no_rank_correlation():
    assert math.isnan(rank_correlation(np.ones(5), np.arange(5)))
    assert math.isnan(rank_correlation(np.arange(5), np.ones(5)))
    assert math.isnan(rank_correlation(np.arange(1), np.arange(1)))


def test_all_of_it_goes_into_a_record():
    graph = glace.datasets.planted(80, communities=4, degree=8, attributes=40, words=6, random_state=1)
    rest, held_out = glace.hold_out(graph, 0.2, generator())
    rng = np.random.default_rng(3)
    embedding = gaussians(rng.normal(size=(80, 6)), np.exp(rng.normal(size=(80, 6))), "symmetric_kl")
    first, again = (uncertainty(embedding, rest, held_out, np.random.default_rng(4)) for _ in range(2))
    assert first == again
    read = json.loads(Record("evaluation", first).to_json())
    assert read.pop("kind") == "evaluation"
    assert read.pop("provenance") == {}
    assert read == first, "plain values, unchanged"
    assert list(first) == [
        "by_spread", "without_most_uncertain", "spread_correlation", "auc_without_dimensions", "droppable_share",
    ]  # fmt: skip


def test_certainty_that_marks_errors_is_found_out():
    embedding, held_out = marked(honest=True)
    assert embedding.variance is not None
    ranks = np.argsort(np.argsort(-embedding.variance[:, 0])) / len(embedding)
    certain = replace(embedding, certainty=ranks.astype(np.float32), platt_scaling=PlattScaling(0.25, 4.0))
    found: dict[str, Any] = certainty_scores(certain, held_out, generator())
    halves: Any = found["error_of_halves"]
    assert halves["certain_nodes"] == 0 < 0.1 < halves["uncertain_nodes"]
    assert set(halves) == {f"{kind}_{what}" for kind in ("certain", "uncertain") for what in ("nodes", "answers")}
    curve = found["without_least_certain"]["auc"]
    assert curve == scores_without_most_uncertain(embedding, held_out, generator())["auc"]
    nothing = replace(certain, certainty=generator().random(len(embedding)).astype(np.float32))
    halves = certainty_scores(nothing, held_out, generator())["error_of_halves"]
    assert 0.5 < halves["certain_nodes"] / halves["uncertain_nodes"] < 2
    graph = glace.from_arrays(held_out.pairs())
    assert set(found) < set(uncertainty(certain, graph, held_out, generator()))


def test_points_and_other_graphs_are_refused():
    mean = np.zeros((3, 2), dtype=np.float32)
    points = glace.Embedding(NodeIds.numbered(3), mean, None, "dot")
    held_out = HeldOut(np.array([[0, 1]]), np.array([[0, 2]]))
    with pytest.raises(InputError, match="points have no variance; train Gaussians"):
        scores_by_spread(points, held_out, generator())
    with pytest.raises(InputError, match="points have no variance to rank their dimensions by"):
        dropped_dimensions(points, held_out, generator())
    with pytest.raises(InputError, match="3 Gaussians for a graph of 2 nodes; give one for each"):
        spread_correlations(gaussians(mean, 1.0), glace.from_arrays(np.array([[0, 1]])))
