"""Shared by the examples that ask questions on the command line: a folder, raw files, and commands shown and run."""

import argparse
import csv
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path


def size_in_folder(size: int) -> int:
    """Parse [FOLDER] [--size N], change to the folder, and return N; `size` is its default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", help="where to write the files; a temporary folder by default")
    parser.add_argument("--size", type=int, default=size)
    options = parser.parse_args()
    folder = options.folder or tempfile.mkdtemp()
    Path(folder).mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    print(f"files are in {Path.cwd()}")
    return int(options.size)


def write_csv(name: str, header: str, rows: Iterable[Sequence[object]]) -> None:
    """Write rows to a file, with a header such as "name,description"; None is an empty cell."""
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header.split(","), *rows])


def glace(command: str) -> None:
    """Show a command of glace and run it; end if it fails."""
    print(f"\n$ glace {command}", flush=True)
    status = run(shlex.split(command))
    if status:
        sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run glace as a shell would; returns the exit status."""
    return subprocess.run([sys.executable, "-m", "glace", *arguments], check=False).returncode
