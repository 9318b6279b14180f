"""What fitted models say of their own answers: certainty, novelty, probabilities, missing edges."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import glace
from glace.errors import FormatError, InputError
from glace.experiments.splits import hide_nodes
from glace.io.folder import read_folder, write_folder
from glace.queries.novelty import NoveltyModel
from glace.rng import Streams

SETTLED: dict[str, Any] = {
    "dim": 16, "hidden": 64, "max_steps": 300, "neighbor_features": "mean", "dropout": 0.5,
    "offset": "learned", "n_jobs": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def graph():
    return glace.datasets.planted(600, communities=6, attributes=240, words=16, degree=8)


@pytest.fixture(scope="module")
def model(graph):
    return glace.GLACE(**SETTLED).fit(graph).model_


def thinned(matrix, share, random_state=0):
    rows = sp.coo_array(matrix)
    kept = np.random.default_rng(random_state).random(rows.nnz) >= share
    return sp.csr_array((rows.data[kept], (rows.row[kept], rows.col[kept])), shape=rows.shape)


def test_every_node_has_a_rank(model):
    assert model.embedding.certainty.shape == (600,)
    np.testing.assert_allclose(np.sort(model.embedding.certainty), np.linspace(0, 1, 600), atol=0.01)


def test_certainty_falls_when_attributes_are_removed(model, graph):
    whole = model.transform(graph.attributes).certainty
    half = model.transform(thinned(graph.attributes, 0.5)).certainty
    assert (half < whole)[whole > 0].mean() > 0.9
    assert (model.transform(sp.csr_array((3, 240))).certainty == 0).all()


def test_certainty_falls_when_edges_are_removed(model, graph):
    with_edges, without = model.embedding.certainty, model.transform(graph.attributes).certainty
    assert (without < with_edges).mean() > 0.9


def test_random_attributes_are_novel_and_hidden_nodes_are_not(graph):
    hidden = hide_nodes(graph, 0.2, Streams(0).numpy("hidden"))
    model = glace.GLACE(**SETTLED).fit(hidden.visible).model_
    real = sp.csr_array(hidden.hidden.matrix)
    random = real.copy()
    random.indices = np.random.default_rng(0).permutation(random.indices)
    like, unlike = model.novelty(real), model.novelty(random)
    assert like.is_high().mean() < 0.1
    # All attributes of this graph are equally rare: only that they do not go together tells.
    assert np.median(unlike.rank) > np.quantile(like.rank, 0.8)
    assert (like.unseen == 0).all()


def test_attributes_never_seen_are_counted(graph):
    wide = sp.csr_array(sp.hstack([graph.attributes, sp.csr_array((600, 5), dtype=np.float32)]))
    edges = graph.edges()
    model = glace.GLACE(dim=4, hidden=8, max_steps=5, ensemble_size=1).fit(glace.from_arrays(edges, wide)).model_
    row = np.zeros((3, 245), np.float32)
    row[0, :2], row[1, [0, 244]], row[2, 240:] = 1, 1, 1
    assert model.novelty(sp.csr_array(row)).unseen.tolist() == [0, 0.5, 1]
    assert model.novelty(sp.csr_array(row)).is_high()[2]


def test_words_outside_the_vocabulary_are_counted():
    texts = ["red apple tree", "red pear tree", "blue sea fish", "blue sea whale"] * 5
    edges = [(a, b) for a in range(20) for b in range(a) if a % 4 // 2 == b % 4 // 2]
    nodes = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    import pandas as pd

    graph = glace.from_tables(
        pd.DataFrame([(str(a), str(b)) for a, b in edges], columns=["source", "target"]), texts=pd.DataFrame(nodes)
    )
    model = glace.GLACE(dim=4, hidden=8, max_steps=5, ensemble_size=1).fit(graph).model_
    assert model.novelty(["red apple", "red balloon", "gizmo", ""]).unseen.tolist() == [0, 0.5, 1, 1]
    assert model.novelty(["gizmo", ""]).rank.tolist() == [1, 1]


def test_dense_attributes_far_from_all_are_novel():
    rng = np.random.default_rng(0)
    attributes = rng.normal(size=(200, 4)) + np.repeat(np.eye(4) * 4, 50, axis=0)
    edges = np.column_stack([np.arange(200), (np.arange(200) // 50) * 50 + rng.integers(0, 50, 200)])
    graph = glace.from_arrays(edges[edges[:, 0] != edges[:, 1]], attributes.astype(np.float32))
    model = glace.GLACE(dim=4, hidden=16, max_steps=50, ensemble_size=1).fit(graph).model_
    found = model.novelty(np.array([[1000.0, -1000, 1000, -1000], [4, 0, 0, 0]], np.float32))
    assert found.rank[0] > 0.9 > found.rank[1]
    assert found.unseen.tolist() == [0, 0]


def test_a_graph_without_attributes_has_certainty_and_nothing_novel(graph):
    model = glace.LINE(dim=4, max_steps=5).fit(graph).model_
    assert model.embedding.certainty is not None
    with pytest.raises(InputError, match="the model was trained without attributes"):
        model.novelty(graph.attributes)


def test_probabilities_are_judged_by_held_out_pairs(model):
    worth = model.calibration
    assert worth.pairs > 100
    assert 0 < worth.brier < 0.25
    assert sum(each.pairs for each in worth.bins) == worth.pairs


def test_without_held_out_edges_nobody_knows_what_probabilities_are_worth(graph):
    model = glace.GLACE(dim=4, hidden=8, ensemble_size=1, max_steps=2, validation_fraction=0.0).fit(graph).model_
    assert model.calibration is None


def test_it_is_all_in_the_model_file(model, graph, tmp_path):
    model.save(tmp_path / "m.glace")
    again = glace.load(tmp_path / "m.glace")
    np.testing.assert_array_equal(again.embedding.certainty, model.embedding.certainty)
    assert again.calibration == model.calibration
    assert again.graph is not None
    assert (again.graph.adjacency != graph.adjacency).nnz == 0
    assert again.graph.labels is not None
    assert (again.graph.labels.codes == graph.labels.codes).all()
    assert again.graph.labels.names == graph.labels.names
    for mine, theirs in zip(again.novelty(graph.attributes), model.novelty(graph.attributes), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    first, second = again.links(k=5), model.links(k=5)
    assert first.rows() == second.rows()


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
def test_certainty_is_in_embedding_files(model, tmp_path, ending):
    glace.write_embedding(model.embedding, tmp_path / f"e.{ending}")
    again = glace.load_embedding(tmp_path / f"e.{ending}")
    np.testing.assert_array_equal(again.certainty, model.embedding.certainty)


def test_a_large_graph_on_disk_gives_the_same_certainty_and_keeps_no_edges(graph, tmp_path, monkeypatch):
    monkeypatch.setattr("glace.training.train.LARGE", 1000)
    write_folder(graph, tmp_path / "g.graph")
    options: dict[str, Any] = {"dim": 4, "hidden": 8, "ensemble_size": 1, "max_steps": 3, "validation_fraction": 0.0}
    here, there = (glace.GLACE(**options).fit(each).model_ for each in (graph, read_folder(tmp_path / "g.graph")))
    np.testing.assert_array_equal(here.embedding.certainty, there.embedding.certainty)
    with pytest.raises(InputError, match="the model keeps no edges"):
        there.links()
    assert there.links(k=3, known=graph).rows() == here.links(k=3).rows()
    with pytest.raises(InputError, match="the known edges must have the nodes of the model, in the same order"):
        there.links(known=graph.take(np.arange(599, -1, -1)))


def test_no_rows_are_no_nodes(model, graph):
    with pytest.raises(InputError, match="there are no rows of attributes"):
        model.novelty(graph.attributes[:0])


def test_links_are_missing_edges(model, graph):
    found = model.links(k=50)
    positions = np.column_stack([graph.ids.positions(found.source), graph.ids.positions(found.target)])
    assert not graph.has_edges(positions).any()
    communities = graph.labels.codes[positions]
    assert (communities[:, 0] == communities[:, 1]).mean() > 0.9
    own = model.links(found.source[0], k=3)
    assert set(own.source) == {found.source[0]}
    assert (np.diff(own.probability) <= 0).all()


def test_links_by_an_index(model):
    pytest.importorskip("faiss", reason="approximate search needs faiss: pip install '.[search]'")
    exact, near = model.links(k=50, by="gaussian"), model.links(k=50, by="gaussian", approximate=True)
    assert len({*zip(exact.source, exact.target, strict=True)} & {*zip(near.source, near.target, strict=True)}) > 40


def test_what_is_common_must_fit_the_model(model):
    arrays = model.novelty_models[0].to_arrays()
    assert NoveltyModel.from_arrays(arrays, 240, counted=True).nodes == 600
    wrong = [
        {"center": np.array([np.nan, 0])},
        {"deviation": np.array([0.0, 1])},
        {"nodes": np.array(0)},
        {"column_counts": np.full(240, -1)},
        {"column_counts": np.zeros(240)},
        {"quantiles": np.zeros(3)},
    ]
    for change in wrong:
        with pytest.raises(FormatError, match="do not fit the model"):
            NoveltyModel.from_arrays({**arrays, **change}, 240, counted=True)
    for width, sparse in ((7, True), (240, False)):
        with pytest.raises(FormatError, match="do not fit the model"):
            NoveltyModel.from_arrays(arrays, width, counted=sparse)


@pytest.mark.parametrize("pairs", [np.full((2, 2), 600), np.full((2, 2), -1), np.zeros((2, 3), np.int64)])
def test_held_out_pairs_must_be_pairs_of_nodes(model, tmp_path, pairs):
    from glace.fitted.model import VERSION
    from glace.storage import container

    model.save(tmp_path / "m.glace")
    metadata, arrays = container.read(tmp_path / "m.glace", "glace-model", VERSION)
    for name in ("checksum", "kind", "format_version"):
        del metadata[name]
    changed = {**arrays, "validation/edges": pairs, "validation/non_edges": pairs}
    container.write(tmp_path / "bad.glace", "glace-model", VERSION, metadata, changed)
    with pytest.raises(FormatError, match="the validation pairs are not pairs of nodes"):
        glace.load(tmp_path / "bad.glace")


QUICK: dict[str, Any] = {"dim": 4, "hidden": 8, "ensemble_size": 1, "max_steps": 5, "n_jobs": 1}


def directed_graph(graph):
    return glace.from_arrays(graph.edges(), graph.attributes, directed=True)


def typed_graph(graph):
    kinds = np.where(np.arange(600) % 2 == 0, "even", "odd")
    return glace.from_arrays(graph.edges(), graph.attributes, node_types=kinds.tolist())


def tiny_graph(graph):
    return glace.from_arrays(np.array([[number, (number + step) % 30] for number in range(30) for step in (1, 2)]))


@pytest.mark.parametrize("method", [glace.GLACE, glace.LACE])
@pytest.mark.parametrize("made", [directed_graph, typed_graph, tiny_graph])
def test_every_kind_of_graph_and_method_has_expected_errors(graph, made, method):
    some = made(graph)
    model = method(**QUICK).fit(some).model_
    errors, ranks = model.embedding.expected_error, model.embedding.certainty
    assert ((errors > 0) & (errors < 1)).all()
    np.testing.assert_array_equal(np.argsort(-errors, kind="stable")[:1], np.argsort(ranks, kind="stable")[:1])
    assert len(model.doubts(some.ids.to_numpy().tolist()[:3])) == 3
    if some.has_attributes:
        new = model.transform(some.attributes[:9])
        assert (new.expected_error >= errors[:9]).mean() > 0.8


def test_expected_errors_are_those_found(model, graph):
    """Held-out pairs were not used for the Gaussians: their errors are those that the nodes of the pairs expect."""
    pairs = model.validation
    logits = model.embedding.platt_scaling.logits(model.embedding.dissimilarities_at(pairs.pairs()))
    wrong = (logits > 0) != pairs.truth()
    assert model.embedding.expected_error.mean() == pytest.approx(wrong.mean(), abs=0.05)


def test_neighbors_of_a_certainty_with_their_doubts(model):
    found = model.neighbors(3, k=20, min_certainty=0.5, why=True)
    assert (found.certainty >= 0.5).all()
    assert found.doubt.tolist() == model.doubts(found.id.tolist())
    assert "doubt" not in model.neighbors(3).columns()
    with pytest.raises(InputError, match="min_certainty must be from 0 to 1, not 2"):
        model.neighbors(3, min_certainty=2)
    blind = glace.Embedding(model.embedding.ids, model.embedding.mean, model.embedding.variance, "symmetric_kl")
    from glace.queries.neighbors import neighbors

    with pytest.raises(InputError, match="min_certainty needs certainties, which this embedding does not have"):
        neighbors(blind, None, 3, min_certainty=0.5)


def test_pairs_and_links_with_their_doubts(model):
    found = model.links(k=30, why=True)
    for row in found.rows():
        ends = [f"{node}: {doubt}" for node in (row["source"], row["target"]) if (doubt := model.doubts([node])[0])]
        assert row["doubt"] == " | ".join(ends)
    pairs = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    assert model.score_pairs(pairs, why=True).doubt.tolist() == found.doubt.tolist()
    assert any(found.doubt)


def test_a_set_holds_the_other_end_of_a_held_out_edge(model):
    """The sets come from the ranks of these edges, so that at least the promised share is in them."""
    ends = np.concatenate([model.validation.edges, model.validation.edges[:, ::-1]])
    held = [target in model.links(source, coverage=0.8).target for source, target in ends.tolist()]
    # Here the held-out edges are known, and no longer proposed: what is tested is the size.
    assert not any(held)
    sizes = {len(model.links(source, coverage=0.8)) for source in range(5)}
    assert sizes == {int(model.link_model.set_sizes[79])}
    with pytest.raises(InputError, match="coverage is about one node; give its id"):
        model.links(coverage=0.8)
    with pytest.raises(InputError, match="coverage needs the link model, and this model has none"):
        model.links(3, coverage=0.8, by="gaussian")
    with pytest.raises(InputError, match="coverage does not apply to new nodes"):
        model.links(model.embedding.take(np.arange(2)), coverage=0.8)


def test_a_list_is_cut_at_its_expected_precision(model):
    whole = model.links(k=2000)
    assert whole.expected_edges == pytest.approx(whole.probability.sum())
    wanted = float(whole.probability[:1000].mean()) * (1 - 1e-9)
    assert whole.probability.mean() < wanted
    cut = model.links(k=2000, expected_precision=wanted)
    assert cut.probability.mean() >= wanted
    assert len(cut) >= 1000
    assert whole.probability[: len(cut) + 1].mean() < wanted
    with pytest.raises(InputError, match="expected_precision must be above 0 and below 1, not 0"):
        model.links(expected_precision=0)
