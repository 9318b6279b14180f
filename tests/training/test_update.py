"""Going on with a graph that has changed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import glace
from glace.errors import InputError
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.graph.split import HeldOut, sample_non_edges
from glace.ids import NodeIds
from glace.io.folder import read_folder, write_folder
from glace.metrics import brier_score
from glace.training.update import aligned

SMALL: dict[str, Any] = {
    "dim": 8, "hidden": 32, "ensemble_size": 2, "neighbor_features": "mean", "dropout": 0.0,
    "offset": "learned", "n_jobs": 1,
}  # fmt: skip


def fit(graph, estimator=glace.GLACE, **options):
    return estimator(**SMALL | options).fit(graph).model_


@pytest.fixture(scope="module")
def graph():
    return glace.datasets.planted(500, communities=5, attributes=150, words=12, degree=8)


@pytest.fixture(scope="module")
def old(graph):
    """Nine tenths of the nodes."""
    return graph.take(np.flatnonzero(np.arange(500) % 10 > 0))


@pytest.fixture(scope="module")
def fitted(old):
    return fit(old, max_steps=200)


def test_new_nodes_find_their_place_and_old_ones_stay(fitted, graph):
    before, mean = fitted.embedding, fitted.embedding.mean.copy()
    weights = {name: array.copy() for name, array in fitted.network.weights().items()}
    model = glace.update(fitted, graph)
    found = glace.compare(fitted, model)
    assert (found.new_nodes, found.removed_nodes, found.new_attributes) == (50, 0, 0)
    assert model.history.step == 20
    assert list(model.embedding.ids) == list(graph.ids)
    np.testing.assert_array_equal(fitted.embedding.mean, mean, err_msg="the old model is a value")
    for name, array in fitted.network.weights().items():
        np.testing.assert_array_equal(array, weights[name], err_msg=name)
    edges = graph.edges()
    new = edges[(np.isin(edges, np.arange(0, 500, 10))).any(axis=1)]
    held_out = HeldOut(new, sample_non_edges(graph, len(new), np.random.default_rng(0)))
    assert link_prediction(model.embedding, held_out).auc > 0.8
    assert found.kept_neighbors > 0.5
    old_now = model.embedding.take(graph.ids.positions(list(before.ids)))
    gap = np.square(old_now.mean - before.mean).sum(axis=1)
    apart = np.square(before.mean - before.mean.mean(axis=0)).sum(axis=1)
    assert np.median(gap) < 0.2 * np.median(apart)


def test_what_was_held_out_is_held_out_again(graph):
    """Other edges were trained on: by these, probabilities would look better than they are."""
    rest, unseen = glace.hold_out(graph, 0.2, np.random.default_rng(0))
    old = rest.take(np.flatnonzero(np.arange(500) % 10 > 0))
    first = fit(old, max_steps=200, validation_fraction=0.2)
    assert first.validation is not None
    before = {(old.ids[a], old.ids[b]) for a, b in first.validation.edges.tolist()}
    model = glace.update(first, rest)
    assert model.validation is not None
    assert {(rest.ids[a], rest.ids[b]) for a, b in model.validation.edges.tolist()} == before
    assert model.calibration is not None
    truth, far = unseen.truth(), model.embedding.dissimilarities_at(unseen.pairs())
    true = brier_score(model.embedding.probabilities(far), truth)
    assert model.calibration.brier > true - 0.05
    assert model.history.step == 20
    assert not model.history.validation_points, "to the last step"


def test_a_larger_penalty_moves_old_nodes_less(fitted, graph):
    moved = []
    for penalty in (0.0, 1.0, 100.0):
        model = glace.update(fitted, graph, drift_penalty=penalty, max_steps=40)
        moved.append(glace.compare(fitted, model).drift_median)
    assert moved[0] > moved[1] > moved[2]


def test_the_same_update_gives_the_same_bits(fitted, graph):
    first, again = glace.update(fitted, graph), glace.update(fitted, graph)
    np.testing.assert_array_equal(first.embedding.mean, again.embedding.mean)


def test_an_updated_model_is_a_model(fitted, graph, tmp_path):
    model = glace.update(fitted, graph, max_steps=3)
    model.save(tmp_path / "m.glace")
    again = glace.load(tmp_path / "m.glace")
    np.testing.assert_array_equal(again.embedding.mean, model.embedding.mean)
    assert again.graph is not None
    assert again.graph.num_edges == graph.num_edges
    np.testing.assert_array_equal(
        again.transform(graph.attributes[:3]).mean, model.transform(graph.attributes[:3]).mean
    )


def test_nodes_that_are_removed(fitted, old):
    model = glace.update(fitted, old.take(np.arange(400)), max_steps=2)
    found = glace.compare(fitted, model)
    assert (found.new_nodes, found.removed_nodes) == (0, 50)
    assert len(model.embedding) == 400


def test_new_attributes_begin_where_they_tell_nothing_known(fitted, graph):
    wide = sp.csr_array(sp.hstack([graph.attributes, sp.csr_array(np.eye(500, 7, dtype=np.float32))]))
    more = glace.from_arrays(graph.edges(), wide)
    model = glace.update(fitted, more, max_steps=2)
    assert glace.compare(fitted, model).new_attributes == 7
    assert model.transform(wide[:2]).mean.shape == (2, 8)


@pytest.mark.parametrize("neighbors", ["mean", "none"])
@pytest.mark.parametrize("kind", ["sparse", "dense", "hashed", "second"])
def test_no_steps_away_an_updated_model_says_what_it_said(old, kind, neighbors):
    """With wider attributes that old nodes do not have, the weights put back give the same Gaussians."""
    options = SMALL | {"neighbor_features": neighbors, "max_steps": 3}
    special: dict[str, dict[str, Any]] = {"hashed": {"n_hashed_features": 40}, "second": {"proximity": "both"}}
    options |= special.get(kind, {})
    values = old.attributes.toarray() if kind == "dense" else old.attributes
    zeros = np.zeros((450, 3), np.float32)
    wide = np.hstack([values, zeros]) if kind == "dense" else sp.csr_array(sp.hstack([values, zeros]))
    before = fit(glace.from_arrays(old.edges(), values), **options)
    # One step with a tiny learning rate hardly moves the weights it starts from.
    still = replace(before, config=before.config.replace(learning_rate=1e-30))
    model = glace.update(still, glace.from_arrays(old.edges(), wide), max_steps=1)
    np.testing.assert_allclose(model.embedding.mean, before.embedding.mean, rtol=1e-5, atol=1e-6)


def test_words_are_found_by_name_and_weigh_what_they_weighed():
    texts = ["red apple tree", "red pear tree", "blue sea fish", "blue sea whale"] * 5
    edges = pd.DataFrame(
        [(str(a), str(b)) for a in range(20) for b in range(a) if a % 4 // 2 == b % 4 // 2],
        columns=["source", "target"],
    )
    nodes = pd.DataFrame({"id": [str(number) for number in range(20)], "text": texts})
    model = fit(glace.from_tables(edges, texts=nodes), max_steps=20)
    more = pd.concat(
        [nodes, pd.DataFrame({"id": ["x", "y"], "text": ["amber apple sea", "amber whale"]})], ignore_index=True
    )
    links = pd.concat([edges, pd.DataFrame({"source": ["x", "y"], "target": ["0", "2"]})], ignore_index=True)
    changed = aligned(glace.from_tables(links, texts=more), model)
    assert model.pipeline is not None
    assert model.pipeline.vocabulary is not None
    assert changed.graph.pipeline is not None
    assert changed.graph.pipeline.vocabulary is not None
    words = model.pipeline.vocabulary.words
    assert changed.graph.pipeline.vocabulary.words == (*words, "amber")
    rows = changed.graph.ids.positions([str(number) for number in range(20)])
    new = sp.csr_array(changed.graph.attributes)[rows].toarray()[:, : len(words)]
    new /= np.linalg.norm(new, axis=1, keepdims=True)
    np.testing.assert_allclose(new, model.pipeline.vocabulary.attributes(texts).toarray(), atol=1e-6)
    after = glace.update(model, glace.from_tables(links, texts=more), max_steps=2)
    assert glace.compare(model, after).new_attributes == 1
    assert after.novelty(["amber"]).unseen.tolist() == [0]
    assert model.novelty(["amber"]).unseen.tolist() == [1]


def test_texts_go_with_texts_and_names_with_names():
    edges = pd.DataFrame({"source": ["a", "b", "c", "d"], "target": ["b", "c", "d", "a"]})
    texts = pd.DataFrame({"id": list("abcd"), "text": ["red apple", "red pear", "apple pear", "red"]})
    nodes = pd.DataFrame({"id": list("abcd"), "apple": [1.0, 0, 1, 0], "pear": [0.0, 1, 1, 0], "red": [1.0, 1, 0, 1]})
    by_texts, by_names = glace.from_tables(edges, texts=texts), glace.from_tables(edges, nodes)
    options = SMALL | {"max_steps": 2, "validation_fraction": 0.0}
    of_texts, of_names = (fit(each, **options) for each in (by_texts, by_names))
    with pytest.raises(InputError, match="the model was trained on texts, but the graph has attributes"):
        glace.update(of_texts, glace.from_arrays(by_texts.edges(), by_texts.attributes, ids=list("abcd")))
    with pytest.raises(InputError, match="trained on attributes, but the graph has texts"):
        glace.update(of_names, by_texts)
    bare = glace.from_arrays(by_names.edges(), by_names.attributes, ids=list("abcd"))
    assert glace.update(of_names, bare, max_steps=1).feature_names == ("apple", "pear", "red"), (
        "as many columns are taken for the same"
    )
    with pytest.raises(InputError, match="the model's 3 attributes have names, but the graph's 4 have none; name them"):
        glace.update(of_names, glace.from_arrays(by_names.edges(), np.ones((4, 4), np.float32), ids=list("abcd")))


def test_a_graph_folder(old, graph, tmp_path):
    names = tuple(f"w{number}" for number in range(150))
    model = fit(old.with_attributes(old.attributes, names), max_steps=3)
    write_folder(graph.with_attributes(graph.attributes, names), tmp_path / "g.graph")
    after = glace.update(model, read_folder(tmp_path / "g.graph"), max_steps=2)
    assert glace.compare(model, after).new_nodes == 50
    write_folder(graph.with_attributes(graph.attributes, names[::-1]), tmp_path / "h.graph")
    with pytest.raises(InputError, match="of a graph folder must be those of the model, in the same order"):
        glace.update(model, read_folder(tmp_path / "h.graph"))


def test_columns_are_found_by_name():
    edges = pd.DataFrame({"source": ["a", "b", "c", "d"], "target": ["b", "c", "d", "a"]})
    nodes = pd.DataFrame({"id": list("abcd"), "x": [1.0, 2, 3, 4], "y": [4.0, 1, 2, 2]})
    model = fit(glace.from_tables(edges, nodes), max_steps=2, validation_fraction=0.0)
    more = nodes.assign(z=[0.5, 1, 0, 1])[["id", "z", "y", "x"]]
    changed = aligned(glace.from_tables(edges, more), model)
    assert changed.graph.feature_names == ("x", "y", "z")
    assert isinstance(changed.graph.attributes, np.ndarray)
    np.testing.assert_array_equal(changed.graph.attributes[:, 0], [1, 2, 3, 4])


def test_a_graph_without_attributes(old, graph):
    first = glace.LINE(dim=4, max_steps=30).fit(old).model_
    before = first.embedding
    model = glace.update(first, graph, drift_penalty=0.0, max_steps=1)
    assert glace.compare(first, model).new_nodes == 50
    places = graph.ids.positions(list(before.ids))
    assert np.corrcoef(model.embedding.mean[places].ravel(), before.mean.ravel())[0, 1] > 0.99


def test_a_model_that_was_limited_in_time(old, graph):
    assert glace.update(fit(old, max_seconds=0.2), graph).history.step == 300


def test_points_stay_near_too(old, graph):
    model = glace.LACE(dim=4, hidden=16, max_steps=30).fit(old).model_
    after = glace.update(model, graph, drift_penalty=10.0, max_steps=5)
    assert glace.compare(model, after).drift_median < 1


ERRORS = [
    ({"drift_penalty": -1.0}, r"drift_penalty must be a finite number of at least 0, not -1\.0"),
    ({"max_steps": 0}, r"max_steps must be a whole number of at least 1, not 0"),
    ({"max_steps": "3"}, r"max_steps must be a whole number of at least 1, not '3'"),
    ({"drift_penalty": "a"}, r"drift_penalty must be a finite number of at least 0, not 'a'"),
    ({"drift_penalty": float("nan")}, r"drift_penalty must be a finite number of at least 0, not nan"),
]


@pytest.mark.parametrize(("options", "match"), ERRORS)
def test_options_that_make_no_sense(fitted, graph, options, match):
    with pytest.raises(InputError, match=match):
        glace.update(fitted, graph, **options)


def test_graphs_that_do_not_fit(fitted, graph, tmp_path):
    with pytest.raises(InputError, match="the model knows 150 attributes, but the graph has 20; give all"):
        glace.update(fitted, glace.from_arrays(graph.edges(), graph.attributes[:, :20]))
    with pytest.raises(InputError, match="trained with attributes, but the graph comes without them"):
        glace.update(fitted, graph.without_attributes())
    folder = tmp_path / "fuller.graph"
    glace.write_folder(graph.with_attributes(graph.attributes.toarray() + np.ones(150)), folder)
    with pytest.raises(InputError, match="of a graph folder stay as they are stored, dense, but .* on sparse ones"):
        glace.update(fitted, glace.read_folder(folder))
    with pytest.raises(
        InputError,
        match="the model was trained on undirected edges, but these are directed; leave out this option .directed=True",
    ):
        glace.update(fitted, glace.from_arrays(graph.edges(), graph.attributes, directed=True))
    with pytest.raises(InputError, match="ids are int64, but these are large_string; convert them"):
        glace.update(fitted, replace(graph, ids=NodeIds([f"n{number}" for number in range(500)])))
    with pytest.raises(InputError, match="a Graph is needed, not str"):
        glace.update(fitted, "graph")  # type: ignore[arg-type]


def test_mixed_columns_go_on_by_the_recipe_of_the_model():
    edges = pd.DataFrame({"source": ["a", "b", "c", "d"], "target": ["b", "c", "d", "a"]})
    nodes = pd.DataFrame({"id": list("abcd"), "size": [1.0, 2, 3, 4], "town": ["x", "y", "x", "y"]})
    kinds = {"town": "category"}
    options = SMALL | {"max_steps": 2, "validation_fraction": 0.0}
    model = fit(glace.from_tables(edges, nodes, columns=kinds), **options)
    more = pd.concat([nodes, pd.DataFrame({"id": ["e"], "size": [9.0], "town": ["z"]})], ignore_index=True)
    with pytest.raises(InputError, match="another feature pipeline than the model's; use the model's"):
        glace.update(model, glace.from_tables(edges, more, columns=kinds))
    with pytest.raises(InputError, match="trained on mixed columns, but the graph has attributes"):
        glace.update(model, glace.from_tables(edges, more[["id", "size"]]))
    after = glace.update(model, glace.from_tables(edges, more, pipeline=model.pipeline), max_steps=1)
    report = glace.compare(model, after)
    assert (report.new_nodes, report.new_attributes) == (1, 0)
