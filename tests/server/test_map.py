"""The map is worked out once and kept beside the model."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from glace.errors import InputError
from glace.queries.layout import principal
from glace.server import map as module
from glace.server.map import clusters_of, map_of


def test_it_is_made_once(model, tmp_path, monkeypatch):
    told: list[float] = []
    first = map_of(model.embedding, tmp_path / "m.glace", progress=lambda share, _what: told.append(share))
    assert first.shape == (90, 2)
    assert told == sorted(told)
    assert told[-1] == 1.0
    monkeypatch.setattr(module, "layout", None)
    np.testing.assert_array_equal(map_of(model.embedding, tmp_path / "m.glace"), first)


def test_another_embedding_gets_another_map(model, tmp_path):
    path = tmp_path / "m.glace"
    map_of(model.embedding, path, "pca")
    other = model.embedding.take(np.arange(40))
    np.testing.assert_allclose(map_of(other, path, "pca"), principal(other), rtol=1e-5, atol=1e-6)


def test_a_damaged_file_is_made_anew(model, tmp_path):
    path = tmp_path / "m.glace"
    first = map_of(model.embedding, path, "pca")
    (tmp_path / "m.glace.pca.npz").write_bytes(b"nonsense")
    np.testing.assert_array_equal(map_of(model.embedding, path, "pca"), first)
    assert (tmp_path / "m.glace.pca.npz").stat().st_size > 100


def test_where_nothing_can_be_written_there_is_a_map_all_the_same(model, tmp_path):
    assert map_of(model.embedding, tmp_path / "none" / "m.glace", "pca").shape == (90, 2)


def test_two_nodes_and_one(model, tmp_path):
    for count in (1, 2):
        few = model.embedding.take(np.arange(count))
        assert np.isfinite(map_of(few, tmp_path / f"{count}.glace")).all()


def test_one_dimension_and_equal_means(model, tmp_path):
    flat = replace(model.embedding, mean=model.embedding.mean[:, :1], variance=model.embedding.variance[:, :1])
    assert np.isfinite(map_of(flat, tmp_path / "flat.glace")).all()
    same = replace(model.embedding, mean=np.ones_like(model.embedding.mean))
    assert np.isfinite(map_of(same, tmp_path / "same.glace")).all()


def test_an_unknown_layout(model, tmp_path):
    with pytest.raises(InputError, match="layout must be tsne or pca, not 'umap'"):
        map_of(model.embedding, tmp_path / "m", "umap")


def test_without_the_library(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(InputError, match=r"a map needs openTSNE: pip install"):
        map_of(model.embedding, tmp_path / "m")


def test_principal_axes_keep_distances(model):
    flat = model.embedding.take(np.arange(90))
    mean = np.zeros_like(flat.mean)
    mean[:, :2] = np.random.default_rng(0).normal(size=(90, 2))
    found = principal(replace(flat, mean=mean))
    gaps = np.linalg.norm(mean[:, None] - mean, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found, axis=-1), gaps, atol=1e-5)


def test_clusters_are_made_once(model, tmp_path, monkeypatch):
    path = tmp_path / "m.glace"
    first = clusters_of(model, path)
    assert len(first) == 90
    monkeypatch.setattr(type(model), "clusters", None)
    again = clusters_of(model, path)
    assert again.names == first.names
    np.testing.assert_array_equal(again.codes, first.codes)
    (tmp_path / "m.glace.clusters.npz").write_bytes(b"nonsense")
    with pytest.raises(TypeError):
        clusters_of(model, path)
