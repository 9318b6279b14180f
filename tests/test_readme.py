"""The figures of the README are those of the demo, as far as another machine can repeat them: `make test-readme`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

wanted = bool(os.environ.get("GLACE_TEST_README"))
pytestmark = pytest.mark.skipif(not wanted, reason="the demo takes a minute or two: make test-readme")

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
AUC_TOLERANCE = 0.003
"""What the README promises."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What the demo prints and records."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "glace", "demo", "-o", "made", "--json", "demo.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=580)
    return done.stdout, json.loads((folder / "demo.json").read_text())


@pytest.mark.parametrize(
    ("line", "names"),
    [("Gaussians of glace", ("auc", "ap")), ("raw words of the definitions", ("attributes_auc", "attributes_ap"))],
)
def test_the_accuracy_of_the_demo(demo, line, names):
    stated = re.search(rf"{line} +([\d.]+) +([\d.]+)", README)
    assert stated is not None
    for text, name in zip(stated.groups(), names, strict=True):
        assert demo[1][name] == pytest.approx(float(text), abs=AUC_TOLERANCE)


def test_most_neighbours_of_the_demo_are_those_of_the_readme(demo):
    for node in ("n:dog", "n:piano", "n:apple"):
        stated, found = (
            set(re.search(rf"most similar to {node}:  (.*)", text)[1].split(", "))  # type: ignore[index]
            for text in (README, demo[0])
        )
        assert len(stated & found) >= len(stated) // 2, (stated, found)


def test_the_links_of_the_demo_keep_their_promise(demo):
    stated = re.search(r"(\d+) of the 1,000 most probable links are held-out edges; .* should be (\d+)", README)
    assert stated is not None
    assert demo[1]["links_right"] == pytest.approx(int(stated[1]), rel=0.3)
