"""Types of nodes at the command line: links, neighbours and exports of a model that has them."""

import json
import re

import numpy as np
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest

from glace import GLACE, from_arrays, load_embedding
from glace.cli.main import run
from tests.conftest import small

TYPES = ["word", "meaning", "word", "meaning", None] * 6


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A ring of words and meanings, with labels that have nothing to do with them."""
    path = tmp_path_factory.mktemp("typed") / "typed.glace"
    count = len(TYPES)
    edges = [(a, (a + step) % count) for a in range(count) for step in (1, 3) if a % 5 in (0, 2)]
    ids, labels = [f"n{a}" for a in range(count)], ["low", "high"] * (count // 2)
    graph = from_arrays(edges, np.eye(count)[:, :9], ids=ids, labels=labels, node_types=TYPES)
    GLACE(**small(dim=4, hidden=8, max_steps=10)).fit(graph).save(path)
    return str(path)


@pytest.fixture
def glace(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; gives what it printed, or with `code` what it said was wrong."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, code=0):
        capsys.readouterr()
        assert run(list(arguments)) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return call


def test_links_show_the_types_of_both_ends(glace, typed, tmp_path):
    shown = glace("links", typed, "-o", "links.csv", "--json", "l.json")
    table = pyarrow.csv.read_csv("links.csv")
    assert table.column_names[:5] == ["source", "target", "source_type", "target_type", "probability"]
    types = dict(zip([f"n{a}" for a in range(len(TYPES))], TYPES, strict=True))
    for row in json.loads((tmp_path / "l.json").read_text())["links"]:
        assert (row["source_type"], row["target_type"]) == (types[row["source"]], types[row["target"]])
        assert (row["source_type"], row["target_type"]) != ("meaning", "meaning"), "no edge joins two"
    assert re.search(r"n\d+ +n\d+ +(word|meaning) +word ", shown)


def test_links_to_a_type(glace, typed):
    glace("links", typed, "n0", "--node-type", "meaning", "-o", "l.parquet")
    assert set(pyarrow.parquet.read_table("l.parquet")["target_type"].to_pylist()) == {"meaning"}


def test_neighbors_of_a_type_and_label(glace, typed, tmp_path):
    def found(*filters):
        shown = glace("neighbors", typed, "n0", "-k", "99", *filters, "--json", "n.json")
        assert re.search("id +label +type +dissimilarity", shown)
        return json.loads((tmp_path / "n.json").read_text())["neighbors"]

    words = found("--node-type", "word")
    assert {each["type"] for each in words} == {"word"}
    high = {each["id"] for each in found("--label", "high")}
    both = [each["id"] for each in found("--label", "high", "--node-type", "word")]
    assert both == [each["id"] for each in words if each["id"] in high]
    assert 0 < len(both) < len(words)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz", "csv"])
def test_an_export_has_the_types(glace, typed, ending):
    glace("export", typed, "-o", f"out.{ending}")
    if ending == "npz":
        assert np.load("out.npz")["types"].tolist() == [each or "" for each in TYPES]
    else:
        opened = pyarrow.ipc.open_file(pyarrow.memory_map("out.arrow")) if ending == "arrow" else None
        read = {"parquet": pyarrow.parquet.read_table, "csv": pyarrow.csv.read_csv}
        table = read[ending](f"out.{ending}") if opened is None else opened.read_all()
        assert table.column_names[:4] == ["id", "type", "expected_error", "certainty"]
        assert [each or None for each in table["type"].to_pylist()] == TYPES
    if ending != "csv":
        np.testing.assert_array_equal(load_embedding(f"out.{ending}").mean, load_embedding(typed).mean)


BAD = [
    (["links", "MODEL", "--node-type", "verb"], "no type 'verb'; there are meaning, word"),
    (
        ["links", "MODEL", "n1", "--node-type", "meaning"],
        "no edge leads from type 'meaning' to type 'meaning', so no such links",
    ),
    (["neighbors", "MODEL", "n1", "--node-type", "verb"], "no type 'verb'; there are meaning, word"),
    (
        ["neighbors", "out.parquet", "n1", "--node-type", "word"],
        "--node-type needs the edges, labels and types of the graph",
    ),
]


@pytest.mark.parametrize(("command", "match"), BAD)
def test_types_that_are_not_there(glace, typed, command, match):
    glace("export", typed, "-o", "out.parquet")
    said = glace(*[typed if each == "MODEL" else each for each in command], code=2)
    assert match in said


def test_a_model_without_types(glace, model_file):
    for verb in (["links"], ["neighbors"]):
        node = ["1"] if verb == ["neighbors"] else []
        said = glace(*verb, str(model_file), *node, "--node-type", "word", code=2)
        assert "no type 'word'; the graph has none" in said
