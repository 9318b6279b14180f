"""What every method promises, run by every method; and what Gaussians promise beyond."""

import inspect

import numpy as np
import numpydoc.docscrape
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import glace
from glace.config.config import GAUSSIAN_DISSIMILARITIES
from glace.errors import InputError
from glace.estimators import LINE, PublishedGLACE, PublishedLACE
from glace.experiments.evaluation.link_prediction import attribute_prediction, link_prediction
from tests.conftest import small

METHODS = {
    "glace second": (glace.GLACE, {"proximity": "second", "max_steps": 400}),
    "glace both": (glace.GLACE, {"proximity": "both"}),
    **{f"glace {name}": (glace.GLACE, {"dissimilarity": name}) for name in GAUSSIAN_DISSIMILARITIES},
    "glace independent": (glace.GLACE, {"negative_sampling": "independent", "negative_power": 0.75}),
    "glace members": (glace.GLACE, {"ensemble_size": 4}),
    "glace bounded length": (glace.GLACE, {"hidden_length": "bounded"}),
    "glace linear": (glace.GLACE, {"activation": "linear", "hidden_length": "free", "offset": 0.0}),
    "lace first": (glace.LACE, {"max_steps": 300}),
    "lace both": (glace.LACE, {"proximity": "both", "max_steps": 400}),
    "lace published": (PublishedLACE, {"proximity": "first", "max_steps": 400}),
}


@pytest.fixture(params=METHODS, scope="module")
def method(request):
    estimator, options = METHODS[request.param]
    return lambda **more: estimator(**small(**options | more))


@pytest.fixture(scope="module")
def split(planted):
    return glace.hold_out(planted, 0.15, np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(method, split):
    return method().fit(split[0])


def test_planted_communities_are_found(method, model, split):
    """Trained scores high, untrained low; the best any method can do here is about 0.92."""
    untrained = method(max_steps=1, learning_rate=1e-9).fit(split[0])
    found = link_prediction(model.embedding_, split[1]).auc
    assert found > 0.75
    assert found > link_prediction(untrained.embedding_, split[1]).auc + 0.05


def test_shapes_and_ids(model, planted):
    embedding = model.embedding_
    width = 16 if model.proximity == "both" else 8
    assert embedding.mean.shape == (400, width)
    assert embedding.mean.dtype == np.float32
    assert embedding.ids == planted.ids
    assert (embedding.context is None) == (model.proximity == "first")
    if isinstance(model, glace.LACE | PublishedLACE):
        assert embedding.variance is None
        assert embedding.dissimilarity == "dot"
    else:
        assert embedding.variance.shape == (400, width)
        assert (embedding.variance > 0).all()


def test_transform_of_the_training_rows_gives_their_gaussians(model, planted):
    for rows in (planted.attributes, planted.attributes.toarray()):
        new = model.transform(rows)
        np.testing.assert_array_equal(new.mean, model.embedding_.mean)
        if new.context is not None:
            np.testing.assert_array_equal(new.context.mean, model.embedding_.context.mean)
    assert list(model.transform(planted.attributes[:3], ids=["x", "y", "z"]).ids) == ["x", "y", "z"]


def test_neighbors_of_a_node_are_of_its_community(model, planted):
    """A planted answer for each query: by chance one in ten would be."""
    same = []
    for node in range(0, 400, 20):
        found = planted.ids.positions(model.embedding_.neighbors(node, k=5).id)
        same += (planted.labels.codes[found] == planted.labels.codes[node]).tolist()
    assert np.mean(same) > 0.5


def test_the_same_seed_gives_the_same_bits(method, model, split):
    again = method().fit(split[0])
    np.testing.assert_array_equal(again.embedding_.mean, model.embedding_.mean)
    other = method(random_state=1).fit(split[0])
    assert not np.array_equal(other.embedding_.mean, model.embedding_.mean)


def test_saved_and_loaded_models_are_equal_to_the_bit(model, planted, tmp_path):
    model.save(tmp_path / "a.glace")
    loaded = glace.load(tmp_path / "a.glace")
    loaded.save(tmp_path / "b.glace")
    assert (tmp_path / "a.glace").read_bytes() == (tmp_path / "b.glace").read_bytes()
    np.testing.assert_array_equal(loaded.transform(planted.attributes).mean, model.transform(planted.attributes).mean)
    np.testing.assert_array_equal(loaded.embedding.mean, model.embedding_.mean)
    assert loaded.method == model.method
    assert loaded.config == model.config_
    assert loaded.history.validation_points == model.history_.validation_points
    copy = clone(model)
    copy.model_ = model.model_
    copy.set_params(dim=3, neighbor_features="none").save(tmp_path / "b.glace")  # set for another fit
    assert (tmp_path / "a.glace").read_bytes() == (tmp_path / "b.glace").read_bytes()


def test_parameters_are_scikit_learns(method, model):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "embedding_")
    assert copy.set_params(dim=3).dim == 3
    assert "max_steps=" in repr(copy)
    with pytest.raises(ValueError, match="Invalid parameter 'dims'"):
        copy.set_params(dims=3)


def test_the_docstring_describes_every_parameter(method):
    estimator = type(method())
    described = numpydoc.docscrape.ClassDoc(estimator)["Parameters"]
    assert [each.name for each in described] == list(inspect.signature(estimator).parameters)
    assert all(len(" ".join(each.desc)) > 15 for each in described)
    defaults = {each.name: each.type.partition("default=")[2] for each in described}
    assert defaults == {name: repr(value) for name, value in estimator().get_params().items()}


def test_notebooks_show_estimators(model):
    assert type(model).__name__ in model._repr_html_()


def test_numbers_of_numpy_are_options_too(planted, tmp_path):
    model = glace.GLACE(**small(dim=np.int64(4), random_state=np.int64(1), batch_size=64.0, max_steps=3))
    model.fit(planted, checkpoint=tmp_path / "c", checkpoint_seconds=0).save(tmp_path / "m")
    assert glace.load(tmp_path / "m").config.model.dim == 4


def test_another_width_is_refused(model):
    with pytest.raises(InputError, match="trained on 120 attributes, but these have 7"):
        model.transform(np.ones((2, 7)))


def test_unfitted_estimators_say_so(method, tmp_path):
    for use in (
        lambda: method().transform(np.ones((1, 3))),
        lambda: method().save(tmp_path / "m"),
        lambda: method().embedding_,
        lambda: method().update(None),
    ):
        with pytest.raises(NotFittedError, match=r"is not fitted yet; call fit\(graph\) first"):
            use()


def test_gaussians_predict_links_better_than_raw_attributes(planted, split):
    rest, held_out = split
    found = link_prediction(glace.GLACE(**small(max_steps=300)).fit(rest).embedding_, held_out)
    assert found.auc > attribute_prediction(rest, held_out).auc + 0.02


@pytest.mark.parametrize("share", [0, 0.05])
def test_shuffled_rows_change_nothing(planted, share):
    """Exactly: training goes by the order of the ids, whatever the order of the rows."""
    rng = np.random.default_rng(0)
    names = np.array([f"node {number:03}" for number in range(400)])
    edges = planted.edges()
    frames = (
        pl.DataFrame({"source": names[edges[:, 0]], "target": names[edges[:, 1]]}),
        pl.DataFrame({"id": names}).hstack(pl.DataFrame(planted.attributes.toarray())),
    )
    shuffled = [frame[rng.permutation(len(frame))] for frame in frames]
    options = small(max_steps=30, validation_fraction=share)
    plain = glace.GLACE(**options).fit(glace.from_tables(*frames)).embedding_
    mixed = glace.GLACE(**options).fit(glace.from_tables(*shuffled)).embedding_
    assert list(mixed.ids) == shuffled[1]["id"].to_list(), "the order of the rows is kept"
    np.testing.assert_array_equal(mixed.mean[mixed.ids.positions(names.tolist())], plain.mean)


def test_directed_graphs_are_told_by_kl(planted):
    directed = glace.from_arrays(planted.edges(), planted.attributes, directed=True)
    assert glace.GLACE(**small(max_steps=5)).fit(directed).embedding_.dissimilarity == "kl"
    assert glace.GLACE(**small(max_steps=5)).fit(planted).embedding_.dissimilarity == "symmetric_kl"


def test_direction_is_learned():
    """Edges run from one half of the nodes to the other, never back; kl must know which way."""
    rng = np.random.default_rng(0)
    edges = np.column_stack([rng.integers(0, 100, 2000), rng.integers(100, 200, 2000)])
    x = np.hstack([np.repeat(np.eye(2), 100, axis=0), rng.random((200, 5)) / 10])
    graph = glace.from_arrays(edges, x.astype(np.float32), directed=True)
    embedding = glace.GLACE(**small(max_steps=300)).fit(graph).embedding_
    forth = embedding.dissimilarities_at(edges)
    assert (forth < embedding.dissimilarities_at(edges[:, ::-1])).mean() > 0.85, "by chance it is half"


def test_without_attributes_nodes_are_known_by_their_identity(planted):
    bare = glace.from_arrays(planted.edges())
    model = glace.GLACE(**small(max_steps=200)).fit(bare)
    assert model.history_.validation_points[-1].auc > 0.65
    with pytest.raises(InputError, match="trained without attributes"):
        model.transform(np.ones((1, 400)))


def test_a_node_without_edges_has_the_gaussian_of_its_attributes(planted):
    """Where encoders see neighbours, a new node is one that has none."""
    edges = planted.edges()
    kept = edges[(edges >= 10).all(axis=1)]
    graph = planted.with_edges(kept, np.ones(len(kept), dtype=np.float32))
    options = small(neighbor_features="mean", neighbor_dropout=0.5, dropout=0.3, max_steps=150)
    model = glace.GLACE(**options).fit(graph)
    new = model.transform(planted.attributes)
    np.testing.assert_array_equal(new.mean[:10], model.embedding_.mean[:10])
    assert (np.abs(new.mean[10:] - model.embedding_.mean[10:]).max(axis=1) > 1e-4).mean() > 0.9
    codes = planted.labels.codes
    near, _ = model.embedding_.nearest_to(new, 6)
    assert (codes[near] == codes[:, None]).mean() > 0.4, "by chance one in ten would be"


def test_hashed_attributes_serve_nearly_as_well(planted, tmp_path):
    fits = [glace.GLACE(**small(n_hashed_features=width)).fit(planted) for width in (None, 64)]
    plain, hashed = (max(look.auc for look in fit.history_.validation_points) for fit in fits)
    assert hashed > plain - 0.1
    assert fits[1].model_.network.weights()["branches.0.encoders.first.input.own.0.weight"].shape[0] == 64
    fits[1].save(tmp_path / "m.glace")
    loaded = glace.load(tmp_path / "m.glace")
    new = loaded.transform(planted.attributes)
    np.testing.assert_array_equal(new.mean, fits[1].embedding_.mean)
    with pytest.raises(InputError, match="trained on 120 attributes, but these have 64"):
        loaded.transform(np.ones((1, 64)))


def test_the_published_glace_is_the_papers():
    model = PublishedGLACE()
    facts = (model.proximity, model.ensemble_size, model.neighbor_features, model.offset, model.negative_power)
    assert facts == ("both", 1, "none", 0.0, 0.75)
    assert model.config().model.open_options() == []


def test_line_looks_at_edges_only(planted):
    line = LINE(**small(max_steps=20))
    bare = line.fit(planted.without_attributes()).embedding_
    np.testing.assert_array_equal(line.fit(planted).embedding_.mean, bare.mean)
    with pytest.raises(InputError, match="trained without attributes"):
        line.transform(planted.attributes)
    with pytest.raises(InputError, match="a Graph is needed, not list"):
        line.fit([[0, 1]])  # type: ignore[arg-type]


def test_texts_travel_with_the_model(tmp_path):
    topics = {"animals": "cat dog fur tail paw", "music": "piano violin note bow string"}
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words.split(), 6)) for words in topics.values() for _ in range(40)]
    edges = [(a, b) for a in range(80) for b in rng.integers(0, 40, 4) + 40 * (a >= 40) if a != b]
    graph = glace.from_tables(
        pl.DataFrame(edges, schema=["source", "target"], orient="row"),
        texts=pl.DataFrame({"id": range(80), "text": texts}),
    )
    model = glace.GLACE(**small(max_steps=150)).fit(graph)
    model.save(tmp_path / "m")
    loaded = glace.load(tmp_path / "m")
    new = loaded.transform(["a dog with a tail", "the note of a violin"])
    near, _ = loaded.embedding.nearest_to(new, 5)
    assert (near[0] < 40).all()
    assert (near[1] >= 40).all()
    with pytest.raises(InputError, match="give a list of texts, not one string"):
        loaded.transform("a dog")


def test_texts_need_a_model_of_texts(fitted):
    with pytest.raises(InputError, match="not trained on texts"):
        fitted.transform(["a dog"])


def test_frames_are_taken_by_the_names_of_their_columns():
    rng = np.random.default_rng(0)
    nodes = pl.DataFrame({"id": range(50), "a": rng.random(50), "b": rng.random(50) * 1e6})
    edges = pl.DataFrame({"source": rng.integers(50, size=90), "target": rng.integers(50, size=90)})
    model = glace.GLACE(**small(max_steps=5, validation_fraction=0)).fit(glace.from_tables(edges, nodes))
    wanted = model.embedding_.mean
    for frame in (nodes, nodes.select("b", "id", "a"), nodes.to_pandas().set_index("id"), nodes.select("b", "a")):
        np.testing.assert_allclose(model.transform(frame).mean, wanted, rtol=1e-4, atol=1e-6)
    assert list(model.transform(nodes[10:12].select("b", "a", "id")).ids) == [10, 11]
    with pytest.raises(InputError, match="no column 'b'; the model needs its 2 attributes by name"):
        model.transform(nodes.select("id", "a"))
    with pytest.raises(InputError, match="column 'c' is not among the model's 2 attributes"):
        model.transform(nodes.with_columns(c=1.0))


def test_ids_of_new_nodes_must_match_their_rows(fitted):
    with pytest.raises(InputError, match="2 ids for 3 rows"):
        fitted.transform(np.ones((3, 120)), ids=["a", "b"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_new_attributes_must_be_finite(fitted, value):
    rows = np.ones((2, 120))
    rows[1, 4] = value
    for matrix in (rows, sp.csr_array(rows)):
        with pytest.raises(InputError, match="must be finite numbers, but row 2 has"):
            fitted.transform(matrix)


def test_only_graphs_are_fitted():
    with pytest.raises(InputError, match="a Graph is needed, not list; make one with"):
        glace.GLACE().fit([[0, 1]])  # type: ignore[arg-type]


@given(st.integers(0, 2**32), st.integers(3, 40), st.booleans(), st.booleans())
def test_any_small_graph_trains_or_is_refused(seed, nodes, directed, dense):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(nodes, size=(int(rng.integers(1, 60)), 2))
    x = rng.normal(size=(nodes, 4)) * 10.0 ** rng.integers(-3, 4)
    graph = glace.from_arrays(pairs, x if dense else sp.csr_array(x), ids=range(nodes), directed=directed)
    try:
        model = glace.GLACE(**small(max_steps=3, validation_fraction=0)).fit(graph)
    except InputError:
        return
    assert np.isfinite(model.embedding_.mean).all()
