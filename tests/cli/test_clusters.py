"""`glace clusters`: the table on the screen, the file of nodes, and what it refuses."""

import io
import json

import pandas as pd
import pytest

from glace.cli.main import run


def test_clusters_are_shown_and_every_nodes_is_written(folder, capsys):
    assert run(["clusters", "texts.glace", "-k", "3", "-o", "nodes.csv", "--json", "record.json"]) == 0
    said = capsys.readouterr().out
    assert "edges_inside" in said
    assert "modularity 0." in said
    written, record = pd.read_csv(folder / "nodes.csv"), json.loads((folder / "record.json").read_text())
    assert list(written.columns) == ["id", "cluster", "name"]
    assert sorted(written["id"]) == [f"node {number:02}" for number in range(60)]
    sizes = [each["size"] for each in record["clusters"]]
    assert written["cluster"].value_counts().sort_index().tolist() == sizes
    assert sorted(sizes, reverse=True) == sizes


def test_formats_and_columns_of_the_node_table(folder, capsys):
    assert run(["clusters", "texts.glace", "-k", "3", "--format", "json", "--show", "text"]) == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)
    assert "modularity" in printed.err
    texts = dict(line.split(",") for line in (folder / "texts.csv").read_text().splitlines())
    assert [row["text"] for row in rows] == [texts[row["central_node"]] for row in rows]
    assert all(row["examples"].startswith(row["central_node"]) for row in rows)
    assert run(["clusters", "texts.glace", "-k", "3", "--format", "csv"]) == 0
    found = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert found["size"].tolist() == [row["size"] for row in rows]
    assert run(["clusters", "texts.glace", "-k", "3", "--format", "table", "--show", "text"]) == 0
    head = capsys.readouterr().out.splitlines()[1].split()
    assert head == ["name", "size", "edges_inside", "central_node", "text"]


def test_numbers_name_clusters_if_their_table_is_given(folder, capsys):
    assert run(["clusters", "people.glace", "-k", "3", "--json", "record.json"]) == 0
    assert " high" not in json.loads((folder / "record.json").read_text())["clusters"][0]["name"]
    assert run(["clusters", "people.glace", "-k", "3", "--attributes", "nodes.csv", "--json", "record.json"]) == 0
    found = json.loads((folder / "record.json").read_text())["clusters"]
    assert all(each["name"].split(", ")[0].split()[1] in ("high", "low") for each in found)
    assert capsys.readouterr().err == ""


def test_an_embedding_alone_has_clusters_too(folder, capsys):
    assert run(["export", "people.glace", "-o", "people.parquet", "-q"]) == 0
    assert run(["clusters", "people.parquet", "-k", "2"]) == 0
    assert "modularity" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["people.glace", "-k", "61"], "-k must be from 1 to the number of nodes, 60, not 61"),
        (["people.glace", "-o", "nodes.txt"], "nodes.txt"),
        (["people.glace", "--attributes", "few.csv"], "few.csv has no row for the node 'node 37'"),
        (["people.parquet", "--attributes", "nodes.csv"], "--attributes needs a model file"),
    ],
)
def test_what_is_refused(folder, capsys, arguments, message):
    run(["export", "people.glace", "-o", "people.parquet", "-q"])
    (folder / "few.csv").write_text("id,a,b,c,d,e\nnode 00,1,2,3,4,5\n")
    capsys.readouterr()
    assert run(["clusters", *arguments]) == 2
    assert message in capsys.readouterr().err
