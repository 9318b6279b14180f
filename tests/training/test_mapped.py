"""A fit on a graph folder: what one in memory gives, with the graph and the Gaussians left on disk."""

from typing import Any

import numpy as np
import pytest

import glace
from glace.errors import InputError
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.gaussian import embedding_file
from glace.io.folder import read_folder, write_folder
from tests.conftest import is_mapped, small

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "neighbours": {"hidden_length": "bounded", "neighbor_features": "mean", "neighbor_dropout": 0.3, "dropout": 0.2},
    "both": {"proximity": "both", "negative_sampling": "independent", "negative_power": 0.75},
    "points": {"method": glace.LACE},
    "edges only": {"method": glace.LINE},
}


def estimator(method=glace.GLACE, **options):
    return method(**small(**{"max_steps": 40} | options))


def matrices(embedding):
    return embedding.matrices()


def folder_of(graph, path):
    write_folder(graph, path)
    return read_folder(path)


@pytest.fixture(scope="module")
def mapped(planted, tmp_path_factory):
    return folder_of(planted, tmp_path_factory.mktemp("mapped") / "g.graph")


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_judged_by_the_same_pairs_it_gives_the_bits_of_a_fit_in_memory(options, directed, tmp_path):
    graph = glace.datasets.planted(200, communities=4, attributes=60, words=8, directed=directed)
    train, held_out = glace.hold_out(graph, 0.1, np.random.default_rng(0))
    here = estimator(**options).fit(train, validation=held_out)
    there = estimator(**options).fit(folder_of(train, tmp_path / "g.graph"), validation=held_out)
    for name, matrix in matrices(here.embedding_).items():
        np.testing.assert_array_equal(matrix, matrices(there.embedding_)[name])
    assert here.history_.validation_points == there.history_.validation_points
    assert here.embedding_.ids == there.embedding_.ids


def test_dense_attributes_too(tmp_path):
    graph = glace.datasets.planted(200, communities=4, attributes=60, words=8)
    attributes: Any = graph.attributes
    dense = glace.from_arrays(graph.edges(), attributes.toarray())
    options = {"validation_fraction": 0.0, **OPTIONS["neighbours"]}
    here = estimator(**options).fit(dense)
    there = estimator(**options).fit(folder_of(dense, tmp_path / "g.graph"))
    np.testing.assert_array_equal(here.embedding_.mean, there.embedding_.mean)


def test_edges_it_holds_out_itself_are_told_from_others(planted, tmp_path):
    train, test = glace.hold_out(planted, 0.15, np.random.default_rng(0))
    model = estimator(max_steps=120).fit(folder_of(train, tmp_path / "g.graph"))
    assert model.history_.best.auc > 0.75
    assert link_prediction(model.embedding_, test).auc > 0.75


@pytest.mark.parametrize("directed", [False, True])
def test_memory_and_disk_hold_out_and_draw_the_same_and_so_train_the_same_model(tmp_path, directed):
    graph = glace.datasets.planted(200, communities=4, attributes=60, words=8, directed=directed)
    pairs = graph.edges()
    weighted = graph.with_edges(pairs, 1.0 + pairs[:, 0] % 5)
    here = estimator(max_steps=120, negative_power=0.75).fit(weighted)
    there = estimator(max_steps=120, negative_power=0.75).fit(folder_of(weighted, tmp_path / "g.graph"))
    assert here.history_.best.auc > 0.7
    assert here.history_.validation_points == there.history_.validation_points
    np.testing.assert_array_equal(here.embedding_.mean, there.embedding_.mean)


@pytest.mark.parametrize("auto", [False, True])
def test_nothing_of_the_size_of_the_edges_is_asked_for_in_memory(tmp_path, monkeypatch, auto):
    """Of the ways that copy whole matrices none is taken, trials or not, directed or not."""
    graph = glace.datasets.planted(300, communities=4, attributes=60, words=8, directed=auto)
    mapped = folder_of(graph, tmp_path / "g.graph")

    def forbidden(*_: object) -> None:
        raise AssertionError

    for name in ("edges_and_weights", "take", "with_edges"):
        monkeypatch.setattr(glace.Graph, name, forbidden)
    monkeypatch.setattr("glace.graph.graph.row_blocks", forbidden)  # the fingerprint is not worked out
    open_ones = {"neighbor_features": "auto", "dropout": "auto"} if auto else {}
    model = estimator(**open_ones).fit(mapped, checkpoint=tmp_path / "checkpoint")
    assert is_mapped(model.embedding_.mean)
    assert is_mapped(model.embedding_.variance)


def test_a_run_goes_on_to_the_same_bits(mapped, tmp_path):
    whole = estimator().fit(mapped)
    path = tmp_path / "checkpoint"

    class Stopped(Exception):
        pass

    def stop(progress):
        if progress.step == 25:
            raise Stopped

    with pytest.raises(Stopped):
        estimator().fit(mapped, checkpoint=path, checkpoint_seconds=0, listener=stop)
    again = estimator().fit(mapped, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.embedding_.mean, whole.embedding_.mean)


def test_the_model_is_saved_with_its_gaussians_beside_and_maps_them_when_loaded(mapped, tmp_path):
    model = estimator(proximity="both").fit(mapped)
    model.model_.save(tmp_path / "m.glace", embedding="beside")
    assert len(list(tmp_path.glob("m.glace.*.arrow"))) == 1
    again = glace.load(tmp_path / "m.glace").embedding
    for name, matrix in matrices(again).items():
        np.testing.assert_array_equal(matrix, matrices(model.embedding_)[name])
    assert not again.mean.flags.owndata
    model.save(tmp_path / "one.glace")
    assert not list(tmp_path.glob("one.glace.*.arrow"))
    np.testing.assert_array_equal(glace.load(tmp_path / "one.glace").embedding.mean, again.mean)


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".npz", ".csv"])
def test_written_in_pieces_an_embedding_is_whole(mapped, tmp_path, monkeypatch, ending):
    embedding = estimator(max_steps=5).fit(mapped).embedding_
    glace.write_embedding(embedding, tmp_path / f"whole{ending}")
    monkeypatch.setattr(embedding_file, "ROWS", 33)
    glace.write_embedding(embedding, tmp_path / f"pieces{ending}")
    if ending == ".csv":
        assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    else:
        again = glace.load_embedding(tmp_path / f"pieces{ending}")
        np.testing.assert_array_equal(again.mean, embedding.mean)
        np.testing.assert_array_equal(again.variance, embedding.variance)
        assert again.ids == embedding.ids


def test_no_rows_are_nothing_to_embed(fitted):
    with pytest.raises(InputError, match="there are no rows of attributes; give at least one node"):
        fitted.transform(np.zeros((0, 120)))
