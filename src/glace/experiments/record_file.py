"""The file of a grid's records: one JSON object per line, in records.jsonl, older ones perhaps in records.jsonl.xz."""

import json
import lzma
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from glace.errors import FormatError, InputError

RECORDS = "records.jsonl"
COMPRESSED = "records.jsonl.xz"
"""Records to be published; `glace reproduce` reads them before those in records.jsonl."""

JsonObject = dict[str, Any]


class Line(NamedTuple):
    """A record and the place it was read from."""

    path: Path
    number: int
    text: str
    record: JsonObject

    def error(self, problem: str) -> InputError:
        """Return an error that names the file and the line."""
        return InputError(f"{self.path}, line {self.number}: {problem}; correct or delete that line")


def key_of(record: Mapping[str, object]) -> tuple[object, ...]:
    """Return what identifies the run that a record is of: task, dataset, method, seed, split and so on."""
    names = ("task", "dataset", "method", "seed", "hidden_share")
    # A record holds the protocol that a run left to its default.
    protocol = record.get("protocol") or ("balanced" if record.get("task") == "induction" else None)
    return (
        *(record.get(name) for name in names),
        record.get("split") or "random",
        bool(record.get("directed")),
        protocol,
    )


class RecordFile:
    """The records of a folder; a new record is appended as a whole line and synced to disk."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / RECORDS
        self.has_partial_line = False
        """Whether `read` found an unfinished last line, as an interrupted process leaves it."""

    def read(self) -> list[Line]:
        """Return all records in order; raises for a damaged line, but ignores an unfinished last one."""
        self.has_partial_line = False
        packed = self.path.with_name(COMPRESSED)
        found = list(self._lines(packed, _decompressed(packed))) if packed.exists() else []
        return found + (list(self._lines(self.path, self.path.read_bytes())) if self.path.exists() else [])

    def append(self, record: Mapping[str, object]) -> None:
        """Append one record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def drop_partial_line(self) -> None:
        """Remove an unfinished last line; its run will be repeated."""
        content = self.path.read_bytes() if self.path.exists() else b""
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            with self.path.open("r+b") as file:
                file.truncate(complete)

    def _lines(self, path: Path, content: bytes) -> Iterator[Line]:
        lines = content.split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                text = line.decode("utf-8")
                record = json.loads(text, parse_constant=_refuse)
                if not isinstance(record, dict):
                    raise ValueError(f"expected a JSON object, found {type(record).__name__}")  # noqa: TRY004
            except ValueError as problem:
                # Only an interrupted process leaves a last line without its end.
                if number == len(lines):
                    self.has_partial_line = True
                    return
                raise Line(path, number, "", {}).error(_reason(problem)) from problem
            yield Line(path, number, text, record)


def _decompressed(path: Path) -> bytes:
    try:
        return lzma.decompress(path.read_bytes())
    except lzma.LZMAError as problem:
        raise FormatError(f"cannot decompress {path}: {problem}; restore the file") from problem


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number; write null instead")


def _reason(problem: ValueError) -> str:
    if isinstance(problem, UnicodeDecodeError):
        return "not UTF-8"
    if isinstance(problem, json.JSONDecodeError):
        return f"not JSON ({problem.msg}, column {problem.colno})"
    return str(problem)
