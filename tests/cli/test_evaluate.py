"""`glace evaluate`, and `glace fit` with methods that have no model file."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from glace import load, load_embedding
from glace.cli.main import run
from glace.datasets import planted
from glace.experiments.evaluation import classes as node_classification
from glace.io.npz import write_npz
from glace.model.network import using_threads
from tests.experiments.test_tasks import TINY, write_split

SETTLED = ["hidden_length=free", "neighbor_features=none", "neighbor-dropout=0", "dropout=0", "ensemble_size=1"]
FAST = [f"{name}={value}" for name, value in TINY.items()]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Little to classify, and one thread: small steps take longer with more."""
    monkeypatch.setattr(node_classification.node_classification, "__defaults__", ((0.1, 0.5), 2))
    with using_threads(1):
        yield


@pytest.fixture
def graph(folder):
    made = planted(120, communities=3, degree=10, attributes=60, words=10)
    write_npz(made, folder / "graph.npz")
    return made


def options(*given: str) -> list[str]:
    return [part for each in given for part in ("--option", each)]


def record(path: Path) -> dict[str, object]:
    (line,) = path.read_text(encoding="utf-8").splitlines()
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


SAID = {
    "link-prediction": [r"auc +0\.\d{4}\n", r"ap +0\.\d{4}\n", r"seconds +validation AUC", r"\d\.\d{4} +0\.\d{4}"],
    "node-classification": [r"labels +micro-F1 +macro-F1", r"50% +0\.\d{4} +0\.\d{4}"],
    "induction": [r"auc +0\.\d{4}\n"],
    "visualization": [r"silhouette +-?0\.\d{4}"],
    "ranking": [r"hidden edges +60\n", r"MRR +Hits@10", r"glace +0\.\d{4} +0\.\d{4}"],
    "benchmark-ranking": [r"hidden edges +60\n", r"Hits@20 +Hits@50 +Hits@100 +MRR +AUC", r"glace +0\.\d{4} +0\.\d{4}"],
    "uncertainty": [r"auc +0\.\d{4}\n", r"rank correlation of the variance with\n +degree +-?0\.\d{4}"],
}


@pytest.mark.parametrize("task", SAID)
def test_each_task_prints_and_writes_its_figures(glace, graph, folder, task):
    given = options(*FAST, *SETTLED)
    shown = glace("evaluate", task, "graph.npz", "--seed", "2", *given, "--json", "r.json")
    assert shown.startswith("Graph(120 nodes")
    assert f"{task}, glace, seed 2\n" in shown
    assert re.search(r"\d+\.\d s, [\d,]+ MB\n$", shown)
    for wanted in SAID[task]:
        assert re.search(wanted, shown), shown
    found = record(folder / "r.json")
    named = {"kind": "evaluation", "task": task, "dataset": "graph.npz", "method": "glace", "seed": 2}
    assert {name: found[name] for name in named} == named
    assert found["status"] == "done"
    chosen = found["options"]
    assert isinstance(chosen, dict)
    assert (chosen["dim"], chosen["neighbor_features"], chosen["random_state"]) == (4, "none", 2)
    provenance = found["provenance"]
    assert isinstance(provenance, dict)
    assert provenance["data"] == graph.fingerprint()


def test_points_are_judged_by_the_cosine_too(glace, graph):
    assert re.search(
        r"auc cosine +0\.\d{4}\n", glace("evaluate", "link-prediction", "graph.npz", "--method", "attributes")
    )


def test_what_was_chosen_is_told(glace, graph):
    shown = glace("evaluate", "link-prediction", "graph.npz", *options(*FAST))
    assert re.search(r"options: hidden length bounded, neighbor features mean, dropout annealed", shown)


def test_a_given_split_and_a_hidden_share(glace, graph, folder):
    write_split(graph, folder / "given.npz")
    method = ["--method", "attributes", "--json", "r.json"]
    glace("evaluate", "link-prediction", "graph.npz", *method, "--split", "given.npz")
    assert record(folder / "r.json")["split"] == "given.npz"
    glace("evaluate", "induction", "graph.npz", *method, "--hidden-share", "0.4")
    assert record(folder / "r.json")["hidden_share"] == 0.4


def test_quiet_prints_nothing_and_tables_will_do(glace):
    tables = ["--edges", "edges.csv", "--attributes", "nodes.csv", "--method", "attributes"]
    assert glace("evaluate", "link-prediction", *tables, "--quiet") == ""


@pytest.fixture
def refused(folder, capsys):
    """Run a command that must fail with one line, and this exit code."""

    def fail(*arguments: str, match: str, code: int = 2) -> None:
        capsys.readouterr()
        assert run(list(arguments)) == code
        printed = capsys.readouterr()
        assert printed.err.startswith("error: ")
        assert printed.err.count("\n") == 1
        assert re.search(match, printed.err), printed.err

    return fail


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["guessing"], "task must be one of link-prediction, .*, benchmark-ranking, not 'guessing'"),
        (["induction", "--method", "pagerank"], "pagerank ranks pairs of nodes and embeds none"),
        (["induction", "--method", "gcn"], "method must be one of attributes, .* or, for ranking, .*, not 'gcn'"),
        (["induction", "--method", "line"], "line uses only edges, so it cannot embed"),
        (["uncertainty", "--method", "vgae"], "vgae has points, which have no variance"),
        (["induction", "--option", "depth=3"], "glace has no option 'depth'; it has dim, hidden, "),
        (["induction", "--option", "dim=none"], "--dim must be a whole number of at least 1, not 'none'"),
        (["induction", "--option", "dim"], "give an option of a method as NAME=VALUE, not 'dim'"),
        (["induction", "--option", "random_state=3"], "the random state is that of the evaluation"),
        (["induction", "--option", "=3"], "as NAME=VALUE, not '=3'"),
        (["induction", "--seed", "-1"], "--seed must be a whole number of at least 0, not -1"),
        (["induction", "--split", "x.npz"], "a split applies to link-prediction and .*, not to induction"),
        (["uncertainty", "--hidden-share", "0.1"], "a hidden share applies to induction and .*, not to unc"),
        (["induction", "--method", "lace", "--hidden-share", "1"], "nodes to hide must be above 0 and below 1"),
        (["link-prediction", "--split", "x.npz"], "no file x.npz; expected a split in an .npz file"),
        (["link-prediction", "--json", "graph.npz"], "cannot write graph.npz: it is also another file"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(refused, graph, arguments, match):
    task, *rest = arguments
    refused("evaluate", task, "graph.npz", *rest, match=match)


def test_a_task_without_a_graph_and_a_graph_without_labels(refused):
    refused("evaluate", "induction", match="name one graph: a dataset, a file, or --edges FILE, not nothing")
    refused("evaluate", match="missing argument 'TASK'")
    graph = ["--edges", "edges.csv", "--attributes", "nodes.csv", "--method", "attributes"]
    refused("evaluate", "visualization", *graph, match="the task needs labels, but the graph has none")


def test_what_does_not_fit_into_memory_has_its_own_exit_code(refused, graph):
    command = ["visualization", "graph.npz", "--method", "attributes", "--option", "most_gigabytes=1e-9"]
    refused("evaluate", *command, match=r"raw attributes of 120 nodes are 0\.0 GB as points, more than", code=4)


# fit with other methods


def test_fit_by_another_method_writes_an_embedding(glace, graph, folder):
    pytest.importorskip("gensim", reason="gensim has no wheel for Python 3.14")
    small = options("walks=2", "length=10")
    shown = glace(
        "fit", "graph.npz", "--method", "node2vec", *small, "--dim", "6", "-o", "x.parquet", "--json", "f.json"
    )
    assert re.search(r"wrote x\.parquet: Embedding\(120 points with 6 dimensions, dot\) in .* s \(\d+\.\d kB\)", shown)
    embedding = load_embedding("x.parquet")
    assert (embedding.mean.shape, embedding.variance, embedding.dissimilarity) == ((120, 6), None, "dot")
    assert list(embedding.ids) == list(graph.ids)
    found = record(folder / "f.json")
    assert (found["kind"], found["nodes"]) == ("fit", 120)
    provenance = found["provenance"]
    assert isinstance(provenance, dict)
    assert provenance["method"] == "node2vec"
    assert provenance["options"] == {"dim": 6, "walks": 2, "length": 10}
    for seed in ("0", "1"):
        glace(
            "fit",
            "graph.npz",
            "--method",
            "node2vec",
            *small,
            "--dim",
            "6",
            "--random-state",
            seed,
            "-o",
            f"{seed}.npz",
        )
    np.testing.assert_array_equal(load_embedding("0.npz").mean, embedding.mean)
    assert (load_embedding("1.npz").mean != embedding.mean).any()


def test_line_and_the_published_glace_have_model_files(glace, graph):
    for method, dims in (("line", 8), ("glace-published", 8)):
        small = ["--dim", "4", "--hidden", "8", "--max-steps", "20"]
        glace("fit", "graph.npz", "--method", method, *small, "-o", "m.glace", "-q")
        model = load("m.glace")
        assert model.method == method
        assert model.embedding.mean.shape == (120, dims)
        assert model.selection.trials == ()
        assert (model.embedding.variance is None) == (method == "line")


def test_fit_tells_what_it_chose(glace, graph, monkeypatch):
    small = ["--dim", "4", "--hidden", "8", "--max-steps", "20"]
    shown = glace("fit", "graph.npz", *small, "-o", "m")
    assert re.search(r"options +hidden length bounded, neighbor features mean, dropout annealed", shown)
    assert set(load("m").selection.options) == {"hidden_length", "neighbor_features", "dropout"}
    monkeypatch.setattr("glace.training.train.FEWEST_EDGES", 5)
    assert "selected by trials" in glace("fit", "graph.npz", *small, "-o", "m.glace")
    shown = glace("fit", "graph.npz", *small, "--method", "lace-published", "-o", "m.glace")
    assert "selected by trials" not in shown
    assert "options" not in shown


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--method", "node2vec", "-o", "m.glace"], r"m\.glace.*\.parquet"),
        (["--method", "node2vec", "-o", "x.npz", "--hidden", "8"], "node2vec has no option 'hidden'; it has dim, "),
        (["--method", "node2vec", "-o", "x.npz", "--estimate"], "--resume and --estimate apply to glace, .*, not to"),
        (["--method", "node2vec", "-o", "x.npz", "--resume"], "--resume and --estimate apply to glace, .*; leave"),
        (["--method", "node2vec", "-o", "x.npz", "--option", "random_state=x"], "--random-state must be a whole"),
        (["--method", "lace", "-o", "x.parquet"], r"a model file cannot be named x\.parquet"),
        (["--method", "lace", "--option", "walks=3"], "lace has no option 'walks'; see 'glace fit --help'"),
        (["--option", "walks"], "as NAME=VALUE, not 'walks'"),
    ],
)  # fmt: skip
def test_fit_refuses_what_does_not_go_with_a_method(refused, graph, folder, arguments, match):
    before = sorted(folder.iterdir())
    refused("fit", "graph.npz", *arguments, match=match)
    assert sorted(folder.iterdir()) == before
