"""What the verbs print: tables for people, whole rows for programs, columns of the node table beside ids."""

import csv
import io
import json
import re
import sys

import pytest

from glace.cli.screen import Screen
from tests.cli.conftest import TABLES, names, write_csv


@pytest.fixture(autouse=True)
def as_for_people():
    """Print what other programs read."""


NEIGHBORS = ["neighbors", "texts.glace", "node 01", "-k", "3"]


def tsv(shown: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(shown), delimiter="\t", quoting=csv.QUOTE_NONE))


def test_what_another_program_reads_is_tab_separated_and_whole(glace, capsys):
    rows = tsv(glace("links", "people.glace", "-k", "40"))
    assert len(rows) == 40, "not only the first twenty"
    assert all(row["source"].startswith("node ") for row in rows), "ids are not folded"
    assert {"probability", "dissimilarity", "certainty"} <= rows[0].keys()
    assert all(0 < float(row["probability"]) < 1 for row in rows)


def test_remarks_go_to_standard_error_if_another_program_reads(glace, capsys, folder):
    from glace.cli.main import run

    assert run(["links", "people.glace", "-k", "3"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 4
    assert "probabilities assume that" in printed.err
    assert run(["links", "people.glace", "-k", "3", "--format", "table"]) == 0
    printed = capsys.readouterr()
    assert "probabilities assume that" in printed.out
    assert printed.err == ""
    assert run(["links", "people.glace", "-k", "3", "-q"]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_formats_hold_the_same_answers(glace):
    rows = tsv(glace(*NEIGHBORS))
    found = json.loads(glace(*NEIGHBORS, "--format", "json"))
    assert [row["id"] for row in rows] == [row["id"] for row in found]
    assert [float(row["dissimilarity"]) for row in rows] == [row["dissimilarity"] for row in found]
    assert list(csv.DictReader(io.StringIO(glace(*NEIGHBORS, "--format", "csv")))) == rows
    shown = glace(*NEIGHBORS, "--format", "table")
    assert all(re.search(rf"{row['id']} +.*{float(row['dissimilarity']):.4f}", shown) for row in rows)


def test_columns_of_the_node_table_are_shown_beside_ids(glace, folder):
    texts = dict(row.split(",") for row in (folder / "texts.csv").read_text().splitlines()[1:])
    for row in tsv(glace(*NEIGHBORS, "--show", "text")):
        assert row["text"] == texts[row["id"]]
    for verb in (["links", "texts.glace", "node 01", "-k", "3"], ["score", "texts.glace", "node 01", "node 02"]):
        for row in tsv(glace(*verb, "--show", "text")):
            assert row["source_text"] == texts[row["source"]]
            assert row["target_text"] == texts[row["target"]]


def test_tabs_and_line_breaks_stay_inside_their_cells(capsys):
    Screen(form="tsv").table(["id", "text"], [("a", "one\ttwo\nthree"), ("b", None)])
    assert capsys.readouterr().out == "id\ttext\na\tone two three\nb\t\n"


def test_names_of_columns_are_printed_as_they_are(glace, folder):
    rows = [f"{node},{place},{place % 3}" for place, node in enumerate(names())]
    write_csv(folder / "packages.csv", "id,installed_mb,rank", rows)
    columns = ["--attributes", "packages.csv", "--column", "installed_mb=number"]
    from tests.cli.conftest import FAST

    glace("fit", "--edges", "edges.csv", *columns, *FAST, "-q", "-o", "p.glace")
    assert "  installed_mb  number, mean" in glace("info", "p.glace")


def test_a_row_at_the_mean_has_attributes(glace, folder):
    rows = [f"{node},{(place % 3) - 1}" for place, node in enumerate(names())]
    write_csv(folder / "numbers.csv", "id,x", rows)
    table = ["--edges", "edges.csv", "--attributes", "numbers.csv", "--column", "x=number"]
    assert "without attributes" not in glace("info", *table)
    write_csv(folder / "numbers.csv", "id,x", [*rows[:-1], f"{names()[-1]},"])
    assert "nodes without attributes, kept: 1" in glace("info", *table)


def test_ids_that_differ_by_spaces_are_noticed(glace, folder):
    write_csv(folder / "spaced.csv", "source,target", ["ann,bob", "ann ,eve"])
    assert "1 ids differ from another id by spaces only (first: 'ann ')" in glace("info", "spaced.csv")
    edges = (folder / "edges.csv").read_text().splitlines()
    (folder / "edges.csv").write_text("\n".join([*edges, "node 01 ,node 02,1"]))
    message = glace("info", *TABLES, code=2)
    assert "node 'node 01 ' has no row in nodes.csv, but 'node 01' has, which differs by spaces only" in message


def test_a_page_that_would_be_too_large_is_refused_before_its_map_is_drawn(glace, monkeypatch):
    monkeypatch.setattr("glace.server.page.MOST_NODES", 10)
    monkeypatch.setattr("glace.cli.serve._map", lambda *_: pytest.fail("the map was drawn"))
    assert "at most 10 nodes, not 60" in glace("explore", "people.glace", "--export", "x.html", code=2)


@pytest.mark.parametrize("verb", ["serve", "explore"])
def test_a_missing_library_is_named_before_the_model_is_loaded(glace, monkeypatch, verb):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setattr("glace.fitted.model.load", lambda *_: pytest.fail("the model was loaded"))
    assert "serving needs fastapi and uvicorn: pip install" in glace(verb, "people.glace", code=2)
