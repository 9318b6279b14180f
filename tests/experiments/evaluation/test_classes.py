"""Classifying nodes: planted answers, the splits, and what must not matter."""

import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

import glace
from glace import Streams
from glace.categories import Categories
from glace.errors import InputError
from glace.experiments.evaluation import classes as module
from glace.experiments.evaluation.classes import (
    LENGTH,
    STRENGTHS,
    choose_strength,
    features_of,
    node_classification,
    scaled,
    separation,
    stratified_order,
    visualization,
)
from glace.ids import NodeIds
from glace.queries.layout import layout

FEW = ((0.2, 0.5), 2)


def labels_of(codes):
    codes = np.asarray(codes, dtype=np.int32)
    return Categories(codes, tuple(f"class {code}" for code in range(codes.max() + 1)))


def blobs(nodes=90, classes=3, noise=0.1, seed=0):
    """Features around one corner for each class, and the classes."""
    codes = np.arange(nodes) % classes
    return 5 + np.eye(classes)[codes] + noise * np.random.default_rng(seed).normal(size=(nodes, classes)), codes


def test_classes_that_lie_apart_are_all_found():
    features, codes = blobs()
    scores = node_classification(features, labels_of(codes), Streams(0), trials=1)
    assert scores.micro_f1.shape == scores.macro_f1.shape == (9, 1)
    assert (scores.micro_f1 == 1).all()
    assert (scores.macro_f1 == 1).all()


def test_labels_that_have_nothing_to_do_with_features_are_guessed():
    features, _ = blobs(600)
    codes = np.random.default_rng(1).integers(3, size=600)
    assert abs(node_classification(features, labels_of(codes), Streams(0), *FEW).micro_f1.mean() - 1 / 3) < 0.05


def test_more_labels_help_and_noise_does_not():
    features, codes = blobs(400, noise=0.6)
    few, many = node_classification(features, labels_of(codes), Streams(0), (0.02, 0.8), 4).micro_f1.mean(axis=1)
    assert 0.5 < few < many < 0.99


def test_the_variance_is_a_feature_too():
    means, codes = blobs(noise=3.0)
    variance = np.exp(blobs()[0]).astype(np.float32)
    ids, mean = NodeIds.numbered(90), means.astype(np.float32)
    gaussians = glace.Embedding(ids, mean, variance, "symmetric_kl")
    points = glace.Embedding(ids, mean, None, "dot")
    scores = [node_classification(each, labels_of(codes), Streams(0), *FEW).micro_f1 for each in (gaussians, points)]
    assert scores[0].mean() > scores[1].mean() + 0.2
    np.testing.assert_array_equal(features_of(points), mean)
    halves = np.hsplit(features_of(gaussians), 2)
    assert [(half**2).sum(axis=1).mean() for half in halves] == pytest.approx([LENGTH**2] * 2, rel=1e-5)


def test_nodes_without_a_label_have_no_part():
    features, codes = blobs()
    extra = np.full((30, 3), 1e6)
    known = node_classification(features, labels_of(codes), Streams(0), *FEW)
    joined = node_classification(
        np.vstack([extra, features]), labels_of(np.r_[np.full(30, -1), codes]), Streams(0), *FEW
    )
    np.testing.assert_array_equal(known.micro_f1, joined.micro_f1)


def test_sparse_attributes_are_judged_by_their_words():
    rng = np.random.default_rng(0)
    codes = np.arange(120) % 3
    words = (rng.random((120, 30)) < 0.05 + 0.5 * (np.arange(30) % 3 == codes[:, None])) * rng.integers(1, 9, (120, 1))
    words[0] = 0
    scores = node_classification(sp.csr_array(words), labels_of(codes), Streams(0), *FEW)
    assert scores.micro_f1.mean() > 0.9
    rows: Any = scaled(sp.csr_array(words))
    lengths = np.linalg.norm(rows.toarray(), axis=1)
    np.testing.assert_allclose(lengths, np.where(words.any(axis=1), LENGTH, 0), rtol=1e-6)


@given(st.floats(1e-3, 1e3), st.floats(-10, 10))
def test_scale_and_place_of_dense_features_do_not_matter(factor, shift):
    features, _ = blobs(30)
    np.testing.assert_allclose(scaled(features * factor + shift), scaled(features), atol=1e-4)
    assert not scaled(np.full((4, 2), shift)).any()


def test_the_seed_alone_decides_the_splits():
    features, codes = blobs(noise=0.8)
    runs = [node_classification(features, labels_of(codes), Streams(seed), *FEW) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(runs[0].macro_f1, runs[1].macro_f1)
    assert (runs[0].macro_f1 != runs[2].macro_f1).any()


def test_a_trial_does_not_depend_on_how_many_there_are():
    features, codes = blobs(noise=0.8)
    few, more = (node_classification(features, labels_of(codes), Streams(3), (0.3,), count) for count in (1, 3))
    assert few.micro_f1[0, 0] == more.micro_f1[0, 0]


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(0, 99), st.floats(0.05, 0.95))
def test_every_beginning_of_the_order_has_the_classes_in_proportion(sizes, seed, share):
    codes = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    order = stratified_order(codes, np.random.default_rng(seed))
    assert sorted(order) == list(range(len(codes)))
    assert set(codes[order[: len(sizes)]]) == set(range(len(sizes)))
    count = max(round(share * len(codes)), len(sizes))
    found = np.bincount(codes[order[:count]], minlength=len(sizes))
    assert (abs(found - share * np.array(sizes)) < len(sizes) + 1).all()


def test_the_strength_is_chosen_by_what_the_data_need():
    rng = np.random.default_rng(0)
    noise = scaled(rng.normal(size=(60, 40)) + (np.arange(60) % 2)[:, None] * 0.4)
    codes = (np.arange(60) // 2 % 2).astype(np.int32)
    assert choose_strength(noise, codes) in STRENGTHS
    clear = scaled(blobs(60, noise=0.01)[0])
    assert choose_strength(clear, blobs(60)[1]) == STRENGTHS[0], "of equals the smallest"
    assert choose_strength(clear[:2], np.array([0, 1], dtype=np.int32)) == STRENGTHS[0], "no fold has two classes"


def test_values_for_the_record():
    features, codes = blobs(noise=0.8)
    scores = node_classification(features, labels_of(codes), Streams(0), (0.5, 0.1), 3)
    values: dict[str, Any] = scores.values()
    assert scores.shares == (0.1, 0.5)
    assert sorted(values) == ["macro_f1", "macro_f1_trials", "micro_f1", "micro_f1_trials"]
    assert values["micro_f1_trials"]["0.5"] == scores.micro_f1[1].tolist()
    assert values["macro_f1"]["0.1"] == pytest.approx(scores.macro_f1[0].mean())


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (None, {}, "the task needs labels, but the graph has none; choose link-prediction or induction"),
        (labels_of([0, 1]), {}, "2 labels for 90 nodes; give one for each"),
        (labels_of([0] * 90), {}, "the labels name 1 classes; at least 2 are needed"),
        (labels_of([-1] * 89 + [0]), {}, "the labels name 1 classes"),
        (
            labels_of(np.arange(90) % 30),
            {},
            "a share of 0.1 of 90 labels is 9 training labels; choose .* between 30 .one",
        ),
        (labels_of(np.arange(90) % 3), {"shares": (0.999,)}, "is 90 training labels; choose .* between 3 .* and 89"),
        (labels_of(np.arange(90) % 3), {"shares": (1.5,)}, "a share of 1.5 of 90 labels is 0 training labels"),
        (labels_of(np.arange(90) % 3), {"trials": 0}, "trials must be at least 1, not 0"),
    ],
)
def test_what_cannot_be_judged(labels, options, message):
    with pytest.raises(InputError, match=message):
        node_classification(blobs()[0], labels, Streams(0), **options)


# Pictures: classes that lie apart stay apart, and the silhouette is the textbook's.


def clouds(nodes=48, apart=20.0):
    codes = (np.arange(nodes) % 3).astype(np.int32)
    mean = apart * np.eye(3)[codes] + np.random.default_rng(0).normal(size=(nodes, 3))
    embedding = glace.Embedding(NodeIds.numbered(nodes), mean.astype(np.float32), None, "dot")
    return embedding, Categories(codes, ("a", "b", "c"))


def by_definition(positions, classes):
    """The silhouette from its definition, node by node."""
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    scores = []
    for node, own in enumerate(classes):
        mates = (classes == own) & (np.arange(len(classes)) != node)
        if not mates.any():
            scores.append(0.0)
            continue
        a = distances[node, mates].mean()
        b = min(distances[node, classes == other].mean() for other in set(classes) - {own})
        scores.append((b - a) / max(a, b))
    return np.mean(scores)


def test_silhouette_is_the_textbooks():
    rng = np.random.default_rng(0)
    positions, classes = rng.normal(size=(40, 2)), np.r_[rng.integers(3, size=39), 3]
    assert separation(positions, classes) == pytest.approx(by_definition(positions, classes))
    assert separation(positions, classes) == pytest.approx(silhouette_score(positions, classes))


def test_of_many_nodes_some_are_drawn_and_always_the_same(monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", 50)
    rng = np.random.default_rng(0)
    positions, classes = rng.normal(size=(400, 2)), rng.integers(2, size=400)
    found = separation(positions, classes)
    assert found == separation(positions, classes)
    assert found != separation(positions, classes, seed=1)
    assert abs(found - silhouette_score(positions, classes)) < 0.05


@pytest.mark.parametrize(("classes", "said"), [([0, 0, 0], "3 nodes of 1"), ([0, 1, 2], "3 nodes of 3")])
def test_a_silhouette_needs_classes_of_several_nodes(classes, said):
    with pytest.raises(InputError, match=f"at least 2 classes and more nodes than classes, not {said} classes"):
        separation(np.zeros((3, 2)), np.array(classes))


def test_a_picture_keeps_apart_what_lies_apart():
    embedding, labels = clouds()
    picture = visualization(embedding, labels)
    mixed = visualization(embedding, Categories((np.arange(48) // 16).astype(np.int32), labels.names))
    assert picture.silhouette > 0.7
    assert picture.silhouette > mixed.silhouette + 0.5
    assert picture.silhouette == pytest.approx(by_definition(picture.positions, picture.classes))
    again = visualization(embedding, labels)
    np.testing.assert_array_equal(picture.positions, again.positions)


def test_a_picture_shows_labelled_nodes_only_and_not_too_many(monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", 30)
    embedding, labels = clouds()
    some = Categories(np.where(np.arange(48) < 8, -1, labels.codes).astype(np.int32), labels.names)
    picture = visualization(embedding, some)
    assert len(picture.nodes) == 30
    assert picture.nodes.min() >= 8
    np.testing.assert_array_equal(picture.classes, labels.codes[picture.nodes])
    values: dict[str, Any] = picture.values()
    assert values["class_names"] == ["a", "b", "c"]
    assert values["classes"] == picture.classes.tolist()
    np.testing.assert_allclose(values["points"], picture.positions, atol=1e-3 * abs(picture.positions).max())
    assert values["silhouette"] == picture.silhouette


def test_a_picture_needs_labels():
    with pytest.raises(InputError, match="the task needs labels, but the graph has none"):
        visualization(clouds()[0], None)


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(InputError, match=r"a map needs openTSNE: pip install 'glace-graph\[plots\]'"):
        layout(clouds()[0])
