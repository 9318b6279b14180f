"""Mixed columns from the command line: fit, look, embed new rows, go on with more of them."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from glace import load, load_embedding, read_graph, read_tables
from glace.io.read import read_rows
from tests.cli.conftest import FAST, names

COLUMNS = ["--column", "town=category", "--column", "wares=text"]
KINDS = {"town": "category", "wares": "text"}
FIT = ["fit", "--edges", "edges.csv", "--attributes", "shops.csv", *COLUMNS, *FAST]


@pytest.fixture
def shops(folder):
    """60 shops: price with gaps, town and wares."""
    ids, places = names(), np.arange(60)
    table = pd.DataFrame({"id": ids, "price": places % 7 + 0.1})
    table.loc[::10, "price"] = None
    table["town"] = np.array(["Bern", "Basel", "Chur"])[places % 3]
    table["wares"] = np.array(["fresh bread", "old cheese", "red wine", "bread cheese"])[places % 4]
    table.to_csv("shops.csv", index=False)
    return table


def test_mixed_columns_from_fit_to_update(glace, folder, shops, monkeypatch):
    shown = glace(*FIT, "-o", "m.glace")
    assert "missing values of attributes, taken as unknown: 6" in shown
    model = load("m.glace")
    assert model.pipeline is not None

    # The same rows give the attributes of the training and, from a file or a frame, the same Gaussians.
    graph = read_tables("edges.csv", "shops.csv", columns=KINDS)
    assert graph.attributes is not None
    rows = read_rows("shops.csv", "attributes", pipeline=model.pipeline)
    trained = sp.csr_array(graph.attributes)
    assert isinstance(rows.values, sp.csr_array)
    np.testing.assert_array_equal(rows.values.toarray(), trained.toarray())
    assert rows.values.data.tobytes() == trained.data.tobytes()
    said = glace("embed", "m.glace", "--attributes", "shops.csv", "-o", "again.parquet")
    assert "values of 'price' taken as unknown: 6 missing" in said
    by_file, by_frame = load_embedding("again.parquet"), model.transform(shops)
    assert list(by_file.ids) == list(by_frame.ids) == names()
    np.testing.assert_array_equal(by_file.mean, by_frame.mean)
    np.testing.assert_array_equal(by_file.mean, model.embedding.mean)  # no neighbours in FAST
    np.testing.assert_array_equal(by_file.variance, by_frame.variance)

    # What was never seen is counted.
    new = pd.DataFrame({"id": ["x", "y"], "town": ["Bern", "Genf"], "price": [None, 3.0], "wares": ["wine", "hats"]})
    new.to_csv("new.csv", index=False)
    said = glace("embed", "m.glace", "--attributes", "new.csv", "-o", "new.parquet", "--json", "new.json")
    assert "values of 'town' taken as unknown: 1 never seen in training (first: 'Genf' in row 3)" in said
    town = next(each for each in json.loads((folder / "new.json").read_text())["columns"] if each["column"] == "town")
    assert town == {"column": "town", "missing": 0, "unknown": 1, "first_unknown": "Genf", "first_row": 3}
    assert model.novelty(new).unseen.tolist() == [0, 0]  # what is in the matrix was seen

    # The model says what its columns are, and goes on with them.
    monkeypatch.setenv("COLUMNS", "200")
    shown = glace("info", "m.glace", "--json", "info.json")
    assert "category, 3 categories" in shown
    assert "text, 6 words" in shown
    assert json.loads((folder / "info.json").read_text())["pipeline"]["town"] == "category, 3 categories"
    more = pd.concat([shops, new])
    more.to_csv("more.csv", index=False)
    shown = glace("update", "--edges", "edges.csv", "--attributes", "more.csv", "--model", "m.glace", "-o", "n.glace")
    assert "categories never seen in training, taken as unknown: 1" in shown
    again = load("n.glace")
    assert model.pipeline.same_as(again.pipeline)
    assert len(again.embedding) == 62


def test_a_graph_folder_of_mixed_columns(glace, shops):
    glace("convert", *FIT[1:9], "-o", "shops.graph")
    graph, mapped = read_tables("edges.csv", "shops.csv", columns=KINDS), read_graph("shops.graph")
    assert graph.pipeline is not None
    assert graph.pipeline.same_as(mapped.pipeline)
    assert mapped.cleaning_report.missing_values == 6
    assert mapped.fingerprint() == graph.in_id_order()[0].fingerprint()


def test_a_column_of_text_among_attributes_takes_texts_and_tables(glace, shops):
    shops[["id", "wares", "town"]].to_csv("wares.csv", index=False)
    glace(
        *FIT[:3], "--attributes", "wares.csv", "--column", "wares=text", "--column", "town=drop", *FAST, "-o", "w.glace"
    )
    glace("embed", "w.glace", "--attributes", "wares.csv", "-o", "a.parquet")
    shops[["id", "wares"]].rename(columns={"wares": "text"}).to_csv("texts.csv", index=False)
    glace("embed", "w.glace", "--texts", "texts.csv", "-o", "b.parquet")
    np.testing.assert_array_equal(load_embedding("a.parquet").mean, load_embedding("b.parquet").mean)
    assert load("w.glace").novelty(pd.DataFrame({"wares": ["bread hats"]})).unseen.tolist() == [0.5]
