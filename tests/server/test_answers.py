"""Answers are those of the library."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import special_ortho_group

import glace
from glace.errors import InputError
from glace.gaussian.dissimilarity import Gaussian
from glace.queries.layout import main_axes
from glace.server import answers as module
from glace.server.answers import Answers, UnknownNode, ellipses
from tests.conftest import small


def test_facts(answers, model):
    facts = answers.facts()
    assert (facts["nodes"], facts["dimensions"], facts["edges"]) == (90, 8, model.graph.num_edges)
    assert facts["labels"] == ["animal", "fruit", "music"]
    assert (facts["takes"], facts["width"]) == ("texts", 15)
    assert answers.health()["status"] == "ok"


def test_neighbors_are_those_of_the_library(answers, model):
    found, known = answers.neighbors("node 07", 5), model.embedding.neighbors("node 07", 5)
    assert [each["id"] for each in found] == known.id.tolist()
    assert [each["dissimilarity"] for each in found] == known.dissimilarity.tolist()
    pairs = model.embedding.ids.positions(["node 07"] * 5)[:, None]
    pairs = np.hstack([pairs, model.embedding.ids.positions(known.id.tolist())[:, None]])
    assert [each["variance_term"] for each in found] == model.embedding.variance_terms_at(pairs).tolist()
    assert [each["known"] for each in found] == model.graph.has_edges(pairs).tolist()
    assert {"label", "certainty"} < set(found[0])
    assert "probability" not in found[0], "two nodes that are alike need not have an edge"


def test_neighbors_with_choices(answers, model):
    found = answers.neighbors("node 07", 50, exclude_known=True, label="fruit")
    assert {each["label"] for each in found} == {"fruit"}
    assert not any(each["known"] for each in found)
    other = answers.neighbors("node 07", 3, dissimilarity="wasserstein2")
    known = model.embedding.neighbors("node 07", 3, dissimilarity="wasserstein2")
    assert [each["id"] for each in other] == known.id.tolist()
    assert "variance_term" not in other[0], "of the measure that was trained for only"


def test_score_links_node(answers, model):
    (found,) = answers.score([("node 01", "node 04")])
    assert found["dissimilarity"] == model.embedding.dissimilarities([("node 01", "node 04")])[0]
    whole, own = answers.links(k=4), answers.links("node 01", k=4)
    assert [each["source"] for each in whole] == model.links(k=4).source.tolist()
    assert [each["target"] for each in own] == model.links("node 01", k=4).target.tolist()
    assert [each["why"] for each in answers.links("node 01", k=4, why=True)] == list(
        model.links("node 01", 4, why=True).why
    )
    assert "why" not in own[0]
    assert found["known"] == model.graph.has_edges(model.embedding.positions_of([("node 01", "node 04")]))[0]
    (rarer,) = answers.score([("node 01", "node 04")], missing_edge_fraction=0.001)
    assert 0 < rarer["probability"] < found["probability"] < 1
    less = answers.links("node 01", k=4, missing_edge_fraction=0.001)
    assert [each["probability"] for each in less] < [each["probability"] for each in own]
    with pytest.raises(InputError, match="missing_edge_fraction must be above 0 and below 1, not 2"):
        answers.links("node 01", missing_edge_fraction=2)
    node = answers.node("a/b?c=d&e")
    assert node["edges"] == len(node["joined"]) > 0


def test_new_nodes(answers, model):
    like, unlike = answers.embed(texts=["cat dog fur", "gizmo flux"], k=3)
    known = model.transform(["cat dog fur", "gizmo flux"])
    assert like["mean"] == known.mean[0].tolist()
    assert like["variance"] == known.variance[0].tolist()
    positions, dissimilarities = model.embedding.nearest_to(known, 3)
    assert [each["id"] for each in like["neighbors"]] == [model.embedding.ids[position] for position in positions[0]]
    assert [each["dissimilarity"] for each in like["neighbors"]] == dissimilarities[0].tolist()
    assert {each["label"] for each in like["neighbors"]} == {"animal"}
    assert (like["is_novel"], like["unseen"]) == (False, 0)
    assert (unlike["is_novel"], unlike["unseen"]) == (True, 1)
    links = model.links(known, 3)
    assert [each["target"] for each in like["links"] + unlike["links"]] == links.target.tolist()
    assert [each["probability"] for each in like["links"] + unlike["links"]] == links.probability.tolist()
    density = model.graph.num_edges / (90 * 89 / 2)
    assert [each["probability"] for each in unlike["links"]] == [pytest.approx(density)] * 3
    assert {"source", "novel", "query"}.isdisjoint(like["links"][0] | like["neighbors"][0])
    (bare,) = Answers(replace(model, graph=None)).embed(texts=["cat dog"])
    assert bare["links"] == []
    assert bare["neighbors"]


def test_new_nodes_by_attributes_and_by_names():
    import pandas as pd

    edges = pd.DataFrame({"source": list("abcdef"), "target": list("bcdefa")})
    nodes = pd.DataFrame({"id": list("abcdef"), "x": [1.0, 2, 3, 4, 5, 6], "y": [4.0, 1, 2, 2, 0, 1]})
    model = (
        glace.GLACE(dim=4, hidden=8, ensemble_size=1, max_steps=3, validation_fraction=0.0)
        .fit(glace.from_tables(edges, nodes))
        .model_
    )
    asked = Answers(model)
    assert asked.facts()["takes"] == "names"
    by_numbers, by_names = asked.embed(attributes=[[1, 1]]), asked.embed(names=[["y", "x", "x"]])
    assert by_numbers[0]["mean"] == by_names[0]["mean"] == model.transform(np.ones((1, 2), np.float32)).mean[0].tolist()
    with pytest.raises(InputError, match="no attribute is called 'z'"):
        asked.embed(names=[["z"]])
    with pytest.raises(InputError, match="trained on 2 attributes, but these have 3"):
        asked.embed(attributes=[[1, 2, 3]])
    with pytest.raises(InputError, match="all rows of attributes need the same width, not 1, 2"):
        asked.embed(attributes=[[1, 2], [3]])
    with pytest.raises(InputError, match="was not trained on texts"):
        asked.embed(texts=["x"])
    bare = Answers(glace.LINE(dim=4, max_steps=2, validation_fraction=0.0).fit(glace.from_tables(edges)).model_)
    assert bare.facts()["takes"] is None
    with pytest.raises(InputError, match="the model's attributes have no names"):
        bare.embed(names=[["x"]])


def test_completion(answers):
    assert answers.complete("07") == ["node 07"]
    assert answers.complete("NODE 1", 3) == ["node 10", "node 11", "node 12"]
    assert answers.complete("") == answers.complete("nothing like it") == []
    assert answers.complete("b")[0] == "a/b?c=d&e" or answers.complete("b")


def test_completion_of_numbers():
    model = (
        glace.LINE(dim=2, max_steps=1, validation_fraction=0.0)
        .fit(glace.from_arrays([[0, 1], [1, 12], [12, 21]]))
        .model_
    )
    assert Answers(model).complete("1", 3) == ["1", "10", "11"], "as text, which no reader of JSON rounds"


def test_ellipses_are_the_gaussians_seen_in_a_plane():
    """Gaussians that lie in a plane are seen as they are, whichever way it is turned."""
    turn = special_ortho_group.rvs(5, random_state=0)
    mean = np.zeros((4, 5))
    mean[:, :2] = [[0, 0], [9, 0], [0, 4], [9, 4]]
    found = ellipses(Gaussian(mean, np.tile([4.0, 1, 9, 9, 9], (4, 1))))
    assert [each["long"] for each in found] == pytest.approx([2] * 4)
    assert [each["short"] for each in found] == pytest.approx([1] * 4)
    assert [abs(each["angle"]) % 180 for each in found] == pytest.approx([0] * 4, abs=1e-6)
    gaps = np.array([[each["x"], each["y"]] for each in found])
    assert np.linalg.norm(gaps[1] - gaps[0]) == pytest.approx(9)
    assert np.linalg.norm(gaps[2] - gaps[0]) == pytest.approx(4)
    turned = ellipses(Gaussian(mean @ turn, np.ones((4, 5))))
    assert [each["long"] for each in turned] == pytest.approx([1] * 4)
    assert all(each["long"] == 0 for each in ellipses(Gaussian(mean, None)))


def test_axes_of_less_than_two_dimensions():
    assert main_axes(np.array([[1.0], [2.0]])).tolist() == [[1, 0]]


def test_of_one_node(answers):
    found = answers.ellipses("node 01", ["node 02", "node 03"])
    assert [each["id"] for each in found] == ["node 01", "node 02", "node 03"]


ERRORS = [
    (lambda asked: asked.node("nobody"), UnknownNode, "no node 'nobody'"),
    (lambda asked: asked.neighbors("node 01", 0), InputError, "k must be from 1 to 1,000, not 0"),
    (lambda asked: asked.neighbors("node 01", 2000), InputError, "k must be from 1 to 1,000, not 2,000"),
    (lambda asked: asked.neighbors("node 01", label="x"), InputError, "no label 'x'; there are animal, fruit"),
    (lambda asked: asked.links(k=0), InputError, "k must be from 1 to 1,000, not 0"),
    (lambda asked: asked.score([("node 01", "node 02")] * 1001), InputError, "at most 1,000 pairs per request"),
    (lambda asked: asked.embed(), InputError, "give exactly one of texts, attributes, names and rows, not 0"),
    (lambda asked: asked.embed(texts=["a"], names=[["a"]]), InputError, "give exactly one of .*, not 2"),
    (lambda asked: asked.embed(texts=[]), InputError, "give 1 to 1,000 new nodes, not 0"),
]


@pytest.mark.parametrize(("ask", "kind", "match"), ERRORS)
def test_questions_that_make_no_sense(answers, ask, kind, match):
    with pytest.raises(kind, match=match):
        ask(answers)


def test_known_edges_of_a_directed_graph_are_those_that_lead_away():
    asked = Answers(directed_model())
    found = {each["id"]: each["known"] for each in asked.neighbors("0")}
    assert found == {"1": True, "2": False, "3": False, "4": False}
    assert {each["id"] for each in asked.neighbors("0", exclude_known=True)} == {"2", "3", "4"}
    assert set(asked.node("0")["joined"]) == {"1", "2", "3"}, "drawn whichever way they point"


def test_only_gaussians_propose_the_reverse_of_an_edge():
    """Edges 2 -> 0 and 3 -> 0 are known, 0 -> 2 and 0 -> 3 are not."""
    model = directed_model()
    assert {each["target"] for each in Answers(model).links("0")} == {"4"}
    found = model.links(k=20)
    pairs = set(zip(found.source.tolist(), found.target.tolist(), strict=True))
    assert pairs == {(0, 4), (4, 0), (1, 3), (3, 1), (2, 4), (4, 2)}
    assert set(model.links(0, by="gaussian").target) == {2, 3, 4}


def directed_model():
    edges = [[0, 1], [2, 0], [1, 2], [3, 0], [2, 3], [4, 3], [1, 4]]
    graph = glace.from_arrays(edges, np.eye(5, dtype=np.float32), directed=True)
    return glace.GLACE(dim=4, hidden=8, ensemble_size=1, max_steps=3, validation_fraction=0.0).fit(graph).model_


def test_a_model_without_edges(answers, model, monkeypatch):
    bare = Answers(replace(model, graph=None))
    node = bare.node("node 01")
    assert (node["edges"], node["joined"]) == (None, []), "nobody knows"
    with pytest.raises(InputError, match="exclude_known needs the edges, labels and types of the graph"):
        bare.neighbors("node 01", exclude_known=True)
    monkeypatch.setattr(module, "LARGEST_SEARCH", 10)
    with pytest.raises(InputError, match="searching the links of all 90 nodes takes too long here; name a node"):
        answers.links()


def test_new_nodes_by_mixed_columns(monkeypatch):
    edges = pd.DataFrame({"source": list("abcd"), "target": list("bcde")})
    nodes = pd.DataFrame({"id": list("abcde"), "size": [1, 2, 3, 4, 5], "town": ["x", "y", "x", "x", "y"]})
    graph = glace.from_tables(edges, nodes, columns={"town": "category"})
    asked = Answers(glace.GLACE(**small(dim=2, hidden=4, max_steps=2, validation_fraction=0)).fit(graph).model_)
    assert asked.facts()["takes"] == "rows"
    (whole, part) = asked.embed(rows=[{"town": "x", "size": 3}, {"size": 2.5}], k=1)
    assert whole["mean"] == asked.model.transform(pd.DataFrame({"town": ["x"], "size": [3]})).mean[0].tolist()
    assert part["mean"] != whole["mean"]
    with pytest.raises(InputError, match="no column is called 'colour'; the columns are size, town"):
        asked.embed(rows=[{"colour": "red"}])
    with pytest.raises(InputError, match="the values of a column must be of one kind"):
        asked.embed(rows=[{"size": 1}, {"size": "tall"}])
    asked.model = replace(asked.model, node_types=(replace(asked.model.node_types[0], pipeline=None),))
    with pytest.raises(InputError, match="give attributes, names or texts"):
        asked.embed(rows=[{"size": 1}])


def test_types(typed, answers):
    assert typed.facts()["types"] == ["author", "meaning", "word"]
    assert answers.facts()["types"] == []
    assert typed.node("author 20")["type"] == "author"
    assert "type" not in answers.node("node 01")
    found = typed.neighbors("word 00", 50, node_type="meaning")
    assert {each["type"] for each in found} == {"meaning"}
    assert len(found) == 10
    both = typed.neighbors("word 00", 50, label="odd", node_type="meaning")
    assert [each["id"] for each in both] == [each["id"] for each in found if each["label"] == "odd"]
    for link in typed.links(k=1000):
        assert "word" in {link["source_type"], link["target_type"]}
        assert link["source_type"] != link["target_type"]
    assert {each["target_type"] for each in typed.links("word 06", node_type="author")} == {"author"}


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda typed, _: typed.neighbors("word 00", node_type="x"), "no type 'x'; there are author, meaning"),
        (lambda typed, _: typed.links("word 00", node_type="word"), "no edge leads from type 'word' to type 'word'"),
        (lambda _, plain: plain.neighbors("node 01", node_type="x"), "no type 'x'; the graph has none"),
    ],
)
def test_types_that_are_not_there(typed, answers, ask, match):
    with pytest.raises(InputError, match=match):
        ask(typed, answers)
