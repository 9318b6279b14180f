"""The state of the code: a changed file changes the hash of its part, and the commit is that of the package's clone."""

import shutil
import subprocess

import pytest

from glace.experiments.code_state import SOURCE, UNITS, code_hashes, code_state, commit


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    place = tmp_path_factory.mktemp("clone") / "glace"
    shutil.copytree(SOURCE, place, ignore=shutil.ignore_patterns("__pycache__", "*.parquet", "*.json", "page", "data"))
    return place


def test_all_units_exist():
    assert all((SOURCE / place).exists() for places in UNITS.values() for place in places)
    assert set(code_hashes()) == {"training", "models", "evaluation"}


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("training/loop.py", "training"),
        ("experiments/baselines/node2vec.py", "models"),
        ("experiments/evaluation/ranking.py", "evaluation"),
        ("cli/main.py", None),
        ("experiments/report/tables.py", None),
    ],
)
def test_a_change_is_seen_in_its_part_only(copy, path, part):
    before, text = code_hashes(copy), (copy / path).read_text()
    assert before == code_hashes(), "a copy has the same hashes"
    (copy / path).write_text(text + "\n# changed\n")
    after = code_hashes(copy)
    (copy / path).write_text(text)
    assert {name for name in before if before[name] != after[name]} == ({part} if part else set())


def test_the_commit_is_the_clones_and_a_change_shows(copy, tmp_path):
    assert commit(copy) is None, "no clone"

    def git(*arguments):
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments]
        return subprocess.run(command, cwd=copy.parent, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (copy.parent / "readme").write_text("another project")
    git("add", "readme")
    git("commit", "-qm", "one")
    assert commit(copy) is None, "a package inside of another project's clone"
    git("add", "glace/__init__.py")
    git("commit", "-qm", "two")
    (copy / "untracked.py").unlink(missing_ok=True)
    git("add", ".")
    git("commit", "-qm", "three")
    head = git("rev-parse", "--short", "HEAD")
    assert commit(copy) == head
    (copy / "errors.py").write_text("changed")
    assert commit(copy) == f"{head}+"


def test_the_state_is_that_of_the_running_code():
    assert code_state()["code"] == code_hashes()
