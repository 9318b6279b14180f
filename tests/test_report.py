"""The report of a model: its sections, its figures beside those of the model, and its warnings."""

import re
from dataclasses import replace

import numpy as np
import pytest

import glace
from glace.cli.main import run
from glace.drawing.document import Picture, Table, to_html, to_markdown
from glace.queries.layout import principal
from glace.report import MapOfNodes, _most_frequent, model_report
from tests.conftest import small

pytest.importorskip("matplotlib", reason="reports need matplotlib: pip install '.[plots]'")


def drawn(model, **options):
    return MapOfNodes(principal(model.embedding), model.clusters(**options))


@pytest.fixture(scope="module")
def model(fitted):
    return fitted.model_


@pytest.fixture(scope="module")
def blocks(model):
    return model_report(model, drawn(model), "my people")


def test_sections_come_in_order_results_before_details(blocks):
    text = to_markdown(blocks)
    assert re.findall("^#+ (.*)$", text, flags=re.M) == [
        "my people", "What to beware of", "How well it predicts", "Map and clusters", "Neighbours", "Proposed links",
        "Certainty", "What was trained",
    ]  # fmt: skip


def test_figures_are_those_of_the_model(blocks, model):
    text, best = to_markdown(blocks), model.history.best
    assert f"an AUC of {best.auc:.3f}" in text
    assert f"| Validation AUC of the Gaussians | {best.auc:.4f} |" in text
    assert f"| Brier score | {model.calibration.brier:.4f} |" in text
    (first, *_), tables = model.links(k=10, why=True), [each for each in blocks if isinstance(each, Table)]
    links = next(each for each in tables if each.columns[0].name == "Source")
    assert [cell.text for cell in links.rows()[0]] == [
        str(first["source"]), str(first["target"]), f"{first['probability']:.1%}", first["why"]
    ]  # fmt: skip
    node = str(model.clusters().examples[0]).split(", ")[0]
    wanted = ", ".join(map(str, model.neighbors(int(node), 5).id))
    assert f"| {node} | {wanted} |" in text
    certain = next(each for each in tables if each.columns[-1].name == "Mean certainty")
    assert sum(int(cell.text.replace(",", "")) for cell in certain.columns[1].cells) == 400


def test_the_page_is_one_file_with_its_pictures(blocks):
    page = to_html(blocks)
    assert [each.name for each in blocks if isinstance(each, Picture)] == ["training", "calibration", "map"]
    assert page.count("data:image/png;base64,") == 3
    assert "plots/" not in page
    assert "<title>my people</title>" in page


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({"validation_fraction": 0}, "No edges were held out"),
        ({}, r"Only \d+ edges were held out: the measures below are rough"),
        (
            {"max_steps": 1, "learning_rate": 1e-9},
            r"The validation AUC is 0\.\d\d: attributes and edges hardly predict",
        ),
    ],
)
def test_what_to_beware_of(planted, options, warning):
    fitted = glace.train(planted, small(**{"max_steps": 5} | options))
    assert re.search(warning, to_markdown(model_report(fitted, drawn(fitted, k=3), "m")))


def test_models_without_edges_or_attributes(model, planted):
    bare = replace(model, graph=None)
    text = to_markdown(model_report(bare, drawn(bare, k=3), "m"))
    assert "The model keeps no edges" in text
    assert "## Proposed links" not in text
    line = glace.train(planted.without_attributes(), small(max_steps=3), method="line")
    text = to_markdown(model_report(line, drawn(line, k=3), "m"))
    assert "trained without attributes: it cannot embed new nodes" in text
    assert "One point with" in text


def test_many_nodes_have_the_links_of_examples(model, monkeypatch):
    monkeypatch.setattr("glace.report.LARGEST_SEARCH", 10)
    text = to_markdown(model_report(model, drawn(model, k=3), "m"))
    assert "The most probable edges of the central nodes above" in text


def test_many_labels_share_a_colour(model, planted):
    labels = [f"label {number}" if number < 30 else "same" for number in range(400)]
    graph = replace(model.graph, labels=glace.from_arrays([[0, 399]], labels=labels).labels)
    found = model_report(replace(model, graph=graph), drawn(model, k=3), "m")
    assert [each.caption for each in found if isinstance(each, Picture)][-1] == "400 nodes by label"
    codes, names = _most_frequent(graph.labels.codes, graph.labels.names)
    assert names[0] == "same"
    assert names[-1] == "19 others, or none"
    assert np.bincount(codes).tolist() == [370, *[1] * 11, 19]


def test_the_verb_writes_one_page(model_file, capsys, monkeypatch):
    monkeypatch.setattr("glace.server.map.layout", lambda embedding, **_: principal(embedding))
    assert run(["report", str(model_file)]) == 0
    page = model_file.with_suffix(".html")
    assert f"wrote {page}" in "".join(capsys.readouterr().out.split("\n"))
    assert "<h1>model</h1>" in page.read_text()
    assert run(["report", str(model_file), "-o", str(model_file.with_suffix(".pdf"))]) == 2
    assert ".html" in capsys.readouterr().err
