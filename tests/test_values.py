"""Storage and scaling of attributes follow their values: planted kinds of values, in every container."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import glace
from glace.values import ValueSummary, in_storage

ROWS = 60
EDGES = np.column_stack([np.arange(ROWS - 1), np.arange(1, ROWS)])


def rng():
    return np.random.default_rng(3)


def counts():
    return rng().poisson(0.1, (ROWS, 50))


def frequent_words():
    """Counts; two words are in nearly every text, and often several times."""
    return np.hstack([counts(), rng().poisson(4, (ROWS, 2))])


def indicators(share=0.1, columns=50):
    return rng().random((ROWS, columns)) < share


def tf_idf():
    words = counts() * rng().uniform(1, 6, 50)
    return words / np.maximum(np.linalg.norm(words, axis=1, keepdims=True), 1e-9)


def measurements():
    return rng().normal(1, 1, (ROWS, 12)) * 10.0 ** np.arange(-3, 9)


def embeddings(columns=64):
    return rng().normal(size=(ROWS, columns))


def partly_embedded():
    """Two thirds of the nodes have no sentence, so no vector."""
    return embeddings() * (np.arange(ROWS) % 3 == 0)[:, None]


def relu(center):
    return np.maximum(rng().normal(center, 1, (ROWS, 64)), 0)


def mixed():
    """An age and an income beside indicators."""
    return np.column_stack([indicators(), rng().normal(40, 9, ROWS), rng().normal(5e4, 1e4, ROWS)])


KINDS: dict[str, tuple[Any, str, str]] = {
    "counts": (counts(), "sparse", "unit"),
    "counts with frequent words": (frequent_words(), "sparse", "unit"),
    "indicators": (indicators(), "sparse", "unit"),
    "few indicators": (indicators(columns=8), "dense", "unit"),
    "many indicators": (indicators(0.4), "dense", "unit"),
    "indicators that are mostly set": (indicators(0.7), "dense", "unit"),
    "tf-idf": (tf_idf(), "sparse", "unit"),
    "nothing": (np.zeros((ROWS, 40)), "sparse", "unit"),
    "measurements": (measurements(), "dense", "standard"),
    "one measurement": (measurements()[:, :1], "dense", "standard"),
    "embeddings": (embeddings(), "dense", "standard"),
    "embeddings of some nodes": (partly_embedded(), "dense", "standard"),
    "mostly positive outputs of a ReLU": (relu(0.5), "dense", "standard"),
    "mostly zero outputs of a ReLU": (relu(-0.5), "dense", "unit"),
    "mixed, wide": (mixed(), "sparse", "mixed"),
    "mixed, narrow": (mixed()[:, 40:], "dense", "mixed"),
}


def frame_of(x):
    return pd.DataFrame({"id": np.arange(len(x)), **{f"c{place}": column for place, column in enumerate(x.T)}})


def in_containers(x):
    """The graphs of the same values from each door that takes a matrix."""
    dense = np.asarray(x, np.float32)
    duplicated = sp.coo_array(dense)
    halves = np.concatenate([duplicated.data / 2] * 2), tuple(np.tile(each, 2) for each in duplicated.coords)
    with_zeros = sp.csr_array(np.ones_like(dense))
    with_zeros.data[:] = dense.ravel()
    pyg = [torch.from_numpy(dense), torch.from_numpy(dense).to_sparse()]
    matrices = [
        dense, dense.astype(np.float64), np.asfortranarray(dense), dense.tolist(), sp.csr_array(dense),
        sp.csc_array(dense), sp.coo_array(dense), sp.csr_matrix(dense), sp.lil_array(dense), with_zeros,
        sp.coo_array(halves, shape=dense.shape),
    ]  # fmt: skip
    graphs = [glace.from_arrays(EDGES, each) for each in matrices]
    graphs += [
        glace.from_pyg(SimpleNamespace(edge_index=torch.from_numpy(EDGES.T), x=each, num_nodes=ROWS)) for each in pyg
    ]
    return [*graphs, glace.from_tables({"source": EDGES[:, 0], "target": EDGES[:, 1]}, frame_of(dense))]


@pytest.mark.parametrize("kind", KINDS)
def test_every_container_gives_the_graph_that_the_values_call_for(kind):
    x, storage, scaling = KINDS[kind]
    graphs = in_containers(x)
    for graph in graphs:
        (only,) = graph.by_type().types
        assert (only.storage, only.scaling) == (storage, scaling)
        np.testing.assert_array_equal(in_storage(graph.features(), sparse=False), np.asarray(x, np.float32))
    assert len({graph.fingerprint() for graph in graphs}) == 1


@given(
    hnp.arrays(np.float32, (ROWS, 40), elements=st.sampled_from([-2.0, -0.0, 1.0, 0.5, 300.0]), fill=st.just(0.0)),
    st.integers(1, 40),
)
def test_any_values_give_one_graph_in_every_container(x, columns):
    x = x[:, :columns]
    assert len({graph.fingerprint() for graph in in_containers(x)}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_neither_the_order_of_rows_nor_that_of_pieces_matters(kind):
    x = np.asarray(KINDS[kind][0], np.float32)
    order = rng().permutation(ROWS)
    pieces = ValueSummary(x.shape[1])
    for some in (order[:7], order[7:7], order[7:]):
        pieces.add(x[some])
    sparse_pieces = ValueSummary(0)
    for some in (order[:20], order[20:]):
        sparse_pieces.add(sp.csr_array(x[some]))
    for found in (pieces, sparse_pieces, ValueSummary.of(sp.csr_array(x[order]))):
        assert (found.is_sparse(), found.scaling()) == (KINDS[kind][1] == "sparse", KINDS[kind][2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lists", [False, True], ids=["columns", "sparse rows"])
def test_files_and_folders_give_the_same_graph(tmp_path, kind, lists):
    x = np.asarray(KINDS[kind][0], np.float32)
    x[-1, -1] = x[-1, -1] or 1  # sparse rows are as wide as their last entry
    rows = sp.csr_array(x)
    parts = np.split(rows.indices, rows.indptr[1:-1]), np.split(rows.data, rows.indptr[1:-1])
    sparse_rows = pa.table({"id": np.arange(ROWS), "columns": [*map(list, parts[0])], "values": [*map(list, parts[1])]})
    pq.write_table(sparse_rows if lists else pa.table(frame_of(x)), tmp_path / "nodes.parquet")
    pd.DataFrame(EDGES, columns=["source", "target"]).to_csv(tmp_path / "edges.csv", index=False)
    wanted = glace.from_arrays(EDGES, x).fingerprint()
    tables = tmp_path / "edges.csv", tmp_path / "nodes.parquet"
    read = glace.read_tables(*tables)
    assert read.fingerprint() == wanted
    converted = glace.convert_tables(tables[0], tmp_path / "a.graph", tables[1])
    assert converted.fingerprint() == wanted
    glace.read_folder(tmp_path / "a.graph", verify=True)
    glace.write_npz(read, tmp_path / "a.npz")
    assert glace.read_npz(tmp_path / "a.npz").fingerprint() == wanted


def test_nodes_without_a_row_count_for_the_storage_of_folders_too(tmp_path):
    x = indicators(0.4, 40).astype(int)[:20]
    frame_of(x).to_csv(tmp_path / "nodes.csv", index=False)
    pd.DataFrame(EDGES, columns=["source", "target"]).to_csv(tmp_path / "edges.csv", index=False)
    tables = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    read = glace.read_tables(*tables, nodes_without_attributes="empty")
    assert read.by_type().types[0].storage == "sparse", "a third of the nodes has attributes"
    folder = tmp_path / "a.graph"
    converted = glace.convert_tables(tables[0], folder, tables[1], nodes_without_attributes="empty")
    assert converted.fingerprint() == read.fingerprint()


def test_a_subgraph_is_stored_and_scaled_by_its_own_values():
    x = np.vstack([indicators(0.05)[:30], indicators(0.5)[30:]])
    graph = glace.from_arrays(EDGES, x)
    some = np.arange(30, 60)
    assert (graph.by_type().types[0].storage, graph.take(some).by_type().types[0].storage) == ("dense", "dense")
    sparse = graph.take(np.arange(30))
    assert sparse.by_type().types[0].storage == "sparse"
    again = glace.from_arrays(sparse.edges(), x[:30])
    assert again.fingerprint() == sparse.fingerprint()


def test_a_pipeline_with_words_scales_rows_whatever_the_values_are():
    people = pd.DataFrame({"id": range(ROWS), "age": rng().normal(40, 9, ROWS), "town": ["a", "b", "c"] * 20})
    edges = {"source": EDGES[:, 0], "target": EDGES[:, 1]}
    (only,) = glace.from_tables(edges, people, columns={"town": "category"}).by_type().types
    assert (only.storage, only.scaling) == ("dense", "unit")
    (numbers,) = glace.from_tables(edges, people, columns={"town": "drop"}).by_type().types
    assert (numbers.storage, numbers.scaling) == ("dense", "standard")


@pytest.mark.parametrize("words", [4, 16], ids=["sparse", "dense"])
def test_models_and_new_nodes_have_the_same_bits_in_every_container(tmp_path, words):
    graph = glace.datasets.planted(200, communities=4, attributes=40, words=words, degree=6)
    rows: Any = in_storage(graph.features(), sparse=True)
    options: dict[str, Any] = {"dim": 8, "hidden": 16, "max_steps": 30}
    models = [
        glace.train(glace.from_arrays(graph.edges(), each), options) for each in (rows, rows.toarray(), rows.tocsc())
    ]
    assert models[0].node_types[0].storage == {4: "sparse", 16: "dense"}[words]
    for model in models[1:]:
        np.testing.assert_array_equal(model.embedding.mean, models[0].embedding.mean)
        for name, weight in models[0].network.weights().items():
            np.testing.assert_array_equal(model.network.weights()[name], weight)
    new = rows[:5].toarray()
    new[0] = 0
    frame = pd.DataFrame({f"c{place}": column for place, column in enumerate(new.T)})
    models[0].save(tmp_path / "a.glace")
    for model in (models[0], glace.load(tmp_path / "a.glace")):
        found = [model.transform(each) for each in (new, sp.csr_array(new), sp.coo_array(new), frame)]
        for each in found[1:]:
            np.testing.assert_array_equal(each.mean, found[0].mean)
            np.testing.assert_array_equal(each.certainty, found[0].certainty)
        ranks = [model.novelty(each).rank for each in (new, sp.csr_array(new))]
        np.testing.assert_array_equal(ranks[0], ranks[1])


def test_an_update_keeps_the_storage_and_the_scaling_of_the_fit():
    graph = glace.datasets.planted(200, communities=4, attributes=40, words=8, degree=6)
    fitted = glace.train(graph, {"dim": 8, "hidden": 16, "max_steps": 30})
    assert (fitted.node_types[0].storage, fitted.node_types[0].scaling) == ("sparse", "unit")
    rows = in_storage(graph.features(), sparse=False) + (rng().random((200, 40)) < 0.6) * rng().random((200, 40))
    fuller = graph.with_attributes(rows)
    assert (fuller.by_type().types[0].storage, fuller.by_type().types[0].scaling) == ("dense", "standard")
    updated = glace.update(fitted, fuller, max_steps=5)
    assert (updated.node_types[0].storage, updated.node_types[0].scaling) == ("sparse", "unit")


@pytest.mark.parametrize("scaling", ["unit", "standard", "none"])
def test_the_model_records_the_scaling_that_was_asked_for(tmp_path, scaling):
    graph = glace.from_arrays(EDGES, measurements())
    fitted = glace.train(graph, {"dim": 4, "hidden": 8, "max_steps": 5, "scaling": scaling})
    assert fitted.node_types[0].scaling == scaling
    fitted.save(tmp_path / "a.glace")
    again = glace.load(tmp_path / "a.glace")
    assert again.node_types[0].scaling == scaling
    new = measurements()[:4]
    np.testing.assert_array_equal(again.transform(new).mean, fitted.transform(new).mean)


def test_sparse_images_are_scaled_as_dense_ones_are():
    pixels = rng().random((ROWS, 64)) * (rng().random((ROWS, 64)) < 0.2)
    graph = glace.from_arrays(EDGES, pixels)
    assert graph.by_type().types[0].storage == "sparse"
    fitted = glace.train(graph, {"dim": 4, "hidden": 8, "max_steps": 5, "encoder": "image:size=8x8,filters=4"})
    assert fitted.node_types[0].scaling == "standard"
    scaled: Any = fitted.network.scaled(0, graph.features())
    assert scaled.mean() == pytest.approx(0, abs=1e-4)
    assert scaled.std() == pytest.approx(1, abs=1e-4)
    lowest = scaled[pixels == 0]
    assert np.ptp(lowest) < 1e-6, "all pixels have one scale"
