"""Debian's packages as a graph: dependencies, the words of the descriptions, sections.

The source is apt's package lists, which are the same on every machine with the same release.
"""

import io
import lzma
import re
from collections.abc import Container, Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from glace.datasets.tables import Tables
from glace.errors import FormatError, InputError
from glace.graph.graph import Graph

FOLDER = Path("/var/lib/apt/lists")

# A suite without a hyphen is the release itself. Others, such as bookworm-security, repeat its packages and change
# over time; without them, the graph of a release stays the same.
_PACKAGES = re.compile(r"_dists_[^_-]+_main_binary-[^_]+_Packages(\.lz4|\.gz|\.xz)?$")
_TRANSLATION = re.compile(r"_dists_[^_-]+_main_i18n_Translation-en(\.lz4|\.gz|\.xz)?$")

# Strongest first.
_RELATIONS = ("Pre-Depends", "Depends", "Recommends", "Suggests")
_DESCRIPTIONS = ("Description", "Description-en", "Description-md5")
_FIELDS = ("Package", "Section", "Provides", "Tag", *_DESCRIPTIONS, *_RELATIONS)

# "libc6:any (>= 2.34) [amd64]" names libc6.
_NAME = re.compile(r"^\s*([^\s:(\[]+)")

Fields = dict[str, str]
"""An entry of a list: the text of each of `_FIELDS`, empty if it has none."""


def build_debian(folder: str | Path | None = None) -> Graph:
    """Return the directed graph of all packages in main, from apt's lists in `folder`; labels are the sections."""
    return read_debian(folder).graph(directed=True)


def read_debian(folder: str | Path | None = None) -> Tables:
    """Return the packages with descriptions and debtags, and their dependencies."""
    lists = Path(folder or FOLDER)
    packages = _read_packages(lists)
    long = _read_descriptions(lists)
    texts = [
        f"{long.get(each['Description-md5'], each['Description'])} {_tag_words(each)}" for each in packages.values()
    ]
    sections = [each["Section"].rpartition("/")[2] for each in packages.values()]
    return Tables.of(list(packages), texts, _dependencies(packages), sections)


def _read_packages(folder: Path) -> dict[str, Fields]:
    packages: dict[str, Fields] = {}
    for path in _lists(folder, _PACKAGES, "package list (..._main_binary-..._Packages)"):
        for fields in _stanzas(path):
            if not fields["Package"]:
                raise FormatError(f"{path} has an entry without a package name; run 'apt update'")
            # A list may hold several versions of a package with almost the same dependencies.
            packages.setdefault(fields["Package"], fields)
    # Sorted, so that node numbers and the choice among providers do not depend on the order of a list.
    return dict(sorted(packages.items()))


def _read_descriptions(folder: Path) -> dict[str, str]:
    """Return the whole descriptions (first line and long text) by Description-md5."""
    lists = _lists(folder, _TRANSLATION, "English descriptions (..._main_i18n_Translation-en)")
    entries = (fields for path in lists for fields in _stanzas(path))
    return {each["Description-md5"]: each["Description-en"] for each in entries if each["Description-md5"]}


def _dependencies(packages: dict[str, Fields]) -> Iterable[tuple[str, str]]:
    """Return the distinct pairs of a package and one that it depends on."""
    providers: dict[str, str] = {}
    for name, package in packages.items():
        for provided in _names(package["Provides"].split(",")):
            providers.setdefault(provided, name)
    return dict.fromkeys(
        (name, target)
        for name, package in packages.items()
        for relation in _RELATIONS
        for alternatives in package[relation].split(",")
        if (target := _resolve(_names(alternatives.split("|")), packages, providers)) not in (None, name)
    )


def _resolve(alternatives: list[str], packages: Container[str], providers: dict[str, str]) -> str | None:
    """Return the first alternative that is a package, else the first provider of one, or None."""
    real = (name for name in alternatives if name in packages)
    provided = (providers[name] for name in alternatives if name in providers)
    return next(real, None) or next(provided, None)


def _names(parts: list[str]) -> list[str]:
    return [match[1] for part in parts if (match := _NAME.match(part))]


def _tag_words(package: Fields) -> str:
    # "role::program" would become two common words; "role_program" stays one.
    return package["Tag"].replace("::", "_").replace(",", " ")


def _lists(folder: Path, pattern: re.Pattern[str], what: str) -> list[Path]:
    found = sorted(path for path in folder.glob("*") if pattern.search(path.name)) if folder.is_dir() else []
    if not found:
        raise InputError(
            f"no {what} in {folder}; run 'apt update' on a Debian machine with English translations on, "
            "or name the folder of its lists with --from DIR"
        )
    return found


def _stanzas(path: Path) -> Iterator[Fields]:
    """Yield the entries of a list with the fields in use; the lines of a field are joined."""
    fields: Fields = {}
    current = ""
    for line in chain(_text_lines(path), [""]):
        if not line.strip():
            if fields:
                yield dict.fromkeys(_FIELDS, "") | fields
            fields = {}
        elif line[0] in " \t":
            if current in fields:
                fields[current] += f" {line.strip()}" if line.strip() != "." else ""
        else:
            current, _, value = line.partition(":")
            if current in _FIELDS:
                fields[current] = value.strip()


def _text_lines(path: Path) -> Iterator[str]:
    try:
        # apt stores its lists as lz4 frames. Arrow reads these, gzip and plain files, but not xz.
        with lzma.open(path) if path.suffix == ".xz" else pa.input_stream(str(path)) as content:
            yield from io.TextIOWrapper(content, encoding="utf-8")
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as problem:
        raise FormatError(f"cannot read {path}: {problem}; run 'apt update' to fetch it again") from problem
