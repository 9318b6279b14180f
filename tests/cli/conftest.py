"""A folder of small files, a model fitted on them by the command line, and the command line itself."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from glace.cli.main import run

# Nothing left to be tried out first; tests of the trials say so.
SETTLED = ["--hidden-length", "free", "--neighbor-features", "none", "--neighbor-dropout", "0", "--dropout", "0"]
SIZES = ["--dim", "4", "--hidden", "8", "--ensemble-size", "1", "--batch-size", "32", "--negative-pool-size", "16"]
FAST = [*SIZES, *SETTLED, "--max-steps", "20", "--n-jobs", "1"]
TABLES = ["--edges", "edges.csv", "--attributes", "nodes.csv"]
TOPICS = ("cat dog fur tail paw", "piano violin note bow string", "apple pear plum seed peel")
NODES = 60


def names() -> list[str]:
    """Ids in an order that is not sorted, as files of people have them."""
    return [f"node {(37 * number) % NODES:02}" for number in range(NODES)]


def write_csv(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def write_tables(folder: Path) -> None:
    """Three communities: edges.csv with weights, nodes.csv, texts.csv and edges with integer ids."""
    rng, ids = np.random.default_rng(0), names()
    drawn = {(int(a), int(a + 3 * step) % NODES) for a, step in rng.integers(1, (NODES, 19), size=(260, 2))}
    pairs = sorted((a, b) for a, b in drawn if a != b)
    links = [f"{ids[a]},{ids[b]},{weight:.3f}" for (a, b), weight in zip(pairs, rng.random(400) + 0.1)]  # noqa: B905
    write_csv(folder / "edges.csv", "source,target,weight", links)
    write_csv(folder / "numbered.csv", "source,target", [f"{a},{b}" for a, b in pairs])
    values = rng.normal(size=(NODES, 5)) + np.eye(5)[np.arange(NODES) % 3] * 2
    rows = [f"{node}," + ",".join(f"{x:.4f}" for x in row) for node, row in zip(ids, values, strict=True)]
    write_csv(folder / "nodes.csv", "id,a,b,c,d,e", rows)
    texts = [" ".join(rng.choice(TOPICS[number % 3].split(), 5)) for number in range(NODES)]
    write_csv(folder / "texts.csv", "id,text", [f"{a},{b}" for a, b in zip(ids, texts, strict=True)])


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A folder with tables and models: of attributes, of texts, and of integer ids without attributes."""
    folder = tmp_path_factory.mktemp("prepared")
    write_tables(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["fit", *TABLES, *FAST, "-q", "-o", "people.glace"]) == 0
        texts = ["--edges", "edges.csv", "--texts", "texts.csv", "-o", "texts.glace"]
        assert run(["fit", *texts, *FAST, "-q", "--max-steps", "100", "--learning-rate", "0.05"]) == 0
        assert run(["fit", "numbered.csv", *FAST, "-q", "-o", "numbered.glace"]) == 0
    return folder


@pytest.fixture(autouse=True)
def as_for_people(monkeypatch):
    """Print tables, though no terminal is there; tests/cli/test_output.py has the other formats."""
    monkeypatch.setattr("glace.cli.screen.PIPED", "table")


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    """A copy of the prepared folder to work in, as the current one."""
    copy = tmp_path / "work"
    shutil.copytree(prepared, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("GLACE_DATA", str(tmp_path / "data"))
    return copy


@pytest.fixture
def glace(folder, capsys):
    """Run a command; gives what it printed or, of one that must fail with a `code`, what it said."""

    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        found = run(list(arguments))
        printed = capsys.readouterr()
        assert found == code, printed.err
        if code:
            return " ".join(printed.err.split())
        assert "error" not in printed.err
        return str(printed.out)

    return call
