"""The fitted model as a value: complete, immutable, and free of torch until its network is used."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import glace
from glace.errors import InputError
from tests.conftest import small

WITHOUT_TORCH = """
import sys
import numpy as np
import glace

fitted = glace.load(sys.argv[1])
first, second = fitted.embedding.ids[0], fitted.embedding.ids[1]
assert len(fitted.neighbors(first, k=3).id) == 3
assert len(fitted.links(k=4).source) == 4
assert len(fitted.links(first, k=2).source) == 2
assert len(fitted.score_pairs([(first, second)]).probability) == 1
fitted.save(sys.argv[1] + ".again")
assert "torch" not in sys.modules, "a question about known nodes imported torch"
fitted.transform(np.zeros((1, fitted.n_features)))
assert "torch" in sys.modules
"""


def test_the_link_model_is_saved_with_the_model(fitted, planted, tmp_path):
    model = fitted.model_
    assert model.link_model is not None
    model.save(tmp_path / "m.glace")
    again = glace.load(tmp_path / "m.glace")
    assert again.link_model is not None
    assert again.link_model.to_json() == model.link_model.to_json()
    for name, array in model.link_model.to_arrays().items():
        np.testing.assert_array_equal(again.link_model.to_arrays()[name], array)
    node = planted.ids[3]
    assert again.links(k=20, why=True).rows() == model.links(k=20, why=True).rows()
    assert again.links(node, 5).rows() == model.links(node, 5).rows()
    assert again.missing_edge_fraction == model.missing_edge_fraction


def test_links_and_scores_say_the_same_of_a_pair(fitted, planted):
    model, node = fitted.model_, planted.ids[7]
    found = model.links(node, 10, missing_edge_fraction=0.2)
    scored = model.score_pairs([(node, other) for other in found.target], missing_edge_fraction=0.2)
    np.testing.assert_array_equal(scored.probability, found.probability)
    assert not scored.known.any()
    assert (np.diff(found.probability) <= 0).all()
    plain = model.links(node, 10, by="gaussian")
    assert (np.diff(plain.dissimilarity) >= 0).all()


def test_options_of_links_that_make_no_sense(fitted):
    model = fitted.model_
    with pytest.raises(InputError, match="by must be 'model' or 'gaussian', not 'edge'"):
        model.links(by="edge")
    with pytest.raises(InputError, match="missing_edge_fraction must be above 0 and below 1, not 0"):
        model.links(missing_edge_fraction=0)
    with pytest.raises(InputError, match="missing_edge_fraction must be above 0 and below 1, not 2"):
        model.score_pairs([], missing_edge_fraction=2)
    with pytest.raises(
        InputError, match="approximate does not apply to the link model, which needs no index; leave it out"
    ):
        model.links(approximate=True)


def test_questions_about_known_nodes_do_not_import_torch(fitted, tmp_path):
    path = tmp_path / "m.glace"
    fitted.save(path)
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m.glace.again").read_bytes() == path.read_bytes(), "saved without building the network"


def test_a_graph_from_csv_and_its_converted_folder_give_the_same_file(tmp_path):
    graph = glace.datasets.planted(150, communities=3, attributes=30, words=6)
    names = np.array([f"n{number:03}" for number in range(150)])
    edges = pd.DataFrame(names[graph.edges()], columns=["source", "target"])
    assert graph.labels is not None
    attributes = pd.DataFrame(sp.csr_array(graph.attributes).toarray(), columns=[f"a{number}" for number in range(30)])
    nodes = pd.concat([pd.DataFrame({"id": names, "label": graph.labels.codes % 2}), attributes], axis=1)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    tables = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    glace.convert_tables(tables[0], tmp_path / "g.graph", attributes=tables[1])
    for directed_options in ({}, {"neighbor_features": "auto", "dropout": "auto"}):
        options = small(max_steps=30, validate_every=10, ensemble_size=2, **directed_options)
        here = glace.train(glace.read_tables(tables[0], attributes=tables[1]), options)
        there = glace.train(glace.read_folder(tmp_path / "g.graph"), options)
        assert here.validation is not None
        assert there.graph is not None
        here.save(tmp_path / "here.glace")
        there.save(tmp_path / "there.glace")
        assert (tmp_path / "here.glace").read_bytes() == (tmp_path / "there.glace").read_bytes()


def test_a_model_cannot_be_changed(fitted):
    for each in fields(fitted.model_):
        with pytest.raises(FrozenInstanceError):
            setattr(fitted.model_, each.name, None)


def test_a_custom_encoder_is_needed_only_to_embed_new_nodes(tmp_path):
    torch = pytest.importorskip("torch")
    graph = glace.datasets.planted(100, communities=2, attributes=20, words=5)
    assert graph.attributes is not None
    module = torch.nn.Linear(20, 32)
    glace.train(graph, small(max_steps=3), encoder=module).save(tmp_path / "m")
    fitted = glace.load(tmp_path / "m")
    assert len(fitted.links(k=2).source) == 2
    with pytest.raises(InputError, match=r"custom encoder, Linear, .*: glace.load\(path, encoder=Linear\(...\)\)"):
        fitted.transform(graph.attributes)
    again = glace.load(tmp_path / "m", encoder=torch.nn.Linear(20, 32))
    np.testing.assert_array_equal(
        again.transform(graph.attributes[:3]).mean, again.transform(graph.attributes[:3]).mean
    )
    np.testing.assert_allclose(again.transform(graph.attributes).mean, fitted.embedding.mean, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="trained with an encoder of class Linear, not ReLU"):
        glace.load(tmp_path / "m", encoder=torch.nn.ReLU()).transform(graph.attributes)
    with pytest.raises(InputError, match="do not fit the given encoder"):
        glace.load(tmp_path / "m", encoder=torch.nn.Linear(20, 16)).transform(graph.attributes)
    glace.train(graph, small(max_steps=1)).save(tmp_path / "plain")
    with pytest.raises(InputError, match="trained without a custom encoder; leave encoder= out"):
        glace.load(tmp_path / "plain", encoder=module).transform(graph.attributes)


def test_pairs_are_scored_as_if_their_edge_were_missing(fitted, planted):
    edges = planted.edges()[:50]
    others = np.random.default_rng(0).integers(0, planted.num_nodes, (50, 2))
    scores = fitted.model_.score_pairs([(planted.ids[a], planted.ids[b]) for a, b in edges.tolist()])
    np.testing.assert_array_equal(scores.dissimilarity, fitted.embedding_.dissimilarities_at(edges))
    assert scores.known.all()
    random = fitted.model_.score_positions(others)
    assert not random.known.all()
    assert np.median(scores.probability) > 5 * np.median(random.probability)
    assert np.mean(scores.probability) < 0.5, "few pairs are missing edges"


def test_new_nodes_ask_for_their_neighbors(fitted, planted):
    new = fitted.transform(planted.attributes[:3], ids=["x", "y", "z"])
    found = fitted.model_.neighbors(new, k=1)
    assert list(found.query) == ["x", "y", "z"]
    assert list(found.id) == [planted.ids[row] for row in range(3)], "nearest to themselves"
