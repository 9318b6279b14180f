"""`glace embed` of a folder of Parquet files: the bits of single files, on several processes, whole files, going on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from glace import load, load_embedding
from glace.cli import embed_folder as module

EMBED = ("embed", "people.glace", "--attributes", "new", "-o", "out")


@pytest.fixture
def shards(folder):
    """The nodes in three files, one of them empty; Spark writes other files beside them."""
    nodes = pa.csv.read_csv("nodes.csv")
    Path("new").mkdir()
    for number, part in enumerate((nodes[:25], nodes[25:25], nodes[25:])):
        pq.write_table(part, f"new/part-{number}.parquet", compression="none")
    Path("new/_SUCCESS").touch()
    Path("new/.part-0.parquet.crc").touch()
    return [f"part-{number}.parquet" for number in range(3)]


def die(*_: object) -> None:
    os._exit(1)


def embedded(folder: str = "out") -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted(Path(folder).glob("*.parquet")))


@pytest.mark.parametrize("n_jobs", ["1", "2"])
def test_a_folder_becomes_a_folder_with_the_bits_of_one_file(glace, shards, n_jobs):
    shown = glace(*EMBED, "--n-jobs", n_jobs, "--json", "e.json")
    assert "wrote out: 60 nodes with 4 dimensions in 3 files" in shown
    assert sorted(path.name for path in Path("out").iterdir()) == shards
    glace("embed", "people.glace", "--attributes", "nodes.csv", "-o", "one.parquet", "--json", "one.json")
    one, found = pq.read_table("one.parquet"), embedded()
    assert found.select(one.column_names).equals(one)
    assert load_embedding("out/part-2.parquet").mean.shape == (35, 4), "every file is an embedding"
    record, of_one = (json.loads(Path(path).read_text()) for path in ("e.json", "one.json"))
    assert (record["nodes"], record["files"], record["kept"]) == (60, 3, 0)
    assert record["novel"] == of_one["novel"]
    assert found["novelty"].to_pylist() == [each["rank"] for each in of_one["novelty"]]


def test_texts_come_in_folders_too(glace, folder):
    Path("new").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "text": ["cat dog fur", "gizmo flux"]}), "new/a.parquet")
    shown = glace("embed", "texts.glace", "--texts", "new", "-o", "out", "--n-jobs", "1")
    assert "warning: 1 of 2 nodes is unlike the training graph (first: 2, 100 % of its attributes never seen)" in shown
    expected = load("texts.glace").transform(["cat dog fur", "gizmo flux"])
    assert embedded()["mean"].to_pylist() == expected.mean.tolist()


def test_an_interrupted_run_goes_on(glace, shards, monkeypatch):
    glace(*EMBED, "-q", "--n-jobs", "1")
    before = {name: Path("out", name).stat().st_mtime_ns for name in shards}
    Path("out/part-2.parquet").unlink()
    Path("out/.part-2.parquet.abc.part").write_bytes(b"half a file")
    assert "out: the folder is not empty; choose another name, or go on with an earlier run (--resume)" in glace(
        *EMBED, code=2
    )
    shown = glace(*EMBED, "--resume", "--n-jobs", "1", "--json", "e.json")
    assert "kept 2 of 3 files of an earlier run" in shown
    assert json.loads(Path("e.json").read_text())["nodes"] == 60
    after = {name: Path("out", name).stat().st_mtime_ns for name in shards}
    assert [before[name] == after[name] for name in shards] == [True, True, False]
    assert sorted(path.name for path in Path("out").iterdir()) == shards
    # A file of other rows, even as many in as many bytes, or of another model is written again.
    rows, size = pq.read_table("new/part-2.parquet"), Path("new/part-2.parquet").stat().st_size
    changed = pa.array([value + 1 for value in rows["b"].to_pylist()])
    pq.write_table(
        rows.set_column(rows.column_names.index("b"), "b", changed), "new/part-2.parquet", compression="none"
    )
    assert Path("new/part-2.parquet").stat().st_size == size
    means = embedded()["mean"].to_pylist()
    assert "kept 2 of 3 files" in glace(*EMBED, "--resume", "--n-jobs", "1")
    again = embedded()["mean"].to_pylist()
    assert [old != new for old, new in zip(means, again, strict=True)] == 25 * [False] + 35 * [True]
    pq.write_table(pq.read_table("new/part-0.parquet")[:5], "new/part-0.parquet")
    assert "kept 2 of 3 files" in glace(*EMBED, "--resume", "--n-jobs", "1")
    Path("people.glace").write_bytes(Path("texts.glace").read_bytes())
    message = glace(*EMBED, "--resume", "--n-jobs", "1", code=2)
    assert "part-0.parquet: the model was trained on 15 attributes, but these have 5" in message
    assert len(embedded()) == 40, "what was written stays"


def test_a_bad_row_leaves_the_whole_files(glace, shards):
    bad = pq.read_table("new/part-2.parquet")
    values = bad["b"].to_pylist()
    values[7] = None
    pq.write_table(bad.set_column(2, "b", pa.array(values)), "new/part-2.parquet")
    message = glace(*EMBED, "--n-jobs", "1", code=2)
    problem = "part-2.parquet, row 8: no value in column 'b'"
    assert message == f"error: {problem}; fill it in: the model was trained without missing values"
    assert sorted(path.name for path in Path("out").iterdir()) == shards[:2]


def test_a_process_that_dies_is_an_error(glace, shards, monkeypatch):
    monkeypatch.setattr(module, "_embed_in_process", die)
    assert "a process ended unexpectedly, perhaps for lack of memory; use fewer --n-jobs, and --resume" in glace(
        *EMBED, "--n-jobs", "2", code=2
    )


def test_a_killed_run_leaves_no_part_of_a_file(glace, shards):
    for number in range(60):
        pq.write_table(pq.read_table("new/part-0.parquet"), f"new/more-{number:02}.parquet")
    command = [sys.executable, "-m", "glace", *EMBED, "--n-jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as run:
        while run.poll() is None and not list(Path().glob("out/*.parquet")):
            time.sleep(0.001)
        os.killpg(run.pid, signal.SIGKILL)
    for path in Path("out").glob("*.parquet"):
        assert len(pq.read_table(path)) in (0, 25, 35)
    assert "files of an earlier run" in glace(*EMBED, "--resume", "--n-jobs", "1")
    assert len(embedded()) == 60 + 60 * 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--attributes", "empty", "-o", "out"], "empty is a folder without Parquet files; their names must end in"),
        (["--attributes", "new", "-o", "new"], "cannot write new: it is also the folder to read"),
        (["--attributes", "new", "-o", "people.glace"], "a folder of Parquet files is embedded into a folder"),
        (["--attributes", "new", "-o", "no/out"], "the folder no does not exist; make it first"),
        (["--attributes", "nodes.csv", "-o", "x.npz", "--resume"], "--resume applies to a folder of Parquet files"),
        (["--attributes", "bad", "-o", "out"], "bad.parquet cannot be read as Parquet"),
    ],
)
def test_folders_that_cannot_be_used(glace, shards, arguments, message):
    for name in ("empty", "bad"):
        Path(name).mkdir()
    Path("bad/bad.parquet").write_bytes(b"no Parquet")
    assert message in glace("embed", "people.glace", *arguments, code=2)
    assert not Path("out").exists()
