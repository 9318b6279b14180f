"""Bring the tables of docs/parameters.md up to date with the options of the code.

    python -m tools.option_tables

The table of each verb and of each configuration class gets one row per option, in the order of the code, with its
default and its help text. A row that already says the same, with links or with more text after it, stays as it is.
Headings, introductions and everything else stay too; `tests/test_docs.py` fails where the page and the code differ.
A verb without a section gets one after the section of the verb before it, introduced by its help text.
"""

import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Protocol

import typer

from glace.cli.main import app
from glace.config.config import STAGES
from glace.options import described, limits_of

PAGE = Path(__file__).parents[1] / "docs" / "parameters.md"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Option(Protocol):
    """An option of a verb, as click describes it."""

    name: str
    opts: list[str]
    secondary_opts: list[str]
    required: bool
    default: object
    metavar: str | None
    help: str | None


class Command(Protocol):
    """A verb or a group of verbs, as click describes it."""

    params: list[Option]
    help: str | None


def verbs(command: Command, name: str) -> dict[str, Command]:
    """Return every verb by its full name."""
    below: dict[str, Command] = getattr(command, "commands", {})
    if not below:
        return {name: command}
    return {full: verb for part in below for full, verb in verbs(below[part], f"{name} {part}").items()}


def verb_rows(verb: Command, left_out: Iterable[str]) -> list[str]:
    """Return a row for each option of a verb, without those that are fields of the configuration."""
    rows = []
    for option in verb.params:
        if option.opts[0].startswith("-") and option.name not in left_out:
            names = ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
            value = f" {option.metavar}" if option.metavar else ""
            rows.append(f"| {names}{value} | {default_of(option)} | {plain(option.help)} |")
    return rows


def default_of(option: Option) -> str:
    """Return the default as the cell of a table."""
    if option.required:
        return "required"
    return "" if option.default is None or option.default is False else f"`{option.default}`"


def plain(text: str | None) -> str:
    """Return a help text as the cell of a table."""
    return " ".join((text or "").split()).replace("|", "\\|")


def field_rows(stage: type) -> list[str]:
    """Return a row for each field of a configuration class."""
    limits = limits_of(stage)
    return [
        f"| `{each.name}` | `{each.default}` | {described(limits[each.name])} | {limits[each.name].help} |"
        for each in fields(stage)
    ]


def updated(section: str, rows: list[str]) -> str:
    """Return a section of the page with these rows in its table of options; rows that say the same with links stay."""
    head, rule, rest = re.split(r"^(\| (?:option|name) \|.*\n\|(?:---\|)+\n)", section, maxsplit=1, flags=re.M)
    old, after = re.match(r"((?:\|[^\n]*\n)*)(.*)", rest, flags=re.S).groups()  # type: ignore[union-attr]
    kept = {row.split("|")[1]: row for row in old.splitlines()}
    new = [better(row, kept.get(row.split("|")[1])) for row in rows]
    body = "".join(f"{row}\n" for row in new)
    return f"{head}{rule}{body}{after}"


def better(row: str, old: str | None) -> str:
    """Return the old row if it says what the new one does, or more."""
    said = LINK.sub(r"\1", old or "").replace("`", "")
    return old if old and said.startswith(row.removesuffix(" |").replace("`", "")) else row


def with_all_verbs(text: str) -> str:
    """Return the page with a section, without rows, for each verb that it lacked."""
    before = ""
    for name, verb in verbs(typer.main.get_command(app), "glace").items():  # type: ignore[arg-type]
        if f"### {name}\n" not in text:
            said = " ".join((verb.help or "").partition("\n\n")[0].split())
            section = f"### {name}\n\n`{name}`: {said}\n\n| option | default | does |\n|---|---|---|\n\n"
            start = text.find(f"### {before}\n")
            end = re.compile(r"^##", flags=re.M).search(text, start + 3)
            place = end.start() if end else len(text)
            text = text[:place] + section + text[place:]
        before = name
    return text


def page(text: str) -> str:
    """Return the page with all its tables up to date."""
    text = with_all_verbs(text)
    configured = {each.name for stage in STAGES for each in fields(stage)}
    tables = {stage.__name__: field_rows(stage) for stage in STAGES}
    for name, verb in verbs(typer.main.get_command(app), "glace").items():  # type: ignore[arg-type]
        tables[name] = verb_rows(verb, configured if name == "glace fit" else ())
    parts = re.split(r"^(### .+\n)", text, flags=re.M)
    for place in range(1, len(parts), 2):
        name = parts[place].removeprefix("### ").strip("` \n")
        if tables.get(name):
            parts[place + 1] = updated(parts[place + 1], tables[name])
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
