"""The documents say what is so: every option and default, no option that is not there, links, code that runs."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from glace.cli.main import app
from glace.config.config import METHODS, STAGES
from glace.estimators import ESTIMATORS
from glace.options import described, limits_of

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PARAMETERS = (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8")

FIELDS = [(stage, each) for stage in STAGES for each in fields(stage)]


def verbs(command: Any, name: str) -> dict[str, Any]:
    """Every command that does something, by its full name."""
    parts = getattr(command, "commands", None)
    if not parts:
        return {name: command}
    return {full: verb for part in parts for full, verb in verbs(parts[part], f"{name} {part}").items()}


COMMAND = typer.main.get_command(app)
VERBS = verbs(COMMAND, "glace")


def sections(text: str, level: int) -> dict[str, str]:
    """The text under each heading of this level, by the heading without its marks."""
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.M)[1:]
    below = [re.split(rf"^#{{1,{level}}} ", part, flags=re.M)[0] for part in parts[1::2]]
    return dict(zip([part.strip("` ") for part in parts[::2]], below, strict=True))


@pytest.mark.parametrize(("stage", "each"), FIELDS, ids=[each.name for _, each in FIELDS])
def test_every_field_is_documented_with_its_default_limits_and_help(stage, each):
    limits = limits_of(stage)[each.name]
    row = f"| `{each.name}` | `{each.default}` | {described(limits)} | {limits.help}"
    assert row in sections(PARAMETERS, 3)[stage.__name__], f"docs/parameters.md lacks: {row}"


@pytest.mark.parametrize("name", [name for name in METHODS if name != "glace"])
def test_every_other_method_is_documented_with_its_own_defaults(name):
    row = f"| `{ESTIMATORS[name].__name__}`, `{name}` | "
    (found,) = [line for line in PARAMETERS.splitlines() if line.startswith(row)]
    defaults = METHODS[name].defaults.items()
    shown = ", ".join(f"`{option}={json.dumps(value)}`" for option, value in defaults) or "none"
    assert found.split(" | ")[2] == f"{shown} |"


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_no_field_is_documented_that_does_not_exist(stage):
    named = re.findall(r"^\| `(\w+)` \|", sections(PARAMETERS, 3)[stage.__name__], flags=re.M)
    assert named == [each.name for each in fields(stage)]


def options_of(verb: Any) -> set[str]:
    flags = {flag for each in verb.params for flag in [*each.opts, *each.secondary_opts]}
    return {flag for flag in flags if flag.startswith("-")}


def test_every_verb_is_documented_and_no_other():
    assert {name for name in sections(PARAMETERS, 3) if name.startswith("glace ")} == set(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_the_documented_options_are_those_of_the_verb(name):
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", sections(PARAMETERS, 3)[name]))
    assert named == options_of(VERBS[name])


@pytest.mark.parametrize("name", VERBS)
def test_the_documented_defaults_of_own_options_are_those_of_the_verb(name):
    rows = dict(re.findall(r"^\| `(--?[a-z-]+)`[^|]*\| `?([^|`]*)`? \|", sections(PARAMETERS, 3)[name], flags=re.M))
    of_fields = {each.name for _, each in FIELDS} if name == "glace fit" else set()
    own = {
        each.opts[0]: said_default(each)
        for each in VERBS[name].params
        if each.opts[0].startswith("-") and each.name not in of_fields
    }
    assert rows == own


def said_default(option: Any) -> str:
    if option.required:
        return "required"
    return "" if option.default is None or option.default is False else str(option.default)


OPTION = re.compile(r"`[^`\n]*?(--[a-z][a-z-]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_an_option_that_no_verb_has(page):
    known = {flag for verb in [COMMAND, *VERBS.values()] for flag in options_of(verb)} | {"--help"}
    assert set(OPTION.findall(page.read_text(encoding="utf-8"))) <= known


def prose_of(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors_of(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors_of(target), f"{page.name} links to {link}"


BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """In one namespace a page, in an empty folder; blocks marked `python no-run` are left out."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        above = text[: block.start(1)].count("\n")  # so that an error names the line of the page
        exec(compile("\n" * above + block[1], str(page), "exec"), namespace)
