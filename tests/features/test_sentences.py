"""Columns of sentences by a real model of sentence-transformers, made on the spot; nothing is downloaded."""

import sys

import numpy as np
import pandas as pd
import pytest

import glace
from glace.errors import InputError
from glace.features.pipeline import FeaturePipeline

EDGES = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
NODES = pd.DataFrame({"id": list("abc"), "title": ["red sea", None, "blue"], "size": [1.0, 2.0, 3.0]})


def write_model(path, random_state, width=6):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: place for place, word in enumerate(["[UNK]", "red", "blue", "sea", "town", "small"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(random_state).normal(size=(len(words), width)).astype(np.float32)
    layer = StaticEmbedding(tokenizer, embedding_weights=weights)
    sentence_transformers.SentenceTransformer(modules=[layer], device="cpu").save(str(path))
    return weights


def test_sentences_are_the_vectors_of_the_model_that_was_there(tmp_path):
    weights = write_model(tmp_path / "model", random_state=0)
    graph = glace.from_tables(EDGES, NODES, columns={"title": f"sentence:{tmp_path / 'model'}"})
    assert isinstance(graph.attributes, np.ndarray)
    sea = (weights[1] + weights[3]) / 2
    expected = np.array([sea / np.linalg.norm(sea), np.zeros(6), weights[2] / np.linalg.norm(weights[2])])
    np.testing.assert_allclose(graph.attributes[:, :6], expected, rtol=1e-5, atol=1e-6)
    assert graph.pipeline is not None
    assert graph.pipeline.names()[5:] == ("title[5]", "size")
    assert [each.missing for each in graph.pipeline.counts(NODES)] == [1, 0]
    again = FeaturePipeline.from_bytes(graph.pipeline.to_bytes(), 7)
    assert np.asarray(again.matrix(NODES)).tobytes() == graph.attributes.tobytes()
    assert again.matrix(NODES[:0]).shape == (0, 7)

    write_model(tmp_path / "model", random_state=1)
    other = FeaturePipeline.from_bytes(graph.pipeline.to_bytes(), 7)
    assert other.same_as(graph.pipeline)  # the pipeline can be read anywhere
    with pytest.raises(InputError, match="is not the one of the training: it gives other vectors"):
        other.matrix(NODES)
    with pytest.raises(InputError, match="no sentence model 'nobody/none' on this machine.*glace downloads none"):
        glace.from_tables(EDGES, NODES, columns={"title": "sentence:nobody/none"})


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match=r"pip install 'glace-graph\[sentences\]'"):
        glace.from_tables(EDGES, NODES, columns={"title": "sentence:any"})
