"""`glace convert`, and the other verbs on what it writes."""

import json
from pathlib import Path

import numpy as np
import pytest

import glace as library
from glace.cli.main import run
from glace.io.folder import read_folder
from glace.io.read import read_tables
from tests.cli.conftest import FAST, TABLES


def test_tables_become_a_folder_with_the_graph_of_the_tables(glace, folder):
    shown = glace("convert", *TABLES, "-o", "people.graph")
    graph = read_folder("people.graph")
    assert graph.fingerprint() == read_tables("edges.csv", "nodes.csv").in_id_order()[0].fingerprint()
    assert repr(graph) in shown
    assert "wrote people.graph (" in shown


def test_texts_npz_files_and_datasets_do_too(glace, folder):
    glace("convert", "--edges", "edges.csv", "--texts", "texts.csv", "-o", "texts.graph")
    assert read_folder("texts.graph").pipeline is not None
    library.write_npz(library.read_graph("numbered.csv"), "n.npz")
    glace("convert", "n.npz", "--directed", "-o", "n.graph", "-q")
    assert read_folder("n.graph").directed
    glace("convert", "wordnet-nouns", "-o", "nouns.graph")
    assert read_folder("nouns.graph").num_nodes == 9015
    glace("convert", "n.graph", "-o", "again.graph")
    assert read_folder("again.graph").fingerprint() == read_folder("n.graph").fingerprint()


def test_every_verb_takes_the_folder(glace, folder):
    glace("convert", *TABLES, "-o", "people.graph")
    facts = glace("info", "people.graph", "--json", "info.json")
    assert "60" in facts
    stored = json.loads(Path("info.json").read_text())["provenance"]["data"]
    assert stored == read_folder("people.graph").fingerprint()
    glace("fit", "people.graph", *FAST, "-o", "mapped.glace")
    assert not list(Path().glob("mapped.glace.*.arrow"))  # small embeddings are kept in the model file
    assert "node" in glace("neighbors", "mapped.glace", "node 01")
    glace("export", "mapped.glace", "-o", "out.parquet")
    assert np.isfinite(library.load_embedding("out.parquet").mean).all()
    assert "peak memory" in glace("fit", "people.graph", *FAST, "--estimate")


def test_what_was_found_is_said_once_more_from_the_folder(glace, folder):
    Path("e.csv").write_text("source,target\na,b\na,b\nb,c\nc,c\n")
    shown = glace("convert", "e.csv", "-o", "e.graph")
    assert "repeated edges, weights added: 1" in shown
    assert "self-loops, dropped: 1" in glace("info", "e.graph")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["edges.csv", "-o", "."], "cannot write .: it exists and is not a folder with a graph.json"),
        (["edges.csv", "-o", "nodes.csv"], "cannot write nodes.csv: it exists and is not a folder with a graph.json"),
        (["edges.csv", "-o", "x/y.graph"], "cannot write x/y.graph: the folder x does not exist; make it first"),
        (["g.graph", "-o", "g.graph"], "cannot write g.graph: it is also another file of this command"),
        (["x.graph", "-o", "y.graph"], "no folder x.graph; give a graph folder that `glace convert` wrote"),
        (["g.graph", "--directed", "-o", "y.graph"], "the edges of g.graph have no direction"),
        (["g.graph", "--attributes", "nodes.csv", "-o", "y.graph"], "--attributes and --texts apply to a table"),
        (
            ["edges.csv", "--nodes-without-attributes", "empty", "-o", "y.graph"],
            "--nodes-without-attributes applies to --attributes or --texts",
        ),
        (["edges.csv"], "missing option '--output'"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(glace, folder, capsys, arguments, message):
    glace("convert", "edges.csv", "-o", "g.graph")
    before = sorted(path.name for path in folder.iterdir())
    assert run(["convert", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == before
