"""Data sets by name: found, loaded, or refused with the command that gets them."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glace import datasets
from glace.datasets.builders.build import BUILDERS
from glace.datasets.registry import BUNDLED_FOLDER, data_folder
from glace.errors import InputError
from glace.graph.arrays import from_arrays
from glace.io.npz import write_npz

PUBLISHED = {
    "citeseer": "b611f48626e7f40fcc81a36b4f022979ea998b38",
    "cora": "7dfe6828aec9c9a337ce1bb8efe088e5870e0666",
    "cora-ml": "2df67d57d5c34554a689f8addde7fc3bdf37a415",
    "dblp": "3e179a9ebf2968d9ad67544c8978bf4759e489d8",
    "pubmed": "0735ab74ee845ee26da2db763294d42646058534",
}
PLANETOID = {
    "cora-planetoid": "b08fd856430b2b7787aa646a33ad51132b4f6f80",
    "citeseer-planetoid": "0e71905a80ab405875cc6c7a7a15190aa35fec79",
    "pubmed-planetoid": "25d0b1bebcb08296348572ca0cebe322fdd085b0",
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write_npz(from_arrays([[0, 1], [1, 2]], np.eye(3), directed=True), tmp_path / "cora_ml.npz")
    return tmp_path


def test_every_name_is_found_and_described():
    assert {"wordnet-nouns", "wordnet-kinds", "wordnet", "debian", "acm", *PUBLISHED, *PLANETOID} <= set(
        datasets.names()
    )
    for name in datasets.names():
        found = datasets.find(name)
        assert found.name == name
        assert found.summary
        assert found.licence
        assert found.source


@pytest.mark.parametrize("name", datasets.names())
def test_every_dataset_can_be_had(name):
    """A bundled one loads, a built one has a builder, a downloaded one an address and a checksum."""
    found = datasets.find(name)
    if found.kind == "bundled":
        assert datasets.load(name).num_edges > 0
    elif found.kind == "built":
        assert name in {*BUILDERS, "acm"}
    else:
        assert found.source.startswith("https://")
        assert re.fullmatch("[0-9a-f]{40}", found.blob_id)


@pytest.mark.parametrize(("name", "blob_id"), PUBLISHED.items())
def test_published_files_have_their_address_and_checksum(name, blob_id):
    found = datasets.find(name)
    assert found.blob_id == blob_id
    assert found.source.startswith("https://")
    assert found.source.endswith(f"/data/{name.replace('-', '_')}.npz")


@pytest.mark.parametrize(("name", "blob_id"), PLANETOID.items())
def test_the_graphs_of_benchmarks_have_their_address_and_checksum(name, blob_id):
    found = datasets.find(name)
    assert found.blob_id == blob_id
    assert found.source.startswith("https://raw.githubusercontent.com/shchur/gnn-benchmark/")
    assert found.source.endswith(f"/data/npz/{name.removesuffix('-planetoid')}.npz")


def test_a_name_may_have_underscores():
    assert datasets.find("cora_ml") == datasets.find("cora-ml")


def test_an_unknown_name_lists_the_known():
    with pytest.raises(InputError, match="no dataset 'imdb'; choose from wordnet-nouns, wordnet-kinds, .*, cora-ml"):
        datasets.find("imdb")


def test_load_reads_the_published_spelling_from_a_folder(small):
    graph = datasets.load("cora-ml", data_dir=small)
    assert (graph.num_nodes, graph.num_edges, graph.directed) == (3, 2, False)
    assert datasets.load("cora-ml", directed=True, data_dir=small).directed


def test_our_spelling_comes_first(small):
    write_npz(from_arrays([[0, 1]], np.eye(2)), small / "cora-ml.npz")
    assert datasets.load("cora-ml", data_dir=small).num_nodes == 2


def test_load_looks_where_the_variable_says(small, monkeypatch):
    monkeypatch.setenv("GLACE_DATA", str(small))
    assert datasets.load("cora-ml").num_nodes == 3


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("cora-ml", "glace datasets get cora-ml"),
        ("wordnet", "glace datasets build wordnet"),
        ("acm", "glace datasets build acm --from FILE"),
    ],
)
def test_a_missing_one_says_which_command_gets_it_and_where_it_was_looked_for(name, command, tmp_path):
    with pytest.raises(InputError, match=f"{name} is not on this machine .*{tmp_path}.*run '{command}'.*GLACE_DATA"):
        datasets.load(name, data_dir=tmp_path)


def test_the_data_folder_of_each_system(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    assert data_folder(environment={}, platform="linux") == Path("/home/ada/.cache/glace")
    assert data_folder(environment={"XDG_CACHE_HOME": "/x"}, platform="linux") == Path("/x/glace")
    assert data_folder(environment={}, platform="darwin") == Path("/home/ada/Library/Caches/glace")
    assert data_folder(environment={"LOCALAPPDATA": "/l"}, platform="win32") == Path("/l/glace")
    assert data_folder(environment={}, platform="win32") == Path("/home/ada/AppData/Local/glace")
    assert data_folder(environment={"GLACE_DATA": "/d", "XDG_CACHE_HOME": "/x"}, platform="linux") == Path("/d")
    assert data_folder("/given", environment={"GLACE_DATA": "/d"}, platform="linux") == Path("/given")


def test_the_bundled_graph_is_connected_known_and_small():
    graph = datasets.load("wordnet-nouns")
    assert 8_000 <= graph.num_nodes <= 12_000
    assert graph.cleaning_report.isolated_nodes == 0
    assert graph.labels is not None
    assert {"animal", "artifact", "body", "food", "plant"} <= set(graph.labels.names)
    assert sum(path.stat().st_size for path in BUNDLED_FOLDER.iterdir()) < 1_500_000
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in (BUNDLED_FOLDER / "WORDNET-LICENSE").read_text()


@pytest.mark.parametrize(
    ("name", "label"),
    [("dog", "animal"), ("cat", "animal"), ("piano", "artifact"), ("apple", "food"), ("heart", "body")],
)
def test_well_known_nouns_are_bundled(name, label):
    graph = datasets.load("wordnet-nouns")
    assert graph.labels is not None
    assert graph.labels[graph.ids.position(f"n:{name}")] == label


def test_the_bundled_graph_knows_what_a_piano_is():
    graph = datasets.load("wordnet-nouns", directed=True)
    kind = [(graph.ids.position("n:piano"), graph.ids.position("n:keyboard_instrument"))]
    assert graph.has_edges(np.array(kind)).all()
    assert not graph.has_edges(np.array(kind)[:, ::-1]).any()


def test_importing_is_light():
    command = "import sys, glace.datasets; sys.exit(any(name in sys.modules for name in ('sklearn', 'torch')))"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
