"""Clusters of planted communities: their number, their members, their names."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import glace
from glace.categories import Categories
from glace.errors import InputError
from glace.gaussian.embedding import Embedding
from glace.graph.arrays import from_arrays
from glace.ids import NodeIds
from glace.queries import clusters as module
from glace.queries.clusters import clusters, modularity

TOPICS = {"pets": "cat dog fur paw", "music": "piano violin note string", "fruit": "apple pear plum seed"}


@pytest.fixture
def truth():
    return np.repeat([0, 1, 2], [30, 20, 10])


@pytest.fixture
def embedding(truth):
    """Three groups of Gaussians, far from each other by their means."""
    rng = np.random.default_rng(0)
    mean = 9 * np.eye(3)[truth] + rng.normal(size=(60, 3))
    variance = np.exp(rng.normal(size=(60, 3)) / 4)
    return Embedding(NodeIds.numbered(60), mean.astype(np.float32), variance.astype(np.float32), "symmetric_kl")


@pytest.fixture
def edges(truth):
    rng = np.random.default_rng(0)
    same = [(a, b) for a in range(60) for b in range(a) if truth[a] == truth[b] and rng.random() < 0.3]
    return [*same, (0, 59), (0, 30), (31, 58)]


def test_planted_groups_are_found_the_largest_first(embedding, edges, truth):
    found = clusters(embedding, from_arrays(edges, ids=range(60)))
    assert found.codes.tolist() == truth.tolist()
    assert found.size.tolist() == [30, 20, 10]
    assert found.cluster.tolist() == [0, 1, 2]
    adjacency = nx.Graph(edges)
    wanted = nx.community.modularity(adjacency, [set(np.flatnonzero(truth == c).tolist()) for c in range(3)])
    assert found.modularity == pytest.approx(wanted)
    crossing = [sum(truth[a] == c or truth[b] == c for a, b in edges[-3:]) for c in range(3)]
    inside = [sum(2 * (truth[a] == c == truth[b]) for a, b in edges) for c in range(3)]
    assert found.edges_inside == pytest.approx([i / (i + o) for i, o in zip(inside, crossing, strict=True)])


def test_without_edges_the_silhouette_decides(embedding, truth):
    found = clusters(embedding, None)
    assert found.codes.tolist() == truth.tolist()
    assert found.modularity is None
    assert "edges_inside" not in found.columns()
    nearest = [each.split(", ")[0] for each in found.examples.tolist()]
    for c, node in enumerate(map(int, nearest)):
        own = embedding.mean[truth == c]
        assert (
            np.linalg.norm(embedding.mean[node] - own.mean(axis=0))
            < np.linalg.norm(own - own.mean(axis=0), axis=1).mean()
        )
    assert found.name.tolist() == found.examples.tolist()


def test_groups_that_differ_by_their_variances_alone():
    rng = np.random.default_rng(0)
    narrow = np.arange(40) < 15
    variance = np.where(narrow, 0.01, 9.0)[:, None] * np.exp(rng.normal(size=(40, 2)) / 10)
    mean = 0.01 * rng.normal(size=(40, 2))
    nodes = Embedding(NodeIds.numbered(40), mean.astype(np.float32), variance.astype(np.float32), "symmetric_kl")
    assert (clusters(nodes, None, 2).codes == narrow).all()
    points = Embedding(NodeIds.numbered(40), variance.astype(np.float32), None, "dot")
    assert (clusters(points, None, 2).codes == narrow).all()


def test_a_given_number(embedding, edges):
    graph = from_arrays(edges, ids=range(60))
    assert len(clusters(embedding, graph, 7)) == 7
    assert clusters(embedding, graph, 1).modularity == pytest.approx(0)
    with pytest.raises(InputError, match="must be from 1 to the number of nodes, 60, not 61"):
        clusters(embedding, graph, 61)


def test_a_sample_stands_for_many_nodes(embedding, truth, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 40)
    assert clusters(embedding, None, 3).codes.tolist() == truth.tolist()


def test_names_are_words_that_distinguish(embedding, edges, truth):
    rng = np.random.default_rng(1)
    words = ["the", *" ".join(TOPICS.values()).split(), *(f"rare {place}" for place in range(60))]
    has = np.zeros((60, 73))
    has[np.arange(60), 13 + np.arange(60)] = 1
    has[:, 0] = 1
    for node, topic in enumerate(truth):
        has[node, 1 + 4 * topic + rng.choice(4, 3, replace=False)] = 1
    graph = from_arrays(edges, sp.csr_array(has), ids=range(60), labels=np.array(list(TOPICS))[truth])
    named = graph.with_attributes(graph.attributes, tuple(words))
    found = clusters(embedding, named)
    for name, topic in zip(found.name.tolist(), TOPICS.values(), strict=True):
        assert len(name.split(", ")) == 3
        assert set(name.split(", ")) <= set(topic.split())
    assert found.label is not None
    assert found.label_share is not None
    assert found.label.tolist() == list(TOPICS)
    assert found.label_share.tolist() == [1, 1, 1]
    assert clusters(embedding, graph).name.tolist() == list(TOPICS), "without names of words, by labels"


def test_names_are_columns_that_are_high_or_low(embedding, edges, truth):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(60, 4)) + 5 * np.column_stack(
        [truth == 0, truth == 1, -(truth == 2).astype(float), truth < 0]
    )
    graph = from_arrays(edges, ids=range(60)).with_attributes(values, ("age", "income", "height", "noise"))
    found = clusters(embedding, graph)
    assert [name.split(", ")[0] for name in found.name.tolist()] == ["age high", "income high", "height low"]


def test_labels_that_few_nodes_have(embedding):
    graph = from_arrays([], ids=range(60), labels=["x", *[None] * 29, *["y"] * 3, "x", *[None] * 26])
    found = clusters(embedding, graph, 3)
    assert found.label is not None
    assert found.label_share is not None
    assert found.label.tolist() == ["x", "y", None]
    assert found.label_share.tolist() == [1.0, 0.75, 0.0]
    assert found.name.tolist()[2] == found.examples.tolist()[2]


def test_modularity_is_networkxs():
    rng = np.random.default_rng(0)
    graph = nx.gnm_random_graph(40, 120, seed=1)
    for a, b in graph.edges:
        graph[a][b]["weight"] = float(rng.random())
    codes = rng.integers(0, 4, 40).astype(np.int32)
    groups = [set(np.flatnonzero(codes == c).tolist()) for c in range(4)]
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(graph))
    assert modularity(adjacency, codes) == pytest.approx(nx.community.modularity(graph, groups))


def test_a_models_clusters_are_its_communities(planted, fitted):
    found = fitted.clusters()
    assert 5 <= len(found) <= 20
    assert found.modularity is not None
    assert found.modularity > 0.4
    assert fitted.clusters().codes.tolist() == found.codes.tolist(), "the same every time"
    nodes = found.nodes()
    assert nodes.id.tolist() == list(planted.ids)
    assert nodes.name.tolist() == [found.name[code] for code in nodes.cluster]
    assert isinstance(found.categories(), Categories)
    with pytest.raises(InputError, match="must have the nodes of the model"):
        fitted.clusters(graph=planted[:10])


def test_words_of_texts_name_clusters_of_a_model():
    rng = np.random.default_rng(0)
    words = [topic.split() for topic in TOPICS.values()]
    texts = [" ".join([f"the rare{a % 45}", *rng.choice(words[a % 3], 5)]) for a in range(90)]
    pairs = {(a, int(a + 3 * step) % 90) for a in range(90) for step in rng.integers(1, 15, 4)}
    edges = pd.DataFrame([(a, b) for a, b in sorted(pairs) if a != b], columns=["source", "target"])
    graph = glace.from_tables(edges, texts=pd.DataFrame({"id": range(90), "text": texts}))
    found = glace.GLACE(dim=8, hidden=32, max_steps=150, n_jobs=1).fit(graph).clusters(3)
    said = {frozenset(name.split(", ")) for name in found.name.tolist()}
    assert all(any(name <= set(topic.split()) for topic in TOPICS.values()) for name in said)
    assert len(said) == 3
