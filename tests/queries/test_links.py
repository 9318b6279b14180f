"""Links by a link model: beside all candidates, beside scores of the same pairs, with reasons."""

from dataclasses import replace

import numpy as np
import pytest

from glace.errors import InputError
from glace.gaussian.embedding import Embedding, PlattScaling
from glace.graph.arrays import from_arrays
from glace.ids import NodeIds
from glace.queries.link_model import popularity_model
from glace.queries.links import LinkOptions, links, reasons
from glace.queries.pair_features import PairFeatures
from glace.queries.pair_scores import pair_scores_at

NODES = 70
IDS = [f"n{number}" for number in range(NODES)]
TYPES = ["user"] * 40 + ["item"] * 25 + ["shop"] * 5
OPTIONS = LinkOptions(0.1)
KINDS = ["undirected", "directed", "typed"]


def embedding(measure="symmetric_kl"):
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(NODES, 3)), np.exp(0.3 * rng.normal(size=(NODES, 3)))
    certainty = np.linspace(0, 1, NODES, dtype=np.float32)
    scaling = PlattScaling(2.0, 0.5)
    return Embedding(
        NodeIds(IDS), mean.astype(np.float32), variance.astype(np.float32), measure, scaling, certainty=certainty
    )


def graph(kind):
    rng = np.random.default_rng(1)
    if kind == "typed":  # users to items, items to shops
        edges = [(user, 40 + item) for user in range(40) for item in rng.choice(25, 3, replace=False)]
        edges += [(40 + item, 65 + rng.integers(5)) for item in range(25)]
        return from_arrays(np.array(edges), np.ones((NODES, 1), np.float32), ids=IDS, node_types=TYPES)
    drawn = np.argwhere(np.triu(rng.random((NODES, NODES)) < 0.06, 1))
    return from_arrays(drawn, np.ones((NODES, 1), np.float32), ids=IDS, directed=kind == "directed")


@pytest.fixture(scope="module", params=KINDS)
def case(request):
    """Nodes, graph, and a link model in which all features count."""
    nodes = embedding("kl" if request.param == "directed" else "symmetric_kl")
    whole = graph(request.param)
    model = popularity_model(PairFeatures(nodes, whole))
    rng = np.random.default_rng(2)
    count = len(model.names)
    model.regression.linear[3 if whole.directed else 2 :] = 2 * rng.random(count - (3 if whole.directed else 2))
    model.regression.quadratic[:] = 0.05 * rng.normal(size=(count, count))
    return nodes, whole, model


def ask(case, node=None, k=100, node_type=None, options=OPTIONS, **more):
    nodes, whole, model = case
    return links(nodes, whole, model, options, node, k, node_type, **more)


def positions(found):
    return np.array([[IDS.index(one), IDS.index(other)] for one, other in zip(found.source, found.target, strict=True)])


def all_candidates(case):
    """Every pair that is a candidate of its source, or of either end if the graph has no directions."""
    nodes, whole, _ = case
    targets = PairFeatures(nodes, whole).candidates(np.arange(NODES))[0]
    pairs = np.column_stack([np.repeat(np.arange(NODES), (targets >= 0).sum(axis=1)), targets[targets >= 0]])
    return np.unique(pairs if whole.directed else np.sort(pairs, axis=1), axis=0)


@pytest.mark.parametrize("k", [10, 10_000])
def test_links_of_the_graph_are_the_best_of_all_candidates(case, k):
    nodes, whole, model = case
    pairs = all_candidates(case)
    scores = model.scores(PairFeatures(nodes, whole).of_pairs(pairs))
    order = np.argsort(-scores, kind="stable")[:k]
    found = ask(case, k=k)
    assert len(found) == len(order)
    if k == 10:
        assert {*map(tuple, positions(found).tolist())} == {*map(tuple, pairs[order].tolist())}
    else:
        assert {*map(tuple, positions(found).tolist())} == {*map(tuple, pairs.tolist())}
    np.testing.assert_allclose(found.probability, model.probabilities(scores[order], whole.num_edges / 9), rtol=1e-9)
    assert (np.diff(found.probability) <= 0).all()
    assert not whole.known_edges(True).toarray()[tuple(positions(found).T)].any()


@pytest.mark.parametrize("node", [3, 45])
def test_links_of_a_node_have_the_scores_of_their_pairs(case, node):
    nodes, whole, model = case
    found = ask(case, IDS[node], k=15)
    assert set(found.source) == {IDS[node]}
    assert len(set(found.target)) == len(found) > 0
    scored = pair_scores_at(nodes, positions(found), whole, model, 0.1)
    np.testing.assert_array_equal(found.probability, scored.probability)
    np.testing.assert_array_equal(found.dissimilarity, scored.dissimilarity)
    np.testing.assert_array_equal(found.certainty, scored.certainty)
    assert scored.known is not None
    assert not scored.known.any()
    targets = PairFeatures(nodes, whole).candidates(np.array([node]))[0][0]
    every = np.array([[node, target] for target in targets if target >= 0])
    best = pair_scores_at(nodes, every, whole, model, 0.1).probability
    assert best is not None
    np.testing.assert_allclose(found.probability, np.sort(best)[::-1][:15])


def test_probabilities_are_proportional_to_the_missing_edges(case):
    few, more = (ask(case, k=2000, options=LinkOptions(fraction)) for fraction in (0.01, 0.1))
    assert more.source.tolist() == few.source.tolist()
    expected = few.probability * (1 / 9) / (1 / 99)
    np.testing.assert_allclose(more.probability, np.minimum(expected, 0.99))
    assert (expected < 0.99).any()


def test_only_types_that_edges_join():
    nodes, whole = embedding(), graph("typed")
    typed = nodes, whole, popularity_model(PairFeatures(nodes, whole))
    found = ask(typed, k=10_000)
    kinds = {tuple(sorted(pair)) for pair in zip(found.source_type, found.target_type, strict=True)}
    assert kinds == {("item", "user"), ("item", "shop")}
    to_shops = ask(typed, "n45", k=50, node_type="shop")
    assert set(to_shops.target_type) == {"shop"}
    assert len(to_shops) == 4
    with_shop = ask(typed, k=10_000, node_type="shop")
    assert all("shop" in pair for pair in zip(with_shop.source_type, with_shop.target_type, strict=True))
    with pytest.raises(InputError, match="no edge leads from type 'user' to type 'shop'"):
        ask(typed, "n0", node_type="shop")


def test_why_names_the_common_neighbours():
    # a and b share four neighbours; the one with the most edges is not named.
    edges = [("a", x) for x in "wxyz"] + [("b", x) for x in "wxyz"] + [("w", "p"), ("w", "q"), ("z", "p")]
    names = sorted({name for edge in edges for name in edge})
    pairs = np.array([[names.index(one), names.index(other)] for one, other in edges])
    whole = from_arrays(pairs, np.ones((len(names), 1), np.float32), ids=names)
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(len(names), 2)).astype(np.float32)
    mean[names.index("b")] = mean[names.index("a")]
    nodes = Embedding(NodeIds(names), mean, np.ones_like(mean), "symmetric_kl")
    case = nodes, whole, popularity_model(PairFeatures(nodes, whole))
    found = ask(case, "a", options=LinkOptions(0.1, why=True))
    reasons = dict(zip(found.target.tolist(), found.why.tolist(), strict=True))
    assert reasons["b"].startswith("common neighbours: x, y, z and 1 more; more alike than ")
    assert reasons["b"].endswith("% of random pairs; 4 and 4 edges")
    assert reasons["q"].endswith("common neighbours: w; 4 and 1 edges")
    assert ask(case, "a").why is None


def test_why_names_the_common_words():
    words = np.zeros((NODES, 50), np.float32)
    # All nodes have word 7, three have word 3, two each have 8, 9 and 10.
    words[:, 7] = words[:3, 3] = words[:2, [8, 9]] = words[[0, 2], 10] = 1
    whole = from_arrays(np.array([[3, 4]]), words)
    (only,) = whole.by_type().types
    named = whole.with_types([replace(only, feature_names=tuple(f"word {column}" for column in range(50)))])
    same = np.ones((NODES, 2), np.float32)
    nodes = Embedding(NodeIds.numbered(NODES), same, same, "symmetric_kl")
    pairs, far = np.array([[0, 1], [4, 5]]), np.full(2, 1e9)
    assert reasons(nodes, named, pairs, far).tolist() == [
        "common words: word 8, word 9, word 3 and 1 more; 0 and 0 edges",
        "common words: word 7; 1 and 0 edges",
    ]
    assert reasons(nodes, whole, pairs, far).tolist() == ["0 and 0 edges", "1 and 0 edges"], "no names are known"


def test_a_node_without_edges_is_proposed_popular_nodes():
    whole = graph("undirected")
    edges = whole.edges()
    kept = (edges != 69).all(axis=1)
    lonely = whole.with_edges(edges[kept], np.ones(kept.sum()))
    nodes = embedding()
    case = nodes, lonely, popularity_model(PairFeatures(nodes, lonely))
    found = ask(case, "n69", 1000)
    popular = np.argsort(-np.diff(lonely.adjacency.indptr), kind="stable")[:20]
    assert {IDS[node] for node in popular} <= set(found.target)


def test_progress_goes_to_the_end(case, monkeypatch):
    monkeypatch.setattr("glace.queries.links.NODES", 20)
    told: list[float] = []
    blockwise = ask(case, k=30, progress=told.append)
    assert told == pytest.approx([20 / 70, 40 / 70, 60 / 70, 1.0])
    monkeypatch.undo()
    assert ask(case, k=30).rows() == blockwise.rows(), "blocks change nothing"


def test_errors(case):
    nodes, whole, model = case
    with pytest.raises(InputError, match="the model keeps no edges, as its graph is too large; give the known edges"):
        links(nodes, None, model, OPTIONS)
    with pytest.raises(InputError, match="the known edges must have the nodes of the model, in the same order"):
        links(nodes, from_arrays(whole.edges(), np.ones((NODES, 1), np.float32)), model, OPTIONS)
    with pytest.raises(InputError, match="missing_edge_fraction must be above 0 and below 1, not 1"):
        ask(case, options=LinkOptions(1))
    with pytest.raises(InputError, match="no node 'x'"):
        ask(case, "x")
    with pytest.raises(InputError, match="k must be"):
        ask(case, k=0)
    if whole.node_types is None:
        with pytest.raises(InputError, match="no type 'item'; the graph has none"):
            ask(case, node_type="item")
