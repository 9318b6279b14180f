"""What the documents say of results is what the records beside them say."""

import re
from pathlib import Path

import pytest

from glace.drawing.document import to_markdown
from glace.experiments.report import curves
from glace.experiments.report.paper import dataset_name, printed, split_name
from glace.experiments.report.results import by_dataset, by_method, mean_score, read_results
from glace.experiments.report.write import report_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCORES = r"(\d\d\.\d\d) / (\d\d\.\d\d)"
ROWS = re.findall(rf"^\| ([^|]+) \| {SCORES} \| {SCORES} \| (.+) \|$", README, flags=re.M)
"""Graph, AUC and AP of GLACE, of GLACE as published in the paper's way, and what the paper has."""


@pytest.fixture
def _no_pictures(monkeypatch):
    """Texts are compared, and pictures take seconds."""
    for draw in ("draw_lines", "draw_clouds"):
        monkeypatch.setattr(curves, draw, lambda *args, **kwargs: b"")


@pytest.mark.usefixtures("_no_pictures")
@pytest.mark.parametrize("folder", [RESULTS, ROOT / "docs" / "ranking"], ids=lambda folder: folder.name)
def test_reports_are_drawn_from_the_records_beside_them(folder):
    drawn = to_markdown(report_of(read_results(folder)))
    assert (folder / "report.md").read_text(encoding="utf-8") == drawn, f"glace reproduce --redraw {folder}"


@pytest.fixture(scope="module")
def measured():
    """The runs of link prediction by what the README calls their graph, then by method."""
    runs = read_results(RESULTS).of("link-prediction")
    by_row = {}
    for split in {run.split for run in runs}:
        ending = "" if split == "random" else f", {split_name(split)}"
        for dataset, group in by_dataset(run for run in runs if run.split == split).items():
            by_row[dataset_name(dataset) + ending] = dataset, by_method(group)
    return by_row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_table_of_the_readme(measured, row):
    name, *stated, paper = row
    dataset, runs = measured[name.partition(" (")[0]]
    fields = [("glace", "auc"), ("glace", "ap")]
    fields += [("glace-published", f"{score}_without_context") for score in ("auc", "ap")]
    for text, (method, field) in zip(stated, fields, strict=True):
        score = mean_score(runs[method], field)
        assert score is not None
        assert text == f"{100 * score.mean:.2f}", f"{name}, {method}, {field}"
    best = None if "split" in name else printed("glace", dataset)
    assert paper.startswith("-" if best is None else f"{best.auc:.2f} / {best.ap:.2f}")


def test_the_readme_has_a_row_of_every_graph(measured):
    assert len(ROWS) == len(measured)
