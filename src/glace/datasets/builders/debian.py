"""Debian's packages as a graph: dependencies, the words of the descriptions, sections.

The source is apt's package lists, which are the same on every machine with the same release.
"""

import gzip
import io
import lzma
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
_FIELDS = frozenset({"Package", "Section", "Provides", "Tag", *_DESCRIPTIONS, *_RELATIONS})

# "libc6:any (>= 2.34) [amd64]" names libc6.
_NAME = re.compile(r"^\s*([^\s:(\[]+)")


@dataclass(frozen=True)
class _Package:
    name: str
    section: str
    needs: tuple[tuple[str, ...], ...]
    """For each dependency, the alternative packages."""
    provides: tuple[str, ...]
    description: str
    description_md5: str
    tags: str


def build_debian(folder: str | Path | None = None) -> Graph:
    """Return the directed graph of all packages in main, from apt's lists in `folder`; labels are the sections."""
    return read_debian(folder).graph(directed=True)


def read_debian(folder: str | Path | None = None) -> Tables:
    """Return the packages with descriptions and debtags, and their dependencies."""
    lists = Path(folder or FOLDER)
    packages = _read_packages(lists)
    long = _read_descriptions(lists, {package.description_md5 for package in packages.values()})
    texts = [f"{long.get(each.description_md5, each.description)} {each.tags}" for each in packages.values()]
    return Tables.of(list(packages), texts, _dependencies(packages), [each.section for each in packages.values()])


def _read_packages(folder: Path) -> dict[str, _Package]:
    packages: dict[str, _Package] = {}
    for path in _lists(folder, _PACKAGES, "package list (..._main_binary-..._Packages)"):
        for fields in _stanzas(path):
            if "Package" not in fields:
                raise FormatError(f"{path} has an entry without a package name; run 'apt update'")
            # A list may hold several versions of a package with almost the same dependencies.
            packages.setdefault(fields["Package"], _package(fields))
    # Sorted, so that node numbers and the choice among providers do not depend on the order of a list.
    return dict(sorted(packages.items()))


def _read_descriptions(folder: Path, wanted: set[str]) -> dict[str, str]:
    """Return the whole descriptions (first line and long text) by Description-md5."""
    found = {}
    for path in _lists(folder, _TRANSLATION, "English descriptions (..._main_i18n_Translation-en)"):
        for fields in _stanzas(path):
            if fields.get("Description-md5") in wanted:
                found[fields["Description-md5"]] = fields.get("Description-en", "")
    return found


def _dependencies(packages: dict[str, _Package]) -> Iterable[tuple[str, str]]:
    """Return the distinct pairs of a package and one that it depends on."""
    providers: dict[str, str] = {}
    for package in packages.values():
        for name in package.provides:
            providers.setdefault(name, package.name)
    return dict.fromkeys(
        (package.name, target)
        for package in packages.values()
        for alternatives in package.needs
        if (target := _resolve(alternatives, packages, providers)) is not None and target != package.name
    )


def _resolve(alternatives: tuple[str, ...], packages: dict[str, _Package], providers: dict[str, str]) -> str | None:
    """Return the first alternative that is a package, else the first provider of one, or None."""
    real = (name for name in alternatives if name in packages)
    provided = (providers[name] for name in alternatives if name in providers)
    return next(real, None) or next(provided, None)


def _package(fields: dict[str, str]) -> _Package:
    needs = ",".join(fields[relation] for relation in _RELATIONS if relation in fields)
    return _Package(
        name=fields["Package"],
        section=fields.get("Section", "").rpartition("/")[2],
        needs=tuple(_names(group.split("|")) for group in needs.split(",") if group.strip()),
        provides=_names(fields.get("Provides", "").split(",")),
        description=fields.get("Description", ""),
        description_md5=fields.get("Description-md5", ""),
        tags=_tag_words(fields.get("Tag", "")),
    )


def _names(parts: list[str]) -> tuple[str, ...]:
    return tuple(match[1] for part in parts if (match := _NAME.match(part)))


def _tag_words(tags: str) -> str:
    # "role::program" would become two common words; "role_program" stays one.
    return tags.replace("::", "_").replace(",", " ")


def _lists(folder: Path, pattern: re.Pattern[str], what: str) -> list[Path]:
    found = sorted(path for path in folder.glob("*") if pattern.search(path.name)) if folder.is_dir() else []
    if not found:
        raise InputError(
            f"no {what} in {folder}; run 'apt update' on a Debian machine with English translations on, "
            "or name the folder of its lists with --from DIR"
        )
    return found


def _stanzas(path: Path) -> Iterator[dict[str, str]]:
    """Yield the entries of a list with the fields in use; the lines of a field are joined."""
    fields: dict[str, str] = {}
    current = ""
    for line in _text_lines(path):
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif line[0] in " \t":
            if current in fields:
                fields[current] += f" {line.strip()}" if line.strip() != "." else ""
        else:
            current, _, value = line.partition(":")
            if current in _FIELDS:
                fields[current] = value.strip()
    if fields:
        yield fields


def _text_lines(path: Path) -> Iterator[str]:
    try:
        with _open(path) as source:
            yield from source
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as problem:
        raise FormatError(f"cannot read {path}: {problem}; run 'apt update' to fetch it again") from problem


def _open(path: Path) -> io.TextIOWrapper:
    openers: dict[str, Callable[[Path, str], Any]] = {".lz4": _open_lz4, ".gz": gzip.open, ".xz": lzma.open}
    opener = openers.get(path.suffix, Path.open)
    return io.TextIOWrapper(opener(path, "rb"), encoding="utf-8")


def _open_lz4(path: Path, _mode: str) -> Any:
    # apt stores its lists as lz4 frames, which Arrow can read and the standard library cannot.
    return pa.input_stream(str(path), compression="lz4")
