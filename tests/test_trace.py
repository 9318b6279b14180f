"""The way of the data through `glace fit`: few modules, none of which calls back into one that called it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
MOST_MODULES = 35  # as tools.trace_modules.MOST_MODULES
MOST_MODULES_IN_CYCLES = 0


@pytest.fixture(scope="module")
def trace():
    """The trace of a fit in a process of its own, where nothing is cached."""
    command = [sys.executable, "-m", "tools.trace_modules", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fit_goes_through_few_modules(trace):
    assert trace["modules"][0] == "cli.main"
    assert any(name.startswith("training.") for name in trace["modules"])
    assert len(trace["modules"]) <= MOST_MODULES, trace["modules"]


def test_the_architecture_page_lists_the_modules_of_a_fit(trace):
    _, section = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("### One fit, step by step")
    said, _ = section.split("## Who owns which state")
    assert f"({len(trace['modules'])} of them" in said
    listed = said.split("```text")[1].split("```")[0]
    assert listed.replace("->", " ").split() == trace["modules"]


def test_no_module_calls_back_into_one_that_called_it(trace):
    assert sum(len(group) for group in trace["cycles"]) <= MOST_MODULES_IN_CYCLES, trace["cycles"]
