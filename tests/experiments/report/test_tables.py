"""Tables: marks, footnotes and escaping in both formats; cells against numbers worked out by hand."""

import pytest

from glace.drawing.document import Cell, Column, Heading, Table, stacked, table_markdown, text_column, to_html
from glace.experiments.report.cells import amount, compared_columns, cost_columns, score_column, signed
from glace.experiments.report.paper import Printed, printed
from glace.experiments.report.results import Run
from glace.experiments.report.tables import link_prediction
from tests.experiments.report.invented import PROVENANCE, links


def run(auc=0.9, seed=0, status="done", reason=None):
    content = links(seed=seed, auc=auc, status=status, reason=reason)
    return Run(**content)


def test_scores_are_percent_with_deviation_and_the_best_is_bold():
    rows = [[run(0.90), run(0.92, 1)], [run(0.95)], []]
    column = score_column("AUC", rows, "auc")
    assert [cell.text for cell in column.cells] == ["91.00 ± 1.41", "95.00", ""]
    assert [cell.bold for cell in column.cells] == [False, True, False]


def test_what_is_equal_in_print_is_equally_bold():
    column = score_column("AUC", [[run(0.95001)], [run(0.95002)], [run(0.94)]], "auc")
    assert [cell.bold for cell in column.cells] == [True, True, False]


def test_a_score_without_rivals_is_not_bold():
    assert not score_column("AUC", [[run()], []], "auc").cells[0].bold


@pytest.mark.parametrize(
    ("status", "words_of"),
    [
        ("timeout", "stopped at its time limit: why"),
        ("memory", "stopped at its memory limit: why"),
        ("unsupported", "not supported by the method: why"),
        ("failed", "failed: why"),
    ],
)
def test_a_run_that_is_not_done_is_a_dash_with_its_reason(status, words_of):
    cell = score_column("AUC", [[run(status=status, reason="why")]], "auc").cells[0]
    assert cell == Cell("–", notes=(words_of,))  # noqa: RUF001
    assert cost_columns([[run(status=status)]])[0].cells[0].text == ""


def test_missing_seeds_are_said_beside_the_mean():
    cell = score_column("AUC", [[run(0.9), run(seed=3, status="timeout"), run(seed=1, status="timeout")]], "auc").cells[
        0
    ]
    assert cell == Cell("90.00", notes=("without seed 1, 3: stopped at its time limit",))


def test_differences_are_signed_points():
    rows = [[run(0.9855)], [run(0.97)], [run()], []]
    printed, differences = compared_columns("AUC", rows, "auc", [98.0, 98.0, None, 98.0])
    assert [cell.text for cell in printed.cells] == ["98.00", "98.00", "", "98.00"]
    assert [cell.text for cell in differences.cells] == ["+0.55", "\N{MINUS SIGN}1.00", "", ""]
    assert signed(-0.001) == "0.00"


def test_amounts_keep_three_digits():
    assert [amount(value) for value in (0.123, 12.34, 1234.5)] == ["0.12", "12.3", "1,234"]


def table() -> Table:
    cells = (Cell("1.0", True, ("slow",)), Cell("-", notes=("slow", "<big>")))
    return Table((text_column("Method", ["<b>evil</b>", "a|b*c"]), Column("AUC", cells, "ours & theirs")))


def test_html_escapes_and_has_the_same_footnotes():
    text = to_html([Heading("T", 1), table()])
    assert "<b>evil" not in text
    assert "<td>&lt;b&gt;evil&lt;/b&gt;</td>" in text
    assert "<td>a|b*c</td>" in text
    assert "ours &amp; theirs AUC</th>" in text
    assert "<strong>1.0</strong><sup>a</sup>" in text
    assert "<sup>a,b</sup>" in text
    assert "<sup>a</sup> slow<br />\n<sup>b</sup> &lt;big&gt;" in text


def test_markdown_escapes_and_has_a_cell_for_every_place():
    lines = table_markdown(table()).splitlines()
    assert lines[0] == "| Method | ours &amp; theirs AUC |"
    assert lines[1] == "| --- | ---: |"
    assert lines[2] == "| &lt;b>evil&lt;/b> | **1.0**<sup>a</sup> |"
    assert lines[3].startswith(r"| a\|b\*c |")
    assert lines[5:] == ["<sup>a</sup> slow  ", "<sup>b</sup> &lt;big>  "]


def test_footnotes_go_beyond_z():
    many = Table((Column("x", tuple(Cell("1", notes=(str(place),)) for place in range(28))),))
    assert list(many.footnotes().values())[25:] == ["z", "aa", "ab"]


def test_stacked_tables_name_each_part_once():
    parts = {"A": [text_column("m", ["x", "y"])], "B": [text_column("m", ["z"])]}
    assert [[cell.text for cell in row] for row in stacked("d", parts).rows()] == [["A", "x"], ["", "y"], ["B", "z"]]


def test_the_numbers_of_the_paper():
    assert printed("glace", "dblp") == printed("glace-published", "dblp") == Printed(98.55, 98.40)
    assert printed("glace-published-first", "citeseer") == Printed(96.41, 96.40)
    assert printed("lace-published-second", "citeseer") == Printed(94.29, 94.61)
    assert printed("lace", "dblp") == printed("lace-published", "dblp") == Printed(93.82, 94.14)
    assert printed("lace-published", "pubmed") == Printed(89.53, 89.85)
    assert printed("lace", "pubmed") == printed("lace-published-second", "pubmed"), "the best of the paper's"
    assert printed("glace-as-coded", "dblp") == printed("glace-published-first", "dblp")
    assert printed("lace", "cora-ml", 0.1) is None, "the table has no points"
    assert printed("glace-second", "citeseer") is None
    assert printed("glace-published-first", "cora-ml", 0.1) == Printed(93.07, 86.72), "it does not say which"
    assert printed("line", "acm") == Printed(75.32, 76.81)
    assert printed("graphsage", "acm") is None
    assert printed("glace", "cora-ml") is None
    assert printed("vgae", "cora") is None
    assert printed("graph2gauss", "pubmed", 0.5) == Printed(51.22, 27.39)
    assert printed("glace", "cora-ml", 0.1) == Printed(93.07, 86.72)
    assert printed("glace", "cora-ml", 0.3) is None


@pytest.mark.parametrize(
    ("dataset", "data", "other"),
    [
        ("pubmed", "fe3d581ff88a7ae3a54a397b6286b334173d3dd70f53765b092d53fb5be833d3", True),
        ("pubmed", "another graph, such as the paper's", False),
        ("citeseer", "every file", True),
        ("dblp", "every file", False),
    ],
)
def test_graphs_that_are_not_the_papers_are_said_to_be_so(dataset, data, other):
    content = links(dataset, provenance=PROVENANCE | {"data": data})
    texts = [block for block in link_prediction([Run(**content)]) if isinstance(block, str)]
    assert any("Not the paper's file" in text for text in texts) is other
    assert any("must be a slip" in text for text in texts) is (dataset == "pubmed")
