"""The artefact and its files."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glace.errors import FormatError, GlaceError, InputError
from glace.gaussian import embedding_file
from glace.gaussian.dissimilarity import Gaussian, named, wide
from glace.gaussian.embedding import Embedding, PlattScaling
from glace.gaussian.embedding_file import read_embedding, write_embedding
from glace.ids import NodeIds

FORMATS = ["parquet", "arrow", "npz"]


def embedding(ids=("a", "b", "c"), dim=4, points=False, context=False):
    rng = np.random.default_rng(0)
    shape = (len(ids), dim)
    variance = None if points else np.exp(rng.normal(size=shape)).astype(np.float32)
    name = "dot" if points else "symmetric_kl"
    other = Gaussian(rng.normal(size=shape).astype(np.float32), variance) if context else None
    mean = rng.normal(size=shape).astype(np.float32)
    return Embedding(NodeIds(list(ids)), mean, variance, name, PlattScaling(2.5, 0.5), context=other)


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("ids", [("a", "ü", "c d"), (7, 3, 5)])
def test_round_trip_keeps_everything(tmp_path, ending, points, context, ids):
    before = embedding(ids, points=points, context=context)
    write_embedding(before, tmp_path / f"e.{ending}")
    after = read_embedding(tmp_path / f"e.{ending}")
    assert list(after.ids) == list(ids)
    np.testing.assert_array_equal(after.mean, before.mean)
    assert (after.variance is None) == points
    if not points:
        np.testing.assert_array_equal(after.variance, before.variance)
    assert (after.context is None) != context
    if context:
        assert after.context is not None
        assert before.context is not None
        np.testing.assert_array_equal(after.context.mean, before.context.mean)
    assert (after.dissimilarity, after.platt_scaling) == (before.dissimilarity, before.platt_scaling)


@pytest.mark.parametrize("ending", FORMATS)
def test_certainties_are_written_and_read_back(tmp_path, ending):
    write_embedding(certain(), tmp_path / f"e.{ending}")
    found = read_embedding(tmp_path / f"e.{ending}").certainty
    assert found is not None
    assert found.tolist() == [0.0, 1.0, 0.5]


def certain():
    return replace(embedding(), certainty=np.array([0, 1, 0.5], np.float32))


def test_certainties_go_with_their_nodes():
    e = certain()
    assert e[["c", "a"]].certainty.tolist() == [0.5, 0.0]
    found = e.neighbors("a")
    assert found.certainty.tolist() == [{"b": 1.0, "c": 0.5}[node] for node in found.id]
    assert e.to_pandas()["certainty"].tolist() == [0.0, 1.0, 0.5]
    assert e.to_arrow()["certainty"].to_pylist() == [0.0, 1.0, 0.5]
    assert embedding().neighbors("a").certainty is None


@pytest.mark.parametrize("ending", FORMATS)
def test_novel_nodes_are_written_and_read_back(tmp_path, ending):
    before = replace(embedding(), novel=np.array([False, True, False]))
    write_embedding(before, tmp_path / f"e.{ending}")
    after = read_embedding(tmp_path / f"e.{ending}")
    assert after.novel is not None
    assert after.novel.tolist() == [False, True, False]
    selected = after[["b", "a"]].novel
    assert selected is not None
    assert selected.tolist() == [True, False]
    write_embedding(embedding(), tmp_path / f"e.{ending}")
    assert read_embedding(tmp_path / f"e.{ending}").novel is None


def test_answers_to_novel_nodes_are_marked():
    known, new = embedding(), replace(embedding(("x", "y", "z")), novel=np.array([False, True, False]))
    assert known.neighbors_of(new, 2).novel.tolist() == [False, False, True, True, False, False]
    assert known.neighbors("a").novel is None
    for wrong in (np.array([True]), np.array([0, 1, 0])):
        with pytest.raises(InputError, match="novel must be an array of 3 booleans, one per node"):
            replace(known, novel=wrong)


@pytest.mark.parametrize(
    ("certainty", "message"),
    [
        ([0.5, 0.5], r"certainty must be 3 numbers, not of the shape \(2,\)"),
        ([0.5, 0.5, 1.01], "certainty must be from 0 to 1"),
        ([-0.01, 0.5, 1.0], "certainty must be from 0 to 1"),
        ([0.5, np.nan, 1.0], "certainty must be from 0 to 1"),
    ],
)
def test_certainties_that_are_none_are_refused(certainty, message):
    with pytest.raises(InputError, match=message):
        replace(embedding(), certainty=np.array(certainty, np.float32))


def test_parquet_has_fixed_size_lists(tmp_path):
    write_embedding(embedding(), tmp_path / "e.parquet")
    schema = pa.parquet.read_schema(tmp_path / "e.parquet")
    assert schema.names == ["id", "mean", "variance"]
    assert schema.field("mean").type.list_size == 4


def test_csv_has_a_column_a_number(tmp_path):
    write_embedding(embedding(), tmp_path / "e.csv")
    table = pa.csv.read_csv(tmp_path / "e.csv")
    assert table.column_names == ["id", *(f"mean_{i}" for i in range(4)), *(f"variance_{i}" for i in range(4))]
    np.testing.assert_allclose(table["variance_2"].to_numpy(), embedding().variance[:, 2], rtol=1e-6)


def test_arrow_file_is_mapped_not_loaded(tmp_path):
    write_embedding(embedding(tuple(range(5000)), dim=64), tmp_path / "e.arrow")
    before = pa.total_allocated_bytes()
    read = read_embedding(tmp_path / "e.arrow")
    assert pa.total_allocated_bytes() - before < read.mean.nbytes / 10
    assert not read.mean.flags.writeable


@pytest.mark.parametrize("ending", FORMATS)
@given(st.binary(min_size=1, max_size=300))
def test_junk_is_refused(tmp_path_factory, ending, junk):
    path = tmp_path_factory.mktemp("junk") / f"e.{ending}"
    path.write_bytes(junk)
    with pytest.raises(FormatError, match="cannot read"):
        read_embedding(path)


@pytest.mark.parametrize("ending", FORMATS)
def test_cut_off_files_are_refused(tmp_path, ending):
    path = tmp_path / f"e.{ending}"
    write_embedding(embedding(), path)
    whole = path.read_bytes()
    for size in range(1, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(GlaceError):
            read_embedding(path)


def test_ids_that_npz_would_cut_are_refused(tmp_path):
    with pytest.raises(InputError, match="ends in a NUL character"):
        write_embedding(embedding(("a\0", "b", "c")), tmp_path / "e.npz")


def test_unknown_endings_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot be written as .*\.xls'; the name must end in \.parquet"):
        write_embedding(embedding(), tmp_path / "e.xls")
    with pytest.raises(InputError, match=r"cannot be read as 'e\.csv'"):
        read_embedding("e.csv")


def test_other_parquet_files_are_refused(tmp_path):
    pa.parquet.write_table(pa.table({"x": [1]}), tmp_path / "e.parquet")
    with pytest.raises(FormatError, match="not an embedding written by glace"):
        read_embedding(tmp_path / "e.parquet")


def test_neighbors_of_a_node_exclude_it():
    e = embedding()
    found = e.neighbors("b", k=9)
    assert sorted(found.id) == ["a", "c"]
    assert (np.diff(found.dissimilarity) >= 0).all()


def test_only_the_allowed_nodes_are_answers():
    e = embedding(tuple("abcdef"))
    allowed = np.array([True, True, False, True, False, True])
    assert sorted(e.neighbors("b", exclude=["f"], among=allowed).id) == ["a", "d"]
    for wrong in (allowed[:3], allowed.astype(np.int64)):
        with pytest.raises(InputError, match="among must be an array of 6 booleans, one per node"):
            e.neighbors("b", among=wrong)


def test_another_measure_has_no_variance_terms():
    e = embedding()
    assert all(e.neighbors("a", dissimilarity=name).variance_term is not None for name in (None, "symmetric_kl"))
    other = e.neighbors("a", dissimilarity="kl")
    assert other.variance_term is None
    pairs = np.array([[0, "abc".index(node)] for node in other.id])
    forth = [named("kl").direct(wide(e.gaussian[a]), wide(e.gaussian[b])) for a, b in pairs]
    np.testing.assert_allclose(other.dissimilarity, forth)
    with pytest.raises(InputError, match="kl needs variances, but these are points; use the measure `dot`"):
        embedding(points=True).neighbors("a", dissimilarity="kl")


@pytest.mark.parametrize("context", [False, True])
def test_the_variance_term_is_the_dissimilarity_of_equal_means(context):
    e = embedding(context=context)
    other = Gaussian(np.ones((3, 4), np.float32), e.context.variance) if e.context else None
    equal = replace(e, mean=np.ones((3, 4), np.float32), context=other)
    pairs = np.array([[0, 1], [2, 0], [1, 1]])
    terms = e.variance_terms_at(pairs)
    np.testing.assert_allclose(terms, equal.dissimilarities_at(pairs), rtol=1e-6)
    assert (terms[:2] > 0).all()
    assert (terms <= e.dissimilarities_at(pairs)).all()
    assert embedding(points=True).variance_terms_at(pairs).tolist() == [0, 0, 0]


def test_pairs_of_two_embeddings():
    """New nodes are the sources, known ones the targets."""
    e, new = embedding(), embedding(("x", "y"))
    found = new.take(np.array([1, 0]))
    np.testing.assert_array_equal(e.dissimilarities_at(np.array([[0, 2]]), found), new_to_old(new, e, 1, 2))
    np.testing.assert_array_equal(
        e.variance_terms_at(np.array([[0, 2]]), found), new_to_old(new._centered(), e._centered(), 1, 2)
    )


def new_to_old(new, old, source, target):
    return [old.measure.direct(wide(new.gaussian[source]), wide(old.gaussian[target]))]


def test_unknown_node_suggests_one():
    with pytest.raises(InputError, match="no node 'dogs'; did you mean dog"):
        embedding(("dog", "cat", "piano")).neighbors("dogs")


def test_with_a_context_both_ways_count():
    e = embedding(context=True)
    forth = [e.measure.direct(e.gaussian[a], e.context[b]) for a, b in ((0, 1), (1, 0))]
    assert e.dissimilarities([("a", "b")])[0] == pytest.approx(sum(forth) / 2, rel=1e-6)
    assert e.nearest_to(e[["a"]], exclude=[[0, 2]])[1][0, 0] == pytest.approx(e.dissimilarities([("a", "b")])[0])


def test_neighbors_leave_the_context_aside():
    e = embedding(context=True)
    alone = Embedding(e.ids, e.mean, e.variance, e.dissimilarity)
    assert e.neighbors("a").rows() == alone.neighbors("a").rows()
    assert e.neighbors("a").dissimilarity[0] != e.nearest_to(e[["a"]], exclude=[[0]])[1][0, 0]


def test_one_pair_is_not_a_list_of_pairs():
    with pytest.raises(InputError, match="give a list of pairs of ids"):
        embedding().dissimilarities(("a", "b"))


def test_embeddings_of_two_models_are_not_compared():
    with pytest.raises(InputError, match="come from different models"):
        embedding().nearest_to(embedding(context=True))
    with pytest.raises(InputError, match="come from different models"):
        embedding().neighbors_of(embedding(context=True))


def test_scores_and_probabilities():
    e = embedding()
    near = e.dissimilarities([("a", "b"), ("b", "c")])
    np.testing.assert_allclose(near, e.dissimilarities_at(np.array([[0, 1], [1, 2]])))
    np.testing.assert_allclose(e.probabilities(near), 1 / (1 + np.exp(0.5 * (near - 2.5))))


def test_log_variance_grows_with_the_variance_and_points_have_none():
    e = embedding()
    wider = Embedding(e.ids, e.mean, e.variance * 2, e.dissimilarity)
    np.testing.assert_allclose(wider.mean_log_variance() - e.mean_log_variance(), np.log(2), rtol=1e-6)
    with pytest.raises(InputError, match="points have no variance"):
        embedding(points=True).mean_log_variance()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": np.zeros((2, 4), np.float32)}, "3 ids need a mean with as many rows"),
        ({"variance": np.ones((3, 5), np.float32)}, r"variance has the shape \(3, 5\), but mean has \(3, 4\)"),
        ({"variance": None}, "symmetric_kl needs variances"),
        ({"variance": np.zeros((3, 4), np.float32)}, "variances above 0"),
        ({"mean": np.full((3, 4), np.nan, np.float32)}, "must be finite"),
        ({"platt_scaling": PlattScaling(float("inf"))}, "platt_scaling must be finite, with a slope above 0"),
        ({"platt_scaling": PlattScaling(0.0, 0.0)}, r"slope above 0, not PlattScaling\(offset=0.0, slope=0.0\)"),
        ({"context": Gaussian(np.ones((3, 2), np.float32), np.ones((3, 2), np.float32))}, "context_mean has the shape"),
        ({"context": Gaussian(np.ones((3, 4), np.float32), None)}, "needs variances; points have only"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, message):
    e = embedding()
    parts = {"ids": e.ids, "mean": e.mean, "variance": e.variance, "dissimilarity": e.dissimilarity} | change
    with pytest.raises(InputError, match=message):
        Embedding(**parts)


@pytest.mark.parametrize("ending", FORMATS)
def test_types_are_written_and_not_read_back(tmp_path, ending):
    before, path = embedding(), tmp_path / f"e.{ending}"
    write_embedding(before, path, ["word", None, "meaning"])
    after = read_embedding(path)
    np.testing.assert_array_equal(after.mean, before.mean)
    assert list(after.ids) == ["a", "b", "c"]
    if ending == "npz":
        assert np.load(path)["types"].tolist() == ["word", "", "meaning"]
    else:
        read = pa.parquet.read_table if ending == "parquet" else pa.feather.read_table
        assert read(path)["type"].to_pylist() == ["word", None, "meaning"]


def test_types_stand_beside_the_ids_of_a_csv(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_file, "ROWS", 2)  # several blocks
    write_embedding(certain(), tmp_path / "e.csv", ["word", None, "meaning"])
    table = pa.csv.read_csv(tmp_path / "e.csv")
    assert table.column_names[:4] == ["id", "type", "certainty", "mean_0"]
    assert [table[name].to_pylist() for name in ("id", "type")] == [["a", "b", "c"], ["word", "", "meaning"]]
    assert table["certainty"].to_pylist() == [0.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("types", "match"), [(["word"], "1 types for 3 nodes; give one"), ([1, 2, 3], "types must be strings or None")]
)
def test_types_that_cannot_be_written(tmp_path, types, match):
    with pytest.raises(InputError, match=match):
        write_embedding(embedding(), tmp_path / "e.parquet", types)
    assert list(tmp_path.iterdir()) == []


def test_an_embedding_is_an_array_a_mapping_and_a_table():
    e = embedding(context=True)
    assert np.asarray(e).shape == (3, 4)
    assert np.asarray(e, dtype=np.float64).dtype == np.float64
    np.testing.assert_array_equal(e["b"].mean, e.mean[1])
    np.testing.assert_array_equal(e["b"].variance, e.variance[1])
    part = e[["c", "a"]]
    assert list(part) == ["c", "a"]
    np.testing.assert_array_equal(part.mean, e.mean[[2, 0]])
    assert "b" in e
    assert "z" not in e
    with pytest.raises(InputError, match="no node 'z'"):
        e["z"]
    frame = e.to_pandas()
    assert frame.index.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(frame[["mean_0", "mean_3"]].to_numpy(), e.mean[:, [0, 3]])
    assert e.to_arrow().column_names == ["id", "mean", "variance", "context_mean", "context_variance"]


def test_what_an_embedding_shows():
    assert repr(embedding()) == "Embedding(3 Gaussians with 4 dimensions, symmetric_kl)"
    assert repr(embedding(points=True)) == "Embedding(3 points with 4 dimensions, dot)"
    assert "<table" in embedding()._repr_html_()
    assert "<table" in embedding().neighbors("a")._repr_html_()
