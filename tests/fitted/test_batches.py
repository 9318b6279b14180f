"""New nodes in record batches: the same bits in every batch, and what the model itself gives."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

import glace
from glace.errors import InputError
from glace.features.pipeline import Count
from glace.fitted import batches as batches_module
from glace.fitted.batches import EmbeddingSummary
from tests.conftest import small

ROWS = 300


def sparse_table(matrix: sp.csr_array, names: list[str]) -> pa.Table:
    lists = [pa.ListArray.from_arrays(matrix.indptr.astype(np.int32), each) for each in (matrix.indices, matrix.data)]
    return pa.table({"id": names, "columns": lists[0], "values": lists[1]})


def ids(count: int) -> list[str]:
    return [f"n{row}" for row in range(count)]


OPTIONS: dict[str, dict[str, object]] = {
    "narrow": {"dim": 3, "hidden": 7},
    "unit": {"scaling": "unit"},
    "layers": {"encoder": "mlp:layers=9,normalization=layer"},
    "points": {"dim": 5},
}


def trained(attributes: Any, method: str = "glace", **options: object) -> glace.FittedModel:
    edges = np.random.default_rng(0).integers(0, ROWS, (900, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    graph = attributes if isinstance(attributes, glace.Graph) else glace.from_arrays(edges, attributes)
    return glace.train(graph, small(max_steps=3, **options), method=method)


def dense_attributes(columns: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((ROWS, columns)).astype(np.float32)


def counted(columns: int) -> sp.csr_array:
    return sp.csr_array(sp.random(ROWS, columns, 0.2, "csr", np.float32, np.random.default_rng(2)))


def case_of(kind: str) -> tuple[glace.FittedModel, pa.Table]:
    """A model, and rows for it."""
    if kind == "sparse":
        matrix = counted(40)
        return trained(matrix), sparse_table(matrix, ids(ROWS))
    if kind in ("dense", "narrow", "unit", "layers", "points"):
        columns = {"narrow": 5}.get(kind, 37)
        matrix = dense_attributes(columns)
        names = {"id": np.arange(ROWS)} | {f"c{place}": matrix[:, place] for place in range(columns)}
        return trained(matrix, "lace" if kind == "points" else "glace", **OPTIONS.get(kind, {})), pa.table(names)
    if kind == "second":
        matrix = counted(40)
        return trained(matrix, proximity="both", ensemble_size=3, dim=10), sparse_table(matrix, ids(ROWS))
    frame = pd.DataFrame({"id": ids(ROWS), "town": ["Bern", "Genf", "Chur"] * 100, "age": np.arange(ROWS) / 7})
    frame["words"] = [f"red {row % 13} fish {row % 7}" for row in range(ROWS)]
    frame.loc[5, "age"] = None
    kinds = {"town": "category", "words": "text"}
    edges = pd.DataFrame({"source": ids(ROWS - 1), "target": ids(ROWS)[1:]})
    graph = glace.from_tables(edges, frame, columns=kinds)
    return trained(graph), pa.Table.from_pandas(frame, preserve_index=False)


def embedded(embed: Any, parts: list[pa.Table]) -> pa.Table:
    given = [batch for part in parts for batch in part.combine_chunks().to_batches()]
    found = list(embed(given))
    assert [each.num_rows for each in found] == [each.num_rows for each in given]
    return pa.Table.from_batches(found)


@pytest.mark.parametrize("kind", ["sparse", "dense", "narrow", "unit", "layers", "points", "second", "mixed"])
def test_a_row_has_the_same_bits_in_every_batch(kind):
    model, table = case_of(kind)
    embed = glace.embed_batches(model)
    whole = embedded(embed, [table])
    for size in (1, 2, 7, 211):
        parts = [table[at : at + size] for at in range(0, ROWS, size)][:20]
        found = embedded(embed, parts)
        assert found.equals(whole[: len(found)]), size
    order = np.random.default_rng(3).permutation(ROWS)
    assert embedded(embed, [table.take(order)]).equals(whole.take(order))
    assert embedded(glace.embed_batches(model, n_jobs=2), [table]).equals(whole)
    copies = embedded(embed, [pa.concat_tables([table] * 5)])
    assert copies.equals(pa.concat_tables([whole] * 5)), "rows at other places of blocks"


@pytest.mark.parametrize("kind", ["sparse", "dense", "second", "mixed"])
def test_batches_give_what_transform_gives(kind):
    model, table = case_of(kind)
    found = embedded(glace.embed_batches(model), [table])
    values = counted(40) if kind in ("sparse", "second") else table.to_pandas().set_index("id")
    embedding, novelty = model.transform(values), model.novelty(values)
    expected = embedding.to_arrow().drop_columns("id")
    assert found.select(expected.column_names).equals(expected)
    np.testing.assert_array_equal(found["novelty"], novelty.rank.astype(np.float32))
    np.testing.assert_array_equal(found["unseen"], novelty.unseen.astype(np.float32))
    assert found["id"].to_pylist() == table["id"].to_pylist()


def test_ids_may_repeat_and_batches_be_empty():
    model, table = case_of("sparse")
    embed = glace.embed_batches(model)
    twice = pa.concat_tables([table[:1], table[:1]])
    found = embedded(embed, [twice])
    assert found["id"].to_pylist() == ["n0", "n0"]
    assert found["mean"][0] == found["mean"][1]
    (empty,) = embed([pa.RecordBatch.from_pylist([], table.schema)])
    assert empty.num_rows == 0
    assert empty.schema == found.schema == embed.schema(pa.large_string())


def test_a_worker_loads_the_model_once(tmp_path, monkeypatch):
    model, table = case_of("sparse")
    model.save(tmp_path / "m.glace")
    loads = []

    def load(path):
        loads.append(path)
        return model

    monkeypatch.setattr(batches_module, "load", load)
    batches_module._loaded.cache_clear()
    for _ in range(3):
        sent = pickle.loads(pickle.dumps(glace.embed_batches(tmp_path / "m.glace")))
        assert embedded(sent, [table]).equals(embedded(glace.embed_batches(model), [table]))
    assert loads == [tmp_path / "m.glace"]
    batches_module._loaded.cache_clear()
    with pytest.raises(InputError, match="cannot be sent to other processes; save it, and give embed_batches its path"):
        pickle.dumps(glace.embed_batches(model))


def test_rows_that_cannot_be_embedded_are_named():
    model, table = case_of("dense")
    embed = glace.embed_batches(model)
    bad = table[:3].set_column(2, "c1", pa.array([1.0, None, 2.0], pa.float32()))
    given = [each for part in (table[:4], bad) for each in part.to_batches()]
    with pytest.raises(InputError, match="batches, row 6: no value in column 'c1'; fill it in"):
        list(embed(given))
    edges = glace.train(glace.from_arrays([[0, 1], [1, 2], [2, 3]]), small(max_steps=1, validation_fraction=0))
    with pytest.raises(InputError, match="was trained without attributes"):
        glace.embed_batches(edges)


def test_summaries_add_up():
    one = EmbeddingSummary(3, 1, ("a", 0.5), (Count("town", 1, 0),))
    two = EmbeddingSummary(4, 2, ("b", 1.0), (Count("town", 2, 5, "Genf", 3),))
    assert one + two == EmbeddingSummary(7, 3, ("a", 0.5), (Count("town", 3, 5, "Genf", 3),))
    assert EmbeddingSummary() + one == one + EmbeddingSummary() == one
