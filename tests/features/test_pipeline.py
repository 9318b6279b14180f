"""Mixed columns: each kind against scikit-learn, new rows as those of the training, and one error for each misuse."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import glace
from glace.errors import FormatError, InputError
from glace.features.columns import RowLocator
from glace.features.layout import TableLayout
from glace.features.pipeline import Count, FeaturePipeline, parsed_columns
from glace.features.text import WORD
from glace.io.read import read_rows

EDGES = pd.DataFrame({"source": ["a", "b", "c", "d"], "target": ["b", "c", "d", "e"]})
SHOPS = pd.DataFrame(
    {
        "id": list("abcde"),
        "price": [1.0, 2.0, np.nan, 4.0, 90.0],
        "town": ["Bern", "Basel", "Bern", None, "Chur"],
        "wares": ["fresh bread", "bread, cheese", "", "old cheese", None],
        "floors": [1, 1, 1, 1, 1],
        "note": ["x", "y", "z", "u", "v"],
    }
)
KINDS = {"town": "category", "wares": "text", "note": "drop"}


def mixed(**changes):
    return glace.from_tables(EDGES, SHOPS.assign(**changes), columns=KINDS)


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def test_each_kind_is_what_scikit_learn_says():
    graph = mixed()
    assert graph.pipeline is not None
    assert graph.feature_names is None
    assert graph.pipeline.names() == (
        *("price", "town=Basel", "town=Bern", "town=Chur", "wares:bread", "wares:cheese", "floors"),
    )
    rows = dense(graph.attributes)
    prices = StandardScaler().fit_transform(SHOPS[["price"]])
    np.testing.assert_allclose(rows[:, 0], np.nan_to_num(prices[:, 0]) / np.sqrt(2), rtol=1e-6)
    towns = OneHotEncoder().fit(SHOPS[["town"]].dropna()).categories_[0]
    np.testing.assert_array_equal(rows[:, 1:4], (SHOPS[["town"]].to_numpy() == towns).astype(np.float32))
    words = TfidfVectorizer(token_pattern=WORD, sublinear_tf=True, stop_words="english", min_df=2)
    np.testing.assert_allclose(rows[:, 4:6], words.fit_transform(SHOPS["wares"].fillna("")).toarray(), rtol=1e-6)
    np.testing.assert_array_equal(rows[:, 6], 0)  # constant, so nothing


def test_numbers_and_categories_have_unit_length_together_and_outliers_are_cut_off():
    far = np.zeros(100)
    far[7] = 1e30
    nodes = pd.DataFrame({"id": [str(each) for each in range(100)], "x": far, "y": np.arange(100.0), "k": 1, "l": 2})
    edges = pd.DataFrame({"source": ["0"], "target": ["1"]})
    rows = dense(glace.from_tables(edges, nodes, columns={"k": "category", "l": "category"}).attributes)
    assert rows[7, 0] == np.float32(5) * np.float32(1 / np.sqrt(2))
    np.testing.assert_allclose(rows[:, 2:], 1 / np.sqrt(2))


def test_numbers_alone_stay_dense_and_missing_ones_are_counted():
    graph = glace.from_tables(EDGES, SHOPS[["id", "price", "floors"]], columns={})
    assert isinstance(graph.attributes, np.ndarray)
    assert graph.cleaning_report.missing_values == 1
    assert "missing values of attributes, taken as unknown: 1" in graph.cleaning_report.lines()


def test_what_is_missing_or_of_no_use_is_found():
    graph = glace.from_tables(EDGES, SHOPS, columns=KINDS | {"note": "category"})
    assert (graph.cleaning_report.missing_values, graph.cleaning_report.distinct_columns) == (1 + 1 + 2, 1)


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars"])
def test_new_rows_go_the_way_of_the_training(tmp_path, kind):
    """Training rows to the same bits, from a frame and from a file, whatever the order of columns."""
    graph = mixed()
    assert graph.pipeline is not None
    moved = SHOPS[["wares", "id", "town", "floors", "price"]]
    if kind in ("pandas", "polars"):
        found = graph.pipeline.matrix(moved if kind == "pandas" else pl.from_pandas(moved))
    else:
        path = tmp_path / f"shops.{kind}"
        moved.to_csv(path, index=False) if kind == "csv" else moved.to_parquet(path)
        found = read_rows(path, "attributes", pipeline=graph.pipeline).values
    assert dense(found).tobytes() == dense(graph.attributes).tobytes()


def test_what_was_never_seen_is_counted_and_adds_nothing():
    graph = mixed()
    assert graph.pipeline is not None
    new = SHOPS.assign(town=["Genf", "Bern", "Biel", None, ""], price=None)
    counts = graph.pipeline.counts(new)
    assert counts[1] == Count("town", 2, 2, "Genf", 1)
    assert counts[1].line() == (
        "values of 'town' taken as unknown: 2 never seen in training (first: 'Genf' in row 1), 2 missing"
    )
    assert [(each.column, each.missing) for each in counts] == [("price", 5), ("town", 2), ("wares", 2), ("floors", 0)]
    assert counts[3].line() is None
    rows = dense(graph.pipeline.matrix(new))
    assert rows[[0, 2, 3, 4], 1:4].sum() == 0
    assert (rows[:, 0] == 0).all()


def test_a_recipe_from_elsewhere_is_applied_and_the_unknown_counted():
    first = mixed()
    again = glace.from_tables(EDGES, SHOPS.assign(town="Genf", price=[3.0, 1, 2, 2, 2]), pipeline=first.pipeline)
    assert again.pipeline is first.pipeline
    assert again.cleaning_report.unknown_values == 5
    assert dense(again.attributes)[0, 0] == pytest.approx((3 - 24.25) / SHOPS.price.std(ddof=0) / np.sqrt(2))


def test_codes_are_the_same_from_files_and_frames_with_gaps(tmp_path):
    """7 is the category 7 as an integer, as the 7.0 of a frame with gaps, and as text; 07 is another."""
    nodes = pd.DataFrame({"id": list("abcde"), "code": [7, 7, 8, 9, 8]})
    pipeline = glace.from_tables(EDGES, nodes, columns={"code": "category"}).pipeline
    assert pipeline is not None
    assert pipeline.counts(pd.DataFrame({"code": [7.0, None, 9.5]}))[0] == Count("code", 1, 1, "9.5", 3)
    (tmp_path / "new.csv").write_text("id,code\nx,7\ny,07\nz,\n")
    assert read_rows(tmp_path / "new.csv", "attributes", pipeline=pipeline).counts == (Count("code", 1, 1, "07", 3),)


@pytest.mark.parametrize("ending", ["npz", "graph"])
def test_graphs_come_back_with_their_recipe(tmp_path, ending):
    graph = mixed()
    path = tmp_path / f"shops.{ending}"
    (glace.write_npz if ending == "npz" else glace.write_folder)(graph, path)
    again = glace.read_graph(path)
    assert graph.pipeline is not None
    assert graph.pipeline.same_as(again.pipeline)
    assert again.pipeline is not None
    assert dense(graph.pipeline.matrix(SHOPS)).tobytes() == dense(again.pipeline.matrix(SHOPS)).tobytes()


CELLS = st.one_of(st.none(), st.floats(), st.integers(-(2**60), 2**60), st.text(max_size=8), st.booleans())
COLUMN = st.one_of(
    st.lists(st.one_of(st.none(), st.floats()), min_size=5, max_size=5),
    st.lists(
        st.one_of(st.none(), st.text(max_size=8), st.sampled_from(["red sea", "red", ""])), min_size=5, max_size=5
    ),
    st.lists(CELLS, min_size=5, max_size=5),
)


@given(st.lists(COLUMN, min_size=1, max_size=3), st.lists(st.sampled_from(["number", "category", "text"]), min_size=3))
def test_any_table_gives_finite_attributes_or_an_input_error(columns, kinds):
    names = [f"column {place}" for place in range(len(columns))]
    try:
        table = pa.table({"id": list("abcde"), **dict(zip(names, columns, strict=True))})
    except (pa.ArrowException, OverflowError, UnicodeError):  # no frame has values of several kinds
        return
    try:
        graph = glace.from_tables(EDGES, table, columns=dict(zip(names, kinds, strict=False)))
    except InputError:
        return
    assert graph.pipeline is not None
    again = FeaturePipeline.from_bytes(graph.pipeline.to_bytes(), graph.num_attributes)
    assert np.isfinite(dense(graph.attributes)).all()
    assert dense(again.matrix(table)).tobytes() == (dense(graph.attributes)).tobytes()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"wares": "number"},
            "column 'wares' holds .*'fresh bread' in row 1.*; correct it, .*columns={'wares': 'category'}",
        ),
        ({"colour": "text"}, "'colour' is not a column of attributes; those are 'price', 'town'"),
        ({"id": "category"}, "'id' is not a column of attributes"),
        ({"town": "word"}, "column 'town' cannot be 'word'; kinds: number, category, text, sentence, drop"),
        ({"town": "text:model"}, "column 'town' cannot be 'text:model'"),
        ({"town": 3}, "column 'town' cannot be 3"),
        ({"wares": "sentence"}, "name the sentence model, as sentence:MODEL"),
        (KINDS | {"price": "text"}, "column 'price' is a text, but holds double; expected text, or another"),
        (KINDS | {"note": "text"}, "column 'note': no word occurs in at least 2 of 5 texts"),
        (dict.fromkeys(SHOPS.columns[1:], "drop"), "all columns are dropped"),
        (["town"], "columns must map names to kinds, such as .*, not list"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(columns, message):
    with pytest.raises(InputError, match=message):
        glace.from_tables(EDGES, SHOPS, columns=columns)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (SHOPS.assign(town=""), "column 'town' has no value at all"),
        (SHOPS.assign(price=[1, 2, 3, np.inf, 1]), "row 4: column 'price' is inf, not a finite"),
        (SHOPS.assign(town=[[1], [2], [3], [4], [5]]), "column 'town' is a category, but holds list"),
    ],
)
def test_values_that_do_not_fit_are_refused(table, message):
    with pytest.raises(InputError, match=message):
        glace.from_tables(EDGES, table, columns=KINDS)


def test_what_kinds_do_not_go_with(tmp_path):
    pipeline = mixed().pipeline
    with pytest.raises(InputError, match="give columns or a pipeline, not both"):
        glace.from_tables(EDGES, SHOPS, columns=KINDS, pipeline=pipeline)
    with pytest.raises(InputError, match="need a table of attributes"):
        glace.from_tables(EDGES, texts=SHOPS[["id", "wares"]], columns={"wares": "text"})
    lists = pa.table({"id": list("abcde"), "columns": [[0]] * 5, "values": [[1.0]] * 5})
    with pytest.raises(InputError, match="sparse rows hold numbers only"):
        glace.from_tables(EDGES, lists, columns={})
    EDGES.to_csv(tmp_path / "edges.csv", index=False, header=False)
    (tmp_path / "rows.svm").write_text("1 0:1\n")
    with pytest.raises(InputError, match="kinds of columns need column names, but the file has none"):
        glace.read_tables(tmp_path / "edges.csv", tmp_path / "rows.svm", columns={}, layout=TableLayout(header=False))
    SHOPS.to_csv(tmp_path / "shops.csv", index=False, header=False)
    with pytest.raises(InputError, match="kinds of columns need column names, but the file has none"):
        glace.read_tables(
            tmp_path / "edges.csv", tmp_path / "shops.csv", columns={"town": "text"}, layout=TableLayout(header=False)
        )


def test_new_tables_that_do_not_fit_are_refused():
    pipeline = mixed().pipeline
    assert pipeline is not None
    with pytest.raises(InputError, match="no column 'town', which the pipeline"):
        pipeline.counts(SHOPS.drop(columns="town"))
    with pytest.raises(InputError, match="column 'colour' is not among the model's 4 attributes"):
        glace.from_tables(EDGES, SHOPS.assign(colour=1), pipeline=pipeline)
    assert pipeline.chosen(pa.table(SHOPS), "id", RowLocator("new")).column_names == ["id", *pipeline.table_names]


def test_a_column_of_numbers_with_a_word_in_it_tells_how_to_say_what_it_is():
    with pytest.raises(
        InputError, match=r"as category, text or drop, .*with node types by its type \(columns=\{'size': 'category'\}\)"
    ):
        glace.from_tables(EDGES, pd.DataFrame({"id": list("abcde"), "size": ["1", "2", "3", "4", "tall"]}))


def test_kinds_on_the_command_line():
    assert parsed_columns(["a=b=text", "c=sentence:./x=y"]) == {"a=b": "text", "c": "sentence:./x=y"}
    for given_, message in (
        (["a"], "NAME=KIND, not 'a'"),
        (["a=word"], "column 'a' cannot be 'word'"),
        (["a=text", "a=drop"], "twice"),
    ):
        with pytest.raises(InputError, match=message):
            parsed_columns(given_)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts["columns"][0].update(deviation=0),
        lambda facts: facts["columns"][0].update(mean=float("nan")),
        lambda facts: facts["columns"][0].update(kind="word"),
        lambda facts: facts["columns"][0].update(name=3),
        lambda facts: facts["columns"][1]["values"].append("Bern"),
        lambda facts: facts["columns"][1].update(values="Bern"),
        lambda facts: facts["columns"][2]["vocabulary"]["idf"].append(1.0),
        lambda facts: facts["columns"][2]["vocabulary"].update(idf=[float("inf")] * 2),
        lambda facts: facts["columns"].clear(),
        lambda facts: facts["columns"].pop(),
        lambda facts: facts["columns"].append(facts["columns"][0]),
        lambda facts: facts["columns"].append({"kind": "sentence", "name": "s", "model": "m", "probe": []}),
        lambda facts: facts["columns"].append({"kind": "sentence", "name": "s", "model": 1, "probe": [1]}),
        lambda facts: facts.pop("dropped"),
    ],
)
def test_a_damaged_recipe_is_refused(change):
    pipeline = mixed().pipeline
    assert pipeline is not None
    facts = json.loads(pipeline.to_bytes().tobytes())
    change(facts)
    content = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    with pytest.raises(FormatError, match="the pipeline of the attributes is damaged|the pipeline makes 6 attributes"):
        FeaturePipeline.from_bytes(content, pipeline.width)


def test_what_is_no_json_is_refused():
    for content in (b"\xff", b"[]", b"{"):
        with pytest.raises(FormatError, match="the pipeline of the attributes is damaged"):
            FeaturePipeline.from_bytes(np.frombuffer(content, np.uint8), 1)
