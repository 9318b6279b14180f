"""Each verb from its arguments to the files and lines it makes."""

import functools
import json
import os
import random
import re
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openTSNE
import pyarrow.csv
import pyarrow.parquet
import pytest

from glace import __version__, datasets, load, load_embedding, read_tables
from glace.cli import main
from glace.cli.demo import KNOWN
from glace.datasets import download
from glace.fitted.model import FittedModel
from glace.gaussian.embedding import PlattScaling
from glace.gaussian.embedding_file import write_embedding
from glace.graph.arrays import from_arrays
from glace.io.npz import read_npz, write_npz
from glace.queries.link_model import LinkModel, RankingScores
from glace.sparse import row_of
from tests.cli.conftest import FAST, NODES, TABLES, TOPICS, names, write_csv
from tests.datasets.builders.test_acm import WHOLE as CITATIONS
from tests.datasets.builders.test_debian import write_lists

FIT = ["fit", *TABLES, *FAST]


def record(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    assert {"command", "versions", "machine", "time"} <= set(found["provenance"])
    assert isinstance(found, dict)
    return found


def gaussians(path: str) -> dict[object, tuple[bytes, bytes]]:
    found = load_embedding(path)
    assert found.variance is not None
    rows = zip(found.mean, found.variance, strict=True)
    return {node: (mean.tobytes(), variance.tobytes()) for node, (mean, variance) in zip(found.ids, rows, strict=True)}


def load_embedding_csv(path: Path) -> np.ndarray:
    table = pyarrow.csv.read_csv(path)
    # A node that comes without its edges is less certain, and no other.
    return np.column_stack([table[name].to_numpy() for name in table.column_names if name[-1].isdigit()])


# Starting


def test_starting_imports_nothing_slow():
    code = "import sys, glace.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    slow = {"torch", "sklearn", "numba", "scipy", "pyarrow", "matplotlib", "numpy", "pandas"}
    assert not slow & set(loaded.split())


QUESTIONS = [
    ["neighbors", "people.glace", "node 01"],
    ["score", "people.glace", "node 01", "node 02"],
    ["links", "people.glace", "node 01"],
    ["info", "people.glace"],
    ["export", "people.glace", "-o", "out.parquet"],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question[0])
def test_questions_about_known_nodes_import_nothing_slow(folder, question):
    code = "import sys; from glace.cli import main; sys.exit = lambda code: None; main.main(); print(*sys.modules)"
    command = [sys.executable, "-c", code, *question]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    slow = {"torch", "sklearn", "numba", "pandas", "matplotlib", "duckdb"}
    assert not slow & set(done.stdout.split()), done.stderr


WRONG = [
    ["neighbors", "none.glace", "x"],
    ["fit", "none.csv"],
    ["fit", "edges.csv", "--dim", "x"],
    ["info", "none.glace"],
]


@pytest.mark.parametrize("arguments", WRONG, ids=lambda arguments: " ".join(arguments))
def test_wrong_arguments_are_refused_before_anything_slow(folder, arguments):
    code = "import sys; from glace.cli import main; sys.exit = lambda code: None; main.main(); print(*sys.modules)"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("error: ")
    assert not {"numpy", "pyarrow", "scipy"} & set(done.stdout.split())


def test_importing_the_package_warns_of_nothing():
    subprocess.run([sys.executable, "-W", "error", "-c", "import glace"], check=True)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["datasets"]])
def test_help_without_a_verb(glace, arguments):
    assert "Usage: glace" in glace(*arguments)


def test_help_of_fit_shows_every_option_and_default(glace, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = glace("fit", "--help")
    assert "default: $GLACE_DATA, or the user's cache" in shown
    for option in ("--dim", "--proximity", "--scaling", "--max-epochs", "--random-state", "--estimate"):
        assert option in shown
    assert re.search(r"--n-negatives.*\[default: \(5\)\]", shown)
    assert re.search(r"--offset.*\(learned, or a number\)", shown)
    assert re.search(r"--dropout.*\(auto, annealed,", shown)


def test_version(glace):
    assert glace("--version") == f"glace {__version__}\n"


# info


def test_info_of_tables(glace, folder):
    shown = glace("info", *TABLES, "--json", "info.json")
    assert re.search(r"nodes +60\n", shown)
    assert re.search(
        r"attributes +5\n *attributes are +dense\n *scaling +columns standardised \(stored dense\)\n", shown
    )
    assert "labels" not in shown, "what a graph does not have is not listed"
    found = record(folder / "info.json")
    assert (found["kind"], found["nodes"], found["direction"]) == ("info", NODES, "undirected")


def test_info_of_an_npz_file_and_of_a_directed_one(glace, folder):
    write_npz(from_arrays([[0, 1], [1, 0], [1, 2]], np.eye(3)), folder / "graph.npz")
    assert re.search(r"edges +2\n", glace("info", "graph.npz"))
    write_npz(from_arrays([[0, 1], [1, 0], [1, 2]], np.eye(3), directed=True), folder / "graph.npz")
    assert re.search(r"edges +3\n *direction +directed", glace("info", "graph.npz", "--directed"))


def test_a_table_without_a_header_loses_no_row(glace, folder):
    (folder / "bare.csv").write_text("a,b\nb,c\nc,d\n")
    assert re.search(r"edges +3\n", glace("info", "bare.csv", "--no-header"))
    assert re.search(r"edges +3\n", glace("info", "--edges", "bare.csv", "--no-header"))


def test_strangers_are_let_in_on_request(glace, folder):
    with (folder / "edges.csv").open("a") as edges:
        edges.write("node 01,stranger,1\n")
    shown = glace("info", *TABLES, "--nodes-without-attributes", "empty")
    assert re.search(r"nodes +61\n", shown)


def test_a_reader_who_leaves_does_not_stop_the_work(folder):
    """As `glace info ... | true` does: nothing is printed, but the record is written."""
    command = [sys.executable, "-m", "glace", "info", "edges.csv", "--json", "info.json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert record(folder / "info.json")["nodes"] == NODES


# fit


def test_fit_writes_a_model_and_a_record(glace, folder):
    shown = glace(*FIT, "-o", "m.glace", "--json", "fit.json")
    assert re.search(r"AUC 0\.\d{4} +AP 0\.\d{4}", shown)
    assert re.search(r"20 steps in \d+\.\d s", shown)
    assert re.search(r"wrote m\.glace \(\d+\.\d kB\)", shown)
    found = record(folder / "fit.json")
    wanted = {"validation_auc", "validation_ap", "seconds", "steps", "edges_per_second", "peak_rss_mb"}
    assert {"provenance", "nodes", "edges", "best_step", *wanted} <= set(found)
    assert (found["kind"], found["steps"], found["nodes"]) == ("fit", 20, NODES)
    assert 0 < float(str(found["validation_auc"])) <= 1
    provenance = found["provenance"]
    assert isinstance(provenance, dict)
    assert provenance["dataset"] == "edges.csv"
    assert provenance["data"] == read_tables("edges.csv", "nodes.csv").fingerprint()
    assert (provenance["options"]["dim"], provenance["options"]["n_jobs"]) == (4, 1)
    assert load("m.glace").embedding.mean.shape == (NODES, 4)
    assert not (folder / "m.glace.checkpoint").exists()


def test_a_model_file_has_ordinary_permissions(glace, folder):
    mask = os.umask(0)
    os.umask(mask)
    glace("export", "people.glace", "-o", "x.parquet")
    glace(*FIT, "-q", "-o", "m.glace")
    for name in ("x.parquet", "m.glace"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o666 & ~mask


def test_fit_says_when_it_stopped_early(glace):
    options = ["--patience", "1", "--validate-every", "1", "--max-steps", "500"]
    assert re.search(r"ended +early: no better validation AUC in the last \d+ validations", glace(*FIT, *options))


def test_fit_without_held_out_edges(glace, folder):
    shown = glace(*FIT, "--validation-fraction", "0", "--json", "fit.json")
    assert "AUC" not in shown
    assert record(folder / "fit.json")["validation_auc"] is None


def test_estimate_prints_and_writes_nothing(glace, folder):
    before = sorted(folder.iterdir())
    shown = glace(*FIT, "--estimate")
    assert re.search(r"peak memory, about +\d+\.\d MB", shown)
    assert re.search(r"model file +\d+\.\d kB", shown)
    assert sorted(folder.iterdir()) == before


def test_quiet_prints_nothing(glace, folder):
    assert glace(*FIT, "--quiet") == ""
    assert (folder / "model.glace").exists(), "the default output"
    assert glace("export", "model.glace", "-o", "x.csv", "-q") == ""
    assert glace("embed", "model.glace", "--attributes", "nodes.csv", "-o", "x.npz", "-q") == ""
    assert glace("neighbors", "model.glace", "node 01", "-q") == ""
    assert glace("score", "model.glace", "node 01", "node 02", "-q") == ""
    assert glace("info", "edges.csv", "-q") == ""


def test_fit_of_points(glace):
    glace(*FIT, "--method", "lace", "-o", "points.glace")
    model = load("points.glace")
    assert (model.method, model.embedding.variance, model.embedding.dissimilarity) == ("lace", None, "dot")


def test_an_offset_is_a_word_or_a_number(glace):
    glace(*FIT, "--offset", "1.5", "-q")
    assert load("model.glace").config.model.offset == 1.5


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the listener of the next runs be interrupted at this step, as by Ctrl-C."""

    def figures(progress):
        if progress.step == step:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr("glace.cli.screen._figures", figures)


def test_an_interrupted_run_is_resumed_to_the_same_bytes(glace, folder, capsys):
    glace(*FIT, "-o", "whole.glace")
    command = [*FIT, "-o", "m.glace", "--checkpoint-seconds", "0"]
    assert "no m.glace.checkpoint; starting from the beginning" in glace(*command, "--resume")
    with pytest.MonkeyPatch.context() as patch:
        stop_at(9, patch)
        assert main.run(command) == 130
    printed = capsys.readouterr()
    assert printed.err == "error: interrupted\n"
    assert "interrupted; use --resume to continue from m.glace.checkpoint" in printed.out
    assert (folder / "m.glace.checkpoint").exists()
    assert "continuing from m.glace.checkpoint" in glace(*command, "--resume")
    assert (folder / "m.glace").read_bytes() == (folder / "whole.glace").read_bytes()
    assert not (folder / "m.glace.checkpoint").exists()


def test_a_left_checkpoint_is_mentioned(glace, folder, capsys):
    command = [*FIT, "-o", "m.glace", "--checkpoint-seconds", "0"]
    with pytest.MonkeyPatch.context() as patch:
        stop_at(3, patch)
        main.run(command)
    assert "replacing m.glace.checkpoint; use --resume to continue from it" in glace(*command)


# The same in, the same out


def test_ids_weights_and_direction_travel_from_csv_to_csv(glace, folder):
    glace(*FIT, "--directed", "-o", "m.glace")
    model = load("m.glace")
    assert model.directed
    assert model.embedding.dissimilarity == "kl"
    assert list(model.embedding.ids) == names(), "in the order of the attribute file"
    glace("export", "m.glace", "-o", "all.csv")
    glace("embed", "m.glace", "--attributes", "nodes.csv", "-o", "again.csv")
    for file in ("all.csv", "again.csv"):
        assert pyarrow.csv.read_csv(file)["id"].to_pylist() == names()
    everything, again = (load_embedding_csv(folder / file) for file in ("all.csv", "again.csv"))
    np.testing.assert_allclose(everything, again, rtol=1e-5, atol=1e-6)


def test_weights_matter(glace, folder):
    glace(*FIT, "-q", "-o", "weighted.glace")
    rows = [line.rpartition(",")[0] for line in (folder / "edges.csv").read_text().splitlines()[1:]]
    write_csv(folder / "edges.csv", "source,target", rows)
    glace(*FIT, "-q", "-o", "plain.glace")
    assert gaussians("weighted.glace") != gaussians("plain.glace")


def test_the_same_fit_twice_gives_the_same_bytes(glace, folder):
    for name in ("first.glace", "second.glace"):
        glace(*FIT, "--directed", "-q", "-o", name)
    assert (folder / "first.glace").read_bytes() == (folder / "second.glace").read_bytes()


@pytest.mark.parametrize("direction", [[], ["--directed"]])
def test_shuffled_rows_give_the_same_gaussian_for_each_id(glace, folder, direction):
    glace(*FIT, *direction, "-q", "-o", "plain.glace")
    for file in ("edges.csv", "nodes.csv"):
        header, *rows = (folder / file).read_text().splitlines()
        random.Random(1).shuffle(rows)
        write_csv(folder / file, header, rows)
    glace(*FIT, *direction, "-q", "-o", "mixed.glace")
    plain, mixed = gaussians("plain.glace"), gaussians("mixed.glace")
    assert list(plain) != list(mixed)
    assert plain == mixed


# embed, export


def test_embed_attributes(glace, folder):
    rows = (folder / "nodes.csv").read_text().splitlines()
    write_csv(folder / "new.csv", rows[0], [f"new {row}" for row in rows[3:5]])
    shown = glace("embed", "people.glace", "--attributes", "new.csv", "-o", "new.parquet", "--json", "e.json")
    assert "wrote new.parquet: Embedding(2 Gaussians with 4 dimensions" in shown
    assert (record(folder / "e.json")["nodes"], record(folder / "e.json")["dimensions"]) == (2, 4)
    known, new = load_embedding("people.glace"), load_embedding("new.parquet")
    assert list(new.ids) == [f"new {node}" for node in names()[2:4]]
    same = known.ids.positions(names()[2:4])
    np.testing.assert_allclose(new.mean, known.mean[same], rtol=1e-5, atol=1e-6)
    assert known.variance is not None
    assert new.variance is not None
    np.testing.assert_allclose(new.variance, known.variance[same], rtol=1e-5)


def test_embed_texts(glace, folder):
    write_csv(folder / "new.csv", "id,text", [f"new {n},{TOPICS[n]}" for n in range(3)])
    glace("embed", "texts.glace", "--texts", "new.csv", "-o", "new.npz")
    new, known = load_embedding("new.npz"), load_embedding("texts.glace")
    assert list(new.ids) == ["new 0", "new 1", "new 2"]
    near, _ = known.nearest_to(new, 5)
    assert (np.mod(near, 3) == np.arange(3)[:, None]).mean() > 0.8, "each lies among the texts of its topic"


def test_embed_without_a_header(glace, folder):
    (folder / "new.csv").write_text("x,1,2,3,4,5\ny,5,4,3,2,1\n")
    glace("embed", "people.glace", "--attributes", "new.csv", "--no-header", "-o", "new.npz")
    assert list(load_embedding("new.npz").ids) == ["x", "y"]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
@pytest.mark.parametrize("model", ["people.glace", "numbered.glace"])
def test_export_to_what_can_be_read_back(glace, model, ending):
    glace("export", model, "-o", f"out.{ending}")
    assert list(gaussians(f"out.{ending}").items()) == list(gaussians(model).items())
    node, found = "1" if "numbered" in model else "node 01", []
    for file in (model, f"out.{ending}"):
        glace("neighbors", file, node, "--json", "n.json")
        rows = record(Path("n.json"))["neighbors"]
        assert isinstance(rows, list)
        found.append([{name: value for name, value in row.items() if name != "known"} for row in rows])
    assert found[0] == found[1], "all but the edges, which an embedding does not have"


def test_export_to_csv(glace):
    glace("export", "people.glace", "-o", "out.csv")
    table, known = pyarrow.csv.read_csv("out.csv"), load_embedding("people.glace")
    assert known.variance is not None
    columns = [f"{part}_{place}" for part in ("mean", "variance") for place in range(4)]
    assert table.column_names == ["id", "expected_error", "certainty", *columns]
    np.testing.assert_array_equal(table["certainty"].to_numpy().astype(np.float32), known.certainty)
    np.testing.assert_array_equal(
        np.column_stack([table[name].to_numpy() for name in columns]).astype(np.float32),
        np.hstack([known.mean, known.variance]),
    )


# neighbors, score


@pytest.mark.parametrize(("model", "node"), [("people.glace", "node 07"), ("numbered.glace", "7")])
def test_neighbors(glace, folder, model, node):
    shown = glace("neighbors", model, node, "-k", "4", "--json", "n.json")
    known = load_embedding(model)
    found = known.neighbors(known.ids.parse(node), 4)
    lines = [line.rsplit(maxsplit=3) for line in shown.splitlines() if re.search(r"\d\.\d{4}", line)]
    assert [line[0].strip() for line in lines] == [str(each) for each in found.id]
    answers = record(folder / "n.json")["neighbors"]
    assert isinstance(answers, list)
    assert [answer["id"] for answer in answers] == found.id.tolist()
    assert [answer["dissimilarity"] for answer in answers] == found.dissimilarity.tolist()
    assert all("probability" not in answer for answer in answers)


def test_more_neighbors_than_there_are_nodes(glace, folder):
    glace("neighbors", "people.glace", "node 07", "-k", "100000", "--json", "n.json")
    answers = record(folder / "n.json")["neighbors"]
    assert isinstance(answers, list)
    ids = [str(each) for each in load_embedding("people.glace").ids]
    assert sorted(answer["id"] for answer in answers) == sorted(set(ids) - {"node 07"})
    assert all(np.isfinite(answer["dissimilarity"]) for answer in answers)


def test_neighbors_that_are_not_joined_yet(glace, folder):
    model = load("people.glace")
    assert model.graph is not None
    place = model.graph.ids.position("node 01")
    joined = {model.graph.ids[other] for other in row_of(model.graph.adjacency, place).tolist()}
    shown = glace("neighbors", "people.glace", "node 01", "-k", "60", "--exclude-known")
    assert {line.strip().split("  ")[0] for line in shown.splitlines()[3:-1]} == set(names()) - joined - {"node 01"}
    glace("export", "people.glace", "-o", "e.parquet")
    assert main.run(["neighbors", "e.parquet", "node 01", "--exclude-known"]) == 2


def test_neighbors_with_a_label_and_by_another_measure(glace, folder):
    rows = [f"{node},{number % 3}.5,{'odd' if number % 2 else 'even'}" for number, node in enumerate(names())]
    write_csv(folder / "labelled.csv", "id,a,label", rows)
    glace("fit", "--edges", "edges.csv", "--attributes", "labelled.csv", *FAST, "-q", "-o", "l.glace")
    shown = glace("neighbors", "l.glace", "node 01", "-k", "60", "--label", "odd", "--dissimilarity", "wasserstein2")
    listed = [line.strip().split("  ")[0] for line in shown.splitlines()[3:-1]]
    embedding = load_embedding("l.glace")
    odd = np.arange(NODES) % 2 == 1
    assert listed == embedding.neighbors("node 01", 60, dissimilarity="wasserstein2", among=odd).id.tolist()


def test_neighbors_of_new_nodes(glace, folder, capsys):
    glace("embed", "people.glace", "--attributes", "nodes.csv", "-o", "new.parquet")
    shown = glace("neighbors", "people.glace", "--of", "new.parquet", "-k", "1", "--json", "n.json")
    answers = record(folder / "n.json")["neighbors"]
    assert isinstance(answers, list)
    assert [answer["id"] for answer in answers] == [answer["query"] for answer in answers], "nearest to itself"
    assert "node 07" in shown
    model = load("people.glace")
    new = model.transform(np.zeros((1, model.n_features)))
    write_embedding(replace(new, platt_scaling=PlattScaling(1.0)), "other.parquet")  # as another model has others
    capsys.readouterr()
    assert main.run(["neighbors", "people.glace", "--of", "other.parquet"]) == 2
    assert "other.parquet comes from another model than people.glace" in capsys.readouterr().err.replace("\n", " ")


def test_new_nodes_that_nothing_is_known_about(glace, folder):
    write_csv(folder / "new.csv", "id,text", [f"like,{TOPICS[0]}", "unlike,gizmo flux"])
    shown = glace("embed", "texts.glace", "--texts", "new.csv", "-o", "new.parquet")
    assert "the model was fitted for links; one fitted with --purpose nodes places new nodes better" in shown
    warning = "warning: 1 of 2 nodes is unlike the training graph (first: 'unlike'"
    assert f"{warning}, 100 % of its attributes never seen); treat the results with caution" in shown
    shown = glace("neighbors", "texts.glace", "--of", "new.parquet", "-k", "1", "--json", "n.json")
    assert f"{warning}); nothing is known about such a node, and what it seems to be like means nothing" in shown
    marks = [answer["novel"] for answer in record(folder / "n.json")["neighbors"]]
    assert marks == [False, True]
    shown = glace("links", "texts.glace", "--of", "new.parquet", "-k", "2", "--json", "l.json")
    assert "assume that a new node has as many edges as the nodes of the graph have on average" in shown
    assert f"{warning}); nothing is known about such a node: its probabilities are the density" in shown
    model, links = load("texts.glace"), record(folder / "l.json")["links"]
    assert isinstance(links, list)
    assert model.graph is not None
    assert [link["source"] for link in links] == ["like", "like", "unlike", "unlike"]
    density = model.graph.num_edges / (NODES * (NODES - 1) / 2)
    assert [link["probability"] for link in links[2:]] == [pytest.approx(density)] * 2
    assert links[0]["probability"] > density
    assert [link["novel"] for link in links] == [False, False, True, True]
    glace("fit", "--edges", "edges.csv", "--texts", "texts.csv", *FAST, "-q", "--purpose", "nodes", "-o", "n.glace")
    assert "--purpose" not in glace("embed", "n.glace", "--texts", "texts.csv", "-o", "known.parquet")
    assert "warning" not in glace("links", "n.glace", "--of", "known.parquet")


def test_score_of_one_pair(glace, folder):
    shown = glace("score", "people.glace", "node 01", "node 05", "--json", "s.json")
    known = load_embedding("people.glace")
    near = known.dissimilarities([("node 01", "node 05")])
    places = known.ids.positions(["node 01", "node 05"])[None]
    model = load("people.glace")
    probability = model.score_pairs([("node 01", "node 05")]).probability
    assert known.certainty is not None
    assert model.graph is not None
    assert probability is not None
    facts = {
        "source": "node 01",
        "target": "node 05",
        "probability": probability[0],
        "known": model.graph.has_edges(places)[0],
        "dissimilarity": near[0],
        "variance_term": known.variance_terms_at(places)[0],
        "certainty": known.certainty[places].mean(),
    }
    figures = " +".join(
        f"{value}" if isinstance(value, np.bool_) else f"{value:.4f}" for value in list(facts.values())[2:]
    )
    assert re.search(rf"node 01 +node 05 +{figures}", shown)
    assert record(folder / "s.json")["pairs"] == [facts]
    assert "probabilities assume that 5" in shown


def test_score_of_new_nodes(glace, folder):
    (folder / "new.csv").write_text("id,text\none,cat dog fur tail\n2,piano violin note\n")
    glace("embed", "texts.glace", "--texts", "new.csv", "-o", "new.parquet")
    shown = glace("score", "texts.glace", "node 01", "one", "--of", "new.parquet", "--json", "s.json", "--show", "text")
    model = load("texts.glace")
    wanted = model.score_pairs([("node 01", "one")], load_embedding("new.parquet"))
    assert record(folder / "s.json")["pairs"] == wanted.rows()
    assert "probabilities assume that a new node has as many edges as" in shown
    assert "of all edges are missing" not in shown
    assert "source_text" in shown
    assert "target_text" not in shown, "a new node has no row in the table of the training"

    (folder / "pairs.csv").write_text("source,target\none,2\n2,node 01\nnode 01,node 02\n")
    shown = glace("score", "texts.glace", "--pairs", "pairs.csv", "--of", "new.parquet", "--json", "s.json")
    pairs = [("one", "2"), ("2", "node 01"), ("node 01", "node 02")]
    assert record(folder / "s.json")["pairs"] == model.score_pairs(pairs, load_embedding("new.parquet")).rows()
    assert "of all edges are missing" in shown
    glace("export", "texts.glace", "-o", "known.parquet")
    assert "probabilit" not in glace("score", "known.parquet", "one", "2", "--of", "new.parquet")
    said = glace("score", "texts.glace", "node 01", "on", "--of", "new.parquet", code=2)
    assert "no node 'on'; did you mean" in said
    said = glace("score", "texts.glace", "node 01", "one", "--of", "known.parquet", code=2)
    assert "is the id of a known node and of a new one; give the new nodes other ids" in said


def test_score_of_new_nodes_whose_ids_are_of_another_kind(glace, folder):
    (folder / "new.csv").write_text("id,text\n7,cat dog fur tail\n")
    glace("embed", "texts.glace", "--texts", "new.csv", "-o", "new.parquet")
    options = ["--of", "new.parquet", "--show", "text", "--format", "tsv"]
    header, row = glace("score", "texts.glace", "node 01", "7", *options).splitlines()
    assert row.split("\t")[:4:2] == ["node 01", "7"]
    assert header.split("\t")[:4] == ["source", "source_text", "target", "target_text"]
    header, row = glace("links", "texts.glace", "-k", "1", *options).splitlines()
    assert header.split("\t")[:3] == ["source", "target", "target_text"]
    assert row.split("\t")[2]


def test_score_of_an_embedding_has_no_probability(glace, folder):
    glace("export", "people.glace", "-o", "e.parquet")
    shown = glace("score", "e.parquet", "node 01", "node 05", "--json", "s.json")
    (pair,) = record(folder / "s.json")["pairs"]
    assert set(pair) == {"source", "target", "dissimilarity", "variance_term", "certainty"}
    assert "probabilit" not in shown
    said = glace("score", "e.parquet", "node 01", "node 05", "--missing-edge-fraction", "0.1", code=2)
    assert "--missing-edge-fraction needs a model file, and e.parquet is an embedding without its model" in said


@pytest.mark.parametrize(("model", "pairs"), [("people.glace", "edges.csv"), ("numbered.glace", "numbered.csv")])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_score_of_a_file(glace, model, pairs, ending):
    shown = glace("score", model, "--pairs", pairs, "-o", f"out.{ending}")
    read = {"csv": pyarrow.csv.read_csv, "parquet": pyarrow.parquet.read_table}[ending]
    table, wanted, known = read(f"out.{ending}"), pyarrow.csv.read_csv(pairs), load_embedding(model)
    assert f"... {len(wanted):,} pairs in all\n" in shown
    assert table["source"].to_pylist() == wanted["source"].to_pylist()
    near = known.dissimilarities(list(zip(*(wanted[side].to_pylist() for side in ("source", "target")), strict=True)))
    np.testing.assert_array_equal(table["dissimilarity"].to_numpy(), near)
    positions = known.ids.positions(wanted["source"].to_pylist()), known.ids.positions(wanted["target"].to_pylist())
    expected = load(model).score_positions(np.column_stack(positions)).probability
    assert expected is not None
    np.testing.assert_allclose(table["probability"].to_numpy(), expected, rtol=1e-9)
    assert table["known"].to_pylist() == [True] * len(wanted)


# links


def test_links_of_the_graph(glace, folder):
    shown = glace("links", "people.glace", "-k", "30", "-o", "links.csv", "--json", "l.json")
    table, model = pyarrow.csv.read_csv("links.csv"), load("people.glace")
    found = model.links(k=30)
    assert table.column_names == ["source", "target", "probability", "dissimilarity", "certainty"]
    assert table["source"].to_pylist() == found.source.tolist()
    assert table["target"].to_pylist() == found.target.tolist()
    assert f"{found.source[0]}   {found.target[0]}" in shown
    assert f"of 30 pairs about {found.expected_edges:.2g} are expected to be edges; probabilities assume that " in shown
    assert "... 30 edges in all\nwrote links.csv\n" in shown
    fraction = model.missing_edge_fraction
    assert (
        f"assume that {100 * fraction:.1f} % of all edges are missing (the fraction held out for validation); "
        "--missing-edge-fraction sets it"
    ) in shown
    written = record(folder / "l.json")
    assert len(written["links"]) == 30
    assert written["missing_edge_fraction"] == fraction


def test_links_with_another_fraction_of_missing_edges(glace, folder):
    shown = glace("links", "people.glace", "--missing-edge-fraction", "0.5", "-k", "9", "--json", "l.json")
    assert "probabilities assume that 50 % of all edges are missing (--missing-edge-fraction)" in shown
    written = record(folder / "l.json")
    expected = load("people.glace").links(k=9, missing_edge_fraction=0.5)
    assert [link["probability"] for link in written["links"]] == expected.probability.tolist()
    assert (expected.probability > load("people.glace").links(k=9).probability).all()


def test_links_by_the_gaussians_alone(glace, folder):
    glace("links", "people.glace", "--links-by", "gaussian", "-o", "l.csv")
    near = pyarrow.csv.read_csv("l.csv")["dissimilarity"].to_numpy()
    assert (np.diff(near) >= 0).all()


def test_links_say_why(glace, folder):
    shown = glace("links", "people.glace", "node 01", "--why", "-k", "3", "--json", "l.json")
    reasons = [link["why"] for link in record(folder / "l.json")["links"]]
    assert all(reason.endswith(" edges") for reason in reasons)
    assert any(reason.startswith("common neighbours: node ") for reason in reasons)
    assert "common" in shown
    assert "dissimilarity" not in shown
    assert "why" not in glace("links", "people.glace", "node 01")


def test_fit_and_info_say_how_attributes_are_scaled(glace, folder):
    said = r"scaling +columns standardised \(stored dense\)"
    assert re.search(said, glace(*FIT, "-o", "m.glace"))
    assert re.search(said, glace("info", "m.glace"))
    assert re.search(r"scaling +not scaled \(stored dense\)", glace(*FIT, "--scaling", "none", "-o", "m.glace"))
    write_npz(from_arrays([[0, 1], [1, 0], [1, 2]], np.eye(3, 40)), folder / "words.npz")
    assert re.search(r"scaling +rows scaled to unit length \(stored sparse\)", glace("info", "words.npz"))


def test_fit_and_info_say_what_ranks_links(glace, folder):
    model = load("people.glace")
    assert "ranked by the Gaussians and numbers of edges; too few validation edges" in glace("info", "people.glace")
    measured = replace(
        popularity(model), validation=RankingScores(0.25, 0.5), gaussian_validation=RankingScores(0.2, 0.4)
    )
    replace(model, link_model=measured).save("measured.glace")
    shown = glace("info", "measured.glace")
    assert "MRR 0.250  Hits@10 0.500  (Gaussians alone: MRR 0.200  Hits@10 0.400)" in shown
    replace(model, link_model=None).save("off.glace")
    assert "link model off (it ranks validation edges no better)" in glace("info", "off.glace")
    shown = glace("fit", *TABLES, *FAST, "--method", "glace-published", "-o", "p.glace")
    assert "links ranked by the Gaussians alone; link model off (not in glace-published)" in " ".join(shown.split())


def popularity(model: FittedModel) -> LinkModel:
    assert model.link_model is not None
    return model.link_model


def test_links_of_a_node_that_has_them_all(glace, folder):
    write_csv(folder / "star.csv", "source,target", ["1,2", "1,3", "1,4"])
    glace("fit", "star.csv", *FAST, "-q", "-o", "star.glace", "--validation-fraction", "0")
    glace("links", "star.glace", "1", "-o", "none.parquet")
    table = pyarrow.parquet.read_table("none.parquet")
    assert len(table) == 0
    assert str(table.schema.field("source").type) == "int64"


def test_links_of_a_node(glace):
    shown = glace("links", "numbered.glace", "7", "-k", "4")
    for other in load("numbered.glace").links(7, k=4).target:
        assert re.search(rf"^ *7 +{other} ", shown, re.MULTILINE)


def one_line(capsys):
    """What was printed as an error, without line breaks."""
    return " ".join(capsys.readouterr().err.split())


def test_links_of_a_model_of_a_folder_too_large_to_keep(glace, folder, monkeypatch, capsys):
    monkeypatch.setattr("glace.training.train.LARGE", 0)
    glace("convert", *TABLES, "-o", "g.graph")
    glace("fit", "g.graph", *FAST, "-q", "-o", "disk.glace")
    glace("links", "disk.glace", "-k", "5", "-o", "l.csv")
    pairs = pyarrow.csv.read_csv("l.csv").select(["source", "target"]).to_pylist()
    known = {tuple(line.split(",")[:2]) for line in (folder / "edges.csv").read_text().splitlines()}
    assert len(pairs) == 5
    assert not {(pair["source"], pair["target"]) for pair in pairs} & known
    Path("g.graph").rename("moved.graph")
    assert main.run(["links", "disk.glace"]) == 2
    assert "g.graph, which does not exist; if it has moved, give its new place" in one_line(capsys)
    assert len(glace("links", "disk.glace", "-k", "5", "--graph", "moved.graph")) > 0
    write_csv(folder / "other.csv", "source,target", ["a,b"])
    glace("convert", "other.csv", "-o", "other.graph")
    assert main.run(["links", "disk.glace", "--graph", "other.graph"]) == 2
    assert "other.graph is not the graph that the model was trained on" in one_line(capsys)


def test_embedding_nodes_that_are_unlike_the_training(glace, folder):
    write_csv(folder / "new.csv", "id,text", ["a,cat dog fur", "b,gizmo flux", "c,"])
    shown = glace("embed", "texts.glace", "--texts", "new.csv", "-o", "new.parquet", "--json", "e.json")
    assert "warning: 2 of 3 nodes are unlike the training graph (first: 'b', 100 %" in shown
    written = record(folder / "e.json")["novelty"]
    assert [each["id"] for each in written] == ["a", "b", "c"]
    assert [each["unseen"] for each in written] == [0, 1, 1]


# update, explore


def test_update(glace, folder):
    write_csv(
        folder / "more.csv", "id,a,b,c,d,e", [*(folder / "nodes.csv").read_text().splitlines()[1:], "new,1,0,0,0,1"]
    )
    links = (folder / "edges.csv").read_text().splitlines()
    write_csv(folder / "links.csv", links[0], [*links[1:], "new,node 01,1.0", "new,node 04,1.0"])
    before = (folder / "people.glace").read_bytes()
    shown = glace(
        "update", "--edges", "links.csv", "--attributes", "more.csv", "--model", "people.glace", "-o", "new.glace",
        "--json", "u.json",
    )  # fmt: skip
    assert re.search(r"new nodes +1\n", shown)
    assert re.search(r"kept \d+ % of their ten nearest", shown)
    assert record(folder / "u.json")["new_nodes"] == 1
    assert "new" in load("new.glace").embedding.ids
    assert (folder / "people.glace").read_bytes() == before


def test_explore_with_the_numbers_of_the_node_table(glace, folder):
    glace("explore", "people.glace", "--export", "page.html", "--layout", "pca", "--attributes", "nodes.csv")
    page = (folder / "page.html").read_text()
    assert [name for name in "abcdef" if f'{{"name":"{name}","values":' in page] == list("abcde")
    assert '"column e":"e"' in page
    options = ["--layout", "pca", "--attributes", "texts.csv"]
    said = glace("explore", "texts.glace", "--export", "other.html", *options, code=2)
    assert "--attributes texts.csv has no column of numbers" in said


def test_explore_to_a_file(glace, folder):
    shown = glace("explore", "people.glace", "--export", "page.html", "--layout", "pca")
    assert "wrote page.html" in shown
    text = (folder / "page.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "node 07" in text
    assert (folder / "people.glace.pca.npz").exists(), "kept for the next time"


# datasets


def test_datasets_list(glace):
    shown = glace("datasets", "list")
    assert re.search(r"wordnet-nouns +available", shown)
    assert re.search(r"cora-ml +glace datasets get cora-ml", shown)


def test_datasets_info(glace, folder, tmp_path):
    shown = glace("datasets", "info", "cora-ml", "--json", "i.json")
    assert re.search(r"licence +MIT", shown)
    assert "glace datasets get cora-ml" in shown
    assert record(folder / "i.json")["name"] == "cora-ml"
    write_npz(from_arrays([[0, 1]], np.eye(2)), folder / "cora_ml.npz")
    assert re.search(r"nodes +2\n", glace("datasets", "info", "cora-ml", "--data-dir", "."))
    assert re.search(r"nodes +2\n", glace("info", "cora_ml", "--data-dir", "."))


def test_datasets_get(glace, monkeypatch, tmp_path):
    def fetch(url, target, *, blob_id, progress):
        assert url.endswith("/cora_ml.npz")
        progress(3, 9)
        target.write_bytes(b"published")
        return target

    monkeypatch.setattr(download, "download", fetch)
    path = tmp_path / "data" / "cora-ml.npz"
    assert f"cora-ml is in {path} (9 bytes)" in glace("datasets", "get", "cora-ml")
    assert path.read_bytes() == b"published"


def test_datasets_get_without_a_network(folder, monkeypatch, capsys):
    def unreachable(*_):
        raise OSError("no route to host")

    monkeypatch.setattr(download, "_fetch", unreachable)
    monkeypatch.setattr(download, "download", functools.partial(download.download, attempts=1))
    assert main.run(["datasets", "get", "cora-ml"]) == 2
    printed = capsys.readouterr()
    assert re.fullmatch(r"error: cannot reach https://.*: no route to host; try again later.*\n", printed.err)
    assert printed.out == ""


def test_datasets_build(glace, folder, tmp_path):
    sources = tmp_path / "lists"
    sources.mkdir()
    write_lists(sources)
    shown = glace("datasets", "build", "debian", "--from", str(sources))
    assert f"wrote {tmp_path / 'data' / 'debian.npz'}" in shown
    glace("datasets", "build", "debian", "--from", str(sources), "-o", "here.npz")
    assert "zsh-game" in list(read_npz("here.npz").ids)
    assert re.search(r"nodes +5\n", glace("info", "debian"))


def test_datasets_build_acm_beside_the_paper(glace, folder, tmp_path):
    assert re.search(r"acm +glace datasets build acm ", glace("datasets", "list"))
    described = glace("datasets", "info", "acm")
    assert "https://www.aminer.org/citation" in described
    assert "glace datasets build acm --from FILE" in described
    (folder / "cites.txt").write_text(CITATIONS)
    shown = glace("datasets", "build", "acm", "--from", "cites.txt")
    assert "32 records; dropped 2 papers without an abstract and 3 without a link" in shown
    rows = re.findall(r"^ *(nodes|edges|attributes) +([\d,]+) +([\d,]+) *$", shown, flags=re.M)
    graph = datasets.load("acm", directed=True)
    assert rows == [
        ("nodes", "26", "115,772"),
        ("edges", "23", "539,910"),
        ("attributes", str(graph.num_attributes), "124,856"),
    ]
    assert f"wrote {tmp_path / 'data' / 'acm.npz'}" in shown
    assert re.search(r"nodes +26\n", glace("datasets", "info", "acm"))
    assert glace("datasets", "build", "acm", "--from", "cites.txt", "-o", "here.npz", "-q") == ""
    assert (folder / "here.npz").read_bytes() == (tmp_path / "data" / "acm.npz").read_bytes()


# demo


@pytest.fixture
def tiny_nouns(monkeypatch, tmp_path):
    """In place of the bundled graph, one of 60 nodes that has those the demo asks for."""
    ids = [*KNOWN, *(f"n:{node}" for node in range(NODES - len(KNOWN)))]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(TOPICS[place % 3].split(), 5)) for place in range(NODES)]
    rows = [f"{node},{text},{place % 3}" for place, (node, text) in enumerate(zip(ids, texts, strict=True))]
    write_csv(tmp_path / "t.csv", "id,text,label", rows)
    drawn = rng.integers(1, (NODES, 19), size=(300, 2))
    links = [f"{ids[a]},{ids[(a + 3 * step) % NODES]}" for a, step in drawn]
    write_csv(tmp_path / "e.csv", "source,target", links)
    graph = read_tables(tmp_path / "e.csv", texts=tmp_path / "t.csv")
    monkeypatch.setattr(datasets, "load", lambda name: graph)
    monkeypatch.setattr("glace.cli.demo.STEPS", 20)
    short = functools.partial(openTSNE.TSNE, early_exaggeration_iter=10)
    monkeypatch.setattr(openTSNE, "TSNE", lambda **options: short(**options | {"n_iter": 10}))


@pytest.mark.usefixtures("tiny_nouns")
def test_demo(glace, folder):
    shown = glace("demo", "-o", "made/here", "--n-jobs", "1", "--json", "d.json")
    made = folder / "made" / "here"
    assert load(made / "nouns.glace").embedding.mean.shape == (NODES, 64)
    assert list(gaussians(str(made / "nouns.parquet")))[:3] == list(KNOWN)
    assert (made / "map.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert sorted(path.name for path in made.iterdir()) == ["map.png", "nouns.glace", "nouns.parquet"]
    for line in ("Gaussians of glace", "most similar to n:dog:", "most wrong answers expected:", "is similar to"):
        assert line in shown
    found = record(folder / "d.json")
    assert {"auc", "ap", "attributes_auc", "attributes_ap", "seconds"} <= set(found)
    right, promised = found["links_right"], found["links_promised"]
    assert f"{right} of the " in shown
    assert f"most probable links are held-out edges; by their probabilities it should be {promised:.0f}" in shown


@pytest.mark.usefixtures("tiny_nouns")
def test_demo_without_the_libraries_that_draw(glace, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    shown = glace("demo", "--n-jobs", "1")
    assert "no map: a map needs openTSNE: pip install 'glace-graph[plots]'" in shown
    assert sorted(path.name for path in (folder / "glace-demo").iterdir()) == ["nouns.glace", "nouns.parquet"]


def test_links_that_are_cut_and_sets(glace, folder, capsys):
    shown = glace("links", "people.glace", "-k", "30", "--expected-precision", "0.9")
    assert "of 0 pairs about 0 are expected to be edges" in shown
    assert main.run(["links", "people.glace", "--coverage", "0.8"]) == 2
    assert "--coverage is about one node; give its id" in capsys.readouterr().err
    for command in (["neighbors", "e.parquet", "node 01"], ["score", "e.parquet", "node 01", "node 02"]):
        glace("export", "people.glace", "-o", "e.parquet")
        assert main.run([*command, "--why"]) == 2
        assert "--why needs a model file, and e.parquet is an embedding without its model" in capsys.readouterr().err


def test_doubts_beside_the_answers(glace, folder):
    glace("neighbors", "people.glace", "node 07", "--why", "--min-certainty", "0.3", "--json", "n.json")
    answers = record(folder / "n.json")["neighbors"]
    assert isinstance(answers, list)
    assert all(answer["certainty"] >= 0.3 and isinstance(answer["doubt"], str) for answer in answers)
    glace("score", "people.glace", "node 01", "node 02", "--why", "--json", "s.json")
    (pair,) = record(folder / "s.json")["pairs"]
    assert isinstance(pair["doubt"], str)
