"""Pictures: classes that lie apart stay apart, and the silhouette is the textbook's."""

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

import glace
from glace.categories import Categories
from glace.errors import InputError
from glace.experiments.evaluation import classes as module
from glace.experiments.evaluation.classes import separation, visualization
from glace.ids import NodeIds
from glace.queries.layout import layout


def blobs(nodes=48, apart=20.0):
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
    embedding, labels = blobs()
    picture = visualization(embedding, labels)
    mixed = visualization(embedding, Categories((np.arange(48) // 16).astype(np.int32), labels.names))
    assert picture.silhouette > 0.7
    assert picture.silhouette > mixed.silhouette + 0.5
    assert picture.silhouette == pytest.approx(by_definition(picture.positions, picture.classes))
    again = visualization(embedding, labels)
    np.testing.assert_array_equal(picture.positions, again.positions)


def test_a_picture_shows_labelled_nodes_only_and_not_too_many(monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", 30)
    embedding, labels = blobs()
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
    with pytest.raises(InputError, match="the graph has no labels"):
        visualization(blobs()[0], None)


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(InputError, match=r"a map needs openTSNE: pip install 'glace-graph\[plots\]'"):
        layout(blobs()[0])
