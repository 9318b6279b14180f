"""Mutation testing: change one thing in the source, run the unit's tests, and see whether they notice.

    python -m tools.mutate storage -n 25
    python -m tools.mutate training --tests tests/training tests/estimators -n 25 --seconds 1200 --n-jobs 2

Mutants are sampled with a fixed random state from all places where one of these changes is possible: a comparison
negated or moved by its boundary, plus and minus or times and divide exchanged, a number raised by one, `and` and `or`
exchanged, a condition negated, a returned value replaced by None, a statement dropped. Places that a test has no
business with are left out: docstrings, messages of errors, assertions, annotations, log lines, large sizes of buffers.

The tests run in scratch copies of the repository, so the working tree is never touched. A mutant that makes the tests
fail, or run for more than three times as long as without it, is caught.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]
NOT_COPIED = (
    ".git",
    ".venv",
    "results",
    "images",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    "_build",
)
LARGEST_NUMBER = 1000
"""Numbers from here on are sizes of blocks and buffers, where one more changes nothing."""

NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
EXCHANGED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
QUIET = {"print", "say", "log", "debug", "info", "warning", "progress", "listener", "warn"}
"""Calls of these speak to people; what they say is not tested word by word."""


@dataclass(frozen=True)
class Mutant:
    """One change: the node (by its number in `ast.walk`'s order) and which of its changes."""

    path: Path
    line: int
    what: str
    node: int
    change: int

    def source(self) -> str:
        """Return the changed module as text."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        parents = {id(child): parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        node = list(ast.walk(tree))[self.node]
        replace(parents[id(node)], node, list(changes(node))[self.change][1])
        return ast.unparse(ast.fix_missing_locations(tree))

    def __str__(self) -> str:
        """Return place and change, for people."""
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}"


def replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put a node in the place of another."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list) and any(each is old for each in value):
            value[:] = [new if each is old else each for each in value]


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a node can be changed to, each with a description."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for table in (NEGATED, BOUNDARY):
            if type(node.ops[0]) in table:
                yield described(node, ops=[table[type(node.ops[0])]()])
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in EXCHANGED and not holds_text(node):
        yield described(node, op=EXCHANGED[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield described(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield described(node, value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value < LARGEST_NUMBER:
        yield described(node, value=node.value + 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"{ast.unparse(node)} becomes {ast.unparse(node.operand)}", node.operand
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare | ast.Constant):
        yield (f"condition {short(node.test)} negated", with_fields(node, test=ast.UnaryOp(ast.Not(), node.test)))
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield f"{short(node)} becomes return None", with_fields(node, value=ast.Constant(None))
    if is_droppable(node):
        yield f"dropped: {short(node)}", ast.Pass()


def described(node: ast.AST, **fields: object) -> tuple[str, ast.AST]:
    """Return a node with other fields, and a description of the change."""
    new = with_fields(node, **fields)
    return f"{short(node)} becomes {short(new)}", new


def with_fields(node: ast.AST, **fields: object) -> ast.AST:
    """Return a shallow copy of a node with other fields."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def short(node: ast.AST) -> str:
    """Return the source of a node, on one line and cut."""
    text = " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def holds_text(node: ast.BinOp | ast.AugAssign) -> bool:
    """Return whether a sum is one of texts or lists, where minus would only be a type error."""
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    text = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)
    return any(
        isinstance(side, text) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in sides
    )


def is_droppable(node: ast.AST) -> bool:
    """Return whether a statement can go without leaving a name undefined."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Break | ast.Continue)


def is_left_out(node: ast.AST) -> bool:
    """Return whether nothing below this node is changed."""
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift):  # 1 << 20: the size of a buffer
        return True
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__repr__", "__str__", "_repr_html_")
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2].lstrip("_") in QUIET
    return False


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below in which to look for changes: not annotations, decorators, what is raised."""
    if is_left_out(node) or isinstance(node, ast.Raise):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and is_left_out(node.value):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST))


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        below = list(children(node))
        waiting += reversed(below)
        quiet = isinstance(node, ast.Expr) and not below
        if is_left_out(node) or quiet:
            continue
        for number, (what, _) in enumerate(changes(node)):
            yield Mutant(path, getattr(node, "lineno", 0), what, numbers[id(node)], number)


class Copies:
    """Scratch copies of the repository, one for each parallel run."""

    def __init__(self, folder: Path, count: int) -> None:
        self.free: Queue[Path] = Queue()
        for number in range(count):
            target = folder / str(number)
            shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
            self.free.put(target)

    def outcome(self, mutant: Mutant | None, tests: Sequence[str], limit: float | None) -> tuple[bool, float]:
        """Run the tests with one mutant (None: none); return whether they passed, and the seconds."""
        place = self.free.get()
        began = time.perf_counter()
        try:
            if mutant is None:
                return passes(place, tests, limit), time.perf_counter() - began
            changed = place / mutant.path.relative_to(ROOT)
            before = changed.read_text(encoding="utf-8")
            changed.write_text(mutant.source(), encoding="utf-8")
            try:
                return passes(place, nearest_first(place, tests, mutant.path), limit), time.perf_counter() - began
            finally:
                changed.write_text(before, encoding="utf-8")
        finally:
            self.free.put(place)


def nearest_first(place: Path, tests: Sequence[str], path: Path) -> list[str]:
    """Return the tests with the files named like the module in front: they are the likeliest to catch a mutant."""
    files = [each for name in tests for each in sorted((place / name).rglob("test_*.py"))]
    alike = [str(each.relative_to(place)) for each in files if path.stem in each.stem]
    return [*alike, *tests]


def passes(place: Path, tests: Sequence[str], limit: float | None) -> bool:
    """Return whether the tests pass in this copy, within so many seconds."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(place / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def files_of(unit: str) -> list[Path]:
    """Return the source files of a unit: a folder or a module of src/glace, or one file by its path from there."""
    folder = ROOT / "src" / "glace" / unit
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    if not all(path.is_file() for path in files):
        sys.exit(f"no unit {unit!r} in src/glace; give a folder or a module, such as storage or fitted")
    return files


def tests_of(unit: str) -> str:
    """Return where the tests of a unit are."""
    top = Path(unit).parts[0].removesuffix(".py")
    return next(name for name in (f"tests/{top}", f"tests/test_{top}.py") if (ROOT / name).exists())


def sampled(units: Sequence[str], count: int, random_state: int) -> list[Mutant]:
    """Return this many mutants of the units, in random order."""
    everything = [mutant for unit in units for path in files_of(unit) for mutant in mutants_of(path)]
    return random.Random(random_state).sample(everything, min(count, len(everything)))


def run(arguments: argparse.Namespace) -> int:
    """Test the mutants and print what came out; return the exit code, 1 if too few are caught."""
    mutants = sampled(arguments.units, arguments.n, arguments.random_state)
    tests = arguments.tests or [tests_of(unit) for unit in arguments.units]
    ends = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        copies = Copies(Path(folder), arguments.n_jobs)
        passed, seconds = copies.outcome(None, tests, None)
        if not passed:
            print("the tests fail without any mutant; nothing to measure")
            return 2
        print(f"{len(mutants)} mutants; the tests take {seconds:.1f} s without any", flush=True)

        def tested(mutant: Mutant) -> bool | None:
            if time.monotonic() > ends:
                return None
            survived, spent = copies.outcome(mutant, tests, 3 * seconds + 10)
            print(f"{'SURVIVED' if survived else 'caught  '} {mutant}  ({spent:.1f} s)", flush=True)
            return not survived

        with ThreadPoolExecutor(arguments.n_jobs) as pool:
            outcomes = [each for each in pool.map(tested, mutants) if each is not None]
    caught, left = sum(outcomes), len(mutants) - len(outcomes)
    print(f"{caught} of {len(outcomes)} caught ({caught / max(len(outcomes), 1):.0%}); {left} not run")
    return 0 if caught >= arguments.least * len(outcomes) else 1


def main() -> None:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("units", nargs="+", help="folders or modules of src/glace, such as storage or training/loop")
    parser.add_argument("--tests", nargs="+", help="test files or folders, if not those of the units")
    parser.add_argument("-n", type=int, default=25, help="number of mutants")
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1800, help="start no mutant after this time")
    parser.add_argument("--n-jobs", type=int, default=1, help="parallel runs, each in its own copy")
    parser.add_argument("--least", type=float, default=0.9, help="exit with 1 if a smaller share is caught")
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
