"""Whatever is wrong, a command says it in one line, has an exit code for it, and leaves every file as it was."""

import errno
import os
import re
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from glace.cli.main import as_option, run
from glace.cli.screen import Screen
from glace.errors import InputError
from glace.graph.arrays import from_arrays
from glace.io.npz import write_npz
from glace.storage import files
from tests.cli.conftest import FAST, TABLES, write_csv
from tests.cli.test_verbs import stop_at

FIT = ["fit", *FAST, "-o", "out.glace"]
SENTINEL = "what was here before"
OUTPUTS = ("out.glace", "out.parquet", "out.csv", "out.json", "model.glace")


@pytest.fixture
def refused(folder, capsys):
    """Run a command that must fail, and say why, without changing a file; gives the line it printed."""
    for name in OUTPUTS:
        (folder / name).write_text(SENTINEL)

    def fail(*arguments: str, match: str, code: int = 2) -> str:
        capsys.readouterr()
        before = contents(folder)
        assert run(list(arguments)) == code
        printed = capsys.readouterr()
        assert re.fullmatch(r"error: [^\n]+\n", printed.err), printed.err
        assert "Traceback" not in printed.out + printed.err
        assert re.search(match, printed.err), printed.err
        assert contents(folder) == before
        return str(printed.err)

    return fail


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Files that cannot be read


MISSING = [
    (["info", "none.csv"], r"no file none\.csv; expected a file of edges"),
    (["info", "none.npz"], r"no file none\.npz; expected a graph in an \.npz file"),
    ([*FIT, "--edges", "edges.csv", "--attributes", "none.csv"], r"no file none\.csv; expected .* attributes"),
    ([*FIT, "--edges", "edges.csv", "--texts", "none.csv"], r"no file none\.csv; expected a file of texts"),
    (["neighbors", "none.glace", "a"], r"no file none\.glace; expected a glace-model file"),
    (["neighbors", "none.parquet", "a"], r"no file none\.parquet; expected an embedding file"),
    (["export", "none.glace", "-o", "out.csv"], r"no file none\.glace"),
    (["embed", "none.glace", "--attributes", "nodes.csv", "-o", "out.parquet"], r"no file none\.glace"),
    (["embed", "people.glace", "--attributes", "none.csv", "-o", "out.parquet"], r"no file none\.csv"),
    (["score", "people.glace", "--pairs", "none.csv", "-o", "out.csv"], r"no file none\.csv; expected"),
    (["info", "."], r"out\.parquet cannot be read as Parquet"),
    (["export", ".", "-o", "out.csv"], r"is a folder, not a glace-model file"),
]


@pytest.mark.parametrize(("arguments", "match"), MISSING)
def test_missing_files(refused, arguments, match):
    refused(*arguments, match=match)


def test_a_folder_without_a_graph(refused, folder):
    (folder / "nothing").mkdir()
    refused("info", "nothing", match="is not a graph folder|unknown file format")


EMPTY = [
    (["info", "empty.csv"], r"empty\.csv is empty; expected a file of edges"),
    (["info", "empty.npz"], r"empty\.npz is empty; expected a graph"),
    ([*FIT, "--edges", "edges.csv", "--attributes", "empty.csv"], r"empty\.csv is empty; expected"),
    (["export", "empty.glace", "-o", "out.csv"], r"empty\.glace is empty; expected a glace-model file"),
    (["export", "empty.parquet", "-o", "out.csv"], r"empty\.parquet is empty; expected an embedding"),
    (["embed", "people.glace", "--attributes", "empty.csv", "-o", "out.parquet"], r"empty\.csv is empty"),
]


@pytest.mark.parametrize(("arguments", "match"), EMPTY)
def test_empty_files(refused, folder, arguments, match):
    for ending in ("csv", "npz", "glace", "parquet"):
        (folder / f"empty.{ending}").touch()
    refused(*arguments, match=match)


# Tables with wrong content


def with_line(folder: Path, file: str, number: int, line: str) -> None:
    """Put a line into a file in the place of the one with this number, counted from 1."""
    lines = (folder / file).read_text().splitlines()
    lines[number - 1] = line
    (folder / file).write_text("\n".join(lines) + "\n")


EDGE_ROWS = [
    (
        "node 01,stranger,1",
        r"edges\.csv, row 5: node 'stranger' has no row in nodes\.csv; .*--nodes-without-attributes empty",
    ),
    ("node 01,node 02,-1", r"edges\.csv, row 5: weights must be finite and above 0, but this is -1"),
    ("node 01,node 02,0", r"edges\.csv, row 5: weights must be .* but this is 0"),
    ("node 01,node 02,nan", r"edges\.csv, row 5: weights must be finite .* but this is nan|row 5: no value"),
    ("node 01,node 02,inf", r"edges\.csv, row 5: weights must be finite .* but this is inf"),
    ("node 01,node 02,heavy", r"edges\.csv, row 5, column 'weight': expected a number, but found 'heavy'"),
    ("node 01,,1", r"edges\.csv, row 5: no value in column 'target'; fill it in"),
    ("node 01,node 02", r"edges\.csv, row 5: expected 3 columns, got 2"),
]


@pytest.mark.parametrize(("line", "match"), EDGE_ROWS)
@pytest.mark.parametrize("verb", [FIT, ["info"]], ids=["fit", "info"])
def test_wrong_rows_of_edges(refused, folder, verb, line, match):
    with_line(folder, "edges.csv", 5, line)
    refused(*verb, *TABLES, match=match)


ATTRIBUTE_ROWS = [
    ("node 14,1,nan,3,4,5", r"nodes\.csv, row 4: (column 'b' is nan, not a finite|no value in column 'b')"),
    ("node 14,1,2,inf,4,5", r"nodes\.csv, row 4: column 'c' is inf, not a finite 32-bit number"),
    ("node 14,1,2,1e300,4,5", r"nodes\.csv, row 4: column 'c' is 1e\+300, not a finite 32-bit number"),
    (
        "node 14,1,2,3,tall,5",
        r"nodes\.csv: attributes must be numbers, but .*'tall' in row 4.*; correct it(.*--column d=category|: the)",
    ),
    (
        "node 14,1,2,3,,5",
        r"nodes\.csv, row 4: no value in column 'd'; fill it in(, or .*--column d=number|: the model was trained)",
    ),
    ("node 00,1,2,3,4,5", r"nodes\.csv, row 4: id 'node 00' is also in row 2; give a node one row"),
]


@pytest.mark.parametrize(("line", "match"), ATTRIBUTE_ROWS)
def test_wrong_rows_of_attributes(refused, folder, line, match):
    with_line(folder, "nodes.csv", 4, line)
    refused(*FIT, *TABLES, match=match)
    refused("embed", "people.glace", "--attributes", "nodes.csv", "-o", "out.parquet", match=match)


def test_columns_that_are_not_named(refused, folder):
    write_csv(folder / "ratings.csv", "userId,movieId,rating,timestamp", ["1,1,5,9", "1,2,5,9"])
    match = r"4 columns .*--target-column\) 'movieId', and of the weight, if any \(--source-column userId\)"
    refused(*FIT, "ratings.csv", match=match)
    refused(*FIT, "ratings.csv", "--source-column", "userId", match=r"--target-column is needed too: name the columns")
    columns = ["--source-column", "userId", "--target-column", "film"]
    refused(*FIT, "ratings.csv", *columns, match=r"--target-column is 'film', but ratings\.csv has no such column; its")
    refused(*FIT, "ratings.csv", "--separator", "xx", match=r"--separator must be one character, or comma, tab")
    refused(*FIT, "ratings.csv", "--encoding", "xx", match=r"--encoding must be the name of an encoding")
    twice = ["--source-column", "a", "--source-column", "b"]
    refused(
        *FIT, "ratings.csv", *twice, match=r"--source-column is given several times; give each as TYPE=NAME, not 'a'"
    )


def test_an_encoding_is_named(refused, folder):
    (folder / "edges.csv").write_bytes("source,target\nnode 01,Müller\n".encode("latin-1"))
    match = r"edges\.csv, row 2, column 'target': the text is not UTF-8 but perhaps Latin-1, .*\(--encoding latin-1\)"
    refused(*FIT, "edges.csv", match=match)


def test_unknown_ids_of_pairs(refused, folder):
    write_csv(folder / "pairs.csv", "source,target", ["node 01,node 02", "node 01,nobody"])
    arguments = ["score", "people.glace", "--pairs", "pairs.csv", "-o", "out.csv"]
    refused(*arguments, match=r"pairs\.csv, row 3: no node 'nobody' in the model")


# Graphs that cannot be trained on


def graph_of(folder: Path, pairs: list[tuple[int, int]], nodes: int) -> list[str]:
    write_csv(folder / "e.csv", "source,target", [f"{a},{b}" for a, b in pairs])
    write_csv(folder / "n.csv", "id,x,y", [f"{node},{node % 3},1" for node in range(nodes)])
    return [*FIT, "--edges", "e.csv", "--attributes", "n.csv"]


def test_too_few_edges_to_hold_some_out(refused, folder):
    match = r"cannot hold out 5% of 2 edges .*--validation-fraction 0"
    refused(*graph_of(folder, [(0, 1), (1, 2)], 5), match=match)


def test_one_node(refused, folder):
    refused(*graph_of(folder, [], 1), match="edge")
    refused(*graph_of(folder, [(0, 0)], 1), "--validation-fraction", "0", match="edge")


@pytest.mark.parametrize("share", ["0", "0.05"])
def test_no_edges(refused, folder, share):
    refused(*graph_of(folder, [], 5), "--validation-fraction", share, match="edge")


@pytest.mark.parametrize("share", ["0", "0.2"])
def test_a_complete_graph(refused, folder, share):
    pairs = [(a, b) for a in range(8) for b in range(a)]
    match = "not edges|every other node|negative"
    refused(*graph_of(folder, pairs, 8), "--validation-fraction", share, match=match)


def test_training_that_diverges(refused):
    arguments = [*FIT, *TABLES, "--learning-rate", "1e30", "--lr-schedule", "constant"]
    refused(*arguments, match=r"the loss is (nan|inf) at step \d+ with learning rate 1e\+30; try", code=3)


# Files that are not what their name says


NOT_MODELS = {
    "table": b"id,a\nx,1\n",
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "random": np.random.default_rng(0).bytes(5000),
    "short": b"abc",
    "huge header": struct.pack("<Q", 1 << 62) + b"{}",
    "nested": struct.pack("<Q", 200_000) + b"[" * 200_000,
}
READERS = [
    ["neighbors", "x.glace", "node 01"],
    ["score", "x.glace", "node 01", "node 02"],
    ["export", "x.glace", "-o", "out.csv"],
    ["embed", "x.glace", "--attributes", "nodes.csv", "-o", "out.parquet"],
]


@pytest.mark.parametrize("content", NOT_MODELS.values(), ids=NOT_MODELS)
def test_files_that_are_no_models(refused, folder, content):
    (folder / "x.glace").write_bytes(content)
    for arguments in READERS:
        refused(*arguments, match=r"x\.glace is not a file written by glace, or is damaged")


def test_a_safetensors_file_of_another_program(refused, folder):
    save_file({}, folder / "x.glace")
    refused(*READERS[0], match=r"x\.glace is not a file written by glace")
    save_file({"weight": np.ones(3, np.float32)}, folder / "x.glace", metadata={"glace": "{}"})
    refused(*READERS[0], match=r"x\.glace is not a file written by glace")


def test_every_flipped_byte_of_a_model_is_noticed(refused, folder):
    whole = (folder / "people.glace").read_bytes()
    for place in [*range(0, 64, 7), *range(64, len(whole), len(whole) // 25), len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x20
        (folder / "x.glace").write_bytes(damaged)
        refused(*READERS[0], match=r"x\.glace .*(damaged|not a |format version)")


def test_a_model_that_ends_too_soon(refused, folder):
    whole = (folder / "people.glace").read_bytes()
    (folder / "x.glace").write_bytes(whole[: len(whole) * 9 // 10])
    for arguments in READERS:
        refused(*arguments, match=r"x\.glace is damaged")


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
def test_embeddings_of_other_programs(refused, folder, ending):
    for content in NOT_MODELS.values():
        (folder / f"x.{ending}").write_bytes(content)
        refused(
            "neighbors",
            f"x.{ending}",
            "node 01",
            match=rf"cannot read x\.{ending}: .*(not an embedding|not a complete \.npz)",
        )


def test_tables_are_no_embeddings(refused):
    refused(
        "neighbors",
        "nodes.csv",
        "node 01",
        match=r"nodes\.csv: a \.csv export is .* cannot be read back; use \.parquet",
    )


# npz graphs


def npz_members(folder: Path) -> dict[str, Any]:
    write_npz(from_arrays([[0, 1], [1, 2]], np.eye(3)), folder / "graph.npz")
    with np.load(folder / "graph.npz") as opened:
        return dict(opened)


@pytest.mark.parametrize("index", [3, -1, 2**31 - 1])
def test_an_npz_file_with_indices_out_of_range(refused, folder, index):
    members = npz_members(folder)
    members["adj_indices"][0] = index
    np.savez(folder / "graph.npz", **members)
    refused(*FIT, "graph.npz", match=r"graph\.npz: adj_\* is not a valid CSR matrix: indices must be")


def test_an_npz_file_that_would_fill_the_memory(refused, folder):
    with zipfile.ZipFile(folder / "graph.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("adj_data.npy", bytes(1_000_000))
        archive.infolist()[0].file_size = 20 << 30  # what the directory at the end will say
    refused(*FIT, "graph.npz", match=r"graph\.npz has [\d,]+ bytes but unpacks to 21,474,836,480")


def test_an_embedding_that_would_fill_the_memory(refused, folder):
    with zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("mean.npy", "w") as member:
            header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 1 << 20)}
            np.lib.format.write_array_header_1_0(member, header)
            member.write(bytes(1_000_000))
        archive.writestr("ids.npy", b"")
    refused("neighbors", "x.npz", "1", match=r"cannot read x\.npz")


@pytest.mark.parametrize("content", [b"PK\x03\x04" + bytes(50), b"id,a\nx,1\n"])
def test_files_that_are_no_npz(refused, folder, content):
    (folder / "graph.npz").write_bytes(content)
    refused(*FIT, "graph.npz", match=r"graph\.npz is not a complete \.npz file: .*; download or write it again")


# Outputs that cannot be written


WRITERS = [
    (["fit", *TABLES, *FAST, "-o"], "x.glace"),
    (["fit", *TABLES, *FAST, "-q", "--json"], "x.json"),
    (["info", "edges.csv", "--json"], "x.json"),
    (["embed", "people.glace", "--attributes", "nodes.csv", "-o"], "x.parquet"),
    (["embed", "people.glace", "--attributes", "nodes.csv", "-o", "out.csv", "--json"], "x.json"),
    (["export", "people.glace", "-o"], "x.csv"),
    (["neighbors", "people.glace", "node 01", "--json"], "x.json"),
    (["score", "people.glace", "node 01", "node 02", "-o"], "x.csv"),
    (["score", "people.glace", "node 01", "node 02", "--json"], "x.json"),
    (["datasets", "info", "wordnet-nouns", "--json"], "x.json"),
    (["demo", "-o", ".", "--json"], "x.json"),
]
writers = pytest.mark.parametrize(("arguments", "name"), WRITERS)


@pytest.fixture
def no_work(monkeypatch):
    """Fail if anything is read before the outputs were looked at."""

    def too_early(*_, **__):
        pytest.fail("work began before the outputs were checked")

    for reader in ("fitted.model.load", "fitted.model.load_embedding", "fitted.model.load_any", "io.read.read_tables"):
        monkeypatch.setattr(f"glace.{reader}", too_early)
    monkeypatch.setattr("glace.datasets.load", too_early)


@writers
@pytest.mark.usefixtures("no_work")
def test_outputs_into_a_missing_folder(refused, arguments, name):
    match = rf"cannot write nowhere/{name}: the folder nowhere does not exist; make it first"
    refused(*arguments, f"nowhere/{name}", match=match)


@writers
@pytest.mark.usefixtures("no_work")
def test_outputs_that_name_a_folder(refused, folder, arguments, name):
    (folder / name).mkdir()
    refused(*arguments, name, match=rf"cannot write {name}: it is a folder; name a file in it")


@writers
@pytest.mark.usefixtures("no_work")
def test_outputs_into_a_folder_that_is_read_only(refused, monkeypatch, arguments, name):
    # By a substitute: root, whom tests often run as, may write everywhere.
    def deny(**_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "mkstemp", deny)
    refused(*arguments, name, match=r"cannot write \S+: read-only file system")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="the system has no /proc, which nobody can write to")
def test_outputs_into_a_folder_nobody_can_write_to(refused):
    refused("export", "people.glace", "-o", "/proc/x.csv", match=r"cannot write /proc/x\.csv: ")
    refused("demo", "-o", "/proc/demo", match=r"cannot make the folder /proc/demo: .*; choose another name")


def test_devices_are_not_replaced_by_files(refused):
    refused("export", "people.glace", "-o", os.devnull, match="it is a device or pipe; name an ordinary file")


def test_a_demo_folder_that_is_a_file(refused):
    refused("demo", "-o", "edges.csv", match=r"cannot make the folder edges\.csv: file exists; choose another name")


FULL = [
    (arguments, name)
    for arguments, name in WRITERS
    if arguments[0] not in ("demo", "datasets") and "--json" not in arguments
]


@pytest.mark.parametrize(("arguments", "name"), FULL)
def test_a_disk_that_is_full(refused, folder, monkeypatch, arguments, name):
    def fail(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (folder / name).write_text(SENTINEL)
    monkeypatch.setattr(files, "_sync", fail)
    refused(*arguments, name, match=rf"cannot write {name}: no space left on device")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    resource = pytest.importorskip("resource", reason="only Unix limits the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.arrow", "x.npz"])
def test_an_export_that_really_fails_in_the_middle(refused, folder, name):
    """The system itself refuses to write on, inside Arrow and numpy."""
    (folder / name).write_text(SENTINEL)
    with largest_file(500):
        refused("export", "people.glace", "-o", name, match=rf"cannot write {name}: .*file too large")


def test_a_model_that_really_fails_in_the_middle(refused):
    with largest_file(500):
        refused(*FIT, *TABLES, match=r"cannot write out\.glace: .*file too large")


def test_an_output_is_never_an_input(refused):
    match = "it is also another file of this command; choose another name"
    refused("fit", "edges.csv", "-o", "edges.csv", match=match)
    refused("fit", *TABLES, "-o", "../work/nodes.csv", match=match)
    refused(*FIT, *TABLES, "--json", "out.glace", match=match)
    refused("embed", "people.glace", "--attributes", "nodes.csv", "-o", "nodes.csv", match=match)
    refused("export", "people.glace", "-o", "people.glace", match=match)
    refused("score", "people.glace", "--pairs", "edges.csv", "-o", "edges.csv", match=match)


@pytest.mark.parametrize("verb", [["export", "people.glace"], ["embed", "people.glace", "--attributes", "nodes.csv"]])
def test_endings_that_are_not_written(refused, verb):
    match = r"cannot be written as 'out\.txt'; the name must end in \.parquet, \.arrow, \.npz, \.csv"
    refused(*verb, "-o", "out.txt", match=match)


def test_endings_that_scores_are_not_written_with(refused):
    refused("score", "people.glace", "node 01", "node 02", "-o", "x.txt", match=r"must end in \.csv or \.parquet")


# Options


NUMBERS = [
    (["--dim", "0"], r"--dim must be a whole number of at least 1, not 0"),
    (["--hidden", "0"], r"--hidden must be a whole number of at least 1, not 0"),
    (["--hidden", "-3"], r"--hidden must be a whole number of at least 1, not -3"),
    (["--random-state", "-1"], r"--random-state must be a whole number of at least 0, not -1"),
    (["--n-jobs", "0"], r"--n-jobs must be at least 1, or -1 for all cores, not 0"),
    (["--learning-rate", "nan"], r"--learning-rate must be a number above 0, not nan"),
    (["--validation-fraction", "1"], r"--validation-fraction must be a number of at least 0 below 1, not 1"),
    (["--checkpoint-seconds", "-1"], r"--checkpoint-seconds must be a number of at least 0, not -1"),
    (["--checkpoint-seconds", "nan"], r"--checkpoint-seconds must be a number of at least 0, not nan"),
    (["--dim", "x"], r"'--dim' must be a valid integer, not 'x'; see 'glace fit --help'"),
    (["--dim", "1.5"], r"'--dim' must be a valid integer, not '1\.5'"),
    (["--max-epochs", "many"], r"'--max-epochs' must be a valid number, not 'many'; see 'glace fit --help'"),
]
WORDS = [
    (["--proximity", "third"], r"--proximity must be 'first', 'second' or 'both', not 'third'"),
    (["--dissimilarity", "l2"], r"--dissimilarity must be 'kl', .* not 'l2'"),
    (["--dissimilarity", "dot"], r"dissimilarity 'dot' does not fit Gaussians; choose kl, symmetric_kl"),
    (["--method", "lace", "--dissimilarity", "kl"], r"dissimilarity 'kl' does not fit points .*choose dot"),
    (["--method", "foo"], r"method must be one of attributes, .*, glace, .* or, for ranking, .*, not 'foo'"),
    (["--lr-schedule", "x"], r"--lr-schedule must be 'cosine' or 'constant', not 'x'"),
    (["--nodes-without-attributes", "x"], r"--nodes-without-attributes must be one of error, empty, not 'x'"),
    (["--offset", "x"], r"--offset must be 'learned' or a number, not 'x'"),
    (["--activation", "x"], r"--activation must be 'relu' or 'linear', not 'x'"),
]
USAGE = [
    (["--nope"], r"no such option: --nope.*; see 'glace fit --help'"),
    (["--dimm", "3"], r"no such option: --dimm.*--dim"),
    (["--dim"], r"option '--dim' requires an argument; see 'glace.* --help'"),
    (["edges.csv", "more"], r"unexpected extra argument.*more.*; see 'glace fit --help'"),
]


@pytest.mark.parametrize(("options", "match"), [*NUMBERS, *WORDS, *USAGE])
def test_options_of_fit(refused, options, match):
    refused(*FIT, *TABLES, *options, match=match)


COMMANDS = [
    (["nope"], r"no such command 'nope'.*; see 'glace --help'"),
    (["datasets", "nope"], r"no such command 'nope'.*; see 'glace datasets --help'"),
    (["neighbors", "people.glace"], r"give either the id of a node, or --of FILE with new nodes"),
    (["neighbors", "people.glace", "--of", "people.glace", "--exclude-known"], r"--exclude-known does not apply to"),
    (["neighbors", "people.glace", "node 01", "--label", "x"], r"no label 'x'; the graph has none"),
    (["neighbors", "people.glace", "node 01", "--dissimilarity", "x"], r"unknown dissimilarity 'x'; known: kl, "),
    (["links", "people.glace", "node 99"], r"no node 'node 99'; did you mean node"),
    (["links", "people.glace", "-k", "0"], r"-k must be a whole number of at least 1, not 0"),
    (["links", "people.glace", "-o", "x.txt"], r"cannot write x\.txt: its name must end in \.csv or \.parquet"),
    (["links", "people.glace", "--graph", "edges.csv"], r"--graph the model has its edges already; leave it out"),
    (["links", "e.parquet"], r"e\.parquet is an embedding without its model: it answers `glace neighbors`, not"),
    (["links", "people.glace", "node 01", "--of", "people.glace"], r"give the id of a node, or --of FILE with new"),
    (["links", "people.glace", "--of", "people.glace", "--why"], r"--why does not apply to new nodes, which have no"),
    (["links", "people.glace", "--links-by", "x"], r"--links-by must be model or gaussian, not 'x'"),
    (["links", "people.glace", "--missing-edge-fraction", "1"], r"--missing-edge-fraction must be above 0 and below 1"),
    (["links", "people.glace", "--approximate"], r"--approximate does not apply to the link model"),
    (["score", "e.parquet", "a", "b", "--missing-edge-fraction", "0.1"], r"no file e\.parquet; expected an embedding"),
    (["links", "none.glace"], r"no file none\.glace; expected a glace-model file"),
    (["serve", "none.glace"], r"no file none\.glace; expected a glace-model file"),
    (["serve", "people.glace", "--workers", "0"], r"'--workers' must be greater than or equal to 1, not '0'"),
    (["serve", "people.glace", "--port", "70000"], r"'--port' must be less than or equal to 65535, not '70000'"),
    (["serve", "people.glace", "--host", "256.1.1.1"], r"cannot listen on 256\.1\.1\.1 port 8765: "),
    (["serve", "people.glace", "--allow", "my*host"], r"--allow must be a host name, .*, not 'my\*host'"),
    (["serve", "people.glace", "--allow", "http://x"], r"--allow must be a host name"),
    (["explore", "people.glace", "--export", "x.txt"], r"cannot write x\.txt: its name must end in \.html"),
    (["explore", "people.glace", "--export", "x.html", "--layout", "y"], r"layout must be tsne or pca, not 'y'"),
    (["update", *TABLES, "--model", "people.glace"], r"missing option .*--output"),
    (["update", *TABLES, "--model", "people.glace", "-o", "people.glace"], r"it is also another file of this"),
    (["update", *TABLES, "--model", "people.glace", "-o", "x.glace", "--drift-penalty", "-1"], r"-penalty must be"),
    (["update", "numbered.csv", "--model", "people.glace", "-o", "x.glace"], r"ids are large_string, but these are"),
    (["export", "people.glace"], r"missing option .*--output.*; see 'glace export --help'"),
    (["fit", "imdb"], r"no dataset or file 'imdb'; datasets: wordnet-nouns, wordnet-kinds, wordnet, debian, acm"),
    (["datasets", "info", "imdb"], r"no dataset 'imdb'; choose from wordnet-nouns"),
    (["datasets", "get", "imdb"], r"no dataset 'imdb'; choose from wordnet-nouns"),
    (["datasets", "build", "imdb"], r"no dataset 'imdb'; choose from wordnet-nouns"),
    (["fit", "acm"], r"acm is not on this machine .*run 'glace datasets build acm --from FILE' with AMiner's"),
    (["datasets", "get", "acm"], r"acm is not downloaded but built; run 'glace datasets build acm --from FILE'"),
    (["datasets", "build", "acm"], r"acm is built from a file that you must get first: AMiner's .*--from FILE"),
    (["datasets", "build", "acm", "--from", "edges.csv"], r"edges\.csv: none of its .* begins with '#index'"),
    (["datasets", "build", "acm", "--from", "."], r"\. is a folder, not a file in the text format of AMiner's"),
    (["datasets", "get", "wordnet"], r"wordnet is not downloaded but built; run 'glace datasets build wordnet'"),
    (["datasets", "build", "cora"], r"cora is not built but downloaded; run 'glace datasets get cora'"),
    (["datasets", "build", "debian", "--from", "."], r"no package list|Packages"),
    (["info", "cora"], r"cora is not on this machine .*run 'glace datasets get cora'"),
    (["fit"], r"name one graph: a dataset, a file, or --edges FILE, not nothing"),
    (["info", "edges.csv", "--edges", "edges.csv"], r"name one graph: .*, not both edges\.csv and --edges edges\.csv"),
    (["fit", "cora", "--attributes", "nodes.csv"], r"apply to a table of edges; leave it out"),
    (["fit", *TABLES, "--texts", "texts.csv"], r"give attributes or texts, not both"),
    (["info", "edges.csv", "--nodes-without-attributes", "empty"], r"-attributes applies to --attributes or --texts"),
    (["info", "cora", "--no-header"], r"--header and --no-header apply to text files; leave it out"),
    (["info", "cora", "--separator", ";"], r"--separator and --encoding apply to text files; leave it out"),
    (["info", "cora", "--source-column", "a"], r"--source-column, --target-column and .* apply to a table of edges"),
    (["info", "edges.csv", "--id-column", "a"], r"--id-column and --label-column apply to --attributes or --texts"),
    (["info", *TABLES, "--text-column", "a"], r"--text-column applies to --texts; leave it out"),
    (["info", "edges.csv", "--data-dir", "."], r"--data-dir applies to named datasets; leave it out"),
    (["info", "people.glace", "--directed"], r"people\.glace is a model file, and these options apply to graphs"),
    (["info", "edges.csv", "--column", "a=text"], r"--column applies to --attributes; leave it out"),
    ([*FIT, *TABLES, "--column", "a"], r"a column is given as NAME=KIND, not 'a'; kinds: number, category, text"),
    ([*FIT, *TABLES, "--column", "a=word"], r"column 'a' cannot be 'word'; kinds: number, category, text"),
    ([*FIT, *TABLES, "--column", "a=label"], r"column 'a' cannot be a label here; .*\(--label-column a\)"),
    (["neighbors", "people.glace", "node 01", "--format", "xml"], r"--format must be table, tsv, csv or json, not"),
    (["neighbors", "people.glace", "node 01", "--show", "title"], r"--show has nothing to show: the model keeps no"),
    (["links", "texts.glace", "--show", "title"], r"--show must be a text column of the node table, text, not 'title'"),
    (["update", "edges.csv", "--directed", "--model", "people.glace", "-o", "x.glace"], r"trained on undirected"),
    ([*FIT, *TABLES, "--column", "z=text"], r"nodes\.csv: 'z' is not a column of attributes; those are 'a', 'b'"),
    ([*FIT, *TABLES, "--column", "a=sentence"], r"name the sentence model, as sentence:MODEL"),
    (["demo", "-o", ".", "--random-state", "-1"], r"--random-state must be a whole number of at least 0, not -1"),
    (["demo", "-o", ".", "--n-jobs", "0"], r"--n-jobs must be at least 1, or -1 for all cores, not 0"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "match"), COMMANDS)
def test_commands_that_make_no_sense(refused, arguments, match):
    refused(*arguments, match=match)


QUESTIONS = [
    (["neighbors", "people.glace", "node 99"], r"no node 'node 99'; did you mean node"),
    (["neighbors", "people.glace", "zzz"], r"no node 'zzz'; ids look like 'node 00'"),
    (
        ["neighbors", "people.glace", " node 01"],
        r"no node ' node 01'; did you mean 'node 01', which differs by spaces only",
    ),
    (["neighbors", "numbered.glace", "-k", "1", "999"], r"no node 999; "),
    (["neighbors", "numbered.glace", "abc"], r"no node 'abc'; ids look like \d+"),
    (["neighbors", "people.glace", "node 01", "-k", "0"], r"k must be a whole number of at least 1, not 0"),
    (["neighbors", "people.glace", "node 01", "-k", "x"], r"'-k' must be a valid integer, not 'x'"),
    (["score", "people.glace", "node 01", "zzz"], r"no node 'zzz'"),
    (["score", "people.glace", "node 01"], r"give two node ids, or --pairs FILE .*, not 1 id"),
    (["score", "people.glace"], r"give two node ids, or --pairs FILE .*, not 0 ids"),
    (["score", "people.glace", "a", "b", "--pairs", "edges.csv"], r"not 2 ids and --pairs edges\.csv"),
]


@pytest.mark.parametrize(("arguments", "match"), QUESTIONS)
def test_questions_without_an_answer(refused, arguments, match):
    refused(*arguments, match=match)


EMBED = ["embed", "people.glace", "-o", "out.parquet"]


def test_rows_that_do_not_fit_the_model(refused, folder):
    write_csv(folder / "narrow.csv", "id,a,b", ["x,1,2"])
    match = r"narrow\.csv: no column 'c'; the model needs its 5 attributes by name"
    refused(*EMBED, "--attributes", "narrow.csv", match=match)
    write_csv(folder / "bare.csv", "x,1,2", [])
    match = "the model was trained on 5 attributes, but these have 2; give the same columns in the same order"
    refused(*EMBED, "--attributes", "bare.csv", "--no-header", match=match)
    refused(*EMBED, "--texts", "texts.csv", match="the model was not trained on texts; give a matrix of attributes")
    arguments = ["embed", "numbered.glace", "--attributes", "nodes.csv", "-o", "out.parquet"]
    refused(*arguments, match="the model was trained without attributes")
    refused(
        *EMBED, "--attributes", "nodes.csv", "--n-jobs", "0", match="--n-jobs must be at least 1, or -1 for all cores"
    )
    refused(*EMBED, match="give either --attributes FILE or --texts FILE$")
    refused(*EMBED, "--attributes", "a", "--texts", "b", match="not both")


def test_a_checkpoint_of_another_run(refused, folder, capsys):
    command = [*FIT, *TABLES, "--checkpoint-seconds", "0"]
    with pytest.MonkeyPatch.context() as patch:
        stop_at(3, patch)
        run(command)
    match = r"cannot resume from out\.glace\.checkpoint, which belongs to another run: options\.dim was 4 and is 5"
    refused(*command, "--dim", "5", "--resume", match=match)
    shutil.copy(folder / "people.glace", folder / "out.glace.checkpoint")
    refused(*command, "--resume", match="is not a glace-checkpoint file but a glace-model file")


def test_messages_spell_options_as_the_command_line_does():
    problem = InputError("hold out another share, or none", hint=("validation_fraction", 0))
    assert str(problem) == "hold out another share, or none (validation_fraction=0)"
    assert problem.text(as_option) == "hold out another share, or none (--validation-fraction 0)"
    problem = InputError("must be a number; 'dim' stays", option="max_steps")
    assert str(problem) == "max_steps must be a number; 'dim' stays"
    assert problem.text(as_option) == "--max-steps must be a number; 'dim' stays"
    assert InputError("must be 1", option="k").text(as_option) == "-k must be 1"
    assert InputError("no header", hint=("header", False)).text(as_option) == "no header (--no-header)"


# Interrupts and faults


def test_an_interrupt(refused, monkeypatch):
    stop_at(5, monkeypatch)
    refused(*FIT, *TABLES, match="^error: interrupted$", code=130)


def test_an_interrupt_while_the_bar_is_shown(refused, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("glace.cli.screen._figures", interrupt)
    refused(*FIT, *TABLES, match="^error: interrupted$", code=130)


def break_down(*_, **__):
    raise RuntimeError("first line\nsecond line")


@pytest.mark.parametrize("place", ["glace.fitted.model.load_any", "glace.storage.files.check_writable"])
def test_a_fault_of_our_own(refused, monkeypatch, place):
    monkeypatch.delenv("GLACE_DEBUG", raising=False)
    monkeypatch.setattr(place, break_down)
    match = "a bug in glace: RuntimeError: first line second line; set GLACE_DEBUG=1 for the traceback"
    refused("export", "people.glace", "-o", "out.csv", match=match, code=1)


def test_a_fault_is_raised_for_those_who_look_for_it(folder, monkeypatch):
    monkeypatch.setenv("GLACE_DEBUG", "1")
    monkeypatch.setattr("glace.fitted.model.load_any", break_down)
    with pytest.raises(RuntimeError, match="first line"):
        run(["export", "people.glace", "-o", "out.csv"])


def test_nothing_is_printed_over_a_quiet_screen(capsys):
    Screen(quiet=True).say("anything")
    assert capsys.readouterr().out == ""
