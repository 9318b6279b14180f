"""Tables of several types from the command line: look, fit, embed, search, go on, evaluate."""

import json

import numpy as np
import pandas as pd
import pytest

from glace import load, load_embedding
from glace.server.answers import Answers
from tests.cli.conftest import FAST

FILES = ["--edges", "user:item=bought.csv", "--attributes", "user=users.csv", "--attributes", "item=items.csv"]
TITLES = ["--column", "item:title=text"]
FIT = ["fit", *FILES, *TITLES, "--directed", *FAST]


@pytest.fixture
def shop(folder):
    """40 users and 30 items, both numbered from 0, in three groups; users buy of their own."""
    rng = np.random.default_rng(0)
    users, items = np.arange(40), np.arange(30)
    bought = [(user, item) for user in users for item in items if user % 3 == item % 3 and rng.random() < 0.5]
    pd.DataFrame(bought, columns=["source", "target"]).to_csv("bought.csv", index=False)
    ages = pd.DataFrame({"id": users, "age": 20 + 10 * (users % 3) + rng.random(40), "visits": rng.random(40)})
    ages.to_csv("users.csv", index=False)
    titles = np.array(["red wine", "old cheese", "fresh bread"])[items % 3]
    pd.DataFrame({"id": items, "title": titles, "price": items % 3 + rng.random(30)}).to_csv("items.csv", index=False)
    return folder


def test_from_tables_to_answers(glace, shop):
    assert "of user" in glace("info", *FILES, *TITLES)
    shown = glace(*FIT, "-o", "m.glace", "--encoder", "user=mlp:layers=8")
    assert "ids that occur in several types; nodes are called TYPE:ID: 30" in shown
    assert "40 nodes of type user with 2 dense attributes" in shown
    model = load("m.glace")
    assert model.config.model.encoder == "mlp;user=mlp:layers=8"
    assert [part.name for part in model.node_types] == ["item", "user"]
    assert "item:title" in glace("info", "m.glace")

    glace("embed", "m.glace", "--node-type", "user", "--attributes", "users.csv", "-o", "u.parquet", "--json", "e.json")
    frame = pd.read_csv("users.csv")
    np.testing.assert_array_equal(load_embedding("u.parquet").mean, model.transform(frame, node_type="user").mean)
    assert len(json.loads((shop / "e.json").read_text())["novelty"]) == 40
    assert "item:" in glace("neighbors", "m.glace", "--of", "u.parquet", "-k", "1", "--node-type", "item")
    assert "item:" in glace("links", "m.glace", "--of", "u.parquet", "-k", "1", "--node-type", "item")
    assert "--node-type must be given for new nodes: the type of the other ends, item, user" in glace(
        "links", "m.glace", "--of", "u.parquet", code=2
    )
    answers = Answers(model).embed(attributes=frame[["age", "visits"]].to_numpy()[:3].tolist(), node_type="user", k=4)
    assert {link["target_type"] for answer in answers for link in answer["links"]} == {"item"}, (
        "edges lead nowhere else"
    )
    assert "the model has several node types" in glace(
        "embed", "m.glace", "--attributes", "users.csv", "-o", "x.parquet", code=2
    )


def test_a_model_goes_on_with_more_nodes_of_a_type(glace, shop):
    glace(*FIT, "-q", "-o", "m.glace")
    items = pd.read_csv("items.csv")
    items.loc[len(items)] = [30, "red wine", None]
    items.to_csv("items.csv", index=False)
    shown = glace("update", "--model", "m.glace", *FILES, "--directed", "-o", "n.glace", "--max-steps", "3")
    assert "1 new nodes" in " ".join(shown.split()) or "new nodes 1" in " ".join(shown.split())
    assert "missing values of attributes, taken as unknown: 1" in shown
    assert len(load("n.glace").embedding) == 71
    assert "leave --column out" in glace(
        "update", "--model", "m.glace", *FILES, *TITLES, "--directed", "-o", "n.glace", code=2
    )
    one = ["--edges", "user:item=bought.csv", "--attributes", "user=users.csv", "--directed"]
    assert "the model was trained with attributes of type 'item', but the graph comes without" in glace(
        "update", "--model", "m.glace", *one, "-o", "n.glace", code=2
    )


@pytest.mark.parametrize("method", ["glace", "attributes"])
def test_all_methods_take_types(glace, shop, method):
    options = [] if method == "attributes" else ["--option", "max_steps=5", "--option", "neighbor_features=none"]
    glace("evaluate", "link-prediction", *FILES, *TITLES, "--method", method, *options, "--json", "r.json")
    assert 0 <= json.loads((shop / "r.json").read_text())["auc"] <= 1


def test_hidden_nodes_of_both_types(glace, shop):
    settled = ["--option", "max_steps=5", "--option", "dropout=0", "--option", "offset=learned"]
    glace("evaluate", "induction", *FILES, *TITLES, "--hidden-share", "0.2", *settled, "--json", "r.json")
    assert 0 <= json.loads((shop / "r.json").read_text())["auc"] <= 1
    assert "graph2gauss supports one node type, but the graph has several; choose glace or lace" in glace(
        "evaluate", "induction", *FILES, *TITLES, "--method", "graph2gauss", code=2
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*FILES, "--attributes", "more.csv"], "--attributes more.csv: give several files as TYPE=FILE"),
        ([*FILES, "--attributes", "user=x.csv"], "--attributes is given twice for user; join the files"),
        (
            ["--edges", "user=bought.csv"],
            "edges lead from a type to a type, as 'word:synset' (word:synset=FILE), not 'user'",
        ),
        (
            ["--edges", "bought.csv", *FILES[2:], *TITLES],
            "bought.csv, row 2: 0 is a node of several types; give the edges by the types",
        ),
        (
            [*FILES, "--column", "title=text"],
            "give the kind of a column of a node type as TYPE:NAME=KIND, not 'title=text'",
        ),
        ([*FILES, "--column", "shop:title=text"], "a pipeline of type 'shop' need a table of attributes"),
        ([*FILES, "--texts", "item=items.csv"], "give attributes or texts of type 'item', not both"),
        ([*FILES, "--column", "item:title=number"], "items.csv: attributes must be numbers, but column 'title' holds"),
        ([*FILES, *TITLES, "--encoder", "shop=mlp"], "for type 'shop'"),
        ([*FILES, *TITLES, "--encoder", "user=cnn"], "no encoder 'cnn'; there are mlp, image, identity"),
        (["--edges", "user:item=none.csv"], "none.csv"),
    ],
)
def test_what_is_wrong_is_said(glace, shop, arguments, message):
    assert message in glace("fit", *arguments, "-o", "x.glace", code=2)
    assert not (shop / "x.glace").exists()


def test_types_can_be_converted_to_a_folder(glace, shop):
    glace("convert", *FILES, *TITLES, "-o", "g.graph")
    said = glace("info", "g.graph")
    assert said.split("\n", 1)[1] == glace("info", *FILES, *TITLES).split("\n", 1)[1]
