"""The whole report from invented records: sections, numbers, nothing from elsewhere, the same bytes twice."""

import re
import sys
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel

from glace.cli.main import run
from glace.drawing.document import pictures, to_html, to_markdown
from glace.errors import InputError
from glace.experiments.report.cells import signed
from glace.experiments.report.curves import holm, mean_curve, paired_test, seconds_to
from glace.experiments.report.paper import method_name, methods_in_order
from glace.experiments.report.results import Results, read_results
from glace.experiments.report.write import report_of, write_report
from tests.experiments.report import invented
from tests.experiments.report.invented import (
    benchmark,
    certainty,
    classes,
    cloud,
    curve,
    everything,
    links,
    record,
    write,
)

SECTIONS = [
    "Link prediction (Table 2)",
    "Node classification (Figure 1)",
    "Induction (Table 3)",
    "Convergence (Figure 2)",
    "Visualization (Figure 3)",
    "Uncertainty",
    "Ranking (not in the paper)",
    "Time and memory",
    "About this report",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = write(tmp_path_factory.mktemp("results"), everything())
    write_report(place)
    return place


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(folder):
    return (folder / "report.md").read_text(encoding="utf-8")


def drawn(tmp_path, records) -> str:
    return to_markdown(report_of(read_results(write(tmp_path, records))))


def row(text: str, heading: str, *starts: str) -> list[str]:
    """The cells of the first row below a heading whose first cells are these."""
    below = text.split(f"{heading}\n", 1)[1]
    line = next(line for line in below.splitlines() if line.startswith(f"| {' | '.join(starts)} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_section_is_there_in_order(page, text):
    assert re.findall("<h2 id=.*?>(.*?)</h2>", page) == SECTIONS
    assert re.findall("^## (.*)$", text, flags=re.M) == SECTIONS


def test_links_inside_the_page_lead_somewhere(page):
    assert set(re.findall('href="#(.*?)"', page)) == set(re.findall('<h2 id="(.*?)"', page))


def test_nothing_comes_from_elsewhere(page):
    assert not re.search("https?:|<script|<link|@import|url\\(", page)
    assert all(each.startswith(("data:image/png;base64,", "#")) for each in re.findall('(?:src|href)="(.*?)"', page))


def test_both_formats_have_the_same_cells(page, text):
    cells = re.findall("<td[^>]*>(.*?)</td>", page)
    in_page = [re.sub("</?strong>|<sup>.*?</sup>", "", cell) for cell in cells if not cell.startswith("</td")]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    in_text = {re.sub(r"\*\*|<sup>.*?</sup>", "", cell).strip() for line in lines for cell in line.split("|")}
    assert {cell for cell in in_page if cell} - in_text == set()


def test_pictures_of_the_markdown_are_files(folder, text):
    linked = re.findall(r"\]\((plots/.*?)\)", text)
    assert len(linked) == 10
    assert all((folder / each).read_bytes().startswith(b"\x89PNG") for each in linked)
    assert sorted(path.name for path in folder.iterdir()) == ["plots", "records.jsonl", "report.html", "report.md"]


def test_the_same_records_give_the_same_bytes(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    written = write_report(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert set(written) == set(before) - {folder / "records.jsonl"}


def test_ours_beside_the_papers(text):
    # Seeds 0.98 and 0.984: mean 98.20, deviation 0.004 / sqrt 2; the paper has 98.55 and 98.40.
    cells = row(text, "### DBLP", "GLACE")
    assert cells[1] == "**98.20 ± 0.28**"
    assert cells[3] == cells[1], "it has no context"
    assert cells[5:9] == ["98.55", "98.40", "\N{MINUS SIGN}0.35", "\N{MINUS SIGN}0.20"]
    assert cells[9:] == ["2", "10.5", "500"]


def test_second_order_is_judged_in_two_ways_and_the_papers_stands_beside_the_paper(tmp_path):
    second: dict[str, Any] = {"auc": 0.85, "auc_without_context": 0.711, "ap_without_context": 0.72}
    text = drawn(tmp_path, [links("citeseer", "line", **second), links("citeseer", "graph2gauss", auc=0.96)])
    cells = row(text, "### Citeseer", "LINE 1st+2nd")
    assert cells[1:5] == ["85.00", "85.00", "71.10", "72.00"]
    assert cells[5:9] == ["71.20", "72.11", "\N{MINUS SIGN}0.10", "\N{MINUS SIGN}0.11"]
    heads = row(text, "### Citeseer", "Method")
    assert heads[3:5] == ["without context AUC", "without context AP"]
    assert row(text, "### With and without context", "LINE 1st+2nd")[1:] == ["**85.00**", "71.10"]
    assert "Graph2Gauss" not in text.split("### With and without context")[1].split("###")[0]


def test_seconds_are_those_of_runs_without_company(tmp_path):
    with_others = links(seed=0)["provenance"] | {"parallel_runs": 2}
    alone = drawn(tmp_path, [links(seconds=10.0), links(seed=1, seconds=99.0, provenance=with_others)])
    assert row(alone, "### DBLP", "GLACE")[-3:] == ["2", "10.0", "500"]
    assert row(alone, "### Seconds", "GLACE")[1:] == ["10.0"]
    text = drawn(tmp_path, [links(provenance=with_others, curve=curve(0.99, 1.0))])
    assert row(text, "### DBLP", "GLACE")[-3:] == ["1", "", "500"]
    assert "No run was made alone" in text
    assert "convergence.png" not in text
    assert row(text, "### Seconds to a quality", "DBLP", "GLACE")[3:6] == ["–"] * 3  # noqa: RUF001


def test_the_length_of_training_is_told_as_it_was(tmp_path):
    walks = links(method="node2vec", budget={"walks": 4, "length": 40, "visits": 160})
    line = links(method="line", budget={"steps": 1001, "edges": 512512, "epochs": 60.03})
    text = drawn(tmp_path, [walks, line, links()])
    assert row(text, "### Length of training", "node2vec")[1] == "4 walks of 40"
    assert row(text, "### Length of training", "LINE 1st+2nd")[1] == "1,001 steps, 60 epochs"


def test_the_report_names_no_places(tmp_path):
    there = links()["provenance"] | {"grid": "glace reproduce --split /home/me/x.npz --data-dir ../there -o /tmp/out"}
    text = drawn(tmp_path, [links(provenance=there)])
    assert "    glace reproduce --split x.npz -o out" in text


def test_points_are_shown_by_cosine_too(text):
    assert row(text, "### Dot product or cosine", "node2vec")[1:3] == ["88.20", "**89.00**"]
    assert "GLACE" not in text.split("### Dot product or cosine")[1].split("###")[0]


def test_gaussians_are_compared_with_points_on_the_same_splits(tmp_path):
    first = [(0, 0.96, 0.95), (1, 0.94, 0.97), (2, None, 0.99)]
    runs = [links("dblp", "lace", seed, auc=points) for seed, points, _ in first if points]
    runs += [links("dblp", "glace", seed, auc=gaussians) for seed, _, gaussians in first]
    runs += [links("dblp", "lace-second"), links("citeseer", "glace", auc=0.9)]
    for method, trained in (("lace-published", 0.97), ("glace-published", 0.96)):
        runs.append(links("dblp", method, auc=trained, auc_without_context=0.9 + 0.05 * (method[0] == "g")))
    text = drawn(tmp_path, runs)
    title = "### Points or Gaussians"
    assert row(text, title, "Proximity")[1:] == ["Citeseer", "DBLP"]
    assert row(text, title, "defaults of this package, 1st")[1:] == ["", "+1.00 ± 2.83"]
    assert row(text, title, "as published, 1st+2nd")[1:] == ["", "\N{MINUS SIGN}1.00"]
    assert row(text, title, "as published, 1st+2nd, without context")[1:] == ["", "+5.00"]
    assert "defaults of this package, 1st, without context" not in text, "there are no contexts"
    assert "defaults of this package, 2nd" not in text, "one of the two is missing"


def test_the_link_model_has_a_row_of_its_own_that_is_not_compared_with_the_paper(tmp_path):
    judged: dict[str, Any] = {
        "auc_without_context": 0.98,
        "ap_without_context": 0.98,
        "auc_link_model": 0.991,
        "ap_link_model": 0.99,
    }
    text = drawn(tmp_path, [links("dblp", "glace", auc=0.98, **judged), links("dblp", "glace-second", **judged)])
    assert row(text, "### AUC of all datasets", "GLACE + link model")[1:] == ["**99.10**"]
    assert row(text, "### DBLP", "GLACE")[3:6] == ["**98.00**", "**98.00**", "98.55"]
    assert row(text, "### DBLP", "GLACE + link model")[1:7] == ["**99.10**", "**99.00**", "", "", "", ""]
    assert text.count("| GLACE + link model |") == 2
    assert "GLACE 2nd + link model" not in text, "the variants are judged by their embeddings alone"


def test_the_gaussians_the_link_model_and_published_numbers_are_rows(text):
    tenth = "### 10 % of the edges hidden"
    header = ["Dataset", "Method", "Hits@20", "Hits@50", "Hits@100", "MRR", "AUC", "Seeds", "Seconds", "Peak MB"]
    assert row(text, tenth, "Dataset") == header
    assert row(text, tenth, "Cora (Planetoid)", "Adamic-Adar")[2:6] == ["55.00", "65.00", "75.00", "5.00"]
    assert row(text, tenth, "", "GLACE")[2:7] == ["70.00", "80.00", "90.00", "20.00", "**97.00**"]
    assert row(text, tenth, "", "GLACE + link model")[2:7] == [
        "**80.00**",
        "**90.00**",
        "**95.00**",
        "**25.00**",
        "96.00",
    ]
    assert row(text, tenth, "", "the best in HeaRT (published)")[2:] == ["", "", "", "18.3", "", "", "", ""]
    fifth = "### 20 % of the edges hidden"
    assert row(text, fifth, "", "NCNC (published)")[2:] == ["", "", "89.7", "", "", "", "", ""]


def test_directed_graphs_have_a_section_of_their_own(tmp_path):
    one_way: dict[str, Any] = {"directed": True, "auc_direction": 0.8, "provenance": {"data": "of the directed graph"}}
    text = drawn(tmp_path, [links("cora-ml", "glace"), links("cora-ml", "glace-kl", auc=0.97, **one_way)])
    assert "GLACE, directed KL" not in text.split("## Directed link prediction")[0]
    assert "Before you read" not in text, "the graphs of the two sections differ"
    found = row(text, "## Directed link prediction (not in the paper)", "Cora-ML", "GLACE, directed KL")
    assert found[2:5] == ["97.00", "97.00", "80.00"]


def test_other_graphs_have_no_published_numbers(tmp_path):
    text = drawn(tmp_path, [benchmark("dblp", "glace"), benchmark("dblp", "glace", 1, 0.8, hits_at_100=None)])
    assert "published)" not in text
    assert row(text, "### 10 % of the edges hidden", "DBLP", "GLACE")[2:5] == ["65.00 ± 7.07", "75.00 ± 7.07", "90.00"]


def test_a_given_split_stands_apart(text):
    cells = row(text, "### Cora-ML, the authors' split", "GLACE")
    assert cells[1:7] == ["99.00", "99.00", "99.00", "99.00", "97.00", "96.00"]
    assert "The reverse of 42 of its test edges is for training or validation" in text
    assert row(text, "### Cora-ML", "GLACE")[1].startswith("**98.20")


def test_what_did_not_finish_has_a_reason(text):
    assert row(text, "### ACM", "GraphSAGE")[1] == "–<sup>a</sup>"  # noqa: RUF001
    assert "<sup>a</sup> stopped at its time limit: 5 hours" in text


def test_induction_beside_the_papers_and_methods_that_cannot(text):
    assert row(text, "### 50 % of the nodes hidden", "Pubmed", "Graph2Gauss")[2:12] == [
        "90.00", "80.00", "70.00", "60.00", "69.00", "59.00", "51.22", "27.39", "+17.78", "+31.61",
    ]  # fmt: skip
    assert "left out: node2vec." in text
    assert "node2vec" not in text.split("## Induction")[1].split("\n## ")[0].split("left out: node2vec.")[1]


def test_the_head_says_where_it_comes_from(page):
    for fact in ("glace reproduce --seeds 3 -o results", "torch 2.6.0", "Linux", "2026-01-02 03:04:05 UTC", "0123abcd"):
        assert fact in page


def test_only_so_many_commands_are_listed(tmp_path):
    runs = [links(seed=seed) for seed in range(23)]
    for each in runs:
        each["provenance"] = each["provenance"] | {"command": f"glace evaluate --seed {each['seed']}"}
    text = drawn(tmp_path, runs)
    assert "    glace evaluate --seed 19\n    ... and 3 more, in the records" in text


def test_the_p_is_of_the_paired_test(tmp_path):
    records = [
        classes("dblp", method, seed, level) for method, level in (("glace", 0.8), ("lace", 0.799)) for seed in (0, 1)
    ]
    runs = read_results(write(tmp_path, records)).runs
    ours, theirs = ([run for run in runs if run.method == method] for method in ("glace", "lace"))
    trials = [np.concatenate([run.get("micro_f1_trials")[0.1] for run in some]) for some in (ours, theirs)]
    found = paired_test(ours, theirs, 0.1)
    assert found is not None
    assert found.p == pytest.approx(float(ttest_rel(*trials).pvalue))
    assert found.difference == pytest.approx(trials[0].mean() - trials[1].mean())
    second = paired_test(ours, theirs[1:], 0.1)
    assert second is not None
    assert second.p == pytest.approx(float(ttest_rel(trials[0][10:], trials[1][10:]).pvalue))
    assert paired_test(ours, ours, 0.1) == (0.0, None)
    assert paired_test(ours, [], 0.1) is None


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # Holm's own order: 4, 3, 2, 1 times, never falling
        ([0.9, 0.6], [1.0, 1.0]),
    ],
)
def test_holm_against_numbers_worked_out_by_hand(p_values, corrected):
    assert holm(p_values) == pytest.approx(corrected)


def test_every_share_is_tested_and_corrected_together(tmp_path):
    methods = {"glace": 0.8, "lace": 0.795, "attributes": 0.6}
    records = [classes("dblp", method, seed, level) for method, level in methods.items() for seed in (0, 1, 2)]
    text = drawn(tmp_path, records)
    runs = read_results(write(tmp_path, records)).runs
    groups = {method: [run for run in runs if run.method == method] for method in methods}
    plain: dict[tuple[float, str], Any] = {
        (share, method): paired_test(groups["glace"], groups[method], share)
        for share in map(float, invented.SHARES)
        for method in ("attributes", "lace")
    }
    assert len(plain) == 18
    fixed = dict(zip(plain, holm([test.p for test in plain.values()]), strict=True))
    cells = row(text.split("corrected for their number by Holm")[1], "", "LACE")
    for cell, share in zip(cells[1:], map(float, invented.SHARES), strict=True):
        p = fixed[share, "lace"]
        shown = "&lt; 0.001" if p < 0.001 else f"{p:.3f}"
        assert cell == f"{signed(100 * plain[share, 'lace'].difference)} ({shown})"


def test_seconds_to_a_goal_are_those_of_the_first_time():
    curve = [[1.0, 0.5], [2.0, 0.9], [3.0, 0.8], [4.0, 0.95]]
    assert seconds_to(curve, 0.9) == 2.0
    assert seconds_to(curve, 0.91) == 4.0
    assert seconds_to(curve, 0.99) is None


def test_points_of_trials_are_no_points_of_the_model(tmp_path):
    choice = {"options": {"neighbor_features": "mean"}, "trials": [{"auc": 0.96}, {"auc": 0.93}]}
    points = [[0.5, 0.955], [1.0, 0.96], [3.0, 0.97], [4.0, 0.98]]
    decided = drawn(tmp_path, [links(curve=points, choice=choice)])
    assert row(decided, "### Seconds to a quality", "DBLP", "GLACE")[2:5] == ["98.00", "3.00", "3.00"]
    asked = drawn(tmp_path, [links(curve=points)])
    assert row(asked, "### Seconds to a quality", "DBLP", "GLACE")[2:5] == ["98.00", "0.50", "0.50"]
    worse = drawn(tmp_path, [links(curve=points[:2], choice=choice)])
    assert row(worse, "### Seconds to a quality", "DBLP", "GLACE")[3] == "1.00", "no better than a trial"


def test_goals_only_some_seeds_reach_say_how_many(tmp_path):
    text = drawn(tmp_path, [links(curve=curve(0.96, 1.0)), links(seed=1, curve=curve(0.92, 1.0))])
    cells = row(text, "### Seconds to a quality", "DBLP", "GLACE")
    assert cells[2] == "94.00 ± 2.83"
    assert "(" not in cells[3]
    assert cells[4].endswith("(1 of 2)")


def test_curves_of_seeds_are_averaged_place_by_place(tmp_path):
    first, second = certainty("dblp", "glace"), certainty("dblp", "glace", 1)
    second["by_spread"] = {name: column[1:] for name, column in second["by_spread"].items()}
    runs = read_results(write(tmp_path, [first, second])).runs
    points = mean_curve(runs, "by_spread", "tenth", "auc")
    assert np.array(points[:2]) == pytest.approx(np.array([[1.0, 0.99], [2.0, 0.979]]))
    assert mean_curve(runs, "by_spread", "tenth", "unheard of") == []


def test_names_are_escaped(tmp_path):
    evil = "<script>alert(1)</script>"
    records = [links(evil, evil), classes(evil, evil, 0, 0.5), cloud(evil, "$x$", 1.0, ("_a", "$b", "<i>"))]
    document = report_of(read_results(write(tmp_path, records)))
    assert "<script" not in to_html(document)
    assert "<script" not in to_markdown(document)
    assert all(re.fullmatch("[a-z0-9-]+", picture.name) for picture in pictures(document))


def test_pictures_of_like_names_have_files_of_their_own(tmp_path):
    document = report_of(read_results(write(tmp_path, [cloud("a b", "glace", 1.0), cloud("a_b", "glace", 1.0)])))
    assert [picture.name for picture in pictures(document)] == ["visualization-a-b", "visualization-a-b-2"]


@pytest.mark.parametrize("status", ["timeout", "memory", "unsupported", "failed"])
def test_a_report_of_nothing_that_finished_can_be_drawn(tmp_path, status):
    tasks = ["link-prediction", "node-classification", "induction", "visualization", "uncertainty"]
    text = drawn(tmp_path, [record(task, status=status, reason="bad luck") for task in tasks])
    assert "bad luck" in text


def test_induction_on_a_graph_that_the_paper_does_not_have(tmp_path):
    values: dict[str, Any] = {"hidden_share": 0.1, "ap": 0.9, "pairs": 9}
    given = [record("induction", name, "glace", auc=0.8, **values) for name in ("pubmed", "debian")]
    text = drawn(tmp_path, given)
    assert row(text, "### 10 % of the nodes hidden", "Pubmed")[8:10] == ["93.00", "84.19"]
    assert row(text, "### 10 % of the nodes hidden", "Debian")[8:10] == ["", ""]


def test_only_the_tasks_that_were_run_have_sections(tmp_path):
    text = drawn(tmp_path, [links()])
    assert re.findall("^## (.*)$", text, flags=re.M) == [SECTIONS[0], *SECTIONS[-2:]]
    assert row(text, "## About this report", "Not run")[1].startswith("node-classification, induction")


def test_notices_are_printed(tmp_path):
    results = read_results(write(tmp_path, [links()]))
    text = to_markdown(report_of(Results(results.runs, ("Mind the gap.",))))
    assert text.index("## To know before reading") < text.index("Mind the gap.") < text.index("## Link prediction")


def test_methods_stand_in_the_papers_order():
    shuffled = ["zebra", "glace", "line", "lace", "attributes", "line-first", "glace-as-coded", "lace-published"]
    assert [method_name(method) for method in methods_in_order(shuffled)] == [
        "Attributes", "LINE 1st", "LINE 1st+2nd", "LACE as published 1st+2nd", "GLACE as coded", "LACE", "GLACE",
        "zebra",
    ]  # fmt: skip


def test_a_report_that_cannot_be_drawn_leaves_the_last_one(tmp_path, monkeypatch):
    write(tmp_path, [cloud("dblp", "glace", 1.0)])
    (tmp_path / "report.html").write_text("the last one")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install 'glace-graph\[plots\]'"):
        write_report(tmp_path)
    assert (tmp_path / "report.html").read_text() == "the last one"
    assert not (tmp_path / "plots").exists()


def test_a_file_in_the_place_of_the_folder_of_plots_is_said(tmp_path):
    write(tmp_path, [links()])
    (tmp_path / "plots").write_text("")
    with pytest.raises(InputError, match="cannot make the folder .*plots"):
        write_report(tmp_path)


def test_the_verb_says_what_it_wrote(tmp_path, capsys):
    folder = write(tmp_path, [links(curve=curve(0.9, 1.0))])
    assert run(["reproduce", "--redraw", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "report.html" in printed
    assert "report.md" in printed
    assert "wrote 1 pictures" in printed
    assert run(["reproduce", "--redraw", str(tmp_path), "-q"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["reproduce", "table-2", "--redraw", str(tmp_path)]) == 2
    assert "--redraw draws what was measured; leave the other options out" in capsys.readouterr().err
