"""Scores of link prediction, on points and Gaussians whose answers are known."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, roc_auc_score

import glace
from glace.errors import InputError
from glace.experiments.evaluation.link_prediction import (
    attribute_prediction,
    cosine_prediction,
    direction_values,
    link_prediction,
    link_values,
    pair_values,
)
from glace.experiments.sparse_points import SparsePoints
from glace.experiments.splits import Split, split_edges
from glace.gaussian.dissimilarity import Gaussian
from glace.graph.split import HeldOut
from glace.ids import NodeIds

# Nodes 0 and 1 point one way, 2 and 3 another; node 3 is so long that its dot product with anything is large.
POINTS = np.array([[1, 0], [2, 0.1], [0, 1], [30, 40]], dtype=np.float32)
EDGES, NON_EDGES = np.array([[0, 1], [2, 3]]), np.array([[0, 2], [1, 3]])


def points(mean=POINTS, **options):
    return glace.Embedding(NodeIds.numbered(len(mean)), mean, None, "dot", **options)


def drawn(count=40, pairs=60):
    rng = np.random.default_rng(0)
    drawn_pairs = rng.permutation(np.column_stack(np.triu_indices(count, 1)))  # none twice, so no ties
    held_out = HeldOut(drawn_pairs[:pairs], drawn_pairs[pairs : 2 * pairs])
    return rng.normal(size=(count, 5)).astype(np.float32), held_out


def test_points_are_judged_by_dot_product_and_by_cosine():
    held_out = HeldOut(EDGES, NON_EDGES)
    assert link_prediction(points(), held_out).auc == 0.5, "1-3 has a larger product than all edges"
    assert cosine_prediction(points(), held_out).auc == 1


@pytest.mark.parametrize("contexts", [False, True])
def test_cosine_against_the_formula(contexts):
    mean, held_out = drawn()
    mean = mean.astype(np.float64)
    context = np.random.default_rng(1).normal(size=mean.shape) if contexts else None
    first, second = (mean[side] for side in held_out.pairs().T)
    if context is not None:
        other = [context[side] for side in held_out.pairs().T]
        first, second = np.hstack([first, other[0]]), np.hstack([other[1], second])
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosine, truth = (first * second).sum(axis=1) / lengths, held_out.truth()
    embedding = points(mean, context=None if context is None else Gaussian(context, None))
    found = cosine_prediction(embedding, held_out)
    assert found.auc == pytest.approx(roc_auc_score(truth, cosine), abs=1e-9)
    assert found.ap == pytest.approx(average_precision_score(truth, cosine), abs=1e-9)


def test_a_point_at_0_is_like_no_other():
    mean = np.array([[0, 0], [1, 0], [1, 1], [-1, 0]], dtype=np.float32)
    held_out = HeldOut(np.array([[1, 2]]), np.array([[0, 1], [1, 3]]))
    assert cosine_prediction(points(mean), held_out).auc == 1


def test_gaussians_have_no_cosine():
    embedding = glace.Embedding(NodeIds.numbered(4), POINTS, np.ones_like(POINTS), "symmetric_kl")
    with pytest.raises(InputError, match="the cosine is a measure of points; Gaussians are judged by"):
        cosine_prediction(embedding, HeldOut(EDGES, NON_EDGES))


@pytest.mark.parametrize("dense", [False, True])
def test_raw_attributes_predict_what_they_share(dense):
    words = np.array([[1, 1, 0, 0], [9, 9, 0, 0], [0, 0, 1, 0], [0, 0, 3, 0.1]])
    graph = glace.from_arrays(EDGES, words if dense else sp.csr_array(words))
    assert attribute_prediction(graph, HeldOut(EDGES, NON_EDGES)).auc == 1


def test_without_context_nodes_are_compared_with_nodes():
    mean, held_out = drawn()
    context = Gaussian(np.random.default_rng(1).normal(size=mean.shape).astype(np.float32), None)
    found = pair_values(points(mean, context=context), held_out)
    first, second = (mean.astype(np.float64)[side] for side in held_out.pairs().T)
    own, truth = (first * second).sum(axis=1), held_out.truth()
    other = [context.mean.astype(np.float64)[side] for side in held_out.pairs().T]
    trained = (first * other[1]).sum(axis=1) + (other[0] * second).sum(axis=1)
    assert found["auc_without_context"] == pytest.approx(roc_auc_score(truth, own))
    assert found["ap_without_context"] == pytest.approx(average_precision_score(truth, own))
    assert found["auc"] == pytest.approx(roc_auc_score(truth, trained))
    alone = pair_values(points(mean), held_out)
    assert alone["auc"] == alone["auc_without_context"] == found["auc_without_context"]


def test_sparse_points_are_judged_like_dense_ones():
    mean, held_out = drawn()
    mean[np.abs(mean) < 1] = 0
    mean[3] = 0
    sparse = SparsePoints(NodeIds.numbered(len(mean)), sp.csr_array(mean))
    np.testing.assert_allclose(
        sparse.dissimilarities_at(held_out.pairs()), points(mean).dissimilarities_at(held_out.pairs()), atol=1e-12
    )
    train = glace.from_arrays(held_out.edges[:3, ::-1], np.eye(40), directed=True)
    split = Split(train, HeldOut(EDGES, NON_EDGES), held_out)
    assert link_values(sparse, split) == pytest.approx(link_values(points(mean), split))


def test_values_for_the_record():
    mean, held_out = drawn()
    train = glace.from_arrays(held_out.edges[:3, ::-1], np.eye(40), directed=True)
    split = Split(train, HeldOut(EDGES, NON_EDGES), held_out)
    found = link_values(points(mean), split)
    reverse = np.arange(60) < 3
    oracle = {
        "": link_prediction(points(mean), held_out),
        "_without_context": link_prediction(points(mean), held_out),
        "_cosine": cosine_prediction(points(mean), held_out),
        "_without_reversed": link_prediction(
            points(mean), HeldOut(held_out.edges[3:], held_out.non_edges[np.arange(57) * 60 // 57])
        ),
    }
    assert found.pop("reversed_edges") == reverse.sum()
    assert (found.pop("auc_direction"), found.pop("one_way_edges")) == (0.5, 57), "a dot product has no direction"
    assert found.pop("validation_auc") == link_prediction(points(mean), split.validation).auc
    assert found == {
        f"{name}{suffix}": getattr(each, name) for suffix, each in oracle.items() for name in ("auc", "ap")
    }


def test_direction_is_that_of_the_edges_without_a_reverse():
    """KL(narrow || wide), of an edge from wide to narrow, is below KL(wide || narrow)."""
    variance = np.array([[1.0], [9.0], [9.0], [1.0]], np.float32)
    embedding = glace.Embedding(NodeIds.numbered(4), np.zeros((4, 1), np.float32), variance, "kl")
    train = glace.from_arrays([[0, 3]], np.eye(4), directed=True)
    to_narrow, both = np.array([[1, 0], [2, 3]]), np.array([[0, 2], [2, 0]])

    def values(*edges):
        held_out = HeldOut(np.concatenate(edges), np.concatenate(edges))
        return direction_values(embedding, Split(train, held_out, held_out))

    assert values(to_narrow, both) == {"auc_direction": 1.0, "one_way_edges": 2}
    assert values(to_narrow[:, ::-1]) == {"auc_direction": 0.0, "one_way_edges": 2}
    assert values(both) == {}


def test_values_of_gaussians_on_a_split_of_our_own():
    graph = glace.datasets.planted(60, communities=3, degree=10, attributes=20, words=5)
    split = split_edges(graph, np.random.default_rng(0))
    mean = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    embedding = glace.Embedding(graph.ids, mean, np.exp(mean), "symmetric_kl")
    both = {"auc", "ap", "auc_without_context", "ap_without_context"}
    assert set(link_values(embedding, split)) == both | {"validation_auc"}
